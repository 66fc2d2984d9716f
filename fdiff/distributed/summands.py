"""The summand of a sum in a trace: a function of the user, or an operator of it.

Terms are the parameters of nodes on the client (`traced_sums.py`), and run on workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..arraytype import ArrayType
from ..dispatch.program import OwnsPrograms
from ..functional.operators.gradients import value_and_grad
from ..functional.operators.products import jvp, vjp
from ..functional.operators.vectorized_map import vmap
from ..hooks import Function
from ..trace import private, tracing
from ..tracebacks import name_of
from ..tree import Spec, flatten, unflatten

Places = tuple[int, ...]


class Total(Protocol):
    """The protocol of a sum (`sums.SumOver`)."""

    f: Function

    @property
    def many(self) -> Sequence[object]: ...
    def of(self, f: Function) -> Total: ...
    def total(
        self, args: Sequence[object], kwargs: dict[str, object], *, first: bool = False
    ) -> Any: ...


class Term(OwnsPrograms):
    """The parameter of a node: a function that is summed, the partitions, the types of the sums.

    The function takes `count` operands, then the arrays of a partition, and returns a tuple.
    Derivatives of equal nodes are equal: they are made once. Workers get what `sent` tells.
    """

    __fdiff__ = "sum_over"
    transient = True  # the user may drop it: nothing is kept of it between traces
    fixed_tier = True
    slopes: Places = ()  # of a value and its gradient: the operands that this is for
    types: tuple[ArrayType, ...] = ()
    total: Total

    def __init__(self, name: str, count: int, *sent: object) -> None:
        self.__name__, self.count, self._sent = name, count, sent
        self.programs = {}
        self._derived: dict[object, Term] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._sent

    def __repr__(self) -> str:
        return self.__name__

    def __call__(self, *args: object) -> tuple[object, ...]:
        raise NotImplementedError

    def over(self, total: Total, types: Sequence[ArrayType]) -> Term:
        """The term, for the partitions of `total`."""
        self.total, self.types = total.of(self), tuple(types)
        return self

    def derived(
        self, operator: str, places: Places, results: Places, types: Sequence[ArrayType], more: int
    ) -> Term:
        """The term that an operator makes of this term; it takes `more` further operands."""
        key = operator, places, results, *types
        if key not in self._derived:
            term = OperatorTerm(operator, self, self.count + more, places, results)
            self._derived[key] = term.over(self.total, types)
        return self._derived[key]


class Flat(Term):
    """A function of the numeric leaves of its parameters, which gives the leaves of the result.

    `leaves` has the parameters that are no numbers, at the places that are not among `places`.
    """

    fixed_tier = False

    def __init__(self, f: Function, spec: Spec, leaves: Sequence[object], places: Places) -> None:
        super().__init__(name_of(f), len(places), f, spec, leaves, places)
        self.f, self.spec, self.leaves, self.places = f, spec, leaves, places

    def __call__(self, *args: object) -> tuple[object, ...]:
        leaves, count = [*self.leaves], self.count
        for k, leaf in zip(self.places, args[:count], strict=True):
            leaves[k] = leaf
        params, named = unflatten(self.spec, leaves)
        f = private(self.f) if tracing() else self.f
        return tuple(flatten(f(*params, *args[count:], **named))[0])


class Chosen(Term):
    """Some results of another term."""

    def __init__(self, term: Term, results: Places) -> None:
        super().__init__(term.__name__, term.count, term, results)
        self.term, self.results = term, results

    def __call__(self, *args: object) -> tuple[object, ...]:
        results = self.term(*args)
        return tuple([results[k] for k in self.results])


class OperatorTerm(Term):
    """An operator of another term, of which the operands `places` move and the `results` count."""

    def __init__(
        self, operator: str, inner: Term, count: int, places: Places, results: Places
    ) -> None:
        name = f"{operator}({inner.__name__})"
        super().__init__(name, count, operator, inner, count, places, results)
        self.operator, self.inner, self.places = operator, inner, places
        self.slopes = places if operator == "value_and_grad" else ()
        self._chosen = Chosen(inner, results)
        self._prepared: dict[int, Function] = {}  # by the number of arrays in a partition

    def __call__(self, *args: object) -> tuple[object, ...]:
        operands, data = args[: self.count], args[self.count :]
        prepared = self._prepared.get(len(data))
        if prepared is None:
            prepared = self._prepared[len(data)] = self._prepare(len(data))
        if self.operator == "vmap":
            return prepared(*args)
        if self.slopes:
            value, slopes = prepared(*args)
            return (value, *slopes)
        plain = self.inner.count
        point = tuple([operands[k] for k in self.places])
        others = [operands[k] for k in range(plain) if k not in self.places]
        return prepared(point, operands[plain:], *others, *data)[1]

    def _prepare(self, arrays: int) -> Function:
        if self.operator == "vmap":
            axes = [0 if k in self.places else None for k in range(self.count)]
            return vmap(self.inner, in_axes=(*axes, *[None] * arrays))
        if self.slopes:
            return value_and_grad(First(self.inner, (0,)), argnums=self.places)
        return (jvp if self.operator == "jvp" else vjp)(self._chosen, argnums=self.places)


class First(Chosen):
    """The first result of another term, not in a tuple."""

    def __call__(self, *args: object) -> Any:
        return self.term(*args)[0]


class JointTerm(Term):
    """Several terms, each of the operands at its places."""

    def __init__(self, terms: Sequence[Term], places: Sequence[Places], count: int) -> None:
        names = ", ".join([term.__name__ for term in terms])
        super().__init__(names, count, terms, places, count)
        self.terms, self.places = terms, places

    def __call__(self, *args: object) -> tuple[object, ...]:
        data, pairs = args[self.count :], zip(self.terms, self.places, strict=True)
        return tuple([x for f, places in pairs for x in f(*[args[k] for k in places], *data)])
