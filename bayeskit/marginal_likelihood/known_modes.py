"""Whether chains moved between modes that are known, found by quadrature where it could not integrate over them.

An estimate from draws holds for modes that every chain visited, in the right proportion, or that are images of each
other under a symmetry. A mode counts as visited by the draws that are nearer to it than to the others.
"""

from __future__ import annotations

import numpy as np

from bayeskit.marginal_likelihood.proposal import Refused, Unvisited
from bayeskit.marginal_likelihood.symmetries import Symmetric

__all__ = ["require_visits"]

VISITS = 5  # of each mode by each chain, at least
NEAR = 0.1  # of the spread of modes and draws: an image of a mode this near to another is that


def require_visits(symmetry: Symmetric, modes: np.ndarray) -> None:
    """Refuse an estimate, and doubt the draws, where not every chain moved between modes, given as rows."""
    draws, said = symmetry.draws, f"quadrature found {len(modes)} separate modes"
    if modes.shape[1] != draws.shape[2]:
        raise Refused(f"{said}, which could not be compared with the draws")
    spread = np.concatenate([draws.reshape(-1, draws.shape[2]), modes]).std(axis=0) + 1e-300
    apart: list[np.ndarray] = []  # for each set of modes that are images of each other, all images
    for mode in modes:
        images = np.stack([image @ mode for image in symmetry.maps]) / spread
        if not any(np.linalg.norm(images[0] - other, axis=1).min() < NEAR for other in apart):
            apart.append(images)
    distances = [[np.linalg.norm(draws / spread - i, axis=2) for i in images] for images in apart]
    nearest = np.stack([np.min(d, axis=0) for d in distances]).argmin(axis=0)
    visits = np.array([[np.sum(chain == mode) for mode in range(len(apart))] for chain in nearest])
    if visits.min() < VISITS:
        far = "it does not move between modes this far apart"
        raise Unvisited(f"{said}, and not every chain of NUTS visited each of them: {far}")
