"""Importance sampling as a rung of the ladder: evidence, draws, and what it leaves to NUTS."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, optimize, special, stats

import bayeskit as bk

X = np.random.default_rng(5).normal(size=(40, 4))
LABELS = np.random.default_rng(6).binomial(1, special.expit(X @ [1.0, -0.5, 0.0, 2.0]))
GROUPS = np.random.default_rng(7).normal([0.0, 1.0, -1.0, 3.0], [1.0, 0.5, 2.0, 1.0], size=(5, 4))


def logistic() -> pm.Model:
    with pm.Model() as model:
        weights = pm.Normal("weights", 0.0, 2.0, shape=4)
        pm.Bernoulli("label", logit_p=X @ weights, observed=LABELS)
        pm.Deterministic("first", weights[0])
    return model


def four_scales() -> pm.Model:
    """Given the scales the means have a closed form; the four groups are independent."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0, shape=4)
        scale = pm.HalfNormal("scale", 1.0, shape=4)
        pm.Normal("y", mean, scale, observed=GROUPS)
    return model


@pytest.fixture(scope="module")
def posterior() -> bk.Posterior:
    return bk.infer(logistic(), random_seed=1)


@pytest.fixture(scope="module")
def by_hermite() -> tuple[float, np.ndarray, np.ndarray]:
    """Log evidence, means and sds of the logistic regression by 14^4 Gauss-Hermite nodes about the mode."""

    def log_joint(w: np.ndarray) -> np.ndarray:
        eta = w @ X.T
        return np.sum(LABELS * eta - np.logaddexp(0, eta), axis=-1) + stats.norm(0, 2).logpdf(w).sum(axis=-1)

    mode = optimize.minimize(lambda w: -log_joint(w), np.zeros(4)).x
    p = special.expit(X @ mode)
    root = np.linalg.cholesky(np.linalg.inv(X.T @ (X * (p * (1 - p))[:, None]) + np.eye(4) / 4))
    nodes, weights = np.polynomial.hermite_e.hermegauss(14)
    z = np.array(list(itertools.product(nodes, repeat=4)))
    log_w = np.log(weights)[np.indices((14,) * 4).reshape(4, -1)].sum(axis=0)
    w = mode + z @ root.T
    log_f = log_joint(w) + log_w + 0.5 * np.sum(z**2, axis=1) + np.log(np.diag(root)).sum()
    value = float(special.logsumexp(log_f))
    share = np.exp(log_f - value)
    means = share @ w
    return value, means, np.sqrt(share @ (w - means) ** 2)


def test_the_evidence_is_that_of_dense_quadrature(
    posterior: bk.Posterior, by_hermite: tuple[float, np.ndarray, np.ndarray]
) -> None:
    evidence = posterior.log_evidence
    assert (posterior.method, evidence.label) == ("importance", "estimated")
    assert evidence.error < 2e-3
    assert abs(evidence.value - by_hermite[0]) < 4 * evidence.error


def test_draws_are_independent_and_of_the_posterior(
    posterior: bk.Posterior, by_hermite: tuple[float, np.ndarray, np.ndarray]
) -> None:
    draws = posterior.tree["posterior"]["weights"].to_numpy().reshape(-1, 4)
    assert posterior.tree["posterior"].sizes["chain"] == 4
    assert len(np.unique(draws[:, 0])) == len(draws) == 4000
    _, means, sds = by_hermite
    assert np.all(np.abs(draws.mean(axis=0) - means) < 4 * sds / math.sqrt(4000))
    assert np.all(np.abs(draws.std(axis=0) / sds - 1) < 4 / math.sqrt(2 * 4000))
    lagged = [np.corrcoef(draws[1:, k], draws[:-1, k])[0, 1] for k in range(4)]
    assert np.max(np.abs(lagged)) < 4 / math.sqrt(4000)
    np.testing.assert_array_equal(posterior.tree["posterior"]["first"].to_numpy().ravel(), draws[:, 0])


def test_it_says_what_it_did(posterior: bk.Posterior) -> None:
    plan = bk.explain(logistic())
    assert plan.method == "importance"
    assert "weights will be integrated by importance sampling at quasi-random points." in plan.outlook
    (note,) = posterior.plan.notes
    assert note.startswith("importance sampling made ") and "Pareto k" in note
    assert posterior.diagnostics is None
    attrs = posterior.tree["posterior"].attrs
    assert attrs["importance_points"] >= 4096 and 0.5 < attrs["effective_share"] <= 1 and attrs["pareto_k"] <= 0.5


