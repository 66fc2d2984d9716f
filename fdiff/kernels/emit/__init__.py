"""From loop nests to the text of a kernel: Python that Numba compiles and a person can read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..bones import Skeleton
from ..loops import BUFFERS, NUMPY, SIZES, Call, Output, Program
from .nest import emit_nest
from .workspace import Room, furnish

INDENT = "    "
FAR = -2  # status: an argument of a sine, cosine or tangent is beyond what `rt.sin` serves
_MATHS = re.compile(
    r"\brt\.(a?(?:sin|cos|tan)h?|exp2?|expm1|log(?:2|10|1p)?|atan2|cbrt|hypot|power|logaddexp2?|erfc?|expit|ndtr)\("
)
_NAMES = re.compile(r"\b(?:[nmf]\d+|x\d+_\d+|[xk]\d+)\b")


@dataclass(frozen=True)
class Source:
    """Text of a kernel, and what its integer table ends with.

    That is the addresses of the routines, then where each of the rooms begins in the workspace.
    """

    text: str
    routines: tuple[str, ...]
    rooms: tuple[Room, ...]

    def seconds(self) -> float:
        """What compiling takes: so much for any kernel, a line, a loop and a use of the runtime.

        Many elementary functions are called (`runtime/maths/function.py`), at a price for each.

        Fitted to the processor time of twelve programs (numba 0.68, EPYC; seconds measured,
        predicted / measured): a chain 0.06 0.9, Rosenbrock's gradient 0.14 1.1, softmax's 0.29 1.1,
        forty sines 0.39 1.0, Jacobians of MGH10 0.15 1.1, Hahn1 0.19 1.1, ENSO 0.25 1.1 and Gauss1
        0.32 0.9, GMM 1.5 1.0, bundle adjustment 2.0 0.8, LSTM of 2 and 5 steps 2.1 1.0 and 5.4 0.9.
        """
        lines, loops, uses = (self.text.count(part) for part in ("\n", "for i", "rt."))
        maths = elementary(self.text)
        spared = 0.0063 * len(maths) - 0.02 * len(set(maths)) if len(maths) > 16 else 0.0
        return 0.011 + 0.0011 * lines + 0.0115 * loops + 0.0083 * uses - spared


def emit(program: Program, bones: Skeleton) -> Source:
    """``kernel(arrays..., constants..., ints, floats, outs..., work)``, which gives a status."""
    routines = tuple(
        dict.fromkeys(item.routine for item in program.items if isinstance(item, Call))
    )
    where, rooms = furnish(program)
    begin = bones.sizes + bones.ints + len(routines)
    body = [
        f"{t.name} = rt.part(work, ints[{begin + where[t.name]}], {NUMPY[t.dtype]})"
        for t in program.temporaries
    ]
    for item in program.items:
        body += _call(item, bones, routines) if isinstance(item, Call) else emit_nest(item)
    for out in program.outputs:
        if out.scalar:
            body.append(f"{out.name}[0] = {out.scalar}")
    watched = any("far |=" in line for line in body)
    body += [f"return {FAR} if far else 0" if watched else "return 0"]
    prologue = [*_prologue(bones, program.outputs, "\n".join(body)), *["far = False"] * watched]
    lines = [
        _signature(bones),
        f"def kernel({', '.join(_parameters(bones, rooms))}):",
        *(INDENT + line for line in (*prologue, *body)),
    ]
    return Source("\n".join(lines) + "\n", routines, rooms)


def elementary(text: str) -> list[str]:
    """The elementary functions a kernel calls, once for each call."""
    return _MATHS.findall(text)


def patient(text: str) -> str | None:
    """The kernel with sines, cosines and tangents of libm, which serve any argument one by one.

    None if it has none of the others.
    """
    if "rt.far(" not in text:
        return None
    text = re.sub(r"\n *far \|?= .*", "", text).replace(f"return {FAR} if far else 0", "return 0")
    return re.sub(r"\brt\.(sin|cos|tan)\(", r"math.\1(", text)


def _parameters(bones: Skeleton, rooms: tuple[Room, ...]) -> list[str]:
    inputs = [f"a{k}" if bones.parts[i].dims else f"x{k}" for k, i in enumerate(bones.inputs)]
    constants = [f"c{k}" for k in range(bones.arrays)]
    outputs = [f"o{k}" for k in range(len(bones.outputs))]
    return [*inputs, *constants, "ints", "floats", *outputs, *(["work"] if rooms else [])]


def _signature(bones: Skeleton) -> str:
    """A comment with the types of the arguments, on which the machine code depends too."""
    inputs = [f"{p.dtype}{p.data[1]}{len(p.dims)}" for p in (bones.parts[i] for i in bones.inputs)]
    arrays = [p.dtype for _, p in sorted((p.data[0], p) for p in bones.parts if p.op == "array")]
    outputs = [f"{bones.parts[o].dtype}{len(bones.parts[o].dims)}" for o in bones.outputs]
    return f"# {' '.join(inputs)} | {' '.join(arrays)} -> {' '.join(outputs)}"


def _prologue(bones: Skeleton, outputs: tuple[Output, ...], body: str) -> list[str]:
    """Sizes, table entries and flat views of what the body names."""
    used = set(_NAMES.findall(body))
    lines: list[str] = []
    for k, i in enumerate(bones.inputs):
        part = bones.parts[i]
        if f"x{k}" in used and part.dims:
            lines.append(f"x{k} = rt.flat(a{k})")
        lines += _strides(
            f"x{k}",
            f"a{k}",
            [a for a in range(len(part.dims)) if f"x{k}_{a}" in used],
            int(part.dtype[1:]),
        )
    lines += [f"k{k} = rt.flat(c{k})" for k in range(bones.arrays) if f"k{k}" in used]
    lines += [f"{out.name} = rt.flat(o{out.name[3:]})" for out in outputs]
    lines += [f"n{k} = ints[{k}]" for k in range(bones.sizes) if f"n{k}" in used]
    for part in bones.parts:
        if part.op == "value" and part.text in used:
            table = "ints" if part.text[0] == "m" else "floats"
            at = int(part.text[1:]) + (bones.sizes if table == "ints" else 0)
            plain = part.dtype in ("i8", "f8")
            lines.append(
                f"{part.text} = {table}[{at}]"
                if plain
                else f"{part.text} = {NUMPY[part.dtype]}({table}[{at}])"
            )
            used.discard(part.text)
    lines += [f"m{k} = ints[{bones.sizes + k}]" for k in range(bones.ints) if f"m{k}" in used]
    return lines


def _strides(name: str, array: str, axes: list[int], width: int) -> list[str]:
    """Strides in entries; -1 is returned where they are no multiple of one (fields of records)."""
    if not axes:
        return []
    lines = [f"{name}_{axis} = {array}.strides[{axis}] // {width}" for axis in axes]
    odd = " | ".join(f"{array}.strides[{axis}]" for axis in axes)
    return lines if width == 1 else [*lines, f"if ({odd}) & {width - 1}:", f"{INDENT}return -1"]


def _call(item: Call, bones: Skeleton, routines: tuple[str, ...]) -> list[str]:
    at = bones.sizes + bones.ints + routines.index(item.routine)
    buffers = (*item.buffers, *[item.buffers[-1]] * (BUFFERS - len(item.buffers)))
    sizes = (*item.sizes, *["1"] * (SIZES - len(item.sizes)))
    return [
        f"# {item.comment}",
        f"sizes = ({', '.join(sizes)})",
        f"status = rt.call(ints[{at}], {', '.join(buffers)}, sizes)",
        "if status != 0:",
        f"{INDENT}return status",
    ]
