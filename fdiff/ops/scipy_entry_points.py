"""Functions and classes of SciPy as plain code calls them: they answer recorded arrays.

Private copies of functions find replacements (`replacements.py`). Recorded arrays run in the user's own code, which
may have bound a function of SciPy before fdiff was imported, and SciPy hands its calls to no protocol. So the
functions themselves get other code, which asks first whether a recorded array takes part, and their classes another
``__new__``; they stay the objects that they are. `fdiff.autograd` opens these entry points when it is imported, and
entry points of modules of SciPy that are imported later.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType

import fdiff.intact_numpy as np

from ..generated_text import defined
from ..hooks import hooks
from ..primitive import LAZY_TABLES, REPLACEMENTS, load_tables
from ..trace.trace_stack import tracing
from .scipy_functions import SOLVERS, involves_traced, public_name


class EntryPoint:
    """A function, method or class of SciPy: the original, and its replacement under trace.

    ``called(args, kwargs)`` is a call by plain code. The object itself is called with traced arrays where a tape is
    made of such a call; without `replacement` it has no derivative rule.
    """

    def __init__(self, value: Callable[..., object], original: Callable[..., object], replacement: Callable[..., object] | None) -> None:
        self.__name__ = value.__name__
        self.name = public_name(value)
        self.original, self.replacement = original, replacement

    def called(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """The result of a call; `fdiff.autograd` computes it where recorded arrays take part."""
        recorded = None if tracing() else hooks.recorded_library(self, args, kwargs)
        return self.original(*args, **kwargs) if recorded is None else recorded[0]

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        traced = involves_traced(args) or any(map(involves_traced, kwargs.values()))
        if traced or tracing():
            assert self.replacement is not None, "what has no rule is refused before"
            arguments = [REPLACEMENTS.get(id(a), (a, a))[1] for a in args]  # the owner of a method
            return self.replacement(*arguments, **kwargs)
        return self.original(*map(_copied, args), **{k: _copied(v) for k, v in kwargs.items()})


def _copied(value: object) -> object:
    """A copy of an array, whose memory may be told to be overwritten, and given back in the result."""
    return np.array(value) if type(value) is np.ndarray else value


class _Imports(threading.local):
    """How many modules of SciPy with tables are being imported in this thread, one by another."""

    under_way = 0


_imports = _Imports()


def open_entry_points() -> None:
    """Open the entry points of all tables whose module of SciPy is there, and of modules that are imported from now on."""
    sys.meta_path.insert(0, _AfterImport)
    _open_loaded()


_opened: set[int] = set()  # ids of functions and classes, which live as long as SciPy


def _open_loaded() -> None:
    _imports.under_way += 1  # tables import modules of SciPy themselves, which must not load them again
    try:
        while load_tables(*[name for name in LAZY_TABLES if name.startswith("scipy.")]):
            pass
    finally:
        _imports.under_way -= 1
    for value, replacement in list(REPLACEMENTS.values()):
        if str(getattr(value, "__module__", "")).startswith("scipy."):
            _open(value, replacement)
    for package in SOLVERS:
        module = sys.modules.get(package.rstrip("."))
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if isinstance(value, FunctionType):
                _open(value, None)


def _open(value: object, replacement: Callable[..., object] | None) -> None:
    if id(value) in _opened:
        return
    if isinstance(value, FunctionType):
        _enter_code(value, replacement)
    elif isinstance(value, type) and replacement is not None:
        _enter_new(value, replacement)
    else:
        return
    _opened.add(id(value))


def _enter_code(function: FunctionType, replacement: Callable[..., object] | None) -> None:
    """Let a function ask its entry point; what it was is a function of its own."""
    original = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    original.__kwdefaults__, original.__qualname__ = function.__kwdefaults__, function.__qualname__
    vars(original).update(vars(function))
    vars(function).update(__signature__=inspect.signature(function), __wrapped__=original)  # whose source is shown
    point = EntryPoint(function, original, replacement)
    function.__kwdefaults__ = {**(function.__kwdefaults__ or {}), "_entry_point": point}
    code = _code(len(function.__code__.co_freevars))
    function.__code__ = code.replace(co_name=function.__name__, co_qualname=function.__qualname__)
    function.__kwdefaults__, function.__defaults__ = {"_entry_point": point}, None


_codes: dict[int, CodeType] = {}


def _code(count: int) -> CodeType:
    """The code of an entry point, with as many free variables as the code whose place it takes."""
    if count not in _codes:
        names = [f"free{k}" for k in range(count)]
        bound = f"    {' = '.join(names)} = None\n" if names else ""
        kept = f"        ({', '.join(names)},)\n" if names else ""
        text = f"def make():\n{bound}    def call(*args, _entry_point, **kwargs):\n{kept}"
        text += "        return _entry_point.called(args, kwargs)\n    return call\n"
        _codes[count] = defined("make", text, {})().__code__
    return _codes[count]


def _enter_new(real: type, replacement: Callable[..., object]) -> None:
    """Let a class of SciPy ask its entry point when an object of it is made."""
    before = real.__new__

    def new(kind: type, /, *args: object, **kwargs: object) -> object:
        if kind is real and not tracing():
            recorded = hooks.recorded_library(point, args, kwargs)
            if recorded is not None:
                return recorded[0]
        return before(kind) if before is object.__new__ else before(kind, *args, **kwargs)

    point = EntryPoint(real, real, replacement)
    real.__new__ = new


class _AfterImport:
    """The finder that opens the entry points of a module of SciPy once that has been imported."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec that another finder has, with a loader that opens the entry points at its end."""
        if name not in LAZY_TABLES or not name.startswith("scipy."):
            return None
        others = (finder for finder in sys.meta_path if finder is not _AfterImport)
        spec = next((s for finder in others if (s := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                _imports.under_way += 1
                try:
                    run(module)
                finally:
                    _imports.under_way -= 1
                if not _imports.under_way:  # else one is not complete that tables ask for names
                    _open_loaded()

            spec.loader.exec_module = exec_module
        return spec
