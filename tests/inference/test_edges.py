"""Models at the edge of what can be computed: vague priors, nothing free, odd names, missing entries, bad data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.errors import BayeskitError, DataError, ModelError, UnanswerableError

Y = np.array([0.4, -1.1, 2.3, 0.9, 1.6])


def numbers(post: bk.Posterior) -> bool:
    return all(np.all(np.isfinite(v)) for v in post.tree["posterior"].data_vars.values())


def log_integral(log_density: object, low: float, high: float) -> float:
    """By trapezoids, which converge at once for what falls off at both ends."""
    grid = np.linspace(low, high, 2_001)
    values = np.array([log_density(x) for x in grid])  # type: ignore[operator]
    return float(special.logsumexp(values) + np.log(grid[1] - grid[0]))


@pytest.mark.parametrize("variance", [False, True])
def test_a_vague_prior_of_a_precision_or_a_variance_is_integrated(variance: bool) -> None:
    with pm.Model() as model:
        scale = pm.InverseGamma("s", 1e-3, 1e-3) if variance else pm.Gamma("s", 1e-3, 1e-3)
        mu = pm.Normal("mu", 0, 50)
        pm.Normal("y", mu, tau=1 / scale if variance else scale, observed=Y)
    post = bk.infer(model, draws=200, random_seed=3)

    def at(x: float) -> float:  # x = log precision
        tau, n = np.exp(x), len(Y)
        precision = n * tau + 1 / 2500
        square = tau * np.sum(Y**2) - (tau * Y.sum()) ** 2 / precision
        likelihood = 0.5 * (n * x - n * np.log(2 * np.pi) - np.log(2500 * precision) - square)
        return float(likelihood + 1e-3 * x - 1e-3 * tau + 1e-3 * np.log(1e-3) - special.gammaln(1e-3))

    assert post.method == "quadrature" and numbers(post)
    assert post.log_evidence.value == pytest.approx(log_integral(at, -60, 8), abs=1e-7)


def test_draws_of_a_rate_that_no_data_say_anything_of_are_numbers() -> None:
    with pm.Model() as model:
        rate = pm.Gamma("rate", 1e-3, 1e-3, shape=3)
        pm.Poisson("y", rate * np.array([0.0, 0.0, 2.0]), observed=[0, 0, 5])
    post = bk.infer(model, draws=400, random_seed=1)
    assert post.method == "exact" and numbers(post)
    assert float(post.tree["posterior"]["rate"].min()) > 0


@pytest.mark.slow
def test_intervals_without_events_or_exposure() -> None:
    """A piecewise exponential hazard: at many of its intervals nobody is left, and nothing happens in others."""
    rng = np.random.default_rng(3)
    last, event, treated = rng.integers(1, 30, 20), rng.random(20) < 0.6, rng.integers(0, 2, 20)
    died, exposure = np.zeros((20, 38)), np.zeros((20, 38))
    for i, k in enumerate(last):
        died[i, k], exposure[i, : k + 1] = event[i], 1.0
    with pm.Model() as model:
        hazard = pm.Gamma("hazard", 0.01, 0.01, shape=38)
        ratio = pm.Normal("ratio", 0, 1000)
        pm.Poisson("died", exposure * pt.outer(pt.exp(ratio * treated), hazard), observed=died)
    post = bk.infer(model, draws=400, random_seed=2)

    def at(b: float) -> float:
        at_risk = np.exp(b * treated) @ exposure
        deaths = died.sum(axis=0)
        terms = special.gammaln(0.01 + deaths) - special.gammaln(0.01) + 0.01 * np.log(0.01)
        terms = terms - (0.01 + deaths) * np.log(0.01 + at_risk)
        return float(terms.sum() + b * np.sum(died.sum(axis=1) * treated) + stats.norm.logpdf(b, 0, 1000))

    assert post.method == "quadrature", post.plan.notes
    assert numbers(post) and np.isfinite(post.certificate)
    assert post.log_evidence.value == pytest.approx(log_integral(at, -60, 60), abs=1e-6)


def without_free_variables() -> pm.Model:
    with pm.Model() as model:
        x = pm.Data("x", np.arange(5.0))
        pm.Normal("y", 0.1 * x, 1.0, observed=Y, shape=x.shape)
    return model


def with_a_mean() -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1.0, observed=Y)
    return model


@pytest.mark.slow
def test_a_point_null_is_compared_predicted_and_reported(tmp_path: Path) -> None:
    model = without_free_variables()
    terms = stats.norm.logpdf(Y, 0.1 * np.arange(5), 1.0)
    comparison = bk.compare({"null": model, "mean": with_a_mean()}, random_seed=1)
    assert comparison.table.loc["null", "log_evidence"] == pytest.approx(terms.sum(), abs=1e-12)
    assert comparison.table.loc["null", "elpd_loo"] == pytest.approx(terms.sum(), abs=1e-12)
    post = bk.infer(model, draws=200, random_seed=1)
    drawn = post.posterior_predictive(random_seed=1)["y"]
    assert drawn.shape == (4, 50, 5) and abs(float((drawn - 0.1 * np.arange(5)).mean())) < 5 / np.sqrt(1000)
    assert post.predict({"x": [1.0, 2.0]})["y"].sizes["draw"] == 50
    assert "How probable is y" in bk.report(post, tmp_path / "null.html").read_text()
    with pytest.raises(ModelError, match="no free variable"):
        bk.validate(model)
    with pytest.raises(ModelError, match="nothing remains to sample"):
        bk.infer(model, method="nuts")


@pytest.mark.parametrize("origin", [0.0, 1980.0])
@pytest.mark.parametrize("length", [0.05, 0.3])
def test_an_evidence_without_free_variables_states_its_rounding(origin: float, length: float) -> None:
    """A Gaussian process over years, in sixty digits: PyMC's squared distances cancel far from zero."""
    t, y = origin + np.linspace(0.0, 1.0, 12), np.random.default_rng(1).normal(size=12)
    with pm.Model() as model:
        process = pm.gp.Marginal(cov_func=4.0 * pm.gp.cov.ExpQuad(1, length))
        process.marginal_likelihood("y", t[:, None], y, sigma=0.3, jitter=0.0)
    evidence = bk.infer(model, draws=2, random_seed=1, progressbar=False).log_evidence
    with mp.workdps(60):
        times, values = [mp.mpf(v) for v in t], mp.matrix([mp.mpf(v) for v in y])
        covariance = mp.matrix([[4 * mp.exp(-(((a - b) / mp.mpf(length)) ** 2) / 2) for a in times] for b in times])
        covariance += mp.mpf(0.3) ** 2 * mp.eye(12)
        quadratic = (values.T * mp.lu_solve(covariance, values))[0]
        exact = -(quadratic + mp.log(mp.det(covariance)) + 12 * mp.log(2 * mp.pi)) / 2
        error = float(abs(mp.mpf(evidence.value) - exact))
    assert evidence.label == "exact"
    assert error <= evidence.error <= 100 * max(error, 1e-14)


