"""The disk cache: one file for each kernel or text, written atomically.

A file is trusted if its digest is right, which includes its name, and if only this user or root can
write to it and to the directory. Any other file is treated as absent. Digests stop accidents, and
people only where ``FDIFF_CACHE_KEY`` holds a secret: then they are keyed with it.

The cache lies in ``$FDIFF_CACHE_DIR``, else in the user's cache directory;
``FDIFF_CACHE_DIR=off`` (or empty) switches it off. A directory that cannot be written to is read.
Beyond 4,096 files or 512 MB the least recently used ones are removed. Nothing here imports LLVM.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from functools import lru_cache
from hmac import compare_digest
from pathlib import Path
from typing import BinaryIO

from ..errors import warn
from ..foreign_errors import Suppressed, environment_value, file_status
from .file_owners import trusted

_MAGIC = b"fdiff cache 3\n"
_MOST_FILES, _MOST_BYTES = 4096, 512 << 20
_STALE = 3600.0  # seconds after which a draft was left by a process that died
_DIGEST = hashlib.sha256().digest_size
_HEAD = len(_MAGIC) + 8 + _DIGEST  # with the length of what follows
_LARGEST = 64 << 20  # bytes of an entry
KEY = "FDIFF_CACHE_KEY"


def directory() -> Path | None:
    """The directory that entries are written to, created if necessary; None if there is none."""
    return next(iter(_folders()), None)


def writable(folder: Path) -> bool:
    """Whether entries can be added to a directory; one of an image may only be read."""
    return os.access(folder, os.W_OK)


def _folders() -> list[Path]:
    """The directories with entries: one that can be written to first, others for reading."""
    chosen = environment_value("FDIFF_CACHE_DIR")
    if chosen is None:
        folders = [*filter(None, [_usable(_of_user())])]
        if not (folders and writable(folders[0])):
            folders = [*filter(None, [_usable(_temporary()), *folders])]
        return folders
    if chosen in ("", "off"):
        return []
    folders = [*filter(None, [_usable(_absolute(chosen))])]
    if not folders:
        _tell_unusable(chosen)
    return folders


@lru_cache(maxsize=16)
def _tell_unusable(chosen: str) -> None:
    """Warn, once for each directory, that kernels are not kept."""
    warn(
        f"FDIFF_CACHE_DIR: {chosen!r} cannot be made or read, or others than this user can write to"
        " it. Kernels are compiled anew in each process. Set it to another directory, or to off.",
        UserWarning,
    )


@lru_cache(maxsize=16)
def _absolute(chosen: str) -> Path | None:
    """A relative path is resolved once: the program may change its working directory.

    None for one that leads nowhere: of a user that there is not, or in a directory that is gone.
    """
    with Suppressed(OSError, RuntimeError, ValueError):
        return Path(chosen).expanduser().absolute()
    return None


def _of_user() -> Path | None:
    """The user's cache directory."""
    for variable, below in (
        ("XDG_CACHE_HOME", "fdiff"),
        ("LOCALAPPDATA", "fdiff/cache"),
        ("HOME", ".cache/fdiff"),
    ):
        if path := environment_value(variable):
            home = _absolute(path)
            return None if home is None else home.joinpath(below)
    return None


def _temporary() -> Path | None:
    """A directory of this user among temporary files."""
    with Suppressed(OSError):  # a system without a place for them
        return Path(tempfile.gettempdir()).joinpath(f"fdiff-{_user()}")
    return None


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def _usable(path: Path | None) -> Path | None:
    """`path` as a directory that no other user can write to, else None."""
    if path is None:
        return None
    with Suppressed(OSError, ValueError):  # the medium may be one that cannot be written to
        if file_status(path) is None:  # `mkdir` would take an alarm's TimeoutError for its own
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with Suppressed(OSError, ValueError):
        status = path.lstat()
        return path if stat.S_ISDIR(status.st_mode) and trusted(status, path) else None
    return None


def _key() -> bytes:
    """The secret that entries are authenticated with; empty without one."""
    return (environment_value(KEY) or "").encode(errors="surrogateescape")


