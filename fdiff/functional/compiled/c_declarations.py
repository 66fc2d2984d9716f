"""The declaration of a C function: names and types of parameters, and the text of the header."""

from __future__ import annotations

import ctypes
import keyword
import re
from collections.abc import Iterator
from typing import Any

import fdiff.intact_numpy as np

from ...errors import InputError, failure
from ...foreign_errors import not_foreign
from ...kernels import CallLayout, CParameter, CSignature, Number
from ...named_tuples import NamedTuple
from ...trace.handler_arguments import shape_of
from ...tree import Spec, paths
from ..call.prepared import AnyPrepared, prepared_signature
from .call_layouts import Example

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


class Results(NamedTuple):
    """The tree of the results of a call, and the shapes of its leaves."""

    spec: Spec
    shapes: tuple[tuple[int, ...], ...]


class Declaration(NamedTuple):
    """A signature; `leaves` are the numbers of the leaves that are arguments of the C function.

    `constants` are the leaves of the examples that are not parameters.
    """

    call: str
    signature: CSignature
    leaves: tuple[int, ...]
    constants: tuple[str, ...]

    @property
    def parameters(self) -> list[CParameter]:
        """The parameters of the plain function."""
        results = [parameter for parameter in self.signature.made if parameter.pointer]
        return [*self.signature.given, *results]

    def spelled(self, name: str) -> str:
        """The C declaration of a function of this name."""
        arguments = [
            f"{_typed(parameter, 'const ')}{parameter.name}" for parameter in self.signature.given
        ]
        results = [
            f"{_typed(parameter)}{parameter.name}"
            for parameter in self.signature.made
            if parameter.pointer
        ]
        out = self.signature.returned
        return (
            f"{'void ' if out is None else _typed(out)}{name}({', '.join([*arguments, *results])})"
        )

    def header(self) -> str:
        """C code: a type of pointers to such functions, and in a comment the shapes."""
        every = (*self.signature.given, *self.signature.made)
        files = sorted(
            {_FILES[parameter.dtype.kind] for parameter in every if parameter.dtype.kind in _FILES}
        )
        shapes = [
            f"{parameter.name} is {shaped(parameter)}"
            for parameter in self.parameters
            if parameter.pointer
        ]
        words = "; ".join([*shapes, *[f"{constant} is fixed" for constant in self.constants]])
        comment = f"/* {self.call}{': ' if words else ''}{words} */"
        typedef = f"typedef {self.spelled(f'(*{self.signature.name})')};"
        return "\n".join([comment, *[f"#include <{name}>" for name in files], typedef, ""])


def declare(
    prepared: AnyPrepared,
    layout: CallLayout,
    example: Example,
    results: Results,
) -> Declaration:
    """The declaration for a call like this example."""
    leaves = example.leaves
    names = _Names()
    arguments: dict[int, CParameter] = {}
    constants: list[str] = []
    for k, name in enumerate(_leaf_names(prepared, layout, example.spec)):
        read = getattr(layout.given[k], "read", None)
        if read is None:
            constants.append(f"{name} = {leaves[k]!r}")
            continue
        pointer = isinstance(leaves[k], np.ndarray)
        arguments[k] = CParameter(names.new(name), read, shape_of(leaves[k]), pointer)
    outputs: list[CParameter] = []
    alone = len(layout.made) == 1
    paths_of = paths(results.spec, "out")
    for result, shape, path in zip(layout.made, results.shapes, paths_of, strict=True):
        constant = isinstance(result, Number)
        dtype = np.dtype(result.kind) if isinstance(result, Number) else result.dtype
        if dtype.kind == "b":  # neither of which could say that a call has failed
            dtype = np.dtype(np.int8)
        scalar = isinstance(result, Number) or result.scalar
        returned = alone and scalar and dtype.str[1:] in _RETURNED
        name = names.new("out" if alone else _identifier(path).replace("out_", "out", 1))
        outputs.append(CParameter(name, dtype, shape, not returned, constant))
    own = re.sub(r"\W+", "_", getattr(prepared.__wrapped__, "__name__", "f"), flags=re.ASCII)
    name = f"{prepared.__fdiff__}_{own.strip('_')}"
    signature = CSignature(name, tuple(arguments.values()), tuple(outputs))
    return Declaration(layout.name, signature, tuple(arguments), tuple(constants))


