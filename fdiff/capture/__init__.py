"""What a function reads from outside itself while it is traced, and whether it is still so.

`private` makes the copies of functions that run in place of the user's, `standins` and `containers`
what they find in place of modules and data, `reads` compares later. `kinds` tells values apart.
"""

from .dependencies import Reads
from .private_copies import Capture

__all__ = ["Capture", "Reads"]
