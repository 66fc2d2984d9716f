"""Bad inputs: every place of the public calls that takes a value, times every kind of value.

Each case gives a right result, or an error of fdiff's that names the public call, the user's line,
the fact and the way out; an error of Python's or NumPy's is one that the same code raises without
fdiff. Nothing of the caller's is changed, and the next call is right.
"""

import collections
import dataclasses
import fractions
import inspect
import types
import warnings

import bad_values
import numpy as np
import pytest
from bad_values import VALUES, X
from faults_support import LONG

import fdiff
import fdiff.autograd
import fdiff.profiler
from fdiff.errors import FdiffError

QUICK = 17  # of how many cases the quick part takes one
WRONG = object()
IMMUTABLE = (fractions.Fraction, slice)  # of which a result may be an equal one


def entries(tree):
    """The numbers and arrays in a tree of lists, tuples, dicts and dataclasses."""
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in entries(item)]
    if type(tree) in (dict, collections.OrderedDict):
        return [leaf for item in tree.values() for leaf in entries(item)]
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return entries([getattr(tree, f.name) for f in dataclasses.fields(tree)])
    if isinstance(tree, fdiff.autograd.RecordedArray):
        return [tree.detach().numpy()]
    return [] if tree is None else [tree]


def vector(tree):
    """All entries in one array of a wide dtype; WRONG where they are no numbers."""
    parts = [np.asarray(leaf) for leaf in entries(tree)]
    if any(part.dtype.kind not in "biufc" for part in parts):
        return WRONG
    return np.concatenate([[], *[part.reshape(-1).astype(np.clongdouble) for part in parts]])


def close(got, wanted, tolerance=1e-6):
    a, b = vector(got), vector(wanted)
    if a is WRONG or b is WRONG or a.shape != b.shape:
        return False
    narrow = any(np.asarray(x).dtype.itemsize < 8 for x in entries(wanted))
    return np.allclose(a, b, rtol=1e-2 if narrow else tolerance, atol=1e-9, equal_nan=True)


def same(got, wanted):
    """Whether two trees are built alike, of the same entries, in the byte order of this machine."""
    if got is wanted or isinstance(wanted, fdiff.autograd.RecordedArray):
        return got is wanted or close(got, wanted)
    if isinstance(wanted, IMMUTABLE):
        return got == wanted
    if isinstance(wanted, np.ndarray) or np.isscalar(wanted):
        a, b = np.asarray(got), np.asarray(wanted)
        if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
            return False
        return close(a, b) if vector(b) is not WRONG else a.tobytes() == b.tobytes()
    if isinstance(wanted, (list, tuple)):
        alike = type(got) is type(wanted) and len(got) == len(wanted)
        return alike and all(map(same, got, wanted))
    if isinstance(wanted, dict):
        alike = type(got) is type(wanted) and [*got] == [*wanted]
        return alike and all(map(same, got.values(), wanted.values()))
    if dataclasses.is_dataclass(wanted) and not isinstance(wanted, type):
        return type(got) is type(wanted) and same(vars(got), vars(wanted))
    return got is wanted


def total(tree):
    return sum([np.sum(np.sin(leaf)) for leaf in entries(tree)])


def wave(x):
    return np.sin(x)


def alone(x):
    return np.sum(np.sin(x))


def two(a, b):
    return np.sum(np.sin(a)) + 2.0 * np.sum(np.sin(b))


def with_aux(x):
    return np.sum(np.sin(x)), 7.0


def mapped(function):
    return lambda value: [function(leaf) for leaf in entries(value)]


cosines = mapped(lambda leaf: np.cos(np.asarray(leaf) * 1.0))
conjugates = mapped(lambda leaf: np.conj(np.cos(np.asarray(leaf) * 1.0)))
curvatures = mapped(lambda leaf: -np.sin(np.asarray(leaf) * 1.0))


def as_point(check):
    """The result of an operator at a point, where it gives one."""
    return lambda value, got: close(got, check(value))