def path_of(name: str) -> Path | None:
    """File of the entry called `name`, where it would be written; None without a directory."""
    folder = directory()
    return folder.joinpath(_file_name(name)) if folder is not None else None


def _file_name(name: str) -> str:
    """The name of a file: those that were written with another secret are other files."""
    return f"{_digest(name.encode())[:20].hex() if _key() else name}.kernel"


def has(name: str) -> bool:
    """Whether the disk holds an entry called `name`."""
    for folder in _folders():
        path = folder.joinpath(_file_name(name))
        with Suppressed(OSError):
            if _ours(path.lstat(), path):
                return True
    return False


def _ours(status: os.stat_result, where: Path | int) -> bool:
    return stat.S_ISREG(status.st_mode) and trusted(status, where)


def read(name: str, kind: str) -> bytes | None:
    """The stored entry; None if there is none, or it cannot be trusted.

    `kind` is text or machine code. Both `name` and `kind` are part of the digest, so that no entry
    is taken for another.
    """
    for folder in _folders():
        path = folder.joinpath(_file_name(name))
        payload = _payload(path, name, kind)
        if payload is not None:
            with Suppressed(OSError):  # another process may have removed it
                os.utime(path)  # it was used: the last to be removed
            return payload
    return None


def _payload(path: Path, name: str, kind: str) -> bytes | None:
    """The payload of a file; None, without reading it, if its length differs from its header."""
    with Suppressed(OSError), _opened(path) as file:
        status = os.fstat(file.fileno())  # of what is open, whatever has its name now
        size = status.st_size - _HEAD
        if not _ours(status, file.fileno()) or not 0 <= size <= _LARGEST:
            return None
        head = file.read(_HEAD)
        if head[:-_DIGEST] != _MAGIC + size.to_bytes(8, "little"):
            return None
        payload = file.read(size)
        return payload if compare_digest(head[-_DIGEST:], _sealed(name, kind, payload)) else None
    return None


def _opened(path: Path) -> BinaryIO:
    """The open file; links are not followed, and opening a pipe does not block."""
    flags = ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK")
    how = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in flags)
    return open(path, "rb", 0, opener=lambda name, _: os.open(name, how))


def _sealed(name: str, kind: str, payload: bytes) -> bytes:
    """The digest of an entry, with its `name`, which stands for all that it depends on."""
    return _digest(_MAGIC + f"{name} {kind}\n".encode(), payload)


def _digest(*parts: bytes) -> bytes:
    """A digest; with a secret one that only those can make who know it (BLAKE2, RFC 7693)."""
    key = _key()
    keyed = hashlib.blake2b(key=hashlib.sha512(key).digest(), digest_size=_DIGEST)
    digest = keyed if key else hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


def write(name: str, kind: str, payload: bytes) -> None:
    """Store an entry. If the disk is full or gone, a kernel is compiled again later."""
    path = path_of(name)
    if path is None or len(payload) > _LARGEST:
        return
    draft = path.with_name(f".{os.getpid()}-{os.urandom(8).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    head = _MAGIC + len(payload).to_bytes(8, "little") + _sealed(name, kind, payload)
    try:
        with Suppressed(OSError):
            with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
                file.write(head + payload)
            draft.replace(path)
    finally:
        with Suppressed(OSError):  # as a rule it has its name by now
            draft.unlink(missing_ok=True)
    if name.startswith("0"):  # one write in sixteen looks after the whole directory
        with Suppressed(OSError):
            trim(path.parent)


def trim(folder: Path) -> None:
    """Remove the kernels that were not used for longest, down to three quarters of the limits."""
    with os.scandir(folder) as listing:
        entries = [e for e in listing if e.name.endswith((".kernel", ".tmp"))]
    status: list[tuple[os.stat_result, str]] = []
    for entry in entries:
        with Suppressed(OSError):  # gone meanwhile
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
        with Suppressed(OSError):
            Path(path).unlink()


def clear() -> None:
    """Remove every stored kernel, and what writers have left that were killed."""
    for folder in _folders():
        for path in (*folder.glob("*.kernel"), *folder.glob(".*.tmp")):
            with Suppressed(OSError):  # gone, or a directory
                path.unlink()
