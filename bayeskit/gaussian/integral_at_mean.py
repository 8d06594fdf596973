r"""The integral of a banded block from its log density at the mean, where data are few.

.. math:: \log p(y \mid \phi) = \log p(y, \hat\theta \mid \phi) - \tfrac12 \log |\Lambda| + \tfrac12 D \log 2\pi

The sufficient statistics give the same as c + ½ ηᵀΛ⁻¹η, the difference of two numbers of the size of the data's squares
over σ². Of a level that is observed with noise, 300 rows of it, no digit is left at σ = 1e-6, where the tail of log σ
still holds 1e-4 of the mass. At the mean the residuals are what they are: nothing cancels, and an error of θ̂ counts by
its square.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayeskit.gaussian.banded_layout import Lookup, layout
from bayeskit.gaussian.banded_solve import banded_solve
from bayeskit.gaussian.block import GaussianBlock
from bayeskit.gaussian.integral import dense_solution
from bayeskit.gaussian.quadratic_form import QuadraticForm
from bayeskit.graphs.rewriting import substitute
from bayeskit.model.data_slots import sealed_in
from bayeskit.types import Graph

__all__ = ["integral_at_mean", "is_cheap"]

ROWS = 8  # for each entry of θ, up to which evaluating them takes no longer than solving the band
EPSILON, LOST = np.finfo(float).eps, 1e-3  # nats that log |Λ| may be off by, beyond which it counts as unknown


def is_cheap(form: QuadraticForm, block: GaussianBlock) -> bool:
    """Whether the log density at one θ takes no longer than the band."""
    few = block.joint.data_size <= ROWS * form.size
    return few and not sealed_in([block.joint.factors[f] for f in block.factors])


def integral_at_mean(form: QuadraticForm, block: GaussianBlock) -> Graph:
    """The log integral of all of the block's density, its ``rest`` among it."""
    size, plan = form.size, layout(form.size, form.rows, form.columns)
    values: Any = pt.concatenate([form.values, pt.zeros(1)])
    lookup = Lookup(size + 1, form.rows, form.columns)
    eta = values[lookup(np.arange(size), np.full(size, size))]
    band, border, own = (-values[place.ravel()].reshape(place.shape) for place in plan.places(lookup))
    inner, shared = plan.inner, plan.shared
    columns = pt.concatenate([eta[inner][:, None], border], axis=1) if len(shared) else eta[inner][:, None]
    log_determinant, solution, _ = banded_solve(pt.specify_shape(band, (plan.width, len(inner))), columns)
    mean: Any = solution[:, 0]
    if len(shared):
        gram = pt.dot(columns.T, solution)
        # Of log |Λ|, in ulps: where the band leaves next to nothing of the entries of the border.
        left = own - gram[1:, 1:]
        of_shared, mean_of_shared = dense_solution(left, eta[shared] - gram[1:, 0])
        rounding = pt.sum(pt.abs(pt.diagonal(own) / pt.diagonal(left)))
        log_determinant = log_determinant + of_shared
        log_determinant = pt.switch(EPSILON * rounding > LOST, np.nan, log_determinant)
        mean = pt.concatenate([mean - pt.dot(solution[:, 1:], mean_of_shared), mean_of_shared])
    theta = mean[np.argsort(np.concatenate([inner, shared]))] + form.origin
    parts = {block.joint.values[n]: theta[s].reshape(block.shapes[n]) for n, s in block.theta.slices.items()}
    (at_mean,) = substitute([block.total], parts)
    total: Any = at_mean - 0.5 * log_determinant + 0.5 * size * np.log(2 * np.pi)
    return total
