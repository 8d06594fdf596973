"""Improper priors that models share: Bayes factors against integrals over them, and all that must be refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.comparison.shared_priors import declared_shared, require_evidence
from bayeskit.elimination.plan import analyse
from bayeskit.errors import BayeskitError, ModelError
from bayeskit.inference.ladder import answer

# The increase in hours of sleep under two drugs, of ten patients (Student 1908; R's data set ``sleep``).
SLEEP = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]) - np.array(
    [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
)
Y = np.array([0.3, -0.8, 1.9, 0.7, 1.2, 0.4, 2.5])
GROUP = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
COUNTS = np.array([3, 5, 2, 8])
OUTCOMES = np.array([0, 1, 0, 1, 1, 0, 1, 1, 0, 0, 1, 1])
compare = partial(bk.compare, loo=False, random_seed=1)


def jeffreys_variance() -> Any:
    variance = pm.HalfFlat("sigma2")
    pm.Potential("jeffreys", -pt.log(variance))
    return variance


def normal(
    mean: Callable[[Any], Any] = lambda variance: 0.0,
    sd: Callable[[Any], Any] = pt.sqrt,
    y: np.ndarray = Y,
    prior: Callable[[], Any] = jeffreys_variance,
    likelihood: Any = pm.Normal,
) -> pm.Model:
    with pm.Model() as model:
        variance = prior()
        likelihood("y", mu=mean(variance), sigma=sd(variance), observed=pm.Data("data", y))
    return model


def jzs(variance: Any, scale: float = math.sqrt(0.5)) -> Any:
    """An effect whose size in standard deviations is Cauchy."""
    g = pm.InverseGamma("g", 0.5, scale**2 / 2)
    return pm.Normal("effect", 0.0, pt.sqrt(g * variance))


def grouped(variance: Any, ratio: float = 0.5) -> Any:
    return pm.Flat("mu") + GROUP * pm.Normal("effect", 0.0, pt.sqrt(ratio * variance))


def log_student(y: np.ndarray, covariance: np.ndarray) -> float:
    """log ∫ N(y; 0, s V) ds/s."""
    half = len(y) / 2
    quadratic = y @ np.linalg.solve(covariance, y)
    return float(special.gammaln(half) - half * np.log(np.pi * quadratic) - 0.5 * np.linalg.slogdet(covariance)[1])


def centred(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The data and their covariance in contrasts, which a flat mean leaves."""
    contrasts = np.linalg.svd(np.eye(len(Y)) - 1 / len(Y))[0][:, :-1].T
    return contrasts @ Y, contrasts @ covariance @ contrasts.T


@pytest.mark.slow
def test_a_t_test_has_the_published_bayes_factor() -> None:
    """BayesFactor's manual: ``ttestBF(x = sleep$extra[1:10], y = sleep$extra[11:20], paired = TRUE)`` is 17.25888."""
    found = compare({"null": normal(y=SLEEP), "effect": normal(jzs, y=SLEEP)}, shared=("sigma2",))
    log_factor = found.log_bayes_factor("effect", "null")
    assert f"{math.exp(log_factor):.5f}" == "17.25888"
    n, t = len(SLEEP), stats.ttest_1samp(SLEEP, 0.0).statistic

    def density(g: float) -> float:  # Rouder et al. (2009), equation 1, over the null's
        null, with_effect = 1 + t**2 / (n - 1), 1 + t**2 / ((1 + n * g) * (n - 1))
        return float((null / with_effect) ** (n / 2) / math.sqrt(1 + n * g) * stats.invgamma.pdf(g, 0.5, scale=0.25))

    expected = math.log(integrate.quad(density, 0, 5, epsabs=1e-13)[0] + integrate.quad(density, 5, np.inf)[0])
    assert abs(log_factor - expected) < 1e-8
    assert found.table.at["effect", "label"] == "quadrature"
    assert found.table.at["null", "label"] == "exact"
    (constant, *_) = found.notes
    assert "arbitrary constant" in constant and "only differences mean something" in constant


def test_mean_and_variance_are_shared_in_closed_form() -> None:
    models = {"one": normal(lambda v: pm.Flat("mu")), "two": normal(grouped)}
    found = compare(models, shared=("mu", "sigma2", "jeffreys"))
    expected = log_student(*centred(np.eye(7) + 0.5 * np.outer(GROUP, GROUP))) - log_student(*centred(np.eye(7)))
    assert set(found.table["label"]) == {"exact"}
    assert abs(found.log_bayes_factor("two", "one") - expected) < 1e-10


