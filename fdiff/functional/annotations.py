"""Argument and result types of the operators, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypedDict, TypeVar

import fdiff.intact_numpy as np

if TYPE_CHECKING:
    from .rules.custom_derivatives import CustomFunction

P = ParamSpec("P")  # the arguments of the user's function
R = TypeVar("R")  # its result
T = TypeVar("T")
X = TypeVar("X")  # the point, and what has its structure: a gradient, a product

Array = np.ndarray
Point = Array | np.number | complex | Sequence[float] | Sequence[Sequence[float]]
Entries = Array | np.number | complex  # an output whose derivative is one array
AtPoint = Callable[Concatenate[Any, P], R]  # a function of a point and of further arguments
Places = int | tuple[int, ...]  # the positions of the differentiated arguments

# What a derivative is: one array, or arrays nested like the results and the arguments.
Derivatives: TypeAlias = Any
AnyCustomFunction: TypeAlias = "CustomFunction[..., Any]"  # of some function of the user

A = TypeVar("A", bound=Array)  # one array, of a dtype of its own


# Keywords that the overloads of an operator share.
class ProductKeywords(TypedDict, total=False):
    """The keywords of `vjp`, `jvp`, `hvp` and `vhp`."""

    create_graph: bool
    strict: bool
    device: str


class GradientKeywords(TypedDict, total=False):
    """The keywords of `grad` and `value_and_grad` that do not change the type of the result."""

    complex_inputs: str
    device: str


class DiagonalKeywords(TypedDict, total=False):
    """The keywords of `hessian_diagonal`."""

    chunk_size: int | str
    device: str


class BlockKeywords(GradientKeywords, total=False):
    """The keywords of `jacrev` and `jacfwd`."""

    chunk_size: int | str


class HessianKeywords(ProductKeywords, total=False):
    """The keywords of `hessian`."""

    chunk_size: int | str
    vectorize: bool
    outer_jacobian_strategy: str | None


class JacobianKeywords(ProductKeywords, total=False):
    """The keywords of `jacobian`."""

    mode: str
    chunk_size: int | str
    complex_inputs: str
    vectorize: bool
