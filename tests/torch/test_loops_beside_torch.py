"""Loops that store in place beside torch: gradients, Hessians, products with them, jvp of grad."""

import numpy as np
import pytest
import torch
from second_order_loops import PROGRAMS, second_order

import fdiff


def loop(steps, step, carry):
    for k in range(steps):
        carry = step(k, carry)
    return carry


def theirs(program):
    f, of = program.of(torch, loop), torch.autograd.functional

    def slope(x):
        return torch.autograd.grad(f(x), x, create_graph=True)[0]

    def products(x, v):
        v = torch.from_numpy(v)
        return of.hvp(f, x, v)[1], of.jvp(slope, x, v)[1]

    x = torch.tensor(program.x, requires_grad=True)
    return [
        e.detach().numpy() for e in second_order(slope, lambda x: of.hessian(f, x), products, x)
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_beside_torch(name):
    """Loops as they are traced by default, Hessians in both modes."""
    program = PROGRAMS[name]
    f, slope = program.in_place, fdiff.grad(program.in_place)

    def products(x, v):
        return fdiff.hvp(f, x, v)[1], fdiff.jvp(slope, x, v)[1]

    expected = theirs(program)
    for hessian in (fdiff.hessian(f), fdiff.jacrev(slope)):
        results = second_order(slope, hessian, products, program.x)
        for result, e in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, e, rtol=1e-10, atol=1e-11 * np.abs(e).max())
