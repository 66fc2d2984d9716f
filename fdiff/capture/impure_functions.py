"""Impure functions of libraries: their results depend on more than their arguments.

They read files, the environment, the clock, random numbers, other processes, or the state of the
interpreter. A function that looks one of them up is traced at each call. All of NumPy and SciPy
counts as pure, except the names listed here. In Python's standard library, only the modules and
names listed here are pure.
"""

from __future__ import annotations

import dis
import inspect
import sys
from enum import Enum
from functools import _lru_cache_wrapper, lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import cast

import fdiff.intact_numpy as np

from ..foreign_errors import Suppressed
from ..user_lines import Line, user_line
from .value_kinds import (
    SCALARS,
    is_ours,
    is_pandas,
    library_class,
    library_namespace,
    module_name,
    parts_of,
)

# Modules of the standard library that are pure. The C parts of these have a leading underscore,
# which is taken off before a name is looked up.
_PURE = frozenset(
    """__future__ abc array ast base64 binascii bisect blake2 cmath codecs collections
    collections.abc collections_abc colorsys contextlib copy copyreg csv dataclasses difflib enum
    errno fnmatch fractions functools graphlib hashlib heapq hmac html ipaddress itertools json
    json.decoder json.encoder keyword math md5 numbers operator opcode pprint re reprlib sha1 sha2
    sha256 sha3 sha512 sre statistics string struct textwrap token types typing unicodedata
    urllib.parse warnings weakref zlib""".split()  # noqa: SIM905 - a list of words
)
# Pure names of modules that are not pure as a whole. `_METHODS` has impure methods of classes.
_PURE_NAMES = {
    "calendar": "isleap leapdays monthrange timegm weekday",
    "bz2": "BZ2Compressor BZ2Decompressor compress decompress",
    "datetime": "date datetime time timedelta timezone tzinfo",
    "io": "BytesIO StringIO",
    "os": "PathLike fsdecode fsencode fspath",
    "os.path": "basename commonpath commonprefix dirname isabs join normcase normpath split "
    "splitdrive splitext splitroot",
    "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath",
    "inspect": "getattr_static isbuiltin isclass isfunction ismethod ismodule isroutine signature",
    "sys": "audit exit getdefaultencoding getsizeof intern",
    "uuid": "UUID uuid3 uuid5",
}
_IMPURE_NAMES = {
    "builtins": "breakpoint input open print",
    "numpy": "DataSource datetime64 fromfile fromregex genfromtxt get_printoptions getbufsize "
    "geterr geterrcall load loadtxt memmap save savetxt savez savez_compressed",
    "codecs": "EncodedFile open",
    "pprint": "pp pprint",
    "statistics": "kde_random",
    "weakref": "getweakrefcount getweakrefs",
}
_IMPURE_MODULES = (  # parts of NumPy and SciPy in which everything is impure
    "numpy.lib._datasource", "numpy.lib._format_impl", "numpy.lib.format", "numpy.lib.npyio",
    "scipy.datasets", "scipy.io",
)  # fmt: skip
_PURE_PACKAGES = frozenset(("fdiff", "llvmlite", "numba"))
RANDOM = ("numpy.random", "random", "secrets")
_DRAWING = frozenset(("random_state", "rng", "seed"))  # a function with such a parameter draws
_ALIASES = {
    "posix": "os", "nt": "os",
    "posixpath": "os.path", "ntpath": "os.path", "genericpath": "os.path",
    "pathlib._local": "pathlib", "pydecimal": "decimal", "pydatetime": "datetime", "pyio": "io",
    "py_warnings": "warnings",
}  # fmt: skip
_CALLABLE = (FunctionType, BuiltinFunctionType, type, type(np.sum))

Known = tuple[object, str | None]
_known: dict[int, Known] = {}  # by id: a function or class of a library, and its `impurity`


def impurity(value: object) -> str | None:
    """The impure reads of a function or class of a library, in words.

    None if it is pure, and for anything of the user's.
    """
    if isinstance(value, _lru_cache_wrapper):
        value = value.__wrapped__
    if not isinstance(value, _CALLABLE):
        return None
    entry = _known.get(id(value))
    if entry is not None and entry[0] is value:
        return entry[1]
    module = _module_of(value)
    if module is None:
        return None
    words = _impure_reads(value, module)
    home, name = sys.modules.get(value.__module__ or ""), getattr(value, "__name__", "")
    if getattr(home, name, None) is value:  # no object that a library makes at each look-up
        _known[id(value)] = value, words
    return words


