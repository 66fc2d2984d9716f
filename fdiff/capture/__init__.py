"""What a function reads from outside itself while it is traced, and whether that is still the same.

`f` runs as a private copy (`private_copies.py`). The modules, containers and objects that the copy
finds are proxies, which record what is read (`proxies.py` and its neighbours). What was read is
kept as a graph of dependencies (`dependencies.py`), which is compared again before the next call.
"""

from .dependencies import Dependencies
from .private_copies import Capture

__all__ = ["Capture", "Dependencies"]
