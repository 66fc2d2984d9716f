"""The layout by which code compiled by Numba calls a prepared function, derived from an example
call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any, cast

import fdiff.intact_numpy as np

from ... import kernels
from ...device_arrays import CPU
from ...dispatch.arguments import NUMERIC, STATIC, Function
from ...dispatch.fast_paths.recorded_plans import Split
from ...dispatch.fast_paths.result_template import Placeholder
from ...dispatch.fast_paths.single_kernels import SingleKernel
from ...dispatch.program import Program
from ...dispatch.variant import Variant
from ...errors import InputError, UnsupportedError, called, failure
from ...foreign_errors import not_foreign
from ...kernels import CallLayout, Number, Result
from ...named_tuples import NamedTuple
from ...tree import Spec, flatten, map_leaves, node_parts, unflatten
from ..call.invocation import no_vectors
from ..call.prepared import AnyPrepared

TAKES = "Pass arrays, numbers, and tuples of these."
GIVES = "Return arrays, numbers, None, and tuples of these."


class CalledFunction(NamedTuple):
    """The parts of a prepared function that compiled code needs; `name` is ``grad(model)``.

    The prepared function itself is left out: it holds the machine code, and the machine code keeps
    these records, so that a reference back to the function would be a cycle that is never freed.
    """

    operator: str
    name: str
    program: Program
    f: Function
    split: Split


def called_function(prepared: AnyPrepared) -> CalledFunction:
    """The record of a prepared function; an error if it runs on a GPU."""
    operator, f = prepared.__fdiff__, prepared.__wrapped__
    name, device = called(operator, f), prepared.program.device
    if device != CPU:
        fact = f"it runs on {device!r}, and compiled code calls kernels of the CPU."
        raise failure(InputError, name, fact, "Make it without device= for njit and cfunc.")
    return CalledFunction(operator, name, prepared.program, f, prepared.split)


class Example(NamedTuple):
    """The arguments of an example call, as leaves and a tree.

    `ints` says for each leaf whether Python ints are taken as floats.
    """

    leaves: tuple[object, ...]
    spec: Spec
    ints: tuple[bool, ...]

    @property
    def given(self) -> tuple[tuple[object, ...], dict[str, object]]:
        """Arguments and keywords."""
        return unflatten(self.spec, self.leaves)

    def with_leaves(self, leaves: Sequence[object]) -> Example:
        """Return the call with other arguments."""
        return self._replace(leaves=tuple(leaves))


def check_examples(
    prepared: AnyPrepared, args: tuple[object, ...], kwargs: dict[str, object], call: str
) -> None:
    """Refuse examples that are not arguments of the function."""
    own, _ = prepared.split(args)
    try:
        signature(prepared.__wrapped__).bind(*own, **kwargs)
    except not_foreign(TypeError) as error:
        way = "Give an example of each argument: an array, a number, or a text such as 'f8[3]'."
        raise failure(InputError, call, f"the examples do not fit: {error}.", way) from None
    except not_foreign(ValueError):  # a function in C that does not tell what it takes
        return


def call_example(
    target: CalledFunction, args: tuple[object, ...], kwargs: dict[str, object]
) -> Example:
    """A call with the classes of numbers that code of Numba has: float, complex, int, bool."""
    leaves, spec = flatten((args, kwargs))
    ints = _taken_as_floats(target, args, kwargs)
    example_leaves = [
        _as_leaf(leaf, as_float, target.name) for leaf, as_float in zip(leaves, ints, strict=True)
    ]
    return Example(tuple(example_leaves), spec, ints)


def _taken_as_floats(
    target: CalledFunction, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[bool, ...]:
    """Which leaves are differentiated, or belong to the vector of a product."""
    argnums = target.program.argnums
    chosen = (argnums,) if isinstance(argnums, int) else argnums or ()
    if target.split is not no_vectors:
        chosen = (0, 1)
    places = {n % max(len(args), 1) for n in chosen}
    flags = [k in places for k, arg in enumerate(args) for _ in flatten(arg)[0]]
    return (*flags, *[False] * len(flatten(kwargs)[0]))


def _as_leaf(leaf: object, as_float: bool, call: str) -> object:  # noqa: FBT001 - for each leaf
    """A leaf as code of Numba has it."""
    if type(leaf) is np.ndarray and leaf.dtype.kind in NUMERIC and leaf.dtype.isnative:
        return leaf
    if isinstance(leaf, np.generic) and leaf.dtype.kind in "fc":
        return leaf.item() if leaf.dtype.char in "dD" else leaf
    if isinstance(leaf, (np.bool_, np.integer)):
        leaf = leaf.item()
    if type(leaf) is int and as_float:
        return float(leaf)
    if type(leaf) in (bool, int, float, complex):
        return leaf
    fact = f"an argument of type {type(leaf).__name__} cannot be passed in compiled code."
    raise failure(InputError, call, fact, TAKES)


def given_layout(target: CalledFunction, example: Example, *, any_tree: bool = False) -> CallLayout:
    """The layout of the arguments alone, with their own dtypes.

    Lists, dictionaries and dataclasses are refused unless `any_tree` says that they count as tuples
    of their leaves.
    """
    args, kwargs = example.given
    call = target.name
    number = iter(range(len(example.leaves)))
    every = (*args, *kwargs.values())
    arguments = tuple([_tree(arg, number, call, any_tree=any_tree) for arg in every])
    leaves = tuple(map(_argument, example.leaves, example.ints))
    return CallLayout(call, arguments, tuple(kwargs), leaves, None, (), ())


def _argument(
    leaf: object,
    ints: bool,  # noqa: FBT001 - for each leaf
) -> kernels.ArrayArgument | kernels.NumberArgument | kernels.ValueArgument:
    if isinstance(leaf, np.ndarray):
        return kernels.ArrayArgument(leaf.dtype, leaf.ndim, leaf.dtype)
    if type(leaf) in STATIC:
        return kernels.ValueArgument(type(leaf))
    dtype = np.dtype(type(leaf))
    return kernels.NumberArgument(dtype, dtype, ints)


def _tree(value: object, number: Iterator[int], call: str, *, any_tree: bool) -> object:
    """An argument as a tree of numbers."""
    if value is None:
        return None
    parts = node_parts(value)
    if parts is None:
        return next(number)
    if not isinstance(value, tuple) and not any_tree:
        fact = f"an argument of type {type(value).__name__} cannot be passed in compiled code."
        raise failure(InputError, call, fact, TAKES)
    return tuple([_tree(child, number, call, any_tree=any_tree) for child in parts[1]])


def full_layout(
    partial_layout: CallLayout, single: SingleKernel, *, any_tree: bool = False
) -> tuple[CallLayout, tuple[object, ...]]:
    """The layout of a call, and its results in this kernel: outputs, or numbers."""
    pairs = zip(single.sources, single.kernel.inputs, strict=True)
    read = {source: argument.dtype for source, argument in pairs if type(source) is int}
    arguments = tuple([
        argument._replace(read=read[k]) if k in read else argument
        for k, argument in enumerate(partial_layout.given)
    ])  # fmt: skip
    outputs: list[object] = []
    results: list[Result | Number] = []
    kinds: list[type] = []

    def walk(value: object) -> object:
        if value is None:
            return None
        parts = node_parts(value)
        if parts is not None and (any_tree or isinstance(value, tuple)):
            kinds.append(type(value))
            return tuple([walk(child) for child in parts[1]])
        if isinstance(value, Placeholder):
            shape, dtype = single.kernel.made[value.output]
            results.append(kernels.Result(dtype, len(shape), value.scalar))
            outputs.append(value.output)
        elif type(value) in (bool, int, float):
            results.append(kernels.Number(type(value)))
            outputs.append(value)
        else:
            fact = f"a result of type {type(value).__name__} cannot be returned to compiled code."
            raise failure(UnsupportedError, partial_layout.name, fact, GIVES)
        return len(results) - 1

    result = walk(single.result)
    layout = CallLayout(
        partial_layout.name,
        partial_layout.arguments,
        partial_layout.names,
        arguments,
        result,
        tuple(results),
        tuple(kinds),
    )
    return layout, tuple(outputs)


def example_of(target: CalledFunction, key: object, variant: Variant) -> Example | None:
    """A call that a variant holds for, but for its values, from its key in the program."""
    leaves_of = cast("tuple[object, ...]", key)
    nested = bool(leaves_of) and isinstance(leaves_of[0], Spec)
    leaves = [_leaf(argument) for argument in leaves_of[int(nested) :]]
    if any(leaf is None for leaf in leaves):
        return None
    args: tuple[object, ...] = tuple(leaves)
    kwargs: dict[str, object] = {}
    if nested:
        args, kwargs = unflatten(cast("Spec", leaves_of[0]), leaves)
    if target.split is not no_vectors:
        args = _with_vector(target, variant, args)
    return call_example(target, args, kwargs)


def _leaf(key: object) -> object:
    """A leaf of such a type, or the one of such a value; None if there is none."""
    if key is float or key is complex:
        return key(1)
    kind, *rest = cast("tuple[Any, ...]", key)
    if isinstance(kind, np.dtype):
        return np.zeros(rest[0], kind) if len(rest) == 1 else None
    if kind == "scalar":
        return rest[0].type(1) if len(rest) == 1 else np.frombuffer(rest[1], rest[0])[0]
    return rest[0] if kind in (bool, int) else None


def _with_vector(
    target: CalledFunction, variant: Variant, args: tuple[object, ...]
) -> tuple[object, ...]:
    """The arguments of a product, from the arguments of its function."""
    argnums = target.program.argnums
    if isinstance(argnums, int):
        x, chosen = args[argnums], {argnums % len(args)}
    else:
        x = tuple([args[n] for n in argnums or ()])
        chosen = {n % len(args) for n in argnums or ()}
    v = map_leaves(lambda leaf: leaf, x)
    if target.operator == "vjp":
        pairs = zip(variant.traced.tape.output_types, variant.traced.scalars, strict=True)
        v = unflatten(
            variant.traced.out_spec,
            [1.0 if scalar else np.zeros(t.shape, t.dtype) for t, scalar in pairs],
        )
    return (x, v, *[arg for k, arg in enumerate(args) if k not in chosen])