def test_a_standard_deviation_and_a_precision_may_be_shared() -> None:
    """∫ N(y; m, s²) ds over the sd, and ∫ over the precision τ with density 1/τ."""

    def level(m: float, weight: Callable[[float], float]) -> float:
        density = lambda u: math.exp(stats.norm.logpdf(Y, m, math.exp(u)).sum() + u) * weight(math.exp(u))  # noqa: E731
        return math.log(integrate.quad(density, -4, 8, epsabs=1e-16, epsrel=1e-12, limit=200)[0])

    def precision() -> Any:
        tau = pm.HalfFlat("tau")
        pm.Potential("scale", -pt.log(tau))
        return tau

    flat = {m: normal(lambda _, m=m: m, lambda s: s, prior=lambda: pm.HalfFlat("sd")) for m in (0.0, 1.0)}
    scaled = {m: normal(lambda _, m=m: m, lambda t: 1 / pt.sqrt(t), prior=precision) for m in (0.0, 1.0)}
    for models, name, weight in ((flat, "sd", lambda s: 1.0), (scaled, "tau", lambda s: 2 / s)):
        expected = level(1.0, weight) - level(0.0, weight)
        found = compare({"a": models[0.0], "b": models[1.0]}, shared=(name,)).log_bayes_factor("b", "a")
        assert abs(found - expected) < 1e-8


def test_a_mean_is_shared_by_likelihoods_of_other_shapes() -> None:
    def model(likelihood: Any) -> pm.Model:
        with pm.Model() as made:
            likelihood("y", mu=pm.Flat("mu"), sigma=1.0, observed=Y)
        return made

    found = compare({"t": model(partial(pm.StudentT, nu=4.0)), "normal": model(pm.Normal)}, shared=("mu",))
    level = [
        math.log(integrate.quad(lambda m, d=d: math.exp(d(m).sum()), -6, 8, epsabs=1e-16)[0])
        for d in (lambda m: stats.t.logpdf(Y, 4.0, m, 1.0), lambda m: stats.norm.logpdf(Y, m, 1.0))
    ]
    assert abs(found.log_bayes_factor("t", "normal") - (level[0] - level[1])) < 1e-8
    assert not any("cannot be told" in note for note in found.notes)


def test_a_rate_is_shared_with_an_effect_upon_it() -> None:
    """Counts of rate λ with density 1/λ: the rate, or times a Gamma factor in the second half."""
    half = np.array([0, 0, 1, 1])

    def model(factor: bool) -> pm.Model:
        with pm.Model() as made:
            rate = pm.HalfFlat("rate")
            pm.Potential("scale", -pt.log(rate))
            pm.Poisson("y", rate * (pm.Gamma("factor", 2.0, 2.0) ** half if factor else 1.0), observed=COUNTS)
        return made

    def given(f: float) -> float:
        log = special.gammaln(COUNTS.sum()) - COUNTS.sum() * np.log(2 + 2 * f) + COUNTS @ half * np.log(f)
        return float(np.exp(log - special.gammaln(COUNTS + 1).sum()))

    expected = integrate.quad(lambda f: given(f) * stats.gamma(2.0, scale=0.5).pdf(f), 0, np.inf, epsabs=1e-15)[0]
    found = compare({"one": model(False), "two": model(True)}, shared=("rate",))
    assert abs(found.log_bayes_factor("two", "one") - math.log(expected / given(1.0))) < 1e-8


