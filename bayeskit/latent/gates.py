"""What a Gaussian approximation of a latent vector is not trusted for: each gate raises Doubtful with the reason."""

from __future__ import annotations

import math

import numpy as np

from bayeskit.errors import BayeskitError
from bayeskit.latent.approximation import approximations
from bayeskit.latent.importance_weights import LatentWeights

__all__ = ["Doubtful", "require_alike_when_wider", "require_one_mode"]

LOOKED_AT = 8  # values of φ at which the conditional density of x is looked at
FAR = (1.0, 2.0, 4.0, 8.0, 16.0)  # how far, in its standard deviations
EACH = 4  # points of each distance
COMPARED = 200  # values of φ at which a wider proposal is compared
WIDER, DEGREES = 1.0, 5.0  # log of its volume in that of the first, and its tails in few dimensions
DIFFERENT, ALIKE = 5.0, 0.01  # standard errors, and nats, by which the two may differ


class Doubtful(BayeskitError):
    """The estimates could not be trusted; the message says why."""


def require_one_mode(weights: LatentWeights, phi: np.ndarray, rng: np.random.Generator) -> None:
    """That the density of x given φ is log-concave wherever it is looked at, and so has one mode.

    Noise of a Student t has a mode near each of two clusters of data, for a level that both are seen from; a Gaussian
    approximation knows of one of them, and its weights do not show the other.
    """
    density = weights.density
    some = phi[rng.permutation(len(phi))[:LOOKED_AT]]
    found = approximations(density, some, weights.start)
    for k, precision in enumerate(found.precision):
        if precision is None:
            raise Doubtful("the density of the latent variables has no mode at some values of the others")
        noise = rng.standard_normal((len(FAR), EACH, density.size)) * np.array(FAR)[:, None, None]
        x = found.mode[k] + precision.colour(noise.reshape(-1, density.size).T).T
        points = density.joined(some[k : k + 1], x)
        points = points[np.isfinite(density.space.log_density(points))]
        if any(p is None for p in density.precisions(points)):
            raise Doubtful("the latent variables may have several modes given the others: it is not log-concave")


def require_alike_when_wider(weights: LatentWeights, phi: np.ndarray) -> None:
    """That at draws of φ a wider proposal of heavier tails finds the same integrals over x, on average.

    Both are new estimates, each unbiased, relative to Laplace's, which has no noise.
    """
    some, size = phi[:COMPARED], weights.density.size
    reference = approximations(weights.density, some, weights.start).log_density
    wider = weights.with_other_noise(1, wider=math.exp(WIDER / size), degrees=max(DEGREES, float(size)))
    one, two = (np.exp(w.log_estimate(some) - reference) for w in (wider, weights.with_other_noise(2)))
    error = float(np.std(one - two, ddof=1)) / math.sqrt(len(some))
    if not abs(float(np.mean(one - two))) < DIFFERENT * error + ALIKE * float(np.mean(two)):
        raise Doubtful("a wider proposal of the latent variables finds another integral")
