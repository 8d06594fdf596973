r"""One labelling's share of a density that is the same under every permutation of its components' labels.

Where f(T_π x) = f(x) for a finite group G of linear maps with |det T_π| = 1, the posterior has a copy of every mode
for each π, and an estimate from one of them misses the log of their number (Neal 1999, on Chib 1995; Berkhof, van
Mechelen and Gelman 2003). With q fitted to draws relabelled to one labelling,

    f₁(x) = f(x) · |G| q(x) / Σ_π q(T_π x)                                                                          (1)

is one labelling's soft share of f. Because f is invariant, the share of each π has the same integral, so that
∫ f₁ = ∫ f whatever q is; and a draw x of f becomes a draw of f₁ as T_π x, π chosen with probability
q(T_π x) / Σ_σ q(T_σ x). The ratio f₁ / q is f over the proposal symmetrised over all labellings,
(1/|G|) Σ_π q(T_π x) (Frühwirth-Schnatter 2004, where permutations are drawn rather than summed over): an estimate is
right whether the modes are apart or overlap, and whether or not the chains switched labels.

The draws that q is fitted to are relabelled to the draw of highest density (pivotal reordering; Marin, Mengersen and
Robert 2005), and then each by the permutation that is most likely under a Normal fitted to all, in turn until nothing
changes (Stephens 2000, section 4).

Sources: Berkhof, van Mechelen and Gelman (2003), Statistica Sinica 13, 423-442; Chib (1995), Journal of the American
Statistical Association 90, 1313-1321; Frühwirth-Schnatter (2004), Econometrics Journal 7, 143-167; Marin, Mengersen and
Robert (2005), Handbook of Statistics 25, 459-507; Neal (1999), Erroneous results in "Marginal likelihood from the Gibbs
output"; Stephens (2000), Journal of the Royal Statistical Society B 62, 795-809.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bayeskit.marginal_likelihood.permutations import Matrix
from bayeskit.marginal_likelihood.proposal import Array, Proposal, proposal_of, require_more_draws_than

__all__ = ["Share", "labelling", "moved"]

LABELLED = 1_000  # draws to which the labelling is fitted
ROUNDS = 50  # of relabelling


class HasDensity(Protocol):
    """A proposal, as far as shares are asked for."""

    def log_density(self, points: Array) -> Array:
        """log q at points of shape (n, D)."""


@dataclass(frozen=True)
class Share[P: HasDensity]:
    """One labelling's share of f, log |G| q(x) − log Σ_π q(T_π x) of (1), with q a multivariate Normal or t."""

    proposal: P
    symmetries: Sequence[Matrix]

    def each(self, points: Array) -> Iterator[Array]:
        """log q(T_π x) for every π in turn: memory is that of a few arrays of points."""
        return (self.proposal.log_density((symmetry @ points.T).T) for symmetry in self.symmetries)

    def log(self, points: Array) -> Array:
        """The share at points of shape (n, D); zero where there are no symmetries."""
        if len(self.symmetries) < 2:
            return np.zeros(len(points))
        values = self.each(points)
        unmoved = total = next(values)  # the identity comes first
        for value in values:
            total = np.logaddexp(total, value)
        return np.asarray(unmoved - total + math.log(len(self.symmetries)))

    def of(self, log_density: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """log f₁ of (1), from log f."""
        return lambda points: np.asarray(log_density(points)) + self.log(points)

    def drawn(self, points: Array, rng: np.random.Generator) -> NDArray[np.intp]:
        """π with probability q(T_π x) / Σ q(T_σ x), by the Gumbel distribution of the largest."""
        return _largest(value + rng.gumbel(size=len(points)) for value in self.each(points))

    def applied(self, draws: Array) -> Array:
        """Draws of shape (chains, length, D), each under its most likely labelling."""
        return moved(draws, self.symmetries, _largest(self.each(draws.reshape(-1, draws.shape[-1]))))


def _largest(values: Iterator[Array]) -> NDArray[np.intp]:
    """For each entry, which of the arrays is largest there."""
    best = next(values)
    which = np.zeros(len(best), dtype=np.intp)
    for k, value in enumerate(values, 1):
        better = value > best
        best[better], which[better] = value[better], k
    return which


def moved(draws: Array, symmetries: Sequence[Matrix], which: NDArray[np.intp]) -> Array:
    """Each draw under one of the symmetries."""
    points = draws.reshape(-1, draws.shape[-1])
    result = points.copy()
    for k in np.unique(which):
        rows = which.ravel() == k
        result[rows] = (symmetries[k] @ points[rows].T).T
    return result.reshape(draws.shape)


def labelling(draws: Array, heights: Array, symmetries: Sequence[Matrix]) -> Share[Proposal]:
    """The Normal under which one labelling of each draw is more likely than the others; see the module's docstring."""
    sample = draws.reshape(-1, draws.shape[-1])
    require_more_draws_than(sample)
    pivot = sample[np.argmax(np.where(np.isnan(heights), -np.inf, heights).ravel())]
    sample = sample[:: -(-len(sample) // LABELLED)]
    squares = sum(((s @ sample.T - pivot[:, None]) ** 2).mean(axis=1) for s in symmetries) / len(symmetries)
    root = np.diag(np.sqrt(np.maximum(squares, np.finfo(float).tiny)))
    fitted = Share(Proposal(pivot, root), symmetries)
    before = None
    for _ in range(ROUNDS):
        which = _largest(fitted.each(sample))
        if before is not None and np.array_equal(which, before):
            break
        fitted, before = Share(proposal_of(moved(sample, symmetries, which)), symmetries), which
    return fitted
