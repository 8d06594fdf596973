r"""What PyMC's densities of LKJ correlations integrate to, found from their values at three points.

The density of the Cholesky factor L of an n × n correlation matrix, whose rows have norm one, is

.. math:: p(L) = \frac{1}{c} \prod_{i=2}^{n} L_{ii}^{n - i + 2\eta - 2}, \qquad
    c = \prod_{k=1}^{n-1} \pi^{k/2} \frac{\Gamma(\eta + (n - 1 - k)/2)}{\Gamma(\eta + (n - 1)/2)}

(Lewandowski, Kurowicka and Joe, 2009). PyMC 6.3 multiplies by c where it should divide, and its ``LKJCorr`` of n ≥ 3
leaves out the Jacobian from L to the matrix: it is another distribution, and its integral is not known here. Nothing of
this is believed of a version: PyMC's own density, Jacobian of its transform included, is held against the one above,
and where it has been mended they agree.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import special, stats

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.rewriting import inline, without_checks
from bayeskit.model.support import support_without_transform
from bayeskit.model.unconstrained import Unconstrained

__all__ = ["is_lkj", "lkj_log_mass", "lkj_parameters"]

FACTOR, CORRELATION = "_LKJCholeskyCovRV", "LKJCorrRV"
SEED, POINTS = 0, 3  # at which the densities are compared
SAME = 1e-9  # nats
BELOW_ZERO = (-1e3, -1.0, -1e-3)  # where a standard deviation has no density


def is_lkj(rv: Any) -> bool:
    """Whether a random variable is an ``LKJCholeskyCov`` or an ``LKJCorr``."""
    return type(rv.owner.op).__name__ in (FACTOR, CORRELATION)


def lkj_parameters(rv: Any) -> list[Any]:
    """n and η."""
    first = 1 if type(rv.owner.op).__name__ == FACTOR else 2
    return list(rv.owner.inputs[first : first + 2])


def lkj_log_mass(rv: Any) -> float | None:
    """log ∫ of PyMC's density of one matrix; None where that is not the density above times a number.

    Its parameters n and η depend on no other random variable.
    """
    covariance = type(rv.owner.op).__name__ == FACTOR
    if covariance and not _positive(rv.owner.inputs[3]):
        return None
    n, eta = (float(v) for v in compile_small([], lkj_parameters(rv))())
    with pm.Model() as model:
        if covariance:
            pm.LKJCholeskyCov("x", n=int(n), eta=eta, sd_dist=pm.HalfNormal.dist(1.0), compute_corr=False)
        else:
            pm.LKJCorr("x", n=int(n), eta=eta)
    space = Unconstrained(model)
    points = np.random.default_rng(SEED).normal(size=(POINTS, space.size))
    expected = [(_of_covariance if covariance else _of_correlation)(space.at(x)["x"], eta) for x in points]
    difference = space.log_density(points) - (np.array(expected) - _log_constant(int(n), eta))
    return float(difference.mean()) if np.ptp(difference) < SAME else None


def _positive(sd: Any) -> bool:
    """Whether a distribution of standard deviations has no mass below zero, where no matrix has one."""
    kind = support_without_transform(sd).kind
    if kind != "other":
        return kind in ("positive", "unit")
    if not all(sd.type.shape):
        return False
    graphs = [pt.max(pm.logp(sd, np.full(sd.type.shape, x))) for x in BELOW_ZERO]
    return bool(np.all(np.array(compile_small([], without_checks(inline(graphs)))()) == -np.inf))


def _log_constant(n: int, eta: float) -> float:
    """log c."""
    k = np.arange(1, n)
    terms = k / 2 * math.log(math.pi) + special.gammaln(eta + (n - 1 - k) / 2) - special.gammaln(eta + (n - 1) / 2)
    return float(terms.sum())


def _of_correlation(factor: np.ndarray, eta: float) -> float:
    """Apart from c, with the Jacobian ∏ L_ii^(i+1) of rows (x, 1)/√(1 + |x|²) in x."""
    return float((len(factor) + 2 * eta - 1) * np.log(np.diagonal(factor)).sum())


def _of_covariance(packed: np.ndarray, eta: float) -> float:
    """Of rows sdᵢ Lᵢ with sd ~ HalfNormal(1), apart from c, with the Jacobian of the logarithms on the diagonal."""
    n = math.isqrt(2 * len(packed))
    factor = np.zeros((n, n))
    factor[np.tril_indices(n)] = packed
    sd, i = np.linalg.norm(factor, axis=1), np.arange(n)
    diagonal = np.log(np.diagonal(factor) / sd)
    density = (n - i + 2 * eta - 3) * diagonal + stats.halfnorm.logpdf(sd)
    return float(np.sum(density + diagonal - i * np.log(sd) + np.log(np.diagonal(factor))))