def fits(wanted, part=lambda got: got):
    """A vector that is taken has the shape of X; the result is linear in it."""

    def check(value, got):
        arrays = entries(value)
        fitting = len(arrays) == 1 and np.shape(arrays[0]) == X.shape
        return fitting and close(part(got), wanted * np.asarray(arrays[0]))

    return check


def on_or_off(value):
    return isinstance(value, (bool, int, np.bool_, np.integer)) and value in (0, 1)


def whole(value):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def chosen_argument(value, got):
    numbers = (value,) if whole(value) else value
    if not isinstance(numbers, (tuple, list)) or not all(map(whole, numbers)):
        return False
    wanted = [(n % 2 + 1) * np.cos(X) for n in numbers]
    return len(set(numbers)) == len(numbers) and close(got, wanted)


def mapped_axis(value, got):
    axis = value[0] if isinstance(value, (tuple, list)) and len(value) == 1 else value
    whole_or_none = axis is None or whole(axis)
    return whole_or_none and close(got, np.sin(MATRIX if axis in (0, -2) else MATRIX.T))


def out_axis(value, got):
    axis = value[0] if isinstance(value, (tuple, list)) and len(value) == 1 else value
    return whole(axis) and close(got, np.sin(MATRIX if axis in (0, -2) else MATRIX.T))


def slope_of(value, got):
    """The derivative of a callable, by differences of the callable itself."""
    if not callable(value):
        return False
    steps = 1e-6 * np.eye(len(X))
    return close(got, [(value(X + s) - value(X - s)) / 2e-6 for s in steps], 1e-4)


def nothing(value, got):  # what is accepted has no other meaning than the default
    return False


def anything(value, got):
    return True


def mapped_constant(got, wanted):
    """Numbers and arrays of them get the mapped axis; what holds none is passed on."""
    if isinstance(wanted, (bool, int, float, complex, np.number, np.ndarray, np.bool_)):
        return vector(wanted) is WRONG or close(got, np.stack([wanted] * len(X)))
    return got is wanted or (isinstance(wanted, IMMUTABLE) and got == wanted)


def constant(value, got):
    """The derivative of a result that does not depend on the argument."""
    numeric = [leaf for leaf in entries(value) if np.asarray(leaf).dtype.kind in "biufc"]
    sizes = sum(np.size(leaf) for leaf in numeric) * len(X)
    return len(numeric) == len(entries(value)) and close(got, np.zeros(sizes))


MATRIX = np.arange(6.0).reshape(2, 3) / 8


@dataclasses.dataclass(frozen=True)
class Slot:
    """A place for a value in a public call."""

    call: object  # of the value
    right: object = nothing  # whether a result, of the value, is right
    plain: object = None  # the same code without fdiff, which raises what f raises
    writes: bool = False  # whether the call is asked to write to the value, or to iterate over it


def entered(context):
    with context:
        return fdiff.grad(alone)(X)


def ruled(kind, rule):
    made = getattr(fdiff, kind)(lambda x: np.sin(x) * 1.0)
    made.defvjp(lambda x: (np.sin(x), x), rule) if kind == "custom_vjp" else made.defjvp(rule)
    return fdiff.grad(lambda x: np.sum(made(x)))(X)


def flattened(value):
    kind = type("Kind", (), {})
    fdiff.register_pytree(kind, lambda _: value, lambda data, children: kind())
    return fdiff.grad(lambda k: 1.0)(kind())


def recorded(value=X):
    return fdiff.autograd.tensor(value, requires_grad=True)


def backward(value):
    x = recorded()
    np.sin(x).backward(value)
    return x.grad


def hooked(value):
    x = recorded()
    y = x * 1.0
    y.register_hook(lambda bar: value)
    np.sum(np.sin(y)).backward()
    return x.grad


def gradient(**options):
    x = recorded()
    return fdiff.autograd.grad(np.sin(x), x, **options)[0]


