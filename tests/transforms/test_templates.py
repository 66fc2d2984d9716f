"""Rules entered as templates: what is spliced is what the rule itself enters."""

from unittest import mock

import numpy as np
import pytest
from tapes import floating, like, tape_of, tape_of_op, values
from test_every_op import CASES, each_case

from fdiff.arraytype import BOOL, ArrayType, type_of
from fdiff.facets import Rules
from fdiff.ops.entrywise.kink_marks import kink_search
from fdiff.primitive import PRIMITIVES, Primitive
from fdiff.tape import INPUT, ITEM, Builder, verify
from fdiff.trace.template import Template
from fdiff.transforms import rule_templates
from fdiff.transforms.batch import batch
from fdiff.transforms.derivative_tapes import bind
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import Simplifier

X = np.array([0.3, -0.7, 1.1])


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """A template is made when a rule is met again."""
    monkeypatch.setattr(rule_templates, "PATIENCE", 1)


def forward(tape):
    return jvp(tape, floating(tape))


def reverse(tape):
    return vjp(tape, floating(tape))


def reverse_of_last(tape):
    return vjp(tape, floating(tape)[-1:])


def batched(tape):
    return batch(tape, [True] * len(tape.inputs), 2)


def half_batched(tape):
    return batch(tape, [k % 2 == 0 for k in range(len(tape.inputs))], 2)


TRANSFORMS = (forward, reverse, reverse_of_last, batched, half_batched)
KEPT = (rule_templates.pulls, rule_templates.pushes, rule_templates.batches)
each_transform = pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: t.__name__)


def made():
    """The templates there are."""
    known = [found for kept in KEPT for found in kept.known.values()]
    return [found for found in known if isinstance(found, Template)]


def asked_and_spliced(transform, tape):
    """What the rules enter where nothing is remembered of them, and what their templates enter."""
    with mock.patch.object(rule_templates.RuleTemplates, "find", return_value=None):
        asked = verify(transform(tape))
    rule_templates.forget()
    for _ in range(3):  # met, learnt, and learnt once more for rules that read constants
        transform(tape)
    return asked, verify(transform(tape))


def masked(tape):
    """The floating outputs of a tape of one node, each behind a `where` of a further input."""
    builder = Builder()
    ids = []
    for node in tape.nodes:
        args = tuple(ids[a] for a in node.args)
        new = node.primitive.family == "leaf" and node.primitive is not ITEM
        ids.append(
            builder.input(node.type) if new else builder.add(node.primitive, args, node.params)
        )
    outs = []
    for o in tape.outputs:
        type_ = tape.nodes[o].type
        if type_.floating:
            mask = builder.input(ArrayType(type_.shape, BOOL))
            other = builder.input(type_)
            outs.append(builder.add(PRIMITIVES["where"], (mask, ids[o], other)))
    return verify(builder.finish(outs))


def expressions(tape):
    """Every node as what it computes of the inputs, whatever the order; then the outputs."""
    place = {i: k for k, i in enumerate(tape.inputs)}
    found = []
    for i, node in enumerate(tape.nodes):
        args = tuple(found[a] for a in node.args)
        found.append(place.get(i, hash((node.primitive, args, node.params))))
    return set(found), [found[o] for o in tape.outputs]


@each_transform
@each_case
def test_a_template_enters_what_the_rule_enters(op, sample, transform, rng):
    tape = tape_of_op(op, sample.make(rng), sample.params)
    if floating(tape):
        asked, spliced = asked_and_spliced(transform, tape)
        assert spliced == asked
        moves = any(t.floating for t in tape.output_types)
        learnt = moves and transform in (forward, reverse) and not op.rules.told_needs
        assert made() or not learnt


@each_transform
@each_case
def test_templates_in_derived_tapes(op, sample, transform, rng):
    """Where operands are constants, seeds and each other's results."""
    tape = tape_of_op(op, sample.make(rng), sample.params)
    if floating(tape):
        asked, spliced = asked_and_spliced(transform, reverse(tape))
        assert expressions(spliced) == expressions(asked)


