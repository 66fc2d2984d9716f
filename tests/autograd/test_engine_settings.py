"""`set_multithreading_enabled` and `enforce_grad_layout_policy`: function, context, decorator."""

import threading

import numpy as np
import pytest

from fdiff import errors
from fdiff.autograd import (
    enforce_grad_layout_policy,
    grad,
    set_multithreading_enabled,
    tensor,
)
from fdiff.autograd.thread_state import state
from fdiff.kernels.runtime.worker_code import POOL
from fdiff.kernels.thread_pool import pool

SETTINGS = {
    "multithreading": set_multithreading_enabled,
    "keeps_layouts": enforce_grad_layout_policy,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_contexts_nest_and_come_back_also_after_an_error(name):
    setting = SETTINGS[name]
    with setting(False):
        assert not getattr(state, name)
        with setting(True):
            assert getattr(state, name)
        assert not getattr(state, name)
        with pytest.raises(KeyError), setting(True):
            raise KeyError
        assert not getattr(state, name)
    assert getattr(state, name)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_call_sets_it_for_this_thread(name):
    setting, seen = SETTINGS[name], []
    setting(False)
    try:
        assert not getattr(state, name)
        thread = threading.Thread(target=lambda: seen.append(getattr(state, name)))
        thread.start()
        thread.join()
    finally:
        setting(True)
    assert seen == [True]


@pytest.mark.parametrize("name", SETTINGS)
def test_functions_are_decorated(name):
    @SETTINGS[name](False)
    def look(a, *, b):
        return a, b, getattr(state, name)

    assert getattr(state, name)
    assert look(1, b=2) == (1, 2, False)
    assert look.__name__ == "look"
    assert getattr(state, name)
    with pytest.raises(errors.InputError, match="what is decorated must be a function"):
        SETTINGS[name](False)(3)
    with pytest.raises(errors.InputError, match="was decorated"):
        SETTINGS[name](False)(type("C", (), {}))
    assert getattr(state, name)


@pytest.mark.parametrize("name", SETTINGS)
def test_other_values_are_refused(name):
    with pytest.raises(errors.InputError, match="must be True or False, not 'no'"):
        SETTINGS[name]("no")


def busy():
    return bool(pool._words[POOL["BUSY"]])


def test_a_pass_on_one_thread():
    seen = []
    x = tensor(np.linspace(0.1, 1.0, 20_000), requires_grad=True)

    def step(watched):
        x.grad = None
        y = np.sum(np.tanh(np.sin(x) * x))
        if watched:
            y.register_hook(lambda g: seen.append(busy()))
        y.backward()
        return np.array(x.grad)

    expected = step(watched=False)
    for _ in range(30):  # the pass is compiled, then written out
        np.testing.assert_allclose(step(watched=False), expected, rtol=1e-13)
    with set_multithreading_enabled(False):
        np.testing.assert_allclose(step(watched=False), expected, rtol=1e-13)
        step(watched=True)
        y = np.sum(x * x)
        y.register_hook(lambda g: seen.append(busy()))
        np.testing.assert_allclose(grad(y, x)[0], 2 * x.value)
    assert seen == [True, True]
    assert not busy()
    step(watched=True)
    assert seen == [True, True, False]


def test_the_pool_is_given_back_after_an_error():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = np.sum(x * x)
    y.backward()
    with set_multithreading_enabled(False), pytest.raises(RuntimeError, match="second time"):
        y.backward()
    assert not busy()


def test_gradients_are_taken_as_they_lie():
    def strides():
        x = tensor(np.asfortranarray(np.arange(1.0, 7.0).reshape(2, 3)), requires_grad=True)
        (x.T.copy() * 2.0).reshape(6).sum().backward()
        np.testing.assert_allclose(x.grad, np.full((2, 3), 2.0))
        (x * x).sum().backward()  # more is added in place in any case
        np.testing.assert_allclose(x.grad, 2.0 + 2.0 * x.value)
        return x.grad.value.flags.f_contiguous

    assert strides()
    with enforce_grad_layout_policy(False):
        strides()
        x = tensor(np.asfortranarray(np.ones((2, 3))), requires_grad=True)
        w = np.arange(6.0).reshape(2, 3)
        np.sum(x * w).backward()
        np.testing.assert_allclose(x.grad, w)
        assert x.grad.value.flags.c_contiguous  # as it was computed
        assert not np.shares_memory(x.grad.value, w)
    y = tensor(np.asfortranarray(np.ones((2, 3))), requires_grad=True)
    np.sum(y * w).backward()
    assert y.grad.value.flags.f_contiguous
