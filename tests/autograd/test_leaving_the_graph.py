"""Where recorded arrays leave the graph: what is refused, and what gives numbers."""

import io

import numpy as np
import pytest

from fdiff.autograd import no_grad, tensor
from fdiff.errors import UnsupportedError


def test_an_entry_of_a_plain_array_is_not_filled():
    x = tensor([1.0, 2.0], requires_grad=True)
    out, table = np.zeros(2), np.zeros((2, 2), int)
    for target, key in ((out, 0), (table, (0, 1))):
        with pytest.raises((ValueError, RuntimeError)) as error:
            target[key] = x[1] ** 2
        # For floats NumPy puts a message of its own above ours.
        text = f"{error.value} {error.value.__cause__}"
        assert "stored into a plain array" in text
        assert "np.zeros_like" in text
    with pytest.raises(RuntimeError, match=r"np\.stack"):
        out[:] = x
    out[0] = x[1].detach()
    out[1] = x.detach().numpy()[0]
    with no_grad():
        table[0, 0] = x[1] ** 2
    assert out.tolist() == [2.0, 1.0]
    assert table[0, 0] == 4


def test_numbers_of_the_user_are_given_with_a_warning():
    x, out = tensor([1.0, 2.0], requires_grad=True), np.zeros(2)
    for number in (float, int, complex):
        with pytest.warns(UserWarning, match="to a scalar"):
            assert number(x[1]) == 2
    with pytest.warns(UserWarning, match="to a scalar"):
        out[0] = float(x[1])
    assert out[0] == 2.0


def test_plain_arrays_of_recorded_ones_are_refused():
    x = tensor([1.0, 2.0], requires_grad=True)
    for make in (
        lambda: np.array([x[0], x[1] ** 2]),
        lambda: np.sum([e * e for e in x]),
        lambda: np.full((2, 2), x[0]),
        lambda: np.asarray(x),
    ):
        with pytest.raises(RuntimeError, match=r"np\.stack .* np\.broadcast_to"):
            make()
    np.sum(np.stack([e * e for e in x])).backward()
    assert np.array_equal(x.grad, [2.0, 4.0])


@pytest.mark.parametrize("save", [np.save, np.savez, np.savetxt])
def test_saving_says_what_to_save(save):
    x, file = tensor([1.0, 2.0], requires_grad=True), io.BytesIO()
    with pytest.raises(UnsupportedError, match=r"array\.detach\(\)\.numpy\(\)"):
        save(file, x)
    save(file, x.detach().numpy())
    assert file.tell() > 0


def test_divmod_and_round():
    x = tensor([1.26, 7.5], requires_grad=True)
    quotient, remainder = divmod(x, 2)
    (quotient * 3 + remainder).sum().backward()
    assert np.array_equal(x.grad, [1.0, 1.0])
    assert np.array_equal(quotient.detach(), [0.0, 3.0])
    assert np.array_equal(divmod(15.0, x)[0].detach(), [11.0, 2.0])
    assert round(x[0], 1).item() == 1.3
    assert round(x[0]).item() == 1.0
    assert np.array_equal(round(x, 1).detach(), [1.3, 7.5])


def test_flat_is_read():
    x = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert len(x.flat) == 4
    (sum(e**2 for e in x.T.flat) + x.flat[1] + x.flat[2:].sum()).backward()
    assert np.array_equal(x.grad, [[2.0, 5.0], [7.0, 9.0]])
    with pytest.raises(TypeError, match="read-only"):
        x.flat[0] = 1.0


def test_parts_of_complex_numbers_are_stored_into():
    x, w = tensor([1 + 2j, 3j], requires_grad=True), tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    y.real *= 2
    y.imag = w
    (y.real + y.imag**2).sum().backward()
    assert np.array_equal(y.detach(), [2 + 1j, 2j])
    assert np.array_equal(x.grad, [2.0, 2.0])
    assert np.array_equal(w.grad, [2.0, 4.0])
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        x.real = 0.0


def test_names_of_torch_are_answered_by_those_of_numpy():
    x = tensor([[1.0, 2.0]], requires_grad=True)
    x.sum().backward()
    for use, says in (
        (lambda: x.isnan(), r"Write np\.isnan\(x\)\."),
        (lambda: x.norm(), r"Write np\.linalg\.norm\(x\)\."),
        (lambda: x.cbrt_(), r"Write x\[\.\.\.\] = np\.cbrt\(x\)\."),
        (lambda: x.nonsense, "no attribute 'nonsense'$"),
    ):
        with pytest.raises(AttributeError, match=says):
            use()
    for call in (lambda: x.sum(dim=0), lambda: x.sum(dim=0)):
        with pytest.raises(
            TypeError, match=r"sum\(\) got .* 'dim'\. NumPy's name for it is 'axis'"
        ):
            call()
    with pytest.raises(TypeError, match="'keepdims'"):
        x.mean(0, keepdim=True)
    assert not hasattr(x, "__cuda_array_interface__")
