r"""Prior probabilities of submodels: by how many coefficients they have, or by which.

.. math::
    \log p(S) = f(|S|) + \sum_{j \in S} \log \frac{\pi_j}{1 - \pi_j} + \sum_j \log (1 - \pi_j).

Scott and Berger (2010, Annals of Statistics 38) say why "beta_binomial", a uniform probability of inclusion, corrects
for the number of predictors that are tried, and "uniform", one half for each, does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from bayeskit.arguments import is_a, plain, shown
from bayeskit.comparison.subsets.populations import Population
from bayeskit.errors import OptionError

__all__ = ["InclusionPrior", "InclusionRule", "inclusion_prior_of", "independent"]

type InclusionRule = str | float | Sequence[float]


@dataclass(frozen=True, eq=False)
class InclusionPrior:
    """log p(S) as a term of its size and terms of its coefficients."""

    by_size: np.ndarray  # of length p + 1
    log_odds: np.ndarray  # of length p
    words: str

    def log(self, population: Population) -> np.ndarray:
        """log p(S) of each submodel of a population."""
        result: np.ndarray = self.by_size[population.sizes]
        return population.with_terms(result, self.log_odds) if np.any(self.log_odds) else result

    @property
    def inclusion(self) -> np.ndarray:
        """Prior probability of inclusion of each coefficient."""
        p = len(self.log_odds)
        if np.any(self.log_odds):
            return np.asarray(special.expit(self.log_odds))
        logs = self.by_size + _log_choose(p)
        return np.full(p, float(np.exp(logs) @ np.arange(p + 1)) / p)


def _log_choose(p: int) -> np.ndarray:
    k = np.arange(p + 1)
    return np.asarray(special.gammaln(p + 1) - special.gammaln(k + 1) - special.gammaln(p - k + 1))


def inclusion_prior_of(rule: InclusionRule, p: int) -> InclusionPrior:
    """From "uniform", "beta_binomial", a probability, or p + 1 weights by size; an OptionError for anything else."""
    no_odds, sizes = np.zeros(p), np.arange(p + 1)
    rule = plain(rule)
    if isinstance(rule, str):
        if rule == "uniform":
            return InclusionPrior(np.full(p + 1, -p * math.log(2)), no_odds, "every subset alike")
        if rule == "beta_binomial":
            return InclusionPrior(-_log_choose(p) - math.log(p + 1), no_odds, "every number of predictors alike")
    elif is_a(rule, float):
        chance = float(rule)  # type: ignore[arg-type]
        if 0 < chance < 1:
            logs = sizes * math.log(chance) + (p - sizes) * math.log1p(-chance)
            return InclusionPrior(logs, no_odds, f"each predictor with probability {chance:g}")
    else:
        try:
            weights = np.asarray(rule)
        except (TypeError, ValueError):
            weights = np.empty(0)
        numbers = weights.shape == (p + 1,) and weights.dtype.kind in "iuf"
        if numbers and np.all(weights > 0) and np.isfinite(weights.sum()):
            logs = np.log(weights / weights.sum()) - _log_choose(p)
            return InclusionPrior(logs, no_odds, "by the number of predictors, as given")
    raise OptionError(
        f"inclusion_prior is {shown(rule)}; it must be 'uniform', 'beta_binomial', a probability between 0 and 1, or "
        f"{p + 1} positive weights, one for each number of predictors from 0 to {p}"
    )


def independent(chances: np.ndarray) -> InclusionPrior:
    """Each coefficient with a probability of its own."""
    odds = special.logit(chances)
    return InclusionPrior(
        np.full(len(chances) + 1, float(np.sum(np.log1p(-chances)))), odds, "as the indicators of the model have it"
    )
