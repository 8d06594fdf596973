"""Bridge sampling: its standard error against densities of known integral, and what it must refuse."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import sparse, special, stats

import bayeskit as bk
from bayeskit.elimination.plan import analyse
from bayeskit.marginal_likelihood import bridge_sides
from bayeskit.marginal_likelihood.bridge import bridge, estimate
from bayeskit.marginal_likelihood.estimators import Target as EstimatorTarget
from bayeskit.marginal_likelihood.sampled import evidence_of_draws
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.results.records import LogEvidence

LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Target:
    """A log density, the log of its integral, and independent draws of shape (n, D)."""

    log_density: Callable[[np.ndarray], np.ndarray]
    log_integral: float
    draw: Callable[[np.random.Generator, int], np.ndarray]


def gaussian(size: int) -> Target:
    root = np.linalg.cholesky(stats.wishart(size + 2, np.eye(size)).rvs(random_state=1).reshape(size, size))
    log_volume = float(np.log(np.diag(root)).sum())

    def log_density(x: np.ndarray) -> np.ndarray:
        return 700.0 - 0.5 * np.sum(np.linalg.solve(root, x.T - 3.0) ** 2, axis=0)

    return Target(
        log_density, 700.0 + log_volume + size / 2 * LOG_2PI, lambda rng, n: 3 + rng.normal(size=(n, size)) @ root.T
    )


def student(size: int) -> Target:
    constant = special.gammaln(1.5 + size / 2) - special.gammaln(1.5) - size / 2 * math.log(3 * math.pi)
    return Target(
        lambda x: -(3 + size) / 2 * np.log1p(np.sum(x**2, axis=1) / 3),
        -float(constant),
        lambda rng, n: rng.normal(size=(n, size)) * np.sqrt(3 / rng.chisquare(3, size=(n, 1))),
    )


def log_gamma(size: int) -> Target:
    return Target(
        lambda x: np.sum(0.7 * x - np.exp(x), axis=1),
        size * float(special.gammaln(0.7)),
        lambda rng, n: np.log(rng.gamma(0.7, size=(n, size))),
    )


def banana(size: int) -> Target:
    """x₂ is Normal about x₁²: two dimensions at least."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        x = rng.normal(size=(n, size))
        x[:, 1] = x[:, 0] ** 2 + 0.5 * x[:, 1]
        return x

    def log_density(x: np.ndarray) -> np.ndarray:
        return -0.5 * np.sum(x**2, axis=1) + 0.5 * x[:, 1] ** 2 - 2 * (x[:, 1] - x[:, 0] ** 2) ** 2

    return Target(log_density, size / 2 * LOG_2PI - math.log(2), draw)


def skew_normal(size: int) -> Target:
    return Target(
        lambda x: np.sum(stats.norm.logpdf(x) + stats.norm.logcdf(5 * x), axis=1) + size * math.log(2) + 1.0,
        1.0,
        lambda rng, n: stats.skewnorm(5).rvs(size=(n, size), random_state=rng),
    )


# Each shape, and each number of dimensions, by some.
SHAPES = ((gaussian, 1), (skew_normal, 1), (student, 5), (banana, 5), (gaussian, 12), (log_gamma, 20))
TARGETS = [pytest.param(make(size), id=f"{make.__name__}, {size}") for make, size in SHAPES]


def scores(target: Target, estimates: list[LogEvidence]) -> np.ndarray:
    kept = [e for e in estimates if math.isfinite(e.value)]
    assert len(kept) >= 0.95 * len(estimates), [e.reason for e in estimates if e.reason]
    return np.array([(e.value - target.log_integral) / e.error for e in kept])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_standard_error_is_honest(target: Target) -> None:
    """z-scores over many sets of independent draws: no bias, and errors neither too small nor far too large."""
    size = target.draw(np.random.default_rng(0), 1).shape[1]
    estimates = [
        bridge(
            target.log_density,
            target.draw(np.random.default_rng([1, k]), 600).reshape(4, 150, size),
            random_seed=k,
        )
        for k in range(24)
    ]
    z = scores(target, estimates)
    assert abs(z.mean()) < 0.5
    assert 0.55 < z.std() < 1.3
    assert np.abs(z).max() < 4.5


def autocorrelated(rng: np.random.Generator, shape: tuple[int, int, int], rho: float) -> np.ndarray:
    noise = rng.normal(size=shape)
    x = noise.copy()
    for t in range(1, shape[1]):
        x[:, t] = rho * x[:, t - 1] + math.sqrt(1 - rho**2) * noise[:, t]
    return x


