"""Collapsed densities: the identities that hold for every model, and textbook marginal likelihoods."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from remainder_cases import REMAINDERS, Remainder
from scipy import stats

import bayeskit as bk
from bayeskit.elimination.check_points import typical_points
from bayeskit.elimination.collapsed_density import Collapsed, collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.recovery import Recovery
from bayeskit.graphs.compile import compile_small, small_mode
from bayeskit.graphs.environment import lightly
from bayeskit.graphs.rewriting import inline
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.unconstrained import Unconstrained

BY_NAME = {c.name: c for c in REMAINDERS}
KNOWN = [c for c in REMAINDERS if c.log_marginal is not None]


@cache
def collapsed_of(name: str) -> Collapsed:
    with lightly():
        return collapsed_density(analyse(BY_NAME[name].build()))


@pytest.fixture(params=REMAINDERS, ids=str)
def case(request: pytest.FixtureRequest) -> Remainder:
    return request.param


@cache
def log_marginal_of(name: str) -> Callable[..., Any]:
    collapsed = collapsed_of(name)
    factors = [pt.sum(collapsed.analysis.joint.factors[n]) for n in collapsed.priors]
    return compile_small(collapsed.inputs, inline([pt.add(collapsed.likelihood, pt.constant(0.0), *factors)])[0])


def log_marginal(case: Remainder, point: dict[str, np.ndarray]) -> float:
    """log p(y, φ) with the priors of φ."""
    return float(log_marginal_of(case.name)(*[point[n] for n in collapsed_of(case.name).remaining]))


@pytest.mark.slow
def test_what_remains(case: Remainder) -> None:
    assert collapsed_of(case.name).remaining == case.remaining


@pytest.mark.slow
def test_collapsed_plus_conditional_is_the_joint(case: Remainder) -> None:
    """log p(y, φ) + log p(θ | φ, y) = log p(y, θ, φ), with PyMC's own density on the right."""
    collapsed = collapsed_of(case.name)
    recovery = Recovery(collapsed)
    joint = LogJoint.from_model(collapsed.analysis.joint.model)
    scopes = collapsed.analysis.ancestral
    leaves = compile_small(
        list(joint.values.values()), pt.add(pt.constant(0.0), *[pt.sum(joint.factors[n]) for n in scopes])
    )
    for k, point in enumerate(typical_points(collapsed.analysis, 3, random_seed=17)):
        drawn = recovery.draw({n: point[n][None] for n in collapsed.remaining}, np.random.default_rng(k))
        full = {n: v[0] for n, v in drawn.items()}
        total = joint.logp(full) - float(leaves(*[full[n] for n in joint.values]))
        parts = log_marginal(case, full) + recovery.log_density(full)
        assert parts == pytest.approx(total, rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_gradient_against_differences(case: Remainder) -> None:
    with lightly():
        space = Unconstrained(collapsed_model(collapsed_of(case.name)))
    point = space.start + 0.1 * np.random.default_rng(3).normal(size=space.size)
    value, gradient = space.value_and_gradient(point)
    assert value == pytest.approx(space.log_density(point)[0], rel=1e-12, abs=1e-12)
    step = 1e-4
    sides = np.concatenate([point + k * step * np.eye(space.size) for k in (-2, -1, 1, 2)])
    f = space.log_density(sides).reshape(4, -1)
    differences = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)
    assert gradient == pytest.approx(differences, rel=1e-6, abs=1e-6 * max(1.0, np.abs(gradient).max()))


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_marginal_likelihood_is_the_textbook_one(known: Remainder) -> None:
    collapsed = collapsed_of(known.name)
    assert known.log_marginal is not None
    for point in typical_points(collapsed.analysis, 3, random_seed=5):
        phi = np.concatenate([np.ravel(point[n]) for n in known.remaining])
        expected = known.log_marginal(*phi) + sum(float(p.logpdf(f)) for p, f in zip(known.priors, phi, strict=True))
        # A latent process has a covariance with a jitter of 1e-9 that the textbook formula does not have.
        loose = 1e-6 if known.name.startswith("process") and "marginal" not in known.name else 1e-9
        assert log_marginal(known, point) == pytest.approx(expected, rel=loose, abs=loose)