def limits() -> dict[str, Callable[[Callable[..., Any]], Any]]:
    """Models with a mean of some prior, whose Gaussian blocks are factorised in different ways."""
    rng = np.random.default_rng(1)
    few, many = rng.standard_normal(8), rng.standard_normal(60)
    design, group = rng.standard_normal((8, 30)), np.repeat(np.arange(20), 3)

    def levels(flat: Callable[..., Any]) -> Any:
        variance = pm.InverseGamma("v", 2.0, 1.0)
        return pm.Normal("y", flat("mu", shape=6)[group % 6], pt.sqrt(variance), observed=many)

    def wide(flat: Callable[..., Any]) -> Any:
        return pm.Normal("y", flat("mu") + pt.dot(design, pm.Normal("b", shape=30)), 0.5, observed=few)

    return {
        "groups": lambda flat: pm.Normal("y", flat("mu") + pm.Normal("e", 0, 2, shape=20)[group], 1.0, observed=many),
        "more columns than rows": wide,
        "a level each": levels,
        "two means": lambda flat: pm.MvNormal("y", flat("mu", shape=2), np.eye(2) + 0.5, observed=many.reshape(30, 2)),
        "a mixture": lambda flat: pm.Normal("y", flat("mu") + 3 * pm.Bernoulli("z", 0.4), 1.0, observed=few),
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", limits())
def test_a_flat_prior_is_the_limit_of_wide_ones(case: str) -> None:
    """∫ p(y | μ) dμ = lim p(y) √(2π) s under μ ~ N(0, s²), to the order of μ²/s²."""
    sd = 1e4
    with pm.Model() as flat:
        limits()[case](pm.Flat)
    with pm.Model() as wide:
        limits()[case](partial(pm.Normal, mu=0.0, sigma=sd))
    found = answer(analyse(flat, shared=("mu",)), random_seed=1).log_evidence
    number = int(np.prod(flat["mu"].shape.eval(mode="FAST_COMPILE"), dtype=int))
    expected = answer(wide, random_seed=1).log_evidence.value + number * math.log(sd * math.sqrt(2 * math.pi))
    assert found.label in ("exact", "quadrature")
    assert abs(found.value - expected) < 1e-6


def test_posteriors_keep_their_data_and_what_was_inferred() -> None:
    one, two = normal(lambda v: pm.Flat("mu")), normal(grouped)
    shared = ("mu", "sigma2")
    expected = compare([one, two], shared=shared).table
    posteriors = {"one": bk.infer(one, draws=4, random_seed=1), "two": answer(analyse(two, shared=shared))}
    assert math.isnan(posteriors["one"].log_evidence.value)
    with two:
        pm.set_data({"data": Y + 1.0})
    found = compare(posteriors, shared=shared)
    assert found.posteriors["two"] is posteriors["two"]
    assert np.allclose(found.table["log_evidence"], expected["log_evidence"], rtol=0, atol=1e-12)


def test_a_file_does_not_lose_its_constant(tmp_path: Path) -> None:
    """Loaded without its model, it cannot be held against others any more; with it, it can."""
    model = normal()
    posterior = bk.infer(analyse(model, shared=("sigma2",)), draws=100, random_seed=1)
    posterior.save(tmp_path / "a.nc")
    with pm.Model() as proper:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=Y)
    for other in (proper, bk.load(tmp_path / "a.nc")):
        with pytest.raises(ModelError, match="a: its log evidence is up to an arbitrary constant"):
            compare({"a": bk.load(tmp_path / "a.nc"), "b": other})
    with pytest.raises(ModelError, match="a: priors can be shared by models"):
        compare({"a": bk.load(tmp_path / "a.nc"), "b": model}, shared=("sigma2",))
    found = compare({"a": bk.load(tmp_path / "a.nc", model=model), "b": posterior}, shared=("sigma2",))
    assert abs(found.log_bayes_factor("a", "b")) < 1e-12


def test_other_data_keep_what_is_shared() -> None:
    analysis = analyse(normal(lambda v: pm.Flat("mu")), shared=("mu", "sigma2"))
    found = answer(analysis.with_data({"data": 2 * Y})).log_evidence
    assert found.label == "exact"
    assert (
        abs(
            found.value
            - answer(analyse(normal(lambda v: pm.Flat("mu"), y=2 * Y), shared=("mu", "sigma2"))).log_evidence.value
        )
        < 1e-10
    )
    assert "up to an arbitrary constant" in found.convention


def squared() -> Any:
    variance = pm.HalfFlat("sigma2")
    pm.Potential("other", -2 * pt.log(variance))
    return variance


def shifted() -> Any:
    variance = pm.HalfFlat("sigma2")
    pm.Potential("jeffreys", 1.0 - pt.log(variance))
    return variance