@pytest.mark.slow
def test_standard_error_of_autocorrelated_draws() -> None:
    """Each draw is worth about a sixth of an independent one."""
    target = log_gamma(2)
    gamma = stats.gamma(0.7)
    estimates = []
    for k in range(25):
        x = autocorrelated(np.random.default_rng([2, k]), (4, 400, 2), 0.7)
        estimates.append(bridge(target.log_density, np.log(gamma.ppf(stats.norm.cdf(x))), random_seed=k))
    z = scores(target, estimates)
    assert abs(z.mean()) < 0.6
    assert 0.5 < z.std() < 1.4


def two_modes(distance: float, size: int) -> Target:
    """Two Normals of equal weight, ``distance`` standard deviations apart along the first axis."""

    def log_density(x: np.ndarray) -> np.ndarray:
        square = np.sum(x[:, 1:] ** 2, axis=1)
        ends = [-0.5 * ((x[:, 0] - end) ** 2 + square) for end in (0.0, distance)]
        return np.logaddexp(*ends) - math.log(2)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        x = rng.normal(size=(n, size))
        x[:, 0] += distance * rng.integers(2, size=n)
        return x

    return Target(log_density, size / 2 * LOG_2PI, draw)


def test_chains_that_move_between_modes() -> None:
    for size in (1, 5):
        target = two_modes(6.0, size)
        estimate = bridge(
            target.log_density, target.draw(np.random.default_rng(1), 4000).reshape(4, 1000, size), random_seed=1
        )
        assert abs(estimate.value - target.log_integral) < 4 * estimate.error < 0.3


@pytest.mark.parametrize("distance", [2.0, 6.0, 20.0])
@pytest.mark.parametrize("size", [1, 20])
def test_chains_in_different_modes_are_refused(distance: float, size: int) -> None:
    draws = np.random.default_rng(1).normal(size=(4, 500, size))
    draws[2:, :, 0] += distance
    estimate = bridge(two_modes(distance, size).log_density, draws, random_seed=1)
    assert math.isnan(estimate.value) and estimate.error == math.inf
    assert "the chains disagree" in estimate.reason
    assert "the chains disagree" in str(estimate)


@pytest.mark.parametrize(("distance", "size"), [(3.0, 1), (6.0, 1), (10.0, 1), (6.0, 2)])
def test_a_mode_that_no_chain_found_is_seen_in_few_dimensions(distance: float, size: int) -> None:
    draws = np.random.default_rng(1).normal(size=(4, 500, size))
    assert math.isnan(bridge(two_modes(distance, size).log_density, draws, random_seed=1).value)


def test_limit_a_mode_that_no_chain_found_in_many_dimensions() -> None:
    """The documented limit: the estimate is that of the mode that was visited, half of the whole."""
    target = two_modes(20.0, 20)
    estimate = bridge(target.log_density, np.random.default_rng(1).normal(size=(4, 500, 20)), random_seed=1)
    assert estimate.value == pytest.approx(target.log_integral - math.log(2), abs=4 * estimate.error)


def refused(log_density: Callable[[np.ndarray], np.ndarray], draws: np.ndarray, reason: str) -> None:
    estimate = bridge(log_density, draws, random_seed=1)
    assert math.isnan(estimate.value) and estimate.error == math.inf and estimate.label == "estimated"
    assert reason in estimate.reason


def test_draws_that_cannot_be_trusted_are_refused() -> None:
    target = gaussian(2)
    rng = np.random.default_rng(1)
    draws = target.draw(rng, 2000).reshape(4, 500, 2)
    f = target.log_density
    refused(f, draws[:, :3], "too few draws")
    refused(f, draws[:, :20], "too few effective draws")
    refused(f, draws[..., [0, 0]], "covariance is singular")
    refused(f, np.where(draws > 9, np.inf, draws), "not finite on the unconstrained scale")
    refused(lambda x: np.where(x[:, 0] > 4, -np.inf, f(x)), draws, "not finite at every draw")
    refused(lambda x: np.full(len(x), -np.inf), draws, "not finite at every draw")
    # Draws that are too narrow or in the wrong place for the density.
    centre = draws.mean(axis=(0, 1))
    refused(f, centre + 0.6 * (draws - centre), "do not follow the density")
    refused(lambda x: f(x - 3 * draws.std(axis=(0, 1))), draws, "")