@pytest.mark.parametrize("transform", [forward, reverse, batched], ids=lambda t: t.__name__)
@each_case
def test_templates_where_arguments_are_constants(op, sample, transform, rng):
    """A rule may have chosen by the layout of a constant: the tape may be shorter, or turned."""
    arrays = sample.make(rng)
    tape = tape_of_op(op, arrays, sample.params)
    for k in range(len(arrays)):
        bound = bind(tape, {k: np.array(arrays[k])})
        if not floating(bound):
            continue
        asked, spliced = asked_and_spliced(transform, bound)
        if expressions(spliced) != expressions(asked):
            assert len(spliced) <= len(asked)
            rest = [np.asarray(a) for j, a in enumerate(arrays) if j != k]
            given = [np.stack([a, a]) for a in rest] if transform is batched else rest
            given += like(rng, asked.input_types[len(given) :])
            for one, other in zip(values(spliced, *given), values(asked, *given), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


@each_case
def test_templates_of_cotangents_with_masks(op, sample, rng):
    tape = tape_of_op(op, sample.make(rng), sample.params)
    if floating(tape) and any(t.floating for t in tape.output_types):
        asked, spliced = asked_and_spliced(reverse, masked(tape))
        assert spliced == asked


def turned(n):
    """Another size, equal to no other one: what is larger is smaller then."""
    return n if n < 2 else 40 - n


def turned_tape(tape):
    """The same op on arrays of other sizes."""
    builder = Builder()
    ids = []
    for node in tape.nodes:
        args = tuple(ids[a] for a in node.args)
        if node.primitive is INPUT:
            shape = tuple(map(turned, node.type.shape))
            ids.append(builder.input(ArrayType(shape, node.type.dtype)))
        else:
            params = [
                (k, tuple(map(turned, v)) if k in ("shape", "sizes") else v) for k, v in node.params
            ]
            ids.append(builder.add(node.primitive, args, tuple(params)))
    return verify(builder.finish([ids[o] for o in tape.outputs]))


def narrowed(op, arrays):
    """The arrays of a sample, and arrays that are broadcast in various ways."""
    yield arrays
    if op.family == "elementwise" and len(arrays) > 1:
        first, second, *rest = arrays
        yield first, second[0], *rest
        yield first[:, :1], second, *[a[:1] for a in rest]
        yield first[:1], second[:, :1], *[a[0, 0] for a in rest]
        yield first[0, 0], second, *rest


SIZELESS = [case for case in CASES if case.values[0].structure.sizeless]


def batched_by_seven(tape):
    return batch(tape, [True] * len(tape.inputs), 7)


def half_batched_by_seven(tape):
    return batch(tape, [k % 2 == 0 for k in range(len(tape.inputs))], 7)


@pytest.mark.parametrize(
    "transform",
    [*TRANSFORMS[:3], batched_by_seven, half_batched_by_seven],
    ids=lambda t: t.__name__,
)
@pytest.mark.parametrize(("op", "sample"), SIZELESS)
def test_a_template_is_one_for_other_sizes(op, sample, transform, rng):
    for arrays in narrowed(op, sample.make(rng)):
        first = tape_of_op(op, arrays, sample.params)
        if not floating(first):
            return
        other = turned_tape(first)
        with mock.patch.object(rule_templates.RuleTemplates, "find", return_value=None):
            asked = verify(transform(other))
        rule_templates.forget()
        for _ in range(3):
            transform(first)
        count = len(made())
        with mock.patch.object(rule_templates.RuleTemplates, "_make", side_effect=AssertionError):
            assert verify(transform(other)) == asked
        fixed = [any("fixed" in found for found in kept.general.values()) for kept in KEPT]
        assert len(made()) == 2 * count or fixed[2]
        assert not any(fixed[:2])


def test_sizes_that_decide_have_templates_of_their_own():
    """Rows of a batch that are gathered are counted, and the counters are as many as rows."""
    rule_templates.forget()
    rows, columns = np.array([0, 2, 1]), np.array([1, 0, 1])

    def f(x, i, j):
        return x[i, j]

    tape = tape_of(f, np.ones((3, 2)), rows, columns)
    tapes = {size: batch(tape, [True, True, True], size) for size in (2, 4, 2, 4, 2, 4, 2)}
    assert any("fixed" in found for found in rule_templates.batches.general.values())
    for size, found in tapes.items():
        x = np.arange(6.0 * size).reshape(size, 3, 2)
        i, j = np.stack([rows] * size), np.stack([columns] * size)
        (out,) = values(found, x, i, j)
        np.testing.assert_array_equal(out, [a[rows, columns] for a in x])


def test_lengths_never_seen_ask_no_rule():
    """Equal sizes are not taken for others, nor one for many."""

    def f(x):
        y = np.sin(x)
        return np.sum(y[1:] * 1.5 + np.exp(y[:-1]))

    rule_templates.forget()
    for n in (5, 6):
        reverse(tape_of(f, np.ones(n)))
    with mock.patch.object(rule_templates, "pull", side_effect=AssertionError):
        spliced = [reverse(tape_of(f, np.ones(n))) for n in (7, 100)]
        with pytest.raises(AssertionError):
            reverse(tape_of(f, np.ones(2)))
    with mock.patch.object(rule_templates.RuleTemplates, "find", return_value=None):
        for n, tape in zip((7, 100), spliced, strict=True):
            assert expressions(tape) == expressions(reverse(tape_of(f, np.ones(n))))


def test_a_rule_is_asked_once_then_spliced():
    tape = tape_of(lambda x: np.sum(np.sin(x) * x), X)
    rule_templates.forget()
    first = reverse(tape)
    assert not made()
    assert reverse(tape) == first
    assert len(made()) == 3


def test_a_rule_is_asked_until_a_template_pays(monkeypatch):
    monkeypatch.setattr(rule_templates, "PATIENCE", 3)
    tape = tape_of(lambda x: np.sum(np.sin(x)), X)
    rule_templates.forget()
    tapes = [reverse(tape) for _ in range(3)]
    assert not made()
    tapes += [reverse(tape), reverse(tape)]
    assert made()
    assert tapes == tapes[:1] * 5


def test_a_template_serves_any_constant_the_rule_does_not_read():
    rule_templates.forget()
    for factor in (1.5, 2.5, 3.5):
        reverse(tape_of(lambda x, a=factor: np.sum(x * a), X))
    count = len(made())
    reverse(tape_of(lambda x: np.sum(x * 4.5), X))
    assert len(made()) == count == 2


@pytest.mark.parametrize("exponent", [3.0, -1.5, 0.0, 1.0])
def test_constants_that_a_rule_reads_are_part_of_its_template(exponent):
    rule_templates.forget()
    for other in (4.0, exponent, 5.0, exponent):
        for _ in range(4):
            slopes = values(reverse(tape_of(lambda x, e=other: x**e, X + 2.0)), X + 2.0, X)[1]
            np.testing.assert_allclose(slopes, X * other * (X + 2.0) ** (other - 1.0), rtol=1e-14)


def test_the_square_of_an_absolute_value_is_not_spliced():
    """A rule that squares its argument enters the smooth square of what is inside."""
    cube = Primitive(
        "cube",
        "elementwise",
        Rules(
            lambda x: (x,),
            lambda x: x**3,
            vjp=lambda bars, args, outs: [bars[0] * 3.0 * np.square(args[0])],
        ),
    )
    type_ = type_of(X)
    tapes = []
    for inner in ("sin", "absolute"):
        builder = Builder()
        inside = builder.add(PRIMITIVES[inner], (builder.input(type_),))
        tapes.append(builder.finish([builder.add(cube, (inside,))]))
    rule_templates.forget()
    for _ in range(3):
        reverse(tapes[0])
    assert any(found.squared for found in made())
    asked, spliced = asked_and_spliced(reverse, tapes[1])
    assert spliced == asked
    squares = [node for node in spliced.nodes if node.primitive.name == "square"]
    assert [node.args for node in squares] == [(0,)]


def test_rules_are_asked_while_kinks_are_looked_for(monkeypatch):
    """They may enter marks then."""
    tape = tape_of(lambda x: np.sum(np.sin(x)), X)
    plain = [reverse(tape) for _ in range(3)][-1]
    monkeypatch.setattr(kink_search, "on", True)
    with mock.patch.object(Simplifier, "splice", side_effect=AssertionError):
        assert reverse(tape) == plain
