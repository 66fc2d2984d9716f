"""A nest of scans as lines of a kernel: blocks take rows, their threads tiles of a row.

The scan itself is `block_scans.py`, which names its sources.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.loops import StatementKind
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
        """Each block has rows; a thread has one entry of each tile, the first if it is beyond."""
        inner = self._mapped.parallel
        body = self._tile_lines()
        begin, end = self._range(inner)
        carried = [f"carry_{s.target} = {s.start}" for s in self._scans.values()]
        tiles = [
            *self._lines.before[inner],
            *carried,
            f"tile = {begin}",
            f"while tile < {end}:",
            *indented([f"within = tile + thread < {end}"]),
            *indented([f"i{inner} = tile + thread if within else tile", *body]),
            "    tile = tile + threads",
        ]
        if not inner:
            return tiles
        head, positions = self._flat("row", 0, inner)
        before = [line for k in range(1, inner) for line in self._lines.before[k]]
        return [
            *self._lines.before[0],
            f"row = {team.row}",
            f"while row < {head}:",
            *indented([*positions, *before, *tiles]),
            f"    row = row + {team.rows}",
        ]

    def _tile_lines(self) -> list[str]:
        """The innermost statements for one tile: threads beyond the row write nothing."""
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
        """The running value of each thread, and what is carried to the next tile."""
        name, carry = scan.target, f"carry_{scan.target}"
        function = scan_name(scan.combiner, scan.dtype)
        return [
            f"{name} = rt.select(within, {scan.value}, {scan.start})",
            f"{name}, {carry} = {function}({name}, {carry}, thread)",
        ]
