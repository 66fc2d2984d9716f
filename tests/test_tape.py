"""The laws of the tape, what `verify` catches, how a tape reads, and the rewrites of `simplify`."""

import dataclasses

import numpy as np
import pytest
from tapes import floating, tape_of, values

import fdiff
from fdiff.arraytype import F4, F8, ArrayType
from fdiff.errors import TapeError
from fdiff.interpret import Interpreter, evaluate
from fdiff.primitive import PRIMITIVES, ZERO, Zero, load_tables, register
from fdiff.tape import INPUT, ITEM, Builder, Node, Tape, prune, rebuild, verify
from fdiff.trace.template import fragment
from fdiff.transforms.activity import depends
from fdiff.transforms.derivative_tapes import unit_seeds
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify
from fdiff.user_lines import numbered

VECTOR = ArrayType((3,), F8)
load_tables("numpy.linalg")
ADD, SIN, MUL, SUM, SLOGDET = (PRIMITIVES[n] for n in ("add", "sin", "multiply", "sum", "slogdet"))
STORES = [PRIMITIVES[n].rules.overwrite for n in ("update", "scatter_set")]
x3 = np.array([0.3, 0.5, 0.7])


def names(tape):
    return [node.primitive.name for node in tape.nodes if node.primitive is not INPUT]


# --- building ----------------------------------------------------------------------------------


def test_equal_nodes_are_entered_once():
    tape = tape_of(lambda x: np.sin(x) * np.sin(x) + 2.0 * np.sin(x) + 2.0, x3)
    assert names(tape) == ["sin", "multiply", "constant", "multiply", "add", "add"]


def test_equal_constants_are_one_and_unlike_ones_are_not():
    builder = Builder()
    one = builder.constant(np.array(1.0))
    assert builder.constant(np.array(1.0)) == one
    unlike = [
        np.array(1),
        np.array(1.0, F4),
        np.array([1.0]),
        np.array(-0.0),
        np.array(0.0),
        np.array(True),
    ]
    assert len({one, *(builder.constant(u) for u in unlike)}) == 7


def stored_one_by_one(x):
    a = np.zeros(4)
    a[:2] = x[0]
    a[1:] = x
    a[np.array([0, 2])] = x[2]
    return a, a.sum()


def stored_and_read_before(x):
    a = np.array(x)
    a[0] = 1.0
    before = a[:2]
    b = a.copy()
    b[1] = x[2]
    a[0] = x[1]
    return before, a, b, a[::-1]


def stored_under_another_name(x):
    a = np.zeros(3)
    a[:] = x
    b = np.array(a)
    a[0] = 5.0
    b[1] = a[2]
    return a, b, a[1:] + b[:-1]


@pytest.mark.parametrize(
    ("f", "overwrites"),
    [(stored_one_by_one, 2), (stored_and_read_before, 1), (stored_under_another_name, 0)],
)
def test_only_copies_that_nothing_else_reads_are_overwritten(f, overwrites):
    tape = fdiff.make_tape(f, x3)
    functions = [getattr(step[0], "func", step[0]) for step in Interpreter(tape).steps]
    assert sum(function in STORES for function in functions) == overwrites
    for out, plain in zip(evaluate(tape, x3), f(x3), strict=True):
        np.testing.assert_array_equal(out, plain)


def test_nan_constants_are_one():
    builder = Builder()
    assert builder.constant(np.array(np.nan)) == builder.constant(np.array(np.nan))


def test_a_shared_node_keeps_the_lines_of_all_who_asked():
    def f(x):
        a = np.sin(x)
        b = np.sin(x)
        return a * b

    tape = tape_of(f, x3)
    lines = [numbered(line) for line in tape.lines[names(tape).index("sin") + 1]]
    assert len(lines) == 2
    assert lines[1][1] == lines[0][1] + 1


