"""The modules of this folder that are imported when they are first needed, and why.

- `machine_code` loads LLVM, which takes 30 ms and 40 MB. A program whose tapes are interpreted
  needs none of it.
- `source_generation` loads all passes and the code generator. A kernel whose text is on disk needs
  none of them.

Numba has its own place, `compiler_choice.numba_compiler`, since `machine_code` asks for it.

All other imports in `kernels` are at the top of a file, apart from single modules of the standard
library or of a dependency. What others ask of `kernels` is loaded on demand by its `__init__`.
An import holds Python's import lock, so no process may fork meanwhile (`no_fork`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..process.forking import no_fork
from ..process.garbage_collection import collector_paused
from ..process.memory_reserve import check_room

if TYPE_CHECKING:
    from . import machine_code as machine_code  # noqa: PLC0414 - for importers
    from .codegen import source_generation as source_generation  # noqa: PLC0414 - likewise

_MODULES = {"machine_code": ".machine_code", "source_generation": ".codegen.source_generation"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(name)
    with no_fork, collector_paused():
        check_room()  # imports that fail for lack of it say nothing of memory
        return import_module(_MODULES[name], __package__)
