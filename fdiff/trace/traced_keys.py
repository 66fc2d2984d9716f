"""Text, bytes and hashes made of a traced value: they serve as keys, never as numbers."""

from __future__ import annotations

from typing import cast

from .memoised_branches import is_memoised_key
from .trace_stack import stack


def _is_memoised(key: object) -> bool:
    """Whether a dict of the user has this key from an earlier call: it is not to match."""
    return bool(stack.traces) and is_memoised_key(key, stack.traces[0])


class Text(str):
    """Text made of a traced value. To read a number out of it would drop the derivative."""

    __slots__ = ()
    __fdiff_traced__ = True

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True and not (type(other) is str and _is_memoised(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class TracedKey:
    """Bytes or a hash made of a traced value for which a derivative is taken: only a key."""

    __slots__ = ("plain",)
    __fdiff_traced__ = True

    def __init__(self, plain: bytes | int) -> None:
        self.plain = plain

    def __hash__(self) -> int:
        return hash(self.plain)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TracedKey):
            return self.plain == other.plain
        return self.plain == other and not _is_memoised(other)

    def __len__(self) -> int:
        return len(cast("bytes", self.plain))