def test_what_could_not_be_evaluated_is_part_of_the_error() -> None:
    """The density is lost in one tail, where no draw lies, but where some proposals do."""
    target = gaussian(1)
    draws = np.sort(target.draw(np.random.default_rng(1), 2000).ravel())[:-40]
    edge = draws[-1]
    draws = np.random.default_rng(2).permutation(draws).reshape(4, 490, 1)
    estimate = bridge(lambda x: np.where(x[:, 0] > edge, np.nan, target.log_density(x)), draws, random_seed=1)
    assert abs(estimate.value - target.log_integral) < estimate.error


def test_the_same_seed_gives_the_same_number() -> None:
    target = banana(5)
    draws = target.draw(np.random.default_rng(1), 2000).reshape(4, 500, 5)
    one, two, other = (bridge(target.log_density, draws, random_seed=k) for k in (1, 1, 2))
    assert one == two
    assert one.value != other.value


def test_cost_is_a_few_thousand_evaluations() -> None:
    target, count = student(5), 0

    def counted(x: np.ndarray) -> np.ndarray:
        nonlocal count
        count += len(x)
        return target.log_density(x)

    bridge(counted, target.draw(np.random.default_rng(1), 20_000).reshape(4, 5000, 5), random_seed=1)
    assert count <= 9_000


# --- exchangeable components ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labelled:
    """K Normals, one a coordinate, in every order: a density of K! modes, and draws from one of them."""

    size: int
    distance: float

    @property
    def centres(self) -> np.ndarray:
        return self.distance * np.arange(self.size)

    @property
    def scales(self) -> np.ndarray:
        return 0.5 + 0.5 * np.arange(self.size) / self.size

    @property
    def orders(self) -> list[list[int]]:
        return [list(p) for p in itertools.permutations(range(self.size))]

    @property
    def symmetries(self) -> list[sparse.csr_array]:
        return [sparse.csr_array(np.eye(self.size)[order]) for order in self.orders]

    @property
    def log_integral(self) -> float:
        return math.log(math.factorial(self.size))

    def log_density(self, x: np.ndarray) -> np.ndarray:
        each = [stats.norm.logpdf(x[:, order], self.centres, self.scales).sum(axis=1) for order in self.orders]
        return np.asarray(special.logsumexp(each, axis=0))

    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return np.asarray(self.centres + self.scales * rng.normal(size=(*shape, self.size)))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "distance"), [(2, 0.0), (3, 1.0), (2, 10.0)])
def test_sum_over_labellings_has_an_honest_error(size: int, distance: float) -> None:
    """Modes that coincide, overlap and are far apart, by chains that visit them all."""
    target = Labelled(size, distance)
    estimates = []
    for k in range(20):
        rng = np.random.default_rng([7, k])
        draws = rng.permuted(target.draw(rng, (4, 150)), axis=-1)
        estimates.append(bridge(target.log_density, draws, random_seed=k, symmetries=target.symmetries))
    z = np.array([(e.value - target.log_integral) / e.error for e in estimates])
    assert abs(z.mean()) < 0.7 and 0.4 < z.std() < 1.4 and np.abs(z).max() < 4


def test_chains_in_one_labelling_or_in_different_ones_give_the_same_number() -> None:
    """Without the symmetries the first misses log K!, and the second is refused."""
    target = Labelled(3, 10.0)
    one = target.draw(np.random.default_rng(1), (4, 500))
    several = np.stack([chain[:, order] for chain, order in zip(one, target.orders, strict=False)])
    for draws in (one, several):
        estimate = bridge(target.log_density, draws, random_seed=1, symmetries=target.symmetries)
        assert abs(estimate.value - target.log_integral) < 4 * estimate.error < 0.05
    missed = bridge(target.log_density, one, random_seed=1)
    assert abs(missed.value) < 4 * missed.error
    assert "the chains disagree" in bridge(target.log_density, several, random_seed=1).reason


def test_without_symmetries_or_with_the_identity_alone_nothing_changes() -> None:
    target = banana(3)
    draws = target.draw(np.random.default_rng(1), 2000).reshape(4, 500, 3)
    alone = bridge(target.log_density, draws, random_seed=1, symmetries=[sparse.eye_array(3, format="csr")])
    assert alone == bridge(target.log_density, draws, random_seed=1)