POINTS = {
    "grad": Slot(lambda v: fdiff.grad(total)(v), as_point(cosines), total),
    "value_and_grad": Slot(lambda v: fdiff.value_and_grad(total)(v)[1], as_point(cosines), total),
    "jit": Slot(lambda v: fdiff.jit(total)(v), as_point(total), total),
    "jacobian": Slot(lambda v: fdiff.jacobian(total, v), as_point(cosines), total),
    "jacfwd": Slot(
        lambda v: fdiff.jacfwd(total)(v),  # a NaN times a zero of the tangent is one, as in JAX
        lambda v, got: close(got, cosines(v)) or np.isnan(vector(v)).any(),
        total,
    ),
    "jacrev": Slot(lambda v: fdiff.jacrev(total)(v), as_point(cosines), total),
    "hessian": Slot(
        lambda v: fdiff.hessian(total, v),
        lambda v, got: close(sum(vector(got)), sum(vector(curvatures(v)))),
        total,
    ),
    "hessian_diagonal": Slot(
        lambda v: fdiff.hessian_diagonal(total, v), as_point(curvatures), total
    ),
    "vjp": Slot(lambda v: fdiff.vjp(total, v)[1], as_point(conjugates), total),
    "jvp": Slot(
        lambda v: fdiff.jvp(total, v, v)[1],
        as_point(lambda v: sum(np.sum(np.cos(x) * x) for x in entries(v))),
        total,
    ),
    "hvp": Slot(
        lambda v: fdiff.hvp(total, v, v)[1],
        as_point(mapped(lambda x: -np.sin(x) * x)),
        total,
    ),
    "vhp": Slot(
        lambda v: fdiff.vhp(total, v, v)[1],
        as_point(mapped(lambda x: -np.sin(x) * x)),
        total,
    ),
    "linearize": Slot(lambda v: fdiff.linearize(total, v)[0], as_point(total), total),
    "vmap": Slot(lambda v: fdiff.vmap(total)(v), lambda v, got: close(np.sum(got), total(v))),
    "ravel": Slot(lambda v: fdiff.ravel(v)[0], as_point(entries)),
    "gradcheck": Slot(lambda v: fdiff.gradcheck(total, v, raise_exception=False), anything, total),
    "gradgradcheck": Slot(
        lambda v: fdiff.gradgradcheck(total, v, raise_exception=False), anything, total
    ),
    "check_grads": Slot(lambda v: fdiff.check_grads(total, (v,), 1), anything, total),
    "source": Slot(lambda v: fdiff.source(total, v), anything, total),
    "make_tape": Slot(lambda v: fdiff.make_tape(total, v), anything, total),
    "explain": Slot(lambda v: repr(fdiff.explain(total, v)), anything, total),
    "cfunc": Slot(lambda v: fdiff.cfunc(fdiff.grad(alone), v), anything, alone),
    "second": Slot(
        lambda v: fdiff.grad(lambda x, v: np.sum(np.sin(x)))(X, v),
        lambda v, got: close(got, np.cos(X)),
    ),
    "keyword": Slot(
        lambda v: fdiff.grad(lambda x, *, v: np.sum(np.sin(x)))(X, v=v),
        lambda v, got: close(got, np.cos(X)),
    ),
    "passed on": Slot(lambda v: fdiff.jit(lambda x, v: v)(X, v), lambda v, got: same(got, v)),
    "stop_gradient": Slot(lambda v: fdiff.stop_gradient(v), lambda v, got: same(got, v)),
    "checkpoint": Slot(lambda v: fdiff.checkpoint(total)(v), as_point(total), total),
    "checkpoint inside": Slot(
        lambda v: fdiff.grad(lambda x: fdiff.checkpoint(lambda y, v: np.sum(np.sin(y)))(x, v))(X),
        lambda v, got: close(got, np.cos(X)),
    ),
    "tensor": Slot(
        lambda v: fdiff.autograd.tensor(v).detach().numpy(), lambda v, got: close(got, v), np.array
    ),
    "outputs": Slot(lambda v: fdiff.autograd.grad(v, recorded()), nothing, tuple, writes=True),
    "inputs": Slot(
        lambda v: fdiff.autograd.grad(np.sum(recorded()), v), nothing, tuple, writes=True
    ),
    "roots": Slot(lambda v: fdiff.autograd.backward(v), anything, tuple, writes=True),
    "compile": Slot(lambda v: fdiff.grad(total).compile(v), anything, total),
}
VECTORS = {
    "vjp v": Slot(lambda v: fdiff.vjp(wave, X, v)[1], fits(np.cos(X))),
    "jvp v": Slot(lambda v: fdiff.jvp(wave, X, v)[1], fits(np.cos(X))),
    "hvp v": Slot(lambda v: fdiff.hvp(alone, X, v)[1], fits(-np.sin(X))),
    "vhp v": Slot(lambda v: fdiff.vhp(alone, X, v)[1], fits(-np.sin(X))),
    "linearize v": Slot(lambda v: fdiff.linearize(wave, X)[1](v), fits(np.cos(X))),
    "grad_outputs": Slot(lambda v: gradient(grad_outputs=v), fits(np.cos(X)), tuple, writes=True),
    "backward": Slot(backward, fits(np.cos(X)), tuple, writes=True),
    "hook": Slot(hooked, lambda v, got: close(got, np.cos(X) if v is None else v), np.array),
    "out": Slot(
        lambda v: fdiff.grad(alone)(X, out=v), lambda v, got: close(got, np.cos(X)), writes=True
    ),
}
OPTIONS = {
    "argnums": Slot(lambda v: fdiff.grad(two, v)(X, X), chosen_argument),
    "argnums of jacobian": Slot(lambda v: fdiff.jacobian(two, argnums=v)(X, X), chosen_argument),
    "argnums at a point": Slot(
        lambda v: fdiff.jacobian(alone, X, argnums=v), lambda v, got: whole(v) and v == 0
    ),
    "argnums of explain": Slot(lambda v: repr(fdiff.explain(alone, X, argnums=v)), anything),
    "has_aux": Slot(
        lambda v: fdiff.grad(with_aux, has_aux=v)(X),
        lambda v, got: on_or_off(v) and v and close(got, [np.cos(X), 7.0]),
    ),
    "strict": Slot(
        lambda v: fdiff.jacobian(wave, X, strict=v),
        lambda v, got: on_or_off(v) and close(got, np.diag(np.cos(X))),
    ),
    "mode": Slot(lambda v: fdiff.jacobian(wave, X, mode=v), lambda v, got: v == "auto"),
    "strategy": Slot(
        lambda v: fdiff.hessian(np.sum, X, outer_jacobian_strategy=v), lambda v, got: v is None
    ),
    "chunk_size": Slot(
        lambda v: fdiff.jacobian(wave, X, chunk_size=v),
        lambda v, got: v is None or v == "auto" or (whole(v) and v > 0),
    ),
    "in_axes": Slot(lambda v: fdiff.vmap(wave, v)(MATRIX), mapped_axis),
    "out_axes": Slot(lambda v: fdiff.vmap(wave, 0, v)(MATRIX), out_axis),
    "device": Slot(lambda v: fdiff.grad(alone, device=v)(X)),
    "complex_inputs": Slot(lambda v: fdiff.grad(alone, complex_inputs=v)(X)),
    "compiler": Slot(lambda v: fdiff.jit(alone, compiler=v)(X), lambda v, got: v is None),
    "stage": Slot(lambda v: fdiff.source(alone, X, stage=v), lambda v, got: not v),
    "order": Slot(lambda v: fdiff.check_grads(alone, (X,), v), lambda v, got: whole(v) and v > 0),
    "modes": Slot(lambda v: fdiff.check_grads(alone, (X,), 1, v)),
    "eps": Slot(
        lambda v: fdiff.gradcheck(alone, X, eps=v, raise_exception=False),
        lambda v, got: np.isscalar(v) and v > 0,
    ),
    "atol": Slot(
        lambda v: fdiff.gradcheck(alone, X, atol=v, raise_exception=False),
        lambda v, got: np.isscalar(v) and v >= 0,
    ),
    "nondiff_argnums": Slot(
        lambda v: fdiff.custom_vjp(alone, nondiff_argnums=v),
        lambda v, got: all(whole(n) and n >= 0 for n in ((v,) if whole(v) else v)),
    ),
    "policy": Slot(lambda v: entered(fdiff.kinks(v))),
    "misses": Slot(lambda v: fdiff.cfunc(fdiff.grad(alone), X, misses=v)),
    "label": Slot(
        lambda v: entered(fdiff.profiler.record_function(v)), lambda v, got: isinstance(v, str)
    ),
    "path": Slot(
        lambda v: fdiff.profiler.load_nvprof(v),
    ),
    "use_device": Slot(lambda v: fdiff.profiler.profile(use_device=v), lambda v, got: v is None),
    "retain_graph": Slot(
        lambda v: gradient(retain_graph=v, grad_outputs=X),
        lambda v, got: v is None or on_or_off(v),
    ),
    "grad mode": Slot(
        lambda v: entered(fdiff.autograd.set_grad_enabled(v)), lambda v, got: on_or_off(v)
    ),
    "requires_grad": Slot(
        lambda v: fdiff.autograd.tensor(X, requires_grad=v), lambda v, got: on_or_off(v)
    ),
    "dtype": Slot(
        lambda v: fdiff.autograd.tensor(X, dtype=v),
        lambda v, got: got.dtype == np.array(X, dtype=v).dtype,
        lambda v: np.array(X, dtype=v),
    ),
}
FUNCTIONS = {
    "grad of": Slot(lambda v: fdiff.grad(v)(X), slope_of, lambda v: v(X)),
    "jit of": Slot(lambda v: fdiff.jit(v)(X), lambda v, got: close(got, v(X)), lambda v: v(X)),
    "jacfwd of": Slot(lambda v: fdiff.jacfwd(v)(X), anything, lambda v: v(X)),
    "jacobian of": Slot(lambda v: fdiff.jacobian(v, X), anything, lambda v: v(X)),
    "hessian of": Slot(lambda v: fdiff.hessian(v, X), anything, lambda v: v(X)),
    "vjp of": Slot(lambda v: fdiff.vjp(v, X)[1], anything, lambda v: v(X)),
    "jvp of": Slot(lambda v: fdiff.jvp(v, X, X)[1], anything, lambda v: v(X)),
    "hvp of": Slot(lambda v: fdiff.hvp(v, X, X)[1], anything, lambda v: v(X)),
    "linearize of": Slot(lambda v: fdiff.linearize(v, X)[0], anything, lambda v: v(X)),
    "vmap of": Slot(
        lambda v: fdiff.vmap(v)(X), lambda v, got: len(got) == len(X), lambda v: v(X[0])
    ),
    "gradcheck of": Slot(
        lambda v: fdiff.gradcheck(v, X, raise_exception=False), anything, lambda v: v(X)
    ),
    "source of": Slot(lambda v: fdiff.source(v, X), anything, lambda v: v(X)),
    "explain of": Slot(lambda v: repr(fdiff.explain(v, X)), anything, lambda v: v(X)),
    "cfunc of": Slot(lambda v: fdiff.cfunc(v, X), anything),
    "njit of": Slot(lambda v: fdiff.njit(v, X), anything),
    "checkpoint of": Slot(lambda v: fdiff.checkpoint(v)(X), anything, lambda v: v(X)),
    "custom_vjp of": Slot(lambda v: fdiff.custom_vjp(v)(X), anything, lambda v: v(X)),
    "custom_jvp of": Slot(lambda v: fdiff.custom_jvp(v)(X), anything, lambda v: v(X)),
    "primitive of": Slot(lambda v: fdiff.primitive(v)(X), anything, lambda v: v(X)),
    "pytree of": Slot(
        lambda v: fdiff.register_pytree(v, lambda k: ((), None), lambda d, c: None),
        lambda v, got: isinstance(v, type),
    ),
}
RESULTS = {
    "result of grad": Slot(
        lambda v: fdiff.grad(lambda x: v)(X),
        lambda v, got: np.size(v) == 1 and constant(v, got),
    ),
    "result of jit": Slot(lambda v: fdiff.jit(lambda x: v)(X), lambda v, got: same(got, v)),
    "result of jacobian": Slot(lambda v: fdiff.jacobian(lambda x: v, X), constant),
    "result of jacfwd": Slot(lambda v: fdiff.jacfwd(lambda x: v)(X), constant),
    "result of vjp": Slot(
        lambda v: fdiff.vjp(lambda x: v, X, v)[1], lambda v, got: close(got, np.zeros(3))
    ),
    "result of jvp": Slot(
        lambda v: fdiff.jvp(lambda x: v, X, X)[1],
        lambda v, got: close(got, [np.zeros(np.shape(x)) for x in entries(v)]),
    ),
    "result of hvp": Slot(
        lambda v: fdiff.hvp(lambda x: v, X, X)[1], lambda v, got: close(got, np.zeros(3))
    ),
    "result of hessian": Slot(
        lambda v: fdiff.hessian(lambda x: v, X), lambda v, got: not np.any(vector(got))
    ),
    "result of vmap": Slot(
        lambda v: fdiff.vmap(lambda x: v)(X),
        lambda v, got: (
            "Recorded" in type(v).__name__  # it is passed on, and recorded again
            or all(map(mapped_constant, entries(got), entries(v)))
        ),
    ),
    "aux": Slot(
        lambda v: fdiff.grad(lambda x: (np.sum(np.sin(x)), v), has_aux=True)(X),
        lambda v, got: close(got[0], np.cos(X)) and same(got[1], v),
    ),
    "result of a vjp rule": Slot(
        lambda v: ruled("custom_vjp", lambda x, bar: v),
        lambda v, got: isinstance(v, (tuple, list)) and len(v) == 1 and close(got, v[0]),
    ),
    "result of a jvp rule": Slot(
        lambda v: ruled("custom_jvp", lambda x_dot, x: v), lambda v, got: not np.any(got)
    ),
    "result of checkpoint": Slot(
        lambda v: fdiff.checkpoint(lambda x: v)(X), lambda v, got: same(got, v)
    ),
    "result of flatten": Slot(flattened, lambda v, got: isinstance(v, tuple) and len(v) == 2),
}
CAPTURED = {
    "captured": Slot(
        lambda v: fdiff.grad(lambda x: np.sum(np.sin(x)) if v is v else 0.0)(X),
        lambda v, got: close(got, np.cos(X)),
    ),
    "captured factor": Slot(
        lambda v: fdiff.jit(lambda x: x * v)(X),
        lambda v, got: close(got, X * v),
        lambda v: X * v,
    ),
    "captured index": Slot(
        lambda v: fdiff.jit(lambda x: x[v])(X), lambda v, got: close(got, X[v]), lambda v: X[v]
    ),
    "captured branch": Slot(
        lambda v: fdiff.grad(lambda x: np.sum(np.sin(x)) if v else 0.0)(X),
        lambda v, got: close(got, np.cos(X) if v else 0.0 * X),
        bool,
    ),
}
SLOTS = {**POINTS, **VECTORS, **OPTIONS, **FUNCTIONS, **RESULTS, **CAPTURED}
CASES = [(slot, value) for slot in SLOTS for value in VALUES]
NAMES = (*fdiff.__all__, *fdiff.profiler.__all__, "fdiff.autograd.", "backward", "compile")
RECORDED = {"grad_outputs", "backward", "hook", "inputs", "outputs", "roots"}


