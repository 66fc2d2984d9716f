"""Branch stability: do calls of one signature keep taking branches that were traced before?

A function that branches on values is traced once for each combination of branches (a *path*), and
guards tell which trace holds. A trace that is kept costs about ten times as much as an eager call,
and pays off only if its path is taken again. If paths do not recur, calls are differentiated
eagerly: each call is traced and differentiated on the fly, and its trace is dropped.

The score counts like the branch predictors of processors, up at a miss and down at a hit
(saturating counters: J. E. Smith, A study of branch prediction strategies, ISCA 1981, strategy 7).
The sizes are our own.
"""

from __future__ import annotations

from ..bounded_cache import keep_recent

ALTERNATIVES = 8  # traces of one signature that differ in reads or decisions
MISS = 8  # added to the score of a signature by a call on a new path; other calls take 1 off
UNSTABLE = ALTERNATIVES * MISS  # the score from which on derivatives are taken eagerly
FEW = 8  # guards of a function that has few paths
MOST_PATHS = 64  # paths of eager calls that are remembered, and traces that are merged into one
SHARE = 4  # for so many merged paths, one more trace is kept, and needed for the next merge
SETTLED = 8  # after so many eager calls in a row on earlier paths, traces are kept again


class BranchStability:
    """The paths that calls of one signature took, and whether the next call is to be eager.

    A function with few guards has few paths. A function with more guards may never take a path
    twice; its calls are eager from the second miss on. Eager calls report the hash of their path;
    when paths recur, traces are kept again, as many as there were different paths.
    """

    __slots__ = ("recent", "recurring", "run", "score", "seconds", "switches", "weight")

    def __init__(self) -> None:
        self.score = 0
        self.weight = MISS
        self.recent: dict[int, None] = {}  # the last paths of eager calls
        self.seconds = 0.0  # spent in eager calls, which pays for a kernel of merged traces
        self.switches = 0  # how many calls took another path than the call before
        self.run = 0  # how many calls in a row took a recent path
        self.recurring: set[int] = set()  # the paths of those calls

    def unstable(self) -> bool:
        """Whether this call is to be eager."""
        return self.score >= UNSTABLE

    def miss(self, guards: int, *, rolled: bool = False) -> None:
        """Note that no kept trace holds for a call, whose new trace has `guards` guards.

        The miss does not count if a loop became a node (`rolled`): eager calls would unroll it.
        """
        if rolled:
            return
        self.weight = MISS if guards <= FEW else UNSTABLE // 2
        self.score += self.weight

    def hit(self) -> None:
        """Note that a kept trace holds for a call."""
        if self.score > 0:
            self.score -= 1

    def switched(self) -> bool:
        """Note that another kept trace holds than before; whether to merge the traces now."""
        self.switches += 1
        return self.switches >= SETTLED and not self.switches & (self.switches - 1)

    def took(self, path: int, seconds: float) -> None:
        """Note that an eager call took this path, and its seconds."""
        self.seconds += seconds
        recurs = path in self.recent
        keep_recent(self.recent, path, None, MOST_PATHS)
        if not recurs:
            self.run = 0
            self.recurring.clear()
            return
        self.run += 1
        self.recurring.add(path)
        many = len(self.recurring)
        if self.run >= max(SETTLED, 2 * many):  # each of these paths may be traced, and one more
            self.score = UNSTABLE - self.weight * (many + 1)
            self.run = 0
            self.recurring.clear()
            self.recent.clear()
