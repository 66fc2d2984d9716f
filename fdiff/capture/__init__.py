"""What a function reads from outside itself while it is traced, and whether it is still so.

`private_copies` makes the copies of functions that run in place of the user's, the modules of
proxies what they find in place of modules, objects and data; `dependencies` compares later what was
read. `value_kinds` tells values apart.
"""

from .dependencies import Reads
from .private_copies import Capture

__all__ = ["Capture", "Reads"]
