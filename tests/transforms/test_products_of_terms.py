"""Products of listed Jacobians: as few as the structure of a program needs."""

from itertools import pairwise

import numpy as np
import pytest

import fdiff
from benchmarks.sparse_programs import averaged_energy, sheet


def facts(prepared, *args):
    """The line on a structure in what `explain` says, as numbers by their words."""
    text = str(fdiff.explain(prepared, *args))
    line = next(row for row in text.splitlines() if "products" in row).replace(",", "")
    words = line.split()
    return {w.strip(";:"): int(n) for n, w in pairwise(words) if n.isdigit()}


@pytest.mark.slow
def test_averages_at_nodes_are_multiplied_last():
    """Elements read averages of elements around their nodes: the averages are one source.

    Masks of the reverse sweep, which leave out nodes without elements, follow from the mesh.
    """
    mesh = sheet(9)
    u = 0.01 * np.random.default_rng(1).normal(size=200)
    hessian = fdiff.hessian(averaged_energy, sparse=True)
    result = hessian(u, *mesh)
    np.testing.assert_allclose(
        result.toarray(), fdiff.hessian(averaged_energy)(u, *mesh), rtol=1e-9, atol=1e-11
    )
    counts = facts(hessian, u, *mesh)
    assert counts["cuts"] == 3
    assert counts["products"] < 4.5 * result.nnz


def test_masks_that_a_mesh_decides_are_looked_at_again_with_another_mesh():
    """Of a node that loses its elements nothing is read, not even an infinite slope."""

    def weights(x, k):
        total = np.zeros(5)
        np.add.at(total, k, np.sqrt(x)[k])
        return np.sum((total / np.maximum(total, 1e-3))[k] * x[k] ** 2)

    hessian = fdiff.hessian(weights, sparse=True)
    x = np.linspace(0.5, 2.0, 5)
    for k in (
        np.array([0, 1, 2, 3, 4, 4]),
        np.array([0, 1, 1, 3, 4, 4]),
        np.array([0, 1, 2, 3, 4, 0]),
    ):
        np.testing.assert_allclose(
            hessian(x, k).toarray(), fdiff.hessian(weights)(x, k), rtol=1e-12
        )
        left_out = np.setdiff1d(np.arange(5), k)
        point = x.copy()
        point[left_out] = 0.0
        assert np.isfinite(hessian(point, k).toarray()).all()
