"""Bayes factors of inequalities against distribution functions, integrals and counts that are made here."""

from __future__ import annotations

import itertools
import math
import re
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.comparison.chance_of_a_root import chance_of_root
from bayeskit.comparison.chances import standard_error
from bayeskit.comparison.closed_form_chances import Inequality
from bayeskit.comparison.hypothesis_text import read
from bayeskit.comparison.rectangle import rectangle
from bayeskit.model.conditioning import LinearForm
from bayeskit.model.forward_sampling import draws_together

Y = np.array([1.1, 0.3, 2.0, 0.7, 1.4, -0.2, 0.9, 1.8])
GROUP = np.array([0, 0, 1, 1, 2, 2, 2, 1])
PATIENCE = 4.5  # standard errors: a false alarm in 150,000
INF = np.inf


def log_odds(p: float) -> float:
    return math.log(p) - math.log1p(-p)


@cache
def coin() -> bk.Posterior:
    with pm.Model() as model:
        pm.Binomial("heads", 10, pm.Beta("p", 1, 1), observed=9)
    return bk.infer(model, draws=400, random_seed=1)


@cache
def independent() -> bk.Posterior:
    with pm.Model(coords={"arm": ["old", "new"]}) as model:
        p = pm.Beta("p", 2, 3, dims="arm")
        rate = pm.Gamma("rate", 2, 3, shape=2)
        s2 = pm.InverseGamma("s2", [2.0, 3.0], 2.0, shape=2)
        b = pm.Normal("b", 0.0, pm.math.sqrt(s2), shape=2)
        pm.Binomial("k", 10, p, observed=[3, 7])
        pm.Poisson("c", rate, observed=[2, 5])
        pm.Normal("y", b[GROUP // 2], pm.math.sqrt(s2[GROUP // 2]), observed=Y)
    return bk.infer(model, draws=400, random_seed=1)


@cache
def means() -> bk.Posterior:
    with pm.Model(coords={"group": ["a", "b", "New York"]}) as model:
        s2 = pm.InverseGamma("s2", 3.0, 2.0)
        mu = pm.Normal("mu", 0.2, pm.math.sqrt(2 * s2), dims="group")
        pm.Deterministic("delta", mu[0] - mu[1])
        pm.Deterministic("effect", mu[0] / pm.math.sqrt(s2))
        pm.Normal("y", mu[GROUP], pm.math.sqrt(s2), observed=Y)
    return bk.infer(model, draws=4000, random_seed=1)


def student() -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, scale and degrees of freedom of mu in ``means``, by the textbook."""
    design = np.eye(3)[GROUP]
    precision = np.eye(3) / 2 + design.T @ design
    mean = np.linalg.solve(precision, 0.1 + design.T @ Y)
    rate = 2 + (Y @ Y + 3 * 0.2**2 / 2 - mean @ precision @ mean) / 2
    shape = 3 + len(Y) / 2
    return mean, np.linalg.inv(precision) * rate / shape, 2 * shape


def t_of(row: list[float]) -> tuple[Any, Any]:
    mean, scale, df = student()
    r = np.array(row)
    after = stats.t(df, r @ mean, math.sqrt(r @ scale @ r))
    return stats.t(6, 0.2 * r.sum(), math.sqrt(2 * r @ r * 2 / 3)), after


def test_a_coin() -> None:
    after = stats.beta(10, 2)
    for text, against, p, q in (
        ("p > 0.5", None, (0.5, after.sf(0.5)), (0.5, after.cdf(0.5))),
        ("0.5 < p", "encompassing", (0.5, after.sf(0.5)), (1.0, 1.0)),
        ("0.4 < p <= 0.6", None, (0.2, after.cdf(0.6) - after.cdf(0.4)), (0.8, after.cdf(0.4) + after.sf(0.6))),
        ("2 * p - 1 > 0 & p < .9", "p<0.1", (0.4, after.cdf(0.9) - after.cdf(0.5)), (0.1, after.cdf(0.1))),
    ):
        found = coin().hypothesis(text, against=against)
        right = math.log(p[1] / p[0]) - math.log(q[1] / q[0])
        assert found.label == "exact", text
        assert found.log_bayes_factor == pytest.approx(right, abs=1e-9), text
        assert found.prior_probability == pytest.approx(p[0], abs=1e-12)
        assert found.posterior_probability == pytest.approx(p[1], abs=1e-12)
        assert found.error < 1e-8


@pytest.mark.parametrize(
    "text, row, low, high",
    [
        ("delta > 0", [1, -1, 0], 0, INF),
        ("mu[a] < mu[b]", [-1, 1, 0], 0, INF),
        ("-0.1 < mu[New York] - (mu[a] + mu[b]) / 2 < 0.2", [-0.5, -0.5, 1], -0.1, 0.2),
        ("mu[a] > 30", [1, 0, 0], 30, INF),  # far in the tail
    ],
)
def test_intervals_of_sums_whose_scale_is_integrated_out(text: str, row: list[float], low: float, high: float) -> None:
    sides = []
    for dist in t_of(row):
        inside = dist.sf(low) if high == INF else dist.cdf(high) - dist.cdf(low)
        sides.append(math.log(inside) - math.log1p(-inside))
    found = means().hypothesis(text)
    assert found.label == "exact"
    assert found.log_bayes_factor == pytest.approx(sides[1] - sides[0], abs=1e-8)


def test_an_order_of_three_means() -> None:
    mean, scale, df = student()
    c = np.array([[-1, 1, 0], [0, -1, 1.0]])
    m, v = c @ mean, c @ scale @ c.T
    right = in_rectangle(m, v, df, np.zeros(2), np.full(2, INF))
    found = means().hypothesis("mu[a] < mu[b] < mu[New York]", against="encompassing")
    assert found.label == "quadrature"
    assert found.prior_probability == pytest.approx(1 / 6, abs=1e-13)
    assert found.log_bayes_factor == pytest.approx(math.log(6 * right), abs=1e-7)
    contrary = means().hypothesis("mu[a] < mu[b] < mu[New York]")
    assert contrary.log_bayes_factor == pytest.approx(log_odds(right) - log_odds(1 / 6), abs=1e-7)


def overlap(first: Any, second: Any) -> float:
    """P(x₁ < x₂) of independent numbers."""
    low, high = (float(first.ppf(q)) for q in (1e-14, 1 - 1e-14))
    cuts = np.linspace(low, high, 20)
    each = [
        integrate.quad(lambda x: first.pdf(x) * second.sf(x), u, v, epsabs=1e-13)[0]
        for u, v in itertools.pairwise(cuts)
    ]
    return math.fsum(each)


@pytest.mark.slow
def test_differences_of_independent_numbers() -> None:
    def gaussian(k: int) -> Any:
        y, shape = Y[k == GROUP // 2], (2.0, 3.0)[k]
        precision, total = 1 + len(y), y.sum()
        a, b = shape + len(y) / 2, 2 + (y @ y - total**2 / precision) / 2
        return stats.t(2 * a, total / precision, math.sqrt(b / a / precision))

    post = independent()
    right = {
        "p[old] < p[new]": overlap(stats.beta(5, 10), stats.beta(9, 6)),
        "b[0] < b[1]": overlap(gaussian(0), gaussian(1)),
        "p[old] < rate[1]": overlap(stats.beta(5, 10), stats.gamma(7, scale=1 / 4)),
    }
    for text, probability in right.items():
        found = post.hypothesis(text)
        assert found.label == "quadrature", text
        assert found.posterior_probability == pytest.approx(probability, abs=1e-9), text
    assert post.hypothesis("p[old] < p[new]").log_bayes_factor == pytest.approx(
        log_odds(right["p[old] < p[new]"]), abs=1e-8
    )
    both = post.hypothesis("p[old] < p[new] and b[0] < b[1] and rate[0] > 0.5")
    product = right["p[old] < p[new]"] * right["b[0] < b[1]"] * stats.gamma(4, scale=1 / 4).sf(0.5)
    assert both.posterior_probability == pytest.approx(product, abs=1e-9)


def in_rectangle(mean: Any, scale: Any, df: float, low: Any, high: Any) -> float:
    """P(low < (x, y) < high) of two numbers with a t distribution, an integral over x: y given x has one, too."""
    slope, unit = scale[0, 1] / scale[0, 0], math.sqrt(scale[0, 0])
    rest = scale[1, 1] - slope * scale[0, 1]

    def joint(x: float) -> float:
        z = (x - mean[0]) / unit
        wide = 1.0 if df == INF else (df + z**2) / (df + 1)
        ends = (np.array([low[1], high[1]]) - mean[1] - slope * (x - mean[0])) / math.sqrt(rest * wide)
        density = stats.norm.pdf(z) if df == INF else stats.t.pdf(z, df)
        below = special.ndtr(ends) if df == INF else special.stdtr(df + 1, ends)
        return float(density / unit * (below[1] - below[0]))

    return float(integrate.quad(joint, low[0], high[0], epsabs=1e-12, epsrel=1e-10)[0])


@pytest.mark.slow
@pytest.mark.parametrize("df", [INF, 4.0])
def test_rectangles(df: float) -> None:
    correlation = np.array([[1, 0.5, 0.2], [0.5, 1, 0.3], [0.2, 0.3, 1]])
    zero, above = np.zeros(3), np.full(3, INF)
    # Sheppard's formulas of orthants, which are those of every elliptical distribution.
    two = 0.25 + math.asin(0.5) / (2 * math.pi)
    three = 0.125 + (math.asin(0.5) + math.asin(0.2) + math.asin(0.3)) / (4 * math.pi)
    pair = rectangle(zero[:2], correlation[:2, :2], df, zero[:2], above[:2], 0)
    assert pair.inside == pytest.approx(two, abs=1e-12)
    assert pair.outside == pytest.approx(1 - two, abs=1e-12)
    z = []
    for seed in range(6):
        found = rectangle(zero, correlation, df, zero, above, seed)
        assert found.label == "estimated"
        z.append((found.inside - three) / found.inside_error)
    # The mean square of 6 t variables with 31 degrees of freedom is 1.07 ± 0.65.
    assert 0.2 < np.mean(np.square(z)) < 3.5
    low, high = np.array([-1, -INF]), np.array([1, 0.4])
    mean, scale = np.array([0.3, -1.0]), np.array([[2, 0.9], [0.9, 1.5]])
    right = in_rectangle(mean, scale, df, low, high)
    assert rectangle(mean, scale, df, low, high, 0).inside == pytest.approx(right, abs=1e-7)


@pytest.mark.slow
def test_orders_of_exchangeable_numbers() -> None:
    with pm.Model() as model:
        theta = pm.StudentT("theta", nu=3, mu=pm.Normal("m"), sigma=pm.HalfNormal("s"), shape=5)
        pm.Normal("y", theta[[0, 1, 2, 3, 4, 4, 3, 2]], 1.0, observed=Y)
    sampled = bk.infer(model, method="nuts", draws=400, random_seed=1, sampler={"tune": 200})
    text = " < ".join(f"theta[{k}]" for k in (0, 4, 1))
    found = sampled.hypothesis(text, against="encompassing", random_seed=1)
    assert found.prior_probability == 1 / 6
    assert found.prior_error == 0
    draws = sampled.tree["posterior"]["theta"].to_numpy()
    inside = (draws[..., 0] < draws[..., 4]) & (draws[..., 4] < draws[..., 1])
    assert found.posterior_probability == inside.mean()
    assert found.label == "estimated"
    # Of a share of draws no more digits are shown than its error, of two digits, leaves.
    shown = re.search(r"prior 0\.166667, posterior (0\.(\d+)) \(error (.+)\)", str(found))
    assert shown and float(shown[3]) == pytest.approx(found.posterior_error, rel=0.05)
    assert float(shown[1]) == pytest.approx(inside.mean(), abs=10.0 ** -len(shown[2]))
    assert 1 <= found.posterior_error * 10 ** (len(shown[2]) - 1) < 10
    with pytest.raises(bk.BayeskitError, match="is zero"):
        sampled.hypothesis("theta[0] < theta[1] < theta[0]", random_seed=1)


@cache
def hierarchy() -> bk.Posterior:
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        mu = pm.Normal("mu", 0.0, 2.0)
        theta = pm.Normal("theta", mu, tau, shape=3)
        pm.Normal("y", theta[GROUP], 1.0, observed=Y)
    return bk.infer(model, draws=4000, random_seed=1)


def test_marginals_by_quadrature() -> None:
    design = np.column_stack([np.zeros(8), np.eye(3)[GROUP]])

    def parts(tau: float) -> tuple[float, float]:
        root = np.vstack([[2, 0, 0, 0], *(np.hstack([2, tau * np.eye(3)[k]]) for k in range(3))])
        v = root @ root.T
        covariance = design @ v @ design.T + np.eye(8)
        gain = v @ design.T @ np.linalg.inv(covariance)
        mean, sd = (gain @ Y)[0], math.sqrt((v - gain @ design @ v)[0, 0])
        density = stats.halfnorm.pdf(tau) * np.exp(stats.multivariate_normal(np.zeros(8), covariance).logpdf(Y))
        return float(density), float(density * stats.norm.sf((0.5 - mean) / sd))

    def integral(k: int, low: float, high: float) -> float:
        nodes, weights = np.polynomial.legendre.leggauss(60)
        middle, half = (low + high) / 2, (high - low) / 2
        return float(half * weights @ [parts(middle + half * x)[k] for x in nodes])

    whole = integral(0, 0, 0.4) + integral(0, 0.4, 8)
    right = {"tau < 0.4": integral(0, 0, 0.4) / whole, "mu > 0.5": (integral(1, 0, 0.4) + integral(1, 0.4, 8)) / whole}
    for text, probability in right.items():
        found = hierarchy().hypothesis(text)
        assert found.label == "quadrature"
        assert abs(found.posterior_probability - probability) < found.posterior_error < 1e-7


@pytest.mark.slow
def test_marginals_by_quadrature_and_averages_over_draws() -> None:
    post = hierarchy()
    sampled = bk.infer(post.model, method="nuts", draws=1000, random_seed=1, sampler={"tune": 300})
    for text in ("mu > 0.5", "tau < 0.4", "0 < theta[1] < 1"):
        found = post.hypothesis(text, random_seed=1)
        if "theta" not in text:
            assert found.label == "quadrature"
            assert found.error < 1e-6
        by_draws = sampled.hypothesis(text, random_seed=2)
        assert by_draws.label == "estimated"
        assert abs(found.log_bayes_factor - by_draws.log_bayes_factor) < PATIENCE * math.hypot(
            found.error, by_draws.error
        )
    # The exact conditional given tau has less noise than counts of draws.
    probability = sampled.hypothesis("mu > 0.5").posterior_error
    assert probability < 0.5 * math.sqrt(0.25 / 1000)


def test_errors_of_draws_are_kept_to() -> None:
    post = means()
    right = post.hypothesis("mu[a] < mu[b] < mu[New York]")
    draws = post.tree["posterior"]["mu"].to_numpy().reshape(-1, 3)
    inside = (draws[:, 0] < draws[:, 1]) & (draws[:, 1] < draws[:, 2])
    p = right.posterior_probability
    assert abs(inside.mean() - p) < PATIENCE * math.sqrt(p * (1 - p) / len(inside))
    rng, z = np.random.default_rng(4), []
    for _ in range(200):
        x = [rng.normal(size=4)]
        for _ in range(249):
            x.append(0.7 * x[-1] + math.sqrt(1 - 0.49) * rng.normal(size=4))
        seen = (np.stack(x, axis=1) > 0.5).astype(float)
        z.append((seen.mean() - stats.norm.sf(0.5)) / standard_error(seen, True))
    # The mean square of 200 is 1 ± 0.1.
    assert 0.65 < np.mean(np.square(z)) < 1.45


def test_what_has_no_closed_form_is_counted() -> None:
    post = means()
    effect = post.hypothesis("effect > 0.5", random_seed=1)
    assert effect.label == "estimated"
    rng = np.random.default_rng(2)
    mean, scale, df = student()
    shape = df / 2
    rate = scale[0, 0] * shape / np.linalg.inv(np.eye(3) / 2 + np.eye(3)[GROUP].T @ np.eye(3)[GROUP])[0, 0]
    s2 = rate / rng.gamma(shape, size=200_000)
    after = (mean[0] + np.sqrt(scale[0, 0] * shape / rate * s2) * rng.normal(size=s2.size)) / np.sqrt(s2) > 0.5
    s2 = 2 / rng.gamma(3, size=200_000)
    before = (0.2 + np.sqrt(2 * s2) * rng.normal(size=s2.size)) / np.sqrt(s2) > 0.5
    right = log_odds(after.mean()) - log_odds(before.mean())
    assert abs(effect.log_bayes_factor - right) < PATIENCE * effect.error < 0.5


def test_finite_variables() -> None:
    with pm.Model() as model:
        z = pm.Categorical("z", [0.2, 0.3, 0.5])
        pm.Normal("y", z - 1.0, 2.0, observed=Y)
    weights = np.array([0.2, 0.3, 0.5]) * np.exp([stats.norm.logpdf(Y, k - 1, 2).sum() for k in range(3)])
    weights /= weights.sum()
    post = bk.infer(model, draws=400, random_seed=1)
    for text, chosen in (("z > 1", [2]), ("z >= 1", [1, 2]), ("0 < 2 * z < 3", [1])):
        found = post.hypothesis(text, against="encompassing", random_seed=1)
        assert found.posterior_probability == pytest.approx(weights[chosen].sum(), abs=1e-12)
    assert post.hypothesis("z >= 1").log_bayes_factor == pytest.approx(
        log_odds(weights[1:].sum()) - log_odds(0.8), abs=0.05
    )


def test_draws_of_vectors_under_drawn_parents() -> None:
    with pm.Model() as model:
        a = pm.Gamma("a", 2, 2, shape=3)
        c = pm.Normal("c", a.sum(), a[0], shape=(2, 3))
        pm.MvNormal("e", c[0], np.eye(3), shape=(2, 3))
    found = draws_together(model, 50_000, 1, aligned=True)
    assert found is not None
    assert {n: v.shape[1:] for n, v in found.items()} == {"a": (3,), "c": (2, 3), "e": (2, 3)}
    # Var c = Var Σa + E a₀² = 1.5 + 1.5; Cov(e₀, c₀) = Var c, and Cov(c₀₀, c₁₂) = Var Σa.
    assert np.var(found["c"][:, 1, 2]) == pytest.approx(3.0, rel=0.05)
    assert np.cov(found["e"][:, 1, 0], found["c"][:, 0, 0])[0, 1] == pytest.approx(3.0, rel=0.05)
    assert np.cov(found["c"][:, 0, 0], found["c"][:, 1, 2])[0, 1] == pytest.approx(1.5, rel=0.1)


@pytest.mark.parametrize(
    "text, says",
    [
        ("delta == 0", "savage_dickey"),
        ("delta != 0", "savage_dickey"),
        ("delta = 0", "savage_dickey"),
        ("delta > 0 or delta < -1", "joined by 'and'"),
        ("not delta > 0", "joined by 'and'"),
        ("mu[a] * mu[b] > 0", "product"),
        ("mu[a] / 0 > 1", "divides by zero"),
        ("delta", "compares nothing"),
        ("delta > 0, sigma > 1", "a comma joins nothing: join hypotheses by 'and'"),
        ("", "write it as"),
        ("((((", "no comparison"),
        ("__import__('os') > 1", "something else than names"),
        ("delta.real > 0", "something else than names"),
        ("1 < 2", "names no parameter"),
        ("delta > 0 and 1 < 2", "names no parameter, or one that cancels"),
        ("delta > 0 and delta < delta + 1", "names no parameter, or one that cancels"),
        ("gamma > 0", "no variable 'gamma'.*it has s2, mu"),
        ("mu[c] > 0", r"no entry 'mu\[c\]'.*mu\[New York\]"),
        ("mu > 0", "has 3 numbers"),
        ("y > 0", "observed"),
        ("s2 < 0", "prior probability of s2 < 0 is zero"),
        ("s2 > -1", "complement of s2 > -1 is zero"),
        ("mu[a] > 1e300", "prior probability of .* is zero, so there is no"),
        ("mu[a] < mu[b] < mu[a]", "is zero, so there is no"),
        ("effect > 40", "none of"),
    ],
)
def test_refusals(text: str, says: str) -> None:
    with pytest.raises(bk.BayeskitError, match=says):
        means().hypothesis(text, random_seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior, known",
    [
        (lambda: pm.HalfNormal("mu", 1.0), stats.halfnorm()),
        (lambda: pm.TruncatedNormal("mu", 0.0, 1.0, lower=0.0), stats.halfnorm()),
        (lambda: pm.StudentT("mu", nu=30.0, mu=0.0, sigma=0.5), stats.t(30.0, scale=0.5)),
        (lambda: pm.Logistic("mu", 0.0, 0.25), stats.logistic(0.0, 0.25)),
        (lambda: pm.Laplace("mu", 0.0, 0.25), stats.laplace(0.0, 0.25)),
    ],
)
@pytest.mark.parametrize("end", [6.0, 12.0])
def test_a_prior_far_out_is_small_and_not_zero(prior: Any, known: Any, end: float) -> None:
    with pm.Model() as model:
        pm.Normal("y", prior(), 0.02, observed=end + np.array([0.2, -0.1, 0.3, 0.05]))
    found = bk.hypothesis(model, f"mu > {end}", against="encompassing", random_seed=1)
    assert abs(found.log_bayes_factor + known.logsf(end)) < min(found.error + 1e-9, 1e-5)
    assert found.prior_probability == pytest.approx(known.sf(end), rel=1e-5)


CUT = stats.norm(0.0, 1.0)


@pytest.mark.parametrize(
    "prior, low, high, known",
    [
        # The distribution function is 1 at both ends; past the jump at 12 the tanh-sinh rule is off by 1e-8.
        (lambda: pm.TruncatedNormal("mu", 0.0, 1.0, upper=12.0), 11.9, INF, CUT.sf(11.9) - CUT.sf(12.0)),
        (lambda: pm.TruncatedNormal("mu", 0.0, 1.0, lower=-12.0), -INF, -11.9, CUT.sf(11.9) - CUT.sf(12.0)),
        (lambda: pm.Truncated("mu", pm.Gumbel.dist(0.0, 1.0), upper=40.0), 39.0, INF, math.exp(-39) - math.exp(-40)),
        (lambda: pm.Uniform("mu", -1.0, 0.0), -(2.0**-30), 7.0, 2.0**-30),
        (lambda: pm.Triangular("mu", -1.0, 0.0, -0.75), -(2.0**-25), INF, 4 / 3 * 2.0**-50),
        (lambda: pm.Normal("mu", 0.0, 1e-30), 1e-29, INF, CUT.sf(10.0)),
        (lambda: pm.Normal("mu", 1e8, 1.0), 1e8 + 10, INF, CUT.sf(10.0)),  # the next number is another by 1e-8
        (lambda: pm.StudentT("mu", nu=1e8, mu=0.0, sigma=1.0), 8.0, INF, 6.22102625411477e-16),  # mpmath; Γ cancels
    ],
)
def test_a_tail_that_ends_is_as_exact_as_it_says(prior: Any, low: float, high: float, known: float) -> None:
    with pm.Model() as model:
        prior()
    found = chance_within(model, low, high)
    assert abs(found.inside - known) <= found.inside_error + 1e-14 * known
    assert found.inside_error < 1e-6 * known


def two_bumps(x: Any) -> Any:
    """A Normal density with 1e-13 of it far off, of a width that no integral meets."""
    far = pm.logp(pm.Normal.dist(1000.0, 1e-3), x)
    return pm.math.logaddexp(math.log1p(-1e-13) + pm.logp(pm.Normal.dist(0.0, 1.0), x), math.log(1e-13) + far)


def below_two_bumps(x: Any) -> Any:
    far = pm.logcdf(pm.Normal.dist(1000.0, 1e-3), x)
    return pm.math.logaddexp(math.log1p(-1e-13) + pm.logcdf(pm.Normal.dist(0.0, 1.0), x), math.log(1e-13) + far)


@pytest.mark.parametrize(
    "prior, low",
    [
        (lambda: pm.Censored("mu", pm.Normal.dist(0.0, 1.0), lower=None, upper=12.0), 11.9),
        (lambda: pm.CustomDist("mu", logp=two_bumps, logcdf=below_two_bumps), 9.0),
        (lambda: pm.NormalMixture("mu", w=[1 - 1e-13, 1e-13], mu=[0.0, 1000.0], sigma=[1.0, 1e-3]), 20.0),
    ],
)
def test_a_tail_at_one_value_is_no_integral_of_a_density(prior: Any, low: float) -> None:
    with pm.Model() as model:
        prior()
    found = chance_within(model, low, INF)
    assert found is None or (found.label == "exact" and found.inside_error >= 1e-12)


def test_a_distribution_function_that_cancels_says_so() -> None:
    with pm.Model() as model:
        pm.LogitNormal("mu", 0.0, 30.0)
    end = 1 - 1e-9  # PyMC takes 1/x - 1, which has seven digits there
    found = chance_within(model, -INF, end)
    known = stats.norm.cdf(math.log(end / (1 - end)) / 30)
    assert 1e-10 < abs(found.inside - known) < found.inside_error < 1e-7


def test_ends_that_contradict_each_other() -> None:
    with pm.Model() as model:
        pm.Normal("mu", 0.0, 1.0)
    assert chance_within(model, 2.0, 1.0).inside == 0.0


def test_the_distribution_function_of_a_wald_variable_is_not_taken() -> None:
    """PyMC has it wrong but for mu = lam = 1; what was P(mu < 0.3) = 0.62, exact, is 4.1e-5."""
    with pm.Model() as model:
        pm.Normal("y", pm.Wald("mu", 1.0, 10.0), 1.0, observed=[0.3, 1.0])
    post = bk.infer(model, draws=400, random_seed=1)
    assert chance_within(model, -INF, 0.3) is None
    with pm.Model() as of_two:
        pm.Mixture("mu", [0.5, 0.5], [pm.Wald.dist(1.0, 10.0), pm.Gamma.dist(2.0, 1.0)])
    assert chance_within(of_two, -INF, 0.3) is None
    found = post.hypothesis("mu < 0.9", against="encompassing", random_seed=1)
    prior = stats.invgauss(0.1, scale=10.0).cdf(0.9)
    assert abs(found.prior_probability - prior) < 5 * math.sqrt(prior * (1 - prior) / 1000)


def chance_within(model: pm.Model, low: float, high: float) -> Any:
    """Of the interval of the one number of a model."""
    sides = [Inequality(LinearForm({("mu", 0): sign}, -sign * end), True) for sign, end in ((1.0, low), (-1.0, high))]
    return chance_of_root(model, [s for s in sides if math.isfinite(s.form.constant)])


def test_what_no_value_reaches_has_probability_zero() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.HalfNormal("mu", 1.0), 1.0, observed=Y)
    post = bk.infer(model, draws=100, random_seed=1)
    with pytest.raises(bk.BayeskitError, match="prior probability of mu < 0 is zero"):
        post.hypothesis("mu < 0")
    with pytest.raises(
        bk.BayeskitError, match=r"complement of mu < 12 is .*, which is rounding.*against='encompassing'"
    ):
        post.hypothesis("mu < 12")
    with pytest.raises(bk.BayeskitError, match=r"posterior probability of mu < 1e-16 is .*e-1\d, which is rounding"):
        post.hypothesis("mu < 1e-16")


def test_improper_priors_have_no_regions() -> None:
    with pm.Model() as model:
        mu, b = pm.Flat("mu"), pm.Normal("b")
        pm.Normal("y", mu + b * np.arange(8), 1.0, observed=Y)
    post = bk.infer(model, draws=100, random_seed=1)
    with pytest.raises(bk.BayeskitError, match="improper"):
        post.hypothesis("mu > 0")
    assert post.hypothesis("b > 0").prior_probability == pytest.approx(0.5)
    models = []
    for ratio in (1.0, 2.0):
        with pm.Model() as scaled:
            sigma2 = pm.HalfFlat("sigma2")
            pm.Potential("jeffreys", -pm.math.log(sigma2))
            pm.Normal("y", pm.Normal("effect", 0.0, ratio * sigma2**0.5), sigma2**0.5, observed=Y)
        models.append(scaled)
    post = bk.compare(models, shared=("sigma2",), loo=False, random_seed=1).posteriors["model 1"]
    with pytest.raises(
        bk.BayeskitError, match=r"'sigma2' is improper: no region of effect.* test a number whose prior"
    ):
        bk.hypothesis(post, "effect > 0")


def test_a_model_is_inferred_first() -> None:
    with pm.Model() as model:
        pm.Binomial("heads", 10, pm.Beta("p", 1.0, 1.0), observed=9)
    found = bk.hypothesis(model, "p > 0.5", random_seed=1)
    assert abs(found.log_bayes_factor - np.log(stats.beta(10, 2).sf(0.5) / stats.beta(10, 2).cdf(0.5))) < 1e-10
    assert found.label == "exact"


def test_texts_are_read_alike() -> None:
    texts = ["0 < x[a, 1] - 2*y/4", "x['a',1]>y / 2", "−y/2 + x[a, 1] > 0", "+x[a, 1] - 1e0*y*0.5 > 0"]
    found = [read(text, ["x", "y"]) for text in texts]
    for one, other in itertools.pairwise(found):
        assert [sorted(r.excess.terms.values()) for r in one] == [sorted(r.excess.terms.values()) for r in other]
    (odd,) = read("1|g > 0.5", ["1|g"])
    assert odd.excess.terms == {"1|g": 1.0}
