r"""The log density of an entry that is a quadratic less concave functions, compiled by numba; its mode and its width.

.. math:: L(t) = q_0 + q_1 t - \tfrac12 q_2 t^2 - \sum_r w_r h_r(a_r + s_r t),
   \qquad h(x) = \log(1 + e^x) \text{ or } e^x, \quad q_2 > 0, \; w_r \ge 0

There is one mode, which Newton's method finds between bounds. With s = ±1, as of intercepts that vary, exp(a + s t) is
a product, and the logarithms of several rows are that of the product of their 1 + exp(a + s t).
"""

from __future__ import annotations

import numpy as np

from bayeskit.graphs.numba_functions import as_written

__all__ = ["ConcaveEntry", "concave_log_density", "entry_function", "mode_and_width"]

#: q (3,), and of each row a, exp a, s, w and whether h is exp.
ConcaveEntry = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]

CUT = 150.0  # |t| and |a| up to which exp(±t) exp(a) are factors; others are exponents
LARGEST = 700.0  # x of which exp is a number
#: The log of a factor of a product, which two CUT together make; and a product that goes into a logarithm before the
#: next factor, with which it is a number still.
HIGHEST, LARGE = 2 * CUT, 1e170
CLIPPED = 500.0  # x beyond which slopes only say that it is too far, and are numbers still
SMALLEST = 1e-300
CLIMBS, NEAR = 100, 0.05  # steps in which a mode is found, and how far from it the last may lead, in widths


@as_written()
def _derivatives(t: float, entry: ConcaveEntry) -> tuple[float, float]:
    """L′ and −L″."""
    quadratic, offsets, powers, slopes, weights, grows = entry
    slope, bend, near = quadratic[1] - quadratic[2] * t, quadratic[2], abs(t) <= CUT
    up = np.exp(t) if near else 1.0
    for r in range(len(offsets)):
        s = slopes[r]
        if near and s == 1.0 and abs(offsets[r]) <= CUT:
            z = powers[r] * up
        elif near and s == -1.0 and abs(offsets[r]) <= CUT:
            z = powers[r] / up
        else:
            z = np.exp(min(offsets[r] + s * t, CLIPPED))
        first = z if grows[r] else z / (1.0 + z)
        second = z if grows[r] else first / (1.0 + z)
        slope -= weights[r] * s * first
        bend += weights[r] * s * s * second
    return slope, bend


@as_written()
def mode_and_width(entry: ConcaveEntry) -> tuple[float, float]:
    """Where L is largest, and the root of −1/L″ near there, by Newton's method between bounds.

    Steps down an exponential are of one length from however far: where they do not become shorter, they are doubled,
    and once there are bounds on either side, these are halved.
    """
    t, low, high, width, before = 0.0, -np.inf, np.inf, 1.0, np.inf
    for _ in range(CLIMBS):
        slope, bend = _derivatives(t, entry)
        bend = min(max(bend, SMALLEST), 1.0 / SMALLEST)
        width, step = 1.0 / np.sqrt(bend), slope / bend
        if slope > 0.0:
            low = t
        else:
            high = t
        if abs(step) <= NEAR * width:
            return t + step, width
        slow = abs(step) > 0.5 * before
        if slow and high - low == np.inf:
            step = 2.0 * before if step > 0.0 else -2.0 * before
        t, before = t + step, abs(step)
        if (slow and high - low < np.inf) or not low < t < high:  # beyond where the slope has another sign
            t, before = 0.5 * (low + high), 0.5 * (high - low)
    return t, width


@as_written()
def entry_function(x: float, grows: bool) -> float:
    """h of its kind."""
    return np.exp(min(x, LARGEST)) if grows else max(x, 0.0) + np.log1p(np.exp(-abs(x)))


@as_written()
def _raise(product: np.ndarray, size: int, power: float, sides: np.ndarray, times: int, square: np.ndarray) -> None:
    """Multiply by a power of 1 + power · sides, by squares."""
    for k in range(size):
        square[k] = 1.0 + power * sides[k]
    while times > 1:
        if times & 1:
            for k in range(size):
                product[k] *= square[k]
        for k in range(size):
            square[k] *= square[k]
        times >>= 1
    for k in range(size):
        product[k] *= square[k]


@as_written()
def concave_log_density(t: np.ndarray, size: int, entry: ConcaveEntry, room: np.ndarray, total: np.ndarray) -> None:
    """L of the first ``size`` places t, in ``total``; with ``room`` (4, K) to work in."""
    quadratic, offsets, powers, slopes, weights, grows = entry
    up, down, product, square = room[0], room[1], room[2], room[3]
    least, most = np.inf, -np.inf
    for k in range(size):
        least, most = min(least, t[k]), max(most, t[k])
    near = least >= -CUT and most <= CUT
    most_up, most_down = (np.exp(most), np.exp(-least)) if near else (1.0, 1.0)
    for k in range(size):
        total[k] = quadratic[0] + t[k] * (quadratic[1] - 0.5 * quadratic[2] * t[k])
        product[k] = 1.0
        up[k] = np.exp(t[k]) if near else 1.0
        down[k] = 1.0 / up[k]
    rise, fall, largest = 0.0, 0.0, 1.0  # the last of all products
    for r in range(len(offsets)):
        a, s, w, power = offsets[r], slopes[r], weights[r], powers[r]
        if not near or abs(s) != 1.0 or abs(a) > CUT:
            for k in range(size):
                total[k] -= w * entry_function(a + s * t[k], grows[r])
            continue
        if grows[r]:
            rise += w * power if s > 0.0 else 0.0
            fall += w * power if s < 0.0 else 0.0
            continue
        more = 1.0 + power * (most_up if s > 0.0 else most_down)
        if w != 1.0:
            if w != np.floor(w) or w * np.log(more) > HIGHEST:
                for k in range(size):
                    total[k] -= w * np.log(1.0 + power * (up[k] if s > 0.0 else down[k]))
                continue
            more = more**w
        if largest > LARGE:
            largest = 1.0
            for k in range(size):
                total[k] -= np.log(product[k])
                product[k] = 1.0
        largest *= more
        if w != 1.0:
            _raise(product, size, power, up if s > 0.0 else down, int(w), square)
        elif s > 0.0:
            for k in range(size):
                product[k] *= 1.0 + power * up[k]
        else:
            for k in range(size):
                product[k] *= 1.0 + power * down[k]
    for k in range(size):
        total[k] -= rise * up[k] + fall * down[k]
        if largest > 1.0:
            total[k] -= np.log(product[k])
