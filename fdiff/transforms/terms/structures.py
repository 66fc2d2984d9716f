"""Structures of derivatives: requests, blocks, conditions: docs/decisions/terms-and-cuts.md."""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...named_tuples import NamedTuple
from ...ops.control.loop import LOOP
from ...ops.control.while_loop import WHILE
from ...tape import Tape
from ...user_lines import Line, show_line
from ..custom_calls import CALL
from ..late_steps import step_where

with_declared_calls = step_where(
    (CALL, LOOP, WHILE), "terms.declared_patterns", "with_declared_calls"
)


class StructureRequest(NamedTuple):
    """A request for the derivative of a tape with respect to the inputs `wrt`."""

    wrt: tuple[int, ...]
    mode: str = "auto"
    by_columns: bool = False  # entries are sorted by columns
    hessian: bool = False  # the tape computes gradients, each with an output for each of `wrt`
    lower: bool = False  # of a Hessian the lower triangle alone
    types: tuple[ArrayType, ...] = ()  # of the dense blocks
    dense: bool = False  # dense arrays, not the entries alone
    budget: int = 0  # bytes that lists of entries of dense arrays may take


class SparseBlock(NamedTuple):
    """The structure of a block: where each row (or column) starts, and the other indices."""

    shape: tuple[int, int]
    starts: np.ndarray
    indices: np.ndarray


class StructureFacts:
    """Costs of a structure: `price` compares both modes, `cuts` are the lines of cuts."""

    def __init__(self, mode: str, terms: int = 0, products: int = 0) -> None:
        self.mode, self.terms, self.products = mode, terms, products
        self.listed = self.stored = self.price = 0
        self.cuts: list[Line | None] = []

    def rows(self) -> list[str]:
        """Lines for reports: one with numbers, and one for each user's line with a cut."""
        entries = f"{self.stored:,} entries of {self.listed:,} listed, {self.products:,} products"
        head = f"{self.mode} mode, {self.terms:,} terms, {len(self.cuts):,} cuts: {entries}"
        lines = dict.fromkeys(show_line(line).strip() for line in self.cuts if line is not None)
        return [f"{head}; price {self.price:,}", *[f"cut: {line}" for line in lines]]

    def add(self, other: StructureFacts) -> None:
        self.terms += other.terms
        self.products += other.products
        self.listed += other.listed
        self.price += other.price
        self.cuts += other.cuts


class SparseTape(NamedTuple):
    """The tape of the values of all blocks, their structure, and the conditions of the structure.

    It holds while the inputs `pins` have these bytes, and while `index_tape`, of the same
    inputs, gives these `values` (None: no index is computed from floats).
    """

    tape: Tape
    blocks: list[SparseBlock]
    facts: StructureFacts
    pins: dict[int, bytes]
    index_tape: Tape | None
    values: tuple[bytes, ...]
    lasting: bool  # the values of all inputs that were asked for were there