def test_a_density_that_is_not_invariant_is_refused() -> None:
    target = Labelled(2, 3.0)
    draws = target.draw(np.random.default_rng(1), (4, 500))
    estimate = bridge(
        lambda x: target.log_density(x) + 1e-4 * x[:, 0], draws, random_seed=1, symmetries=target.symmetries
    )
    assert "changes with the labels" in estimate.reason


def test_chains_in_modes_that_no_labelling_joins_are_refused() -> None:
    target = Labelled(2, 3.0)

    def two_pairs(x: np.ndarray) -> np.ndarray:
        return np.logaddexp(target.log_density(x), target.log_density(x - 50.0))

    draws = target.draw(np.random.default_rng(1), (4, 500))
    draws[2:] += 50.0
    assert "the chains disagree" in bridge(two_pairs, draws, random_seed=1, symmetries=target.symmetries).reason


def test_cost_of_a_sum_over_labellings_is_one_evaluation_a_draw_more() -> None:
    target, count = Labelled(3, 5.0), 0

    def counted(x: np.ndarray) -> np.ndarray:
        nonlocal count
        count += len(x)
        return target.log_density(x)

    bridge(counted, target.draw(np.random.default_rng(1), (4, 3000)), random_seed=1, symmetries=target.symmetries)
    assert count <= 11_000


# --- of models --------------------------------------------------------------------------------------------------------


def by_nuts(model: pm.Model) -> LogEvidence:
    return bk.infer(model, method="nuts", draws=1000, random_seed=1, progressbar=False).log_evidence


def agrees(estimate: LogEvidence, exact: float, largest_error: float = 0.1) -> None:
    assert estimate.label == "estimated" and not estimate.reason
    assert 0 < estimate.error < largest_error
    assert abs(estimate.value - exact) < 4 * estimate.error


def by_draws(model: pm.Model, draws: dict[str, np.ndarray]) -> LogEvidence:
    """From independent draws (chain, draw, ...) of the value variables, in place of those of NUTS."""
    return evidence_of_draws(analyse(model), model, draws, xr.Dataset(), random_seed=1)