def counts_at_a_rate(shape: float, rate: float, y: list[int]) -> tuple[pm.Model, mp.mpf]:
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("rate", shape, rate), observed=y)
    a, b, total = mp.mpf(shape), mp.mpf(rate), sum(y)
    prior = a * mp.log(b) - mp.loggamma(a) - sum(mp.loggamma(k + 1) for k in y)
    return model, prior + mp.loggamma(a + total) - (a + total) * mp.log(b + len(y))


def successes(a: float, b: float, n: int, y: int) -> tuple[pm.Model, mp.mpf]:
    with pm.Model() as model:
        pm.Binomial("y", n, pm.Beta("p", a, b), observed=y)
    choose = mp.loggamma(n + 1) - mp.loggamma(y + 1) - mp.loggamma(n - y + 1)
    return model, choose + mp.log(mp.beta(mp.mpf(a) + y, mp.mpf(b) + n - y)) - mp.log(mp.beta(mp.mpf(a), mp.mpf(b)))


def waiting_times(shape: float, rate: float, y: list[float]) -> tuple[pm.Model, mp.mpf]:
    with pm.Model() as model:
        pm.Exponential("y", pm.Gamma("rate", shape, rate), observed=y)
    a, b, n = mp.mpf(shape), mp.mpf(rate), len(y)
    after = mp.loggamma(a + n) - (a + n) * mp.log(b + mp.fsum(map(mp.mpf, y)))
    return model, a * mp.log(b) - mp.loggamma(a) + after


