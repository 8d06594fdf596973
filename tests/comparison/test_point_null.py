"""Savage–Dickey density ratios against closed forms, integrals by SciPy, and the ratio of two evidences."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.comparison.closed_form import mixture_of
from bayeskit.comparison.point_density import log_conditional, mean_density
from bayeskit.inference.ladder import answer
from bayeskit.model.conditioning import LinearForm, held_at

Y = np.array([1.1, 0.3, 2.0, 0.7, 1.4, -0.2, 0.9, 1.8])
GROUP = np.array([0, 0, 1, 1, 2, 2, 2, 1])
PATIENCE = 4.5  # standard errors: a false alarm in 150,000


def coin(heads: int, tosses: int, a: float = 1.0, b: float = 1.0) -> bk.Posterior:
    with pm.Model() as model:
        pm.Binomial("heads", tosses, pm.Beta("p", a, b), observed=heads)
    return bk.infer(model, draws=100, random_seed=1)


@cache
def lines() -> bk.Posterior:
    """Normal variables of all kinds, and Deterministics of them."""
    with pm.Model(coords={"school": ["u", "v", "New York"]}) as model:
        a, b = pm.Normal("a", 0.5, 2.0), pm.Normal("b", -0.5, 1.5)
        theta = pm.Normal("theta", a, 1.0, dims="school")
        pm.Deterministic("contrast", 2 * a - b + 1)
        pm.Deterministic("between", theta[1:] - theta[:-1])
        pm.Deterministic("product", a * b)
        pm.Normal("y", theta[GROUP] + b * np.arange(8), 1.0, observed=Y)
    return bk.infer(model, draws=200, random_seed=1)


def gaussian() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance of (a, b, θ) in ``lines``, prior and posterior, by dense algebra."""
    mean = np.array([0.5, -0.5, 0.5, 0.5, 0.5])
    root = np.array([[2, 0, 0, 0, 0], [0, 1.5, 0, 0, 0], [2, 0, 1, 0, 0], [2, 0, 0, 1, 0], [2, 0, 0, 0, 1.0]])
    prior = root @ root.T
    design = np.zeros((8, 5))
    design[np.arange(8), 2 + GROUP] = 1
    design[:, 1] = np.arange(8)
    gain = prior @ design.T @ np.linalg.inv(design @ prior @ design.T + np.eye(8))
    return mean, prior, mean + gain @ (Y - design @ mean), prior - gain @ design @ prior


def ratio(rows: Any, at: Any, shift: float = 0.0) -> float:
    rows, (m0, v0, m1, v1) = np.atleast_2d(rows), gaussian()
    one, other = (stats.multivariate_normal(rows @ m + shift, rows @ v @ rows.T) for m, v in ((m1, v1), (m0, v0)))
    return float(one.logpdf(at) - other.logpdf(at))


@pytest.mark.parametrize("heads, tosses, a, b, at", [(9, 10, 1, 1, 0.5), (60, 100, 1, 1, 0.5), (3, 20, 2.5, 4, 0.01)])
def test_a_coin(heads: int, tosses: int, a: float, b: float, at: float) -> None:
    found = coin(heads, tosses, a, b).savage_dickey("p", at)
    likelihood = heads * np.log(at) + (tosses - heads) * np.log1p(-at)
    right = likelihood + special.betaln(a, b) - special.betaln(a + heads, b + tosses - heads)
    assert found.label == "exact"
    assert found.log_bayes_factor == pytest.approx(right, abs=1e-9)
    assert found.error < 1e-8
    assert found.log_bayes_factor == pytest.approx(found.log_posterior_density - found.log_prior_density, abs=1e-12)


def test_the_published_example_of_wagenmakers_and_others() -> None:
    # 9 of 10 questions answered right, a uniform prior: BF₀₁ = 0.107 (2010, page 163).
    assert np.exp(coin(9, 10).savage_dickey("p", at=0.5).log_bayes_factor) == pytest.approx(0.107, abs=5e-4)


