"""Conditional autoregressions against the same model as a dense multivariate normal distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pymc as pm
import pytest
from pymc.distributions.transforms import ordered
from scipy import integrate, sparse, stats

import bayeskit as bk
from bayeskit.errors import ModelError, UnanswerableError
from bayeskit.graphs import field_draws
from bayeskit.graphs.compile import small_mode
from bayeskit.model.forward_sampling import draw_given

# Six areas: a ring of four with a tail of two; and the same with a road that is half as wide.
EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)]
W = np.zeros((6, 6))
W[tuple(np.transpose(EDGES))] = W[tuple(np.transpose(EDGES)[::-1])] = 1.0
WEIGHTED = W.copy()
WEIGHTED[4, 5] = WEIGHTED[5, 4] = 0.5
Y = np.array([0.3, -1.1, 0.6, 1.4, 2.0, 0.7])


def covariance(w: np.ndarray, alpha: float, tau: float) -> np.ndarray:
    return np.linalg.inv(tau * (np.diag(w.sum(axis=0)) - alpha * w))


def log_density(w: np.ndarray, alpha: float, tau: float, mean_sd: float = 0.0, noise_sd: float = 0.0) -> float:
    spread = covariance(w, alpha, tau) + mean_sd**2 + noise_sd**2 * np.eye(6)
    return float(stats.multivariate_normal(np.zeros(6), spread).logpdf(Y))


def model(w: Any = W, alpha: Any = 0.6, tau: Any = 2.0, **options: Any) -> pm.Model:
    with pm.Model() as built:
        a = alpha() if callable(alpha) else alpha
        field = pm.CAR("field", mu=np.zeros(6), W=w() if callable(w) else w, alpha=a, tau=tau, **options)
        pm.Normal("y", field, 0.8, observed=Y)
    return built


@pytest.mark.parametrize(
    ("w", "dense"), [(W, W), (WEIGHTED, WEIGHTED), (sparse.csr_matrix(W), W), (lambda: pm.Data("w", W), W)]
)
def test_a_field_is_integrated_out_and_its_constant_divided_out(w: Any, dense: np.ndarray) -> None:
    post = bk.infer(model(w), draws=4000, random_seed=1)
    assert post.method == "exact" and post.plan.eliminated[0].family == "normal"
    assert post.log_evidence.value == pytest.approx(log_density(dense, 0.6, 2.0, noise_sd=0.8), abs=1e-10)
    assert "to which PyMC's density of it integrates instead of one" in post.log_evidence.convention
    precision = np.linalg.inv(covariance(dense, 0.6, 2.0)) + np.eye(6) / 0.64
    found = post.marginal("field")
    assert np.allclose(found.mean(), np.linalg.solve(precision, Y / 0.64), atol=1e-10)
    assert np.allclose(found.std(), np.sqrt(np.diag(np.linalg.inv(precision))), atol=1e-10)


@pytest.mark.parametrize("room", [1e-6, 1e-9, 1e-12])
def test_next_to_a_singular_precision_the_error_has_the_rounding_of_the_determinant(room: float) -> None:
    """PyMC's determinant is off by 1e-7 at α = 1 − 1e-9; here fifty digits."""
    alpha = 1 - room
    with mpmath.workdps(50):
        q = 2 * (mpmath.diag([int(d) for d in W.sum(axis=0)]) - mpmath.mpf(alpha) * mpmath.matrix(W.tolist()))
        spread, y = q**-1 + mpmath.mpf(0.8) ** 2 * mpmath.eye(6), mpmath.matrix(Y.tolist())
        square = (y.T * spread**-1 * y)[0]
        expected = -(square + mpmath.log(mpmath.det(spread)) + 6 * mpmath.log(2 * mpmath.pi)) / 2
        found = bk.infer(model(alpha=alpha), draws=4).log_evidence
        off = float(abs(found.value - expected))
    assert off < found.error < 20 * np.finfo(float).eps / room + 1e-10


def test_pymc_leaves_out_the_constant_that_is_divided_out() -> None:
    with pm.Model() as alone:
        pm.CAR("field", mu=np.zeros(6), W=W, alpha=0.6, tau=2.0)
    theirs = float(alone.compile_logp(mode="FAST_COMPILE")({"field": Y}))
    constant = 3 * np.log(2 * np.pi) - 0.5 * np.log(W.sum(axis=0)).sum()
    assert theirs - log_density(W, 0.6, 2.0) == pytest.approx(constant, abs=1e-7)  # log 2.0 in single precision


def test_an_observed_field_has_a_likelihood_whose_constant_is_divided_out() -> None:
    with pm.Model() as built:
        mu = pm.Normal("mu", 0, 1.5)
        pm.CAR("y", mu=mu * np.ones(6), W=W, alpha=0.6, tau=2.0, observed=Y)
    post = bk.infer(built, draws=200, random_seed=1)
    assert post.method == "exact" and "the density of y divided by" in post.log_evidence.convention
    assert post.log_evidence.value == pytest.approx(log_density(W, 0.6, 2.0, mean_sd=1.5), abs=1e-10)


def test_several_fields_have_as_many_constants() -> None:
    with pm.Model() as built:
        field = pm.CAR("field", mu=np.zeros(6), W=W, alpha=0.6, tau=2.0, shape=(2, 6))
        pm.Normal("y", field, 0.8, observed=np.stack([Y, Y]))
    post = bk.infer(built, draws=100, random_seed=1)
    assert post.log_evidence.value == pytest.approx(2 * log_density(W, 0.6, 2.0, noise_sd=0.8), abs=1e-10)