def test_recovered_draws_have_the_conditional_moments() -> None:
    """Eight schools at τ = 3: θ | τ, y is Normal with the moments of the textbook (Gelman et al., section 5.4)."""
    from remainder_cases import EFFECT, ERROR

    collapsed = collapsed_of("eight schools, centred")
    draws = Recovery(collapsed).draw({"tau": np.full(40_000, 3.0)}, np.random.default_rng(1))
    covariance = np.diag(ERROR**2 + 9.0)
    precision = np.sum(1 / np.diag(covariance)) + 1 / 25
    mu = np.sum(EFFECT / np.diag(covariance)) / precision
    theta = (EFFECT / ERROR**2 + mu / 9.0) / (1 / ERROR**2 + 1 / 9.0)
    assert draws["mu"].mean() == pytest.approx(mu, abs=5 * precision**-0.5 / 200)
    assert draws["mu"].std() == pytest.approx(precision**-0.5, rel=0.02)
    assert draws["theta"].mean(axis=0) == pytest.approx(theta, abs=5 * draws["theta"].std() / 200)


@pytest.mark.parametrize("rows", [2_000, 50_000])
def test_data_are_reduced_to_sufficient_statistics(rows: int) -> None:
    """No constant of the collapsed graph is as long as the data."""
    rng = np.random.default_rng(0)
    features, group = rng.normal(size=(rows, 3)), np.arange(rows) % 5
    with pm.Model() as model:
        sigma, tau = pm.HalfNormal("sigma", shape=5), pm.HalfCauchy("tau", 1.0)
        weights = pm.Normal("weights", 0.0, tau, shape=3)
        level = pm.Normal("level", 0.0, 1.0, shape=5)
        pm.Normal("y", level[group] + pt.dot(features, weights), sigma[group], observed=rng.normal(size=rows))
        pm.Normal("z", 0.0, sigma[0], observed=rng.normal(size=rows))
    collapsed = collapsed_density(analyse(model))
    largest = max(np.size(v.data) for v in graph_inputs(inline([collapsed.likelihood])) if isinstance(v, Constant))
    assert largest < 1_500


@pytest.mark.slow
def test_a_chain_of_many_steps_against_the_kalman_filter() -> None:
    """Products of 32-bit indices overflow from 46,341 states on."""
    steps, move, noise = 50_000, 0.3, 0.8
    rng = np.random.default_rng(2)
    y = np.cumsum(move * rng.normal(size=steps)) + noise * rng.normal(size=steps)
    with pm.Model() as model:
        a, b = pm.HalfNormal("move"), pm.HalfNormal("noise")
        state = pm.GaussianRandomWalk("state", sigma=a, init_dist=pm.Normal.dist(0.0, 10.0), steps=steps - 1)
        pm.Normal("y", state, b, observed=y)
    at = np.log([move, noise])
    value, _ = Unconstrained(bk.collapse(model)).value_and_gradient(at)
    mean, variance, expected = 0.0, 100.0, stats.halfnorm.logpdf([move, noise]).sum() + at.sum()
    for observation in y:
        total = variance + noise**2
        expected += -0.5 * np.log(2 * np.pi * total) - 0.5 * (observation - mean) ** 2 / total
        gain = variance / total
        mean, variance = mean + gain * (observation - mean), (1 - gain) * variance + move**2
    assert value == pytest.approx(expected, rel=1e-11)


@pytest.mark.slow
def test_collapsed_model_is_a_plain_model() -> None:
    coords = {"school": list("abcdefgh")}
    with pm.Model(coords=coords) as model:
        tau = pm.HalfCauchy("tau", 5.0, dims="school")
        theta = pm.Normal("theta", pm.Normal("mu", 0.0, 5.0), tau, dims="school")
        pm.Normal("y", theta, 1.0, observed=np.arange(8.0), dims="school")
    small = bk.collapse(model)
    assert isinstance(small, pm.Model)
    assert [rv.name for rv in small.free_RVs] == ["tau"]
    assert small.named_vars_to_dims["tau"] == ("school",)
    assert list(small.coords["school"]) == coords["school"]
    assert [p.name for p in small.potentials] == ["log_marginal"]
    # As PyMC's own samplers ask for it: value and gradient in one function. Here with the Python linker: numba takes
    # two minutes, and test_data_side.py compares what it makes of such a density.
    at = np.log(np.linspace(1.0, 5.0, 8))
    with lightly():
        function = small.logp_dlogp_function(ravel_inputs=True, mode=small_mode())
    value, gradient = function(at)

    def expected(at: np.ndarray) -> float:
        """The effects and mu integrated out by hand: the data are one multivariate Normal."""
        covariance = 25.0 + np.diag(np.exp(2 * at) + 1.0)
        likelihood = stats.multivariate_normal(cov=covariance).logpdf(np.arange(8.0))
        return float(likelihood + np.sum(stats.halfcauchy(scale=5.0).logpdf(np.exp(at)) + at))

    # In the prior, which is PyMC's own, PyTensor takes the logarithm of 5.0 in single precision.
    assert value == pytest.approx(expected(at), abs=1e-6)
    differences = [(expected(at + 1e-5 * d) - expected(at - 1e-5 * d)) / 2e-5 for d in np.eye(8)]
    assert gradient == pytest.approx(differences, rel=1e-6, abs=1e-8)


