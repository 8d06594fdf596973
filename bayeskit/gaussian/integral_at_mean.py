r"""The integral of a banded block from its log density at the mean, where data are few.

.. math:: \log p(y \mid \phi) = \log p(y, \hat\theta \mid \phi) - \tfrac12 \log |\Lambda| + \tfrac12 D \log 2\pi

The sufficient statistics give the same as c + ½ ηᵀΛ⁻¹η, the difference of two numbers of the size of the data's squares
over σ². Of a level that is observed with noise, 300 rows of it, no digit is left at σ = 1e-6, where the tail of log σ
still holds 1e-4 of the mass. At the mean the residuals are what they are: nothing cancels, and an error of θ̂ counts by
its square.
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt

from bayeskit.gaussian.block import GaussianBlock
from bayeskit.gaussian.integral import dense_solution, solved_band
from bayeskit.gaussian.quadratic_form import QuadraticForm
from bayeskit.gaussian.strategies import strategy_of
from bayeskit.graphs.rewriting import substitute
from bayeskit.model.data_slots import sealed_in
from bayeskit.types import Graph

__all__ = ["integral_at_mean", "integral_terms", "is_cheap"]

ROWS = 8  # for each entry of θ, up to which evaluating them takes no longer than solving the band
EPSILON, LOST = np.finfo(float).eps, 1e-3  # nats that log |Λ| may be off by, beyond which it counts as unknown


def is_cheap(form: QuadraticForm, block: GaussianBlock) -> bool:
    """Whether the log density at one θ takes no longer than the band."""
    few = block.joint.data_size <= ROWS * form.size
    return few and not sealed_in([block.joint.factors[f] for f in block.factors])


def integral_at_mean(form: QuadraticForm, block: GaussianBlock) -> Graph:
    """The log integral of all of the block's density, its ``rest`` among it."""
    size, solved = form.size, solved_band(form, form.values)
    log_determinant, mean = solved.log_determinant, solved.solution[:, 0]
    if solved.bordered:
        of_border, mean_of_border = dense_solution(*solved.left)
        # Of log |Λ|, in ulps: where the band leaves next to nothing of the entries of the border.
        rounding = pt.sum(pt.abs(pt.diagonal(solved.own) / pt.diagonal(solved.left[0])))
        log_determinant = pt.switch(EPSILON * rounding > LOST, np.nan, log_determinant + of_border)
        mean = pt.concatenate([mean - pt.dot(solved.solution[:, 1:], mean_of_border), mean_of_border])
    theta = mean[np.argsort(np.concatenate([solved.layout.inner, solved.layout.shared]))] + form.origin
    parts = {block.joint.values[n]: theta[s].reshape(block.shapes[n]) for n, s in block.theta.slices.items()}
    (at_mean,) = substitute([block.total], parts)
    total: Graph = at_mean - 0.5 * log_determinant + 0.5 * size * np.log(2 * np.pi)
    return total


def integral_terms(block: GaussianBlock, form: QuadraticForm) -> list[Graph]:
    """Terms of the log integral of all of a block's density, by the strategy of its form or at the mean."""
    strategy = strategy_of(form)
    if strategy.at_mean and is_cheap(form, block):
        return [integral_at_mean(form, block)]
    return [form.rest, strategy.integral(form)]