def _module_of(value: object) -> str | None:
    """The name of the module of a function or class of a library, or of one written in C.

    None for all others.
    """
    if isinstance(value, FunctionType):
        namespace = value.__globals__
        impure = library_namespace(namespace) and not is_ours(namespace)
        return str(namespace["__name__"]) if impure else None
    if isinstance(value, type):
        return value.__module__ if library_class(value) else None
    owner = getattr(value, "__self__", None)
    if isinstance(owner, type):  # a class method
        return owner.__module__ if library_class(owner) else None
    if owner is not None and not isinstance(owner, ModuleType):
        return None  # a bound method: its object is judged in its place
    name = getattr(value, "__module__", None) or getattr(owner, "__name__", None)
    return str(name) if name else None


def _impure_reads(value: object, module: str) -> str | None:
    """The impure reads of a function or class of this module; None if it is pure."""
    name = str(getattr(value, "__name__", value))
    if module.startswith(RANDOM):
        return f"random numbers (`{module}`)"
    top = module.partition(".")[0]
    if top in {"numpy", "scipy"}:
        return _of_numerics(value, module, name)
    if top not in sys.stdlib_module_names:
        return None if top in _PURE_PACKAGES else _reads(module, name)
    plain = module.lstrip("_")
    public = _ALIASES.get(plain, plain)
    if isinstance(value, type):
        pure = issubclass(value, BaseException | Enum)
        return None if pure or _is_pure(public, name) else _reads(public, name)
    owner = getattr(value, "__self__", None)
    if isinstance(owner, type):
        reads = name in reading_methods(owner)
        return _reads(f"{public}.{owner.__name__}", name) if reads else None
    if "." in (path := getattr(value, "__qualname__", name)):  # a method, or made by a decorator
        path = path.partition(".")[0]
        kind = getattr(sys.modules.get(module), path, None)
        if isinstance(kind, type) and reading_methods(kind):
            return _reads(f"{public}.{path}", name) if name in reading_methods(kind) else None
        return None if _is_pure(public, path) else _reads(public, path)
    return None if _is_pure(public, name) else _reads(public, name)


def _reads(module: str, name: str) -> str:
    """The words for the reads of an impure function such as `os.getenv`."""
    # the module of the builtin `open` is `io`
    builtin = module == "builtins" or (module, name) == ("io", "open")
    deed = "shows" if name in {"pp", "pprint", "print"} else "reads"
    return f"what `{name if builtin else f'{module}.{name}'}` {deed}"


def _is_pure(module: str, name: str) -> bool:
    """Whether a name in the standard library is pure according to the tables."""
    if name in _IMPURE_NAMES.get(module, "").split():
        return False
    return module in {*_PURE, "builtins"} or name in _PURE_NAMES.get(module, "").split()


def _of_numerics(value: object, module: str, name: str) -> str | None:
    """The impure reads of a function of NumPy or SciPy, by tables."""
    if module.startswith(_IMPURE_MODULES):
        return _reads(module, name)
    if name in _IMPURE_NAMES["numpy"].split() and getattr(np, name, None) is value:
        return _reads("numpy", name)
    if module.startswith("scipy.") and not isinstance(value, type):
        with Suppressed(TypeError, ValueError):
            parameters = inspect.signature(cast("FunctionType", value)).parameters
            if not _DRAWING.isdisjoint(parameters):
                return f"random numbers (`{module}.{name}`)"
    return None


def pure_module(module: ModuleType) -> bool:
    """Whether the data in a module of a library, such as `math.pi`, never changes."""
    name = module.__name__.lstrip("_")
    return name.partition(".")[0] not in sys.stdlib_module_names or name in {*_PURE, "builtins"}


# ------------------------------------------------------------------------------- methods that read


def reading_methods(kind: type) -> frozenset[str]:
    """Names of the impure methods of a class of a library that is pure otherwise."""
    entry = _reading.get(id(kind))
    if entry is not None and entry[0] is kind:
        return entry[1]
    methods = _NONE
    for base in _bases(kind):
        if library_class(base) or is_pandas(base):
            methods |= _own_methods(base)
    if library_class(kind) or is_pandas(kind):
        _reading[id(kind)] = kind, methods
    return methods


