"""Closed-form marginal posteriors of the parts of an exact posterior.

A Normal block alone gives Normal marginals. Scaled by φ ~ InverseGamma(a, b) (variance) or Gamma(a, rate b)
(precision), integrating φ out gives Student-t with 2a degrees of freedom; scaled by a Wishart(ν, V) precision with
multiple K, each vector is multivariate t with ν − D + 1 degrees of freedom. Over a table of finite variables a scale
without a block has a mixture.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from scipy import stats
from scipy.stats.distributions import rv_frozen

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.conjugate_posterior import Component, Part
from bayeskit.finite.discrete_distribution import FiniteDensity
from bayeskit.quadrature.mixture_distribution import MixtureDensity

__all__ = ["Closed", "finite_marginals", "mixed_marginals", "part_marginals"]

Closed = tuple[Any, str, Any, bool]  # distribution, family, joint distribution, elementwise
JOINT_LIMIT = 500  # entries above which no joint covariance is formed


def part_marginals(part: Part) -> dict[str, Closed]:
    """Marginals of every variable of a part."""
    result: dict[str, Closed] = {}
    if part.scale is not None:
        family, parameters = part.scale.family, part.parameters
        elementwise = family.support.event < 2
        result[part.scale.name] = family.frozen(parameters), family.name, family.joint(parameters), elementwise
    if part.gaussian is not None:
        result |= _gaussian_marginals(part) if part.multiple is None else _multivariate_t(part)
    return result


def _gaussian_marginals(part: Part) -> dict[str, Closed]:
    gaussian, group = part.gaussian, part.group
    assert gaussian is not None
    sd = np.sqrt(gaussian.precision.variances)
    covariance = gaussian.precision.covariance() if gaussian.size <= JOINT_LIMIT else None
    result: dict[str, Closed] = {}
    if part.scale is not None and group is not None:
        df, ratio = (np.ravel(v)[group] for v in part.student)
        factor = np.sqrt(ratio * np.ravel(part.reference)[group] ** part.scale.kappa)
    for name, s in gaussian.slices.items():
        mean, shape, joint = gaussian.mean[s], gaussian.shapes[name], None
        if group is None:
            if covariance is not None and mean.size:
                joint = stats.multivariate_normal(mean, covariance[s, s], allow_singular=True)
            result[name] = stats.norm(mean.reshape(shape), sd[s].reshape(shape)), "normal", joint, True
            continue
        if covariance is not None and mean.size and np.all(group[s] == group[s][:1]):
            scatter = np.outer(factor[s], factor[s]) * covariance[s, s]
            joint = stats.multivariate_t(mean, scatter, df=df[s][0], allow_singular=True)
        dist = stats.t(df[s].reshape(shape), mean.reshape(shape), (factor * sd)[s].reshape(shape))
        result[name] = dist, "student_t", joint, True
    return result


def _multivariate_t(part: Part) -> dict[str, Closed]:
    gaussian, multiple = part.gaussian, part.multiple
    assert gaussian is not None and multiple is not None
    df, matrix = part.student
    size = len(matrix)
    outer = np.linalg.inv(multiple)
    result: dict[str, Closed] = {}
    for name, s in gaussian.slices.items():
        shape = gaussian.shapes[name]
        rows = slice(s.start // size, s.stop // size)
        scale = np.sqrt(np.outer(np.diag(outer)[rows], np.diag(matrix))).reshape(shape)
        mean = gaussian.mean[s].reshape(shape)
        joint = None
        if rows.stop - rows.start == 1:
            # Columns in very different units are singular to SciPy, which would leave some of them out.
            with suppress(np.linalg.LinAlgError):
                joint = stats.multivariate_t(gaussian.mean[s], outer[rows, rows].item() * matrix, df=df)
        result[name] = stats.t(df, mean, scale), "student_t", joint, True
    return result


def mixed_marginals(components: list[Component], weights: np.ndarray) -> dict[str, Closed]:
    """Marginals of scales over a table of hypotheses, some perhaps impossible; blocks and matrices have none."""
    possible = weights > 0
    shares = weights[possible] / weights[possible].sum()
    each = [c for c, p in zip(components, possible, strict=True) if p]
    scales = [[part for part in c.parts if part.gaussian is None] for c in each]
    found = [{n: d for part in parts for n, (d, *_) in part_marginals(part).items()} for parts in scales]
    result: dict[str, Closed] = {}
    for name, first in found[0].items():
        if not isinstance(first, rv_frozen):
            continue
        shape = np.shape(first.mean())
        arguments = [[np.broadcast_to(a, shape) for a in (*d.args, *d.kwds.values())] for f in found for d in [f[name]]]
        stacked = [np.stack(a) for a in zip(*arguments, strict=True)]
        number = len(first.args)
        frozen = first.dist(*stacked[:number], **dict(zip(first.kwds, stacked[number:], strict=True)))
        result[name] = MixtureDensity(shares, frozen), "mixture", None, True
    return result


def finite_marginals(analysis: Analysis, components: list[Component], weights: np.ndarray) -> dict[str, Closed]:
    """Posterior probabilities of finite variables, from the table of hypotheses."""
    result: dict[str, Closed] = {}
    for name in analysis.finite:
        values = np.array([c.fixed[name] for c in components], dtype=int)
        support = np.unique(values)
        probabilities = np.tensordot(weights / weights.sum(), values[..., None] == support, axes=(0, 0))
        result[name] = FiniteDensity(support, probabilities), "categorical", None, True
    return result
