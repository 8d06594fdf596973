"""Priors that PyMC's density does not normalise: their integral against SciPy, and one evidence on every path."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from cases import CASES
from pymc.distributions import multivariate, transforms
from scipy import integrate, stats

import bayeskit as bk
from bayeskit.elimination.plan import analyse
from bayeskit.marginal_likelihood.conventions import audit
from bayeskit.marginal_likelihood.prior_mass import PriorMass, prior_mass
from bayeskit.marginal_likelihood.sampled import evidence_of_draws
from bayeskit.model.forward_sampling import over_draws
from bayeskit.model.log_joint import LogJoint

Y = np.array([0.3, 1.2, -0.4])
ORDERED = transforms.ordered


def mass_of(build: Callable[[], Any]) -> PriorMass | None:
    """Of the variable ``x``."""
    with pm.Model() as model:
        build()
    return prior_mass(LogJoint.from_model(model), "x")


def interval(*ends: float | None) -> dict[str, Any]:
    """A prior that is left in an interval."""
    return {"default_transform": transforms.Interval(*ends)}


def cone(first: Any, second: Any, third: Any = None, lower: float = -np.inf) -> float:
    """log P(lower < x₁ < x₂ < x₃), an integral over x₂."""

    def inner(t: float) -> float:
        return float(second.pdf(t) * (first.cdf(t) - first.cdf(lower)) * (1.0 if third is None else third.sf(t)))

    ends = max(lower, float(second.ppf(1e-15))), float(second.isf(1e-15))
    return math.log(integrate.quad(inner, *ends, epsabs=0, epsrel=1e-11, limit=200)[0])


def between(density: Any, a: float, b: float) -> float:
    return math.log(integrate.quad(density.pdf, a, b, epsabs=0, epsrel=1e-12)[0])


NORMAL = stats.norm
KNOWN: dict[str, tuple[Callable[[], Any], Callable[[], float]]] = {
    "interval": (lambda: pm.Normal("x", 0.5, 2.0, **interval(-1, 2)), lambda: between(NORMAL(0.5, 2), -1, 2)),
    "many entries": (
        lambda: pm.Normal("x", [0.0, 1.0], shape=(3, 2), **interval(0, None)),
        lambda: 3 * (between(NORMAL(0), 0, 9) + between(NORMAL(1), 0, 10)),
    ),
    "bounded above": (lambda: pm.Normal("x", **interval(None, 0.3)), lambda: between(NORMAL(), -12, 0.3)),
    "far in the tail": (
        lambda: pm.Normal("x", **interval(20, None), initval=21.0),
        lambda: float(NORMAL.logsf(20)),
    ),
    "far in a tail without a function of its own": (
        lambda: pm.Gamma("x", 2.0, 1.0, **interval(60, None), initval=61.0),
        lambda: float(stats.gamma(2).logsf(60)),
    ),
    "logarithm": (
        lambda: pm.StudentT("x", nu=3.0, mu=1.0, sigma=2.0, transform=transforms.log, initval=1.0),
        lambda: math.log(stats.t(3, 1, 2).sf(0)),
    ),
    "chained": (
        lambda: pm.Gamma("x", 2.0, 1.0, transform=transforms.Interval(-1, 1), initval=1.0),
        lambda: between(stats.gamma(2), math.exp(-1), math.e),
    ),
    "no distribution function": (
        lambda: pm.VonMises("x", 0.2, 2.0, **interval(-1, 1)),
        lambda: between(stats.vonmises(2, 0.2), -1, 1),
    ),
    "shorter than its own": (lambda: pm.Uniform("x", 0, 4, **interval(1, 2)), lambda: math.log(0.25)),
    "flat in an interval": (lambda: pm.Flat("x", **interval(0, 3), initval=1.0), lambda: math.log(3)),
    "two means in order": (
        lambda: pm.Normal("x", [0.0, 1.0], transform=ORDERED, initval=[0.0, 1.0]),
        lambda: float(NORMAL.logcdf(math.sqrt(0.5))),
    ),
    "three scales in order": (
        lambda: pm.Normal("x", [0.0, 1.0, 0.5], [1.0, 0.1, 3.0], transform=ORDERED, initval=[0.0, 1.0, 2.0]),
        lambda: cone(NORMAL(0), NORMAL(1, 0.1), NORMAL(0.5, 3)),
    ),
    "descending": (
        lambda: pm.Normal("x", [0.0, 1.0], transform=transforms.Ordered(ascending=False), initval=[1.0, 0.0]),
        lambda: float(NORMAL.logsf(math.sqrt(0.5))),
    ),
    "positive and in order": (
        lambda: pm.Normal("x", [0.0, 1.0], transform=transforms.Ordered(positive=True), initval=[1.0, 2.0]),
        lambda: cone(NORMAL(0), NORMAL(1), lower=0.0),
    ),
    "rates in order": (
        lambda: pm.Gamma("x", [1.0, 3.0], 1.0, transform=ORDERED, initval=[1.0, 2.0]),
        lambda: cone(stats.gamma(1), stats.gamma(3)),
    ),
    "heavy tails in order": (
        lambda: pm.Cauchy("x", [0.0, 2.0], 1.0, transform=ORDERED, initval=[0.0, 1.0]),
        lambda: float(stats.cauchy(0, 2).logcdf(2.0)),
    ),
    "correlated in order": (
        lambda: pm.MvNormal("x", [0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]], transform=ORDERED, initval=[0.0, 1.0]),
        lambda: float(NORMAL.logcdf(math.sqrt(0.5))),
    ),
    "without a normaliser": (
        lambda: pm.CustomDist("x", logp=lambda v: -0.5 * (v / 3) ** 2),
        lambda: math.log(3 * math.sqrt(2 * math.pi)),
    ),
    "without a normaliser, entries": (
        lambda: pm.CustomDist("x", [0.0, 5.0, 0.0], logp=lambda v, m: -2 * (v - m) ** 2, shape=3),
        lambda: 1.5 * math.log(math.pi / 2),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_the_integral_of_a_prior(name: str) -> None:
    build, expected = KNOWN[name]
    mass = mass_of(build)
    assert mass is not None and not mass.reason and mass.convention
    assert mass.error < 1e-5
    assert abs(mass.log_mass - expected()) < mass.error + 1e-9


UNKNOWN: dict[str, tuple[Callable[[], Any], str]] = {
    "its bounds cut another variable's prior": (
        lambda: pm.Normal("x", pm.Normal("centre"), transform=transforms.log, initval=1.0),
        "Transform restricts it, .* may depend on centre",
    ),
    "improper": (lambda: pm.Flat("x"), "improper"),
    "improper on one side": (lambda: pm.Flat("x", **interval(0, None), initval=1.0), "improper"),
    "no integral": (lambda: pm.CustomDist("x", logp=lambda v: pt.zeros_like(v)), "the author's own"),
    "given another": (
        lambda: pm.CustomDist("x", pm.Normal("centre"), logp=lambda v, m: -((v - m) ** 2)),
        "the author's own, .* may depend on centre",
    ),
    "an improper part": (
        lambda: pm.GaussianRandomWalk("x", init_dist=pm.Flat.dist(), steps=2),
        "pm.Flat is improper",
    ),
    "an improper component": (
        lambda: pm.Mixture("x", [0.5, 0.5], [pm.Flat.dist(), pm.Normal.dist()]),
        "it is made of Flat: .* improper",
    ),
    "scales of any sign": (
        lambda: pm.LKJCholeskyCov("x", n=2, eta=2.0, sd_dist=pm.Normal.dist(), compute_corr=False),
        "standard deviations may be negative",
    ),
    "another distribution than it is called": (lambda: pm.LKJCorr("x", n=3, eta=2.0), "not that of LKJ"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_prior_whose_integral_is_not_known(name: str) -> None:
    build, reason = UNKNOWN[name]
    mass = mass_of(build)
    assert mass is not None and math.isnan(mass.log_mass)
    with pytest.raises(ValueError, match=reason):
        raise ValueError(mass.reason)


def test_nothing_is_said_of_priors_that_are_normalised() -> None:
    """Those of the tables, and a density that PyMC derives from a random function."""
    for case in CASES[::20]:
        assert audit(analyse(case.build())).masses == ()
    assert mass_of(lambda: pm.CustomDist("x", 0.0, dist=lambda m, size: pt.exp(pm.Normal.dist(m, size=size)))) is None
    assert mass_of(lambda: pm.Truncated("x", pm.Normal.dist(), lower=0.0)) is None
    wide = mass_of(lambda: pm.Normal("x", **interval(-50, 50)))
    assert wide is not None and wide.log_mass == 0 and not wide.convention


# --- LKJ --------------------------------------------------------------------------------------------------------------


def integral_of_factors(eta: float, scale: float) -> float:
    """log ∫ of PyMC's own density of 2 × 2 factors, over (s₁, s₂, θ) with rows (s₁, 0), s₂ (sin θ, cos θ)."""
    with pm.Model() as model:
        pm.LKJCholeskyCov("x", n=2, eta=eta, sd_dist=pm.HalfNormal.dist(scale), compute_corr=False)
    joint = LogJoint.from_model(model)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    sd, angle = 5 * scale * (1 + nodes), math.pi / 2 * nodes
    first, second, theta = (v.ravel() for v in np.meshgrid(sd, sd, angle, indexing="ij"))
    rule = np.einsum("i,j,k->ijk", 5 * scale * weights, 5 * scale * weights, math.pi / 2 * weights).ravel()
    packed = np.stack([first, second * np.sin(theta), second * np.cos(theta)], axis=1)
    (log_density,) = over_draws([joint.total], joint.values)({"x": packed}, len(packed))
    return math.log(np.sum(rule * np.exp(log_density) * second))


