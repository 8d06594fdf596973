"""A sparse precision and few rows of data: the same as dense, from a hundredth of the work."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import sparse, stats

import bayeskit as bk
from bayeskit.gaussian.factorisation import NotPositiveDefinite, Precision, factorise, updated
from bayeskit.gaussian.low_rank_update import LowRankUpdate

SIZE, ROWS = 60, 7


def tridiagonal(rng: np.random.Generator) -> sparse.csr_array:
    return sparse.csr_array(sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(SIZE, SIZE)))


def diagonal(rng: np.random.Generator) -> sparse.csr_array:
    return sparse.csr_array(sparse.diags_array(np.exp(rng.normal(scale=3, size=SIZE))))


def with_a_shared_mean(rng: np.random.Generator) -> sparse.csr_array:
    deviations = np.eye(SIZE)
    deviations[:, -1] = -1.0
    deviations[-1] = 0.0
    deviations[-1, -1] = 0.3
    return sparse.csr_array(deviations.T @ deviations)


BASES = [tridiagonal, diagonal, with_a_shared_mean]


def both(base: object, rank: int) -> tuple[Precision, np.ndarray]:
    rng = np.random.default_rng(1)
    own = base(rng)  # type: ignore[operator]
    rows = rng.normal(size=(rank, SIZE)) @ np.diag(np.exp(rng.normal(size=SIZE)))
    if rank > 2:
        rows[2] = rows[0]  # rows that say the same
    return updated(factorise(own), rows), own.toarray() + rows.T @ rows


@pytest.mark.parametrize("rank", [1, ROWS])
@pytest.mark.parametrize("base", BASES)
def test_it_solves_and_draws_as_the_whole_matrix_does(base: object, rank: int) -> None:
    precision, matrix = both(base, rank)
    assert isinstance(precision.factor, LowRankUpdate)
    inverse = np.linalg.inv(matrix)
    vector = np.random.default_rng(2).normal(size=SIZE)
    np.testing.assert_allclose(precision.solve(vector), inverse @ vector, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(precision.covariance(), inverse, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(precision.variances, np.diag(inverse), rtol=1e-9)
    assert precision.log_determinant == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-12)
    assert np.sum(precision.whiten(vector) ** 2) == pytest.approx(vector @ matrix @ vector, rel=1e-10)
    # What draws are made by: the covariance of C z is C Cᵀ.
    roots = np.stack([precision.colour(column) for column in np.eye(SIZE)], axis=1)
    np.testing.assert_allclose(roots @ roots.T, inverse, rtol=1e-8, atol=1e-11)
    assert precision.draw(np.random.default_rng(3), 5).shape == (5, SIZE)


def test_rows_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(NotPositiveDefinite):
        updated(factorise(diagonal(np.random.default_rng(0))), np.full((2, SIZE), np.nan))


@pytest.mark.parametrize("walk", [False, True])
def test_a_regression_of_many_more_weights_than_rows(walk: bool) -> None:
    """Against the density of the data themselves, multivariate Student t."""
    rng = np.random.default_rng(4)
    weights, rows = 900, 25
    design = rng.normal(size=(rows, weights))
    y = design[:, :4].sum(axis=1) + rng.normal(size=rows)
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 2.0)
        sd = pm.math.sqrt(variance)
        if walk:
            weight = pm.GaussianRandomWalk(
                "weight", mu=0.0, sigma=0.1 * sd, init_dist=pm.Normal.dist(0.0, 0.1 * sd), steps=weights - 1
            )
        else:
            weight = pm.Normal("weight", 0.0, 0.1 * sd, shape=weights)
        pm.Normal("y", pm.math.dot(design, weight), sd, observed=y)
    prior = 0.01 * (np.minimum.outer(np.arange(1, weights + 1), np.arange(1, weights + 1)) if walk else np.eye(weights))
    spread = np.eye(rows) + design @ prior @ design.T
    post = bk.infer(model, draws=4, random_seed=1)
    expected = stats.multivariate_t(np.zeros(rows), spread * 2.0 / 3.0, df=6).logpdf(y)
    assert post.log_evidence.label == "exact"
    assert abs(post.log_evidence.value - expected) < max(post.log_evidence.error, 1e-9 * abs(expected))
    gain = prior @ design.T @ np.linalg.solve(spread, y)
    np.testing.assert_allclose(post.marginal("weight").mean(), gain, rtol=1e-7, atol=1e-9)