@pytest.mark.parametrize(
    ("built", "arguments"),
    [
        (counts_at_a_rate, (1e9, 1e8, [12, 9, 15, 7, 10])),
        (counts_at_a_rate, (3.7e5, 0.37, [1_000_003, 999_998])),
        (counts_at_a_rate, (8.1e3, 81.3, [100, 97, 88])),
        (successes, (2.5e8, 7.3e8, 40, 11)),
        (waiting_times, (3.1e8, 7e7, [0.21, 0.35, 0.07, 0.4])),
        (waiting_times, (0.37, 0.1, [100.0, 350.0, 77.0])),
    ],
)
def test_a_closed_form_states_the_rounding_of_what_cancels_in_it(built: Callable[..., Any], arguments: Any) -> None:
    """log Γ of 10⁹ is the same wherever θ is: it is rounded alike in all that the certificate compares."""
    with mp.workdps(50):
        model, exact = built(*arguments)
        evidence = bk.infer(model, draws=2, random_seed=1, progressbar=False).log_evidence
        error = float(abs(mp.mpf(evidence.value) - exact))
    assert evidence.label == "exact"
    assert error <= evidence.error <= 200 * max(error, 1e-16 * (1 + abs(evidence.value)))


def test_an_evidence_of_counts_without_free_variables_is_known_to_the_last_digits() -> None:
    counts = np.array([1_000_003, 999_998])
    with pm.Model() as model:
        pm.Poisson("y", 1e6, observed=counts)
    evidence = bk.infer(model, draws=2, random_seed=1, progressbar=False).log_evidence
    with mp.workdps(40):
        exact = sum(int(c) * mp.log(mp.mpf(10) ** 6) - 10**6 - mp.loggamma(int(c) + 1) for c in counts)
        error = float(abs(mp.mpf(evidence.value) - exact))
    assert error <= evidence.error < 1e-8


@pytest.mark.slow
def test_names_that_are_no_identifiers(tmp_path: Path) -> None:
    with pm.Model(coords={"$\\d{": ["a$", "b_", "<c>"]}) as model:
        sd = pm.HalfNormal("1|g_sigma", 1)
        group = pm.Normal("1|g", 0, sd, dims="$\\d{")
        pm.Normal("$\\bad{", group[np.arange(5) % 3], 1.0, observed=Y)
    post = bk.infer(model, draws=100, random_seed=1)
    assert post.method == "quadrature" and post.log_evidence.error < 1e-6
    assert bk.report(post, tmp_path / "names.html").exists()
    assert bk.map_estimate(model).names == ("1|g_sigma",)


@pytest.mark.filterwarnings("ignore:Data in y contains missing values")
def test_a_vector_with_missing_entries_has_a_closed_form() -> None:
    covariance = np.array([[1.0, 0.6, 0.2], [0.6, 2.0, 0.3], [0.2, 0.3, 1.5]])
    y = np.array([[0.3, np.nan, -0.8], [1.2, 0.4, np.nan]])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        pm.MvNormal("y", mu * np.ones(3), cov=covariance, observed=np.ma.masked_invalid(y))
    post = bk.infer(model, draws=100, random_seed=1)
    seen = np.flatnonzero(np.isfinite(y))
    total = np.kron(np.eye(2), covariance) + 4.0
    expected = stats.multivariate_normal(np.zeros(len(seen)), total[np.ix_(seen, seen)]).logpdf(y.ravel()[seen])
    assert post.method == "exact"
    assert post.log_evidence.value == pytest.approx(expected, abs=1e-10)


