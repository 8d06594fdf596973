r"""A Matérn process on the line as a Markov process: how its state moves over a gap, and how that varies with it.

A process with covariance :math:`k_\nu(\lambda |t - t'|)`, :math:`\nu = p - ½`, is the first entry of a Markov process
of dimension p (Hartikainen and Särkkä 2010): f and its derivatives, the k-th over :math:`\lambda^k`. With
:math:`u = \lambda \Delta` and F the companion matrix of :math:`(s + 1)^p`,

.. math::

   A(u) = e^{Fu}, \qquad Q(u) = q \int_0^u \varphi(s) \varphi(s)^\top ds, \qquad \varphi(s) = A(s) e_p,

so that :math:`dA/du = F A` and :math:`dQ/du = q \varphi(u) \varphi(u)^\top`. Q comes from the integrals of
:math:`s^k e^{-2s}`, each to full relative precision: as the difference of two stationary covariances it would lose
every digit for near points, where its first entry is of order :math:`u^{2p-1}`. Order 0 is a constant.
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.numba_functions import as_written

__all__ = ["slope", "stationary", "transition"]

SERIES_BELOW = 2.0  # where the power series takes fewer than forty terms
FAR = 350.0  # from here on e^(-2u) is zero, and the state forgotten


@as_written()
def stationary(order: int, at: int, covariance: np.ndarray) -> None:
    """The covariance of the state at any one time, for variance one, put into a matrix from row ``at`` on."""
    for i in range(at, at + order):
        for j in range(at, at + order):
            covariance[i, j] = 0.0
    covariance[at, at] = 1.0
    if order == 2:
        covariance[at + 1, at + 1] = 1.0
    elif order == 3:
        covariance[at + 1, at + 1] = 1.0 / 3.0
        covariance[at + 2, at + 2] = 1.0
        covariance[at, at + 2] = -1.0 / 3.0
        covariance[at + 2, at] = -1.0 / 3.0


@as_written()
def _integrals(u: float, result: np.ndarray) -> None:
    """The integrals of s^k e^(-2s) from 0 to u, k = 0 to 4: all sums are of positive terms where u is small."""
    decay = np.exp(-2.0 * u)
    if u < SERIES_BELOW:
        term = decay * u**5 / 5.0
        total, j = term, 6.0
        while term > 1e-17 * total:
            term *= 2.0 * u / j
            total += term
            j += 1.0
        result[4] = total
        power = u**4
        for k in range(4, 0, -1):
            result[k - 1] = (2.0 * result[k] + power * decay) / k
            power /= u if u > 0.0 else 1.0
        return
    result[0] = -0.5 * np.expm1(-2.0 * u)
    power = 1.0
    for k in range(1, 5):
        power *= u
        result[k] = 0.5 * (k * result[k - 1] - power * decay)


@as_written()
def transition(order: int, u: float, at: int, a: np.ndarray, q: np.ndarray, scratch: np.ndarray) -> None:
    """A(u) and Q(u), for variance one, put into matrices from row ``at`` on; ``scratch`` has five numbers."""
    if order == 0:
        a[at, at], q[at, at] = 1.0, 0.0
        return
    if u > FAR:
        for i in range(at, at + order):
            for j in range(at, at + order):
                a[i, j] = 0.0
        stationary(order, at, q)
        return
    decay = np.exp(-u)
    if order == 1:
        a[at, at], q[at, at] = decay, -np.expm1(-2.0 * u)
        return
    _integrals(u, scratch)
    i0, i1, i2, i3, i4 = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    b, c = at + 1, at + 2
    if order == 2:
        a[at, at], a[at, b], a[b, at], a[b, b] = decay * (1.0 + u), decay * u, -decay * u, decay * (1.0 - u)
        q[at, at], q[at, b], q[b, b] = 4.0 * i2, 4.0 * (i1 - i2), 4.0 * (i0 - 2.0 * i1 + i2)
        q[b, at] = q[at, b]
        return
    h = 0.5 * u * u
    a[at, at], a[at, b], a[at, c] = decay * (1.0 + u + h), decay * (u + 2.0 * h), decay * h
    a[b, at], a[b, b], a[b, c] = -decay * h, decay * (1.0 + u - 2.0 * h), decay * (u - h)
    a[c, at], a[c, b], a[c, c] = decay * (h - u), decay * (2.0 * h - 3.0 * u), decay * (1.0 - 2.0 * u + h)
    scale = 16.0 / 3.0
    q[at, at] = scale * 0.25 * i4
    q[at, b] = scale * (0.5 * i3 - 0.25 * i4)
    q[at, c] = scale * (0.5 * i2 - i3 + 0.25 * i4)
    q[b, b] = scale * (i2 - i3 + 0.25 * i4)
    q[b, c] = scale * (i1 - 2.5 * i2 + 1.5 * i3 - 0.25 * i4)
    q[c, c] = scale * (i0 - 4.0 * i1 + 5.0 * i2 - 2.0 * i3 + 0.25 * i4)
    q[b, at], q[c, at], q[c, b] = q[at, b], q[at, c], q[b, c]


@as_written()
def slope(order: int, u: float, at: int, a: np.ndarray, to_a: np.ndarray, to_q: np.ndarray, variance: float) -> float:
    """Of a function with derivatives ``to_a`` in A and ``to_q`` in the variance times Q, the derivative in u."""
    if order == 0 or u > FAR:
        return 0.0
    decay = np.exp(-u)
    if order == 1:
        return -a[at, at] * to_a[at, at] + 2.0 * variance * decay * decay * to_q[at, at]
    b, c = at + 1, at + 2
    total = 0.0
    for j in range(at, at + order):
        if order == 2:
            total += a[b, j] * to_a[at, j] - (a[at, j] + 2.0 * a[b, j]) * to_a[b, j]
        else:
            total += a[b, j] * to_a[at, j] + a[c, j] * to_a[b, j]
            total -= (a[at, j] + 3.0 * a[b, j] + 3.0 * a[c, j]) * to_a[c, j]
    scale = 4.0 if order == 2 else 16.0 / 3.0
    for i in range(at, at + order):
        for j in range(at, at + order):
            total += scale * variance * a[i, at + order - 1] * a[j, at + order - 1] * to_q[i, j]
    return total
