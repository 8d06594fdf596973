r"""How wrong the sd of a posterior must be for a calibration to find it half the time: what "calibrated" can mean.

Where truths have r times the sd of a Normal posterior, the normal score of u = F(θ*) is N(0, r²), and of N of them

.. math:: \textstyle\sum z^2 \sim r^2 \chi^2_N,

which exceeds the upper point h of its test half the time at r² = h / median(χ²_N). Of ranks among L draws the mean of
z² at r takes the place of r²: among one draw nothing of an sd is seen, for its rank is uniform at any.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import optimize, special, stats

__all__ = ["detectable_sds"]

MOST_RANKED = 300  # draws from which on ranks are as good as F(θ*)
FARTHEST = 50.0  # the largest r that is looked at
NODES = (np.arange(400) + 0.5) / 400
GRID = np.linspace(-9.0, 9.0, 721)  # of θ*, in sds of the posterior


def detectable_sds(datasets: int, alpha: float, ranked: int | None) -> tuple[float, float]:
    """The sds of a posterior, the right one being one, below and above which a fault is found half the time.

    Of one test at level ``alpha``, of ranks among so many draws, or of values of a closed form (None). Zero, and
    infinite, where none is found.
    """
    typical = float(stats.chi2.median(datasets))
    upper, lower = (float(point(alpha / 2, datasets)) / typical for point in (stats.chi2.isf, stats.chi2.ppf))
    if ranked is None or ranked > MOST_RANKED:
        return 1 / math.sqrt(upper), 1 / math.sqrt(lower)
    mean_square = _mean_square_of(ranked)
    narrow, wide = mean_square(FARTHEST) > upper, mean_square(1 / FARTHEST) < lower
    below = 1 / float(optimize.brentq(lambda r: mean_square(r) - upper, 1.0, FARTHEST)) if narrow else 0.0
    above = 1 / float(optimize.brentq(lambda r: mean_square(r) - lower, 1 / FARTHEST, 1.0)) if wide else math.inf
    return below, above


@cache
def _mean_square_of(ranked: int) -> Callable[[float], float]:
    """The mean of z² of randomised ranks among draws, as a function of r; one at one."""
    ranks = np.arange(ranked + 1)
    # ∫ z² over a cell of u, whose antiderivative is Φ(z) − z φ(z).
    ends = special.ndtri(np.arange(ranked + 2) / (ranked + 1))
    density = np.where(np.isfinite(ends), ends, 0.0) * np.exp(-0.5 * np.where(np.isfinite(ends), ends, 0.0) ** 2)
    of_cell = (ranked + 1) * np.diff(special.ndtr(ends) - density / math.sqrt(2 * math.pi))
    of_truth = stats.binom.pmf(ranks, ranked, special.ndtr(GRID)[:, None]) @ of_cell
    scores = special.ndtri(NODES)
    at_one = float(np.interp(scores, GRID, of_truth).mean())
    return lambda r: float(np.interp(r * scores, GRID, of_truth).mean()) / at_one