def test_regression_as_written_against_its_closed_form() -> None:
    """From independent draws of the closed form, as chains."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 3))
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 2.0)
        weights = pm.Normal("weights", 0.0, 2 * pm.math.sqrt(variance), shape=3)
        pm.Normal("y", x @ weights, pm.math.sqrt(variance), observed=x @ [1.0, 0.0, -1.0] + rng.normal(size=40))
    exact = bk.infer(model, draws=1000, random_seed=1, progressbar=False)
    assert exact.method == "exact"
    draws = {n: v.to_numpy().reshape(4, 250, *v.shape[2:]) for n, v in exact.tree["posterior"].to_dataset().items()}
    agrees(
        by_draws(model, {"variance_log__": np.log(draws["variance"]), "weights": draws["weights"]}),
        exact.log_evidence.value,
    )


@pytest.mark.slow
def test_transformed_priors_integrate_to_one() -> None:
    """Data that no variable explains: the log evidence is that of the data alone, if every prior is normalised."""
    y = np.array([0.3, -0.5])
    with pm.Model() as model:
        pm.Dirichlet("simplex", [2.0, 3.0, 1.5])
        pm.ZeroSumNormal("zero_sum", 1.5, shape=3)
        pm.Uniform("interval", -1.0, 3.0)
        pm.Truncated("truncated", pm.Normal.dist(0.0, 1.0), lower=0.5)
        pm.Beta("unit", 2.0, 1.0)
        pm.Normal("y", 0.0, 1.0, observed=y)
    space = Unconstrained(model)
    # PyMC's draws of the prior, which is the posterior here, as chains.
    points = space.prior_draws(1000, 1).reshape(4, 250, space.size)
    draws = {str(v.name): points[..., at] for v, at in zip(space.variables, space.slices.values(), strict=True)}
    agrees(by_draws(model, draws), float(stats.norm.logpdf(y).sum()))


@pytest.mark.slow
def test_collapsed_model_against_quadrature() -> None:
    effect = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    error = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
        pm.Normal("y", pm.Normal("theta", mu, tau, shape=8), error, observed=effect)
    exact = bk.infer(model, method="quadrature", draws=40, random_seed=1, progressbar=False)
    agrees(by_nuts(model), exact.log_evidence.value, 0.03)


def without_evidence(model: pm.Model) -> str:
    """The reason, found without sampling."""
    estimate = evidence_of_draws(analyse(model), model, {}, xr.Dataset(), random_seed=1)
    assert math.isnan(estimate.value) and estimate.error == math.inf
    return estimate.reason


@pytest.mark.slow
def test_models_without_an_evidence() -> None:
    data = [0.3, -0.5]
    with pm.Model() as flat:
        pm.StudentT("y", nu=4.0, mu=pm.Flat("mu"), sigma=1.0, observed=data)
    assert "mu" in without_evidence(flat) and "improper" in without_evidence(flat)
    with pm.Model() as ordered:
        means = pm.math.stack([pm.Normal("centre"), 1.0])
        mu = pm.Normal("mu", means, transform=pm.distributions.transforms.ordered, initval=[-1.0, 1.0])
        pm.StudentT("y", nu=4.0, mu=mu, sigma=1.0, observed=data)
    assert "prior of mu" in without_evidence(ordered) and "Ordered" in without_evidence(ordered)
    # PyMC's density of these does not integrate to one on the unconstrained scale, or is another distribution's.
    with pm.Model() as correlation:
        pm.LKJCorr("factor", n=3, eta=2.0)
        pm.Normal("y", observed=data)
    assert "prior of factor" in without_evidence(correlation) and "LKJ" in without_evidence(correlation)
    with pm.Model() as angle:
        pm.Normal("y", pm.math.sin(pm.VonMises("angle", 0.0, 1.0)), 1.0, observed=data)
    assert "the density of angle under its transform Circular" in without_evidence(angle)
    with pm.Model() as discrete:
        pm.StudentT("y", nu=4.0, mu=pm.Poisson("n", pm.HalfCauchy("rate", 1.0)), sigma=1.0, observed=data)
    assert "n is discrete" in without_evidence(discrete)


def test_draws_that_diverged_or_follow_another_density_are_refused() -> None:
    with pm.Model() as model:
        pm.StudentT("y", nu=4.0, mu=pm.Normal("mu"), sigma=1.0, observed=[0.3])
    analysis, draws = analyse(model), {"mu": np.random.default_rng(1).normal(size=(4, 500))}
    diverging = xr.Dataset({"diverging": (("chain", "draw"), np.arange(2000).reshape(4, 500) % 50 == 0)})
    assert "2.0% of the transitions diverged" in evidence_of_draws(analysis, model, draws, diverging, 1).reason
    other = xr.Dataset({"logp": (("chain", "draw"), np.zeros((4, 500)))})
    assert "not that of the sampler" in evidence_of_draws(analysis, model, draws, other, 1).reason


@pytest.mark.slow
@pytest.mark.parametrize(("make", "size"), [(log_gamma, 5), (banana, 2)])
def test_the_error_of_a_thorough_bridge_is_honest(
    make: Callable[[int], Target], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_sides, "MANY", 3_000)
    target = make(size)
    draws = [target.draw(np.random.default_rng([1, k]), 600).reshape(4, 150, size) for k in range(16)]
    z = scores(target, [bridge(target.log_density, d, random_seed=k, thorough=True) for k, d in enumerate(draws)])
    assert abs(z.mean()) < 0.7
    assert 0.5 < z.std() < 1.4
    assert np.abs(z).max() < 4.5


def test_where_the_error_is_large_the_bridge_is_built_again() -> None:
    """Two skewed components in either order, from chains that stay in one: half the error, and the same number."""

    def log_density(x: np.ndarray) -> np.ndarray:
        parts = (np.sum(0.7 * y - np.exp(y), axis=1) for y in (x - shift, x[:, ::-1] - shift))
        return np.logaddexp(*parts)

    shift = np.array([6.0] * 4 + [0.0] * 4)
    draws = np.log(np.random.default_rng(1).gamma(0.7, size=(4, 200, 8))) + shift
    symmetries = [np.eye(8), np.eye(8)[::-1]]
    space: Any = SimpleNamespace(log_density=log_density)
    plain = bridge(log_density, draws, random_seed=1, symmetries=symmetries)
    found = estimate(EstimatorTarget(space, 1, draws, symmetries))
    truth = 8 * float(special.gammaln(0.7)) + math.log(2)
    assert plain.error > 0.02 > 0.75 * found.error
    assert found.error < plain.error
    assert abs(found.value - truth) < 4 * found.error
