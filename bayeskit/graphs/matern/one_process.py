r"""The filter of :mod:`bayeskit.graphs.matern.passes` for one process, with its state in variables instead of arrays.

That is what most models have, and it takes a sixth of the time. A process of a lower order than three is one of three
whose other entries are zero.
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.numba_functions import as_written

__all__ = ["filter_one"]

SERIES_BELOW = 2.0
FAR = 350.0


@as_written()
def _moments(top: int, u: float, decay: float) -> tuple[float, float, float, float, float]:
    """The integrals of s^k e^(-2s) from 0 to u up to k = 2 or 4, as in :mod:`bayeskit.graphs.matern.transitions`."""
    if u >= SERIES_BELOW:
        i0 = 0.5 * (1.0 - decay)
        i1 = 0.5 * (i0 - u * decay)
        i2 = 0.5 * (2.0 * i1 - u * u * decay)
        i3 = 0.5 * (3.0 * i2 - u * u * u * decay)
        return i0, i1, i2, i3, 0.5 * (4.0 * i3 - u * u * u * u * decay)
    term = decay * u * u * u
    term = term / 3.0 if top == 2 else term * u * u / 5.0
    total, j = term, top + 2.0
    while term > 1e-17 * total:
        term *= 2.0 * u / j
        total += term
        j += 1.0
    i3, i4 = 0.0, 0.0
    if top == 2:
        i2 = total
    else:
        i4 = total
        i3 = (2.0 * i4 + u * u * u * u * decay) / 4.0
        i2 = (2.0 * i3 + u * u * u * decay) / 3.0
    i1 = (2.0 * i2 + u * u * decay) / 2.0
    return 2.0 * i1 + u * decay, i1, i2, i3, i4


@as_written()
def filter_one(x, mean, noise, order, c, rate, z, root):  # type: ignore[no-untyped-def]
    """z and root at the last place of each run of equal x; False where the covariance is not positive definite."""
    n, last, gap = len(x), -1, -1.0
    a00, a01, a02, a10, a11, a12, a20, a21, a22 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    q00, q01, q02, q11, q12, q22 = c, 0.0, 0.0, 0.0, 0.0, 0.0
    if order == 2:
        q11 = c
    if order == 3:
        q02, q11, q22 = -c / 3.0, c / 3.0, c
    s00, s02, s11, s22 = q00, q02, q11, q22
    m0, m1, m2 = 0.0, 0.0, 0.0
    p00, p01, p02, p11, p12, p22 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(n):
        if t + 1 < n and x[t + 1] == x[t]:
            continue
        if last >= 0 and x[t] - x[last] != gap:
            gap = x[t] - x[last]
            u = rate * gap
            decay, double = np.exp(-u), np.exp(-2.0 * u)
            if u > FAR:
                a00, a01, a02, a10, a11, a12, a20, a21, a22 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
                q00, q01, q02, q11, q12, q22 = s00, 0.0, s02, s11, 0.0, s22
            elif order == 1:
                a00, q00 = decay, -c * np.expm1(-2.0 * u)
            elif order == 2:
                i0, i1, i2, _, _ = _moments(2, u, double)
                a00, a01, a10, a11 = decay * (1.0 + u), decay * u, -decay * u, decay * (1.0 - u)
                q00, q01, q11 = 4.0 * c * i2, 4.0 * c * (i1 - i2), 4.0 * c * (i0 - 2.0 * i1 + i2)
            else:
                i0, i1, i2, i3, i4 = _moments(4, u, double)
                h, w = 0.5 * u * u, 16.0 / 3.0 * c
                a00, a01, a02 = decay * (1.0 + u + h), decay * (u + 2.0 * h), decay * h
                a10, a11, a12 = -decay * h, decay * (1.0 + u - 2.0 * h), decay * (u - h)
                a20, a21, a22 = decay * (h - u), decay * (2.0 * h - 3.0 * u), decay * (1.0 - 2.0 * u + h)
                q00, q01, q02 = 0.25 * w * i4, w * (0.5 * i3 - 0.25 * i4), w * (0.5 * i2 - i3 + 0.25 * i4)
                q11, q12 = w * (i2 - i3 + 0.25 * i4), w * (i1 - 2.5 * i2 + 1.5 * i3 - 0.25 * i4)
                q22 = w * (i0 - 4.0 * i1 + 5.0 * i2 - 2.0 * i3 + 0.25 * i4)
        m0, m1, m2 = (
            a00 * m0 + a01 * m1 + a02 * m2,
            a10 * m0 + a11 * m1 + a12 * m2,
            a20 * m0 + a21 * m1 + a22 * m2,
        )
        h00, h01, h02 = a00 * p00 + a01 * p01 + a02 * p02, a00 * p01 + a01 * p11 + a02 * p12, a00 * p02 + a01 * p12 + a02 * p22
        h10, h11, h12 = a10 * p00 + a11 * p01 + a12 * p02, a10 * p01 + a11 * p11 + a12 * p12, a10 * p02 + a11 * p12 + a12 * p22
        h20, h21, h22 = a20 * p00 + a21 * p01 + a22 * p02, a20 * p01 + a21 * p11 + a22 * p12, a20 * p02 + a21 * p12 + a22 * p22
        p00 = h00 * a00 + h01 * a01 + h02 * a02 + q00
        p01 = h00 * a10 + h01 * a11 + h02 * a12 + q01
        p02 = h00 * a20 + h01 * a21 + h02 * a22 + q02
        p11 = h10 * a10 + h11 * a11 + h12 * a12 + q11
        p12 = h10 * a20 + h11 * a21 + h12 * a22 + q12
        p22 = h20 * a20 + h21 * a21 + h22 * a22 + q22
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