@pytest.mark.parametrize(
    "names, at, rows, shift",
    [
        ("b", 0, [0, 1, 0, 0, 0], 0.0),
        ("b", 40.0, [0, 1, 0, 0, 0], 0.0),  # far in the tail
        ("theta[New York]", 0.2, [0, 0, 0, 0, 1], 0.0),
        ("theta['v']", 0.2, [0, 0, 0, 1, 0], 0.0),
        (["b", "theta"], [0.1, [0.3, 0.2, 0.4]], np.eye(5)[1:], 0.0),
        ("contrast", 0, [2, -1, 0, 0, 0], 1.0),
        ("between", 0, [[0, 0, -1, 1, 0], [0, 0, 0, -1, 1]], 0.0),
        (["between[0]", "a"], {"between[0]": 0.5, "a": 1}, [[0, 0, -1, 1, 0], [1, 0, 0, 0, 0]], 0.0),
    ],
)
def test_numbers_of_a_gaussian_block(names: Any, at: Any, rows: Any, shift: float) -> None:
    found = bk.savage_dickey(lines(), names, at)
    each = list(at.values()) if isinstance(at, dict) else at if isinstance(at, list) else [at] * np.ndim(rows)
    right = ratio(rows, np.hstack(each), shift)
    assert found.label == "exact"
    assert abs(found.log_bayes_factor - right) < max(1e-9, 1e-11 * abs(right))


@cache
def scaled() -> bk.Posterior:
    with pm.Model() as model:
        s2 = pm.InverseGamma("s2", 3.0, 2.0)
        b = pm.Normal("b", 0.2, pm.math.sqrt(2 * s2), shape=3)
        pm.Deterministic("difference", b[0] - b[1])
        pm.Normal("y", b[GROUP], pm.math.sqrt(s2), observed=Y)
    return bk.infer(model, draws=200, random_seed=1)


def student() -> tuple[np.ndarray, np.ndarray, float, float]:
    """Posterior mean of b, its covariance at s2 = 1, and the shape and rate of s2, by the textbook."""
    design = np.eye(3)[GROUP]
    precision = np.eye(3) / 2 + design.T @ design
    mean = np.linalg.solve(precision, 0.1 + design.T @ Y)
    residual = Y @ Y + 3 * 0.2**2 / 2 - mean @ precision @ mean
    return mean, np.linalg.inv(precision), 3 + len(Y) / 2, 2 + residual / 2


