"""The contents of the user's containers and objects before a run that must leave nothing behind."""

from __future__ import annotations

import copy
import operator
from collections import deque
from collections.abc import Collection
from types import ModuleType
from typing import Any, cast


class KeptState:
    """Containers and objects without proxies, each with its contents before a `tentative` run."""

    def __init__(self, *, tentative: bool) -> None:
        self.tentative = tentative
        self._held: dict[int, tuple[Any, Any]] = {}

    def remember(self, value: object) -> None:
        """Called before the run can change a container or object for the first time."""
        if not self.tentative or id(value) in self._held or isinstance(value, ModuleType):
            return
        if isinstance(value, dict | list | set | deque):
            self._held[id(value)] = value, copy.copy(cast("object", value))
        elif isinstance(own := getattr(value, "__dict__", None), dict):
            self.remember(own)
            for part in [*own.values()]:
                if isinstance(part, dict | list | set | deque):
                    self.remember(part)

    def restore(self) -> None:
        """Put back what they held."""
        for value, before in self._held.values():
            if not _same(value, before):
                value.clear()
                (value.update if isinstance(value, dict | set) else value.extend)(before)
        self._held.clear()


def _same(value: Collection[object], before: Collection[object]) -> bool:
    if len(value) != len(before):
        return False
    if isinstance(value, dict) and isinstance(before, dict):
        return all(map(operator.is_, value, before)) and all(
            map(operator.is_, value.values(), before.values())
        )
    return all(map(operator.is_, value, before))
