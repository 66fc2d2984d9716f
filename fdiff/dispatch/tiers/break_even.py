"""The break-even point of a kernel, by the ski-rental rule, for one tape.

`tiered_execution` states the rule (docs/decisions/tiered-execution.md). A process waits at exit for
a compilation that is under way. So a kernel whose compilation is predicted to take more than two
seconds is compiled only after slower tiers took as long, and one of more than ten seconds only on
request.
"""

from __future__ import annotations

import math

from ... import kernels
from ...process import background
from ...process.progress import Stage
from ...tape import Tape
from .bytecode_tier import LOAD_SECONDS, START_SECONDS

PATIENCE = 0.02  # seconds of interpreting before anybody asks what a kernel costs
ASK_FIRST = 10.0  # seconds: a kernel predicted to take longer is compiled only on request
LONG = 2.0  # seconds: no longer kernel is compiled before slower tiers took as long
WRITE_FIRST = 2.0  # seconds: a source predicted to take longer is generated only on request
LOOK_SECONDS = 1e-5  # for each node, to see whether the kernel is on disk
WRITE_SECONDS = 1e-4  # for each node, to generate the source from which the cost is estimated
LOOP_SECONDS = 1.2e-4  # beside that for each node that is an array, of which a loop is made
LEAST_SECONDS = 5e-5  # for each node, to compile that source: repeats are compiled once
OFTEN = 32  # calls after which it is asked whether a core is free for the kernel
CALL = 5e-4  # seconds that a call counts for at least where there is one
IMPORT_SECONDS = 0.2  # to import what generates sources, where no background thread has done so
# For each node of the body of a loop and each trip, in NumPy.
NUMBER_SECONDS, ARRAY_SECONDS = 5e-8, 1e-6
# For each entry of an array in main memory, in NumPy: at least.
ENTRY_SECONDS, IN_MEMORY = 1e-9, 1 << 20
JIT_PATIENCE = 1.0  # seconds that a call of `jit` waits for its kernel

Layouts = tuple[str, ...]  # of the inputs of a kernel: "C" for contiguous, "A" for any strides


class Account:
    """The use of a tape so far.

    `spent` is the number of seconds that slower tiers took in all `calls`, `last` in the last one;
    `asked` says whether the user requested a kernel; `call` is the public call, for messages.
    """

    __slots__ = ("asked", "call", "calls", "last", "spent")

    def __init__(self) -> None:
        self.call, self.asked, self.calls, self.spent, self.last = "", False, 0, 0.0, 0.0

    def enter(self, seconds: float) -> None:
        """Enter a call by a slower tier.

        Where nobody would wait for a kernel, each call counts for `CALL` seconds at least: what has
        been called often is called more often still, and short calls would take a thousand of them.
        """
        self.spent, self.last = self.spent + seconds, seconds
        self.calls += 1
        if not self.calls % OFTEN and background.allowed():
            self.spent = max(self.spent, CALL * self.calls)


