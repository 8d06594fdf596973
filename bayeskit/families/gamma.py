"""Gamma(α, rate β) on φ > 0: p(φ) ∝ φ^(α−1) e^(−βφ).

φ ∂/∂φ log p = (α−1) − βφ. Exponential and ChiSquared are special cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import stats

from bayeskit.families.base import ConjugateFamily, GaussianScaling, Parameters
from bayeskit.families.modes import positive_mode
from bayeskit.families.support_kinds import POSITIVE, representable
from bayeskit.graphs.extended_precision import gammaln, xlogy

__all__ = ["FAMILY"]


def _log_density(p: Parameters, x: np.ndarray) -> np.ndarray:
    a, b, x = (np.asarray(v, dtype=np.longdouble) for v in (p["shape"], p["rate"], x))
    return xlogy(a, b) - gammaln(a) + xlogy(a - 1, x) - b * x


def _log_density_graph(p: Mapping[str, Any], x: Any) -> Any:
    a, b = p["shape"], p["rate"]
    return a * pt.log(b) - pt.gammaln(a) + (a - 1) * pt.log(x) - b * x


FAMILY = ConjugateFamily(
    name="gamma",
    support=POSITIVE,
    priors=("GammaRV", "ExponentialRV", "ChiSquaredRV"),
    basis=lambda x, _: (1, x),
    weight=lambda x: x,
    anchors=lambda shape, guess: [guess * 0.5, guess * 2.0],
    power=1,
    parameters=lambda c: {"shape": c[0] + 1, "rate": -c[1]},
    coefficients=lambda p: [p["shape"] - 1, -p["rate"]],
    positive=lambda p: (p["shape"], p["rate"]),
    centre=lambda p: p["shape"] / p["rate"],
    log_density=_log_density,
    log_density_graph=_log_density_graph,
    draw=lambda p, rng, n: representable(rng.gamma(p["shape"], size=(n, *np.shape(p["shape"]))) / p["rate"]),
    frozen=lambda p: stats.gamma(p["shape"], scale=1 / p["rate"]),
    mode=lambda c, now: positive_mode(np.stack(c), (1,), now),
    advice="A Gamma, Exponential or ChiSquared prior is conjugate to the rate of Poisson, Exponential and Gamma data "
    "and to the precision (not the variance or the sd) of Normal and LogNormal data.",
    gaussian=GaussianScaling(1, 0, lambda p: (2 * p["shape"], p["rate"] / p["shape"])),
)
