"""The working parts of an installation: compilers, tried on a function, and optional extras."""

from __future__ import annotations

import ctypes
import re
from importlib.metadata import PackageNotFoundError, requires, version

from . import late_imports
from .compiler_choice import LLVM, NUMBA, check_compiler, numba_compiler

PACKAGE = "numba-fdiff"  # what the package is called where it is installed from
_PROBE = 'def probe(x: "f8") -> "f8":\n    y = x + x\n    return y\n'
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[([\w,-]+)\])?[^;]*;\s*extra\s*==\s*['\"]([\w.-]+)['\"]")


def compiler_state(compiler: str) -> str:
    """Whether a compiler works: it compiles a function, whose result is looked at.

    Nothing is read from the cache or written to it. Raises what is wrong with the compiler.
    """
    check_compiler(compiler, "doctor()")
    code = late_imports.machine_code
    if compiler == NUMBA:
        object_code = numba_compiler().function_code(_PROBE)
        with code.compiling():
            function = code.Loaded(object_code, "probe")
    else:
        function = code.load_unshared(_PROBE)
    result = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(function.address)(1.5)
    if result != 3.0:
        return f"does not work: 1.5 + 1.5 is {result}"
    return "works, the default" if compiler == LLVM else "works"


def extras() -> str:
    """The optional extras of the package, and which packages each of them lacks."""
    try:
        lines = requires(PACKAGE) or []
    except PackageNotFoundError:
        return f"not known: {PACKAGE} is not installed, it is imported from a folder"
    needed = _by_extra(lines)
    lacking = {name: _lacking(packages) for name, packages in needed.items()}
    complete = ", ".join(name for name, some in lacking.items() if not some) or "none"
    rest = [f"{name} lacks {', '.join(some)}" for name, some in lacking.items() if some]
    return "; ".join([f"complete: {complete}", *rest])


def _by_extra(requirements: list[str]) -> dict[str, list[tuple[str, str]]]:
    """For each extra, the packages it requires, each with the extras of that package."""
    by_extra: dict[str, list[tuple[str, str]]] = {}
    for line in requirements:
        if (match := _REQUIREMENT.fullmatch(line.strip())) is not None:
            by_extra.setdefault(match[3], []).append((match[1], match[2] or ""))
    return by_extra


def _lacking(packages: list[tuple[str, str]]) -> list[str]:
    """The packages that are not installed, with what their own extras require."""
    missing: list[str] = []
    for name, its_extras in packages:
        if name == PACKAGE:  # an extra that contains others, which are listed by themselves
            continue
        try:
            version(name)
            below = _by_extra(requires(name) or [])
        except PackageNotFoundError:
            missing.append(name)
            continue
        for extra in filter(None, its_extras.split(",")):
            missing += _lacking(below.get(extra, []))
    return list(dict.fromkeys(missing))
