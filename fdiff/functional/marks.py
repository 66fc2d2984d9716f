"""Results made of marks instead of arrays: how a plan builds them from what its kernel gives."""

from __future__ import annotations

from collections.abc import Sequence


class Mark:
    """Stands for an output of a kernel, or for the scalar in it."""

    __slots__ = ("output", "scalar")

    def __init__(self, output: int, *, scalar: bool = False) -> None:
        self.output = output
        self.scalar = scalar

    def __getitem__(self, key: object) -> Mark:
        if key != ():
            raise TypeError("a plan computes with what its kernel gives")
        return Mark(self.output, scalar=True)


def spelled(result: object, names: Sequence[str]) -> str | None:
    """The expression of a result in the names of outputs; None if it holds more than those."""
    if isinstance(result, Mark):
        return names[result.output] + "[()]" * result.scalar
    if type(result) is not tuple:
        return None
    parts = [spelled(part, names) for part in result]
    return None if None in parts else f"({''.join(f'{part}, ' for part in parts)})"


def postfix(result: object) -> tuple[list[int], set[int]] | None:
    """The same for `caller`, in its postfix notation, and which outputs are scalars in it."""
    if isinstance(result, Mark):
        return [result.output], {result.output} if result.scalar else set()
    if type(result) is not tuple:
        return None
    order: list[int] = []
    scalars: set[int] = set()
    for part in result:
        found = postfix(part)
        if found is None:
            return None
        order += found[0]
        scalars |= found[1]
    return [*order, -1 - len(result)], scalars