@pytest.mark.filterwarnings("ignore:Data in y contains missing values")
def test_missing_entries_are_compared() -> None:
    models = {}
    for name, sd in (("narrow", 1.0), ("wide", 3.0)):
        with pm.Model() as models[name]:
            mu = pm.Normal("mu", 0, sd)
            pm.Normal("y", mu, 1.0, observed=np.ma.masked_invalid([0.2, np.nan, 1.0]))
    said = bk.compare(models, random_seed=1)
    covariance = np.eye(2) + 9.0
    expected = stats.multivariate_normal(np.zeros(2), covariance).logpdf([0.2, 1.0])
    assert said.table.loc["wide", "log_evidence"] == pytest.approx(expected, abs=1e-10)
    assert "missing data" in str(said)


def test_the_mode_of_weights_that_sum_to_one() -> None:
    """Of counts with p = w: the mode is (α + n − 1) / Σ, and Laplace's covariance is that of the free entries."""
    counts = np.array([6, 3, 11])
    with pm.Model() as model:
        weights = pm.Dirichlet("w", [2.0, 3.0, 4.0])
        pm.Potential("counts", pt.sum(counts * pt.log(weights)) + 0 * pt.sum(weights[0] ** 3))
        pm.Potential("cubic", -0.1 * weights[0] ** 3)
    found = bk.map_estimate(model, random_seed=1)
    assert found.point["w"].sum() == pytest.approx(1.0) and found.converged
    assert found.covariance.shape == (3, 3)
    assert np.allclose(found.covariance.sum(axis=0), 0, atol=1e-10)
    assert np.allclose(found.curvature @ found.covariance @ found.curvature, found.curvature, atol=1e-6)

    def at(first: float, second: float) -> float:
        w = np.array([first, second, 1 - first - second])
        return float(stats.dirichlet([2.0, 3.0, 4.0]).pdf(w) * np.prod(w**counts) * np.exp(-0.1 * first**3))

    exact, _ = integrate.dblquad(at, 0, 1, 0, lambda second: 1 - second)
    assert found.log_evidence.value == pytest.approx(np.log(exact), abs=0.15)


@pytest.mark.parametrize("start", ["mean", "walk", "matrix"])
def test_an_improper_prior_has_a_posterior_and_no_evidence(start: str) -> None:
    with pm.Model() as model:
        if start == "walk":
            walk = pm.GaussianRandomWalk("w", mu=0, sigma=1.0, init_dist=pm.Flat.dist(), shape=5)
            pm.Normal("y", walk, 1.0, observed=Y)
        elif start == "matrix":
            mu = pm.Flat("mu", shape=2)
            pm.MvNormal("y", mu, cov=np.eye(2) + 0.3, observed=Y[:4].reshape(2, 2))
        else:
            mu = pm.Flat("mu")
            pm.Bernoulli("y", logit_p=mu, observed=[0, 1, 1])
    post = bk.infer(model, draws=400, random_seed=1)
    assert post.method in ("exact", "quadrature") and numbers(post)
    assert np.isnan(post.log_evidence.value) and "improper" in post.log_evidence.reason
    if start == "matrix":
        assert np.allclose(post.tree["posterior"]["mu"].mean(("chain", "draw")), Y[:4].reshape(2, 2).mean(0), atol=0.3)


def test_flat_priors_are_collapsed_and_maximised() -> None:
    with pm.Model() as model:
        mu, sd = pm.Flat("mu"), pm.HalfFlat("sd")
        pm.Normal("y", mu, sd, observed=Y)
    found = bk.map_estimate(model, random_seed=1)  # of the sd, the mean integrated out
    assert list(found.point) == ["sd"] and found.point["sd"] == pytest.approx(Y.std(ddof=1))
    assert bk.collapse(model).free_RVs


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_simulator_is_refused_by_name() -> None:
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.Simulator("s", lambda rng, a, size=None: rng.normal(a, 1, size=size), a, observed=Y)
    with pytest.raises(ModelError, match=r"'s' is a pm\.Simulator"):
        bk.explain(model)