def test_its_report_has_the_weights_in_place_of_chains(posterior: bk.Posterior, tmp_path: Path) -> None:
    page = bk.report(posterior, tmp_path / "logistic.html").read_text(encoding="utf-8")
    assert "quasi-random points by importance weights" in page and "Pareto k of" in page


def test_the_same_seed_gives_the_same_draws(posterior: bk.Posterior) -> None:
    again = bk.infer(logistic(), random_seed=1)
    assert again.tree["posterior"].to_dataset().equals(posterior.tree["posterior"].to_dataset())
    assert again.log_evidence == posterior.log_evidence


@pytest.mark.slow
def test_what_was_eliminated_comes_back() -> None:
    """Four independent groups: the evidence is the sum of four integrals over one scale each."""
    post = bk.infer(four_scales(), random_seed=2)
    assert [step.variables for step in post.plan.eliminated] == [("mean",)] and post.method == "importance"
    total, means = 0.0, []
    for column in GROUPS.T:
        n, centre = len(column), column.mean()

        def density(s: float, column: np.ndarray = column, n: int = n) -> float:
            covariance = s**2 * np.eye(n) + 4.0
            return float(stats.multivariate_normal(np.zeros(n), covariance).pdf(column) * stats.halfnorm.pdf(s))

        def weighted(s: float, n: int = n, centre: float = centre) -> float:
            return density(s) * (n * centre / s**2) / (n / s**2 + 0.25)

        mass = integrate.quad(density, 1e-6, 8, points=[0.3, 1, 2], epsabs=0, epsrel=1e-10)[0]
        total += math.log(mass)
        means.append(integrate.quad(weighted, 1e-6, 8, points=[0.3, 1, 2], epsabs=0, epsrel=1e-10)[0] / mass)
    assert abs(post.log_evidence.value - total) < 4 * post.log_evidence.error
    assert post.log_evidence.error < 5e-3
    assert post.certificate < 1e-8
    draws = post.tree["posterior"]["mean"].to_numpy().reshape(-1, 4)
    assert np.all(np.abs(draws.mean(axis=0) - means) < 4 * draws.std(axis=0) / math.sqrt(4000))


SEPARATE = np.concatenate([np.random.default_rng(1).normal(-4, 1.0, size=12), np.random.default_rng(2).normal(4, 1, 9)])


def mixture_of_two(spelling: str) -> pm.Model:
    """One density: by a share and what is left, and by shares whose labels can be exchanged."""
    with pm.Model() as model:
        centres = pm.Normal("centres", 0.0, 5.0, shape=2)
        if spelling == "a share":
            share = pm.Beta("share", 2.0, 2.0)
            shares = pm.math.stack([share, 1 - share])
        else:
            shares = pm.Dirichlet("shares", np.full(2, 2.0))
        scale = pm.HalfNormal("scale", 2.0)
        pm.NormalMixture("y", w=shares, mu=centres, sigma=scale, observed=SEPARATE)
    return model


@pytest.fixture(scope="module")
def by_lattice() -> float:
    """A fine lattice about one of the two modes, twice: the components are far apart."""
    axes = [np.linspace(-5.6, -2.4, 16), np.linspace(2.4, 5.6, 16), np.linspace(-3, 3, 16), np.linspace(-0.8, 0.8, 16)]
    one, other, odds, log_scale = (a.ravel()[:, None] for a in np.meshgrid(*axes, indexing="ij", sparse=False))
    p, sd = special.expit(odds), np.exp(log_scale)
    parts = stats.norm(one, sd).logpdf(SEPARATE) + np.log(p), stats.norm(other, sd).logpdf(SEPARATE) + np.log1p(-p)
    log_f = np.logaddexp(*parts).sum(axis=1) + stats.norm(0, 5).logpdf(np.hstack([one, other])).sum(axis=1)
    log_f += (stats.beta(2, 2).logpdf(p) + np.log(p * (1 - p)) + stats.halfnorm(0, 2).logpdf(sd) + log_scale)[:, 0]
    return float(special.logsumexp(log_f)) + sum(math.log(a[1] - a[0]) for a in axes) + math.log(2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spelling", "counted", "images"),
    [
        ("a share", "over the mirror images of centres, share", "each of 2 signs of centres, share equally often"),
        ("shares", "over all 2! = 2 labellings", "one of 2 labellings of the components (centres, shares)"),
    ],
)
def test_one_of_the_modes_that_are_images_is_integrated_for_all(
    spelling: str, counted: str, images: str, by_lattice: float
) -> None:
    post = bk.infer(mixture_of_two(spelling), method="importance", random_seed=1)
    evidence = post.log_evidence
    assert abs(evidence.value - by_lattice) < 4 * evidence.error + 1e-4
    assert evidence.error < 2e-3
    assert counted in evidence.convention
    assert f"the draws are at {images}" in post.plan.notes[-1]
    first = post.tree["posterior"]["centres"].to_numpy()[..., 0]
    if spelling == "shares":  # apart, each component keeps its label
        assert np.all(first < -2) or np.all(first > 2)
    else:
        assert np.mean(first < 0) == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(first.size))


