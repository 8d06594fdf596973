r"""Mirror images of a density that no permutation of labels along axes gives.

A mixture of two components is often written without an axis for its weights: ``z ~ Bernoulli(w)`` with a Beta prior,
and means ``mu[z]``, or ``switch(z, a, b)``. Exchanging the components then turns w into 1 − w, which on the
unconstrained scale x is −x, and exchanges entries of ``mu`` or two variables; the loadings of a factor model may change
their signs. Draws from one of the two images miss log 2 of the log evidence without any sign of it.

Candidates are linear maps T with T² = 1 made of three moves: the sign of a variable's coordinates, two entries along an
axis of length two, two variables of equal size. A candidate counts if the density is the same at x and T x, at several
posterior draws and beside them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from bayeskit.graphs.environment import silently
from bayeskit.marginal_likelihood.permutations import Coordinates, Matrix, unchanged
from bayeskit.model.unconstrained import Unconstrained

__all__ = ["reflections"]

TRIALS, FEWEST = 4_096, 64  # candidates at most and at least; the simplest come first
WORK = 2e8  # numbers that the search may compute with
POINTS = 6  # draws, half of them moved

MatrixBlock = tuple[slice, slice, Matrix]  # rows, columns and the entries of T there
Move = tuple[frozenset[str], list[MatrixBlock]]


def reflections(space: Unconstrained, draws: np.ndarray, *, random_seed: int = 0) -> list[tuple[Matrix, str]]:
    """The mirror images under which a density does not change.

    Parameters
    ----------
    space : Unconstrained
    draws : array of shape (chain, draw, k)
        Posterior draws.
    random_seed : int, default 0

    Returns
    -------
    list of (sparse matrix of shape (k, k), str)
        T with f(T x) = f(x), T² = 1, and the variables that it moves. None is made of others in the list that move
        other variables.
    """
    rng = np.random.default_rng([random_seed, TRIALS])
    flat = draws.reshape(-1, space.size)
    points = flat[rng.integers(len(flat), size=POINTS)]
    points[::2] += 0.3 * flat.std(axis=0) * rng.normal(size=points[::2].shape)
    trials = int(np.clip(WORK / space.weight, FEWEST, TRIALS))
    chosen = [c for c in itertools.islice(_candidates(_moves(space)), trials) if c]
    with silently():
        for point in points:
            if not chosen:
                return []
            level = space.log_density(point[None])[0]
            values = space.log_density(np.array([_moved(point, c) for c in chosen]))
            chosen = [c for c, same in zip(chosen, unchanged(values, level), strict=True) if same]
    images: list[tuple[Matrix, frozenset[str]]] = []
    for one in sorted(chosen, key=len):
        names = frozenset().union(*[m[0] for m in one])
        if not any(smaller < names for _, smaller in images):
            images.append((_matrix(space.size, one), names))
    order = list(space.model.named_vars)
    return [(matrix, ", ".join(sorted(names, key=order.index))) for matrix, names in images]


def _moves(space: Unconstrained) -> list[Move]:
    """What may be done to one variable, or to two."""
    coordinates = Coordinates(space)
    moves: list[Move] = []
    for name, block in coordinates.space.slices.items():
        size = block.stop - block.start
        moves.append((frozenset([name]), [(block, block, -sparse.eye_array(size))]))
        for axis, length in enumerate(coordinates.shape(name)):
            part = coordinates.transposition(name, (axis,), (0, 1)) if length == 2 else None
            if part is not None and size > 1:  # that of two weights is the change of sign
                moves.append((frozenset([name]), [(block, block, part)]))
    for (one, a), (other, b) in itertools.combinations(coordinates.space.slices.items(), 2):
        size = a.stop - a.start
        if size == b.stop - b.start:
            unit = sparse.eye_array(size)
            moves.append((frozenset([one, other]), [(a, b, unit), (b, a, unit)]))
    return moves


def _candidates(moves: list[Move]) -> Iterator[tuple[Move, ...]]:
    """Sets of moves of different variables, the smallest first."""
    for number in range(1, len(moves) + 1):
        some = False
        for chosen in itertools.combinations(moves, number):
            names = [n for m in chosen for n in m[0]]
            if len(names) == len(set(names)):
                some = True
                yield chosen
        if not some:
            return


def _moved(point: np.ndarray, chosen: tuple[Move, ...]) -> np.ndarray:
    result = point.copy()
    for _, blocks in chosen:
        for rows, columns, entries in blocks:
            result[rows] = entries @ point[columns]
    return result


def _matrix(size: int, chosen: tuple[Move, ...]) -> Matrix:
    still = np.ones(size)
    rows, columns, values = [np.arange(size)], [np.arange(size)], [still]
    for _, blocks in chosen:
        for down, across, entries in blocks:
            still[down] = 0.0
            part = sparse.coo_array(entries)
            rows.append(part.row + down.start)
            columns.append(part.col + across.start)
            values.append(part.data)
    places = np.concatenate(rows), np.concatenate(columns)
    result: Matrix = sparse.coo_array((np.concatenate(values), places), shape=(size, size)).tocsr()
    result.eliminate_zeros()
    return result
