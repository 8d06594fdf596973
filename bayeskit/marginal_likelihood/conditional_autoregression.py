r"""What PyMC's density of a conditional autoregression, ``pm.CAR``, integrates to.

The field is Normal, with the precision of a graph of neighbours W,

.. math:: x \sim \mathrm{N}(\mu, Q^{-1}), \qquad Q = \tau (D - \alpha W), \qquad D = \mathrm{diag}(W 1)

(Besag 1974). PyMC's density has :math:`\tau^{d/2} |I - \alpha D^{-1/2} W D^{-1/2}|^{1/2}`, the part of
:math:`|Q|^{1/2}` that depends on α and τ, and leaves out the rest, :math:`|D|^{1/2} (2\pi)^{-d/2}`, so that

.. math:: \log \int p(x) \, dx = \tfrac{d}{2} \log 2\pi - \tfrac12 \sum_i \log D_{ii}

whatever α, τ and μ are: they may be latent. The determinant is a product over :math:`1 - \alpha \lambda_i`, each off by
the rounding of its eigenvalue, which the error has in it. Nothing of this is believed of a version: PyMC's own density
is held against the normal one at several α, τ and x, and what they differ by is the integral.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.constant_matrices import with_constant_matrices
from bayeskit.graphs.environment import silently
from bayeskit.graphs.rewriting import inline, widen
from bayeskit.model.areal_fields import room_to_singular, weights_of

__all__ = ["car_log_mass"]

ROUNDING = 1e-12  # nats
SEED, SAME = 0, 1e-9  # nats, relative to the size of the densities
TRIED = ((-0.6, 0.5), (0.2, 3.0), (0.95, 1.5))  # α and τ at which the densities are compared


def car_log_mass(rv: Any) -> tuple[float, float] | None:
    """log ∫ of PyMC's density of one field, and what that density may be off by near a singular precision.

    None where that is no normal density times a number, or W is not known.
    """
    w = weights_of(rv)
    if w is None or not np.all(w.sum(axis=0) > 0) or not np.array_equal(w, w.T):
        return None
    degree = w.sum(axis=0)
    alpha, tau, x = pt.scalar("alpha"), pt.scalar("tau"), pt.vector("x", shape=(len(w),))
    written = pt.sum(pm.logp(pm.CAR.dist(np.zeros(len(w)), w, alpha, tau), x))
    (graph,) = with_constant_matrices(inline(widen([written])))
    theirs = compile_small([alpha, tau, x], graph)
    rng, differences = np.random.default_rng(SEED), []
    for a, t in TRIED:
        q = t * (np.diag(degree) - a * w)
        at = rng.normal(size=len(w))
        sign, log_determinant = np.linalg.slogdet(q)
        ours = 0.5 * (log_determinant - at @ q @ at) + len(w) * stats.norm.logpdf(0.0)
        with silently():
            differences.append(float(theirs(a, t, at)) - ours if sign > 0 else np.nan)
    largest = max(1.0, float(np.max(np.abs(differences))))
    if not np.ptp(differences) < SAME * largest:
        return None
    error = ROUNDING + len(w) * np.finfo(float).eps / max(room_to_singular(rv), np.finfo(float).tiny)
    return float(np.mean(differences)), float(error)