NEAR_MISSES: dict[str, tuple[Callable[[], pm.Model], tuple[str, ...], str]] = {
    "not declared": (
        lambda: normal(lambda v: pm.Flat("mu")),
        ("sigma2",),
        r"b: the prior of mu is improper \(Flat\).*"
        r"shared=\('mu',\)",
    ),
    "not in all": (
        lambda: normal(lambda v: pm.Flat("mu")),
        ("sigma2", "mu"),
        "a: 'mu' was declared shared, and is no free",
    ),
    "unknown": (normal, ("sigma2", "sigma"), "a: 'sigma' was declared shared, and is no free variable of it"),
    "proper in one": (
        lambda: normal(prior=lambda: pm.HalfNormal("sigma2")),
        ("sigma2",),
        "b: 'sigma2' .* prior is HalfNormal",
    ),
    "another range": (lambda: normal(prior=lambda: pm.Flat("sigma2")), ("sigma2",), "HalfFlat .* in a, Flat .* in b"),
    "another length": (
        lambda: normal(sd=lambda v: pt.sqrt(v.sum()), prior=lambda: pm.HalfFlat("sigma2", shape=2)),
        ("sigma2",),
        r"HalfFlat of shape \(\) in a, HalfFlat of shape \(2,\) in b",
    ),
    "restricted": (
        lambda: normal(
            prior=lambda: pm.HalfFlat("sigma2", transform=pm.distributions.transforms.Interval(0, 9), initval=1.0)
        ),
        ("sigma2",),
        "b: 'sigma2' was declared shared, and its transform ChainedTransform restricts it",
    ),
    "another power": (lambda: normal(prior=squared), ("sigma2",), "Potentials of sigma2 are not the same in a and b"),
    "another constant": (
        lambda: normal(prior=shifted),
        ("sigma2",),
        "Potentials of sigma2 are not the same in a and b",
    ),
    "no Potential": (
        lambda: normal(prior=lambda: pm.HalfFlat("sigma2")),
        ("sigma2",),
        "Potentials of sigma2 are not the same",
    ),
    "an sd in one": (
        lambda: normal(sd=lambda s: s),
        ("sigma2",),
        "'sigma2' .* enters the likelihood of a and b in different",
    ),
    "a precision in one": (lambda: normal(sd=lambda s: 1 / pt.sqrt(s)), ("sigma2",), "a and b in different places"),
    "a mean as well": (lambda: normal(lambda v: v), ("sigma2",), "'sigma2' .* a and b in different places"),
    "no part in it": (lambda: normal(sd=lambda s: 1.0), ("sigma2",), "b: 'sigma2' .* does not enter its likelihood"),
}


def test_models_of_other_data_are_not_told_to_share_a_prior() -> None:
    flat = {name: normal(lambda v: pm.Flat("mu"), y=y) for name, y in (("a", Y), ("b", Y[:-1]))}
    with pytest.raises(ModelError, match="a and b do not explain the same data"):
        compare(flat)


@pytest.mark.parametrize("case", NEAR_MISSES)
def test_what_is_not_shared_is_refused_by_name(case: str) -> None:
    second, shared, message = NEAR_MISSES[case]
    with pytest.raises(ModelError, match=message):
        compare({"a": normal(), "b": second()}, shared=shared)


def test_potentials_of_other_variables_are_refused() -> None:
    model = normal(lambda v: pm.Normal("mu"))
    with model:
        pm.Potential("penalty", -(model["mu"] ** 2) / model["sigma2"])
    with pytest.raises(ModelError, match=r"b: it has a Potential \(penalty\)"):
        compare({"a": normal(), "b": model}, shared=("sigma2",))
    with pytest.raises(ModelError, match=r"a: it has a Potential \(jeffreys\)"):
        require_evidence("a", normal())


def test_a_potential_is_declared_where_all_have_it() -> None:
    assert declared_shared({"a": normal(), "b": normal()}, ("jeffreys", "sigma2")) == ("sigma2",)
    with pytest.raises(ModelError, match="b: 'jeffreys' was declared shared, and is no free variable"):
        declared_shared({"a": normal(), "b": normal(prior=squared)}, ("jeffreys",))


def test_another_improper_prior_has_no_constant_to_share() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.ICAR("phi", np.ones((2, 2)) - np.eye(2)), 1.0, observed=[0.1, 0.2])
    with pytest.raises(ModelError, match="a: 'phi' was declared shared, and its prior is ICAR"):
        compare({"a": model, "b": model}, shared=("phi",))


