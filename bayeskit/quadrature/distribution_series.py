r"""Distribution functions at many points by Chebyshev series, of themselves or of their density.

A density is cheaper than a distribution function, ten times of a Beta distribution, and its series is integrated term
by term: :math:`F(x) = F(x_0) + \int_{x_0}^x p`. What it misses, a spike between its points, is missing from F at all
points above: F itself is asked for at some.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.polynomial import chebyshev
from scipy.fft import dct

__all__ = ["integral_of_density", "interpolated"]

PIECES = 8
DEGREE = 16  # of the polynomial of a piece
HIGHEST = 256  # of one for the whole range
NARROWEST = 1e-6  # piece of the range
NEGLIGIBLE = 1e-13  # coefficients at which a series of that degree ends
CLOSE = 5e-13  # to the distribution function itself, where that is asked for

type _Function = Callable[[np.ndarray], np.ndarray]


def integral_of_density(function: _Function, density: _Function, x: np.ndarray, *, falling: bool) -> np.ndarray | None:
    """A distribution function, or one minus that, from the series of its density; None where that does not do."""
    found = _on_unit_range(x)
    if found is None:
        return None
    low, width, place = found
    half = -0.5 * width if falling else 0.5 * width
    series, _ = _whole(lambda at: half * density(_spread(low, width, at)), len(x) // 4, _integral_ends)
    if series is None:
        return None
    series = chebyshev.chebint(series, lbnd=-1.0, axis=0)
    expected = function(_spread(low, width, _points(DEGREE)))
    series[0] += expected[0]
    t = (2.0 * _points(DEGREE) - 1.0).reshape(-1, *(1 for _ in width.shape))
    # Not a number is not close.
    if not np.all(np.abs(_summed(series, t + np.zeros(width.shape)) - expected) <= CLOSE):
        return None
    return np.clip(_summed(series, 2 * place - 1), 0.0, 1.0)


def interpolated(function: _Function, x: np.ndarray) -> np.ndarray | None:
    """A distribution function from a series of its own, or several on pieces that are halved.

    Most mixtures take fewer values for one series over the whole range than for pieces, which are for those that are
    sharp at places. Nothing can hide between the points: a step of a monotone function is seen in the values on both
    sides, and the series does not end. None where it would take many values for the number of points.
    """
    found = _on_unit_range(x)
    if found is None:
        return None
    low, width, place = found
    most = len(x) // 4
    series, taken = _whole(lambda at: function(_spread(low, width, at)), most, _ends)
    if series is not None:
        return np.clip(_summed(series, 2 * place - 1), 0.0, 1.0)
    result = _in_pieces(lambda at: function(_spread(low, width, at)), place, most - taken)
    return None if result is None else np.clip(result, 0.0, 1.0)


def _on_unit_range(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The least of the points of each entry, their range, and where they are in it; None where they are not finite."""
    if not np.isfinite(x).all():
        return None
    low, width = x.min(axis=0), np.ptp(x, axis=0)
    return low, width, (x - low) / np.where(width > 0, width, 1.0)


def _spread(low: np.ndarray, width: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.asarray(low + width * at.reshape(-1, *(1 for _ in np.shape(width))))


def _whole(values: _Function, most: int, ends: Callable[[np.ndarray], bool]) -> tuple[np.ndarray | None, int]:
    """The series over the whole range, None where it does not end, and how many values it took.

    One of twice the degree has the values of the one before among its own.
    """
    degree, known = DEGREE, values(_points(DEGREE))
    while not ends(series := _series(known)):
        degree *= 2
        if degree > HIGHEST or degree >= most:
            return None, len(known)
        known = np.insert(known, range(1, len(known)), values(_points(degree)[1::2]), axis=0)
    return series, len(known)


def _in_pieces(values: _Function, place: np.ndarray, most: int) -> np.ndarray | None:
    """Series of one degree on pieces of the range, halved until each ends; None where it takes too many values."""
    pieces, result = list(pairwise(np.linspace(0.0, 1.0, PIECES + 1))), np.zeros(place.shape)
    while pieces:
        start, end = pieces.pop()
        most -= DEGREE + 1
        if most < 0:
            return None
        series = _series(values(start + (end - start) * _points(DEGREE)))
        if not _ends(series):
            middle = 0.5 * (start + end)
            if end - start < NARROWEST:
                return None
            pieces += [(start, middle), (middle, end)]
            continue
        found = _summed(series, 2 * (place - start) / (end - start) - 1)
        result = np.where((place >= start) & (place <= end), found, result)
    return result


def _points(degree: int) -> np.ndarray:
    return 0.5 - 0.5 * np.cos(np.pi * np.arange(degree + 1) / degree)


def _series(values: np.ndarray) -> np.ndarray:
    """Coefficients in T_k, of values at rising points; their order is that of falling cosines."""
    series = np.asarray(dct(values[::-1], type=1, axis=0)) / (len(values) - 1)
    series[[0, -1]] /= 2
    return series


def _ends(series: np.ndarray) -> bool:
    """Whether nothing comes after it: the k-th coefficient of a step is its height over k."""
    return bool(np.abs(series[-3:]).max() <= NEGLIGIBLE * DEGREE / (len(series) - 1))


def _integral_ends(series: np.ndarray) -> bool:
    """As :func:`_ends` of the integral, which may end earlier: a step in it would be seen otherwise."""
    return bool(np.abs(chebyshev.chebint(series, axis=0)[-3:]).max() <= NEGLIGIBLE)


def _summed(series: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.asarray(chebyshev.chebval(t[None], series[:, None], tensor=False)[0])
