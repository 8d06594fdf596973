r"""Whitening of observations of Matérn processes on the line, in time linear in their number, and its adjoint.

Of :math:`y_i = \sum_j f_j(t_i) + \varepsilon_i`, with f of covariance :math:`c_j k_{\nu_j}(\lambda_j |t - t'|)`, a
Kalman filter that goes through the points in order gives the innovations e and their variances S. Ordered likewise,

.. math::

   z = L^{-1} y = e / \sqrt S, \qquad \operatorname{diag} L = \sqrt S, \qquad L L^\top = \operatorname{Cov} y:

the filter is a Cholesky factorisation, and z is linear in y. With K = P h / S and M = I − K hᵀ an observation takes the
covariance P of the state to :math:`M P M^\top + d K K^\top`, which stays positive however small d is, and in which
K's own derivative vanishes, so that the adjoint is as short.

Observations at one place are pooled first, :math:`1/d = \sum 1/d_i`: what they say of each other has the form of an
update, too. What all observations at a place share, and no other place, is ``shared``: PyMC's covariance at distance
zero is that of a distance of :math:`10^{-6}` lengths. It may be negative.
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.matern import one_process, state, transitions
from bayeskit.graphs.matern.one_process import filter_one
from bayeskit.graphs.matern.state import apply_to, blocks, copied, gain_of, moved_over, sandwich, stationary_state
from bayeskit.graphs.numba_functions import as_written

__all__ = ["passes", "whitened"]

CALLED = (one_process.__file__, state.__file__, transitions.__file__)


@as_written()
def _pool(x, y, d, z, root, mean, pooled):  # type: ignore[no-untyped-def]
    """Of each run of equal x the mean and its variance, at the run's last place; z and root of the other places.

    ``x`` is in order. False where a run has a variance that is not positive.
    """
    for i in range(len(x)):
        mean[i], pooled[i] = y[i], d[i]
        if i == 0 or x[i] != x[i - 1]:
            continue
        total = pooled[i - 1] + d[i]
        if not (pooled[i - 1] >= 0.0 and d[i] >= 0.0 and total > 0.0):  # one of them may have no noise
            return False
        e = y[i] - mean[i - 1]
        z[i - 1], root[i - 1] = e / np.sqrt(total), np.sqrt(total)
        mean[i] = mean[i - 1] + pooled[i - 1] / total * e
        pooled[i] = pooled[i - 1] * (d[i] / total)
    return True


@as_written(*CALLED)
def _forward(x, mean, noise, orders, variances, rates, z, root, after, states):  # type: ignore[no-untyped-def]
    """z and root, and the state's mean and covariance given what came so far, at the last place of each run."""
    n, size = len(x), states.shape[1]
    first, scale = blocks(orders, variances)
    a, q, half, kept = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size))
    m, gain, scratch, p = np.zeros(size), np.empty(size), np.empty(5), np.zeros((size, size))
    stationary_state(orders, p)
    for i in range(size):
        for j in range(size):
            p[i, j] *= scale[i]
    last = -1
    for t in range(n):
        if t + 1 < n and x[t + 1] == x[t]:
            continue
        if last >= 0:
            moved_over(orders, rates, scale, x[t] - x[last], p, a, q, half, scratch)
            apply_to(a, m, gain)
            copied(gain, m)
        s = gain_of(p, first, noise[t], gain, kept)
        if not 0.0 < s < np.inf:
            return False
        e = mean[t]
        for i in range(size):
            e -= first[i] * m[i]
        z[t], root[t] = e / np.sqrt(s), np.sqrt(s)
        sandwich(kept, p, half, p)
        for i in range(size):
            m[i] += gain[i] * e
            states[t, i] = m[i]
            for j in range(size):
                p[i, j] += noise[t] * gain[i] * gain[j]
                after[t, i, j] = p[i, j]
        last = t
    return True


@as_written(*CALLED)
def passes(x, y, d, shared, orders, variances, rates):  # type: ignore[no-untyped-def]
    """Both passes forward: over the places of each run, and over the runs."""
    n, size = len(x), 0
    for order in orders:
        size += max(order, 1)
    z, root, mean, pooled, noise = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    after, states = np.empty((n, size, size)), np.empty((n, size))
    right = _pool(x, y, d, z, root, mean, pooled)
    for i in range(n):
        noise[i] = pooled[i] + shared
    right = right and _forward(x, mean, noise, orders, variances, rates, z, root, after, states)
    return right, z, root, mean, pooled, noise, after, states


@as_written(*CALLED)
def whitened(x, y, d, shared, orders, variances, rates):  # type: ignore[no-untyped-def]
    """z and diag L of observations y at x, in ascending order, with noise of variances d.

    Neither is a number where the covariance is not positive definite.
    """
    n = len(x)
    z, root, mean, noise = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    if len(orders) > 1 or orders[0] == 0:
        right, z, root, _, _, _, _, _ = passes(x, y, d, shared, orders, variances, rates)
    else:
        right = _pool(x, y, d, z, root, mean, noise)
        for i in range(n):
            noise[i] += shared
        right = right and filter_one(x, mean, noise, orders[0], variances[0], rates[0], z, root)
    if not right:
        for i in range(n):
            z[i], root[i] = np.nan, np.nan
    return z, root