@pytest.mark.parametrize(("eta", "expected"), [(1.5, 0.903165410579), (4.0, None)])
def test_lkj_constant(eta: float, expected: float | None) -> None:
    mass = mass_of(lambda: pm.LKJCholeskyCov("x", n=2, eta=eta, sd_dist=pm.HalfNormal.dist(0.7), compute_corr=False))
    assert mass is not None
    assert mass.log_mass == pytest.approx(integral_of_factors(eta, 0.7), abs=2e-6)
    assert expected is None or mass.log_mass == pytest.approx(expected, abs=1e-9)
    assert "divided by" in mass.convention


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 5])
def test_lkj_of_scales_that_are_estimated(n: int) -> None:
    """The constant is that of the correlations alone: it does not depend on what the scales depend on."""

    def build(sd: Any) -> None:
        pm.LKJCholeskyCov("x", n=n, eta=1.5, sd_dist=sd, compute_corr=False)

    one = mass_of(lambda: build(pm.HalfNormal.dist(1.0)))
    two = mass_of(lambda: build(pm.Exponential.dist(pm.HalfNormal("rate"))))
    assert one is not None and two is not None
    assert one.log_mass == pytest.approx(two.log_mass, abs=1e-12)


def test_lkj_once_pymc_has_mended_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log_constants = {(2, 2.0): math.log(4 / 3), (3, 1.0): math.log(math.pi**2 / 2)}
    monkeypatch.setattr(multivariate, "_lkj_normalizing_constant", lambda eta, n: pt.constant(-log_constants[n, eta]))
    for n, eta in log_constants:
        sd = pm.HalfNormal.dist(1.0)
        mass = mass_of(lambda: pm.LKJCholeskyCov("x", n=n, eta=eta, sd_dist=sd, compute_corr=False))  # noqa: B023
        assert mass is not None
        assert mass.log_mass == pytest.approx(0.0, abs=1e-12)
        assert not mass.convention and not mass.reason


