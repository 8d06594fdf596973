"""InverseGamma(α, β) on φ > 0: p(φ) ∝ φ^(−α−1) e^(−β/φ).

φ² ∂/∂φ log p = β − (α+1)φ.
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
    a, b, x = (np.asarray(v, dtype=np.longdouble) for v in (p["shape"], p["scale"], x))
    return xlogy(a, b) - gammaln(a) - (a + 1) * np.log(x) - b / x


def _log_density_graph(p: Mapping[str, Any], x: Any) -> Any:
    a, b = p["shape"], p["scale"]
    return a * pt.log(b) - pt.gammaln(a) - (a + 1) * pt.log(x) - b / x


def _draw(p: Parameters, rng: np.random.Generator, n: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        return representable(p["scale"] / representable(rng.gamma(p["shape"], size=(n, *np.shape(p["shape"])))))


FAMILY = ConjugateFamily(
    name="inverse_gamma",
    support=POSITIVE,
    priors=("InvGammaRV",),
    basis=lambda x, _: (1, x),
    weight=lambda x: x**2,
    anchors=lambda shape, guess: [guess * 0.5, guess * 2.0],
    power=-1,
    parameters=lambda c: {"shape": -c[1] - 1, "scale": c[0]},
    coefficients=lambda p: [p["scale"], -p["shape"] - 1],
    positive=lambda p: (p["shape"], p["scale"]),
    centre=lambda p: p["scale"] / p["shape"],
    log_density=_log_density,
    log_density_graph=_log_density_graph,
    draw=_draw,
    frozen=lambda p: stats.invgamma(p["shape"], scale=p["scale"]),
    mode=lambda c, now: positive_mode(np.stack(c[::-1]), (-1,), now),
    advice="An InverseGamma prior is conjugate to the variance (not the sd or the precision) of Normal and LogNormal "
    "data and to the scale of Exponential data.",
    gaussian=GaussianScaling(-1, 1, lambda p: (2 * p["shape"], p["scale"] / p["shape"])),
)
