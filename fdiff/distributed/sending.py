"""Functions and parameters as bytes: what is sent once to each worker, and what with each task."""

from __future__ import annotations

import pickle
import sys
import sysconfig
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from io import BytesIO
from itertools import chain
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import cloudpickle

from ..errors import InputError, failure
from ..functional.sent_code import SentCode, sending_pickler
from ..user_lines import SITE_PACKAGES, STDLIB

Buffer = bytes | bytearray | memoryview


class Message(NamedTuple):
    """An object as bytes: its pickle, and behind that the arrays in it, without a copy."""

    buffers: list[Buffer]

    def digest(self) -> bytes:
        """What the message is known by."""
        return sha256(b"".join(map(digest_of, self.buffers))).digest()

    def opened(self) -> Any:
        """The object. Its arrays are copies, which lie at addresses that kernels can read from."""
        head, *others = self.buffers
        return pickle.loads(head, buffers=[*map(bytearray, others)])  # noqa: S301 - Dask's are no safer


def digest_of(buffer: Buffer) -> bytes:
    return sha256(buffer).digest()


class Sent:
    """A function as it is sent: with the files and lines of the code that goes with it."""

    def __init__(self, f: Callable[..., object]) -> None:
        self.f = f

    def __reduce__(self) -> tuple[object, ...]:
        return _arrived, (self.f, SentCode(sending_pickler(), self.f))


def _arrived(f: Callable[..., object], _: None) -> Callable[..., object]:
    return f


def message_of(value: object, call: str) -> Message:
    """The message of a function or of parameters; `call` is the public call, for errors."""
    buffers: list[Buffer] = [b""]
    keep: Callable[[pickle.PickleBuffer], object] = lambda b: buffers.append(b.raw())  # noqa: E731 - one line
    file = BytesIO()
    try:
        with _own_modules_by_value():
            pickler: Any = cloudpickle.Pickler
            pickler(file, protocol=5, buffer_callback=keep).dump(value)
    except Exception as error:
        what = _unpicklable(value.f if isinstance(value, Sent) else value)
        fact = f"{what} cannot be sent to workers ({type(error).__name__}: {error})."
        way = "Make it inside the function, or pass what it is made of."
        raise failure(InputError, call, fact, way) from error
    buffers[0] = file.getvalue()
    return Message(buffers)


# ----------------------------------------------------------------------- modules of the user's own

_INSTALLED = (
    STDLIB, *SITE_PACKAGES, *(sysconfig.get_path(name) for name in ("purelib", "platlib")),
    str(Path(__file__).parents[1]),
)  # fmt: skip


_own: tuple[tuple[int, str], list[ModuleType]] = ((0, ""), [])  # and for how many modules


def _own_modules() -> list[ModuleType]:
    """The modules that are the user's and not installed, as far as they are imported."""
    global _own  # noqa: PLW0603 - looked for again when a module has been imported
    key = len(sys.modules), next(reversed(sys.modules))
    if _own[0] != key:
        modules = [m for name, m in sys.modules.copy().items() if name == _name(m) != "__main__"]
        files = [(m, getattr(m, "__file__", None)) for m in modules]
        _own = key, [m for m, file in files if file and not _is_installed(file)]
    return _own[1]


def _is_installed(file: str) -> bool:
    return file.startswith(_INSTALLED) or "site-packages" in file or "dist-packages" in file


def _name(module: object) -> object:
    return getattr(module, "__name__", None)


@contextmanager
def _own_modules_by_value() -> Generator[None]:
    """Functions of modules that are not installed are sent whole: they are seen as they are now.

    Workers would import such a module as it was when they did so first, if they have it at all.
    """
    by_value = cloudpickle.list_registry_pickle_by_value()
    new = [m for m in _own_modules() if m.__name__ not in by_value]
    try:
        for module in new:
            cloudpickle.register_pickle_by_value(module)
        yield
    finally:
        for module in new:
            with suppress(ValueError):  # another thread has done so
                cloudpickle.unregister_pickle_by_value(module)


# ------------------------------------------------------------------------- what cannot be pickled


def _unpicklable(value: object) -> str:
    """What of a function or of parameters has no pickle, by the names that lead to it."""
    path, seen = "", set[int]()
    while id(value) not in seen:
        seen.add(id(value))
        for name, part in _parts(value):
            if not _has_pickle(part):
                path, value = name, part
                break
    kind = type(value)
    what = f"{kind.__module__}.{kind.__name__}" if kind.__module__ != "builtins" else kind.__name__
    return f"`{path}`, an object of type {what}," if path else f"an object of type {what}"


def _has_pickle(value: object) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:  # noqa: BLE001 - a class of the user's may raise anything
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, object]]:
    """What a value refers to, by name."""
    if isinstance(value, FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        for name, cell in cells:
            with suppress(ValueError):  # an empty cell
                yield name, cell.cell_contents
        names = value.__code__.co_names
        yield from ((n, value.__globals__[n]) for n in names if n in value.__globals__)
        yield from zip(
            chain.from_iterable([_defaults(value)]), value.__defaults__ or (), strict=False
        )
    elif isinstance(value, partial):
        wrapped = getattr(value, "__wrapped__", value.func)
        yield getattr(wrapped, "__name__", "f"), wrapped
        yield from ((f"argument {k}", a) for k, a in enumerate(value.args))
        yield from value.keywords.items()
    elif isinstance(value, dict):
        yield from ((str(k), v) for k, v in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"entry {k}", v) for k, v in enumerate(value))
    elif hasattr(value, "__dict__") and not isinstance(value, (type, ModuleType)):
        yield from vars(value).items()


def _defaults(f: FunctionType) -> Sequence[str]:
    count = len(f.__defaults__ or ())
    return f.__code__.co_varnames[f.__code__.co_argcount - count : f.__code__.co_argcount]
