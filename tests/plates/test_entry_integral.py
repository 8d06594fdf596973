"""The rule itself, on integrals of one number with known values: heavy tails, skewness, two modes, kinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from bayeskit.plates.entry_integral import MOST, EntryRule, integrate_entries, modes_of_entries

Density = Callable[[np.ndarray], np.ndarray]


def integrals(log_density: Density, start: np.ndarray, **options: Any) -> tuple[np.ndarray, bool, int]:
    """For one φ, entries starting from different places: log integrals, whether they are resolved, nodes."""
    terms = lambda of, x: log_density(x)  # noqa: E731
    mode, width = modes_of_entries(terms, 1, start[None], np.ones(len(start)))
    (sums,) = integrate_entries(terms, mode, width, len(start), **options)
    return sums.log_integral[0], bool(sums.resolved[0]), sums.lattice.size


SMOOTH: dict[str, tuple[Density, float]] = {
    "normal, narrow and far away": (lambda x: stats.norm.logpdf(x, 1e4, 1e-3), 0.0),
    "normal, wide": (lambda x: stats.norm.logpdf(x, -3.0, 1e5), 0.0),
    "Student t of four degrees": (lambda x: stats.t.logpdf(x, 4.0, 2.0, 0.01), 0.0),
    "Cauchy": (lambda x: stats.cauchy.logpdf(x, 2.0, 3.0), 0.0),
    "log of a gamma variable": (lambda x: 0.7 * x - np.exp(x), float(special.gammaln(0.7))),
    "logit of a beta variable": (
        lambda x: 0.5 * special.log_expit(x) + 30.0 * special.log_expit(-x),
        float(special.betaln(0.5, 30.0)),
    ),
    # The prior is a peak at 0, the datum one at 28, each with a good part of the mass.
    "two modes": (
        lambda x: stats.t.logpdf(x, 4.0) + stats.norm.logpdf(28.0, x, 6.0),
        float(
            np.log(
                integrate.quad(
                    lambda x: stats.t.pdf(x, 4.0) * stats.norm.pdf(28.0, x, 6.0),
                    -400.0,
                    400.0,
                    points=[-5.0, 0.0, 5.0, 15.0, 28.0, 40.0],
                    epsabs=1e-16,
                    limit=400,
                )[0]
            )
        ),
    ),
}


@pytest.mark.parametrize(("log_density", "known"), SMOOTH.values(), ids=list(SMOOTH))
def test_a_smooth_density_is_integrated_from_wherever_its_mode_is_looked_for(
    log_density: Density, known: float
) -> None:
    found, resolved, nodes = integrals(log_density, np.array([0.0, 1.0, -2.0]))
    np.testing.assert_allclose(found, known, atol=2e-9)
    assert resolved
    assert nodes < MOST


def test_a_kink_is_not_taken_for_a_smooth_density() -> None:
    def kinked(x: np.ndarray) -> np.ndarray:
        return np.asarray(stats.laplace.logpdf(x, 0.3, 1.0) + stats.norm.logpdf(x))

    assert not integrals(kinked, np.array([0.0, 1.0, -2.0]), rule=EntryRule(agreed=1e-9))[1]


@pytest.mark.parametrize(
    "log_density", [np.zeros_like, lambda x: -np.log1p(np.abs(x)), lambda x: x], ids=["flat", "heavy tails", "rising"]
)
def test_an_integral_that_does_not_exist_is_no_number(log_density: Density) -> None:
    found, _, _ = integrals(log_density, np.array([0.0]))
    assert not np.isfinite(found[0])


def test_a_density_of_nothing_has_the_integral_zero() -> None:
    found, _, _ = integrals(lambda x: np.full_like(x, -np.inf), np.array([0.0]))
    assert found[0] == -np.inf
