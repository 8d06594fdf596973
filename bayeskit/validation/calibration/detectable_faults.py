r"""How wrong the sd of a posterior must be for a calibration to find it half the time: what "calibrated" can mean.

Where truths have r times the sd of a Normal posterior, the normal score of u = F(θ*) is N(0, r²), and of N of them

.. math:: \textstyle\sum z^2 \sim r^2 \chi^2_N,

which exceeds the upper point h of its test half the time at r² = h / median(χ²_N). Of ranks among L draws the mean of
z² at r takes the place of r²: among one draw nothing of an sd is seen, for its rank is uniform at any.

Of posterior model probabilities p, where the log evidence of the first is δ too large, u is uniform within the share of
the model that is drawn, by p, in the shares :math:`p' \propto p\, e^{\delta 1_{m=1}}`, whose mean normal score is

.. math:: \mathrm{E}\, z = \textstyle\sum_m p_m \frac{\varphi(\Phi^{-1}(a'_m)) - \varphi(\Phi^{-1}(b'_m))}{b'_m - a'_m}

with a′ and b′ the ends of the shares: √N |E z| reaches the upper point of its test at the δ that is found half
the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import optimize, special, stats

__all__ = ["detectable_log_evidence", "detectable_sds"]

MOST_RANKED = 300  # draws from which on ranks are as good as F(θ*)
NARROW = 1e-9  # a share within which the score hardly changes
FARTHEST = 50.0  # the largest r that is looked at
MOST_NATS = 20.0  # of a log evidence, the largest fault that is looked at
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


def detectable_log_evidence(probabilities: np.ndarray, alpha: float) -> float:
    """How many nats off the log evidence of the first model must be, either way, to be found half the time.

    By the test of the mean at level ``alpha``, where the posterior probabilities of the models, a row a data set, are
    right but for that. Infinite where no fault of twenty nats is found: where the data leave no doubt about the model.
    """
    wanted = float(stats.norm.isf(alpha / 2)) / math.sqrt(len(probabilities))

    def lacking(nats: float) -> float:
        return wanted - abs(_mean_score(probabilities, nats))

    ends = (-MOST_NATS, MOST_NATS)
    if any(lacking(end) > 0 for end in ends):
        return math.inf
    return max(abs(float(optimize.brentq(lacking, 0.0, end))) for end in ends)


def _mean_score(probabilities: np.ndarray, nats: float) -> float:
    """The mean of z where the log evidence of the first model is so much too large."""
    factors = np.ones(probabilities.shape[1])
    factors[0] = math.exp(nats)
    shares = probabilities * factors
    ends = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
    ends = np.clip(np.concatenate([np.zeros((len(ends), 1)), ends], axis=1), 0.0, 1.0)
    widths = np.diff(ends, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = -np.diff(stats.norm.pdf(special.ndtri(ends)), axis=1) / widths
    # A share of next to nothing has one score.
    at = special.ndtri(np.clip(ends[:, :-1] + widths / 2, np.finfo(float).tiny, 1 - np.finfo(float).epsneg))
    means = np.where(widths > NARROW, means, at)
    return float((probabilities * means).sum(axis=1).mean())


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