@pytest.mark.parametrize(
    ("draw", "named"),
    [
        (lambda: pm.LogNormal("y", pm.Normal("m"), 1, observed=[1.0, 0.0, 2.0]), r"y\[1\] is 0"),
        (lambda: pm.Poisson("y", pm.Gamma("m", 1, 1), observed=[1, 2, -1]), r"y\[2\] is -1"),
        (lambda: pm.Binomial("y", 3, pm.Beta("m", 1, 1), observed=[4, 1, 5]), r"y\[0\] is 4 \(and 1 more\)"),
        (lambda: pm.Exponential("y", pm.Gamma("m", 1, 1), observed=[[0.1, -2.0]]), r"y\[0, 1\] is -2"),
        (lambda: pm.Categorical("y", pm.Dirichlet("m", [1.0, 1.0]), observed=[0, 2]), r"y\[1\] is 2"),
    ],
)
def test_impossible_data_are_named_before_anything_is_tried(draw: object, named: str) -> None:
    with pm.Model() as model:
        draw()  # type: ignore[operator]
    with pytest.raises(UnanswerableError, match=named):
        bk.infer(model)


@pytest.mark.parametrize(
    ("draw", "named"),
    [
        (
            lambda: pm.Beta("y", pm.HalfNormal("a"), pm.HalfNormal("b"), observed=[0.2, 0.0, 0.0]),
            r"y\[1\] is 0 \(and 1",
        ),
        (lambda: pm.Beta("y", mu=pm.Beta("m", 2, 2), nu=9.0, observed=[0.2, 1.0]), r"y\[1\] is 1"),
        (lambda: pm.Gamma("y", pm.HalfNormal("a"), 1.0, observed=[0.0, 2.0]), r"y\[0\] is 0"),
        (
            lambda: pm.Dirichlet("y", pm.HalfNormal("a") * np.ones(3), observed=[[0.2, 0.3, 0.5], [0, 0.5, 0.5]]),
            r"y\[1, 0",
        ),
        (lambda: pm.Normal("y", pm.Normal("b") * np.array([1.0, -np.inf]), 1, observed=Y[:2]), r"'y': it\[1\] is -inf"),
        (
            lambda: pm.Bernoulli("y", logit_p=pm.Normal("b") * pm.Data("x", [1.0, np.inf]), observed=[1, 1]),
            r"x\[1\] is inf",
        ),
        (
            lambda: pm.Bernoulli("y", logit_p=pm.Normal("b", 0, -1), observed=[1, 1]),
            "needs sigma > 0 of the parameters of 'b'",
        ),
        (lambda: pm.Normal("y", pm.Normal("b"), [1, -1], observed=[1, 1]), "needs sigma > 0 of the parameters of 'y'"),
    ],
)
def test_data_that_have_no_density_and_impossible_parameters_are_named_at_once(draw: object, named: str) -> None:
    with pm.Model() as model:
        draw()  # type: ignore[operator]
    assert "bayeskit.infer will refuse" in bk.explain(model).outlook
    with pytest.raises(BayeskitError, match=named):
        bk.infer(model)


