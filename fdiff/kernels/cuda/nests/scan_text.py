"""A nest of scans as lines of a kernel: blocks take rows, piece by piece.

A thread has one entry of each piece. The scan itself is `block_scans.py`, which names its sources.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.loops import StatementKind
from .block_scans import Scan, scan_name
from .nest_mapping import MappedNest
from .nest_text import NestText, Team, indented


class ScanText(NestText):
    """The lines of a nest whose innermost loop has running values."""

    def __init__(
        self, mapped: MappedNest, memory: Mapping[str, str], scans: Mapping[str, Scan]
    ) -> None:
        super().__init__(mapped, memory)
        self._scans = scans

    def scanned(self, team: Team) -> list[str]:
        """Each block has rows; a thread beyond the end of a row repeats the first entry."""
        inner = self._mapped.parallel
        body = self._piece_lines()
        begin, end = self._range(inner)
        carried = [f"carry_{s.target} = {s.start}" for s in self._scans.values()]
        pieces = [
            *self._lines.before[inner],
            *carried,
            f"first = {begin}",
            f"while first < {end}:",
            *indented([f"within = first + thread < {end}"]),
            *indented([f"i{inner} = first + thread if within else first", *body]),
            "    first = first + threads",
        ]
        return self.rows_in_turn(team, inner, pieces) if inner else pieces

    def _piece_lines(self) -> list[str]:
        """The innermost statements for one piece: threads beyond the row write nothing."""
        lines, rank = self._lines, self._lines.rank
        for s in self._nest.statements:
            if s.kind is StatementKind.CARRY:
                lines.depth[s.target] = rank
                continue
            level = lines.level(s)
            if s.target in self._scans:
                lines.depth[s.target] = rank
                lines.before[rank] += self._step(self._scans[s.target])
            elif s.writes:
                lines.before[rank] += ["if within:", *indented(self.text(s))]
            else:
                lines.before[level] += self.text(s)
        return lines.before[rank]

    def _step(self, scan: Scan) -> list[str]:
        """The running value of each thread, and what is carried to the next piece."""
        name, carry = scan.target, f"carry_{scan.target}"
        function = scan_name(scan.combiner, scan.dtype)
        return [
            f"{name} = rt.select(within, {scan.value}, {scan.start})",
            f"{name}, {carry} = {function}({name}, {carry}, thread)",
        ]
