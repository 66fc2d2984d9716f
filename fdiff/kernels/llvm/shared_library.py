"""LLVM's shared library, opened while other threads run Python.

llvmlite opens the library by `ctypes.CDLL`, which holds the interpreter's lock throughout: no other
thread runs for 10 to 60 ms. A library that is already open is found at once.
"""

from __future__ import annotations

import ctypes
import os
from importlib.util import find_spec
from pathlib import Path

from llvmlite.utils import get_library_name

from ...foreign_errors import file_status
from ...process.memory_reserve import check_room


def open_library() -> None:
    """Open LLVM's library without the interpreter's lock; if absent, llvmlite opens it later."""
    if os.name != "posix":
        return
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return
    path = Path(spec.origin).with_name("binding").joinpath(get_library_name())
    if (status := file_status(path)) is not None:
        check_room(status.st_size)
        system_open = ctypes.CDLL(None).dlopen  # a foreign function: called without the lock
        system_open.argtypes, system_open.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_void_p
        system_open(os.fsencode(path), os.RTLD_NOW)
