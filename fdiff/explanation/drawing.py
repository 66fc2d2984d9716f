"""`draw`: what is recorded of a function, as a picture."""

from __future__ import annotations

from ..dispatch.arguments import Function
from ..errors import called
from ..functional.call.prepared import example_arguments
from ..functional.operators.jit_programs import traced_call
from ..functional.options import check_callable
from ..pictures import Picture
from ..tracebacks import public
from .array_names import input_facts
from .tape_graphs import graph_of
from .tape_pictures import picture_of


@public
def draw(f: Function, *args: object, **kwargs: object) -> Picture:
    """Draw the operations of a function, the data flow between them, and their source lines.

    Each operation is a box in the colour of the user's line that it comes from. Dashed frames are
    the loop nests of the kernel, in which several operations are computed at once. A loop on the
    tape is drawn once, with its body inside. Of functions of more than 100 operations, each of the
    user's lines is drawn as one box.

    Parameters
    ----------
    f : callable
        Pure function of arrays, or a transform of one: ``draw(grad(f), x)``.
    *args, **kwargs
        Its arguments; only types matter for arrays and floats. A text may give the type of an
        array: ``"f8[1000,3]"``.

    Returns
    -------
    Picture
        An SVG picture. Jupyter shows it by itself; ``save("tape.svg")`` writes it to a file. No
        other package is needed. Costs a trace, and a plan of the kernel.

    Raises
    ------
    TraceError
        If `f` takes a traced value out of NumPy.

    See Also
    --------
    make_tape : The same as text.
    explain : What the function and its derivatives cost.

    References
    ----------
    Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures",
    IEEE Trans. SMC 11(2), pages 109-125, 1981: the whole method.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.draw(lambda x: np.sum(np.sin(x) * x), "f8[100]")
    <picture: draw(<lambda>): 3 operations in 1 group; .save('picture.svg') writes it>
    """
    check_callable(f, "draw")
    with example_arguments(called("draw", f), args, kwargs) as call:
        variant, arrays, tape = traced_call("draw", f, *call)
        names = [fact.name for fact in input_facts(f, variant, arrays, call)]
    return picture_of(graph_of(tape, names), called("draw", f))
