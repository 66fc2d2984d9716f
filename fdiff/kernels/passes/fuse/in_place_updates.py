"""In-place update analysis: which stores need no copy of the array they change.

``y = update(x, part)`` may write over `x` if `x` lies in memory of the kernel and all its readers
can come first. A reader that cannot, because it needs `y` too, or because it is the store itself
and reads other entries of `x`, keeps what it needs: the values it computes of `x` are stored before
`x` is written over, where that is less than a copy of `x`.

After an idea of P. Hudak and A. Bloss, The aggregate update problem in functional programming
systems, POPL 1985; the conditions are our own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ....kernel_rule import Kind
from ...ir.effect import Effect, EffectKind
from ...ir.index_expressions import nonunit
from ...ir.kernel_graph import Operation
from ..materialise.materialisation import Plan, make_plan
from ..materialise.value_numbering import Key
from .dependences import dependences_of
from .effect_order import EffectOrder
from .effects import effects_of_plan
from .memory_reads import fused_nodes, reads_of

_ROUNDS = 4


def update_in_place(plan: Plan, also: Iterable[int]) -> tuple[Plan, list[Effect]]:
    """The plan with as many stores in place as possible, and its effects.

    `also` are the nodes that `plan` stores because they would be computed too often.
    """
    stored = set(also)
    rounds = 0
    while True:
        rounds += 1
        effects = effects_of_plan(plan)
        copies_of = {
            number: [i for i in map(plan.storage_of, effect.copies_of) if plan.is_writable(i)]
            for number, effect in enumerate(effects)
            if effect.copies_of
        }
        if not any(copies_of.values()):
            return plan, effects
        stores = _StoresInPlace(plan, effects)
        for copy, sources in copies_of.items():
            any(stores.try_over(source, effects[copy].node, copy) for source in sources)
        if rounds == _ROUNDS or not stores.saved:
            plan = replace(plan, overwrites=stores.found)
            return plan, effects_of_plan(plan)
        stored |= stores.saved
        plan = make_plan(plan.analysis, stored, plan)


@dataclass
class _StoresInPlace:
    """The analysis of one list of effects, which it knows by their numbers.

    `found` has the node that each store writes over, and `saved` the nodes to be stored so that
    others can be in place. `made` has the effects that write each node, `readers` those that read
    it, with the keys they read.
    """

    plan: Plan
    effects: list[Effect]
    found: dict[int, int] = field(default_factory=dict)
    saved: set[int] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)  # the nodes that stores write over

    def __post_init__(self) -> None:
        plan = self.plan
        self.made: dict[int, list[int]] = {}
        self.readers: dict[int, dict[int, list[Key]]] = {}
        for r, effect in enumerate(self.effects):
            self.made.setdefault(effect.node, []).append(r)
            for key in reads_of(plan, effect):
                keys = self.readers.setdefault(plan.storage_of(key.node), {})
                keys.setdefault(r, []).append(key)
        self.order = EffectOrder(dependences_of(plan, self.effects))

    def try_over(self, source: int, node: int, copy: int) -> bool:
        """Let the stores of `node` write over `source`, without the effect `copy`, if they may.

        If too much of `source` is read later, False. If it is little, True, and that is `saved`: in
        the next round nothing will be read too late.
        """
        plan, ops = self.plan, self.plan.ops
        if source in self.taken or source in plan.outputs:
            return False
        carry = plan.analysis.carries.get(source, -1)
        if carry >= 0 and plan.outputs.get(node, carry) != carry:
            return False
        if ops[source].dtype != ops[node].dtype:
            return False
        writers = [w for w in self.made[node] if w != copy]
        readers = {r: keys for r, keys in self.readers.get(source, {}).items() if r != copy}
        makers = self.made.get(plan.producer_of(source), ())
        if any(self.order.may_need(m, w) for w in writers for m in makers):
            return False
        late = [r for r, keys in readers.items() if self._too_late(r, keys, writers)]
        if not late:
            self.found[node] = source
            self.taken.add(source)
            for r in (*readers, *makers):
                for w in writers:
                    if r != w:
                        self.order.put_before(r, w)
            return True
        behind = self.order.behind(writers, late)
        saved = set[int]()
        for r in late:
            if (values := self._values_to_save(r, source, writers[0], behind)) is None:
                return False
            saved |= values
        self.saved |= saved
        return True

    def _too_late(self, r: int, keys: list[Key], writers: list[int]) -> bool:
        """Whether effect `r` reads entries of the source that the `writers` have written over."""
        if r in writers:
            effect = self.effects[r]
            place = (effect.dims, effect.index)
            alone = len(writers) == 1 and not effect.positions
            return not (alone and all((k.dims, k.index) == place for k in keys))
        return any(self.order.may_need(r, w) for w in writers)

    def _values_to_save(
        self, r: int, source: int, writer: int, behind: set[int] | None
    ) -> set[int] | None:
        """What effect `r` computes of `source`, to be stored before `source` is written over.

        The last values that need none of the effects `behind`, or of all; None if too large.
        """
        plan, ops = self.plan, self.plan.ops
        effect, store = self.effects[r], ops[self.effects[writer].node]
        if effect.kind is EffectKind.CALL:
            return None
        tops = [v[0] for v in (*effect.values, *effect.positions)]
        own = {effect.node} if effect.compute else set[int]()
        inner = fused_nodes(plan, tops, plan.names.keys() - own)
        saved: set[int] = set()
        reads: dict[int, bool] = {}  # whether a node is computed from the source
        waits: dict[int, bool] = {}  # whether it is computed from what the writers store
        for i in sorted(inner):
            leaves = [a for a in ops[i].args if a not in inner]
            within = [a for a in ops[i].args if a in inner]
            of_source = any(plan.storage_of(a) == source for a in leaves)
            reads[i] = of_source or any(reads[a] for a in within)
            written_later = any(self._is_written_later(a, behind) for a in leaves)
            waits[i] = written_later or any(waits[a] for a in within)
        stack = list(dict.fromkeys(tops))
        while stack:
            i = stack.pop()
            if i not in inner:
                if plan.storage_of(i) == source:
                    return None
            elif reads[i] and not waits[i]:
                if not self._is_small(i, source, store):
                    return None
                saved.add(i)
            elif reads[i]:
                stack.extend(ops[i].args)
        return saved

    def _is_written_later(self, leaf: int, behind: set[int] | None) -> bool:
        """Whether a node in memory is written by the effects `behind`, or might be."""
        makers = self.made.get(self.plan.producer_of(self.plan.storage_of(leaf)), ())
        return bool(makers) if behind is None else not behind.isdisjoint(makers)

    def _is_small(self, i: int, source: int, store: Operation) -> bool:
        """Whether storing node `i` costs less than the copy of `source` that `store` would need."""
        ops = self.plan.ops
        dims = nonunit(ops[i].dims)
        if len(dims) < len(nonunit(ops[source].dims)):
            return True
        if not store.kind.is_store or dims != nonunit(ops[store.args[1]].dims):
            return False
        if store.kind is not Kind.UPDATE or not store.region.large:
            return True
        return any(step not in ("1", "-1") for _, step in store.slices)
