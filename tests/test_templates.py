"""Rules entered as templates: what is spliced is what the rule itself enters."""

from unittest import mock

import numpy as np
import pytest
from tapes import floating, like, tape_of, tape_of_op, values
from test_every_op import each_case

from fdiff.arraytype import BOOL, ArrayType, type_of
from fdiff.ops.kinks import looking
from fdiff.primitive import PRIMITIVES, Primitive
from fdiff.tape import ITEM, Builder, verify
from fdiff.transforms import templates
from fdiff.transforms.batch import batch
from fdiff.transforms.forward import jvp
from fdiff.transforms.rearrange import bind
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import Simplifier

X = np.array([0.3, -0.7, 1.1])


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """A template is made when a rule is met again."""
    monkeypatch.setattr(templates, "PATIENCE", 1)


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
KEPT = (templates.pulls, templates.pushes, templates.batches)
each_transform = pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: t.__name__)


def made():
    """The templates there are."""
    known = [found for kept in KEPT for found in kept.known.values()]
    return [found for found in known if isinstance(found, templates.Template)]


def asked_and_spliced(transform, tape):
    """What the rules enter where nothing is remembered of them, and what their templates enter."""
    with mock.patch.object(templates.Templates, "find", return_value=None):
        asked = verify(transform(tape))
    templates.forget()
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
        assert made() or not moves or transform not in (forward, reverse)


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


def test_a_rule_is_asked_once_then_spliced():
    tape = tape_of(lambda x: np.sum(np.sin(x) * x), X)
    templates.forget()
    first = reverse(tape)
    assert not made()
    assert reverse(tape) == first
    assert len(made()) == 3


def test_a_rule_is_asked_until_a_template_pays(monkeypatch):
    monkeypatch.setattr(templates, "PATIENCE", 3)
    tape = tape_of(lambda x: np.sum(np.sin(x)), X)
    templates.forget()
    tapes = [reverse(tape) for _ in range(3)]
    assert not made()
    tapes += [reverse(tape), reverse(tape)]
    assert made()
    assert tapes == tapes[:1] * 5


def test_a_template_serves_any_constant_the_rule_does_not_read():
    templates.forget()
    for factor in (1.5, 2.5, 3.5):
        reverse(tape_of(lambda x, a=factor: np.sum(x * a), X))
    count = len(made())
    reverse(tape_of(lambda x: np.sum(x * 4.5), X))
    assert len(made()) == count == 2


@pytest.mark.parametrize("exponent", [3.0, -1.5, 0.0, 1.0])
def test_constants_that_a_rule_reads_are_part_of_its_template(exponent):
    templates.forget()
    for other in (4.0, exponent, 5.0, exponent):
        for _ in range(4):
            slopes = values(reverse(tape_of(lambda x, e=other: x**e, X + 2.0)), X + 2.0, X)[1]
            np.testing.assert_allclose(slopes, X * other * (X + 2.0) ** (other - 1.0), rtol=1e-14)


def test_the_square_of_an_absolute_value_is_not_spliced():
    """A rule that squares its argument enters the smooth square of what is inside."""
    cube = Primitive(
        "cube",
        lambda x: (x,),
        lambda x: x**3,
        vjp=lambda bars, args, outs: [bars[0] * 3.0 * np.square(args[0])],
        family="elementwise",
    )
    type_ = type_of(X)
    tapes = []
    for inner in ("sin", "absolute"):
        builder = Builder()
        inside = builder.add(PRIMITIVES[inner], (builder.input(type_),))
        tapes.append(builder.finish([builder.add(cube, (inside,))]))
    templates.forget()
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
    monkeypatch.setattr(looking, "on", True)
    with mock.patch.object(Simplifier, "splice", side_effect=AssertionError):
        assert reverse(tape) == plain