def state_of(value):
    """What must be as it was: bytes, flags and contents, without comparing anything."""
    seen, waiting, found = set(), [value], []
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        kind = type(part)
        if isinstance(part, np.ndarray) and part is not np.ma.masked:
            flags = part.flags
            found.append((id(part), part.dtype, part.shape, part.strides, flags.writeable))
            found.append(b"" if part.size > 10**6 else part.tobytes())
            continue
        children = []
        if kind in (list, tuple, set):
            children = list(part)
        elif kind is dict:
            children = list(part.values())
        elif kind is bad_values.Fields:
            children = [part.left, part.right]
        elif isinstance(part, types.GeneratorType):
            found.append(inspect.getgeneratorstate(part))
        elif isinstance(part, np.random.Generator):
            found.append(str(part.bit_generator.state))
        found.append((id(part), [id(child) for child in children]))
        waiting += children
    return found


def by_python(error, slot, value):
    """Whether the same code without fdiff raises such an error too, or arguments are missing."""
    words = str(error)
    if isinstance(error, TypeError) and ("argument" in words or "signature" in words):
        return True
    if SLOTS[slot].plain is None:
        return False
    try:
        with np.errstate(all="ignore"):
            SLOTS[slot].plain(VALUES[value]())
    except Exception:  # noqa: BLE001 - whatever it is
        return True
    return False


