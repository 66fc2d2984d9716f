"""`map_over`: results for partitions that stay where they are."""

import numpy as np
import pytest
from summed_data import PARTS, W, X, Y, bits, here, loss

import fdiff
from fdiff.distributed import map_over, partitions, sum_over


def residuals(w, X, y):
    return np.tanh(X @ w) - y


@pytest.mark.parametrize("where", ["here", "there"])
def test_blocks_of_a_jacobian(client, where):
    da = pytest.importorskip("dask.array", reason="needs dask, an extra")
    rows = here(PARTS) if where == "here" else partitions(PARTS, client)
    blocks = map_over(fdiff.jacobian(residuals), rows)(W)
    assert len(blocks) == 9
    wanted = fdiff.jacobian(residuals)(W, X, Y)
    np.testing.assert_allclose(np.concatenate(blocks.gather()), wanted, rtol=1e-12, atol=1e-14)
    array = blocks.to_dask_array()
    assert isinstance(array, da.Array)
    assert array.shape == wanted.shape
    np.testing.assert_allclose(array.sum(axis=0).compute(), wanted.sum(axis=0), rtol=1e-9)
    normal = sum_over(lambda X, y, J: (J.T @ J, len(y)), (rows, blocks))()
    np.testing.assert_allclose(normal[0], wanted.T @ wanted, rtol=1e-11)
    assert normal[1] == len(Y)


def test_results_of_several_arrays_are_partitions_again(client):
    there, local = partitions(PARTS, client), here(PARTS)
    both = [map_over(lambda s, X, y: (s * X, y), rows)(2.0) for rows in (there, local)]
    assert bits(fdiff.grad(sum_over(loss, both[0]))(W)) == bits(
        fdiff.grad(sum_over(loss, both[1]))(W)
    )
    assert [len(part) for part in both[0].gather()] == [2] * 9
    for rows in both:
        scaled, y = rows.to_dask_array()
        np.testing.assert_array_equal(scaled.compute(), 2.0 * X)
        np.testing.assert_array_equal(y.compute(), Y)
    assert "9 partitions in 9 groups" in repr(both[0])


@pytest.mark.slow
@pytest.mark.parametrize("where", ["here", "there"])
def test_bundle_adjustment_eliminates_points_where_they_are(client, where):
    """Cameras on the client, points on the workers: the Schur complement, Triggs et al. 2000."""
    cameras, states = _scene()
    rows = here(states) if where == "here" else partitions(states, client)
    points = map_over(lambda p, seen: p, rows)()
    observed = map_over(lambda p, seen: seen, rows)()
    begin = sum_over(_cost, (points, observed))(cameras)
    for _ in range(5):
        H, g = sum_over(fdiff.jit(_reduced), (points, observed))(cameras)
        step = np.zeros(9)  # the first camera, and the place of the second one, are known
        step[FREE] = np.linalg.solve(H[FREE, FREE], -g[FREE])
        points = map_over(fdiff.jit(_moved), (points, observed))(cameras, step)
        cameras = cameras + step.reshape(cameras.shape)
    assert sum_over(_cost, (points, observed))(cameras) < 1e-18 < begin
    _ADJUSTED[where] = cameras.tobytes()
    assert len(set(_ADJUSTED.values())) == 1


_ADJUSTED = {}
FREE = slice(5, 9)


def _scene():
    """Three cameras, known by shift and turn in a plane, that see the angles of points."""
    rng = np.random.default_rng(3)
    cameras = np.array([[0.0, 0.0, 0.1], [1.0, 0.1, 0.0], [0.4, 0.9, -0.1]])
    states = []
    for count in (20, 17, 25, 22):
        p = rng.uniform(2.0, 4.0, (count, 2))
        states.append((p + 1e-3 * rng.standard_normal(p.shape), _seen(cameras, p)))
    cameras.reshape(-1)[FREE] += 1e-3 * rng.standard_normal(4)
    return cameras, states


def _seen(cameras, p):
    away = p[:, None, :] - cameras[None, :, :2]
    return np.arctan2(away[..., 1], away[..., 0]) - cameras[:, 2]


def _cost(cameras, p, seen):
    return np.sum((_seen(cameras, p) - seen) ** 2)


def _blocks(cameras, p, seen):
    r = _seen(cameras, p) - seen
    Jc = fdiff.jacobian(lambda c: _seen(c, p))(cameras).reshape(*r.shape, -1)
    Jp = fdiff.vmap(fdiff.jacobian(lambda q: _seen(cameras, q[None])[0]))(p)
    return r, Jc, Jp


def _reduced(cameras, p, seen):
    r, Jc, Jp = _blocks(cameras, p, seen)
    Hcp, Hpp = np.einsum("nij,nik->njk", Jc, Jp), np.einsum("nij,nik->njk", Jp, Jp)
    gp = np.einsum("nij,ni->nj", Jp, r)
    solved = np.linalg.solve(Hpp, np.concatenate([Hcp.swapaxes(1, 2), gp[..., None]], axis=2))
    H = np.einsum("nij,nik->jk", Jc, Jc) - np.einsum("njk,nkl->jl", Hcp, solved[..., :-1])
    return H, np.einsum("nij,ni->j", Jc, r) - np.einsum("njk,nk->j", Hcp, solved[..., -1])


def _moved(cameras, step, p, seen):
    r, Jc, Jp = _blocks(cameras, p, seen)
    Hpp = np.einsum("nij,nik->njk", Jp, Jp)
    g = np.einsum("nij,ni->nj", Jp, r + np.einsum("nij,j->ni", Jc, step))
    return p - np.linalg.solve(Hpp, g[..., None])[..., 0]
