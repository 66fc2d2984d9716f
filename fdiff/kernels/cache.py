"""The disk cache: one file a kernel, written whole or not at all, trusted if ours and intact.

It lies in ``$FDIFF_CACHE_DIR``, else in the user's cache directory; ``FDIFF_CACHE_DIR=off`` (or
empty) switches it off. Nothing here imports Numba.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from functools import lru_cache
from importlib import metadata
from pathlib import Path

_MAGIC = b"fdiff kernel 1\n"
_DIGEST = hashlib.sha256().digest_size
_HERE = Path(__file__).parent
_SETTINGS = (
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
    "NUMBA_OPT",
    "NUMBA_LOOP_VECTORIZE",
    "NUMBA_SLP_VECTORIZE",
)


def name_of(text: str) -> str:
    """Name of the kernel made from `text` by this very fdiff, Numba, Python and processor."""
    return hashlib.sha256(f"{environment()}\n{text}".encode()).hexdigest()[:40]


def environment() -> str:
    """Everything outside its text that a compiled kernel depends on."""
    return "\n".join([_installed(), *(os.environ.get(name, "") for name in _SETTINGS)])


@lru_cache(maxsize=1)
def _installed() -> str:
    helpers = [*sorted((_HERE / "runtime").glob("*.py")), _HERE / "targets.py"]
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in helpers)).hexdigest()
    versions = [metadata.version(package) for package in ("numba", "llvmlite", "numpy")]
    return "\n".join([sources, *versions, sys.version, platform.platform(), _processor()])


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
        return None if chosen in ("", "off") else _usable(Path(chosen))
    return _usable(_default()) or _usable(Path(tempfile.gettempdir()) / f"fdiff-{_user()}")


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
    return payload if intact else None


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


def clear() -> None:
    """Remove every stored kernel."""
    folder = directory()
    for path in folder.glob("*.kernel") if folder is not None else ():
        path.unlink(missing_ok=True)
