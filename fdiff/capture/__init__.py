"""What a function reads from outside itself while it is traced, and whether that is still the same.

`f` runs as a private copy (`function_copies.py`). What the copy finds in place of modules,
containers and objects is a proxy or a copy, which records what is read; `proxy_rules.py` lists
them by kind of value. What was read is kept as a graph of dependencies (`dependencies.py`), which
is compared again before the next call.
"""

from .capture_run import Capture
from .dependencies import Dependencies

__all__ = ["Capture", "Dependencies"]
