"""Functions and parameters as bytes for workers, and errors for those that cannot be sent."""

from __future__ import annotations

import inspect
import pickle
import sys
import sysconfig
from collections.abc import Generator
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import cloudpickle

from ..errors import UNNAMED, InputError, failure
from ..foreign_errors import Suppressed, contextmanager, not_foreign
from ..functional.call.pickled_code import SentCode, functions_of
from ..named_tuples import NamedTuple
from ..user_lines import SITE_PACKAGES, STDLIB

Buffer = bytes | bytearray | memoryview


class Message(NamedTuple):
    """An object as bytes: its pickle, and after that the arrays in it, without a copy.

    With functions go the files and lines of their code.
    """

    buffers: list[Buffer]

    @classmethod
    def of(cls, value: object) -> Message:
        """The message of a function or of parameters."""
        buffers: list[Buffer] = [b""]
        file, kind = BytesIO(), cast("Any", cloudpickle.Pickler)
        pickler = kind(file, protocol=5, buffer_callback=lambda b: buffers.append(b.raw()))

        def dump() -> None:
            with _own_modules_by_value():
                pickler.dump((value, SentCode(pickler, value)))

        try:
            dump()
        except not_foreign(Exception, again=dump) as error:
            fact = f"{_unpicklable(value)} cannot be sent to workers ({error})."
            way = "Make it inside the function, or pass what it is made of."
            raise failure(InputError, UNNAMED, fact, way) from error
        buffers[0] = file.getvalue()
        return cls(buffers)

    def digest(self) -> bytes:
        """The digest of the message."""
        return sha256(b"".join(map(digest_of, self.buffers))).digest()

    def opened(self) -> Any:
        """The object. Its arrays are copies, which lie at addresses that kernels can read from."""
        head, *others = self.buffers
        return pickle.loads(head, buffers=map(bytearray, others))[0]  # noqa: S301 - Dask's are no safer


def digest_of(buffer: Buffer) -> bytes:
    return sha256(buffer).digest()


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
            with Suppressed(ValueError):  # another thread has done so
                cloudpickle.unregister_pickle_by_value(module)


# ------------------------------------------------------------------------- what cannot be pickled


class _Watching(cloudpickle.Pickler):
    """A pickler that knows what it has begun last: where it fails, that has no pickle."""

    last: object = None

    def reducer_override(self, obj: object) -> Any:
        self.last = obj
        return super().reducer_override(obj)


def _unpicklable(value: object) -> str:
    """The part of a function or of parameters that has no pickle, by the user's name for it."""
    pickler = _Watching(BytesIO(), protocol=5)
    with suppress(Exception), _own_modules_by_value():
        pickler.dump(value)
    culprit = pickler.last
    kind = type(culprit)
    what = f"an object of type {kind.__module__}.{kind.__name__}".replace(" builtins.", " ")
    read = [("f", value)]
    for f in functions_of(value):
        names = inspect.getclosurevars(f)
        args, defaults = inspect.getfullargspec(f).args, f.__defaults__ or ()
        read += names.nonlocals.items()
        read += names.globals.items()
        read += zip(args[len(args) - len(defaults) :], defaults, strict=True)
    within = [(f"{name}{path}", part) for name, holder in read for path, part in _members(holder)]
    names = [name for name, part in (*read, *within) if part is culprit]
    return f"`{names[0]}`, {what}," if names and names[0] != "f" else what


def _members(holder: object) -> list[tuple[str, object]]:
    """Attributes or entries, as Python writes them."""
    if isinstance(holder, (list, tuple, dict)):
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        return [(f"[{k!r}]", part) for k, part in items]
    return [(f".{k}", part) for k, part in getattr(holder, "__dict__", {}).items()]
