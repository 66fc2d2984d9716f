"""What a function reads from outside itself while it is traced, and whether that is still the same.

`f` runs as a private copy (`function_copies.py`). What the copy finds in place of modules,
containers and objects is a proxy or a copy, which records what is read; `proxy_rules.py` lists
them by kind of value. What was read is kept as a graph of dependencies (`dependencies.py`), which
is compared again before the next call: what reads depend on is recorded as in self-adjusting
computation (U. A. Acar, G. E. Blelloch and R. Harper, Adaptive functional programming, ACM TOPLAS
28(6), 2006), and nothing is recomputed in part.
"""

from .capture_run import Capture
from .dependencies import Dependencies

__all__ = ["Capture", "Dependencies"]
