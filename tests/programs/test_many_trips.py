"""Simulators of users with many more steps than elsewhere: plain loops that are traced once."""

import numpy as np
import pytest
import references
from faults_support import LONG
from loop_ways import WAYS
from user_code import (
    euler,
    gray_scott,
    heat,
    hmm,
    kalman,
    lattice_boltzmann,
    lennard_jones,
    lstm,
    nbody,
    sir,
)

import fdiff

MORE = 100 if LONG else 8  # times the steps of test_simulators.py
RNG = np.random.default_rng(5)
CELLS = (np.arange(8) + 0.5) / 8
ORBITS = RNG.normal(size=(4, 3)), 0.3 * RNG.normal(size=(4, 3)), np.array([0.7, 1.1, 0.9, 1.6])
RHO, FLOW = 1.0 + 0.05 * RNG.normal(size=(6, 5)), 0.1 + 0.02 * RNG.normal(size=(6, 5))
OBSTACLE = np.zeros((6, 5), dtype=bool)
OBSTACLE[2:4, 1:3] = True
GAS = [1.0 + 0.3 * np.sin(5 * CELLS), 0.4 * np.cos(4 * CELLS + 0.3), 1.0 + 0.2 * np.sin(7 * CELLS)]
ATOMS = np.stack(np.meshgrid([0.2, 1.6], [0.3, 1.7], [0.1, 1.5]), -1).reshape(-1, 3)[:4]
U0, V0 = 1 - 0.3 * RNG.uniform(size=(5, 6)), 0.4 * RNG.uniform(size=(5, 6))
GATES = RNG.normal(size=(4, 12)) * 0.4, RNG.normal(size=(3, 3)), RNG.normal(size=(4, 3))
TEXT = RNG.normal(size=(12 * MORE, 3))
SEEN = np.cumsum(RNG.normal(size=12 * MORE)) + RNG.normal(size=12 * MORE)
GAPS = np.where(np.arange(12 * MORE) % 5 == 3, np.nan, SEEN)
NOISE = np.array([-0.5, 0.3])
STATES = np.zeros((3, 3)), np.array([-1.0, 0.4, 2.0]), np.zeros(3), SEEN[: 6 * MORE] / 9
RATES = np.array([0.16, 0.08, 0.035, 0.06])
PEOPLE = np.array([990.0, 6.0, 4.0, 0.0])

PROGRAMS = {
    "Kalman filter": (kalman.log_likelihood, (NOISE, np.zeros(2), SEEN, 0.7), 0),
    "with gaps": (kalman.log_likelihood, (NOISE, np.zeros(2), GAPS, 0.7), 0),
    "smoother": (kalman.rts_smoother, (NOISE, np.zeros(2), SEEN, 0.7), 0),
    "hidden states": (hmm.log_likelihood, STATES, 1),
    "Gray-Scott": (gray_scott.mismatch, (RATES, U0, V0, V0[::-1].copy(), 4 * MORE), 0),
    "lattice Boltzmann": (lattice_boltzmann.enstrophy, (0.8, RHO, FLOW, OBSTACLE, 3 * MORE), 0),
    "orbits": (nbody.simulate, (*ORBITS, 0.5, 0.02 / MORE, 3 * MORE), 2),
    "gas": (euler.rusanov_upwind, (*GAS, 1 / 8, 0.02 / MORE, 3 * MORE), 1),
    "heat": (heat.misfit, (1 + 0.5 * CELLS**2, np.sin(3 * CELLS), CELLS, 0.1, 0.02, 3 * MORE), 0),
    "atoms": (lennard_jones.verlet, (ATOMS, ORBITS[1], 3.0, 1.6, 1.0, 1.1, 1e-3, 3 * MORE), 4),
    "epidemic": (sir.daily_cases, (np.array([0.9, 0.4, 0.25, 0.3]), PEOPLE, 5 * MORE), 0),
    "LSTM": (lstm.objective, (*GATES, TEXT), 0),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_trips(name, way, monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", way)
    fdiff.cache_clear()
    function, args, argnum = PROGRAMS[name]
    total = lambda *args: sum(np.sum(part * part) for part in parts(function(*args)))
    slope = fdiff.grad(total, argnums=argnum)(*references.copies(args))
    outputs = references.flat(function(*references.copies(args)))
    expected = 2.0 * outputs @ references.jacobian(function, args, argnum)
    np.testing.assert_allclose(np.ravel(slope), expected, atol=1e-11 * np.max(np.abs(expected)))


def parts(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)
