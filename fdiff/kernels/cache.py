"""The disk cache: a kernel or a text in each file, written whole or not at all, trusted if intact.

It lies in ``$FDIFF_CACHE_DIR``, else in the user's cache directory; ``FDIFF_CACHE_DIR=off`` (or
empty) switches it off. Beyond 4,096 files or 512 MB those that were not used for longest are
removed. Nothing here imports LLVM.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..forking import no_fork

_MAGIC = b"fdiff kernel 1\n"
_MOST_FILES, _MOST_BYTES = 4096, 512 << 20
_STALE = 3600.0  # seconds after which a draft was left by a process that died
_DIGEST = hashlib.sha256().digest_size
_HERE = Path(__file__).parent


def name_of(text: str) -> str:
    """Name of the kernel made from `text` by this very fdiff, LLVM, Python and processor."""
    return hashlib.sha256(f"{environment()}\n{text}".encode()).hexdigest()[:40]


def name_of_text(structure: str) -> str:
    """Name of the text that this very fdiff makes of a structure."""
    return hashlib.sha256(f"{_maker()}\n{structure}".encode()).hexdigest()[:40]


@lru_cache(maxsize=1)
def environment() -> str:
    """Everything outside its text that a compiled kernel depends on."""
    with no_fork:
        import llvmlite  # noqa: PLC0415 - its version alone: LLVM is in `llvmlite.binding`

    sources = _digest(_HERE / "runtime", _HERE / "native")
    # `platform.platform()` would start a process to ask for the processor's name
    system = [platform.system(), platform.release(), platform.machine()]
    versions = [llvmlite.__version__, np.__version__, sys.version]  # type: ignore[attr-defined] - not in its stubs
    return "\n".join([sources, *versions, *system, _processor()])


@lru_cache(maxsize=1)
def _maker() -> str:
    """Everything outside a structure that its text depends on."""
    return "\n".join([_digest(_HERE), sys.version])


def _digest(*folders: Path) -> str:
    """Of all Python files in these folders."""
    found = hashlib.sha256()
    for folder in folders:
        for root, below, names in os.walk(folder):
            below.sort()
            for name in sorted(names):
                if name.endswith(".py"):
                    found.update(Path(root, name).read_bytes())
    return found.hexdigest()


def _processor() -> str:
    """Model and instruction sets of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))


def directory() -> Path | None:
    """Where kernels are kept, made if need be; None where there is no place for them."""
    chosen = os.environ.get("FDIFF_CACHE_DIR")
    if chosen is not None:
        return None if chosen in ("", "off") else _usable(_absolute(chosen))
    return _usable(_default()) or _usable(Path(tempfile.gettempdir()) / f"fdiff-{_user()}")


@lru_cache(maxsize=16)
def _absolute(chosen: str) -> Path:
    """A relative path starts where the program was when it was first used, wherever it goes."""
    return Path(chosen).expanduser().absolute()


def _default() -> Path:
    for variable, below in (
        ("XDG_CACHE_HOME", "fdiff"),
        ("LOCALAPPDATA", "fdiff/cache"),
        ("HOME", ".cache/fdiff"),
    ):
        if os.environ.get(variable):
            return Path(os.environ[variable]) / below
    return Path(tempfile.gettempdir()) / f"fdiff-{_user()}"


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _usable(path: Path) -> Path | None:
    """`path` as a private directory that this user owns and can write to, else None."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError:
        return None
    ours = not hasattr(os, "getuid") or (
        status.st_uid == os.getuid() and not status.st_mode & 0o022
    )
    return (
        path
        if ours and path.is_dir() and not path.is_symlink() and os.access(path, os.W_OK)
        else None
    )


def path_of(name: str) -> Path | None:
    """File of the kernel called `name`; None without a cache directory."""
    folder = directory()
    return folder / f"{name}.kernel" if folder is not None else None


def has(name: str) -> bool:
    """Whether the disk holds the kernel called `name`."""
    path = path_of(name)
    return path is not None and path.is_file()


def read(name: str) -> bytes | None:
    """The stored kernel; None if there is none or it is not intact."""
    path = path_of(name)
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, payload = data[len(_MAGIC) : len(_MAGIC) + _DIGEST], data[len(_MAGIC) + _DIGEST :]
    intact = data.startswith(_MAGIC) and hashlib.sha256(payload).digest() == digest
    if not intact:
        return None
    with contextlib.suppress(OSError):  # another process may have removed it
        os.utime(path)  # it was used: the last to be removed
    return payload


def write(name: str, payload: bytes) -> None:
    """Store a kernel; a disk that is full or gone costs a later compile and nothing else."""
    path = path_of(name)
    if path is None:
        return
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink(missing_ok=True)
    if name.startswith("0"):  # one write in sixteen looks after the whole directory
        with contextlib.suppress(OSError):  # the directory went away
            trim(path.parent)


def trim(folder: Path) -> None:
    """Remove the kernels that were not used for longest, down to three quarters of the limits."""
    with os.scandir(folder) as found:
        entries = [e for e in found if e.name.endswith((".kernel", ".tmp"))]
    status: list[tuple[os.stat_result, str]] = []
    for entry in entries:
        with contextlib.suppress(OSError):  # gone meanwhile
            status.append((entry.stat(), entry.path))
    old = time.time() - _STALE
    drafts = [path for s, path in status if path.endswith(".tmp") and s.st_mtime < old]
    whole = [(s, path) for s, path in status if path.endswith(".kernel")]
    kernels = sorted((s.st_mtime, s.st_size, path) for s, path in whole)
    files, total = len(kernels), sum(size for _, size, _ in kernels)
    if files > _MOST_FILES or total > _MOST_BYTES:
        for _, size, path in kernels:
            if files <= _MOST_FILES * 3 // 4 and total <= _MOST_BYTES * 3 // 4:
                break
            drafts.append(path)
            files, total = files - 1, total - size
    for path in drafts:
        with contextlib.suppress(OSError):
            Path(path).unlink()


def clear() -> None:
    """Remove every stored kernel."""
    folder = directory()
    for path in folder.glob("*.kernel") if folder is not None else ():
        path.unlink(missing_ok=True)
