"""Bartlett's decomposition of a Wishart prior: the same prior, and the same likelihood."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from bayeskit.graphs.compile import small_mode
from bayeskit.validation.bartlett import bartlett


def test_bartlett_is_the_wishart_prior() -> None:
    """Moments of the prior in Bartlett's decomposition against those of the Wishart distribution."""
    scale = np.array([[2.0, 0.6], [0.6, 1.0]])
    with pm.Model() as model:
        precision = pm.Wishart("precision", nu=5, V=scale)
        pm.MvNormal("y", np.zeros(2), tau=precision, observed=np.ones((3, 2)))
    other = bartlett(model, "precision")
    assert [v.name for v in other.deterministics] == ["precision"]
    assert "precision" not in [v.name for v in other.free_RVs]
    draws = pm.draw(other["precision"], draws=4000, random_seed=1, mode=small_mode())
    wishart = stats.wishart(5, scale)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - wishart.mean()), 4 * np.sqrt(wishart.var() / 4000))
    np.testing.assert_allclose(draws.var(axis=0), wishart.var(), rtol=0.2)


def test_bartlett_leaves_the_likelihood_alone() -> None:
    with pm.Model() as model:
        precision = pm.Wishart("precision", nu=5, V=np.eye(2))
        mu = pm.MvNormal("mu", np.zeros(2), tau=0.1 * precision)
        pm.MvNormal("y", mu, tau=precision, observed=np.ones((3, 2)))
    other = bartlett(model, "precision")
    below, squares, mean = np.array([0.3]), np.array([2.0, 5.0]), np.array([0.2, -0.1])
    lower = np.diag(np.sqrt(squares)) + np.tril([[0.0, 0.0], [0.3, 0.0]])
    matrix = lower @ lower.T
    point = {"precision_below": below, "precision_squares_log__": np.log(squares), "mu": mean}
    likelihood = other.compile_logp([other["y"]], mode=small_mode())(point)
    expected = stats.multivariate_normal(mean, np.linalg.inv(matrix)).logpdf(np.ones((3, 2))).sum()
    assert likelihood == pytest.approx(expected, rel=1e-10)
