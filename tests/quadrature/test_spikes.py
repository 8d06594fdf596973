"""Spikes upon slabs, which no lattice of one scale sees: their mass is in the integral, or there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayeskit.quadrature.integrate import NotIntegrable, integrate
from bayeskit.types import ArrayFunction

CENTRE, WIDE = 3.2, 100.0
AT, PRIOR = np.array([0.0, CENTRE, 1.0, 7.0, WIDE]), WIDE * np.random.default_rng(0).standard_normal(1_000)


def spike_and_slab(weight: float, sd: float, datum: float) -> tuple[ArrayFunction, float]:
    """Log density of a mean under a prior of two components, seen with an error of one, and its log integral."""

    def log_density(x: np.ndarray) -> np.ndarray:
        spike, slab = stats.norm.logpdf(x, CENTRE, sd), stats.norm.logpdf(x, 0, WIDE)
        prior = np.logaddexp(np.log(weight) + spike, np.log1p(-weight) + slab)
        return np.asarray((prior + stats.norm.logpdf(x, datum)).sum(axis=1))

    spike, slab = stats.norm.logpdf(datum, CENTRE, np.hypot(sd, 1)), stats.norm.logpdf(datum, 0, np.hypot(WIDE, 1))
    return log_density, float(np.logaddexp(np.log(weight) + spike, np.log1p(-weight) + slab))


@pytest.mark.parametrize(
    ("weight", "sd"),
    # Nearly all, and so little that it is no mode: a tenth of the density over a thousandth of its width.
    [(1 - 1e-7, 1e-5), (0.99999, 1e-5), (1e-4, 1e-2), (1e-6, 1e-3), (1e-6, 1e-5), (1e-7, 1e-3)],
)
@pytest.mark.parametrize("datum", [CENTRE, 2.0])
def test_one_variable(weight: float, sd: float, datum: float) -> None:
    log_density, truth = spike_and_slab(weight, sd, datum)
    found = integrate(log_density, np.zeros(1), probes=np.append(AT, PRIOR)[:, None])
    assert abs(found.log_integral - truth) < found.error < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weight", "sd"),
    # The whole of the posterior; spikes above and below the three nats of the bulk; and low bumps.
    [(0.5, 1e-5), (1e-3, 1e-2), (1e-4, 1e-2), (1e-6, 1e-5)],
)
def test_two_variables(weight: float, sd: float) -> None:
    log_density, truth = spike_and_slab(weight, sd, CENTRE)
    probes = np.concatenate([np.stack(np.meshgrid(AT, AT), -1).reshape(-1, 2), PRIOR.reshape(-1, 2)])
    found = integrate(log_density, np.zeros(2), probes=probes, budget=1_000_000)
    assert abs(found.log_integral - 2 * truth) < found.error < 1e-6
    draws = found.draw(np.random.default_rng(1), 400)
    share = np.exp(np.log(weight) + stats.norm.logpdf(CENTRE, CENTRE, np.hypot(sd, 1)) - truth)
    inside = np.mean(np.abs(draws - CENTRE) < 3 * sd)
    assert abs(inside - share) < 0.02 + 4 * np.sqrt(share * (1 - share) / draws.size)


def test_three_variables_are_refused() -> None:
    log_density, _ = spike_and_slab(1e-6, 1e-3, CENTRE)
    probes = np.concatenate([np.full((1, 3), CENTRE), PRIOR[:999].reshape(-1, 3)])
    with pytest.raises(NotIntegrable, match="bumps"):
        integrate(log_density, np.zeros(3), probes=probes, budget=500_000)


def test_smooth_densities_have_no_bumps() -> None:
    """A probe beside the mode, at an inflection and far out; heavy tails, a skewed top, two modes."""
    places = np.concatenate([AT, np.linspace(-3, 3, 25)])[:, None]
    for log_density in (
        stats.t(2).logpdf,
        stats.gumbel_l.logpdf,
        lambda x: np.logaddexp(stats.norm.logpdf(x, -2), stats.norm.logpdf(x, 2, 0.1)),
    ):
        few, many = (
            integrate(lambda x, of=log_density: of(x[:, 0]), np.zeros(1), probes=p) for p in (places[:1], places)
        )
        assert abs(few.log_integral - many.log_integral) < few.error
        assert len(few.modes) == len(many.modes)
