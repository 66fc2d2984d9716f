"""Kernels of one program whose texts differ in names alone are one kernel, launched several times.

A loop of Python leaves a program in which the same operations come again on other memory. To make
machine code of a kernel takes seconds; to launch one again takes none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....named_tuples import NamedTuple
from ...ir.expression_names import names_in, renamed
from ..cuda_program import CudaKernel, Parameter
from ..nests.nest_text import assigned, indented


class _Kept(NamedTuple):
    """A kernel, and the place of each of its parameters among the names of its text."""

    kernel: CudaKernel
    places: tuple[int, ...]


class SharedKernels:
    """The kernels of a program so far."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, tuple[object, ...]], _Kept] = {}

    def kernel(
        self, helpers: str, lines: Sequence[str], parameters: Mapping[str, Parameter]
    ) -> tuple[CudaKernel, tuple[str, ...]]:
        """A kernel that runs these lines, and the names of the memory and numbers it is given.

        `parameters` belong to the lines, by the names that they have there; `helpers` are functions
        that lines call.
        """
        text, order = _without_names(lines, parameters)
        places = {word: place for place, word in enumerate(order)}
        kinds = tuple((places[w], p.dtype, p.address) for w, p in parameters.items())
        key = helpers, text, tuple(sorted(kinds))
        kept = self._kept.get(key)
        if kept is None:
            name = f"kernel{len(self._kept)}"
            body = "\n".join(indented(lines))
            whole = f"{helpers}def {name}({', '.join(parameters)}):\n{body}\n"
            kernel = CudaKernel(name, whole, tuple(parameters.values()))
            kept = self._kept[key] = _Kept(kernel, tuple(places[w] for w in parameters))
        return kept.kernel, tuple(parameters[order[place]].name for place in kept.places)


def _without_names(
    lines: Sequence[str], parameters: Mapping[str, Parameter]
) -> tuple[str, list[str]]:
    """The lines with a number in place of each name of their own, and the names in that order."""
    plain = [line for line in lines if not line.lstrip().startswith("#")]
    own = {*parameters}
    for line in plain:
        own.update(assigned(line))
    text = "\n".join(plain)
    order = dict.fromkeys(name for name in names_in(text) if name in own)
    return renamed(text, {name: f"_{k}" for k, name in enumerate(order)}), list(order)
