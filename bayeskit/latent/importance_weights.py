r"""Unbiased estimates of p(y, φ) = ∫ exp f(φ, x) dx by importance sampling of x from its Gaussian approximation.

.. math:: \hat p(y, \phi) = \frac1K \sum_{k=1}^K \frac{\exp f(\phi, x_k)}{N(x_k; \hat x, \Lambda^{-1})},
   \qquad x_k = \hat x + \Lambda^{-1/2} z_k,

with a few z and for each −z, which balances for location, and both scaled so that the quantiles of |z|² are q and
1 − q, which balances for scale (Durbin and Koopman 2000): each is a standard Normal, and what is odd in z of the log
weights cancels. Most of what an estimate takes is the search for the mode: more z make it take little more, and its
weights far more even. The noise is a function of φ: the same φ has the same estimate, and another φ an independent one.
Estimates in the place of p(y, φ) leave importance sampling over φ unbiased, and its standard error is that of both
(Tran, Scharth, Pitt and Kohn 2013).

Sources: Shephard and Pitt (1997), Biometrika 84, 653-667; Durbin and Koopman (2000), Journal of the Royal Statistical
Society B 62, 3-56; Tran, Scharth, Pitt and Kohn (2013), arXiv:1309.3339.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special, stats

from bayeskit.gaussian.many_precisions import colour_each, log_determinants
from bayeskit.graphs.operation_costs import charge
from bayeskit.latent.approximation import Start, approximations
from bayeskit.latent.split_density import SplitDensity

__all__ = ["LatentWeights", "WeightedLatent"]

GROUPS = 4  # z of each φ, and four x of each z
AT_ONCE = 1_000_000  # numbers in the x that are made together
GENERATOR, NORMAL = 80_000.0, 60.0  # nanoseconds of a generator, and of a number that is made of its noise
OPEN = 1e-15  # quantiles lie this far inside the unit interval


@dataclass(frozen=True, eq=False)
class WeightedLatent:
    """x (N, K, D) for N values of φ, and the logs of their weights (N, K)."""

    x: np.ndarray
    log_weights: np.ndarray

    @property
    def log_mean(self) -> np.ndarray:
        """log p̂(y, φ), (N,)."""
        return np.asarray(special.logsumexp(self.log_weights, axis=1) - math.log(self.log_weights.shape[1]))

    def drawn(self, rng: np.random.Generator) -> np.ndarray:
        """One x for each φ, in proportion to the weights: (N, D)."""
        noise = rng.gumbel(size=self.log_weights.shape)
        return np.asarray(self.x[np.arange(len(self.x)), np.argmax(self.log_weights + noise, axis=1)])


@dataclass(frozen=True, eq=False)
class LatentWeights:
    """WeightedLatent x for any φ."""

    density: SplitDensity
    start: Start
    random_seed: tuple[int, ...]
    wider: float = 1.0  # factor of the standard deviations that x are proposed with
    degrees: float = math.inf  # of freedom, of a Student t

    def of(self, phi: np.ndarray) -> WeightedLatent:
        """At φ (N, d)."""
        parts = [self._of(phi[rows]) for rows in self._parts(len(phi))]
        return WeightedLatent(np.concatenate([p.x for p in parts]), np.concatenate([p.log_weights for p in parts]))

    def log_estimate(self, phi: np.ndarray) -> np.ndarray:
        """log p̂(y, φ), (N,)."""
        return np.concatenate([self._of(phi[rows]).log_mean for rows in self._parts(len(phi))])

    def draw(self, phi: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One x for each φ, of those that its estimate was made with: (N, D)."""
        return np.concatenate([self._of(phi[rows]).drawn(rng) for rows in self._parts(len(phi))])

    def with_other_noise(self, number: int, wider: float = 1.0, degrees: float = math.inf) -> LatentWeights:
        """Independent ones, with a proposal of heavier tails."""
        return replace(self, random_seed=(*self.random_seed, number), wider=wider, degrees=degrees)

    def _parts(self, number: int) -> list[slice]:
        step = max(1, AT_ONCE // (4 * GROUPS * self.density.size))
        return [slice(k, min(k + step, number)) for k in range(0, max(number, 1), step)]

    def _of(self, phi: np.ndarray) -> WeightedLatent:
        found, size = approximations(self.density, phi, self.start), self.density.size
        noise = self._noise(phi)
        known = [p if np.isfinite(f) else None for p, f in zip(found.precision, found.log_density, strict=True)]
        away = colour_each(known, noise)
        x = found.mode[:, None] + np.where(np.isnan(away), 0.0, away)
        standard = self._standard(np.sum(noise**2, axis=2) / self.wider**2) - size * math.log(self.wider)
        volume = 0.5 * log_determinants(known)[:, None]
        log_q = np.where(np.isnan(volume), np.inf, volume + standard)
        values = self.density.values(phi, x)
        logs = np.where(np.isnan(values), -np.inf, values) - log_q
        return WeightedLatent(x, logs)

    def _standard(self, squares: np.ndarray) -> np.ndarray:
        """log density of a standard Normal or t of squared lengths."""
        size, degrees = self.density.size, self.degrees
        if not math.isfinite(degrees):
            return np.asarray(-0.5 * squares - 0.5 * size * math.log(2 * math.pi))
        constant = special.gammaln((degrees + size) / 2) - special.gammaln(degrees / 2)
        constant -= 0.5 * size * math.log(degrees * math.pi)
        return np.asarray(constant - 0.5 * (degrees + size) * np.log1p(squares / degrees))

    def _noise(self, phi: np.ndarray) -> np.ndarray:
        """(N, K, D), a function of φ up to rounding: of single precision, to which φ is the same however computed."""
        size = self.density.size
        charge(len(phi) * (GENERATOR + GROUPS * NORMAL * size))
        keys = np.ascontiguousarray(phi, dtype=np.float32).view(np.uint32).tolist()
        rngs = [np.random.default_rng([*self.random_seed, *key]) for key in keys]
        z = np.array([rng.standard_normal((GROUPS, size)) for rng in rngs]).reshape(-1, GROUPS, size)
        radius = stats.chi2(size)
        square = np.sum(z**2, axis=2)
        other = radius.isf(radius.cdf(square).clip(OPEN, 1 - OPEN))
        scaled = z * np.sqrt(other / square)[:, :, None]
        if math.isfinite(self.degrees):
            drawn = np.array([rng.chisquare(self.degrees, GROUPS) for rng in rngs]).reshape(-1, GROUPS, 1)
            z, scaled = z * np.sqrt(self.degrees / drawn), scaled * np.sqrt(self.degrees / drawn)
        return self.wider * np.concatenate([z, -z, scaled, -scaled], axis=1)