class BreakEven:
    """The break-even points of one tape, by the layouts of its inputs."""

    __slots__ = ("_account", "_compiler", "_due", "_next", "_price", "_tape", "_worth")

    def __init__(self, tape: Tape, compiler: str, account: Account) -> None:
        self._tape, self._compiler, self._account = tape, compiler, account
        self._due: dict[Layouts, float] = {}  # the `spent` at which to compile
        self._worth: dict[Layouts, float] = {}  # the same, where the next call counts, too
        self._next = math.nan  # seconds that a call takes at least, once estimated
        self._price = math.nan  # expected seconds of compiling, once estimated

    def is_ahead(self, layouts: Layouts) -> bool:
        """Whether the point lies ahead for sure, so that it need not be estimated anew."""
        return self._account.spent < self._due.get(layouts, PATIENCE)

    def is_reached(self, layouts: Layouts, share: float = 1.0) -> bool:
        """Whether this share of the point is reached; it is estimated anew."""
        spent = self._account.spent
        point = self._estimate(layouts, spent / share)
        self._due[layouts] = point if point > LONG else share * point
        return self._account.spent >= self._due[layouts]

    def is_worth_waiting(self, layouts: Layouts) -> bool:
        """Whether the next call would take longer than what is left to the point.

        Beside a background thread, than compiling takes. The call is expected to take as long as
        the last one, or as the trips of its loops and the sizes of its arrays tell before it runs.
        """
        if math.isnan(self._next):
            self._next = _seconds_of_trips(self._tape) + _seconds_of_entries(self._tape)
        last = self._account.last
        likely = max(self._next, last if last >= PATIENCE else 0.0)
        seconds = likely + (0.0 if background.allowed() else self._account.spent)
        if not likely or seconds < self._worth.get(layouts, PATIENCE):
            return False
        most, write = (max(limit, likely) for limit in (ASK_FIRST, WRITE_FIRST))
        self._worth[layouts] = self._estimate(layouts, seconds, most, write, n=2)
        return seconds >= self._worth[layouts]

    def point(self, layouts: Layouts) -> float:
        """The seconds on slower tiers at which a kernel is compiled unasked; infinity for never."""
        return max(PATIENCE, self._estimate(layouts, math.inf))

    def tries_patience(self, layouts: Layouts) -> bool:
        """Whether a user who asked for the kernel would wait for it longer than is acceptable.

        Of a long tape this is said without generating the source.
        """
        tape, length = self._tape, len(self._tape)
        if kernels.seen(tape) and kernels.on_disk(tape, layouts, self._compiler):
            return False
        written = writing_seconds(tape)
        if written + LEAST_SECONDS * length > JIT_PATIENCE:
            return True
        with scheduling(tape, self._account.call):
            return kernels.predict_seconds(tape, layouts, self._compiler) > JIT_PATIENCE - written

    def words(self, layouts: Layouts) -> str:
        """Why no kernel is compiled at this point."""
        spent, due = in_words(self._account.spent), self._due.get(layouts)
        if due is None or (math.isnan(self._price) and due < math.inf):
            return f"{spent} so far are too few to think of a kernel"
        if due == math.inf:
            return f"a kernel is compiled when asked for: it would take {in_words(self._price)}"
        return f"{spent} so far, a kernel is expected to take {in_words(due)}"

    def _estimate(
        self, at: Layouts, spent: float, most: float = ASK_FIRST, write: float = WRITE_FIRST,
        n: int = 1,
    ) -> float:  # fmt: skip
        """The `spent` at which to compile a kernel, or to ask again, because asking takes time too.

        One of more than `most` seconds is never due. First the cost is bounded by the tape's
        length; a tape whose source takes more than `write` seconds is not looked at further, unless
        a kernel of this length exists. Then the disk is searched, and last the source is generated
        and its cost predicted, if a kernel that takes as long as `n` sources would have paid off.
        """
        length = len(self._tape)
        price, looked = writing_seconds(self._tape), PATIENCE + LOOK_SECONDS * length
        near, short = kernels.seen(self._tape), price <= write
        if near and spent < looked:
            return looked
        if (near or short) and not kernels.supported(self._tape):
            return math.inf
        if near and kernels.on_disk(self._tape, at, self._compiler):
            price = LOAD_SECONDS
        elif not short:
            self._price = price
            return math.inf
        elif spent < PATIENCE + n * price:
            return PATIENCE + n * price
        elif spent < price + IMPORT_SECONDS and not kernels.can_schedule():
            return spent + PATIENCE
        else:
            with scheduling(self._tape, self._account.call):
                price = kernels.predict_seconds(self._tape, at, self._compiler)
        self._price = price
        start = 0.0 if kernels.started() else START_SECONDS
        return price + start if price <= most else math.inf


def _seconds_of_trips(tape: Tape) -> float:
    """Seconds that the loops of a tape take in NumPy, where numbers of trips are known."""
    seconds: dict[int, float] = {}  # of nodes; branches count as the longest of them
    for i, name, body in tape.bodies():
        trips = 1 if name.startswith("branches") else dict(tape.nodes[i].params).get("length", 0)
        seconds[i] = max(seconds.get(i, 0.0), trips * (_seconds_of(body) + _seconds_of_trips(body)))
    return sum(seconds.values())


def _seconds_of_entries(tape: Tape) -> float:
    """Seconds that the elementwise operations of a tape take in NumPy, of arrays in main memory."""
    large = [node for node in tape.nodes if node.types[0].size > IN_MEMORY]
    rules = [node.primitive.lowering.kernel for node in large]
    entrywise = [rule is not None and rule.kind.is_elementwise for rule in rules]
    return ENTRY_SECONDS * sum([n.type.size for n, k in zip(large, entrywise, strict=True) if k])


def _seconds_of(body: Tape) -> float:
    arrays = sum([node.types[0].size > 1 for node in body.nodes])
    return ARRAY_SECONDS * arrays + NUMBER_SECONDS * (len(body) - arrays)


def scheduling(tape: Tape, call: str) -> Stage:
    """The stage, for progress reports, in which the source of a kernel is generated."""
    return Stage("scheduling", call, size=len(tape), seconds=writing_seconds(tape))


def writing_seconds(tape: Tape) -> float:
    """Expected seconds to generate the source of a kernel, with the bodies of its loops."""
    seconds = [WRITE_SECONDS + LOOP_SECONDS * bool(node.types[0].shape) for node in tape.nodes]
    return sum(seconds) + sum([writing_seconds(body) for _, _, body in tape.bodies()])


def in_words(seconds: float) -> str:
    """A time, as in "3.4 ms"."""
    return f"{seconds:.2g} s" if seconds >= 1 else f"{1e3 * seconds:.2g} ms"
