"""Ways out of errors that NumPy, Python, SciPy and fdiff's torch-like names raise, by their words.

`tracebacks.py` puts them into notes. The first row counts whose words are in the error.
"""

from __future__ import annotations

# Data that NumPy makes no array of.
DATA = {
    "maximum number of dimension of": "NumPy has no arrays of more axes: x.reshape(-1) has one.",
    "array is too big": "Use products, fdiff.vjp, jvp or hvp, which are no larger than the inputs.",
    "inhomogeneous": "Make an array of each part, and put these into a tuple or dict.",
    "int too large to convert": "Pass a float.",
}
_POSITIONS = "Positions go from -n to n - 1, where n is the length, or the number of axes."
CONSTRAINT = (
    "NonlinearConstraint calls hess(x, v): write"
    " hess=fdiff.hessian(lambda x, v: numpy.dot(v, {name}(x)))."
)
_INTEGERS = "Differentiated ints are floats: leave sizes, positions and trips out of argnums."
WAYS = DATA | {
    # calls of Python
    "required positional": "Pass what `{name}` takes: arguments stand as they do in its own calls.",
    "required keyword": "Pass what `{name}` takes: arguments stand as they do in its own calls.",
    "positional argument": "Pass what `{name}` takes: arguments stand as they do in its own calls.",
    # SciPy
    "keyword argument 'args'": "Write its entries after the point: (x, a, b), without args=.",
    "unexpected keyword": "Leave it out: keywords that are not options of fdiff go to `{name}`.",
    "Unknown solver": "Name one of SciPy's. For IPOPT, write fdiff.optimize.Problem(f).ipopt(x0).",
    # NumPy
    "broadcast": "Shapes are compared from the last axis: lengths must be equal, or one of them 1.",
    "single integer": _INTEGERS,
    "integer scalar arrays": _INTEGERS,
    "interpreted as an integer": _INTEGERS,
    "only integers, slices": _INTEGERS,
    "by non-int": _INTEGERS,
    "core dimension": "The last axis of the first must be as long as the second's last but one.",
    "not aligned": "The last axis of the first must be as long as the second's last but one.",
    "reshape": "The new shape needs as many entries as the old one; -1 stands for what is left.",
    "constant width": _POSITIONS + " NumPy would clip such a slice: read up to n - width, or pad.",
    "out of bounds": _POSITIONS,
    "Singular matrix": "Differentiate at another point, or use numpy.linalg.lstsq or pinv.",
    "positive definite": "Differentiate at another point, or add a multiple of the identity first.",
    # fdiff.autograd, in torch's words
    "appears to not have been used": "Pass allow_unused=True to have None in its place.",
    "only for scalar outputs": "Pass a gradient that is shaped like the output, of ones for a sum.",
    "leaf Variable": "Update it under `with fdiff.autograd.no_grad():`, or store into a copy.",
    "grad_output": "Pass a gradient that is shaped like the output.",
    "incorrect number of gradients": "Return one for each argument of forward; it may be None.",
    "invalid gradient": "Sum it over the axes along which the argument was broadcast.",
    "incorrect number of values": "Return as many as the hook was given, or None to keep them.",
    "has changed the type of": "Return an array of the same dtype, or None to keep it.",
    "has changed the size": "Return a gradient of the same shape, or None to keep it.",
    "a second time": "Write backward(retain_graph=True) the first time.",
    "unpack_hook expected": "Return the array that pack_hook was given, from what it returned.",
    "what was packed had": "Return the array that pack_hook was given, from what it returned.",
    "doesn't require gradient": "Make it by fdiff.autograd.tensor(data, requires_grad=True).",
    "requires_grad=False": "Make it by fdiff.autograd.tensor(data, requires_grad=True).",
    "does not require grad": "Make inputs by tensor(x, requires_grad=True), outside of no_grad().",
    "on non-leaf tensors": "Use register_hook for what is computed.",
    "must implement the forward": "Define the static method forward(ctx, *args) in the class.",
    "must implement either the backward": "Define the static method backward(ctx, *grad_outputs).",
    "can only save variables": "Keep objects that are not arrays as attributes of ctx.",
    "cannot be empty": "Leave it out for all leaves.",
    "requires non-empty inputs": "Name at least one recorded array.",
    "same number of tensors and": "Give one for each output; None means 1.",
    "no level exists": "Call it inside of `with fdiff.autograd.forward_ad.dual_level():`.",
    "none was entered": "Write `with fdiff.autograd.forward_ad.dual_level():`.",
    "not the last one that was created": "Leave level out: there is one at a time.",
    "already has a forward gradient": "Make the dual of array.detach().",
    "itself has a forward gradient": "Give tangent.detach().",
    "to be floating point or complex": "Give floats: array.astype(float).",
    "different size than": "Give a tangent that is shaped like the primal.",
}
