"""What a Gaussian approximation of a latent vector is not trusted for: each gate raises Doubtful with the reason."""

from __future__ import annotations

import math

import numpy as np

from bayeskit.errors import BayeskitError
from bayeskit.latent.approximation import Start, approximations
from bayeskit.latent.importance_weights import LatentWeights

__all__ = ["Doubtful", "require_alike_when_wider", "require_no_other_mode", "require_one_mode"]

LOOKED_AT = 8  # values of φ at which the conditional density of x is looked at
FAR = (1.0, 2.0, 4.0, 8.0, 16.0)  # how far, in its standard deviations
EACH = 4  # points of each distance
CLIMBED, AROUND, APART = 3, 16, 0.5  # values of φ, climbs at each, and standard deviations between two modes
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


def require_no_other_mode(weights: LatentWeights, phi: np.ndarray, drawn: np.ndarray, rng: np.random.Generator) -> None:
    """That climbs from all around end at the mode that is known, at a few values of φ.

    With y ~ Normal(|x|, 0.02) the density is log-concave for fifty standard deviations about a mode, and has another
    behind them. Climbs begin at x of the prior, ``drawn``, and at entries moved by one to ten thousand standard
    deviations each.
    """
    density = weights.density
    for point in phi[rng.permutation(len(phi))[:CLIMBED]]:
        known = approximations(density, point[None], weights.start, close=True)
        if known.precision[0] is None:
            raise Doubtful("the density of the latent variables has no mode at some values of the others")
        sd = np.sqrt(known.precision[0].variances)
        moves = sd * 10.0 ** rng.uniform(0, 4, size=(AROUND, 1)) * rng.standard_normal((AROUND, density.size))
        starts = np.concatenate([drawn, known.mode + moves])
        phis = np.repeat(point[None], len(starts), axis=0)
        begun = Start(point, starts, np.zeros((len(point), density.size)))
        found = approximations(density, phis, begun, close=True)
        ended = np.isfinite(found.log_density)
        if np.any(np.abs(found.mode[ended] - known.mode) > APART * sd):
            raise Doubtful("the latent variables have several modes given the others")


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
