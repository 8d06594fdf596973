"""The same operation with many precisions: what NumPy's solvers of dense matrices give, few or many, whole or not."""

from __future__ import annotations

import numpy as np
import pytest

from bayeskit.gaussian.banded_layout import Lookup, layout
from bayeskit.gaussian.factorisation import factorise_each
from bayeskit.gaussian.many_precisions import colour_each, log_determinants, solve_each


@pytest.mark.parametrize("scale", [1.0, 1e8])
@pytest.mark.parametrize(("number", "size"), [(3, 4), (20, 4), (20, 1), (12, 40)])
def test_as_of_dense_matrices(number: int, size: int, scale: float) -> None:
    """One of them is not positive definite, and one vector has no number in it."""
    rng = np.random.default_rng(number + size)
    roots = rng.standard_normal((number, size, 3 * size + 3)) * scale ** np.linspace(0, 1, size)[:, None]
    matrices = roots @ np.swapaxes(roots, 1, 2)
    matrices[1] = -matrices[1]
    vectors, noise = rng.standard_normal((number, size)), rng.standard_normal((number, 5, size))
    vectors[2, 0] = np.nan
    rows, columns = np.tril_indices(size)
    plan = layout(size, rows, columns)
    precisions = factorise_each(matrices[:, rows, columns], plan, plan.places(Lookup(size, rows, columns)))
    assert [p is None for p in precisions] == [k == 1 for k in range(number)]
    solved, coloured, determinants = (
        solve_each(precisions, vectors),
        colour_each(precisions, noise),
        log_determinants(precisions),
    )
    for k in range(number):
        if k == 1:
            assert np.isnan(coloured[k]).all() and np.isnan(solved[k]).all() and np.isnan(determinants[k])
            continue
        assert determinants[k] == pytest.approx(np.linalg.slogdet(matrices[k])[1], rel=1e-10)
        # Of Λ^(−½) z the length in the metric of Λ is that of z.
        lengths = np.einsum("ki,ij,kj->k", coloured[k], matrices[k], coloured[k])
        np.testing.assert_allclose(lengths, np.sum(noise[k] ** 2, axis=1), rtol=1e-6)
        if k == 2:
            assert np.isnan(solved[k]).all()
        else:
            np.testing.assert_allclose(matrices[k] @ solved[k], vectors[k], rtol=1e-6, atol=1e-6)