@pytest.mark.parametrize("names, at", [("difference", 0.3), ("b", 0.1), ("s2", 0.7), (["s2", "b[1]"], 0.7)])
def test_numbers_whose_scale_is_integrated_out_or_given(names: Any, at: float) -> None:
    post = scaled()
    found = post.savage_dickey(names, at)
    mean, unit, shape, rate = student()
    before = (np.full(3, 0.2), 2 * np.eye(3), 3.0, 2.0)

    def log_density(m: np.ndarray, v: np.ndarray, a: float, b: float) -> float:
        if names == "s2":
            return float(stats.invgamma(a, scale=b).logpdf(at))
        if isinstance(names, list):
            return float(stats.invgamma(a, scale=b).logpdf(at) + stats.norm(m[1], np.sqrt(at * v[1, 1])).logpdf(at))
        rows = np.array([[1.0, -1, 0]]) if names == "difference" else np.eye(3)
        t = stats.multivariate_t(rows @ m, rows @ v @ rows.T * b / a, df=2 * a)
        return float(t.logpdf(np.full(len(rows), at)))

    assert found.label == "exact"
    assert found.log_bayes_factor == pytest.approx(
        log_density(mean, unit, shape, rate) - log_density(*before), abs=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("names, row", [("mu[1]", [[0, 1]]), ("difference", [[1, -1]]), ("mu", [[1, 0], [0, 1]])])
def test_numbers_whose_wishart_matrix_is_integrated_out(names: str, row: list[list[float]]) -> None:
    rows, y = np.array(row, dtype=float), Y.reshape(4, 2)
    with pm.Model() as model:
        precision = pm.Wishart("precision", 5, np.eye(2))
        mu = pm.MvNormal("mu", np.zeros(2), tau=precision)
        pm.Deterministic("difference", mu[0] - mu[1])
        pm.MvNormal("y", mu, tau=precision, observed=y)
    found = bk.infer(model, draws=100, random_seed=1).savage_dickey(names, 0.4)
    scatter = np.eye(2) + y.T @ y - 16 / 5 * np.outer(y.mean(axis=0), y.mean(axis=0))
    after = stats.multivariate_t(rows @ y.sum(axis=0) / 5, rows @ scatter @ rows.T / (5 * 8), df=8)
    before = stats.multivariate_t(np.zeros(len(rows)), rows @ rows.T / 4, df=4)
    at = np.full(len(rows), 0.4)
    assert found.label == "exact"
    assert found.log_bayes_factor == pytest.approx(after.logpdf(at) - before.logpdf(at), abs=1e-9)


@pytest.mark.parametrize(
    "which, forms, values",
    [
        (lines, [{("a", 0): 2.0, ("b", 0): -3.0}], [0.4]),
        (lines, [{("theta", 0): 1.0, ("theta", 2): -2.0}, {("theta", 1): 1.0, ("theta", 2): 1.0}], [0.4, -0.1]),
        (lines, [{("theta", 1): 2.0}, {("b", 0): -1.0}], [0.4, 0.2]),
        (scaled, [{("b", 0): 1.0, ("b", 1): 1.0, ("b", 2): -2.0}], [0.1]),
        (scaled, [{("s2", 0): 2.0}, {("b", 0): 1.0}], [1.1, 0.3]),
    ],
)
def test_a_closed_form_is_the_ratio_of_two_evidences(which: Any, forms: Any, values: Any) -> None:
    post, forms = which(), [LinearForm(f, 0.05) for f in forms]
    held = answer(held_at(post.model, forms, values))
    assert held.method == "exact"
    log_density, rounding = mixture_of(post.analysis).log_density(forms, np.array(values))
    assert held.log_evidence.value - post.log_evidence.value == pytest.approx(log_density, abs=1e-9)
    assert rounding < 1e-9


def test_equal_proportions() -> None:
    with pm.Model() as model:
        p, q = pm.Beta("p", 2, 3), pm.Beta("q", 1.5, 2)
        pm.Deterministic("difference", p - q)
        pm.Binomial("k", [10, 12], pm.math.stack([p, q]), observed=[3, 5])
    post = bk.infer(model, draws=100, random_seed=1)
    found = post.savage_dickey("difference")

    def overlap(a: float, b: float, c: float, d: float) -> float:
        return float(np.log(integrate.quad(lambda x: stats.beta.pdf(x, a, b) * stats.beta.pdf(x, c, d), 0, 1)[0]))

    assert found.label == "exact"
    assert found.log_bayes_factor == pytest.approx(overlap(5, 10, 6.5, 9) - overlap(2, 3, 1.5, 2), abs=1e-8)
    assert any("the prior of p, q given it" in note for note in found.notes)
    with pytest.raises(bk.BayeskitError, match="no density there"):  # the support ends where p = q + 0.1 is one
        post.savage_dickey("difference", 0.1)


def test_a_mixture_over_hypotheses() -> None:
    with pm.Model() as model:
        z = pm.Bernoulli("z", 0.3)
        mu = pm.Normal("mu", 0.0, 1.0)
        pm.Normal("y", mu + 2.0 * z, 1.0, observed=Y)
    post = bk.infer(model, draws=100, random_seed=1)

    def joint(mu: float, z: int) -> float:
        prior = stats.bernoulli.pmf(z, 0.3) * stats.norm.pdf(mu)
        return float(prior * np.exp(stats.norm.logpdf(Y, mu + 2 * z, 1).sum()))

    whole = sum(integrate.quad(joint, -8, 8, args=(z,), epsabs=0, epsrel=1e-12, limit=200)[0] for z in (0, 1))
    right = np.log((joint(0.4, 0) + joint(0.4, 1)) / whole / stats.norm.pdf(0.4))
    assert post.savage_dickey("mu", 0.4).log_bayes_factor == pytest.approx(right, abs=1e-9)
    of_z = post.savage_dickey("z", 1)
    share = integrate.quad(joint, -8, 8, args=(1,), epsabs=0, epsrel=1e-12, limit=200)[0] / whole
    assert of_z.log_bayes_factor == pytest.approx(np.log(share / 0.3), abs=1e-9)
    assert any("probabilities" in note for note in of_z.notes)
    with pytest.raises(bk.BayeskitError, match="probability zero"):
        post.savage_dickey("z", 0.5)


@cache
def hierarchy() -> bk.Posterior:
    """One number remains."""
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        mu = pm.Normal("mu", 0.0, 2.0)
        theta = pm.Normal("theta", mu, tau, shape=3)
        pm.Deterministic("difference", theta[0] - theta[1])
        pm.Normal("y", theta[GROUP], 1.0, observed=Y)
    return bk.infer(model, draws=8_000, random_seed=1)


NODES, WEIGHTS = np.polynomial.legendre.leggauss(120)
DESIGN = np.column_stack([np.zeros(8), np.eye(3)[GROUP]])


@cache
def hierarchy_by_quad(row: tuple[float, ...], at: float) -> float:
    """log of ∫ p(y, row·(μ, θ) = at | τ) p(τ) dτ / (p(y) p(row·(μ, θ) = at))."""
    row_ = np.array(row)

    def parts(tau: float) -> tuple[float, float, float]:
        root = np.vstack([[2, 0, 0, 0], *(np.hstack([2, tau * np.eye(3)[k]]) for k in range(3))])
        v = root @ root.T
        both = np.vstack([DESIGN, row_])
        covariance = both @ v @ both.T + np.diag([1.0] * 8 + [0.0])
        prior = stats.halfnorm.pdf(tau)
        y = np.exp(stats.multivariate_normal(np.zeros(8), covariance[:8, :8]).logpdf(Y)) * prior
        d = stats.norm.pdf(at, 0, np.sqrt(covariance[8, 8])) * prior
        joint = np.exp(stats.multivariate_normal(np.zeros(9), covariance).logpdf([*Y, at])) * prior
        return float(joint), float(y), float(d)

    joint, y, d = 4 * WEIGHTS @ np.array([parts(4 + 4 * x) for x in NODES])  # beyond τ = 8 lies 1e-15 of the prior
    return float(np.log(joint / y / d))


def tau_by_quad(at: float) -> float:
    """log of p(y | τ = at) / p(y)."""

    def likelihood(tau: float) -> float:
        covariance = 4 + tau**2 * DESIGN @ DESIGN.T + np.eye(8)
        return float(np.exp(stats.multivariate_normal(np.zeros(8), covariance).logpdf(Y)))

    taus = 4 + 4 * NODES
    return float(np.log(likelihood(at) / (4 * WEIGHTS * stats.halfnorm.pdf(taus) @ [likelihood(t) for t in taus])))


@cache
def at_difference() -> bk.PointNull:
    return hierarchy().savage_dickey("difference", 0.7)


DIFFERENCE = (0, 1, -1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name, at, row", [("theta[1]", 0.5, (0, 0, 1, 0)), ("difference", 0.7, DIFFERENCE)])
def test_quadrature(name: str, at: float, row: tuple[float, ...]) -> None:
    found = at_difference() if name == "difference" else hierarchy().savage_dickey(name, at)
    assert found.label == "quadrature"
    assert found.error < 1e-6
    assert found.log_bayes_factor == pytest.approx(hierarchy_by_quad(row, at), abs=1e-7)


def test_averages_of_exact_conditionals_keep_to_their_errors() -> None:
    post = hierarchy()
    form = LinearForm({("theta", 0): 1.0, ("theta", 1): -1.0})
    log_densities = log_conditional(post, [form], np.array([0.7]))
    assert log_densities is not None
    right = at_difference().log_posterior_density
    found = [mean_density(part.reshape(4, -1)) for part in np.split(log_densities.ravel(), 40)]
    z = np.array([(f.value - right) / f.error for f in found if f is not None])
    assert len(z) == 40
    # The mean square of 40 is 1 ± 0.22.
    assert 0.5 < np.mean(z**2) < 1.6


def test_averages_over_chains_that_depend_on_themselves() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(800, 1))
    states = [x]
    for _ in range(499):
        x = 0.8 * x + 0.6 * rng.normal(size=x.shape)
        states.append(x)
    draws = np.concatenate(states, axis=1)
    found = [mean_density(part) for part in np.split(0.5 * draws, 200)]
    z = np.array([(f.value - 0.125) / f.error for f in found if f is not None])
    assert len(z) == 200
    assert 0.6 < np.mean(z**2) < 1.5


def test_few_draws_decide_nothing() -> None:
    log_densities = np.full((4, 250), -50.0)
    log_densities[0, 0] = 0.0
    assert mean_density(log_densities) is None


@pytest.mark.slow
def test_sampled_posteriors() -> None:
    sampled = bk.infer(hierarchy().model, method="nuts", draws=600, random_seed=1, sampler={"tune": 300})
    both = (("difference", 0.7, hierarchy_by_quad(DIFFERENCE, 0.7)), ("tau", 0.5, tau_by_quad(0.5)))
    for name, at, right in both:  # averaged, and by a second fit
        found = sampled.savage_dickey(name, at, random_seed=1)
        assert found.label == "estimated"
        assert abs(found.log_bayes_factor - right) < PATIENCE * found.error < 1.0


def test_what_the_null_model_is_is_said() -> None:
    assert any("(b) stay as they are written" in n for n in scaled().savage_dickey("s2", 1).notes)
    assert any("prior of s2 and the other entries of b given it" in n for n in scaled().savage_dickey("b[0]").notes)
    text = str(coin(9, 10).savage_dickey("p", at=0.5))
    assert "p = 0.5" in text
    assert "exact" in text


@pytest.mark.parametrize(
    "names, at, says",
    [
        ("nothing", 0, "no variable 'nothing'.*it has tau, mu"),
        ("y", 0, "observed"),
        ("theta[7]", 0, "no entry.*theta\\[0\\]"),
        ("tau", 0, "at the end of the support"),
        ("tau", -1, "outside of the support"),
        ("difference", np.inf, "finite"),
        ("mu", "x", "finite"),
        ("mu", [0.0, 1.0], "finite number"),
        (["mu", "theta"], [1.0, 2.0, 3.0], "one for each"),
        (["mu"], {"tau": 1.0}, "no value of 'mu'"),
        ([], 0, "empty"),
        (["mu", "mu"], 0, "named twice"),
        (["theta[0]", "theta[1]", "difference"], 0, "tied"),
        ("difference", 0, "not known"),  # the prior density of a difference of 0 is infinite: ∫ p(τ) dτ / τ
    ],
)
def test_refusals(names: Any, at: Any, says: str) -> None:
    with pytest.raises(bk.BayeskitError, match=says):
        hierarchy().savage_dickey(names, at)


def test_a_model_is_inferred_first() -> None:
    with pm.Model() as model:
        pm.Binomial("heads", 10, pm.Beta("p", 1.0, 1.0), observed=9)
    found = bk.savage_dickey(model, "p", at=0.5, random_seed=1)
    assert abs(found.log_bayes_factor - np.log(11 * 10 / 2**10)) < 1e-10
    assert (found.label, found.at) == ("exact", {"p": 0.5})


def test_refusals_by_the_prior() -> None:
    with pm.Model() as model:
        mu = pm.Flat("mu")
        b = pm.Uniform("b", -2, 2)
        pm.Deterministic("product", mu * b)
        pm.Normal("y", mu + b * np.arange(8), 1.0, observed=Y)
    post = bk.infer(model, draws=100, random_seed=1)
    for name, at, says in (("mu", 0, "improper"), ("b", 3, "outside"), ("b", 2, "end"), ("product", 0, "no sum")):
        with pytest.raises(bk.BayeskitError, match=says):
            post.savage_dickey(name, at)


def test_probabilities_that_sum_to_one() -> None:
    with pm.Model() as model:
        p = pm.Dirichlet("p", [1.0, 2.0, 3.0])
        z = pm.Bernoulli("z", 0.5, shape=2)
        pm.ZeroSumNormal("zero", 1.0, shape=3)
        pm.Multinomial("n", 20, p, observed=[5, 5, 10])
        pm.Normal("y", z, 1.0, observed=[0.2, 1.5])
    post = bk.infer(model, draws=100, random_seed=1)
    one = stats.beta.logpdf(0.3, 6, 20) - stats.beta.logpdf(0.3, 1, 5)
    whole = [0.2, 0.3, 0.5]
    each = stats.dirichlet.logpdf(whole, [6, 7, 13]) - stats.dirichlet.logpdf(whole, [1, 2, 3])
    assert post.savage_dickey("p[0]", 0.3).log_bayes_factor == pytest.approx(one, abs=1e-9)
    assert post.savage_dickey("p", whole).log_bayes_factor == pytest.approx(each, abs=1e-9)
    first = post.savage_dickey("z[0]", 1)
    assert first.log_posterior_density == pytest.approx(
        stats.norm.logpdf(0.2, [0, 1], 1)[1] - np.logaddexp(-0.02, -0.32) + 0.5 * np.log(2 * np.pi)
    )
    assert first.error < 1e-9
    for names, at, says in (
        ("p", [0.2, 0.3, 0.4], "sum to one"),
        (["p[0]", "p[1]"], 0.3, "no density"),
        ("zero", 0, "tied"),
    ):
        with pytest.raises(bk.BayeskitError, match=says):
            post.savage_dickey(names, at)


def test_a_posterior_keeps_its_data() -> None:
    with pm.Model() as model:
        x = pm.Data("x", np.arange(8.0))
        pm.Normal("y", pm.Normal("b", 0, 1) * x, 1.0, observed=Y)
    post = bk.infer(model, draws=100, random_seed=1)
    before = post.savage_dickey("b").log_bayes_factor
    pm.set_data({"x": np.zeros(8)}, model=model)
    assert post.savage_dickey("b").log_bayes_factor == before
    assert replace(post).savage_dickey("b").log_bayes_factor == before


# Extra hours of sleep under two drugs, of ten patients each (Student 1908).
SLEEP = np.array(
    [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0, 1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
)


def test_t_tests_under_improper_priors_of_the_rest_are_those_of_the_bayesfactor_package() -> None:
    with pm.Model() as paired:
        variance = pm.HalfFlat("variance")
        pm.Potential("jeffreys", -pm.math.log(variance))
        delta = pm.Cauchy("delta", 0, np.sqrt(0.5))
        sd = pm.math.sqrt(variance)
        pm.Normal("y", delta * sd, sd, observed=SLEEP[10:] - SLEEP[:10])
    post = bk.infer(paired, draws=400, random_seed=1)
    found = post.savage_dickey("delta")
    assert found.label == "quadrature"
    assert np.exp(-found.log_bayes_factor) == pytest.approx(17.25888, abs=1e-5)  # ttestBF(x = diff), r = 0.707
    # interval = c(0, Inf): 34.41694 against the null, and 0.1008246 for the complement.
    for text, published in (("delta > 0", 34.41694), ("delta < 0", 0.1008246)):
        directed = post.hypothesis(text, against="encompassing").log_bayes_factor - found.log_bayes_factor
        assert np.exp(directed) == pytest.approx(published, rel=1e-5)


def test_the_kernel_estimate_is_shown_where_it_can_be_trusted() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.5, 1.0)
        pm.Cauchy("heavy", 0, 1)
        pm.Normal("y", mu, 3.0, observed=Y)
    post = bk.infer(model, draws=4000, random_seed=1)
    inside = post.savage_dickey("mu", 0.6)
    assert abs(inside.kernel_estimate - inside.log_bayes_factor) < 0.2
    assert "az.bayes_factor" in str(inside)
    for name, at in (("mu", 6.0), ("heavy", 0.0)):  # a tail, and a prior without a kernel density
        assert np.isnan(post.savage_dickey(name, at).kernel_estimate)
    assert "az.bayes_factor" not in str(post.savage_dickey("mu", 6.0))
