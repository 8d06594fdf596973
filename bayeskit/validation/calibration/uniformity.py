r"""Are values that should be uniform on (0, 1) uniform? Three exact tests, of location, spread and the whole.

With :math:`z = \Phi^{-1}(u)`, under uniformity and for N independent values

.. math:: \sqrt N\, \bar z \sim N(0, 1), \qquad \textstyle\sum z^2 \sim \chi^2_N,

and Kolmogorov's statistic of the u has a known distribution. So each p-value is exact for every N. The first sees a
posterior that lies too low or too high, the second one that is too narrow (Σz² large) or too wide, the third the rest.

Source: Cook, Gelman and Rubin (2006), "Validation of software for Bayesian models using posterior quantiles", JCGS 15;
Talts, Betancourt, Simpson, Vehtari and Gelman (2018), arXiv:1804.06788.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from bayeskit.types import Array
from bayeskit.validation.statistics import kolmogorov_distance

__all__ = ["Uniformity", "uniformity"]

TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Uniformity:
    """The statistics of one quantity over data sets."""

    number: int
    z_mean: float = np.nan  # √N z̄
    z_sd: float = np.nan  # of Σz², on the scale of normal scores
    p_mean: float = np.nan
    p_sd: float = np.nan
    p_ecdf: float = np.nan
    inside_50: float = np.nan  # share of the truths inside their central 50 % interval
    inside_90: float = np.nan
    problem: str = ""

    @property
    def p_values(self) -> dict[str, float]:
        """By test; empty where there is none."""
        return {} if self.problem else {"mean": self.p_mean, "sd": self.p_sd, "ecdf": self.p_ecdf}


def uniformity(values: Array) -> Uniformity:
    """The tests of values from 0 to 1, independent of each other; NaN is a problem, and so is less than two of them."""
    number = values.size
    bad = int(np.isnan(values).sum())
    if bad or number < 2:
        problem = f"{bad} values are not numbers" if bad else "fewer than two data sets"
        return Uniformity(number, problem=problem)
    # From both ends: 1 − 1e-20 is one in double precision, and a truth out there is impossible either way.
    scores = special.ndtri(np.clip(values, TINY, 1 - np.finfo(float).epsneg))
    squares = float(np.sum(scores**2))
    z_mean = float(np.sqrt(number) * scores.mean())
    # The functions themselves: what SciPy's distributions check at every call takes ten times as long.
    p_sd = float(min(1.0, 2 * min(special.chdtrc(number, squares), special.chdtr(number, squares))))
    z_sd = float(-np.sign(squares - number) * special.ndtri(max(p_sd, TINY) / 2))
    p_ecdf = float(stats.kstwo.sf(kolmogorov_distance(values), number))
    inside = [float(np.mean(np.abs(values - 0.5) <= share / 2)) for share in (0.5, 0.9)]
    return Uniformity(number, z_mean, z_sd, float(2 * special.ndtr(-abs(z_mean))), p_sd, p_ecdf, inside[0], inside[1])
