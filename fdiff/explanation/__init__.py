"""What a call will cost and how it will run, before it is run: `explain`, and `draw`."""

from .drawing import draw as draw
from .explain import explain as explain
from .explained_facts import Cost as Cost
from .explanation import Explanation as Explanation