def test_dead_nodes_go_and_inputs_stay():
    builder = Builder()
    a, b = builder.input(VECTOR), builder.input(VECTOR)
    builder.add(SIN, (a,))
    out = builder.add(ADD, (a, a))
    tape = verify(builder.finish([out]))
    assert names(tape) == ["add"]
    assert len(tape.inputs) == 2
    assert prune(tape, tape.outputs) is tape
    assert b == tape.inputs[1]


def test_a_tape_is_frozen():
    tape = tape_of(np.sin, x3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        tape.nodes = ()
    with pytest.raises(AttributeError):
        tape.nodes[0].args = (1,)
    with pytest.raises(TypeError):
        tape.nodes[0] = tape.nodes[1]


def test_equality_and_hash_are_of_the_program_not_of_the_lines():
    def f(x):
        return np.sin(x) * 3.0

    def g(x):
        return np.sin(x) * 3.0

    a, b, c = tape_of(f, x3), tape_of(g, x3), tape_of(lambda x: np.sin(x) * 4.0, x3)
    assert a == b
    assert hash(a) == hash(b)
    assert a.lines != b.lines
    assert a != c
    assert a != tape_of(f, x3[:2])
    assert a != "tape"
    assert len({a, b, c}) == 2


def test_several_outputs_and_projections():
    tape = tape_of(
        lambda a: (np.linalg.slogdet(a)[1], np.linalg.slogdet(a)[0], np.sum(a)), np.eye(2) * 3
    )
    assert names(tape) == ["slogdet", "item", "item", "sum"]
    assert [v.item() for v in values(tape, np.eye(2) * 3)] == pytest.approx([np.log(9), 1, 6])
    assert str(tape).endswith("return %2, %3, %4") or len(tape.outputs) == 3
    assert [str(t) for t in tape.output_types] == ["f8[]"] * 3


def test_the_same_value_twice_and_an_input_as_output():
    tape = tape_of(lambda x: (x, np.sin(x), x), x3)
    assert tape.outputs == (0, 1, 0)
    pulled = verify(vjp(tape, [0]))
    out = values(pulled, x3, x3, np.ones(3), 2 * x3)
    np.testing.assert_allclose(out[3], x3 + np.cos(x3) + 2 * x3)


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="registered twice"):
        register(SIN)
    assert repr(SIN) == "sin"


# --- verify ------------------------------------------------------------------------------------


def broken(**changes):
    """A sound tape of ``sin(x) + x``, with something about its last node changed."""
    tape = tape_of(lambda x: np.sin(x) + x, x3)
    return dataclasses.replace(tape, nodes=(*tape.nodes[:-1], tape.nodes[-1]._replace(**changes)))


def altered(**changes):
    """A sound tape of ``sin(x)``, with one of its fields changed."""
    return dataclasses.replace(tape_of(np.sin, x3), **changes)


def longer(*nodes):
    """The tape of ``sin(x)`` with further nodes at its end."""
    tape = tape_of(np.sin, x3)
    return dataclasses.replace(tape, nodes=(*tape.nodes, *nodes))


def two_outputs(*nodes, output):
    """A tape that takes a log-determinant, and goes on with `nodes`."""
    builder = Builder()
    builder.add(SLOGDET, (builder.input(ArrayType((2, 2), F8)),))
    return Tape((*builder.nodes, *nodes), (0,), (output,))