def test_alpha_that_is_not_known_is_integrated_over() -> None:
    post = bk.infer(model(alpha=lambda: pm.Beta("alpha", 2, 2)), draws=200, random_seed=1)

    def density(u: float) -> float:  # α = 1 − u²: the determinant has a root at one
        return float(np.exp(log_density(W, 1 - u * u, 2.0, noise_sd=0.8)) * stats.beta(2, 2).pdf(1 - u * u) * 2 * u)

    expected = np.log(integrate.quad(density, 0, 1, epsabs=1e-15, epsrel=1e-12)[0])
    assert post.method == "quadrature" and abs(post.log_evidence.value - expected) <= post.log_evidence.error + 1e-10


def test_a_precision_that_scales_field_and_noise_has_a_closed_form() -> None:
    with pm.Model() as built:
        tau = pm.Gamma("tau", 2.0, 1.0)
        field = pm.CAR("field", mu=np.zeros(6), W=W, alpha=0.6, tau=tau)
        pm.Normal("y", field, tau=1.5 * tau, observed=Y)
    post = bk.infer(built, draws=200, random_seed=1)
    shape = covariance(W, 0.6, 1.0) + np.eye(6) / 1.5
    t = stats.multivariate_t(np.zeros(6), shape * 1.0 / 2.0, df=4.0)
    assert post.method == "exact" and post.log_evidence.value == pytest.approx(float(t.logpdf(Y)), abs=1e-10)


@pytest.mark.slow
def test_estimates_from_draws_of_the_prior_know_the_constant() -> None:
    with pm.Model() as built:
        tau, alpha = pm.Gamma("tau", 2.0, 1.0), pm.Beta("alpha", 2, 2)
        field = pm.CAR("field", mu=np.zeros(6), W=W, alpha=alpha, tau=tau)
        pm.Normal("y", field, 0.8, observed=Y)
    found = bk.infer(built, draws=100, random_seed=1).log_evidence
    estimates = bk.evidence(built, ("smc",), random_seed=1)
    for row in estimates.table.itertuples():
        assert abs(row.log_evidence - found.value) < 4 * row.error + found.error


@pytest.mark.slow
@pytest.mark.parametrize("dense", [150, 0])
def test_draws_have_the_covariance_of_the_density(monkeypatch: pytest.MonkeyPatch, dense: int) -> None:
    """PyMC's own have that of a precision squared, which is another by up to 0.19."""
    monkeypatch.setattr(field_draws, "DENSE", dense)
    expected = covariance(W, 0.6, 2.0)
    many = pm.CAR.dist(mu=np.arange(6.0), W=W, alpha=0.6, tau=2.0, shape=(5_000, 6))
    drawn = pm.draw(many, random_seed=1, mode=small_mode())
    assert np.allclose(drawn.mean(axis=0), np.arange(6.0), atol=0.04)
    assert np.allclose(np.cov(drawn.T), expected, atol=0.04)
    one = pm.CAR.dist(mu=np.zeros(6), W=sparse.csr_matrix(W), alpha=0.6, tau=2.0)
    assert np.allclose(np.cov(pm.draw(one, 1000, random_seed=1, mode=small_mode()).T), expected, atol=0.1)
    with pm.Model() as built:
        alpha = pm.Beta("alpha", 2, 2)
        pm.CAR("field", mu=np.zeros(6), W=W, alpha=alpha, tau=2.0)
    drawn = draw_given(built, ["field"], {"alpha": np.full(1000, 0.6)}, np.random.default_rng(1), 1000)["field"]
    assert np.allclose(np.cov(drawn.T), expected, atol=0.1)


def _without(*entries: tuple[int, int]) -> np.ndarray:
    w = W.copy()
    for i, j in entries:
        w[i, j] = 0.0
    return w


@pytest.mark.parametrize(
    ("w", "said"),
    [
        (_without((0, 1)), r"W of 'field' is not symmetric: W\[0, 1\] is 0 and W\[1, 0\] is 1"),
        (sparse.csr_matrix(_without((0, 1))), "is not symmetric"),
        (_without((4, 5), (5, 4)), "area 5 of 'field' has no neighbours in W"),
        (W - 2 * (np.eye(6)[:, [5]] @ np.eye(6)[[4]] + np.eye(6)[:, [4]] @ np.eye(6)[[5]]), "area 4|area 5"),
    ],
)
def test_what_is_no_graph_of_neighbours_is_refused(w: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        bk.explain(model(w))


@pytest.mark.parametrize("options", [{"alpha": 1.0}, {"alpha": -1.2}, {"tau": -2.0}])
def test_parameters_out_of_their_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UnanswerableError, match="-1 < alpha < 1"):
        bk.infer(model(**options), draws=50)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: model(lambda: W * pm.Gamma("width", 2, 2)), "its integral may depend on width"),
        (lambda: model(transform=ordered), "leaves out a constant"),
    ],
)
def test_there_is_no_evidence_where_the_constant_is_not_known(build: Callable[[], pm.Model], why: str) -> None:
    notes = " ".join(bk.explain(build()).notes)
    assert "no log evidence: the prior of field is not known to be normalised" in notes and why in notes
