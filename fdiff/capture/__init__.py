"""What a function reads from outside itself while it is traced, and whether that is still the same.

`f` runs as a private copy (`private_copies.py`). The modules, containers and objects that the copy
finds are proxies, which record what is read (`proxies.py` and its neighbours). What was read is
kept as a graph of dependencies (`dependencies.py`), which is compared again before the next call.
"""

from .capture_run import Capture
from .dependencies import Dependencies

__all__ = ["Capture", "Dependencies"]
