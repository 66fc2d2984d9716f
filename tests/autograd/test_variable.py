"""`Variable`, the old name of recorded arrays."""

import numpy as np
import pytest

from fdiff import autograd, errors


def test_the_old_spelling_works_and_says_what_to_write():
    with pytest.warns(
        DeprecationWarning,
        match=r"write fdiff\.autograd\.tensor\(data, requires_grad=True\), which",
    ):
        x = autograd.Variable(np.ones((2, 2)), requires_grad=True)
    y = x + 2
    z = y * y * 3
    z.mean().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 4.5)
    with pytest.warns(DeprecationWarning, match=r"tensor\(data\), which"):
        assert not autograd.Variable([1.0]).requires_grad


def test_memory_is_shared_as_in_torch():
    array = np.ones(3)
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        x = autograd.Variable(array)
    array[0] = 5.0
    assert x.tolist() == [5.0, 1.0, 1.0]
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        y = autograd.Variable(x, True)
    assert y.requires_grad
    assert not x.requires_grad
    assert np.shares_memory(x.numpy(), y.detach().numpy())


def test_volatile_is_refused():
    with pytest.raises(errors.InputError, match=r"`volatile` has been removed"):
        autograd.Variable([1.0], volatile=True)
    with pytest.raises(errors.DtypeError), pytest.warns(DeprecationWarning, match="is deprecated"):
        autograd.Variable(np.array([True]), requires_grad=True)
