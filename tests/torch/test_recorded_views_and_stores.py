"""Views, in-place stores, hooks and errors of recorded arrays beside torch, program by program."""

import numpy as np
import pytest
import torch

import fdiff.autograd as ours

MAKE = {
    "torch": lambda data, requires=True: torch.tensor(
        data, dtype=torch.float64, requires_grad=requires
    ),
    "fdiff": lambda data, requires=True: ours.tensor(np.array(data, float), requires_grad=requires),
}
NO_GRAD = {"torch": torch.no_grad, "fdiff": ours.no_grad}
GRAD = {"torch": torch.autograd.grad, "fdiff": ours.grad}
EXP = {"torch": torch.exp, "fdiff": np.exp}


def store_in_view(lib, x, w):
    y = x * 2
    v = y[1:3]
    v *= w[0]
    y[0] = w[1] * w[1]
    return (y * y).sum() + v.sum()


def view_sees_store_in_base(lib, x, w):
    y = x * 1
    v = y.reshape(2, 2).T[0]
    y *= x
    return (v * w[:2]).sum()


def view_of_view(lib, x, w):
    y = x + 0
    a = y.reshape(2, 2)
    b = a[1]
    b += w[:2]
    a[0] = b * w[2:]
    return (y * x).sum()


def saved_result_is_modified(lib, x, w):
    y = EXP[lib](x)
    y += 1
    return y.sum()


def saved_operand_is_modified(lib, x, w):
    y = x * 1
    z = y * w
    y += 1
    return z.sum()


def operand_that_is_not_saved(lib, x, w):
    y = x * 1
    z = y + w
    y *= 2
    return (z * w).sum() + y.sum()


def store_into_leaf(lib, x, w):
    x[0] = 1.0
    return x.sum()


def store_into_view_of_leaf(lib, x, w):
    v = x[1:]
    v += 1
    return x.sum()


def leaf_in_no_grad(lib, x, w):
    with NO_GRAD[lib]():
        x -= 0.5 * x
    return (x * w).sum()


def constant_that_becomes_part_of_the_graph(lib, x, w):
    b = MAKE[lib]([0.0, 0.0, 0.0], False)
    v = b[1:]
    b[1] = x[0] * x[1]
    b[2] = b[1] * w[0]
    assert b.requires_grad
    assert v.requires_grad
    return (v * v).sum()


def view_made_without_gradients(lib, x, w):
    y = x * 2
    with NO_GRAD[lib]():
        v = y[1:]
    v *= w[1:]
    return y.sum()


def same_operand_twice(lib, x, w):
    y = x * 1
    y *= y
    y -= y[::2].sum()
    return (y * w).sum()


def detached_memory(lib, x, w):
    y = x * 2
    z = y * y
    d = y.detach()
    d[0] = 7.0
    return z.sum()


def detached(lib, x, w):
    y = x * 2
    return (y.detach() * y * w).sum()


def hooks_replace(lib, x, w):
    y = x * 3
    y.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: g + 1)
    return (y * w).sum()


def hook_after_store(lib, x, w):
    y = x * 3
    y.register_hook(lambda g: g * 5)
    y *= w
    y.register_hook(lambda g: g + 1)
    return (y * w).sum()


def augmented_view(lib, x, w):
    y = x * 2
    y[1:3] += w[0]
    y[::2] *= w[::2]
    return (y * y).sum()


def leaf_changed_after_use(lib, x, w):
    z = (x * w).sum()
    with NO_GRAD[lib]():
        x += 1
    return z


def second_derivative(lib, x, w):
    (g,) = GRAD[lib]((x**3 * w).sum(), x, create_graph=True)
    g[0] = g[0] * x[1]
    return (g * g).sum()


PROGRAMS = [
    store_in_view, view_sees_store_in_base, view_of_view, saved_result_is_modified,
    saved_operand_is_modified, operand_that_is_not_saved, store_into_leaf,
    store_into_view_of_leaf, leaf_in_no_grad, constant_that_becomes_part_of_the_graph,
    view_made_without_gradients, same_operand_twice, detached_memory, detached, hooks_replace,
    hook_after_store, augmented_view, leaf_changed_after_use, second_derivative,
]  # fmt: skip


# Where torch raises and fdiff differentiates: why.
DIFFERENT = {
    constant_that_becomes_part_of_the_graph: "one entry of an array of NumPy is a copy, no view",
    second_derivative: "one entry of an array of NumPy is a copy, no view",
    same_operand_twice: "what a store overwrites is copied for its own rule",
}


def copying_constant(lib, x, w):
    b1 = x[0] * x[1]
    return b1 * b1 + (b1 * w[0]) ** 2


def copying_square(lib, x, w):
    y = x * x
    y = y - y[::2].sum()
    return (y * w).sum()


def copying_second(lib, x, w):
    (g,) = GRAD[lib]((x**3 * w).sum(), x, create_graph=True)
    return (g[0] * x[1]) ** 2 + (g[1:] * g[1:]).sum()


COPYING = {
    constant_that_becomes_part_of_the_graph: copying_constant,
    second_derivative: copying_second,
    same_operand_twice: copying_square,
}


def played(lib, program):
    """The gradients of a program, or the beginning of its error."""
    x, w = MAKE[lib]([0.5, -1.5, 2.0, 3.0]), MAKE[lib]([1.0, 2.0, -0.5, 0.25])
    try:
        for _ in range(2):  # gradients accumulate
            program(lib, x, w).backward()
    except RuntimeError as error:
        return str(error).split(":")[0].split("[")[0]
    return [None if a.grad is None else np.asarray(a.grad) for a in (x, w)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_program_beside_torch(program):
    expected, found = played("torch", program), played("fdiff", program)
    if program in DIFFERENT:
        assert "modified by an inplace operation" in expected
        expected = played("torch", COPYING[program])
    if isinstance(expected, str):
        assert found == expected
    else:
        for a, b in zip(found, expected, strict=True):
            assert (a is None) == (b is None)
            if b is not None:
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