def test_exchangeable_numbers_with_one_mode_are_no_components() -> None:
    """Four rates with the same count: the integral is that of one to the power of four, and their means mean it."""
    with pm.Model() as model:
        log_rate = pm.Laplace("log_rate", 0.0, 1.0, shape=4)
        pm.Poisson("y", pm.math.exp(log_rate), observed=np.full(4, 3))
    post = bk.infer(model, method="importance", random_seed=1)

    def density(x: float) -> float:
        return float(stats.laplace.pdf(x) * stats.poisson.pmf(3, np.exp(x)))

    one = integrate.quad(density, -10, 10, points=[0.0], epsabs=0)[0]
    assert abs(post.log_evidence.value - 4 * math.log(one)) < 4 * post.log_evidence.error < 0.01
    assert not any("equally often" in note or "at one of" in note for note in post.plan.notes)


@pytest.mark.slow
@pytest.mark.parametrize("low", [0, 1])
def test_initial_values_say_which_component_is_which(low: int) -> None:
    with pm.Model() as model:
        start = [-3.0, 3.0] if low == 0 else [3.0, -3.0]
        centres = pm.Normal("centres", 0.0, 5.0, shape=2, initval=start)
        pm.NormalMixture("y", w=[0.5, 0.5], mu=centres, sigma=1.0, observed=SEPARATE)
    draws = bk.infer(model, method="importance", draws=400, random_seed=1).tree["posterior"]["centres"].to_numpy()
    assert np.all(draws[..., low] < -2) and np.all(draws[..., 1 - low] > 2)


OVERLAPPING = np.random.default_rng(4).normal(0.0, 1.6, size=8)


@pytest.mark.slow
def test_components_that_overlap_have_every_label() -> None:
    """Against sums over all allocations of eight numbers to three components whose shares and scale are known."""
    with pm.Model() as model:
        centres = pm.Normal("centres", 0.0, 2.0, shape=3)
        pm.NormalMixture("y", w=np.full(3, 1 / 3), mu=centres, sigma=1.0, observed=OVERLAPPING)
    post = bk.infer(model, method="importance", random_seed=1)
    members = np.array(list(itertools.product(range(3), repeat=8)))[..., None] == np.arange(3)
    count, total = members.sum(axis=1), np.einsum("zik,i->zk", members, OVERLAPPING)
    terms = 0.5 * (total**2 * 4 / (1 + 4 * count) - np.log1p(4 * count)).sum(axis=1)
    expected = float(special.logsumexp(terms)) - 8 * math.log(3) + stats.norm.logpdf(OVERLAPPING).sum()
    assert abs(post.log_evidence.value - expected) < 4 * post.log_evidence.error < 0.05
    assert post.log_evidence.convention == "over all 3! = 6 labellings of the components (centres)"
    assert "the draws are at each of 6 labellings of the components (centres) equally often" in post.plan.notes[-1]
    draws = post.tree["posterior"]["centres"].to_numpy().reshape(-1, 3)
    mean = special.softmax(terms) @ (total * 4 / (1 + 4 * count))[:, 0]
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * draws.std(axis=0) / math.sqrt(len(draws)))


@pytest.mark.parametrize(
    "build",
    [
        lambda: pm.Normal("y", pm.Laplace("x", 0, 1, shape=41), 1.0, observed=np.zeros(41)),
        lambda: pm.Poisson("y", pm.Geometric("x", 0.1) ** 1.5, observed=3),
    ],
    ids=["many numbers", "whole numbers"],
)
def test_what_it_is_not_for_is_refused_with_a_remedy(build: object) -> None:
    with pm.Model() as model:
        build()  # type: ignore[operator]
    with pytest.raises(bk.BayeskitError, match="at most 40 real numbers; use method='nuts'"):
        bk.infer(model, method="importance", random_seed=1)


