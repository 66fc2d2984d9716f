"""What a C function is declared as: names and types of its parameters, and the header's text."""

from __future__ import annotations

import ctypes
import inspect
import keyword
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, UnsupportedError, failure
from ..kernels import CallLayout, CParameter, CSignature
from .prepared import Prepared

_C_TYPES = {"f8": "double", "f4": "float", "b1": "bool"}
_FILES = {"i": "stdint.h", "u": "stdint.h", "b": "stdbool.h"}
# Keywords of C that are none of Python, and names that the stub has.
_TAKEN = (
    "auto bool c case char const default do double enum extern float goto inline int long main n np"
    " register restrict rt short signed sizeof static status struct switch table typedef union"
    " unsigned void volatile words xx"
)
_SCIPY = "SciPy calls functions of one or more floats, or of one array with one axis, of float64"
_RETURNED = ("f8", "f4", "i8", "i4")  # types of numbers that are returned; others are written


class Declaration(NamedTuple):
    """A signature; `leaves` are the numbers of the leaves that are its arguments.

    `constants` are those among the examples that are no parameters.
    """

    call: str
    signature: CSignature
    leaves: tuple[int, ...]
    constants: tuple[str, ...]

    @property
    def parameters(self) -> list[CParameter]:
        """The parameters of the plain function."""
        return [*self.signature.given, *[one for one in self.signature.made if one.pointer]]

    def spelled(self, name: str) -> str:
        """The C declaration of a function of this name."""
        given = [f"{_typed(one, 'const ')}{one.name}" for one in self.signature.given]
        made = [f"{_typed(one)}{one.name}" for one in self.signature.made if one.pointer]
        out = self.signature.returned
        return f"{'void ' if out is None else _typed(out)}{name}({', '.join([*given, *made])})"

    def header(self) -> str:
        """C code: a type of pointers to such functions, and in a comment the shapes."""
        every = (*self.signature.given, *self.signature.made)
        files = sorted({_FILES[one.dtype.kind] for one in every if one.dtype.kind in _FILES})
        shapes = [f"{one.name} is {_shaped(one)}" for one in self.parameters if one.pointer]
        words = "; ".join([*shapes, *[f"{constant} is fixed" for constant in self.constants]])
        comment = f"/* {self.call}{': ' if words else ''}{words} */"
        typedef = f"typedef {self.spelled(f'(*{self.signature.name})')};"
        return "\n".join([comment, *[f"#include <{name}>" for name in files], typedef, ""])


def declare(
    prepared: Prepared[..., Any],
    layout: CallLayout,
    leaves: Sequence[object],
    shapes: Sequence[tuple[int, ...]],
) -> Declaration:
    """The declaration for a call with these leaves, whose results have these shapes."""
    names = _Names()
    given: dict[int, CParameter] = {}
    constants: list[str] = []
    for k, name in _leaf_names(prepared, layout):
        read = getattr(layout.given[k], "read", None)
        if read is None:
            constants.append(f"{name} = {leaves[k]!r}")
            continue
        pointer = isinstance(leaves[k], np.ndarray)
        given[k] = CParameter(names.new(name), read, np.shape(leaves[k]), pointer)  # type: ignore[arg-type] - a number or an array
    made: list[CParameter] = []
    for k, (one, shape) in enumerate(zip(layout.made, shapes, strict=True)):
        if one.dtype.kind not in "fiu":  # type: ignore[union-attr] - there is no other Number
            fact = f"a result has the dtype {one.dtype}, which has no value for a call that fails."  # type: ignore[union-attr] - as above
            raise failure(UnsupportedError, layout.name, fact, "Return y.astype(float).")
        alone = len(shapes) == 1
        returned = alone and one.scalar and one.dtype.str[1:] in _RETURNED  # type: ignore[union-attr] - as above
        name = names.new("out" if alone else f"out{k}")
        made.append(CParameter(name, one.dtype, shape, not returned))  # type: ignore[union-attr] - as above
    own = re.sub(r"\W+", "_", getattr(prepared.__wrapped__, "__name__", "f"), flags=re.ASCII)
    name = f"{prepared.__fdiff__}_{own.strip('_')}"
    signature = CSignature(name, tuple(given.values()), tuple(made))
    return Declaration(layout.name, signature, tuple(given), tuple(constants))


class _Names:
    """Names that are identifiers of C, each given once."""

    def __init__(self) -> None:
        self._taken = {*_TAKEN.split(), *keyword.kwlist}

    def new(self, wanted: str) -> str:
        name = wanted if re.fullmatch(r"[A-Za-z]\w*", wanted, re.ASCII) else "x"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _leaf_names(prepared: Prepared[..., Any], layout: CallLayout) -> Iterator[tuple[int, str]]:
    """Each leaf of the arguments, with the name that its argument has."""
    positional = len(layout.arguments) - len(layout.names)
    try:
        parameters = list(inspect.signature(prepared).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [*names[:positional], *[f"x{k}" for k in range(len(names), positional)], *layout.names]
    for name, tree in zip(names, layout.arguments, strict=True):
        yield from _of_tree(tree, name)


def _of_tree(tree: object, name: str) -> Iterator[tuple[int, str]]:
    if isinstance(tree, tuple):
        for k, child in enumerate(tree):
            yield from _of_tree(child, f"{name}_{k}")
    elif isinstance(tree, int):
        yield tree, name


def _typed(one: CParameter, constant: str = "") -> str:
    """The type before the name of a parameter."""
    name = _C_TYPES.get(one.dtype.str[1:], f"{one.dtype.name}_t")
    return f"{constant}{name} *" if one.pointer else f"{name} "


def _shaped(one: CParameter) -> str:
    sizes = "".join(f"[{n}]" for n in one.shape)
    return f"{_typed(one._replace(pointer=False)).strip()}{sizes}"


# --- for ctypes, and for SciPy ----------------------------------------------------------------


def plain_type(one: CParameter) -> Any:
    """The type of ctypes of a parameter."""
    return ctypes.c_void_p if one.pointer else np.ctypeslib.as_ctypes_type(one.dtype)


def checked_type(one: CParameter, *, write: bool) -> Any:
    """The same, which takes arrays of one dtype and shape alone."""
    if not one.pointer:
        return plain_type(one)
    flags: Any = ["C_CONTIGUOUS", "ALIGNED", *["WRITEABLE"] * write]
    make: Any = np.ctypeslib.ndpointer  # whose stub has no shape
    return make(one.dtype, len(one.shape), one.shape, flags)


def scipy_signature(declared: Declaration) -> tuple[CSignature, int | None]:
    """The signature as SciPy calls it, and the leaf that is its ``user_data``, if there is one."""
    signature = declared.signature
    pointers = [one for one in signature.given if one.pointer]
    numbers = len(signature.given) - len(pointers)
    vector = not numbers and bool(pointers) and len(pointers[0].shape) == 1
    rest = pointers[1:] if vector else pointers
    fits = (
        signature.returned is not None
        and (numbers > 0 or vector)
        and len(rest) <= 1
        and not any(one.pointer for one in signature.given[:numbers])
        and all(one.dtype == float for one in (*signature.given, *signature.made))
    )
    if not fits:
        fact = f"{_SCIPY}, which return a float64; this is {declared.spelled('f')}."
        way = "Use `address` or `ctypes`, or wrap the function in one of these forms."
        raise failure(InputError, f"cfunc({declared.call}).low_level_callable", fact, way)
    return signature._replace(packed=numbers != 1), declared.leaves[-1] if rest else None
