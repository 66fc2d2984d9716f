"""The code of a private copy: the function's own, or one whose loops ask a driver first."""

from __future__ import annotations

from collections.abc import Generator
from contextvars import ContextVar
from types import CodeType, FunctionType
from typing import Protocol

from ...foreign_errors import contextmanager
from ...process.forking import late


class LoopDriver(Protocol):
    """The protocol of the loop driver; `sources` hold refusals of loops by place."""

    sources: dict[str, str]

    def __call__(self, *args: object) -> object: ...


# What loops ask first in the trace under way.
_driver: ContextVar[LoopDriver | None] = ContextVar("_driver", default=None)
with_loop_functions = late("loop_rewriting", __package__, "with_loop_functions")


@contextmanager
def driven(driver: LoopDriver | None) -> Generator[None]:
    """Let loops of functions that are traced ask a driver first; None leaves them as they are."""
    if driver is None:
        yield
        return
    before = _driver.get()
    try:
        _driver.set(driver)
        yield
    finally:
        _driver.set(before)


def code_of(fn: FunctionType) -> CodeType:
    """The code that the private copy of a function runs."""
    driver = _driver.get()
    code: CodeType | None = None
    if driver is not None:
        code = with_loop_functions(fn, driver, driver.sources)
    return code or fn.__code__
