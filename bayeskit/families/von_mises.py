r"""VonMises(μ, κ) on the circle (−π, π]: p(φ) ∝ exp(a cos φ + b sin φ), with (a, b) = κ (cos μ, sin μ).

∂/∂φ log p = −a sin φ + b cos φ. Uniform(−π, π) has a = b = 0. A direction y of known concentration κ adds
κ (cos y, sin y): the posterior's resultant vector is the sum (Mardia and Jupp 2000, section 10.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
import sympy
from scipy import special, stats

from bayeskit.families.base import ConjugateFamily, Parameters
from bayeskit.families.support_kinds import SupportKind

__all__ = ["CIRCLE", "DISTRIBUTION", "FAMILY"]

CIRCLE = SupportKind(
    name="circle",
    start=lambda shape: np.full(shape, 0.5),
    typical=lambda shape, rng: rng.uniform(-2.5, 2.5, size=shape),
    edges=lambda shape: [np.full(shape, v) for v in np.linspace(-np.pi, np.pi, 41)],
    inside=lambda value: bool(np.all(np.abs(value) <= np.pi)),
    recentred=lambda guess, centre: (np.where(np.isfinite(centre), centre, guess), 0.0),  # all anchors are as good
    signs=lambda phi: (sympy.pi - phi, sympy.pi + phi),
    positive=False,
    bounds=(-np.pi, np.pi),
)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
# Ends of panels around the mode, in units of 1/√κ (at most 1), on each of which the density is near a polynomial.
PANELS = np.array([-14.0, -8.0, -5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0, 8.0, 14.0])


class _VonMises(stats.rv_continuous):
    """κ and μ; SciPy's own lives on the whole line, where its cdf passes one. Mean and sd are those of the number."""

    def _argcheck(self, kappa: Any, mu: Any) -> Any:
        return (kappa >= 0) & np.isfinite(mu)

    def _logpdf(self, x: Any, kappa: Any, mu: Any) -> Any:
        return -2 * kappa * np.sin((x - mu) / 2) ** 2 - np.log(2 * np.pi * special.ive(0, kappa))

    def _pdf(self, x: Any, kappa: Any, mu: Any) -> Any:
        return np.exp(self._logpdf(x, kappa, mu))

    def _cdf(self, x: Any, kappa: Any, mu: Any) -> Any:
        return np.clip(self._below(x, kappa, mu, 0, 0.0), 0, 1)

    def _stats(self, kappa: Any, mu: Any) -> Any:
        kappa, mu = np.broadcast_arrays(kappa, mu)
        mean = self._below(np.pi, kappa, mu, 1, 0.0)
        variance, third, fourth = (self._below(np.pi, kappa, mu, power, mean) for power in (2, 3, 4))
        return mean, variance, third / variance**1.5, fourth / variance**2 - 3  # SciPy's own take 40 seconds

    def _rvs(self, kappa: Any, mu: Any, size: Any = None, random_state: Any = None) -> Any:
        return random_state.vonmises(mu, kappa, size)

    def _below(self, x: Any, kappa: Any, mu: Any, power: int, centre: Any) -> np.ndarray:
        """∫ (φ − centre)^power p(φ) dφ from −π to x, by Gauss–Legendre on panels around the mode and its images."""
        x, kappa, mu, centre = (np.asarray(v, float)[..., None] for v in np.broadcast_arrays(x, kappa, mu, centre))
        around = PANELS / np.sqrt(np.maximum(kappa, 1.0))
        ends = np.concatenate([mu + around + turn for turn in (-2 * np.pi, 0.0, 2 * np.pi)], axis=-1)
        ends = np.sort(np.clip(np.concatenate([ends, np.full_like(x, -np.pi), x], axis=-1), -np.pi, x), axis=-1)
        half = np.diff(ends)[..., None] / 2
        phi = ends[..., :-1, None] + half * (1 + NODES)
        density = self._pdf(phi, kappa[..., None], mu[..., None])
        return np.asarray(np.sum(half * WEIGHTS * density * (phi - centre[..., None]) ** power, axis=(-2, -1)))


DISTRIBUTION = _VonMises(a=-np.pi, b=np.pi, name="von_mises", shapes="kappa, mu")


def _mean_direction(p: Parameters) -> np.ndarray:
    return np.arctan2(p["sine"], p["cosine"])


def _log_density(p: Parameters, x: np.ndarray) -> np.ndarray:
    a, b, x = (np.asarray(v, dtype=np.longdouble) for v in (p["cosine"], p["sine"], x))
    kappa = np.hypot(a, b)
    normaliser = np.log(2 * np.pi * special.ive(0, kappa.astype(float)))
    return np.asarray(a * np.cos(x) + b * np.sin(x) - kappa - normaliser)


def _log_density_graph(p: Mapping[str, Any], x: Any) -> Any:
    a, b = p["cosine"], p["sine"]
    # √ has no gradient at zero.
    kappa = pt.sqrt(a**2 + b**2 + np.finfo(float).tiny)
    return a * pt.cos(x) + b * pt.sin(x) - kappa - pt.log(2 * np.pi * pt.ive(0, kappa))


FAMILY = ConjugateFamily(
    name="von_mises",
    support=CIRCLE,
    priors=("VonMisesRV",),
    basis=lambda x, functions: (functions.sin(x), functions.cos(x)),
    weight=lambda x: 1,
    anchors=lambda shape, guess: [guess, np.where(guess > 0, guess - np.pi / 2, guess + np.pi / 2)],
    parameters=lambda c: {"cosine": -c[0], "sine": c[1]},
    coefficients=lambda p: [-p["cosine"], p["sine"]],
    positive=lambda p: (),
    centre=_mean_direction,
    log_density=_log_density,
    log_density_graph=_log_density_graph,
    draw=lambda p, rng, n: rng.vonmises(mu := _mean_direction(p), np.hypot(p["cosine"], p["sine"]), (n, *np.shape(mu))),
    frozen=lambda p: DISTRIBUTION(np.hypot(p["cosine"], p["sine"]), _mean_direction(p)),
    mode=lambda c, now: np.where(np.hypot(c[0], c[1]) > 0, np.arctan2(c[1], -c[0]), now),
    advice="A VonMises or Uniform(-π, π) prior is conjugate to VonMises data of known concentration with this "
    "direction, turned by a known angle, as mean.",
)
