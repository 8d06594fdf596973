"""Beta(α, β) on (0, 1): p(φ) ∝ φ^(α−1) (1−φ)^(β−1).

φ(1−φ) ∂/∂φ log p = (α−1)(1−φ) − (β−1)φ = (α−1) − (α+β−2)φ. Uniform(0, 1) is Beta(1, 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import special, stats

from bayeskit.families.base import ConjugateFamily, Parameters
from bayeskit.families.modes import Unbounded, without_rounding
from bayeskit.families.support_kinds import UNIT
from bayeskit.graphs.extended_precision import gammaln, xlogy

__all__ = ["FAMILY"]


def _log_density(p: Parameters, x: np.ndarray) -> np.ndarray:
    a, b, x = (np.asarray(v, dtype=np.longdouble) for v in (p["a"], p["b"], x))
    of_a, of_b, of_both = gammaln(np.stack([a, b, a + b]))  # one call: the series are most of a small answer's time
    return xlogy(a - 1, x) + xlogy(b - 1, 1 - x) - of_a - of_b + of_both


def _log_density_graph(p: Mapping[str, Any], x: Any) -> Any:
    a, b = p["a"], p["b"]
    return (a - 1) * pt.log(x) + (b - 1) * pt.log1p(-x) - pt.gammaln(a) - pt.gammaln(b) + pt.gammaln(a + b)


def _mode(c: list[np.ndarray], now: np.ndarray) -> np.ndarray:
    size = np.maximum(np.abs(c[0]), np.abs(c[1]))
    ones, zeros = without_rounding(c[0], size), without_rounding(-(c[0] + c[1]), size)
    if np.any((ones < 0) | (zeros < 0)):
        raise Unbounded.where((ones < 0) | (zeros < 0))
    total = ones + zeros
    return np.where(total > 0, ones / np.where(total > 0, total, 1.0), now)


FAMILY = ConjugateFamily(
    name="beta",
    support=UNIT,
    priors=("BetaRV",),
    basis=lambda x, _: (1, x),
    weight=lambda x: x * (1 - x),
    anchors=lambda _, guess: [special.expit(special.logit(np.clip(guess, 1e-15, 1 - 1e-15)) + d) for d in (-0.7, 0.7)],
    parameters=lambda c: {"a": c[0] + 1, "b": 1 - (c[0] + c[1])},
    coefficients=lambda p: [p["a"] - 1, 2 - p["a"] - p["b"]],
    positive=lambda p: (p["a"], p["b"]),
    centre=lambda p: p["a"] / (p["a"] + p["b"]),
    log_density=_log_density,
    log_density_graph=_log_density_graph,
    draw=lambda p, rng, n: rng.beta(p["a"], p["b"], size=(n, *np.shape(p["a"]))),
    frozen=lambda p: stats.beta(p["a"], p["b"]),
    mode=_mode,
    advice="A Beta or Uniform(0, 1) prior is conjugate to Bernoulli, Binomial, Geometric and NegativeBinomial data "
    "with this probability itself as parameter.",
)