# --- one evidence on every path ---------------------------------------------------------------------------------------


def truncated_mean() -> None:
    pm.StudentT("y", nu=4.0, mu=pm.Normal("x", **interval(0, 2), initval=1.0), sigma=1.0, observed=Y)


def likelihood(mean: Any) -> Any:
    return np.prod(stats.t.pdf(Y, 4, mean, 1))


def truncated_oracle() -> float:
    value, _ = integrate.quad(lambda t: stats.norm.pdf(t) * likelihood(t), 0, 2, epsrel=1e-11)
    return math.log(value / (stats.norm.cdf(2) - 0.5))


def cone_of_means() -> None:
    x = pm.Normal("x", [0.0, 1.0], transform=ORDERED, initval=[-1.0, 1.0])
    pm.Normal("y", x[[0, 1, 1]], 1.0, observed=Y)


def cone_oracle() -> float:
    """The posterior without the restriction is Normal; P(x₁ < x₂) before and after the data."""
    mean, sd = np.array([Y[0] / 2, (1 + Y[1] + Y[2]) / 3]), np.sqrt([1 / 2, 1 / 3])
    free = stats.norm.logpdf(Y[0], 0, math.sqrt(2)) + stats.multivariate_normal.logpdf(Y[1:], [1, 1], np.eye(2) + 1)
    after = stats.norm.logcdf((mean[1] - mean[0]) / np.hypot(*sd))
    return float(free + after - stats.norm.logcdf(math.sqrt(0.5)))