def _public_module(kind: type) -> str:
    """The public module of a class: ``pathlib`` for ``pathlib._local``, ``io`` for ``_io``."""
    first, *rest = module_name(kind).split(".")
    return ".".join([first.lstrip("_"), *(part for part in rest if not part.startswith("_"))])


@lru_cache(maxsize=1024)
def _own_methods(kind: type) -> frozenset[str]:
    module = _public_module(kind)
    path = f"{_ALIASES.get(module, module)}.{kind.__qualname__}"
    if path == "pathlib.Path":
        return frozenset(name for name in vars(kind) if not name.startswith("__"))
    if module.startswith("scipy."):
        return frozenset(_DRAWS & vars(kind).keys())
    if module.startswith("pandas."):
        return frozenset(name for name in vars(kind) if _of_table(name))
    return frozenset(_METHODS.get(path, "").split())


_NONE: frozenset[str] = frozenset()
# Types of values that cannot be impure and are met all the time.
_SILENT = frozenset((*SCALARS, np.ndarray, dict, list, tuple, set, ModuleType))
_FUNCTIONS = frozenset((FunctionType, BuiltinFunctionType, type(np.sum), np.ufunc))
_reading: dict[int, tuple[type, frozenset[str]]] = {}  # classes of libraries, by id
_DRAWS = frozenset(("random", "resample", "rvs"))  # methods of SciPy's classes
_MADE_OF_TABLES = frozenset(  # methods `to_...` of pandas that give an object and write no file
    """dict flat_index frame julian_date list numpy offset period pydatetime pytimedelta records
    series string timedelta64 timestamp""".split()  # noqa: SIM905 - a list of words
)
_bases = vars(type)["__mro__"].__get__
_METHODS = {
    "datetime.date": "fromtimestamp strftime today",
    "datetime.datetime": "astimezone now strptime timestamp utcnow",
    "pprint.PrettyPrinter": "pprint",
    "statistics.NormalDist": "samples",
}


def _of_table(name: str) -> bool:
    """Whether a method of pandas draws random numbers, shows something or writes it to a file."""
    writes = name.startswith("to_") and name[3:] not in _MADE_OF_TABLES
    return writes or name in {"boxplot", "hist", "info", "plot", "sample"}


@lru_cache(maxsize=4096)
def names_in(code: CodeType) -> frozenset[str]:
    """Names in a piece of code and in the functions it defines, and constants that may be names."""
    parts = [*parts_of(code)]
    texts = (c for part in parts for c in part.co_consts if isinstance(c, str))
    names = (name for part in parts for name in part.co_names)
    return frozenset((*names, *filter(str.isidentifier, texts)))  # getattr(path, "exists")


def _line_of(code: CodeType, name: str) -> Line:
    """The first instruction that names an attribute."""
    for part in parts_of(code):
        for step in dis.get_instructions(part):
            if step.argval == name:
                return part, step.offset
    return code, 0


class Impurities:
    """The reads of one run that cannot be compared.

    `noted` describes them in words, each with the user's line. `codes` are the user's functions
    that run.
    """

    def __init__(self) -> None:
        self.noted: dict[str, Line | None] = {}
        self.codes: list[CodeType] = []
        self._methods: dict[str, type] = {}  # impure methods of classes that were met, by name

    def note(self, words: str) -> None:
        """Add something that cannot be compared."""
        if words not in self.noted:
            self.noted[words] = user_line(2)

    def meet(self, value: object) -> bool:
        """Note the impure parts of a value that `f` has reached; whether there are any."""
        kind = type(value)
        if kind in _SILENT:
            return False
        words = impurity(value)
        if words is not None:
            self.note(words)
        if kind in _FUNCTIONS:
            return words is not None
        kind = value if isinstance(value, type) else kind
        names = reading_methods(kind)
        for name in names:
            self._methods[name] = kind
        return bool(words or names)

    def finish(self) -> dict[str, Line | None]:
        """All notes, and the impure methods named in `f` of classes that `f` has met."""
        for code in self.codes if self._methods else ():
            for name in sorted(names_in(code) & self._methods.keys()):
                kind = self._methods[name]
                words = _reads(f"{_public_module(kind)}.{kind.__name__}", name)
                self.noted.setdefault(words, _line_of(code, name))
        return self.noted
