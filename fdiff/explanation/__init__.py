"""The cost and the tier of a call, before it runs: `explain`, and `draw`."""

from .drawing import draw as draw
from .explain import explain as explain
from .explained_facts import Cost as Cost
from .explanation import Explanation as Explanation