def penalised() -> None:
    x = pm.Normal("x")
    pm.Potential("penalty", -(x**4))
    pm.StudentT("y", nu=4.0, mu=x, sigma=1.0, observed=Y)


def penalised_oracle() -> float:
    """As written: the Potential is a part of the density like any other."""
    value, _ = integrate.quad(lambda t: stats.norm.pdf(t) * math.exp(-(t**4)) * likelihood(t), -8, 8, epsrel=1e-11)
    return math.log(value)


PATHS = {
    "interval": (truncated_mean, truncated_oracle, "divided by 0.47725, what its transform Interval leaves of it"),
    "cone": (cone_of_means, cone_oracle, "divided by 0.76025, what its transform Ordered leaves of it"),
    "potential": (penalised, penalised_oracle, "as written: the Potential penalty has no normaliser"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PATHS)
def test_the_same_evidence_by_quadrature_and_by_nuts(name: str) -> None:
    build, oracle, said = PATHS[name]
    with pm.Model() as model:
        build()
    assert bk.explain(model).notes
    exact = oracle()
    for method in ("quadrature", "nuts"):
        evidence = bk.infer(model, method=method, draws=2000, random_seed=1, progressbar=False).log_evidence
        assert evidence.convention.endswith(said)
        if method == "quadrature":
            assert abs(evidence.value - exact) <= evidence.error + 1e-9
        else:
            assert abs(evidence.value - exact) < 4 * evidence.error < 0.1


@pytest.mark.slow
def test_a_potential_in_closed_form_is_what_the_sampler_estimates() -> None:
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("penalty", -(x**2))
        pm.Normal("y", x, 1.0, observed=Y)
    exact = bk.infer(model, draws=4, random_seed=1).log_evidence
    found = bk.infer(model, method="nuts", draws=2000, random_seed=1, progressbar=False).log_evidence
    assert exact.label == "exact" and found.label == "estimated"
    assert abs(found.value - exact.value) < 4 * found.error < 0.02
    assert exact.convention == found.convention != ""


@pytest.mark.slow
def test_lkj_from_draws() -> None:
    """Rows of a covariance, against Gauss and Legendre's rule over (s₁, s₂, r); from independent draws by rejection."""
    rows = np.random.default_rng(1).normal(size=(6, 2))
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("x", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))
        pm.MvNormal("y", np.zeros(2), chol=chol, observed=rows)
    nodes, weights = np.polynomial.legendre.leggauss(50)
    first, second, r = np.meshgrid(4 * (nodes + 1), 4 * (nodes + 1), nodes, indexing="ij")
    (a, b), (_, c) = rows.T @ rows
    square = a / first**2 - 2 * r * b / (first * second) + c / second**2
    log_density = -0.5 * square / (1 - r**2) - 6 * np.log(2 * np.pi * first * second * np.sqrt(1 - r**2))
    prior = 0.75 * (1 - r**2) * stats.halfnorm.pdf(first) * stats.halfnorm.pdf(second)
    value = np.einsum("ijk,i,j,k->", prior * np.exp(log_density), 4 * weights, 4 * weights, weights)
    rng = np.random.default_rng(2)
    s, t = np.abs(rng.normal(size=(2, 200_000)))
    r = 2 * rng.beta(2.0, 2.0, size=s.size) - 1
    log_likelihood = -0.5 * (a / s**2 - 2 * r * b / (s * t) + c / t**2) / (1 - r**2)
    log_likelihood -= 6 * np.log(s * t * np.sqrt(1 - r**2))
    largest = -6 - 3 * np.linalg.slogdet(rows.T @ rows / 6)[1]  # at the rows' own covariance
    kept = np.flatnonzero(np.log(rng.random(s.size)) < log_likelihood - largest)[:2000]
    assert kept.size == 2000
    s, t, r = s[kept], t[kept], r[kept]
    # PyMC's packed factor has the logarithms of its diagonal.
    factor = np.stack([np.log(s), t * r, np.log(t * np.sqrt(1 - r**2))], axis=1)
    (name,) = (str(v.name) for v in model.value_vars)
    found = evidence_of_draws(analyse(model), model, {name: factor.reshape(4, 500, 3)}, xr.Dataset(), 1)
    assert abs(found.value - math.log(value)) < 4 * found.error < 0.1
    assert "divided by 1.77778" in found.convention


