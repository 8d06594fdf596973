"""Wishart(ν, V) on positive definite W: p(W) ∝ |W|^((ν−D−1)/2) exp(−½ tr V⁻¹W).

∂/∂W log p = ½ (ν−D−1) W⁻¹ − ½ V⁻¹. A log density is of this form if and only if it is c₀ + c₁ log |W| + (something
linear in W); :mod:`bayeskit.elimination.wishart_form` proves it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

__all__ = ["ADVICE", "WishartParameters", "parameters_from_values"]

ADVICE = (
    "A Wishart prior is conjugate to the precision matrix of MvNormal data (tau=W), alone or with a MvNormal "
    "mean whose precision is a multiple of W."
)


@dataclass(frozen=True)
class WishartParameters:
    """ν (``df``) and V⁻¹ (``inverse_scale``)."""

    df: float
    inverse_scale: np.ndarray

    @property
    def size(self) -> int:
        return len(self.inverse_scale)

    @property
    def scale(self) -> np.ndarray:
        """V."""
        return np.linalg.inv(self.inverse_scale)

    def log_density(self, matrix: np.ndarray) -> float:
        """log p(W), up to rounding; Bishop (2006), equation B.78."""
        d, size = self.df, self.size
        log_det = np.linalg.slogdet(matrix)[1]
        log_det_scale = -np.linalg.slogdet(self.inverse_scale)[1]
        normaliser = 0.5 * d * size * np.log(2) + 0.5 * d * log_det_scale + special.multigammaln(d / 2, size)
        return float(0.5 * (d - size - 1) * log_det - 0.5 * np.sum(self.inverse_scale * matrix) - normaliser)


def parameters_from_values(
    log_density: Callable[[np.ndarray], Any], start: np.ndarray, shift: float = 0.0
) -> WishartParameters:
    """ν and V⁻¹ of a log density f(W) = c + ½ q log |W| − ½ tr SW from its values, q = ν − D − 1 and S = V⁻¹.

    With M = L Lᵀ near the mean and S′ = LᵀSL, the values at M, 2M and M/2 give q and tr S′; those at L(I + E)Lᵀ, one
    symmetric unit matrix E at a time, give the entries of S′. Near the mean S′ is about ν I and no digits are lost.

    Parameters
    ----------
    log_density : callable
        f, up to a constant.
    start : numpy.ndarray
        A first M; the scale of the posterior is searched for from there.
    shift : float
        Added to ν: what integrating out a Normal mean takes off the power of |W|.
    """
    size = len(start)
    matrix = start
    for _ in range(8):
        power, trace = _power_and_trace(log_density, matrix)
        ratio = size * power / trace if trace > 0 and power > 0 else (1e-6 if power <= 0 else 1e6)
        matrix = matrix * np.clip(ratio, 1e-12, 1e12)
        if 0.5 < ratio < 2:
            break
    for _ in range(2):
        power, _ = _power_and_trace(log_density, matrix)
        inverse_scale = _inverse_scale(log_density, matrix, power)
        parameters = WishartParameters(power + size + 1 + shift, inverse_scale)
        if np.all(np.linalg.eigvalsh(inverse_scale) > 0) and parameters.df > 0:
            matrix = parameters.df * parameters.scale
    return parameters


def _power_and_trace(log_density: Callable[[np.ndarray], Any], matrix: np.ndarray) -> tuple[float, float]:
    """q and tr SM from the values at M/2, M and 2M."""
    low, middle, high = (log_density(matrix * k) for k in (0.5, 1.0, 2.0))
    trace = -4 * ((high - middle) + (low - middle))
    power = ((high - middle) + 0.5 * trace) * 2 / (len(matrix) * np.log(np.longdouble(2)))
    return float(power), float(trace)


def _inverse_scale(log_density: Callable[[np.ndarray], Any], matrix: np.ndarray, power: float) -> np.ndarray:
    """S from the values at L(I + E)Lᵀ: with E = eᵢeᵢᵀ, log |I + E| = log 2; with E = ½(eᵢeⱼᵀ + eⱼeᵢᵀ), it is log ¾."""
    size = len(matrix)
    root = np.linalg.cholesky(matrix)
    base = log_density(matrix)
    white = np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1):
            unit = np.zeros((size, size))
            unit[i, j] += 0.5
            unit[j, i] += 0.5
            change = log_density(root @ (np.eye(size) + unit) @ root.T) - base
            log_determinant = np.log(2.0) if i == j else np.log(0.75)
            white[i, j] = white[j, i] = power * log_determinant - 2 * float(change)
    inverse = np.linalg.inv(root)
    return inverse.T @ white @ inverse
