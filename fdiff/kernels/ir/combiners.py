"""Operators of reductions: in which order their operands may be combined is part of the program."""

from __future__ import annotations

from enum import Enum

from ...kernel_rule import Kind


class Combiner(Enum):
    """An associative and commutative operator that folds many values into one, in any order.

    What depends on the order (a recurrence, the first of several extreme entries, the last of
    several stores) has no combiner. The value is the text of the operator: where there are two,
    compilers may reassociate the first, and take the second as it stands.
    """

    ADD = ("rt.add({0}, {1})", "{0} + {1}")
    MULTIPLY = ("rt.multiply({0}, {1})",)
    MAXIMUM = ("rt.maximum({0}, {1})",)
    MINIMUM = ("rt.minimum({0}, {1})",)
    OR = ("{0} | {1}",)
    AND = ("{0} & {1}",)

    def exact(self, dtype: str) -> bool:
        """Whether every order gives the same result, and not only up to rounding."""
        return self not in (Combiner.ADD, Combiner.MULTIPLY) or dtype[0] != "f"

    def text(self, dtype: str) -> str:
        """The operator in ``{0}`` and ``{1}``, for values of this dtype."""
        return self.value[0 if dtype[0] == "f" else -1]


# The kind of reduction that each operator is of.
KINDS = {
    Combiner.ADD: Kind.SUM,
    Combiner.MULTIPLY: Kind.PROD,
    Combiner.MAXIMUM: Kind.MAX,
    Combiner.MINIMUM: Kind.MIN,
    Combiner.OR: Kind.ANY,
    Combiner.AND: Kind.ALL,
}
