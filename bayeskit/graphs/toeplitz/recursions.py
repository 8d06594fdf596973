r"""The recursions of Schur and of Levinson and Durbin: a positive definite Toeplitz matrix in O(n²) and O(n) memory.

A matrix K with entries :math:`t_{|i-j|}` is one of rank two when it is shifted along its diagonal and subtracted,
:math:`K - Z K Z^\top = u u^\top - v v^\top`. Schur's recursion takes one column of the Cholesky factor after the
other from that, by hyperbolic rotations of :math:`Z u` and v with :math:`\gamma = v_k / (Z u)_k`,

.. math::

   u' = (Z u - \gamma v) / \sqrt{1 - \gamma^2}, \qquad v' = \sqrt{1 - \gamma^2}\, v - \gamma u',

in which order they are as stable as Cholesky's own (Bojanczyk, Brent, de Hoog and Sweet 1995). Levinson's gives
:math:`K^{-1} y` and the first column of :math:`K^{-1}` at once, less stably where K is nearly singular.
SciPy's ``solve_toeplitz`` has neither the determinant nor one pass for two sides, and takes ten times as long.
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.numba_functions import as_written

__all__ = ["levinson", "schur"]


@as_written()
def schur(t, y):  # type: ignore[no-untyped-def]
    """yᵀ K⁻¹ y and log |K|; not numbers where K is not positive definite."""
    n = len(t)
    if not 0.0 < t[0] < np.inf:
        return np.nan, np.nan
    root = np.sqrt(t[0])
    u, v, left = np.empty(n), np.empty(n), np.empty(n)
    z = y[0] / root
    form, log_determinant = z * z, np.log(t[0])
    for i in range(n):
        u[i] = v[i] = t[i] / root
        left[i] = y[i] - z * u[i]
    for k in range(1, n):
        gamma = v[k] / u[0]
        square = (1.0 - gamma) * (1.0 + gamma)
        if not square > 0.0:
            return np.nan, np.nan
        cosine = np.sqrt(square)
        inverse = 1.0 / cosine
        pivot = (u[0] - gamma * v[k]) * inverse
        z = left[k] / pivot
        form += z * z
        log_determinant += 2.0 * np.log(pivot)
        for i in range(n - k):
            column = (u[i] - gamma * v[i + k]) * inverse
            v[i + k] = cosine * v[i + k] - gamma * column
            left[i + k] -= z * column
            u[i] = column
    return form, log_determinant


@as_written()
def levinson(t, y):  # type: ignore[no-untyped-def]
    """K⁻¹ y and the first column of K⁻¹; not numbers where a leading part of K is not positive definite."""
    n = len(t)
    solved, ahead, next_ahead = np.zeros(n), np.zeros(n), np.zeros(n)
    backward = t[::-1].copy()  # what a product needs lies side by side
    error = t[0]
    if not error > 0.0:
        return np.full(n, np.nan), np.full(n, np.nan)
    ahead[0], solved[0] = 1.0, y[0] / error
    for k in range(1, n):
        lags = backward[n - 1 - k : n - 1]  # t[k], …, t[1]
        reflection = -np.dot(lags, ahead[:k]) / error
        error *= (1.0 - reflection) * (1.0 + reflection)
        if not error > 0.0:
            return np.full(n, np.nan), np.full(n, np.nan)
        for i in range(k + 1):
            next_ahead[i] = ahead[i] + reflection * ahead[k - i]
        ahead, next_ahead = next_ahead, ahead
        step = (y[k] - np.dot(lags, solved[:k])) / error
        for i in range(k + 1):
            solved[i] += step * ahead[k - i]
    return solved, ahead / error