SCALAR = ArrayType((), F8)
NO_INPUTS, NO_OUTPUTS = "are not the input nodes", "are not single-output nodes"
FAULTS = {
    "reads itself": (lambda: broken(args=(1, 2)), "reads a later node"),
    "reads before the first": (lambda: broken(args=(1, -1)), "reads a later node"),
    "wrong shape": (lambda: broken(types=(ArrayType((4,), F8),)), "has types"),
    "wrong dtype": (lambda: broken(types=(ArrayType((3,), F4),)), "has types"),
    "twice": (lambda: longer(Node(SIN, (0,), (), (VECTOR,))), "entered twice"),
    "missing input": (lambda: altered(inputs=()), NO_INPUTS),
    "input that is none": (lambda: altered(inputs=(0, 1)), NO_INPUTS),
    "input twice": (lambda: altered(inputs=(0, 0)), NO_INPUTS),
    "output beyond": (lambda: altered(outputs=(2,)), NO_OUTPUTS),
    "output before": (lambda: altered(outputs=(-1,)), NO_OUTPUTS),
    "output of several": (lambda: two_outputs(output=1), NO_OUTPUTS),
    "several read at once": (
        lambda: two_outputs(Node(SIN, (1,), (), (SCALAR,)), output=2),
        "without `item`",
    ),
    "item of one": (
        lambda: longer(Node(ITEM, (1,), (("k", 0),), (VECTOR,))),
        "projects a single output",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_verify_finds(fault):
    make, words = FAULTS[fault]
    with pytest.raises(TapeError, match=words):
        verify(make())


def test_verify_gives_back_a_sound_tape():
    tape = tape_of(np.sin, x3)
    assert verify(tape) is tape


# --- reading -----------------------------------------------------------------------------------


def test_the_listing_reads_like_a_program():
    def f(x):
        return np.sum(x[1:] * 2.0)

    tape = dataclasses.replace(tape_of(f, np.ones(4, np.float32)), lines={})
    assert str(tape) == (
        "tape\n"
        "  %0: f4[4] = input(index=0)\n"
        "  %1: f4[3] = slice(%0, sizes=(3,), starts=(1,), steps=(1,))\n"
        "  %2: f4[]  = constant(value=2.)\n"
        "  %3: f4[3] = multiply(%1, %2)\n"
        "  %4: f4[]  = sum(%3, axes=(0,))\n"
        "  return %4"
    )


def test_the_listing_shows_the_lines_of_the_user():
    def f(x):
        return np.sin(x) < 2

    line = f.__code__.co_firstlineno + 1
    assert f"# test_tape.py:{line}:  return np.sin(x) < 2" in str(tape_of(f, x3))


def test_large_constants_are_not_spelled_out():
    assert "constant(value=<f8[100]>)" in str(tape_of(lambda x: x + np.arange(100.0), np.ones(100)))


def test_html_escapes_what_the_user_wrote():
    def f(x):
        return np.where(x < 1, x, 0.0)

    html = tape_of(f, x3)._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<tr>") == len(tape_of(f, x3)) + 1
    assert "x &lt; 1" in html
    assert "x < 1" not in html


def test_types_print_short():
    assert str(ArrayType((3, 4), F8)) == "f8[3,4]"
    assert str(ArrayType((), np.dtype(bool))) == "b1[]"
    kind = ArrayType((2, 3), F4)
    assert (kind.ndim, kind.size, kind.nbytes, kind.floating) == (2, 6, 24, True)


# --- structural zeros --------------------------------------------------------------------------


def test_zero_is_one_object():
    assert Zero("ZERO") is ZERO
    assert repr(ZERO) == "ZERO"


def test_what_does_not_depend_costs_nothing():
    """No node of a derivative multiplies by a zero that is known: ZERO never reaches a tape."""
    tape = tape_of(lambda x, y: np.sin(x) * np.exp(y) + np.floor(x), x3, x3)
    added = len(verify(jvp(tape, [0]))) - len(tape)
    assert added == 4  # the tangent, cos and two products: no zeros of `y` or of `floor`
    gradient = verify(vjp(tape_of(lambda x, y: np.sin(x), x3, x3), [0, 1]))
    assert gradient.nodes[gradient.outputs[2]].primitive.name in ("constant", "broadcast_to")
    np.testing.assert_array_equal(values(gradient, x3, x3, x3)[2], np.zeros(3))


def test_a_zero_times_infinity_is_kept():
    tape = tape_of(lambda x: 0.0 * x, x3)
    assert "multiply" in names(simplify(tape))
    assert np.isnan(values(simplify(tape), np.array([np.inf, np.nan, 1.0]))[0][:2]).all()


def test_dependence_is_that_of_the_graph():
    tape = tape_of(lambda x, y: (x * 0, np.floor(x) + y, x - x, np.argmax(x), y), x3, x3)
    assert depends(tape, [0, 1]) == [
        [True, False],
        [False, True],
        [True, False],
        [False, False],
        [False, True],
    ]


def test_integer_outputs_have_zero_tangents():
    pushed = verify(jvp(tape_of(lambda x: (np.argmax(x), x > 0), x3), [0]))
    assert [v.any() for v in values(pushed, x3, x3)[2:]] == [False, False]


def test_only_what_is_asked_for_moves():
    tape = tape_of(lambda x, y: x * y, x3, x3 + 1)
    np.testing.assert_array_equal(values(verify(jvp(tape, [1])), x3, x3 + 1, x3)[1], x3 * x3)
    assert len(vjp(tape, [1]).outputs) == 2
    assert floating(tape) == [0, 1]


# --- simplify: each rewrite, and the ones it must not make -------------------------------------

M = np.arange(6.0).reshape(2, 3) + 1
REWRITES = {
    "x * 1": (lambda x: x * 1.0, []),
    "1 * x": (lambda x: 1.0 * x, []),
    "x * -1": (lambda x: x * -1.0, ["negative"]),
    "x / 1": (lambda x: x / 1.0, []),
    "x * ones": (lambda x: x * np.ones((2, 3)), []),
    "--x": (lambda x: np.negative(-x), []),
    "x + -y": (lambda x: x + -np.sin(x), ["sin", "subtract"]),
    "-x + y": (lambda x: -np.sin(x) + x, ["sin", "subtract"]),
    "x - -y": (lambda x: x - -np.sin(x), ["sin", "add"]),
    "-x * -y": (lambda x: -x * -np.sin(x), ["sin", "multiply"]),
    "broadcast of a scalar": (
        lambda x: np.broadcast_to(np.sum(x), (2, 3)) * x,
        ["sum", "multiply"],
    ),
    "broadcast of a broadcast": (
        lambda x: np.broadcast_to(np.broadcast_to(x, (4, 2, 3)), (5, 4, 2, 3)),
        ["broadcast_to"],
    ),
    "reshape of a reshape": (lambda x: x.reshape(3, 2).reshape(6), ["reshape"]),
    "reshape there and back": (lambda x: x.reshape(6).reshape(2, 3), []),
    "transpose twice": (lambda x: x.T.T, []),
    "three transposes": (lambda x: x[None].transpose(1, 2, 0).transpose(2, 0, 1), ["reshape"]),
    "transpose + 2": (lambda x: x.T + 2.0, ["constant", "add", "transpose"]),
    "transpose / transpose": (lambda x: x.T / x.T, ["divide", "transpose"]),
    "transpose * vector": (
        lambda x: x.T * x[:, 1],
        ["slice", "multiply", "transpose"],
    ),
    "vector - transpose": (
        lambda x: x[1][:, None] - x.T,
        ["slice", "subtract", "transpose"],
    ),
    "where of one value": (lambda x: np.where(x > 2, x, x), []),
    "where in where": (
        lambda x: np.where(x > 2, np.where(x > 2, np.sin(x), x), x),
        ["constant", "greater", "sin", "where"],
    ),
    "sum over one": (lambda x: np.sum(x[None], axis=0), []),
    "sum over nothing": (lambda x: np.sum(x, axis=()), []),
    "constants": (lambda x: x + np.sin(np.ones(2)[0]), ["constant", "add"]),
    "dead code": (lambda x: (np.sin(x), x)[1], []),
}
KEPT = {
    "0 * x": (lambda x: x * 0.0, "multiply"),
    "x - x": (lambda x: x - x, "subtract"),
    "x / x": (lambda x: x / x, "divide"),
    "x + 0": (lambda x: x + 0.0, "add"),  # -0.0 + 0.0 is 0.0
    "to float32 and back": (lambda x: x.astype(np.float32).astype(float), "convert"),
    "broadcast that gives the shape": (
        lambda x: np.broadcast_to(np.sum(x), (2, 3)) * 2.0,
        "broadcast_to",
    ),
    "transpose * another": (lambda x: x[None].T * x.T[..., None], "multiply"),
    "sum of some": (lambda x: np.sum(x, axis=0), "sum"),
}


@pytest.mark.parametrize("case", REWRITES)
def test_simplify_rewrites(case):
    f, expected = REWRITES[case]
    before = tape_of(f, M)
    after = verify(simplify(before))
    assert names(after) == expected
    np.testing.assert_array_equal(values(after, M)[0], values(before, M)[0])
    assert verify(simplify(after)) == after


@pytest.mark.parametrize("case", KEPT)
def test_simplify_keeps(case):
    f, expected = KEPT[case]
    before = tape_of(f, M)
    after = verify(simplify(before))
    assert expected in names(after)
    special = np.array([[np.nan, np.inf, -0.0], [-np.inf, 0.0, 1e-310]])
    for a, b in zip(values(after, special), values(before, special), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


@pytest.mark.parametrize("subscripts", ["ab,bc->ac", "ca,bc->ab", "ab,cb->ac", "ba,ca->cb"])
def test_unit_seeds_are_no_factor(subscripts):
    def product(x):
        seeds = unit_seeds(VECTOR, 0, 3)
        return np.einsum(subscripts, seeds, x)

    x = np.arange(9.0).reshape(3, 3)
    before = tape_of(product, x)
    after = verify(simplify(before))
    assert "contract" in names(before)
    assert names(after) in ([], ["transpose"])
    np.testing.assert_array_equal(values(after, x)[0], values(before, x)[0])


def test_seeds_of_some_directions_are_a_factor():
    x = np.arange(9.0).reshape(3, 3)
    seeds = lambda x: unit_seeds(VECTOR, 1, 3) @ x
    tape = simplify(tape_of(seeds, x))
    assert "contract" in names(tape)
    np.testing.assert_array_equal(values(tape, x)[0], np.eye(3, k=1) @ x)


def test_a_tape_is_rebuilt_with_a_node_entered_in_another_way():
    tape = tape_of(lambda x: np.sum(np.sin(x) * x), x3)
    (sine,) = [i for i, node in enumerate(tape.nodes) if node.primitive is SIN]

    def doubled(builder, ids):
        return builder.add(ADD, (ids[0], ids[0]))

    found = verify(rebuild(tape, Builder(), {sine: doubled}))
    assert SIN not in {node.primitive for node in found.nodes}
    np.testing.assert_array_equal(values(found, x3)[0], np.sum(2 * x3 * x3))
    assert rebuild(tape, Builder(), {}) == tape
    assert tape.users()[0] == [sine, sine + 1]


def test_a_fragment_reads_its_operands_alone():
    tape = tape_of(lambda x: np.sin(x) * x, x3)
    step = lambda i, places: (tape.nodes[i].primitive, places)
    assert fragment(tape.nodes, [1, 2], [0], [2], step) == ([(SIN, (0,)), (MUL, (1, 0))], (2,))
    assert fragment(tape.nodes, [2], [1, 0], [2], step) == ([(MUL, (0, 1))], (2,))
    assert fragment(tape.nodes, [2], [1], [2], step) is None
    assert fragment(tape.nodes, [1], [0], [2], step) is None


def test_the_results_of_a_node_are_nodes():
    builder = Builder()
    pair = builder.add(SLOGDET, (builder.input(ArrayType((2, 2), F8)),))
    assert [builder.nodes[i].primitive for i in builder.results(pair)] == [ITEM, ITEM]
    assert builder.results(0) == [0]