def test_whether_a_place_is_the_same_may_not_be_told() -> None:
    """A mean of means in one, the mean itself in the other."""

    def hierarchy() -> pm.Model:
        with pm.Model() as model:
            mu = pm.Flat("mu")
            pm.Normal("y", pm.Normal("each", mu, 1.0, shape=7), 1.0, observed=Y)
        return model

    with pm.Model() as plain:
        pm.Normal("y", pm.Flat("mu"), 1.0, observed=Y)
    found = compare({"plain": plain, "hierarchy": hierarchy()}, shared=("mu",))
    spread = np.sum((Y - Y.mean()) ** 2)
    expected = -3 * math.log(2.0) + spread / 4  # six contrasts, of variance 2 and not 1
    assert abs(found.log_bayes_factor("hierarchy", "plain") - expected) < 1e-10
    assert any("plain and hierarchy: whether mu means the same in both cannot be told" in note for note in found.notes)


def collinear() -> pm.Model:
    def mean(_: Any) -> Any:
        return pm.Flat("mu") + pm.math.dot(np.stack([GROUP, 1 - GROUP], axis=1), pm.Flat("effects", shape=2))

    return normal(mean)


def between_groups() -> pm.Model:
    with pm.Model() as model:
        tau = pm.HalfFlat("tau")
        pm.Potential("scale", -pt.log(tau))
        pm.Normal("y", pm.Normal("each", 0.0, tau, shape=7), 1.0, observed=Y)
    return model


def logistic(groups: bool) -> pm.Model:
    with pm.Model() as model:
        shift = pm.Normal("shift", shape=3)[np.repeat([0, 1, 2], 4)] if groups else np.zeros(12)
        pm.Bernoulli("y", logit_p=pm.Flat("mu") + shift, observed=OUTCOMES)
    return model


@pytest.mark.slow
def test_a_posterior_that_is_sampled_is_seen_to_fall_off() -> None:
    """Four numbers remain, of which three are apart given the first."""
    ones = OUTCOMES.reshape(3, 4).sum(axis=1)
    mu, e = np.linspace(-25.0, 25.0, 2001)[:, None], np.linspace(-9.0, 9.0, 401)
    log_groups = [stats.norm.logpdf(e) + k * (mu + e) - 4 * np.logaddexp(0, mu + e) for k in ones]
    whole = np.prod([integrate.trapezoid(np.exp(g), e) for g in log_groups], axis=0)
    expected = math.log(integrate.trapezoid(whole, mu[:, 0])) - special.betaln(ones.sum(), 12 - ones.sum())
    groups = analyse(logistic(True), shared=("mu",))
    sampled = bk.infer(groups, method="nuts", draws=2000, random_seed=1, progressbar=False, sampler={"tune": 300})
    found = compare({"one": logistic(False), "groups": sampled}, shared=("mu",))
    error = found.table["log_bayes_factor_error"].max()
    assert found.table.at["groups", "label"] == "estimated"
    assert abs(found.log_bayes_factor("groups", "one") - expected) < 4 * error < 0.1  # wrong for one seed in 16,000
    assert any("that the posterior is proper was looked at" in note for note in found.notes)


IMPROPER: dict[str, tuple[Callable[[], pm.Model], tuple[str, ...], str]] = {
    "one datum": (lambda: normal(lambda v: pm.Flat("mu"), y=Y[:1]), ("mu", "sigma2"), "of 'sigma2' is improper"),
    "no spread": (lambda: normal(lambda v: pm.Flat("mu"), y=np.full(5, 0.3)), ("mu", "sigma2"), "sigma2|narrow"),
    "no data but zeros": (lambda: normal(y=np.zeros(4)), ("sigma2",), "posterior of 'sigma2' is improper"),
    "unidentified": (collinear, ("mu", "effects", "sigma2"), "the data do not tell mu, effects apart"),
    "no spread between groups": (between_groups, ("tau",), "the prior of tau is improper, and so the posterior may be"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", IMPROPER)
def test_improper_posteriors_are_refused_by_name(case: str) -> None:
    model, shared, message = IMPROPER[case]
    with pytest.raises(BayeskitError, match=message):
        compare({"a": model(), "b": model()}, shared=shared)
