"""Numbers that rounding or chance made look better than they are; each against a formula or a sum of its own."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.elimination.certificate import certify_collapsed
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.recovery import Recovery
from bayeskit.errors import BayeskitError, DataError, InferenceError, ModelError
from bayeskit.quadrature.mixture_distribution import MixtureDensity


def infer(model: pm.Model, **options: object) -> bk.Posterior:
    return bk.infer(model, draws=200, random_seed=1, progressbar=False, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
def test_a_moment_that_does_not_exist_is_infinite_whatever_rounding_says(seed: int) -> None:
    """InverseGamma(1.5, b) and one Normal number give InverseGamma(2, ·), without a variance."""
    rng = np.random.default_rng(seed)
    with pm.Model() as model:
        v = pm.InverseGamma("v", 1.5, rng.uniform(0.1, 5))
        pm.Normal("y", 0, pm.math.sqrt(v), observed=rng.normal(0, 3))
    marginal = infer(model).marginal("v")
    assert np.isfinite(marginal.mean()) and np.isinf(marginal.std())


@pytest.mark.parametrize("exponent", [15.5, 16.0])
def test_a_posterior_narrower_than_its_numbers_are_apart_is_not_called_exact(exponent: float) -> None:
    y = 10**exponent + 2 * np.arange(20.0)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 10 ** (exponent + 2))
        pm.Normal("y", mu, 1.0, observed=y)
    with pytest.raises(BayeskitError, match="subtract a constant"):
        infer(model, method="exact")


def test_a_check_point_at_the_end_of_a_support_proves_nothing() -> None:
    """Draws from Beta(1e-3, 0.1) are 0 or 1 in floating point, where the density is infinite whatever the data."""
    r, n = np.array([13, 12, 9, 9, 8, 8, 12, 11]), np.array([13, 12, 9, 9, 8, 8, 13, 12])
    with pm.Model() as model:
        mean, size = pm.Uniform("mean", 0, 1), pm.Pareto("size", alpha=1.5, m=0.1)
        p = pm.Beta("p", mean * size, (1 - mean) * size, shape=len(r))
        pm.Binomial("r", n=n, p=p, observed=r)
    recovery = Recovery(collapsed_density(analyse(model)))
    point = {"mean": np.array([0.9, 0.9]), "size": np.array([3.0, 1e-3])}
    p_of = np.stack([np.linspace(0.5, 0.95, len(r)), np.where(r == n, 1.0, 0.5)])
    assert certify_collapsed(recovery, point | {"p": p_of}, 0) < 1e-6


@pytest.mark.parametrize("sd", [2.0, 4.0, 7.0])
def test_moments_far_beyond_the_nodes(sd: float) -> None:
    """E x = 2 (exp(sd²/2) − ½) of a LogNormal(0, sd) variable x seen through a Bernoulli(x / (1 + x)) success."""
    with pm.Model() as model:
        x = pm.LogNormal("x", 0, sd)
        pm.Bernoulli("y", p=x / (1 + x), observed=1)
    marginal = infer(model).marginal("x")
    t = np.linspace(-20 * sd, 2 * sd**2 + 20 * sd, 400_001)
    log_w = stats.norm.logpdf(t, 0, sd) - np.logaddexp(0, -t)
    second = np.exp(special.logsumexp(log_w + 2 * t) - special.logsumexp(log_w))
    mean = 2 * (np.exp(sd**2 / 2) - 0.5)
    assert marginal.mean() == pytest.approx(mean, rel=1e-9)
    assert marginal.std() == pytest.approx(np.sqrt(second - mean**2), rel=1e-7)


def test_quantiles_near_an_end_are_where_the_distribution_function_says() -> None:
    mixture = MixtureDensity(np.array([0.3, 0.7]), stats.beta(np.array([1e-3, 0.02]), np.array([5.0, 5.0])))
    for q in (1e-3, 0.01, 0.1, 0.5):
        x = mixture.ppf(q)
        if x > 1e-300:
            assert mixture.cdf(x) == pytest.approx(q, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("y", [[10, 11], [50, 60], [100, 90]])
@pytest.mark.parametrize("find", [bk.map_estimate, bk.maximize_evidence])
def test_laplace_states_more_than_two_approximations_differ_by(y: list[int], find: object) -> None:
    with pm.Model() as model:
        rate = pm.LogNormal("rate", 0, 3)
        pm.Poisson("y", rate, observed=y)
    t = np.linspace(-30, 30, 200_001)
    log_p = stats.norm.logpdf(t, 0, 3) + stats.poisson.logpmf(np.array(y)[:, None], np.exp(t)).sum(axis=0)
    expected = np.log(integrate.trapezoid(np.exp(log_p - log_p.max()), t)) + log_p.max()
    evidence = find(model, random_seed=1).log_evidence  # type: ignore[operator]
    assert abs(evidence.value - expected) < 2 * evidence.error


@pytest.mark.parametrize("used", [True, False])
def test_a_variable_without_entries_does_not_stop_quadrature(used: bool) -> None:
    y = np.array([1.0, 2.0, 3.0])
    with pm.Model() as model:
        none, level, noise = pm.Normal("none", 0, 1, shape=0), pm.Normal("level", 0, 1), pm.HalfNormal("noise", 1)
        pm.Normal("y", level + (np.ones((3, 0)) @ none if used else 0.0), noise, observed=y)
    post = infer(model)

    def joint(s: float) -> float:
        return float(stats.multivariate_normal.pdf(y, np.zeros(3), s**2 * np.eye(3) + 1) * stats.halfnorm.pdf(s))

    assert post.method == "quadrature"
    assert float(post.log_evidence) == pytest.approx(np.log(integrate.quad(joint, 0, 20, epsabs=0)[0]), abs=1e-7)


def test_a_length_below_zero_is_named() -> None:
    with pm.Model() as model:
        pm.Normal("b", 0, 1, shape=-1)
        pm.Normal("y", pm.HalfNormal("s", 1), 1, observed=[1.0, 2.0])
    with pytest.raises(ModelError, match="'b' has the shape"):
        infer(model)


def test_fractions_are_not_cut_off_counts_in_a_container() -> None:
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=pm.Data("counts", np.array([1.5, 2.0])))
    with pytest.raises(DataError, match=r"y\[0\] is 1.5, which is not a whole number"):
        infer(model)


def test_a_count_that_is_computed_from_real_data_is_no_cut_fraction() -> None:
    """Which of several readings is largest, which of them is a whole number whatever the readings are."""
    with pm.Model() as model:
        data = pm.Data("readings", np.array([0.5, 2.5, 1.5]))
        pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=data.argmax(axis=0))
    expected = stats.nbinom.logpmf(1, 2, 0.5)
    assert float(infer(model).log_evidence) == pytest.approx(expected, abs=1e-10)


def test_squares_that_overflow_are_no_fault_of_the_prior() -> None:
    with pm.Model() as model:
        pm.Normal("y", 0, pm.math.sqrt(pm.InverseGamma("v", 2, 1)), observed=[1e200, 1.0])
    with pytest.raises(InferenceError, match="rescale the data"):
        infer(model)


def test_a_model_without_data_says_so() -> None:
    with pm.Model() as model:
        pm.Normal("a", 0, 1)
    assert any("no observed variable" in note for note in bk.explain(model).notes)
    assert any("no observed variable" in note for note in infer(model).plan.notes)


def test_true_and_false_have_a_summary() -> None:
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1, shape=2)
        pm.Binomial("y", 10, p, observed=[3, 5])
        pm.Deterministic("better", p[1] > p[0])
    post = infer(model)
    share = post.tree["posterior"]["better"].to_numpy().mean()
    assert post.summary().loc["better", "mean"] == pytest.approx(share)
    exact = integrate.quad(lambda q: stats.beta.pdf(q, 6, 6) * stats.beta.cdf(q, 4, 8), 0, 1)[0]
    assert abs(share - exact) < 5 * np.sqrt(exact * (1 - exact) / 200)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["upper", "both", "beta-binomial"])
def test_counts_with_a_largest_value_are_summed_out(kind: str) -> None:
    """Abundance from repeated visits (an N-mixture); the sum over N and the integral by hand."""
    y, most = np.array([[3, 2], [0, 1], [4, 5]]), 8
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 0.5)
        if kind == "beta-binomial":
            number = pm.BetaBinomial("number", n=most, alpha=rate, beta=2.0, shape=3)
        else:
            lower = 0 if kind == "upper" else 1
            ends = {"upper": most} | ({} if kind == "upper" else {"lower": 1})
            number = pm.Truncated("number", pm.Poisson.dist(rate), shape=3, **ends)
        pm.Binomial("y", n=number[:, None], p=0.4, observed=y)
    r = np.exp(np.linspace(-12, 6, 2001))
    wr = r * np.log(r[1] / r[0]) * stats.gamma.pdf(r, 2, scale=2)
    n = np.arange(most + 1)
    if kind == "beta-binomial":
        prior = stats.betabinom.pmf(n[:, None], most, r, 2.0)
    else:
        prior = stats.poisson.pmf(n[:, None], r) * (n[:, None] >= lower)
        prior = prior / prior.sum(axis=0)
    likelihood = stats.binom.pmf(y[:, :, None], n, 0.4).prod(axis=1)
    total = wr @ np.prod([prior.T @ site for site in likelihood], axis=0)
    post = infer(model)
    assert post.method == "quadrature"
    assert abs(float(post.log_evidence) - np.log(total)) < post.log_evidence.error + 1e-9


def test_a_count_without_end_is_told_what_to_do() -> None:
    with pm.Model() as model:
        number = pm.Poisson("number", pm.Gamma("rate", 2, 0.5))
        pm.Binomial("y", n=number, p=0.5, observed=2)
    plan = bk.explain(model)
    assert any("Truncated" in refusal.advice for refusal in plan.refusals)
    assert "number (whole numbers, by Metropolis or Gibbs steps)" in plan.outlook


@pytest.mark.slow
@pytest.mark.parametrize(
    "at", [{"w": np.nan, "rate": [1.0, 2.0]}, {"w": 1.5, "rate": [1.0, 2.0]}, {"w": 0.5, "rate": [0.0, 1.0]}]
)
def test_states_at_parameters_outside_their_support_are_refused(at: dict[str, object]) -> None:
    with pm.Model() as model:
        w, rate = pm.Beta("w", 1, 1), pm.Gamma("rate", 2, 1, shape=2)
        z = pm.Bernoulli("z", w, shape=3)
        pm.Poisson("y", rate[z], observed=[0, 3, 9])
    with pytest.raises(DataError, match="outside the support"):
        bk.states(model, at=at)
    assert np.all(np.isfinite(bk.states(model, at={"w": 0.0, "rate": [1.0, 2.0]}).responsibilities()["probability"]))