@pytest.mark.parametrize(
    "draw",
    [
        lambda y: pm.Beta("y", 1.0, pm.HalfNormal("b"), observed=y[:2]),
        lambda y: pm.Uniform("y", 0.0, pm.HalfNormal("b"), observed=30.0 * y),
        lambda y: pm.Gamma("y", 1.0, pm.HalfNormal("b"), observed=y),
        lambda y: pm.HurdleGamma("y", psi=0.5, alpha=pm.HalfNormal("a"), beta=2.0, observed=y),
        lambda y: pm.Truncated("y", pm.Exponential.dist(pm.HalfNormal("b")), upper=[np.inf, np.inf, 1.0], observed=y),
        lambda y: pm.TruncatedNormal("y", pm.Normal("m"), pm.HalfNormal("s"), lower=[-np.inf, 0.0, 0.0], observed=y),
    ],
)
def test_data_at_an_end_where_there_is_a_density_are_not_refused(draw: Callable[[np.ndarray], object]) -> None:
    with pm.Model() as model:
        draw(np.array([0.0, 0.5, 1.0]))
    assert "refuse:" not in bk.explain(model).outlook


def test_data_that_are_no_numbers_are_named() -> None:
    with pm.Model() as model:
        x = pm.Data("x", np.ones(3))
        pm.Normal("y", pm.Normal("m") * x, 1, observed=[1.0, np.inf, 2.0])
    with pytest.raises(DataError, match=r"y\[1\] is inf"):
        bk.infer(model)
    with pm.Model() as model:
        x = pm.Data("x", np.ones(3))
        pm.Normal("y", pm.Normal("m") * x, 1, observed=[1.0, 0.0, 2.0])
    model["x"].set_value(np.array([1.0, np.nan, 1.0]))
    for ask in (bk.infer, bk.map_estimate):
        with pytest.raises(BayeskitError):
            ask(model)


def test_where_quadrature_fails_an_improper_prior_is_named() -> None:
    """A logistic regression whose classes are separate: the likelihood goes to one, and its integral is infinite."""
    with pm.Model() as model:
        slope = pm.Flat("slope")
        pm.Bernoulli("y", logit_p=slope * np.array([-2.0, -1.0, 1.0]), observed=[0, 0, 1])
    with pytest.raises(BayeskitError, match="the prior of slope is improper, and so the posterior may be"):
        bk.infer(model, method="quadrature", random_seed=1)


def test_the_marginal_of_an_entry_is_part_of_that_of_its_variable() -> None:
    with pm.Model(coords={"region": ["North", "South"]}) as model:
        pm.Poisson("y", pm.Gamma("lam", 2.0, 1.0, dims="region"), observed=[1, 2])
    post = bk.infer(model, draws=4, random_seed=1)
    with pytest.raises(ModelError, match=r"marginal\('lam'\) is that of its entries"):
        post.marginal("lam[North]")
    assert float(post.marginal("lam").mean().sel(region="North")) == pytest.approx(3 / 2)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1])
def test_no_rows_and_no_entries(size: int) -> None:
    with pm.Model() as model:
        none = pm.Normal("none", 0, 1, shape=0)
        mu, sd = pm.Normal("mu", 0, 1), pm.HalfNormal("sd", 1)
        pm.Normal("y", mu + none.sum(), sd, observed=Y[:size])
    post = bk.infer(model, draws=100, random_seed=1)
    assert post.tree["posterior"]["none"].shape[2:] == (0,)
    if not size:
        assert post.log_evidence.value == pytest.approx(0.0, abs=1e-9)


def test_what_is_asked_in_another_form_is_answered_or_refused_in_words(tmp_path: Path) -> None:
    model = without_free_variables()
    post = bk.infer(with_a_mean(), draws=100, random_seed=1)
    table = bk.compare([model, post], random_seed=1).table
    assert set(table.index) == {"model 1", "model 2"}
    assert str(bk.explain(post.analysis)) == str(bk.explain(post.model))
    assert bk.infer(model, draws=100).predict(pd.DataFrame({"x": [1.0, 2.0]}))["y"].shape[2] == 2
    for wrong in (
        lambda: bk.report(model, tmp_path / "page.html"),
        lambda: bk.report(post),
        lambda: bk.compare(model),
        lambda: post.predict([1.0, 2.0]),
        lambda: post.marginal(["mu"]),
        lambda: bk.infer(post),
    ):
        with pytest.raises(BayeskitError):
            wrong()


