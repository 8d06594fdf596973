r"""How much a log density is off for what the filter leaves out of softened Matérn processes: a bound to first order.

Of a process of order one with variance c the filter has :math:`e^{-u}` for :math:`e^{-v}`, :math:`v^2 = u^2 + h^2`,
between different places, which is too much by :math:`g(u) = e^{-u} - e^{-v} \approx h^2 / (u + v)`. The log density
changes by :math:`½ \operatorname{tr} E (\alpha \alpha^\top - A^{-1})` to first order, with :math:`\alpha = A^{-1} y`,
which is at most

.. math::

   ½ \sum_i R_i\,(\alpha_i^2 + (A^{-1})_{ii}), \qquad R_i = c \sum_j g(u_{ij})

by Gershgorin. R is bounded by distances at lags 1, 2, 4, …, each for all lags up to the next, as g falls; α and the
diagonal of the inverse come of the innovations by a pass backwards, with the gains of the filter for weights.

Of orders two and three the filter has :math:`k(h) k(u)` for :math:`k(v)`. What that leaves out is smooth,
:math:`½ h^2 u e^{-u}` and :math:`\tfrac1{18} h^2 u^2 e^{-u}`, and at most :math:`\kappa A` as a form, which by
frequencies ω is seen to hold: those up to 1/w are in the process itself, times a multiple of :math:`w^{-2}`, and those
above in the noise, times what points in a window of the width w add up to. κ is the least over windows. It counts as
often as there are directions that the data say something of, the sum of gains.
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.numba_functions import as_written

__all__ = ["left_out"]

ROUNDING = 1e-16  # of an entry of a matrix, over the variance
FAR = 50.0  # where nothing is left of a covariance
NEAR = 1e-100  # whose square is none that is zero


@as_written()
def _runs(x, d, shared, z, root, place, noise, size, variance, gain):  # type: ignore[no-untyped-def]
    """How many runs of equal x there are, with of each its place, the noise of its mean, |z|, S and the gain."""
    count, precision = 0, 0.0
    for t in range(len(x)):
        precision += 1.0 / d[t] if d[t] > 0.0 else np.inf
        if t + 1 < len(x) and x[t + 1] == x[t]:
            continue
        place[count], noise[count], size[count], variance[count] = x[t], 1.0 / precision, abs(z[t]), root[t] ** 2
        gain[count] = min(max(1.0 - (noise[count] + shared) / variance[count], 0.0), 1.0)
        count, precision = count + 1, 0.0
    return count


@as_written()
def _at_most(order, near, far, h):  # type: ignore[no-untyped-def]
    """What is left out of a covariance, over the variance, at any distance from one to another."""
    if order == 1:
        return h * h / (near + np.sqrt(near * near + h * h)) / (1.0 + near + 0.5 * near * near)
    top = order - 1.0
    u = min(max(near, top), far)
    return h * h * np.exp(-u) * (0.5 * u if order == 2 else u * u / 18.0)


@as_written()
def _add_rows(place, count, scale, order, rate, h, roughly, rows):  # type: ignore[no-untyped-def]
    """Add to bounds of the sums over rows what of a process is left out; roughly, all lags are bounded as one."""
    last = count - 1
    for t in range(count):
        for way in (-1, 1):
            lag = 1
            while 0 <= t + way * lag <= last:
                end = min(max(t + way * (last if roughly else 2 * lag - 1), 0), last)
                near, far = rate * abs(place[t + way * lag] - place[t]), rate * abs(place[end] - place[t])
                if near > FAR:
                    break
                rows[t] += (abs(end - t) - lag + 1) * scale * _at_most(order, near, far, h)
                lag = count if roughly else 2 * lag


@as_written()
def _multiple(place, noise, count, t, scale, order, rate, h, roughly):  # type: ignore[no-untyped-def]
    """κ of a process of order two or three, by windows at a place; roughly, by that alone with no other in it."""
    last, lag, width, best = count - 1, 0, 0.0, np.inf
    least = min(noise[t], noise[max(t - 1, 0)], noise[min(t + 1, last)])
    low, high = (h * h / 16.0, h * h / 8.0) if order == 2 else (h * h / 32.0, h * h / 24.0)
    while width < 1.0:
        lag = max(1, 2 * lag)
        before = place[t] - place[t - lag] if t >= lag else np.inf
        after = place[t + lag] - place[t] if t + lag <= last else np.inf
        width = min(max(rate * min(before, after), NEAR), 1.0)
        if lag == 1:  # so narrow that there is no other place in it
            best = low * (1.0 + 10.0 / (width * width))
            if roughly:
                break
        if least > 0.0:
            weight = width if order == 2 else width * width * width
            count = min(2.0 * lag + 1.0, last + 1.0)
            best = min(best, low * (1.0 + 1.0 / (width * width)) + high * scale * count * weight / least)
    return best


@as_written()
def left_out(x, d, shared, orders, variances, rates, softening, z, root, roughly):  # type: ignore[no-untyped-def]
    """The bound for a log density, from z and diag L of the filter, and what rounding takes off that by a matrix.

    Roughly, it is a larger one, in a tenth of the time.
    """
    n, scale, forms = len(x), 0.0, 0.0
    place, noise, size, variance, gain = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    rows, smooth = np.zeros(n), np.zeros(n)
    count = _runs(x, d, shared, z, root, place, noise, size, variance, gain)
    for k in range(len(orders)):
        weight = abs(variances[k])
        scale += weight
        if orders[k] > 0 and softening[k] > NEAR and weight > 0.0 and rates[k] > 0.0:
            sums = rows if orders[k] == 1 else smooth
            _add_rows(place, count, weight, orders[k], rates[k], softening[k], roughly, sums)
            for t in range(count if orders[k] > 1 else 0):
                multiple = _multiple(place, noise, count, t, weight, orders[k], rates[k], softening[k], roughly)
                forms += gain[t] * (1.0 + size[t] * size[t]) * multiple
    weighted, inverse, rough, even, rounding = 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(count - 1, -1, -1):
        own, kept = size[t] / np.sqrt(variance[t]), 1.0 - gain[t]
        both = 0.5 * ((own + gain[t] * weighted) ** 2 + 1.0 / variance[t] + gain[t] * gain[t] * inverse)
        rough, even, rounding = rough + rows[t] * both, even + smooth[t] * both, rounding + ROUNDING * scale * both
        weighted, inverse = own + kept * weighted, 1.0 / variance[t] + kept * kept * inverse
    return rough + min(even, forms), rounding
