r"""Where the true value lies in its posterior, as a number that is uniform on (0, 1) if the posterior is right.

.. math:: u = F(\theta^\ast \mid y), \qquad
          u = \frac{\#\{\theta_l < \theta^\ast\} + V\,(\#\{\theta_l = \theta^\ast\} + 1)}{L + 1},
          \quad V \sim \mathrm{Uniform}(0, 1)

The first where the marginal posterior has a closed form, without Monte Carlo noise (randomised within the jumps of a
discrete one); the second from L independent draws, exactly uniform for every L. Draws of a chain are thinned first to
the smallest of the effective sample sizes of their scalars: ranks among correlated draws are not uniform.
"""

from __future__ import annotations

import numpy as np
from arviz_stats.base import array_stats

from bayeskit.results.marginals import Marginal
from bayeskit.types import Array
from bayeskit.validation.scalars import probability_of

__all__ = ["independent_draws", "of_draws", "of_marginal"]


def of_marginal(marginal: Marginal, truth: Array, rng: np.random.Generator) -> Array:
    """F(θ*) of every entry of a variable, flattened."""
    values = np.asarray(truth, dtype=float)
    return np.broadcast_to(probability_of(marginal, values, rng), values.shape).ravel()


def of_draws(draws: Array, truth: Array, rng: np.random.Generator) -> Array:
    """The randomised rank of every entry among independent draws, first axis the draws; NaN among NaN, flattened."""
    below, equal = (draws < truth).sum(axis=0), (draws == truth).sum(axis=0)
    ranks = (below + rng.random(np.shape(truth)) * (equal + 1)) / (len(draws) + 1)
    return np.where(np.isnan(draws).any(axis=0) | np.isnan(truth), np.nan, ranks).ravel()


def independent_draws(arrays: dict[str, Array], most: int) -> tuple[dict[str, Array], float]:
    """Draws of shape (chain, draw, …) as so many independent ones, first axis the draws, and the largest R-hat."""
    flat = [v.astype(float).reshape(*v.shape[:2], -1) for v in arrays.values()]
    every = [x[..., k] for x in flat for k in range(x.shape[2])]
    columns = [x for x in every if np.isfinite(x).all() and np.ptp(x) > 0]
    number = int(np.prod(flat[0].shape[:2]))
    with np.errstate(all="ignore"):
        sizes = [float(array_stats.ess(x, method="bulk")) for x in columns if x.shape[1] >= 4]
        rhats = [float(array_stats.rhat(x)) for x in columns if x.shape[0] > 1 and x.shape[1] >= 4]
    independent = min([s for s in sizes if np.isfinite(s)], default=number)
    kept = np.linspace(0, number - 1, int(np.clip(independent, 2, min(most, number)))).round().astype(int)
    stacked = {n: v.reshape(number, *v.shape[2:])[kept] for n, v in arrays.items()}
    return stacked, max([r for r in rhats if np.isfinite(r)], default=np.nan)
