"""Dirichlet(α) on the simplex: p(φ) ∝ Π φ_k^(α_k−1).

φ_k ∂/∂φ_k log p = α_k − 1, a constant; leading axes are independent vectors. Each entry is Beta(α_k, Σα − α_k).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import stats

from bayeskit.families.base import Parameters, ScoreFamily
from bayeskit.graphs.extended_precision import gammaln, xlogy

__all__ = ["FAMILY"]


def _log_density(p: Parameters, x: np.ndarray) -> np.ndarray:
    a = np.asarray(p["a"], dtype=np.longdouble)
    return gammaln(a.sum(-1)) - gammaln(a).sum(-1) + xlogy(a - 1, x).sum(-1)


def _draw(p: Parameters, rng: np.random.Generator, n: int) -> np.ndarray:
    gammas = rng.standard_gamma(p["a"], size=(n, *p["a"].shape))
    return gammas / gammas.sum(-1, keepdims=True)


def _joint(p: Parameters) -> Any:
    return stats.dirichlet(p["a"]) if p["a"].ndim == 1 else None


def _log_density_graph(p: Mapping[str, Any], x: Any) -> Any:
    a = p["a"]
    return pt.gammaln(pt.sum(a, axis=-1)) - pt.sum(pt.gammaln(a), axis=-1) + pt.sum((a - 1) * pt.log(x), axis=-1)


FAMILY = ScoreFamily(
    name="dirichlet",
    support="simplex",
    weight=lambda x: x,
    order=0,
    anchors=lambda shape, guess: [guess],
    start=lambda shape: np.full(shape, 1.0 / shape[-1]),
    parameters=lambda c: {"a": c[0] + 1},
    proper=lambda p: bool(np.all(p["a"] > 0)),
    centre=lambda p: p["a"] / p["a"].sum(-1, keepdims=True),
    log_density=_log_density,
    log_density_graph=_log_density_graph,
    draw=_draw,
    frozen=lambda p: stats.beta(p["a"], p["a"].sum(-1, keepdims=True) - p["a"]),
    joint=_joint,
    advice="A Dirichlet prior is conjugate to Categorical and Multinomial data with these probabilities themselves as "
    "parameter.",
)
