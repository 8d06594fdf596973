"""The proposal of bridge sampling: a multivariate Normal or Student t fitted to draws."""

from __future__ import annotations

import math

import numpy as np
from scipy import linalg, special

from bayeskit.types import Array

__all__ = ["Array", "Refused", "fitted", "log_spherical", "require_more_draws_than", "root_of", "scatter_of"]

DEGREES = (math.inf, 30.0, 10.0, 5.0, 3.0, 2.0)  # of freedom of the proposal


class Refused(Exception):
    """There is no estimate that could be trusted; the message says why."""


def require_more_draws_than(sample: Array) -> None:
    size = sample.shape[1]
    if len(sample) < 2 * size + 10:
        raise Refused(f"there are too few draws for {size} dimensions; ask for more draws")


def root_of(scatter: Array) -> Array:
    try:
        return np.linalg.cholesky(scatter)
    except np.linalg.LinAlgError:
        raise Refused("the draws lie on a subspace: their covariance is singular") from None


def fitted(sample: Array) -> tuple[Array, Array, float]:
    """Centre, Cholesky factor and degrees of freedom of the most likely proposal."""
    best: tuple[float, Array, Array, float] | None = None
    for degrees in DEGREES:
        centre, scatter = scatter_of(sample, degrees)
        root = root_of(scatter)
        z = linalg.solve_triangular(root, (sample - centre).T, lower=True).T
        fit = float((log_spherical(z, degrees) - np.log(np.diag(root)).sum()).mean())
        if best is not None and fit < best[0]:
            break
        best = (fit, centre, root, degrees)
    assert best is not None
    return best[1:]


def scatter_of(sample: Array, degrees: float) -> tuple[Array, Array]:
    """Location and scatter of a multivariate t, by its EM steps; of a Normal, the moments."""
    size = sample.shape[1]
    centre, scatter = sample.mean(axis=0), np.atleast_2d(np.cov(sample, rowvar=False))
    if not math.isfinite(degrees):
        return centre, scatter
    for _ in range(10):
        distance = np.einsum("ij,ij->i", sample - centre, np.linalg.solve(scatter, (sample - centre).T).T)
        weight = (degrees + size) / (degrees + distance)
        centre = weight @ sample / weight.sum()
        scatter = (sample - centre).T @ (weight[:, None] * (sample - centre)) / len(sample)
    return centre, scatter


def log_spherical(z: Array, degrees: float) -> Array:
    """Log density of a standard spherical Normal or Student t."""
    size, square = z.shape[-1], np.sum(z**2, axis=-1)
    if not math.isfinite(degrees):
        return np.asarray(-0.5 * square - 0.5 * size * math.log(2 * math.pi))
    constant = special.gammaln((degrees + size) / 2) - special.gammaln(degrees / 2)
    constant -= 0.5 * size * math.log(degrees * math.pi)
    return np.asarray(constant - 0.5 * (degrees + size) * np.log1p(square / degrees))
