"""gradcheck where outputs change their kind near by, and where outputs have no cotangent.

The verdicts of torch on the same functions are compared in tests/torch/test_checks_beside_torch.py.
"""

import numpy as np
import pytest

import fdiff
from fdiff import autograd
from fdiff.errors import GradcheckError

POINT = np.array([1.0, 2.0])


def at_the_point(x):
    """Whether `x` is the point that is checked, and no point near by."""
    return bool(x[0] == 1.0) and bool(x[1] == 2.0)


# With the word for what changes.
CHANGES = {
    "shape": ("shape", lambda x: x * 2 if at_the_point(x) else (x * 2)[None]),
    "size": ("shape", lambda x: x * 2 if at_the_point(x) else x[:1] * 2),
    "second output": ("shape", lambda x: (x, x if at_the_point(x) else x.reshape(2, 1))),
    "mask": ("shape", lambda x: x[x > 1.0] * 2),
    "above alone": ("shape", lambda x: x * 2 if x[0] <= 1.0 else (x * 2)[None]),
    "dtype": ("dtype", lambda x: x * 2 if at_the_point(x) else (x * 2).astype(np.float32)),
    "integers": ("dtype", lambda x: x // 1 if at_the_point(x) else (x // 1).astype(int)),
    "number of outputs": ("number", lambda x: (x, x) if at_the_point(x) else (x,)),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("recorded", [False, True])
def test_outputs_that_change_their_kind_near_by_are_an_error(name, fast, recorded):
    word, f = CHANGES[name]
    x = autograd.tensor(POINT, requires_grad=True) if recorded else POINT
    with pytest.raises(GradcheckError, match=f"the same {word}.* when inputs are perturbed"):
        fdiff.gradcheck(f, (x,), fast_mode=fast)
    assert fdiff.gradcheck(f, (x,), fast_mode=fast, raise_exception=False) is False


def test_outputs_of_single_precision_may_be_measured_in_double():
    with pytest.warns(UserWarning, match="not double precision"):
        assert fdiff.gradcheck(lambda x: x * x, (POINT.astype(np.float32),))


def rule(backward, *, outputs, materialize):
    """A `Function` that doubles, and triples, with this backward rule."""

    class Scaled(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 2 if outputs == 1 else (x * 2, x * 3)

    Scaled.backward = staticmethod(lambda ctx, *bars: backward(*bars))
    return Scaled.apply


def product(bar, factor):
    return 0 if bar is None else bar * factor


def of_one(bar):
    return None if bar is None else bar * 2


def of_two(first, second):
    return None if first is None is second else product(first, 2) + product(second, 3)


def ones_for_nothing(*bars):
    return np.ones(2) if all(b is None for b in bars) else of_two(*bars, *[None] * (2 - len(bars)))


def ones_for_the_second(first, second):
    return product(first, 2) + (np.ones(2) if second is None else second * 3)


# With the verdict where every output, or one of several, has no cotangent.
UNDEFINED = {
    "materialized": (lambda g: g * 2, 1, True, True),
    "two materialized": (lambda g, h: g * 2 + h * 3, 2, True, True),
    "handles none": (of_one, 1, False, True),
    "handles none of two": (of_two, 2, False, True),
    "no product with none": (lambda g: g * 2, 1, False, False),
    "no product with one of two": (lambda g, h: g * 2 + h * 3, 2, False, False),
    "handles the first alone": (lambda g, h: product(g, 2) + h * 3, 2, False, False),
    "ones for nothing": (ones_for_nothing, 1, False, False),
    "ones for nothing of two": (ones_for_nothing, 2, False, False),
    "ones for the second": (ones_for_the_second, 2, False, False),
}


@pytest.mark.parametrize("name", UNDEFINED)
@pytest.mark.parametrize("fast", [False, True])
def test_rules_take_outputs_without_a_cotangent(name, fast):
    backward, outputs, materialize, right = UNDEFINED[name]
    f, x = (
        rule(backward, outputs=outputs, materialize=materialize),
        autograd.tensor(POINT, requires_grad=True),
    )
    assert fdiff.gradcheck(f, (x,), fast_mode=fast, check_undefined_grad=False)
    assert fdiff.gradcheck(f, (x,), fast_mode=fast, raise_exception=False) is right
    if not right:
        with pytest.raises(GradcheckError, match="undefined"):
            fdiff.gradcheck(f, (x,), fast_mode=fast)


@pytest.mark.parametrize("materialize", [True, False])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_rule_is_asked_where_nothing_arrives(materialize, outputs):
    # As in torch: with zeros, or with None; hooks of its node too.
    seen = []

    def backward(*bars):
        seen.append(bars)

    nothing = rule(lambda g: None, outputs=1, materialize=True)
    x = autograd.tensor(POINT, requires_grad=True)
    found = rule(backward, outputs=outputs, materialize=materialize)(x)
    out = found if outputs == 1 else found[0]
    assert autograd.grad(nothing(out), x, np.ones(2), allow_unused=True) == (None,)
    ((*bars,),) = seen
    assert len(bars) == outputs
    assert all((np.all(b == 0) and b.shape == (2,)) if materialize else b is None for b in bars)


# --- how inputs and cotangents are given ----------------------------------------------------------


@pytest.mark.parametrize("recorded", [False, True])
def test_a_list_of_arrays_is_several_arguments(recorded):
    make = (lambda a: autograd.tensor(a, requires_grad=True)) if recorded else np.copy
    assert fdiff.gradcheck(lambda x, y: x * y, [make(POINT), make(POINT + 1)])
    assert fdiff.gradgradcheck(lambda x, y: x * y, [make(POINT), make(POINT + 1)])
    assert fdiff.gradcheck(lambda x: x * x, [make(POINT)])


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("requires", [False, True])
@pytest.mark.parametrize("form", [lambda go: go, lambda go: (go,), lambda go: [go]])
def test_cotangents_may_be_recorded_arrays(recorded, requires, form):
    go = autograd.tensor([0.3, -0.4], requires_grad=requires)
    x = autograd.tensor(POINT, requires_grad=True) if recorded else POINT
    assert fdiff.gradgradcheck(lambda x: x**3, (x,), form(go))


FUNCTIONS = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "three times the same": lambda a, b: a + b + a,
    "product": lambda a, b: a * b,
    "views": lambda a, b: a[::-1] + b.reshape(3),
    "one unused": lambda a, b: a * 2 + 0 * b,
    "copies": lambda a, b: np.concatenate([a, b])[1:4],
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("create", [False, True])
def test_cotangents_of_a_batch_give_what_each_gives(name, create):
    # Inputs that have the same gradient are one output of the tape.
    a, b = (autograd.tensor(np.arange(3.0) + k, requires_grad=True) for k in (1, 4))
    out, rows = FUNCTIONS[name](a, b), np.vstack([np.eye(3), [[1.0, -2.0, 0.5]]])
    found = autograd.grad(
        out, (a, b), rows, is_grads_batched=True, retain_graph=True, create_graph=create
    )
    for k, row in enumerate(rows):
        alone = autograd.grad(out, (a, b), row, retain_graph=True)
        for together, one in zip(found, alone, strict=True):
            np.testing.assert_array_equal(together.detach().numpy()[k], one.detach().numpy())
    assert not np.shares_memory(found[0].value, found[1].value)
    for fast in (False, True):
        assert fdiff.gradcheck(FUNCTIONS[name], (a, b), check_batched_grad=True, fast_mode=fast)
