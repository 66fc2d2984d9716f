"""Domains from which the tests draw arguments of an op: away from its kinks, jumps and singularities."""

from __future__ import annotations

import fdiff.intact_numpy as np


def real(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Real numbers away from zero and from small integers, where kinks and jumps lie."""
    return (rng.integers(0, 3, shape) + rng.uniform(0.15, 0.4, shape)) * rng.choice([-1.0, 1.0], shape)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(0.3, 2.4, shape)


def unit(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(-0.9, 0.9, shape)


def above_two(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(2.2, 4.0, shape)


def above_one(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(1.2, 3.0, shape)


def truth(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(size=shape) > 0.5


def whole(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-7, 8, shape)


def count(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 5, shape)


def thousand(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.full(shape, 1e3)


def plane(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Complex numbers away from the axes, where the branch cuts of most functions lie."""
    return real(rng, shape) + 1j * real(rng, shape)
