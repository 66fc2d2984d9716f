"""Possible writers of a file: this user and administrators alone, or others, too."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from ..foreign_errors import Suppressed
from ..process.forking import no_fork


def trusted(status: os.stat_result, where: Path | int) -> bool:
    """Whether nobody else can have written a file, given by its path, or open by its number.

    Its owner is this user or root, and only the owner can write to it, as ssh demands.
    """
    if hasattr(os, "geteuid"):
        return status.st_uid in (os.geteuid(), 0) and not status.st_mode & 0o022
    with Suppressed(OSError):  # a file system without owners, for instance
        return _closed_to_others(*_security(where), _user())
    return False


# --- Windows --------------------------------------------------------------------------------------

_FILE, _OWNER, _ACCESS, _QUERY, _TOKEN_USER = 1, 1, 4, 8, 1  # of Win32: what is asked for
# Accounts that are what root is elsewhere: the system, and members of Administrators.
_ROOT = {"S-1-5-18", "S-1-5-32-544", "SY", "BA", "LA"}
_THE_OWNER = {"CO", "OW", "S-1-3-0", "S-1-3-4"}  # whoever that is
_ENTRY = re.compile(r"\((\w+);(\w*);(\w*);[^;)]*;[^;)]*;([^;)]*)[^)]*\)")
_READING = re.compile(r"(?:FR|FX|GR|GX|RC|CC|SW|WP|LO)*\Z")  # rights that change nothing
_CHANGING = 0x500D0156  # write and append, attributes, delete, access, owner; generic ones


def _closed_to_others(owner: str, access: str, user: str) -> bool:
    """Whether this user or root owns a file and nobody else can write to it.

    `access` is its access list in Windows' text (SDDL). Entries that only new files inherit do not
    count, and what cannot be read counts as an entry for others.
    """
    entries = _ENTRY.findall(access)
    own = _ROOT | _THE_OWNER | {user}
    if owner not in _ROOT | {user} or not entries or len(entries) != access.count("("):
        return False
    return all(
        kind == "D" or "IO" in re.findall("..", flags) or who in own or not _changes(rights)
        for kind, flags, rights, who in entries
    )


def _changes(rights: str) -> bool:
    if rights.startswith("0x"):
        return int(rights, 16) & _CHANGING != 0
    return _READING.match(rights) is None


@lru_cache(maxsize=2)
def _library(name: str) -> ctypes.CDLL:
    assert sys.platform == "win32"
    return ctypes.WinDLL(name, use_last_error=True)


def _security(where: Path | int) -> tuple[str, str]:
    """The owner of a file, and its access list as text."""
    calls, owner, descriptor = _library("advapi32"), ctypes.c_void_p(), ctypes.c_void_p()
    asked = _FILE, _OWNER | _ACCESS, ctypes.byref(owner), None, None, None
    if isinstance(where, int):
        with no_fork:
            import msvcrt  # noqa: PLC0415 - of Windows alone

        handle = ctypes.c_void_p(msvcrt.get_osfhandle(where))  # type: ignore[attr-defined] - likewise
        code = calls.GetSecurityInfo(handle, *asked, ctypes.byref(descriptor))
    else:
        name = ctypes.c_wchar_p(str(where))
        code = calls.GetNamedSecurityInfoW(name, *asked, ctypes.byref(descriptor))
    if code:
        raise OSError(code, "no security information", str(where))
    try:
        convert = calls.ConvertSecurityDescriptorToStringSecurityDescriptorW
        return _name_of(owner), _text(convert, descriptor, 1, _ACCESS, end=(None,))
    finally:
        _library("kernel32").LocalFree(descriptor)


@lru_cache(maxsize=1)
def _user() -> str:
    """The user that this process runs as."""
    calls, system, token = _library("advapi32"), _library("kernel32"), ctypes.c_void_p()
    process = ctypes.c_void_p(-1)  # a pseudo handle for this one
    if not calls.OpenProcessToken(process, _QUERY, ctypes.byref(token)):
        raise OSError("no token of this process")
    try:
        room, size = ctypes.create_string_buffer(256), ctypes.c_ulong()
        rest = room, len(room), ctypes.byref(size)
        if not calls.GetTokenInformation(token, _TOKEN_USER, *rest):
            raise OSError("no user of this process")
        return _name_of(ctypes.c_void_p.from_buffer(room))
    finally:
        system.CloseHandle(token)


def _name_of(account: ctypes.c_void_p) -> str:
    return _text(_library("advapi32").ConvertSidToStringSidW, account)


def _text(convert: Callable[..., object], *arguments: object, end: tuple[object, ...] = ()) -> str:
    """The text that a function of Win32 allocates."""
    place = ctypes.c_void_p()
    if not convert(*arguments, ctypes.byref(place), *end) or not place.value:
        raise OSError("no text of an owner or an access list")
    try:
        return ctypes.wstring_at(place.value)
    finally:
        _library("kernel32").LocalFree(place)
