"""Stochastic volatility: its graph against SciPy, and its evidence, on a few returns, against Gauss's rules."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import special, stats

import bayeskit as bk
from bayeskit.datasets import example_data, prepare
from bayeskit.errors import BayeskitError
from bayeskit.model.log_joint import LogJoint
from bayeskit.models import load_model

VOLATILITY = load_model("stochastic_volatility")
SHARES = example_data(VOLATILITY.EXAMPLE, VOLATILITY.VARIABLES)


def dataset(y: list[float]) -> xr.Dataset:
    return prepare(pd.DataFrame({"y": y}), VOLATILITY.VARIABLES, {})


def test_log_joint_against_scipy() -> None:
    """The deviations by the covariance of a stationary autoregression, not step by step."""
    y = SHARES["y"].to_numpy()
    y = y - y.mean()
    level, persistence, variance = 3.1, 0.93, 0.07
    phi = 2 * persistence - 1
    lags = np.abs(np.subtract.outer(np.arange(48), np.arange(48)))
    prior = stats.multivariate_normal(np.zeros(48), variance / (1 - phi**2) * phi**lags)
    deviation = prior.rvs(random_state=1)
    expected = stats.norm(np.log(y.var()), 1).logpdf(level) + stats.beta(20, 1.5).logpdf(persistence)
    expected += stats.invgamma(2.5, scale=0.1).logpdf(variance) + prior.logpdf(deviation)
    expected += stats.norm(0, np.exp((level + deviation) / 2)).logpdf(y).sum()
    point = {"level": np.array(level), "persistence": np.array(persistence), "step_variance": np.array(variance)}
    joint = LogJoint.from_model(VOLATILITY.build(SHARES, **VOLATILITY.EXAMPLE.options))
    assert joint.logp({**point, "deviation": deviation}) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_evidence_of_three_returns_against_gauss_rules() -> None:
    """A rule for each prior: Jacobi's for phi, Laguerre's for the precision of a step, Hermite's for log variances."""
    y = np.array([0.4, -1.1, 0.7])
    options = {"level_mean": 0.3, "persistence_alpha": 4.0, "persistence_beta": 4.0, "step_shape": 5.0}
    model = VOLATILITY.build(dataset([*y]), **options, step_scale=1.0)
    post = bk.infer(model, draws=100, random_seed=1, progressbar=False)
    (phis, of_phi), (precisions, of_precision) = special.roots_jacobi(10, 3, 3), special.roots_genlaguerre(10, 4)
    nodes, weights = np.polynomial.hermite_e.hermegauss(14)
    at = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    share = np.log(np.einsum("i,j,k->ijk", weights, weights, weights).ravel() / weights.sum() ** 3)
    lags = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    found = []
    for phi in phis:
        for precision in precisions:
            # Of level + deviation: the variance of the level is in all its entries.
            root = np.linalg.cholesky(1.0 + phi**lags / (1 - phi**2) / precision)
            volatility = np.exp((0.3 + at @ root.T) / 2)
            found.append(special.logsumexp(share + stats.norm(0, volatility).logpdf(y - y.mean()).sum(axis=1)))
    outer = np.outer(of_phi / of_phi.sum(), of_precision / of_precision.sum()).ravel()
    assert post.log_evidence.error < 0.005
    assert float(post.log_evidence) == pytest.approx(special.logsumexp(found, b=outer), abs=4 * post.log_evidence.error)


def test_returns_that_do_not_vary_are_refused() -> None:
    with pytest.raises(BayeskitError, match="column 'y' is constant; there is no variance to model"):
        VOLATILITY.build(dataset([0.1, 0.1, 0.1]))
