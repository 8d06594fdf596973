"""Processes on a grid by pm.gp.MarginalKron and pm.KroneckerNormal, against the whole covariance matrix."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from pytensor.graph.traversal import ancestors
from scipy.integrate import quad
from scipy.stats import halfnorm, invgamma, multivariate_normal

import bayeskit as bk
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.kronecker import KroneckerSolve
from bayeskit.model.log_joint import LogJoint

RNG = np.random.default_rng(5)
ROWS, COLUMNS = np.linspace(0.0, 1.0, 5)[:, None], np.linspace(0.0, 1.0, 4)[:, None]
Y = RNG.normal(size=20)
SLOPES = np.tile(COLUMNS[:, 0], 5)


def _covariance(x, length):
    return np.exp(-0.5 * (x - x.T) ** 2 / length**2)


K1, K2 = _covariance(ROWS, 0.4), _covariance(COLUMNS, 0.3)


def _process():
    with pm.Model() as model:
        first, second, sigma = pm.InverseGamma("first", 5, 2), pm.InverseGamma("second", 5, 2), pm.HalfNormal("sigma")
        kernels = [pm.gp.cov.ExpQuad(1, ls=first), pm.gp.cov.ExpQuad(1, ls=second)]
        pm.gp.MarginalKron(cov_funcs=kernels).marginal_likelihood("y", Xs=[ROWS, COLUMNS], y=Y, sigma=sigma)
    return model


def _scaled(weights=False, observed=Y):
    with pm.Model() as model:
        v = pm.InverseGamma("v", 3.0, 2.0)
        mean = np.zeros(20)
        if weights:
            b = pm.Normal("b", 0.0, [1.0, 2.0], shape=2)
            mean = b[0] + b[1] * SLOPES
        pm.KroneckerNormal("y", mu=mean, covs=[v * K1, K2], sigma=0.3, observed=observed)
    return model


def _taken(joint):
    return any(v.owner and isinstance(v.owner.op, KroneckerSolve) for v in ancestors([joint.total]))


def test_the_density_is_that_of_the_whole_matrix():
    joint = LogJoint.from_model(_process())
    assert _taken(joint)
    function = compile_small(list(joint.values.values()), joint.total)
    for first, second, sigma in ([0.5, 0.4, 0.3], [2.0, 0.1, 1e-2], [5.0, 3.0, 0.1]):
        covariance = np.kron(_covariance(ROWS, first), _covariance(COLUMNS, second)) + sigma**2 * np.eye(20)
        prior = invgamma(5, scale=2).logpdf([first, second]).sum() + halfnorm().logpdf(sigma)
        expected = prior + multivariate_normal(np.zeros(20), covariance).logpdf(Y)
        np.testing.assert_allclose(function(*map(np.asarray, (first, second, sigma))), expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [False, True])
def test_the_evidence_is_that_of_an_integral_over_the_whole_matrix(weights):
    design = np.stack([np.ones(20), SLOPES], axis=1)
    of_mean = design @ np.diag([1.0, 4.0]) @ design.T if weights else np.zeros((20, 20))

    def density(v):
        covariance = v * np.kron(K1, K2) + 0.09 * np.eye(20) + of_mean
        return np.exp(multivariate_normal(np.zeros(20), covariance).logpdf(Y) + invgamma(3.0, scale=2.0).logpdf(v) + 25)

    expected = np.log(quad(density, 0.0, 2.0, epsabs=0.0)[0] + quad(density, 2.0, np.inf, epsabs=0.0)[0]) - 25
    posterior = bk.infer(_scaled(weights))
    assert posterior.method == "quadrature"
    assert abs(posterior.log_evidence.value - expected) < max(posterior.log_evidence.error, 1e-8)


def test_a_covariance_that_is_known_stays_as_it_is():
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0)
        pm.KroneckerNormal("y", mu=b + np.zeros(20), covs=[K1, K2], sigma=0.3, observed=Y)
    assert not _taken(LogJoint.from_model(model))
    assert bk.infer(model).method == "exact"


def test_several_fields_at_once_stay_as_they_are():
    both = _scaled(observed=RNG.normal(size=(2, 20)))
    assert not _taken(LogJoint.from_model(both))
