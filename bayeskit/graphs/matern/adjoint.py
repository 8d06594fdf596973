r"""The adjoint of the whitening of :mod:`bayeskit.graphs.matern.passes`: one more pass, backwards.

With K = P h / S, M = I − K hᵀ and the adjoints of the state's mean and covariance after an observation, m̄ and P̄, and
those of its innovation and of S, ē and s̄, from what is asked of z and of diag L:

.. math::

   \bar y &= \bar e + K^\top \bar m, \qquad
   \bar d = \bar s + K^\top \bar P K - \tfrac{e}{S} K^\top \bar m, \\
   \bar m^- &= M^\top \bar m - h \bar e, \qquad
   \bar P^- = M^\top \bar P M + \bar s\, h h^\top + \operatorname{sym} \tfrac{e}{S} M^\top \bar m\, h^\top

are those of before. No inverse of a state's covariance is needed, which near points make singular.
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.matern import one_process, state, transitions
from bayeskit.graphs.matern import passes as forward
from bayeskit.graphs.matern.passes import passes
from bayeskit.graphs.matern.state import apply_to, blocks, copied, gain_of, moved_over, sandwich, stationary_state
from bayeskit.graphs.matern.transitions import slope
from bayeskit.graphs.numba_functions import as_written

__all__ = ["whitening_adjoint"]

CALLED = (forward.__file__, one_process.__file__, state.__file__, transitions.__file__)


@as_written()
def _update_adjoint(gain, kept, first, e, s, to_e, to_s, to_m, to_p, half, turned):  # type: ignore[no-untyped-def]
    """Adjoints of an observation and of its noise; those of the state before it in place of those after it."""
    size = len(first)
    along, curved = 0.0, 0.0
    for i in range(size):
        along += gain[i] * to_m[i]
        for j in range(size):
            curved += gain[i] * to_p[i, j] * gain[j]
            turned[i, j] = kept[j, i]
    to_y, to_d = to_e + along, to_s + curved - e / s * along
    sandwich(turned, to_p, half, to_p)
    apply_to(turned, to_m, half[0])
    for i in range(size):
        to_m[i] = half[0, i] - first[i] * to_e
        for j in range(size):
            both = half[0, i] * first[j] + half[0, j] * first[i]
            to_p[i, j] += to_s * first[i] * first[j] + 0.5 * e / s * both
    return to_y, to_d


@as_written()
def _covariance_adjoint(orders, q, to_p, to_variances):  # type: ignore[no-untyped-def]
    """Adjoints of variances from that of a covariance to which each adds its block of ``q``."""
    at = 0
    for k in range(len(orders)):
        end = at + max(orders[k], 1)
        for i in range(at, end):
            for j in range(at, end):
                to_variances[k] += to_p[i, j] * q[i, j]
        at = end


@as_written(*CALLED)
def _step_adjoint(orders, rates, scale, gap, a, m, p, to_m, to_p, to_a, half, turned, to_rates):  # type: ignore[no-untyped-def]
    """Adjoints of rates in a step from a state (m, P), added to those for them; of the state, in place of those after.

    The adjoint of A is m̄ mᵀ + 2 P̄ A P.
    """
    size, at = len(scale), 0
    for i in range(size):
        for j in range(size):
            half[i, j] = 0.0
            for k in range(size):
                half[i, j] += a[i, k] * p[k, j]
    for i in range(size):
        for j in range(size):
            to_a[i, j] = to_m[i] * m[j]
            for k in range(size):
                to_a[i, j] += 2.0 * to_p[i, k] * half[k, j]
            turned[i, j] = a[j, i]
    for k in range(len(orders)):
        to_rates[k] += gap * slope(orders[k], rates[k] * gap, at, a, to_a, to_p, scale[at])
        at += max(orders[k], 1)
    sandwich(turned, to_p, half, to_p)
    apply_to(turned, to_m, half[0])
    copied(half[0], to_m)


@as_written()
def _pool_adjoint(x, y, d, z, root, mean, pooled, to_z, to_root, to_mean, to_y, to_d):  # type: ignore[no-untyped-def]
    """Adjoints of observations and noise within each run, from those of its mean and variance: to_mean and to_d."""
    to_m, to_v = 0.0, 0.0
    for i in range(len(x) - 1, -1, -1):
        if i == len(x) - 1 or x[i + 1] != x[i]:
            to_m, to_v = to_mean[i], to_d[i]
        if i == 0 or x[i] != x[i - 1]:
            to_y[i], to_d[i] = to_m, to_v
            continue
        s = pooled[i - 1] + d[i]
        e, gain, kept = y[i] - mean[i - 1], pooled[i - 1] / s, d[i] / s
        to_e = to_z[i - 1] / root[i - 1]
        to_s = 0.5 * (to_root[i - 1] / root[i - 1] - to_z[i - 1] * z[i - 1] / s)
        to_y[i] = to_e + gain * to_m
        to_d[i] = to_s + gain * gain * to_v - e / s * gain * to_m
        to_v = kept * kept * to_v + to_s + e / s * kept * to_m
        to_m = kept * to_m - to_e


@as_written(*CALLED)
def _backward(x, z, root, noise, after, states, orders, variances, rates, to_z, to_root, to_mean, to_d, to_c, to_rates):  # type: ignore[no-untyped-def]
    """Adjoints of the runs' means and of their noise, with those of variances and rates added to what is there."""
    size, t = states.shape[1], len(x) - 1
    first, scale = blocks(orders, variances)
    a, q, half, kept = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size))
    turned, p, to_p, to_a = np.zeros_like(a), np.zeros_like(a), np.zeros_like(a), np.zeros_like(a)
    to_m, gain, scratch = np.zeros(size), np.empty(size), np.empty(5)
    while t >= 0:
        before = t - 1
        while before >= 0 and x[before] == x[t]:
            before -= 1
        if before >= 0:
            for i in range(size):
                copied(after[before, i], p[i])
            moved_over(orders, rates, scale, x[t] - x[before], p, a, q, half, scratch)
        else:
            stationary_state(orders, q)
            for i in range(size):
                for j in range(size):
                    p[i, j] = scale[i] * q[i, j]
        s = gain_of(p, first, noise[t], gain, kept)
        e, to_e, to_s = z[t] * root[t], to_z[t] / root[t], 0.5 * (to_root[t] / root[t] - to_z[t] * z[t] / s)
        to_mean[t], to_d[t] = _update_adjoint(gain, kept, first, e, s, to_e, to_s, to_m, to_p, half, turned)
        _covariance_adjoint(orders, q, to_p, to_c)
        if before >= 0:
            gap, m, left = x[t] - x[before], states[before], after[before]
            _step_adjoint(orders, rates, scale, gap, a, m, left, to_m, to_p, to_a, half, turned, to_rates)
        t = before


@as_written(*CALLED)
def whitening_adjoint(x, y, d, shared, orders, variances, rates, to_z, to_root):  # type: ignore[no-untyped-def]
    """Adjoints of y, d, shared, variances and rates, from those of z and diag L; not numbers where these are not."""
    n, nan = len(x), np.nan
    to_y, to_d, to_mean = np.full(n, nan), np.full(n, nan), np.zeros(n)
    to_variances, to_rates = np.full(len(rates), nan), np.full(len(rates), nan)
    right, z, root, mean, pooled, noise, after, states = passes(x, y, d, shared, orders, variances, rates)
    if not right:
        return to_y, to_d, nan, to_variances, to_rates
    for k in range(len(rates)):
        to_variances[k], to_rates[k] = 0.0, 0.0
    _backward(
        x, z, root, noise, after, states, orders, variances, rates, to_z, to_root, to_mean, to_d, to_variances, to_rates
    )
    to_shared = 0.0
    for i in range(n):
        if i + 1 == n or x[i + 1] != x[i]:
            to_shared += to_d[i]
    _pool_adjoint(x, y, d, z, root, mean, pooled, to_z, to_root, to_mean, to_y, to_d)
    return to_y, to_d, to_shared, to_variances, to_rates
