"""Complex inputs and outputs: which derivatives exist, and by which convention.

A complex output of real inputs has a complex derivative. A function of complex inputs has a
derivative in two cases: "conjugate", the gradient of a real output, and "holomorphic", the complex
derivative of a complex output. The caller chooses between them (`complex_inputs`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...arraytype import ArrayType
from ...dispatch.variant import Traced
from ...errors import DtypeError, InputError, choice, failure
from ...ops.entrywise.elementwise import conjugate
from ...tape import Tape
from ...transforms.pipeline import TANGENTS, derive
from ...user_lines import show_line

CHOICES = ("error", "conjugate", "holomorphic")
CHOOSE = (
    "Say which derivative is meant: complex_inputs='conjugate' is df/dRe + i df/dIm of a real"
    " result (as torch), 'holomorphic' the complex derivative of a complex one."
    " Or pass real and imaginary parts as two real arrays."
)
PARTS = "Pass real and imaginary parts as two real arrays."
PRODUCTS = "fdiff.jvp and fdiff.vjp take any function of complex arrays."


def check_choice(value: object, call: str) -> str:
    """The convention, checked."""
    way = "Leave it out for functions of real arrays."
    return choice(value, CHOICES, "complex_inputs", call, way)


def _complex(types: Sequence[ArrayType]) -> ArrayType | None:
    """The first of `types` that is complex."""
    return next((t for t in types if t.dtype.kind == "c"), None)


def check_complex(traced: Traced, choice: str) -> None:
    """Refuse complex inputs without a derivative of the kind `choice`."""
    complex_type = _complex(traced.wrt_types)
    if complex_type is None:
        return
    fact = f"complex inputs ({complex_type.dtype}) are not supported "
    if choice == "error":
        fact += "without a choice of convention."
        raise failure(DtypeError, traced.call, fact, CHOOSE)
    floating = [t for t in traced.tape.output_types if t.floating]
    if choice == "conjugate" and (out := _complex(floating)):
        fact += f"with complex outputs ({out.dtype}) by complex_inputs='conjugate'."
        way = "Use 'holomorphic' where the function is complex differentiable."
        raise failure(DtypeError, traced.call, fact, f"{way} {PRODUCTS}")
    if choice == "holomorphic":
        real = [t for t in floating if t.dtype.kind != "c"]
        if real:
            fact = f"a real output ({real[0].dtype}) of complex inputs is not holomorphic."
            way = "Use complex_inputs='conjugate' for df/dRe + i df/dIm."
            raise failure(DtypeError, traced.call, fact, way)
        _check_holomorphic(traced)


def check_leaves(traced: Traced, _: str, *, choice: str) -> None:
    """Refuse results with leaves that are neither numbers nor arrays."""
    bad = [type(out[0]).__name__ for out in traced.outs if out is not None]
    if bad or not traced.outs:
        fact = f"the function must return arrays, not {bad[0] if bad else 'nothing'}."
        raise failure(InputError, traced.call, fact, "Return arrays and numbers alone.")
    check_complex(traced, choice)


def _check_holomorphic(traced: Traced) -> None:
    """Refuse functions that take conjugates, parts or moduli of values that depend on inputs."""
    spot = conjugation(traced.tape, traced.wrt)
    if spot is None:
        return
    name, line = spot
    fact = (
        "complex_inputs='holomorphic' needs a function that is complex differentiable, and this"
        f" one takes the conjugate, a part or the absolute value ({name}) of what depends on its"
        f" complex inputs.{line}"
    )
    raise failure(DtypeError, traced.call, fact, PRODUCTS)


def conjugation(tape: Tape, wrt: Sequence[int]) -> tuple[str, str] | None:
    """The operation that makes a derivative not complex-linear; None if all are complex-linear.

    The tangents of a holomorphic function are only multiplied, added and rearranged (the
    Cauchy-Riemann equations). So the tape of the tangents is searched for a conjugate or a real
    part of a tangent. Returns the operation's name, and the user's line for messages.
    """
    pushed = derive(TANGENTS, tape, wrt=wrt)
    dots = pushed.inputs[len(tape.inputs) :]
    moving = {i for i in dots if pushed.nodes[i].type.dtype.kind == "c"}
    for i, node in enumerate(pushed.nodes):
        if not any(a in moving for a in node.args):
            continue
        parts = any(t.floating and t.dtype.kind != "c" for t in node.types)
        if node.primitive is conjugate or parts:
            line = pushed.lines.get(i, (None,))[0]
            return node.primitive.name, show_line(line) if line else ""
        moving.add(i)
    return None


def refuse_complex(traced: Traced) -> None:
    """Refuse complex numbers in second derivatives."""
    for what, types in (("inputs", traced.wrt_types), ("outputs", traced.tape.output_types)):
        if complex_type := _complex(types):
            fact = (
                f"complex {what} ({complex_type.dtype}) are not supported for second derivatives."
            )
            raise failure(DtypeError, traced.call, fact, PARTS)