def test_an_improper_prior_has_draws_and_no_evidence() -> None:
    with pm.Model() as model:
        weights = pm.Flat("weights", shape=4)
        pm.Bernoulli("label", logit_p=0.3 * X @ weights, observed=LABELS)
    post = bk.infer(model, method="importance", random_seed=1, draws=1000)
    assert math.isnan(post.log_evidence.value) and "improper" in post.log_evidence.reason
    fit = optimize.minimize(lambda w: -np.sum(LABELS * (0.3 * X @ w) - np.logaddexp(0, 0.3 * X @ w)), np.zeros(4))
    draws = post.tree["posterior"]["weights"].to_numpy().reshape(-1, 4)
    assert np.all(np.abs(draws.mean(axis=0) - fit.x) < 2.5 * draws.std(axis=0))


SCALES = np.array([1e4, 1.0, 1e-4, 1.0])
COUNTS = np.random.default_rng(9).poisson(np.exp(X @ [-0.6, 0.0, 0.5, 0.9]))


def badly_scaled(counts: bool, scales: np.ndarray) -> pm.Model:
    """With priors that go with the scales, so that the evidence is that of columns of like scale."""
    with pm.Model() as model:
        eta = (X * scales) @ pm.Normal("weights", 0.0, 2.0 / scales, shape=4)
        if counts:
            pm.Poisson("y", pm.math.exp(eta), observed=COUNTS)
        else:
            pm.Bernoulli("y", logit_p=eta, observed=LABELS)
    return model


@pytest.mark.slow
def test_predictors_of_far_apart_scales_leave_the_evidence_as_it_is(
    by_hermite: tuple[float, np.ndarray, np.ndarray],
) -> None:
    value, mean, sd = by_hermite
    post = bk.infer(badly_scaled(False, SCALES), random_seed=1)
    assert post.method == "importance"
    assert abs(post.log_evidence.value - value) < 4 * post.log_evidence.error < 0.01
    drawn = post.tree.posterior.weights.values.reshape(-1, 4) * SCALES
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 5 * sd / math.sqrt(len(drawn)))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["importance", "nuts"])
def test_counts_of_predictors_of_far_apart_scales_leave_the_evidence_as_it_is(method: str) -> None:
    def log_joint(w: np.ndarray) -> np.ndarray:
        eta = w @ X.T
        return np.asarray(stats.poisson(np.exp(eta)).logpmf(COUNTS).sum(axis=-1) + stats.norm(0, 2).logpdf(w).sum(-1))

    mode = optimize.minimize(lambda w: -log_joint(w), np.zeros(4)).x
    root = np.linalg.cholesky(np.linalg.inv(X.T @ (X * np.exp(X @ mode)[:, None]) + np.eye(4) / 4))
    nodes, weights = np.polynomial.hermite_e.hermegauss(14)
    z = np.array(list(itertools.product(nodes, repeat=4)))
    log_w = np.log(weights)[np.indices((14,) * 4).reshape(4, -1)].sum(axis=0) + 0.5 * np.sum(z**2, axis=1)
    expected = special.logsumexp(log_joint(mode + z @ root.T) + log_w) + np.log(np.diag(root)).sum()
    post = bk.infer(badly_scaled(True, SCALES), method=method, random_seed=1)
    assert post.method == method
    assert abs(post.log_evidence.value - expected) < 4 * post.log_evidence.error < 0.02


@pytest.mark.slow
def test_the_mode_of_the_other_sign_is_in_the_integral() -> None:
    """y = |x| + noise, x a walk from 0.3 on: over signs of x, a sum of Normals but for noise of forty sds."""
    steps, noise = 9, 0.02
    y = 1.0 + 0.2 * np.sin(np.arange(steps)) + noise * np.random.default_rng(0).standard_normal(steps)
    with pm.Model() as model:
        x = pm.GaussianRandomWalk("x", sigma=0.3, init_dist=pm.Normal.dist(0.3, 1.0), steps=steps - 1)
        pm.Normal("y", pm.math.abs(x), noise, observed=y)
    since = np.arange(steps)
    of_walk = stats.multivariate_normal(
        np.full(steps, 0.3), 1.0 + 0.09 * np.minimum.outer(since, since) + noise**2 * np.eye(steps)
    )
    signs = np.array(list(itertools.product([-1, 1], repeat=steps)))
    value = float(special.logsumexp(of_walk.logpdf(signs * y)))
    found = bk.infer(model, method="importance", draws=100, random_seed=3).log_evidence
    assert abs(found.value - value) < 4 * found.error
