r"""The filter of :mod:`bayeskit.graphs.matern.passes` for one process, with its state in variables instead of arrays.

That is what most models have, and it takes a sixth of the time. A process of a lower order than three is one of three
whose other entries are zero.
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.matern import transitions
from bayeskit.graphs.matern.transitions import stationary, transition
from bayeskit.graphs.numba_functions import as_written

__all__ = ["filter_one"]


@as_written(transitions.__file__)
def filter_one(x, mean, noise, order, variance, rate, z, root):  # type: ignore[no-untyped-def]
    """z and root at the last place of each run of equal x; False where the covariance is not positive definite."""
    n, last, gap = len(x), -1, -1.0
    a, q, scratch = np.zeros((3, 3)), np.zeros((3, 3)), np.empty(5)
    stationary(order, 0, q)
    m0, m1, m2 = 0.0, 0.0, 0.0
    p00, p01, p02, p11, p12, p22 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(n):
        if t + 1 < n and x[t + 1] == x[t]:
            continue
        if last >= 0 and x[t] - x[last] != gap:
            gap = x[t] - x[last]
            transition(order, rate * gap, 0, a, q, scratch)
        a00, a01, a02 = a[0, 0], a[0, 1], a[0, 2]
        a10, a11, a12 = a[1, 0], a[1, 1], a[1, 2]
        a20, a21, a22 = a[2, 0], a[2, 1], a[2, 2]
        m0, m1, m2 = a00 * m0 + a01 * m1 + a02 * m2, a10 * m0 + a11 * m1 + a12 * m2, a20 * m0 + a21 * m1 + a22 * m2
        # A P, and then A P Aᵀ + Q.
        h00, h10, h20 = (
            a00 * p00 + a01 * p01 + a02 * p02,
            a10 * p00 + a11 * p01 + a12 * p02,
            a20 * p00 + a21 * p01 + a22 * p02,
        )
        h01, h11, h21 = (
            a00 * p01 + a01 * p11 + a02 * p12,
            a10 * p01 + a11 * p11 + a12 * p12,
            a20 * p01 + a21 * p11 + a22 * p12,
        )
        h02, h12, h22 = (
            a00 * p02 + a01 * p12 + a02 * p22,
            a10 * p02 + a11 * p12 + a12 * p22,
            a20 * p02 + a21 * p12 + a22 * p22,
        )
        p00 = h00 * a00 + h01 * a01 + h02 * a02 + variance * q[0, 0]
        p01 = h00 * a10 + h01 * a11 + h02 * a12 + variance * q[0, 1]
        p02 = h00 * a20 + h01 * a21 + h02 * a22 + variance * q[0, 2]
        p11 = h10 * a10 + h11 * a11 + h12 * a12 + variance * q[1, 1]
        p12 = h10 * a20 + h11 * a21 + h12 * a22 + variance * q[1, 2]
        p22 = h20 * a20 + h21 * a21 + h22 * a22 + variance * q[2, 2]
        d = noise[t]
        s, e = p00 + d, mean[t] - m0
        if not 0.0 < s < np.inf:
            return False
        size = np.sqrt(s)
        z[t], root[t] = e / size, size
        # What is left of P, M P Mᵀ + d K Kᵀ, without the rounding of 1 − P₀₀ / S.
        k0, k1, k2, left = p00 / s, p01 / s, p02 / s, d / s
        p11, p12, p22 = (
            (p11 - k1 * p01) - k1 * (p01 - k1 * p00) + d * k1 * k1,
            (p12 - k1 * p02) - k2 * (p01 - k1 * p00) + d * k1 * k2,
            (p22 - k2 * p02) - k2 * (p02 - k2 * p00) + d * k2 * k2,
        )
        p00, p01, p02 = left * p00, left * p01, left * p02
        m0, m1, m2 = m0 + k0 * e, m1 + k1 * e, m2 + k2 * e
        last = t
    return True
