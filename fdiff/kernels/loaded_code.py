"""A digest of the code of fdiff that is loaded: of sources, bytecode or machine code.

A kernel on disk is named by it, so that no version loads the kernels of another. Where a package
was installed without sources, its ``.pyc`` files count; in a zip, the sums that the archive keeps;
in a frozen application, which has no files at all, the program that holds everything. The caches:
docs/decisions/source-and-object-caches.md.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from ..foreign_errors import Suppressed, is_regular_file
from ..process.forking import no_fork

_LOADED = (".py", ".pyc", *EXTENSION_SUFFIXES)
_BEGIN = time.time_ns()  # a file that was changed later is not what this process has loaded,
_OWN = os.urandom(16)  # so that its kernels are for no other


def digest(*places: Path) -> str:
    """A hash of these modules, and of all that are in these folders, for this version of fdiff."""
    package = sys.modules[__name__.partition(".")[0]]
    hasher = hashlib.sha256(f"{getattr(package, '__version__', '')}\n".encode())
    for place in places:
        files = [*_files(place)]
        for path in files:
            hasher.update(f"{path.name}\n".encode() + path.read_bytes())
            if path.stat().st_ctime_ns > _BEGIN:  # replaced while this process runs
                hasher.update(_OWN)
        if not files:
            hasher.update((_in_archive(place) or _program()).encode())
    return hasher.hexdigest()


def _files(place: Path) -> Iterator[Path]:
    """The files of a module or a folder that Python loads, in order."""
    for path in (place, *map(place.with_suffix, _LOADED)):
        if is_regular_file(path):
            yield path
            return
    for root, below, names in os.walk(place):
        below[:] = sorted(set(below) - {"__pycache__"})
        yield from (Path(root, name) for name in sorted(names) if name.endswith(_LOADED))


def _in_archive(place: Path) -> str:
    """Names, lengths and checksums of a module or folder in a zip; empty without one."""
    archive = next((path for path in place.parents if is_regular_file(path)), None)
    if archive is None:
        return ""
    with no_fork:
        import zipfile  # noqa: PLC0415 - few applications are archives
    begin = place.relative_to(archive).with_suffix("").as_posix()
    with Suppressed(OSError, zipfile.BadZipFile), zipfile.ZipFile(archive) as opened:
        entries = [
            e for e in opened.infolist() if e.filename.startswith((f"{begin}/", f"{begin}."))
        ]
        return "\n".join(f"{e.filename} {e.file_size} {e.CRC}" for e in entries)
    return ""


def _program() -> str:
    """The program that runs, which holds all code of a frozen application."""
    status = Path(sys.executable).stat() if sys.executable else None
    return f"{sys.executable} {status and (status.st_size, status.st_mtime_ns, status.st_ino)}"
