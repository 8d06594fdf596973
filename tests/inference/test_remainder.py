"""Quadrature over what remains, against Gauss–Legendre panels over the textbook marginal likelihood."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.raise_op import Assert
from remainder_cases import REMAINDERS, Remainder
from remainder_oracles import integrated
from scipy import integrate, stats

import bayeskit as bk
from bayeskit.graphs.compile import small_mode
from bayeskit.results.records import Posterior

pytestmark = pytest.mark.slow  # what is inferred of a case is shared by its tests, which run at one turn
KNOWN = [c for c in REMAINDERS if c.log_marginal is not None]
# The covariance of a latent process has a jitter of 1e-9, which the textbook formula does not have.
LATENT = ("process, latent", "process, white")


@cache
def posterior_of(name: str) -> Posterior:
    case = next(c for c in REMAINDERS if c.name == name)
    return bk.infer(case.build(), method="quadrature", draws=1000, random_seed=1, progressbar=False)


@pytest.fixture(params=KNOWN, ids=str)
def case(request: pytest.FixtureRequest) -> Remainder:
    return request.param


def test_evidence(case: Remainder) -> None:
    post, answer = posterior_of(case.name), integrated(case.name)
    assert post.method == "quadrature"
    assert post.log_evidence.label == "quadrature"
    assert post.log_evidence.error < 1e-6
    slack = 1e-7 if case.name.startswith(LATENT) else 2e-10
    assert abs(post.log_evidence.value - answer.log_evidence) < post.log_evidence.error + slack
    assert post.certificate < 1e-6


def test_moments_of_what_remains(case: Remainder) -> None:
    post, answer = posterior_of(case.name), integrated(case.name)
    mean = np.concatenate([np.ravel(post.marginal(n).mean()) for n in case.remaining])
    sd = np.concatenate([np.ravel(post.marginal(n).std()) for n in case.remaining])
    finite = np.isfinite(sd)
    assert np.any(finite)
    assert mean[finite] == pytest.approx(answer.mean[finite], abs=1e-5 * answer.sd[finite].max())
    assert sd[finite] == pytest.approx(answer.sd[finite], rel=1e-5)


def test_draws_follow_the_marginals(case: Remainder) -> None:
    """Kolmogorov–Smirnov on independent draws of every scalar that has a marginal.

    A probability that is off by 0.08 is seen, by 0.15 of what was eliminated.
    """
    post = posterior_of(case.name)
    smallest, number = 1.0, 0
    for name, marginal in post.marginals.items():
        number_of_draws = 1000 if marginal.family == "quadrature" else 300  # a mixture is summed for every draw
        draws = post.tree["posterior"][name].to_numpy().reshape((1000, *np.shape(marginal.mean())))[:number_of_draws]
        uniform = np.asarray(marginal.cdf(draws)).reshape(number_of_draws, -1)
        for column in uniform.T:
            smallest = min(smallest, stats.kstest(column, "uniform").pvalue)
            number += 1
    assert number > 0
    assert smallest > 1e-4 / number


def test_quantiles_of_a_scale() -> None:
    """Quantiles of τ in eight schools, from Gauss–Legendre over each side of them."""
    from remainder_cases import EFFECT, schools
    from scipy import integrate

    marginal = posterior_of("eight schools, centred").marginal("tau")
    log_marginal, prior = schools(EFFECT), stats.halfcauchy(scale=5)
    total = np.exp(integrated("eight schools, centred").log_evidence)
    for probability in (0.05, 0.5, 0.95):
        quantile = marginal.ppf(probability)
        below, _ = integrate.quad(lambda t: np.exp(log_marginal(t)) * prior.pdf(t), 0, quantile, epsabs=0, epsrel=1e-10)
        assert below / total == pytest.approx(probability, abs=1e-7)


def test_two_spellings_of_one_model_agree() -> None:
    centred, other = posterior_of("eight schools, centred"), posterior_of("eight schools, non-centred")
    bound = centred.log_evidence.error + other.log_evidence.error
    assert abs(centred.log_evidence.value - other.log_evidence.value) <= bound
    assert centred.marginal("mu").mean() == pytest.approx(other.marginal("mu").mean(), abs=1e-6)


def test_eliminated_variables_have_mixture_marginals() -> None:
    """E(mu | y) of eight schools by integrating its conditional mean over tau."""
    from remainder_cases import EFFECT, ERROR
    from scipy import integrate

    post = posterior_of("eight schools, centred")
    prior = stats.halfcauchy(scale=5)

    def moments(tau: float) -> np.ndarray:
        variance = ERROR**2 + tau**2
        precision = np.sum(1 / variance) + 1 / 25
        mean = np.sum(EFFECT / variance) / precision
        from remainder_cases import schools

        weight = np.exp(schools(EFFECT)(tau)) * prior.pdf(tau)
        return weight * np.array([1.0, mean, mean**2 + 1 / precision])

    total, first, second = integrate.quad_vec(moments, 0, np.inf, epsrel=1e-11)[0]
    marginal = post.marginal("mu")
    assert marginal.mean() == pytest.approx(first / total, abs=1e-6)
    assert marginal.std() == pytest.approx(np.sqrt(second / total - (first / total) ** 2), abs=1e-6)
    low, high = marginal.interval(0.9)
    assert marginal.cdf(high) - marginal.cdf(low) == pytest.approx(0.9, abs=1e-9)
    assert np.isnan(marginal.pdf(np.nan)) and marginal.pdf(0.0) > 0
    assert marginal.rvs(1000, random_state=1).shape == (1000,)
    assert set(post.summary()["label"]) == {"quadrature"}


def test_the_same_seed_gives_the_same_draws() -> None:
    model = next(c for c in REMAINDERS if c.name == "eight schools, centred").build()
    one, two = (bk.infer(model, draws=100, random_seed=3, progressbar=False) for _ in range(2))
    assert one.tree["posterior"].equals(two.tree["posterior"])


def test_quadrature_is_refused_where_it_cannot_be() -> None:
    with pm.Model() as exact:
        pm.Normal("y", pm.Normal("m"), 1.0, observed=[0.0])
    with pytest.raises(bk.BayeskitError, match="nothing to do"):
        bk.infer(exact, method="quadrature")
    with pm.Model() as many:
        pm.StudentT("y", nu=4.0, mu=pm.Normal("m", shape=4).sum(), observed=[0.0])
    with pytest.raises(bk.BayeskitError, match="one to three real numbers"):
        bk.infer(many, method="quadrature")
    with pm.Model() as discrete:
        pm.Normal("y", pm.Poisson("n", pm.HalfCauchy("rate", 1.0)), 1.0, observed=[0.0])
    assert bk.explain(discrete).method == "nuts"


def test_an_improper_posterior_is_refused() -> None:
    with pm.Model() as improper:
        tau = pm.HalfFlat("tau")
        pm.Normal("y", pm.Normal("m"), tau, observed=[0.3])
    with pytest.raises(bk.BayeskitError, match="no answer by quadrature"):
        bk.infer(improper, method="quadrature", draws=10)


@pytest.mark.parametrize(
    ("prior", "density", "ends"),
    [
        (
            lambda: pm.Truncated("t", pm.Gamma.dist(2, 1), upper=3.0),
            lambda t: stats.gamma.pdf(t, 2) / stats.gamma.cdf(3, 2),
            (0, 3),
        ),
        (
            lambda: pm.TruncatedNormal("t", 1.0, 2.0, lower=0.5, upper=40.0),
            lambda t: stats.truncnorm.pdf(t, -0.25, 19.5, loc=1, scale=2),
            (0.5, 40),
        ),
    ],
    ids=["Gamma", "Normal"],
)
def test_truncated_priors(prior: Any, density: Any, ends: tuple[float, float]) -> None:
    """The certificate needs erfc and gammainc, which NumPy and SciPy do not have in extended precision."""
    y = np.array([0.3, -0.8, 0.5])
    with pm.Model() as model:
        pm.Normal("y", 0.1, tau=prior(), observed=y)
    post = bk.infer(model, method="quadrature", draws=10, random_seed=1)

    def joint(t: float) -> float:
        return float(density(t) * stats.norm.pdf(y, 0.1, t**-0.5).prod())

    value, _ = integrate.quad(joint, *ends, epsabs=0, epsrel=1e-11)
    assert abs(post.log_evidence.value - np.log(value)) <= post.log_evidence.error + 1e-9


X = np.array([0.7, 1.1, 2.2, 3.9, 4.5, 6.1, 7.7, 9.2])
Y = np.array([0.2, -0.1, 0.3, 2.1, 1.9, 2.2, 1.8, 2.4])
SLOPED = 0.4 * X + 0.3 + 0.1 * np.sin(2.0 * np.arange(8))


def check_if_answered(model: pm.Model, expected: float, *, answered: bool, slack: float = 0.0) -> None:
    """An answer within its own bound; a refusal, where one is allowed, that names the rung and the way out."""
    try:
        evidence = bk.infer(model, method="quadrature", draws=10, random_seed=1).log_evidence
    except bk.BayeskitError as refusal:
        assert not answered
        assert re.search(r"^no answer by quadrature: .{20,}; use method='nuts'$", str(refusal))
    else:
        assert abs(evidence.value - expected) <= evidence.error + slack


@pytest.mark.parametrize(
    ("means", "sds", "slope", "noise", "observed", "answered"),
    [
        ((0.0, 20.0), (1.0, 0.01), np.full(8, 0.1), 0.5, Y, False),
        ((0.0, 0.5), (1.0, 1e-5), np.full(8, 0.1), 0.5, Y, False),
        ((0.0, 0.0), (3.0, 0.005), X / 10, 0.5, SLOPED, True),
        ((0.0, 0.0), (3.0, 0.2), X / 10, 0.5, SLOPED, True),
    ],
    ids=["far", "within", "spike", "wide spike"],
)
def test_narrow_modes_are_found_or_refused(
    means: Any, sds: Any, slope: Any, noise: float, observed: Any, answered: bool
) -> None:
    """Half of the prior lies in a mode that a lattice made for the other one steps over."""
    with pm.Model() as model:
        w = pm.NormalMixture("w", w=np.array([0.5, 0.5]), mu=np.array(means), sigma=np.array(sds))
        pm.Normal("y", pm.Normal("a", 0, 2) + slope * w, noise, observed=observed)
    # Given w, the data are Normal; each component of the prior is then a Gaussian integral of its own.
    covariance = 4 + noise**2 * np.eye(8)
    components = [
        stats.multivariate_normal(mean * slope, covariance + sd**2 * np.outer(slope, slope)).logpdf(observed)
        for mean, sd in zip(means, sds, strict=True)
    ]
    expected = np.logaddexp(*components) + np.log(0.5)
    check_if_answered(model, expected, answered=answered)


def test_a_spiked_scale_is_found_or_refused() -> None:
    with pm.Model() as model:
        parts = [pm.LogNormal.dist(0.0, 1.0), pm.LogNormal.dist(3.0, 0.001)]
        s = pm.Mixture("s", w=np.array([0.5, 0.5]), comp_dists=parts)
        pm.Normal("y", pm.Normal("a", 0, 2), s, observed=8 * Y)

    def marginal(t: float) -> float:
        return float(stats.multivariate_normal(np.zeros(8), 4 + np.exp(2 * t) * np.eye(8)).logpdf(8 * Y))

    level = marginal(3.0)
    parts_of_it = [
        integrate.quad(lambda t, m=m, d=d: np.exp(marginal(t) - level) * stats.norm.pdf(t, m, d), m - 9 * d, m + 9 * d)
        for m, d in ((0.0, 1.0), (3.0, 0.001))
    ]
    expected = level + np.log(0.5 * sum(v for v, _ in parts_of_it))
    check_if_answered(model, expected, answered=False, slack=1e-8)


def test_a_potential_may_curve_upwards_where_the_sum_stays_proper() -> None:
    y = np.array([0.2, -0.1, 0.3, 2.1])
    with pm.Model() as model:
        s, mu = pm.HalfNormal("s", 1.0), pm.Normal("mu", 0, 2)
        pm.Normal("y", mu, s, observed=y)
        pm.Potential("p", 0.1 * mu**2)

    def joint(s: float) -> float:
        precision, linear = 0.25 - 0.2 + 4 / s**2, y.sum() / s**2
        level = -0.5 * np.log(8 * np.pi) - 2 * np.log(2 * np.pi * s**2) - 0.5 * np.sum(y**2) / s**2
        return float(
            stats.halfnorm.pdf(s) * np.exp(level + 0.5 * linear**2 / precision) * (2 * np.pi / precision) ** 0.5
        )

    value, _ = integrate.quad(joint, 0, 30, epsabs=0, epsrel=1e-11, points=[0.5, 1, 2], limit=200)
    evidence = bk.infer(model, method="quadrature", draws=10, random_seed=1).log_evidence
    assert abs(evidence.value - np.log(value)) <= evidence.error + 1e-9


def test_a_variable_shared_by_a_large_plate_is_integrated_out_with_it() -> None:
    size, variance = 60_000, 1.0 + 1.2**2
    with pm.Model() as model:
        effects = pm.Normal("effects", pm.Normal("mean"), 1.0, shape=size)
        pm.Normal("y", effects, 1.2, observed=np.zeros(size))
    # y ~ Normal(0, variance · I + 11ᵀ).
    expected = -0.5 * (size * np.log(2 * np.pi * variance) + np.log1p(size / variance))
    assert bk.infer(model, method="exact", draws=4).log_evidence.value == pytest.approx(expected, rel=1e-12)


def test_draws_from_one_mode_of_two_have_no_evidence() -> None:
    """The narrow mode holds half of the prior: draws from the prior find what no chain did."""
    with pm.Model() as model:
        w = pm.NormalMixture("w", w=np.array([0.5, 0.5]), mu=np.array([0.0, 20.0]), sigma=np.array([1.0, 0.01]))
        pm.Normal("y", pm.Normal("a", 0, 2) + 0.1 * w, 0.5, observed=Y)
    post = bk.infer(model, method="nuts", draws=400, random_seed=1, progressbar=False)
    assert np.isnan(post.log_evidence.value) and "another mode" in post.log_evidence.reason


def test_an_assertion_of_the_author_is_not_a_boundary() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 10.0)
        pm.Normal("y", Assert("the mean is positive")(mu, mu > 0), 1.0, observed=[1.0, 2.0])
    with pytest.raises(bk.BayeskitError, match="the mean is positive"):
        bk.infer(model, method="quadrature", draws=10)


def test_an_assertion_of_the_author_holds_at_the_ends_of_a_support_too() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 10.0)
        pm.Beta("y", Assert("the shape is positive")(pm.math.exp(mu), mu > 0), 1.0, observed=[1.0, 0.5])
    with pytest.raises(bk.BayeskitError, match="the shape is positive"):
        bk.infer(model, method="quadrature", draws=10)


def test_labels_are_summed_out_rather_than_their_weights() -> None:
    centres, y = np.array([-2.0, 0.0, 2.0]), np.linspace(-2, 2, 12)
    with pm.Model() as model:
        w = pm.Dirichlet("w", a=np.ones(3))
        z = pm.Categorical("z", p=w, shape=12)
        pm.Normal("y", pt.as_tensor(centres)[z], 1.0, observed=y)
    small = bk.collapse(model)
    assert [rv.name for rv in small.free_RVs] == ["w"]
    weights = np.array([0.2, 0.5, 0.3])
    expected = np.log(stats.norm.pdf(y[:, None], centres) @ weights).sum() + stats.dirichlet.logpdf(weights, np.ones(3))
    value = {small.value_vars[0].name: np.log(weights[:-1]) - np.mean(np.log(weights))}
    assert float(small.compile_logp(jacobian=False, mode=small_mode())(value)) == pytest.approx(expected, abs=1e-10)


def test_nuts_on_the_collapsed_model() -> None:
    """Four scales remain; the effects and the intercept come back exactly."""
    rng = np.random.default_rng(5)
    design = rng.normal(size=(40, 3))
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0, shape=3)
        sigma = pm.HalfNormal("sigma", 1.0)
        weights = pm.Normal("weights", 0.0, tau, shape=3)
        pm.Deterministic("twice", 2 * weights)
        pm.Normal("y", design @ weights, sigma, observed=design @ [1.0, 0.0, -1.0] + 0.5 * rng.normal(size=40))
    assert bk.explain(model).method == "importance"
    post = bk.infer(model, method="nuts", draws=400, random_seed=2, progressbar=False)
    assert post.method == "nuts"
    assert post.log_evidence.label == "estimated" and post.log_evidence.error < 0.2
    assert "unconstrained_posterior" not in post.tree.children
    assert not [n for n in post.tree["sample_stats"].data_vars if "unconstrained" in n]
    assert post.certificate < 1e-8
    tree = post.tree
    assert tree["posterior"]["weights"].shape == (4, 100, 3)
    assert np.allclose(tree["posterior"]["twice"], 2 * tree["posterior"]["weights"])
    assert "sample_stats" in tree.children
    assert tree["posterior"]["weights"].mean(("chain", "draw")).to_numpy() == pytest.approx([1.0, 0.0, -1.0], abs=0.3)
