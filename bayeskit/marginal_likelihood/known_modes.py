"""Whether chains moved between modes that are known, found by quadrature where it could not integrate over them.

Draws hold for modes that every chain visited, in the right proportion, or that are images of each other under a
symmetry. A mode counts as visited by the draws that are nearer to it than to the others. It is known by the values of
some variables, those that remain where others are integrated out: draws of the model as written have these, too, and
are compared by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from bayeskit.marginal_likelihood.permutations import Matrix
from bayeskit.marginal_likelihood.symmetries import Symmetric
from bayeskit.types import Array

__all__ = ["unvisited_mode"]

VISITS = 5  # of each mode by each chain, at least
NEAR = 0.1  # of the spread of modes and draws: an image of a mode this near to another is that


def unvisited_mode(
    modes: Mapping[str, Array], unconstrained: Mapping[str, Array], symmetry: Symmetric | None = None
) -> str:
    """Why draws are in doubt that not every chain spread over modes; empty where each did.

    ``modes`` are values, (number, entries), of unconstrained variables, and ``unconstrained`` the draws, of shape
    (chain, draw, ...). ``symmetry`` is of the density that was drawn from, where its images are known.
    """
    said = f"quadrature found {len(next(iter(modes.values())))} separate modes"
    shared = [n for n in modes if n in unconstrained and _entries(unconstrained[n]).shape[2] == modes[n].shape[1]]
    if not shared:
        return f"{said}; whether the chains visited all of them could not be checked: they are of other variables"
    draws = np.concatenate([_entries(unconstrained[n]) for n in shared], axis=2)
    places = np.concatenate([modes[n] for n in shared], axis=1)
    spread = np.concatenate([draws.reshape(-1, draws.shape[2]), places]).std(axis=0) + 1e-300
    maps = [np.eye(draws.shape[2]), *(_maps_among(symmetry, shared) if symmetry is not None else ())]
    apart: list[np.ndarray] = []  # for each set of modes that are images of each other, all images
    for mode in places:
        images = np.stack([image @ mode for image in maps]) / spread
        if not any(np.linalg.norm(images[0] - other, axis=1).min() < NEAR for other in apart):
            apart.append(images)
    distances = [[np.linalg.norm(draws / spread - i, axis=2) for i in images] for images in apart]
    nearest = np.stack([np.min(d, axis=0) for d in distances]).argmin(axis=0)
    visits = np.array([[np.sum(chain == mode) for mode in range(len(apart))] for chain in nearest])
    if visits.min() >= VISITS:
        return ""
    far = "it does not move between modes this far apart"
    return f"{said}, and not every chain of NUTS visited each of them: {far}"


def _entries(draws: Array) -> Array:
    return draws.reshape(*draws.shape[:2], -1)


def _maps_among(symmetry: Symmetric, names: list[str]) -> Iterator[Matrix]:
    """The maps of a symmetry as maps of some variables, those that take these to themselves."""
    space = symmetry.space
    parts = {str(v.name): space.slices[n] for v, n in zip(space.variables, space.names, strict=True)}
    if not set(names) <= set(parts):
        return  # the order of components was taken away, and there are no images of what has one
    places = np.concatenate([np.arange(space.size)[parts[n]] for n in names])
    for image in symmetry.maps[1:]:
        rows = np.column_stack([image @ unit for unit in np.eye(space.size)])[places]
        if not np.any(np.delete(rows, places, axis=1)):
            yield rows[:, places]
