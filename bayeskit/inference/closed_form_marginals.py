"""Closed-form marginal posteriors of the parts of an exact posterior.

A Normal block alone gives Normal marginals. Scaled by φ ~ InverseGamma(a, b) (variance) or Gamma(a, rate b)
(precision), integrating φ out gives Student-t with 2a degrees of freedom; scaled by a Wishart(ν, V) precision with
multiple K, each vector is multivariate t with ν − D + 1 degrees of freedom.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from scipy import stats

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.conjugate_posterior import Component, Part

__all__ = ["Closed", "finite_marginals", "part_marginals"]

Closed = tuple[Any, str, Any, bool]  # distribution, family, joint distribution, elementwise
JOINT_LIMIT = 500  # entries above which no joint covariance is formed


def part_marginals(part: Part) -> dict[str, Closed]:
    """Marginals of every variable of a part."""
    result: dict[str, Closed] = {}
    if part.scale is not None:
        family = part.scale.family
        elementwise = family.support.event < 2
        result[part.scale.name] = (
            family.frozen(part.parameters),
            family.name,
            family.joint(part.parameters),
            elementwise,
        )
    if part.gaussian is not None:
        result |= _gaussian_marginals(part)
    return result


def _gaussian_marginals(part: Part) -> dict[str, Closed]:
    gaussian = part.gaussian
    assert gaussian is not None
    if part.multiple is not None:
        return _multivariate_t(part)
    sd = np.sqrt(gaussian.precision.variances)
    covariance = gaussian.precision.covariance() if gaussian.size <= JOINT_LIMIT else None
    if part.scale is None:
        return {
            n: (
                stats.norm(gaussian.mean[s].reshape(gaussian.shapes[n]), sd[s].reshape(gaussian.shapes[n])),
                "normal",
                None
                if covariance is None
                else stats.multivariate_normal(gaussian.mean[s], covariance[s, s], allow_singular=True),
                True,
            )
            for n, s in gaussian.slices.items()
        }
    group = part.group
    assert group is not None
    df, ratio = (np.ravel(v)[group] for v in part.student)
    scale = np.sqrt(ratio * np.ravel(part.reference)[group] ** part.scale.kappa) * sd
    result: dict[str, Closed] = {}
    for name, s in gaussian.slices.items():
        shape = gaussian.shapes[name]
        dist = stats.t(df[s].reshape(shape), gaussian.mean[s].reshape(shape), scale[s].reshape(shape))
        joint = None
        if covariance is not None and np.all(group[s] == group[s][:1]):
            ratio = np.outer(scale[s] / sd[s], scale[s] / sd[s])
            joint = stats.multivariate_t(gaussian.mean[s], ratio * covariance[s, s], df=df[s][0], allow_singular=True)
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


def finite_marginals(analysis: Analysis, components: list[Component], weights: np.ndarray) -> dict[str, Closed]:
    """Posterior probabilities of scalar finite variables, from the table of hypotheses."""
    result: dict[str, Closed] = {}
    for name in analysis.finite:
        if analysis.shapes[name] != ():
            continue
        values = np.array([int(c.fixed[name]) for c in components])
        support = np.unique(values)
        probabilities = np.array([weights[values == v].sum() for v in support])
        dist = stats.rv_discrete(values=(support, probabilities / probabilities.sum()))()
        result[name] = dist, "categorical", None, True
    return result
