r"""Where a component of a mixture is empty: near which points, so that an integral can begin there.

With a weight near zero a component explains nothing, its own parameters are free under their prior, and the rest are as
if it were not there. That is a region, and no mode where the prior of the component is centred among the data: no climb
ends in it, and it may hold a tenth of the evidence. Here it is made up: the weights and the component's own entries as
draws from the prior have them, those with the least weight of it; everything else at the maximum given their centre.
"""

from __future__ import annotations

import math

import numpy as np

from bayeskit.marginal_likelihood.permutations import Coordinates, Exchangeable
from bayeskit.marginal_likelihood.proposal import Proposal
from bayeskit.model.ascent import climb
from bayeskit.model.unconstrained import Unconstrained, negative_hessian

__all__ = ["with_an_empty_component"]

DRAWN, LEAST = 1_000, 0.2  # draws from the prior, and the share of them with the least weight that are kept
STEPS = 200  # of the climb of all else


def with_an_empty_component(
    space: Unconstrained, group: Exchangeable, near: np.ndarray, random_seed: int
) -> Proposal | None:
    """A Normal about the points at which the last of exchangeable components is empty; None where none has a weight.

    ``near`` is a point of the posterior, from which the other coordinates climb.
    """
    coordinates, label = Coordinates(space), group.labels[-1]
    weights = [n for n in group.axes if _size(space, n) != math.prod(coordinates.shape(n)) and len(group.axes[n]) == 1]
    prior = space.prior_draws(DRAWN, random_seed)
    if not weights or len(prior) < DRAWN // 2:
        return None
    held = np.zeros(space.size, dtype=bool)
    for name, axes in group.axes.items():
        block = space.slices[name]
        if name in weights or len(axes) > 1:
            held[block] = True
        else:
            own = np.zeros(coordinates.shape(name), dtype=bool)
            np.moveaxis(own, axes[0], 0)[label] = True
            held[block] = own.ravel()
    shares = space.backward(prior)[weights[0]].reshape(len(prior), *coordinates.shape(weights[0]))
    of_label = np.take(shares, label, axis=group.axes[weights[0]][0] + 1)
    total = of_label.reshape(len(prior), -1).sum(axis=1)
    kept = prior[np.argsort(total)[: int(LEAST * len(prior))]]
    centre = np.where(held, kept.mean(axis=0), near)
    covariance = np.diag(held.astype(float))
    covariance[np.ix_(held, held)] = np.atleast_2d(np.cov(kept[:, held], rowvar=False))
    if not held.all():

        def of_the_rest(x: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = space.value_and_gradient(_filled(centre, held, x))
            return value, slope[~held]

        mode, _ = climb(of_the_rest, centre[~held], steps=STEPS)
        centre = _filled(centre, held, mode)
        try:
            covariance[np.ix_(~held, ~held)] = np.linalg.inv(negative_hessian(of_the_rest, mode))
        except np.linalg.LinAlgError:
            return None
    try:
        return Proposal(centre, np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        return None


def _size(space: Unconstrained, name: str) -> int:
    return space.slices[name].stop - space.slices[name].start


def _filled(point: np.ndarray, held: np.ndarray, rest: np.ndarray) -> np.ndarray:
    result = point.copy()
    result[~held] = rest
    return result