class _Names:
    """Unique names that are valid identifiers of C."""

    def __init__(self) -> None:
        self._taken = {*_TAKEN.split(), *keyword.kwlist}

    def new(self, wanted: str) -> str:
        name = wanted if re.fullmatch(r"[A-Za-z]\w*", wanted, re.ASCII) else "x"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _leaf_names(prepared: AnyPrepared, layout: CallLayout, spec: Spec) -> Iterator[str]:
    """The names of the leaves of the arguments: parameters, and where in them a leaf is."""
    positional = len(layout.arguments) - len(layout.names)
    try:
        parameters = list(prepared_signature(prepared).parameters.values())
    except not_foreign(TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [*names[:positional], *[f"x{k}" for k in range(len(names), positional)], *layout.names]
    args_spec, named = spec.children
    for name, child in zip(names, [*args_spec.children, *named.children], strict=True):
        yield from map(_identifier, paths(child, name))


def _identifier(path: str) -> str:
    """The way to a leaf, ``params['w'][0]``, as a name: ``params_w_0``."""
    return re.sub(r"\W+", "_", path).strip("_") if not path.isidentifier() else path


def _typed(parameter: CParameter, constant: str = "") -> str:
    """The type before the name of a parameter."""
    name = _C_TYPES.get(parameter.dtype.str[1:], f"{parameter.dtype.name}_t")
    return f"{constant}{name} *" if parameter.pointer else f"{name} "


def shaped(parameter: CParameter) -> str:
    """A number, or an array with its shape, as C declares it."""
    sizes = "".join(f"[{n}]" for n in parameter.shape)
    return f"{_typed(parameter._replace(pointer=False)).strip()}{sizes}"


# --- for ctypes, and for SciPy ----------------------------------------------------------------


def plain_type(parameter: CParameter) -> Any:
    """The type of ctypes of a parameter."""
    return ctypes.c_void_p if parameter.pointer else np.ctypeslib.as_ctypes_type(parameter.dtype)


def checked_type(parameter: CParameter, *, write: bool) -> object:
    """The type of ctypes of a parameter that takes arrays of one dtype and shape alone."""
    if not parameter.pointer:
        return plain_type(parameter)
    flags: object = ["C_CONTIGUOUS", "ALIGNED", *["WRITEABLE"] * write]
    make: Any = np.ctypeslib.ndpointer  # whose stub has no shape
    return make(parameter.dtype, len(parameter.shape), parameter.shape, flags)


def scipy_signature(declared: Declaration) -> tuple[CSignature, int | None]:
    """The signature as SciPy calls it, and the leaf that is its ``user_data``, if there is one."""
    signature = declared.signature
    pointers = [parameter for parameter in signature.given if parameter.pointer]
    numbers = len(signature.given) - len(pointers)
    vector = not numbers and bool(pointers) and len(pointers[0].shape) == 1
    rest = pointers[1:] if vector else pointers
    fits = (
        signature.returned is not None
        and (numbers > 0 or vector)
        and len(rest) <= 1
        and not any(parameter.pointer for parameter in signature.given[:numbers])
        and all(parameter.dtype == float for parameter in (*signature.given, *signature.made))
    )
    if not fits:
        fact = f"{_SCIPY}, which return a float64; this is {declared.spelled('f')}."
        way = "Use `address` or `ctypes`, or wrap the function in one of these forms."
        raise failure(InputError, f"cfunc({declared.call}).low_level_callable", fact, way)
    return signature._replace(packed=numbers != 1), declared.leaves[-1] if rest else None