def complaint(error, slot, value):
    """What is wrong with an error, or None."""
    text = str(error)
    if not isinstance(error, FdiffError):
        torch = slot in RECORDED and isinstance(error, RuntimeError)  # in torch's words, by a note
        if not torch and not by_python(error, slot, value):
            return f"{type(error).__name__}: {text}"
        notes = "\n".join(getattr(error, "__notes__", []))
        if "value" in text or isinstance(error, ZeroDivisionError) or slot.startswith("checkpoint"):
            return None  # a class of the user's raised it on purpose
        text = notes or text
    lines = [line for line in text.splitlines() if line]
    if not text.startswith(NAMES):
        return f"names no public call: {text}"
    where = [k for k, line in enumerate(lines) if line.startswith("    ") and ".py:" in line]
    if not where:
        return f"shows no line: {text}"
    if where[0] == 0 or where[-1] == len(lines) - 1:
        return f"has no way out: {text}"
    return None


def tried(slot, value):
    """What is wrong with one case, or None."""
    own = VALUES[value]()
    before = state_of(own)
    place = SLOTS[slot]
    try:
        got = place.call(own)
    except Exception as error:  # noqa: BLE001 - whatever it is
        found = complaint(error, slot, value)
    else:
        found = None
        try:
            if not place.right(own, got):
                found = f"accepted: {got!r}"[:300]
        except Exception as error:  # noqa: BLE001 - whatever it is
            found = f"accepted, and compared with {type(error).__name__}: {error}"
    if not place.writes and state_of(own) != before:
        found = f"changed what the caller has; {found}"
    if not close(HOT(X), np.cos(X)):
        found = f"broke the next call; {found}"
    return found


HOT = fdiff.grad(alone)


def sweep(cases):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = {case: tried(*case) for case in cases}
    return {case: words for case, words in found.items() if words}


@pytest.mark.parametrize("tier", ["", "interpret", "compile"] if LONG else [""])
@pytest.mark.parametrize("part", range(8))
def test_bad_inputs_are_right_or_refused(part, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    cases = CASES if LONG else CASES[::QUICK]
    wrong = sweep(cases[part::8])
    assert not wrong, "\n".join(f"{case}: {words}" for case, words in wrong.items())


@pytest.mark.parametrize("argument", [None, (), {}, [], (None, ())], ids=repr)
@pytest.mark.parametrize("operator", [fdiff.jacobian, fdiff.hessian])
def test_derivatives_by_what_has_no_arrays(operator, argument):
    """Each output has the derivative by nothing, which is nested like the argument."""
    for sparse in (False, True):
        nothing = operator(lambda x: 1.0, sparse=sparse)(argument)
        assert nothing == argument
        found = operator(lambda x: {"a": 1.0, "b": (2.0, 3.0)}, sparse=sparse)(argument)
        assert found == {"a": nothing, "b": (nothing, nothing)}
