"""Importance sampling: z-scores against densities of known integral, and what it must refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from bayeskit.marginal_likelihood import importance
from bayeskit.marginal_likelihood.estimators import PRECISE, Target
from bayeskit.marginal_likelihood.importance import estimate
from bayeskit.marginal_likelihood.mixture_proposal import MixtureProposal
from bayeskit.marginal_likelihood.proposal import Proposal

LOG_2PI = math.log(2 * math.pi)
SWAP = [np.eye(2), np.eye(2)[::-1]]

Density = Callable[[np.ndarray], np.ndarray]
Draw = Callable[[np.random.Generator, int], np.ndarray]


def target(density: Density, draws: np.ndarray, seed: int, **options: Any) -> Target:
    space: Any = SimpleNamespace(log_density=density, size=draws.shape[1])
    return Target(space, seed, draws.reshape(4, -1, draws.shape[1]), points=1_000, **options)


def log_gamma(x: np.ndarray) -> np.ndarray:
    return np.sum(0.7 * x - np.exp(x), axis=1)


def banana(x: np.ndarray) -> np.ndarray:
    return -0.5 * x[:, 0] ** 2 - 2 * (x[:, 1] - x[:, 0] ** 2) ** 2


def banana_draws(rng: np.random.Generator, n: int) -> np.ndarray:
    x = rng.normal(size=(n, 2))
    return np.stack([x[:, 0], x[:, 0] ** 2 + 0.5 * x[:, 1]], axis=1)


def labels(x: np.ndarray) -> np.ndarray:
    """Two components, three sds apart, in either order."""
    return np.logaddexp(*[-0.5 * np.sum((x - centre) ** 2, axis=1) for centre in ([0, 3], [3, 0])])


def one_label(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal([0, 3], size=(n, 2))


CASES: dict[str, tuple[Density, Draw, float, dict[str, Any], float]] = {
    "log_gamma": (
        log_gamma,
        lambda rng, n: np.log(rng.gamma(0.7, size=(n, 3))),
        3 * float(special.gammaln(0.7)),
        {},
        0.02,
    ),
    "banana": (banana, banana_draws, LOG_2PI - math.log(2), {}, 0.02),
    "one labelling of two": (labels, one_label, LOG_2PI + math.log(2), {"symmetries": SWAP}, 0.006),  # 0.0077 by a mean
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_standard_error_is_honest(name: str) -> None:
    density, draw, truth, options, most = CASES[name]
    z, errors = [], []
    for seed in range(20):
        found = estimate(target(density, draw(np.random.default_rng([3, seed]), 800), seed, **options))
        if math.isfinite(found.value):
            z.append((found.value - truth) / found.error)
            errors.append(found.error)
    assert len(z) >= 17
    assert np.mean(errors) < most
    assert abs(np.mean(z)) < 0.6
    assert 0.5 < np.var(z) < 1.7


def test_points_are_drawn_until_the_error_is_small() -> None:
    """However few the first of them are, and whatever error these promise."""
    density, draw, known, _, _ = CASES["banana"]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        found = estimate(replace(target(density, draw(rng, 400), seed), points=100))
        assert found.error <= PRECISE
        assert abs(found.value - known) < 4 * found.error


def test_a_heavier_tail_than_the_proposals_is_refused() -> None:
    reasons = []
    for seed in range(5):
        draws = np.random.default_rng(seed).standard_t(0.7, size=(800, 1))
        found = estimate(target(lambda x: stats.t(0.7).logpdf(x[:, 0]), draws, seed))
        assert math.isnan(found.value) or abs(found.value) < 4 * found.error
        reasons.append(found.reason)
    assert any(reasons)


def test_a_mode_that_only_the_second_half_of_the_draws_has_is_found() -> None:
    draws = np.random.default_rng(1).normal(size=(4, 200, 1))
    draws[:, 150:] += 30.0
    density: Density = lambda x: np.logaddexp(*[stats.norm(c).logpdf(x[:, 0]) for c in (0.0, 30.0)])  # noqa: E731
    space: Any = SimpleNamespace(log_density=density, size=1)
    found = estimate(Target(space, 1, draws, points=1_000))
    assert abs(found.value - math.log(2)) < 4 * found.error < 0.2


def test_a_draw_that_is_not_finite_is_refused() -> None:
    draws = np.random.default_rng(1).normal(size=(800, 1))
    draws[3] = np.inf
    assert "not finite" in estimate(target(log_gamma, draws, 1)).reason


def test_a_density_that_is_a_mixture_of_the_proposals_has_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their weights: the shares of the components explain every weight."""
    parts = [Proposal(np.array([c]), np.array([[1.0]]), 5.0) for c in (0.0, 2.0, 9.0)]
    of = [MixtureProposal(np.array(w), tuple(parts)) for w in ([0.6, 0.3, 0.1], [0.1, 0.7, 0.2])]
    monkeypatch.setattr(importance, "fitted_mixture", lambda *_: of[0])
    draws = of[1].draw(np.random.default_rng(1), 800)
    found = estimate(target(lambda x: of[1].log_density(x) + 3.0, draws, 1))
    assert found.value == pytest.approx(3.0, abs=1e-10)
    assert found.error < 1e-10


def test_draws_far_from_most_get_proposals_near_them() -> None:
    """A fiftieth of the mass lies eight sds off in six dimensions: one chain of four was there, late."""
    centre, share = np.eye(6)[0] * 8.0, 0.02

    def density(x: np.ndarray) -> np.ndarray:
        far = math.log(share) - 0.5 * np.sum(((x - centre) / 0.7) ** 2, axis=1) - 6 * math.log(0.7)
        return np.logaddexp(math.log1p(-share) - 0.5 * np.sum(x**2, axis=1), far) - 3 * LOG_2PI

    z = []
    for seed in range(5):
        draws = np.random.default_rng([5, seed]).normal(size=(4, 600, 6))
        draws[3, 540:] = centre + 0.7 * draws[3, 540:]
        found = estimate(target(density, draws.reshape(-1, 6), seed))
        assert found.error <= PRECISE
        z.append(found.value / found.error)
    assert np.abs(z).max() < 4 and abs(np.mean(z)) < 1.3