def test_prior_of_a_remaining_variable_whose_parent_is_eliminated() -> None:
    """x | mu remains because of its Poisson data; mu is integrated out of its prior."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 1.0, 2.0)
        x = pm.Normal("x", mu, 0.5)
        pm.Poisson("y", pt.exp(x), observed=3)
    space = Unconstrained(bk.collapse(model))
    for value in (-1.0, 0.3, 2.0):
        from scipy import stats

        expected = stats.norm(1.0, np.sqrt(4.25)).logpdf(value) + stats.poisson(np.exp(value)).logpmf(3)
        assert space.log_density(np.array([[value]]))[0] == pytest.approx(expected, rel=1e-12)


def test_recover_gives_everything_back() -> None:
    model = BY_NAME["eight schools, non-centred"].build()
    small = bk.collapse(model)
    fake = az.from_dict({"posterior": {"tau": np.random.default_rng(0).uniform(1, 9, size=(2, 50))}})
    tree = bk.recover(model, fake, random_seed=1)
    posterior = tree["posterior"]
    assert set(posterior.data_vars) == {"mu", "tau", "z", "theta"}
    assert posterior["theta"].shape == (2, 50, 8)
    assert np.array_equal(posterior["tau"], fake["posterior"]["tau"])
    rebuilt = posterior["mu"] + posterior["tau"] * posterior["z"]
    assert np.allclose(rebuilt, posterior["theta"])
    assert [rv.name for rv in small.free_RVs] == ["tau"]
    with pytest.raises(bk.BayeskitError, match="no draws of tau"):
        bk.recover(model, az.from_dict({"posterior": {"other": np.zeros((1, 5))}}))


def test_nothing_to_collapse_onto() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("m"), 1.0, observed=[0.0])
    with pytest.raises(bk.BayeskitError, match="nothing remains"):
        bk.collapse(model)


def test_small_scales_do_not_lose_the_integral() -> None:
    """At τ = 1e-20 the precision of the effects is 1e40, and the integral that of complete pooling."""
    for name in ("eight schools, centred", "eight schools, non-centred"):
        space = Unconstrained(bk.collapse(BY_NAME[name].build()))
        values = space.log_density(np.array([[-46.0], [-30.0], [-20.0]])) - np.array([-46.0, -30.0, -20.0])
        assert np.ptp(values) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8, 9])
def test_hierarchies_of_every_depth(depth: int) -> None:
    """x_1 ~ Normal(0, τ), x_k ~ Normal(x_{k−1}, τ), y_kn ~ Normal(x_k, 0.5), declared in a random order of the data."""
    rng = np.random.default_rng(depth)
    y = rng.normal(size=(depth, 4))
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        levels: list[pt.TensorVariable] = []
        for k in range(depth):
            levels.append(pm.Normal(f"x{k}", levels[-1] if levels else 0.0, tau))
        for k in rng.permutation(depth):
            pm.Normal(f"y{k}", levels[k], 0.5, observed=y[k])
    space = Unconstrained(bk.collapse(model))
    order = np.minimum.outer(np.arange(1, depth + 1), np.arange(1, depth + 1))
    for scale in (1e-9, 0.3, 40.0):
        covariance = scale**2 * np.kron(order, np.ones((4, 4))) + 0.25 * np.eye(4 * depth)
        expected = stats.multivariate_normal(cov=covariance).logpdf(y.ravel())
        expected += stats.halfnorm.logpdf(scale) + np.log(scale)
        value, gradient = space.value_and_gradient(np.array([np.log(scale)]))
        assert value == pytest.approx(expected, rel=1e-9)
        assert space.log_density(np.array([np.log(scale)]))[0] == pytest.approx(expected, rel=1e-9)
        assert np.isfinite(gradient).all()
    far = space.log_density(np.array([[-800.0], [0.0], [800.0]]))
    assert np.isfinite(far[1])