def test_a_variable_without_entries_is_summarised_and_saved(tmp_path: Path) -> None:
    with pm.Model() as model:
        scale = pm.Gamma("scale", 1.0, 1.0)
        pm.Normal("none", 0.0, 1.0, shape=0)
        pm.Normal("scaled", 0.0, tau=scale, shape=0)
        pm.Normal("y", pm.Normal("a", 0.0, tau=scale), tau=scale, observed=[1.0, 2.0])
    post = bk.infer(model, draws=40, random_seed=1)
    assert list(post.summary().index) == ["scale", "a"]
    assert bk.load(post.save(tmp_path / "post.nc")).log_evidence == post.log_evidence


@pytest.mark.parametrize("name", ["chain", "draw"])
def test_a_variable_named_as_an_axis_of_the_draws_is_refused(name: str) -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal(name), 1.0, observed=Y)
    with pytest.raises(ModelError, match=f"a variable is named '{name}'"):
        bk.explain(model)


@pytest.mark.parametrize("family", [pm.Poisson, pm.Exponential])
def test_a_prior_with_impossible_parameters_is_named(family: type) -> None:
    with pm.Model() as model:
        family("y", pm.Gamma("g", 0.0, 0.1), observed=[1, 2])
    with pytest.raises(UnanswerableError, match="it needs alpha > 0, beta > 0 of the parameters of 'g'"):
        bk.infer(model)


def test_a_deterministic_that_depends_on_nothing_has_its_value_in_every_draw() -> None:
    with pm.Model() as model:
        pm.Deterministic("two", pt.as_tensor(2.0))
        pm.Normal("y", 0.0, 1.0, observed=[0.1, 0.2])
    post = bk.infer(model, draws=40, random_seed=1)
    assert post.method == "exact"
    assert post.tree["posterior"]["two"].size == 40 and np.all(post.tree["posterior"]["two"] == 2.0)


def test_a_design_of_true_and_false_is_one_of_ones_and_zeros() -> None:
    """Products of bool matrices are "or" of "and": the certificate was off by 20 nats, and NUTS was taken."""
    rng = np.random.default_rng(0)
    design, y = rng.random((60, 3)) < 0.5, rng.normal(size=60)
    found = []
    for x in (design, design.astype(float)):
        with pm.Model() as model:
            variance = pm.InverseGamma("variance", 2.0, 1.0)
            weights = pm.Normal("weights", 0.0, pm.math.sqrt(variance), shape=3)
            pm.Normal("y", pt.dot(x, weights), pm.math.sqrt(variance), observed=y)
        found.append(bk.infer(model, draws=40, random_seed=1))
    assert [post.method for post in found] == ["exact", "exact"]
    assert abs(found[0].log_evidence.value - found[1].log_evidence.value) < 1e-10


def test_what_needs_the_distribution_function_of_a_wald_variable_is_refused() -> None:
    with pm.Model() as fine:  # a parent of what is censored is asked for its density alone
        pm.Censored("life", pm.Normal.dist(pm.Wald("mean", 1.0, 9.0)), lower=None, upper=1.0, observed=[0.5, 1])
    assert bk.infer(fine, draws=40, random_seed=1).method == "quadrature"
    cut = pm.Truncated.dist(pm.Wald.dist(1.0, 9.0), upper=1.0)
    for write in (
        lambda: pm.Mixture("life", [0.5, 0.5], [cut, pm.Gamma.dist(2.0, 1.0)], observed=0.5),
        lambda: pm.Truncated("life", pm.Wald.dist(1.0, 10.0), upper=1.0),
        lambda: pm.Censored("life", pm.Wald.dist(pm.HalfNormal("mean"), 9.0), lower=None, upper=1.0, observed=[0.5, 1]),
    ):
        with pm.Model() as model:
            write()
            pm.Normal("y", 0.0, 1.0, observed=[0.1, 0.2])
        with pytest.raises(bk.BayeskitError, match="'life' is a truncated or censored Wald variable"):
            bk.infer(model, draws=40)
