"""The class of the builder that appends the instructions of formulas: LLVM's own, or a GPU's."""

from __future__ import annotations

from collections.abc import Generator
from contextvars import ContextVar

from llvmlite import ir

from ...foreign_errors import contextmanager

_class: ContextVar[type[ir.IRBuilder]] = ContextVar("builder", default=ir.IRBuilder)


def new_builder(block: ir.Block) -> ir.IRBuilder:
    """A builder at the end of a block."""
    return _class.get()(block)


def for_this_machine() -> bool:
    """Whether formulas are written for the processor of this machine."""
    return _class.get() is ir.IRBuilder


@contextmanager
def building_by(class_: type[ir.IRBuilder]) -> Generator[None]:
    """A context in which functions are written by another class of builder."""
    before = _class.get()
    try:
        _class.set(class_)
        yield
    finally:
        _class.set(before)
