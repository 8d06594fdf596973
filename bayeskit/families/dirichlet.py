"""Dirichlet(α) on the simplex: p(φ) ∝ Π φ_k^(α_k−1).

φ_k ∂/∂φ_k log p = α_k − 1, a constant; leading axes are independent vectors. Each entry is Beta(α_k, Σα − α_k).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import stats

from bayeskit.families.base import ConjugateFamily, Parameters
from bayeskit.families.modes import Unbounded, without_rounding
from bayeskit.families.support_kinds import SIMPLEX
from bayeskit.graphs.extended_precision import gammaln, xlogy

__all__ = ["FAMILY"]


def _log_density(p: Parameters, x: np.ndarray) -> np.ndarray:
    a = np.asarray(p["a"], dtype=np.longdouble)
    return gammaln(a.sum(-1)) - gammaln(a).sum(-1) + xlogy(a - 1, x).sum(-1)


def _draw(p: Parameters, rng: np.random.Generator, n: int) -> np.ndarray:
    gammas = rng.standard_gamma(p["a"], size=(n, *p["a"].shape))
    return gammas / gammas.sum(-1, keepdims=True)


def _log_density_graph(p: Mapping[str, Any], x: Any) -> Any:
    a = p["a"]
    return pt.gammaln(pt.sum(a, axis=-1)) - pt.sum(pt.gammaln(a), axis=-1) + pt.sum((a - 1) * pt.log(x), axis=-1)


def _mode(c: list[np.ndarray], now: np.ndarray) -> np.ndarray:
    ones = without_rounding(c[0], np.abs(np.sum(c[0], axis=-1, keepdims=True)))
    if np.any(ones < 0):
        raise Unbounded.where(ones < 0)
    total = np.sum(ones, axis=-1, keepdims=True)
    return np.where(total > 0, ones / np.where(total > 0, total, 1.0), now)


FAMILY = ConjugateFamily(
    name="dirichlet",
    support=SIMPLEX,
    priors=("DirichletRV",),
    basis=lambda x, _: (1,),
    weight=lambda x: x,
    anchors=lambda shape, guess: [guess],
    parameters=lambda c: {"a": c[0] + 1},
    coefficients=lambda p: [p["a"] - 1],
    positive=lambda p: (p["a"],),
    centre=lambda p: p["a"] / p["a"].sum(-1, keepdims=True),
    log_density=_log_density,
    log_density_graph=_log_density_graph,
    draw=_draw,
    frozen=lambda p: stats.beta(p["a"], p["a"].sum(-1, keepdims=True) - p["a"]),
    joint=lambda p: stats.dirichlet(p["a"]) if p["a"].ndim == 1 else None,
    mode=_mode,
    advice="A Dirichlet prior is conjugate to Categorical and Multinomial data with these probabilities themselves as "
    "parameter.",
)
