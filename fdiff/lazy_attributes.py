"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

from .foreign_errors import uninterrupted_entry

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - as in functools
    """``functools.cached_property`` as it is from Python 3.12 on: without a lock.

    That of Python 3.11 holds a lock, one for all instances, while it computes. A child forked
    meanwhile by another thread would wait for it for ever. Two threads may compute an attribute at
    the same time; they find the same.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    @uninterrupted_entry  # `hasattr` asks it of a class, and drops any AttributeError
    def __get__(self, instance: object, owner: type) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._function(instance)
        return value