def hierarchy() -> None:
    x = pm.Normal("x", pm.Normal("centre"), transform=transforms.log, initval=1.0)
    pm.StudentT("y", nu=4.0, mu=x, sigma=1.0, observed=Y)


@pytest.mark.slow
def test_what_has_no_evidence_has_none_on_any_path_and_all_else() -> None:
    with pm.Model() as model:
        hierarchy()
    plan = bk.explain(model)
    (note,) = plan.notes
    assert note.startswith("no log evidence: the prior of x is not known to be normalised")
    for method, label in (("quadrature", "quadrature"), ("nuts", "estimated")):
        post = bk.infer(model, method=method, draws=400, random_seed=1, progressbar=False)
        assert post.method == method and note in post.plan.notes
        assert math.isnan(post.log_evidence.value) and post.log_evidence.error == math.inf
        assert post.log_evidence.label == label
        assert f"no log evidence: {post.log_evidence.reason}" == note
        assert np.all(post.tree["posterior"]["x"].to_numpy() > 0)
    assert "will be estimated" not in str(plan)


def test_quadrature_of_an_unnormalised_prior_gives_its_marginal() -> None:
    with pm.Model() as model:
        hierarchy()
    post = bk.infer(model, method="quadrature", draws=40, random_seed=1)

    def density(x: float) -> float:
        return float(stats.norm.pdf(x, 0, math.sqrt(2)) * likelihood(x))

    total, first = (integrate.quad(lambda t, k=k: t**k * density(t), 0, 12)[0] for k in (0, 1))
    assert post.marginal("x").mean() == pytest.approx(first / total, rel=1e-6)


def test_an_interval_shorter_than_the_support_is_not_overlooked() -> None:
    """A Uniform variable has an Interval of its own: another one of the same class is another model."""
    with pm.Model() as model:
        pm.Binomial("y", 10, pm.Uniform("x", 0.0, 1.0, **interval(0.2, 0.5), initval=0.3), observed=3)
    assert bk.explain(model).method == "quadrature"
    post = bk.infer(model, draws=40, random_seed=1)
    beta = stats.beta(4, 8)
    assert post.log_evidence.value == pytest.approx(
        math.log((beta.cdf(0.5) - beta.cdf(0.2)) / 11 / 0.3), abs=post.log_evidence.error + 1e-9
    )


def test_the_mass_follows_the_data() -> None:
    with pm.Model() as model:
        centre = pm.Data("centre", 0.0)
        x = pm.Normal("x", centre, 1.0, transform=transforms.log, initval=1.0)
        pm.StudentT("y", nu=4.0, mu=x, sigma=1.0, observed=Y)
    post = bk.infer(model, method="quadrature", draws=4, random_seed=1)
    other = bk.infer(post.analysis.with_data({"centre": 1.0}), method="quadrature", draws=4, random_seed=1)
    for found, mean in ((post, 0.0), (other, 1.0)):
        value, _ = integrate.quad(lambda t, m=mean: stats.norm.pdf(t, m) * likelihood(t), 0, 12, epsrel=1e-11)
        expected = math.log(value / stats.norm.cdf(mean))
        assert abs(found.log_evidence.value - expected) <= found.log_evidence.error + 1e-9
