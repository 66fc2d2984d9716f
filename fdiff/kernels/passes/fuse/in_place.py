"""Which stores are carried out in place: in the memory of an array that nothing reads afterwards.

``y = update(x, part)`` needs no copy of `x` if `x` lies in memory of the kernel and all that reads
it can come first. What cannot, because it needs `y` too, or because the store itself reads other
entries of `x`, is computed beforehand and kept, where that is less than a copy of `x`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ....kernel_rule import Kind
from ...ir.effect import Effect
from ...ir.graph import Operation
from ...ir.indexing import nonunit
from ..materialise.materialisation import Plan, make_plan
from ..materialise.value_keys import Key
from .dependences import dependences_of
from .effects import effects_of_plan
from .memory_reads import reads_of

_ROUNDS = 4


def reuse(plan: Plan, also: Iterable[int]) -> tuple[Plan, list[Effect]]:
    """The plan with the stores found that need no copy, and its effects.

    `also` is what is kept besides.
    """
    kept = set(also)
    rounds = 0
    while True:
        rounds += 1
        effects = effects_of_plan(plan)
        copies_of = {
            c: _in_memory(plan, effect.copies_of)
            for c, effect in enumerate(effects)
            if effect.copies_of
        }
        if not any(copies_of.values()):
            return plan, effects
        flow = _Flow(plan, effects)
        for c, sources in copies_of.items():
            any(flow.decide(c, effects[c].node, source) for source in sources)
        if rounds == _ROUNDS or not flow.wanted:
            plan = replace(plan, reused=flow.found)
            return plan, effects_of_plan(plan)
        kept |= flow.wanted
        plan = make_plan(plan.of, kept, plan)


def _in_memory(plan: Plan, nodes: Iterable[int]) -> list[int]:
    """Those of the nodes that lie in memory which may be written over."""
    return [i for i in map(plan.laid, nodes) if plan.owned(i)]


@dataclass
class _Flow:
    """Who reads and makes what; `later[r]` has a bit for each root that must come after `r`."""

    plan: Plan
    effects: list[Effect]
    found: dict[int, int] = field(default_factory=dict)
    wanted: set[int] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        plan = self.plan
        self.made: dict[int, list[int]] = {}
        self.readers: dict[int, dict[int, list[Key]]] = {}
        for r, effect in enumerate(self.effects):
            self.made.setdefault(effect.node, []).append(r)
            for key in reads_of(plan, effect):
                keys = self.readers.setdefault(plan.laid(key.node), {})
                keys.setdefault(r, []).append(key)
        self.later = [0] * len(self.effects)
        needs = dependences_of(plan, self.effects)
        for r in range(len(self.effects) - 1, -1, -1):
            for p in needs[r]:
                self.later[p] |= self.later[r] | 1 << r

    def decide(self, c: int, node: int, source: int) -> bool:
        """Whether root `c` can be left out: the stores of `node` then write over `source`."""
        plan = self.plan
        ops = plan.ops
        if source in self.taken or source in plan.outputs:
            return False
        if ops[source].dtype != ops[node].dtype:
            return False
        writers = [w for w in self.made[node] if w != c]
        readers = {r: keys for r, keys in self.readers.get(source, {}).items() if r != c}
        makers = self.made[plan.maker(source)]
        if any(self.later[w] >> m & 1 for w in writers for m in makers):
            return False
        late = [r for r, keys in readers.items() if self._too_late(r, keys, writers)]
        if not late:
            self.found[node] = source
            self.taken.add(source)
            for r in (*readers, *makers):
                for w in writers:
                    self._put_before(r, w)
            return True
        saved: set[int] = set()
        if not all(self._save(r, source, writers, saved) for r in late):
            return False
        self.wanted |= saved
        return True

    def _too_late(self, r: int, keys: list[Key], writers: list[int]) -> bool:
        """Whether root `r` can only read the source once it is written over."""
        if r in writers:
            effect = self.effects[r]
            place = (effect.dims, effect.index)
            alone = len(writers) == 1 and not effect.positions
            return not (alone and all((k.dims, k.index) == place for k in keys))
        return any(self.later[w] >> r & 1 for w in writers)

    def _put_before(self, r: int, w: int) -> None:
        if r == w or self.later[r] >> w & 1:
            return
        after = self.later[w] | 1 << w
        for k, bits in enumerate(self.later):
            if k == r or bits >> r & 1:
                self.later[k] |= after

    def _save(self, r: int, source: int, writers: list[int], saved: set[int]) -> bool:
        """Put into `saved` what is to be computed of `source` before it is written over."""
        plan, ops = self.plan, self.plan.ops
        effect, store = self.effects[r], ops[self.effects[writers[0]].node]
        if effect.kind == "call":
            return False
        tops = [v[0] for v in (*effect.values, *effect.positions)]
        inner = _fused(plan, tops, effect)
        reads: dict[int, bool] = {}
        waits: dict[int, bool] = {}
        for i in inner:
            leaves = [a for a in ops[i].args if a not in inner]
            within = [a for a in ops[i].args if a in inner]
            reads[i] = any(plan.laid(a) == source for a in leaves) or any(reads[a] for a in within)
            waits[i] = any(self._waits(a, writers) for a in leaves) or any(waits[a] for a in within)
        stack = list(dict.fromkeys(tops))
        while stack:
            i = stack.pop()
            if i not in inner:
                if plan.laid(i) == source:
                    return False
            elif reads[i] and not waits[i]:
                if not self._small(i, source, store):
                    return False
                saved.add(i)
            elif reads[i]:
                stack.extend(ops[i].args)
        return True

    def _waits(self, leaf: int, writers: list[int]) -> bool:
        made = self.made.get(self.plan.maker(self.plan.laid(leaf)), ())
        return any(self.later[w] >> m & 1 or m == w for w in writers for m in made)

    def _small(self, i: int, source: int, store: Operation) -> bool:
        """Whether keeping node `i` costs less than a copy of `source`, which `store` needs else."""
        ops = self.plan.ops
        dims = nonunit(ops[i].dims)
        if len(dims) < len(nonunit(ops[source].dims)):
            return True
        return store.kind.is_store and _sparse(store) and dims == nonunit(ops[store.args[1]].dims)


def _sparse(store: Operation) -> bool:
    """Whether a store is small, or leaves entries between those it writes."""
    return not store.large or any(step not in ("1", "-1") for _, step in store.slices)


def _fused(plan: Plan, tops: Iterable[int], effect: Effect) -> dict[int, None]:
    """The nodes without memory that `root` computes, in order."""
    seen: set[int] = set()
    stack = list(tops)
    while stack:
        i = stack.pop()
        own = effect.compute and i == effect.node
        if i not in seen and (own or i not in plan.names) and plan.ops[i].kind is not Kind.VALUE:
            seen.add(i)
            stack.extend(plan.ops[i].args)
    return dict.fromkeys(sorted(seen))
