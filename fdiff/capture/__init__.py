"""The values that a function reads from outside while it is traced, and whether they are unchanged.

`f` runs as a private copy (`function_copies.py`). In place of modules, containers and objects the
copy finds proxies or copies, which record all reads; `proxy_rules.py` lists them by kind of value.
The reads form a graph of dependencies (`dependencies.py`), which is compared again before the next
call. To record dependencies is the idea of self-adjusting computation (U. A. Acar, G. E. Blelloch
and R. Harper, Adaptive functional programming, ACM TOPLAS 28(6), 2006).
"""

from .capture_run import Capture
from .dependencies import Dependencies

__all__ = ["Capture", "Dependencies"]
