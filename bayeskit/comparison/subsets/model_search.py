r"""A Metropolis walk over submodels, where there are too many to sum over (MC³, Madigan and York, 1995).

Several chains propose to take one coefficient in or out, or to exchange one that is in for one that is out, and accept
with min(1, p(y | S′) p(S′) / (p(y | S) p(S))): a walk over S whose frequencies are posterior probabilities. Each
submodel's evidence is computed once. The posterior mass of the submodels A that the first half of the chains has
visited is estimated by how often the other half is in A, which gives

.. math:: \log p(y) = \log \sum_{S \in A} p(y | S) \, p(S) - \log \widehat{\Pr}(A | y)

(George and McCulloch, 1997, Statistica Sinica 7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayeskit.comparison.subsets.inclusion_prior import InclusionPrior
from bayeskit.comparison.subsets.populations import ListedSubsets
from bayeskit.comparison.subsets.scale_integral import ScaleIntegral
from bayeskit.results.log_evidence import LogEvidence

__all__ = ["Walk", "walk"]

CHAINS, WARM_UP = 8, 0.2
BATCHES = 10  # a chain, of which the spread gives the Monte Carlo error
LEAST = 0.05  # posterior mass that has to be found for an evidence


@dataclass(frozen=True, eq=False)
class Walk:
    """The submodels that were visited, and how often the chains had each coefficient in."""

    visited: ListedSubsets
    log_evidence: np.ndarray  # of each of them
    error: np.ndarray
    log_joint: np.ndarray  # with its prior
    inclusion: np.ndarray
    inclusion_error: np.ndarray
    average: LogEvidence


@dataclass(eq=False)
class _Known:
    """Submodels and their evidences, each computed once."""

    integral: ScaleIntegral
    prior: InclusionPrior
    place: dict[bytes, int] = field(default_factory=dict)
    marks: list[np.ndarray] = field(default_factory=list)
    parts: list[np.ndarray] = field(default_factory=list)  # log evidence, error, log joint

    def places(self, marks: np.ndarray) -> np.ndarray:
        keys = [np.packbits(row).tobytes() for row in marks]
        new = {key: row for key, row in zip(keys, marks, strict=True) if key not in self.place}
        if new:
            listed = ListedSubsets(np.array(list(new.values())))
            found = self.integral.log_evidence(listed)
            joint = found.value + self.prior.log(listed)
            for key, row, *part in zip(new, listed.marks, found.value, found.error, joint, strict=True):
                self.place[key] = len(self.marks)
                self.marks.append(row)
                self.parts.append(np.array(part))
        return np.array([self.place[key] for key in keys])


def walk(integral: ScaleIntegral, prior: InclusionPrior, draws: int, seed: int) -> Walk:
    """Walk ``draws`` steps in all, after a warm-up of a fifth as many."""
    rng, size = np.random.default_rng(seed), len(prior.log_odds)
    known = _Known(integral, prior)
    steps = max(BATCHES, draws // CHAINS // BATCHES * BATCHES)
    warm = math.ceil(WARM_UP * steps)
    start = np.clip(prior.inclusion, 0.1, 0.9) if size < 4 * CHAINS else np.full(size, min(0.5, 10 / size))
    now = rng.random((CHAINS, size)) < start
    where = known.places(now)
    path = np.empty((CHAINS, steps), dtype=int)
    for step in range(-warm, steps):
        proposed = _proposed(now, rng)
        there = known.places(proposed)
        rise = np.array([known.parts[t][2] - known.parts[w][2] for t, w in zip(there, where, strict=True)])
        accepted = np.log(rng.random(CHAINS)) < rise
        now = np.where(accepted[:, None], proposed, now)
        where = np.where(accepted, there, where)
        if step >= 0:
            path[:, step] = where
    visited = ListedSubsets(np.array(known.marks))
    value, error, joint = np.array(known.parts).T
    means = visited.marks[path].reshape(CHAINS, BATCHES, -1, size).mean(axis=2)
    inclusion, errors = means.mean(axis=(0, 1)), _spread(means)
    worth = _worth(inclusion, errors, CHAINS * steps)
    errors = np.maximum(errors, _binomial(inclusion, worth))
    return Walk(visited, value, error, joint, inclusion, errors, _average(joint, path, worth))


def _proposed(now: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One coefficient taken in or out, or one of each kind exchanged; both are as likely the other way.

    Where there is nothing to exchange the row stays: were one taken in instead, the way out of the empty submodel would
    be twice as likely as the way back, and the walk would be there half as often as it should.
    """
    result, size = now.copy(), now.shape[1]
    for row in result:
        inside, outside = np.flatnonzero(row), np.flatnonzero(~row)
        if rng.random() < 0.5:
            row[rng.integers(size)] ^= True
        elif len(inside) and len(outside):
            row[rng.choice(inside)], row[rng.choice(outside)] = False, True
    return result


def _spread(means: np.ndarray) -> np.ndarray:
    """Standard error of the mean of batch means, by the spread of batches or of chains, whichever is larger."""
    chains, batches = means.shape[:2]
    by_batch = means.reshape(chains * batches, -1).std(axis=0, ddof=1) / math.sqrt(chains * batches)
    by_chain = means.mean(axis=1).std(axis=0, ddof=1) / math.sqrt(chains)
    return np.maximum(by_batch, by_chain)


def _worth(chance: np.ndarray, errors: np.ndarray, number: int) -> float:
    """How many independent draws the walk is worth, by the coefficients that go in and out often."""
    variance = chance * (1 - chance)
    often = variance >= min(0.05, float(np.median(variance)))
    return float(np.median(np.clip(variance[often] / np.maximum(errors[often] ** 2, 1 / number**2), 2.0, number)))


def _binomial(chance: Any, worth: float) -> Any:
    """Standard error of a frequency by independent draws, one more of each kind: of what was seen once or never, too.

    Of an excursion that came once or twice, batches see too little of how rarely it comes.
    """
    cautious = (chance * worth + 1) / (worth + 2)
    return np.sqrt(cautious * (1 - cautious) / worth)


def _average(joint: np.ndarray, path: np.ndarray, worth: float) -> LogEvidence:
    """log p(y), averaged over all submodels, by what one half of the chains visits of what the other half does."""
    half = len(path) // 2
    found = np.zeros(len(joint), dtype=bool)
    found[np.unique(path[:half])] = True
    inside = found[path[half:]].reshape(half, BATCHES, -1).mean(axis=2)
    mass = float(inside.mean())
    if mass < LEAST:
        why = "the search visits too few of the submodels that matter; ask for more draws"
        return LogEvidence(math.nan, math.inf, "estimated", why)
    error = max(float(_spread(inside[..., None])[0]), float(_binomial(mass, worth / 2))) / mass
    return LogEvidence(float(np.logaddexp.reduce(joint[found])) - math.log(mass), error, "estimated")
