r"""Mirror images of a density that no permutation of labels along axes gives.

A mixture of two components is often written without an axis for its weights: ``z ~ Bernoulli(w)`` with a Beta prior,
and means ``mu[z]``, or ``switch(z, a, b)``. Exchanging the components then turns w into 1 − w, which on the
unconstrained scale x is −x, and exchanges entries of ``mu`` or two variables; the loadings of a factor model may change
their signs, and the weights into and out of one hidden unit of a neural network. Draws from one of the two images miss
log 2 of the log evidence without any sign of it.

Candidates are linear maps T with T² = 1 made of three moves: the sign of a variable's coordinates, two entries along an
axis of length two, two variables of equal size. And the sign of what belongs to one label, in all variables, or some,
that have an axis of as many labels. A candidate counts if the density is the same at x and T x, at several
posterior draws and beside them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from bayeskit.marginal_likelihood.permutations import Blocks, Coordinates, Matrix
from bayeskit.model.unconstrained import Unconstrained

__all__ = ["reflections"]

TRIALS, FEWEST = 4_096, 64  # candidates at most and at least; the simplest come first
WORK = 2e8  # numbers that the search may compute with
POINTS = 6  # draws, half of them moved


def reflections(space: Unconstrained, draws: np.ndarray, *, random_seed: int = 0) -> list[tuple[Matrix, str]]:
    """The mirror images under which a density does not change, each with the variables that it moves.

    They are T with f(T x) = f(x), T² = 1. None is made of others in the list that move other variables.
    """
    rng = np.random.default_rng([random_seed, TRIALS])
    flat = draws.reshape(-1, space.size)
    points = flat[rng.integers(len(flat), size=POINTS)]
    points[::2] += 0.3 * flat.std(axis=0) * rng.normal(size=points[::2].shape)
    trials = int(np.clip(WORK / space.weight, FEWEST, TRIALS))
    coordinates = Coordinates(space)
    chosen = [*itertools.islice(_candidates(_moves(coordinates)), trials)]
    chosen += [*itertools.islice(_signs_of_labels(coordinates), trials)]
    for point in points:
        chosen = list(itertools.compress(chosen, coordinates.unchanged_by(point, chosen)))
    images: list[tuple[Matrix, list[str]]] = []
    for blocks in sorted(chosen, key=len):
        names = [n for n in space.model.named_vars if any(n == moved for moved, _ in blocks)]
        if not any(set(smaller) < set(names) for _, smaller in images):
            images.append((coordinates.matrix(blocks), names))
    return [(matrix, ", ".join(names)) for matrix, names in images]


def _moves(coordinates: Coordinates) -> list[Blocks]:
    """What may be done to one variable, or to two."""
    sizes = {name: block.stop - block.start for name, block in coordinates.space.slices.items()}
    moves: list[Blocks] = []
    for name, size in sizes.items():
        moves.append({(name, name): -sparse.eye_array(size)})
        for axis, length in enumerate(coordinates.shape(name)):
            part = coordinates.permutation(name, (axis,), (1, 0)) if length == 2 else None
            if part is not None and size > 1:  # that of two weights is the change of sign
                moves.append({(name, name): part})
    for one, other in itertools.combinations(sizes, 2):
        if sizes[one] == sizes[other]:
            unit = sparse.eye_array(sizes[one])
            moves.append({(one, other): unit, (other, one): unit})
    return moves


def _signs_of_labels(coordinates: Coordinates) -> Iterator[Blocks]:
    """The sign of the entries with one label along an axis, of several variables that have an axis of that length."""
    shapes = {name: coordinates.shape(name) for name in coordinates.space.slices}
    # Elsewhere, as of weights that sum to one, coordinates are not entries.
    entries = {n: shape for n, shape in shapes.items() if coordinates.space.initial[n].shape == shape}
    for size in sorted({length for shape in entries.values() for length in shape if length > 1}):
        places = [(name, shape, k) for name, shape in entries.items() for k, n in enumerate(shape) if n == size]
        moves = ([{(n, n): _sign(shape, axis, label)} for n, shape, axis in places] for label in range(size))
        for of_each_label in zip(*map(_candidates, moves), strict=True):
            yield from of_each_label


def _sign(shape: tuple[int, ...], axis: int, label: int) -> Matrix:
    """The change of sign of the entries with a label along an axis."""
    signs = np.ones(shape)
    signs[(slice(None),) * axis + (label,)] = -1.0
    return sparse.diags_array(signs.ravel())


def _candidates(moves: list[Blocks]) -> Iterator[Blocks]:
    """Sets of moves of different variables, the smallest first."""
    for number in range(1, len(moves) + 1):
        some = False
        for chosen in itertools.combinations(moves, number):
            names = [n for blocks in chosen for n, _ in blocks]
            if len(names) == len(set(names)):
                some = True
                yield {key: part for blocks in chosen for key, part in blocks.items()}
        if not some:
            return
