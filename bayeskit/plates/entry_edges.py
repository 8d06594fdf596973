"""Where the densities of entries have an edge that the nodes of a lattice step over: beyond it, rows are impossible.

Under a prior of sd s, an edge one unit wide needs s nodes about the mode, and about itself only log s.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["edges"]

# By how much exp L over its maximum turns between three neighbouring places where something is between them; and how
# many there are to look closer at, and how often.
TURNS, CLOSE_UP, ZOOMS = 0.2, 9, 25


def edges(
    terms: Callable[[np.ndarray, np.ndarray], np.ndarray], rows: np.ndarray, places: np.ndarray, levels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of each entry where exp L turns the most between two places, and how wide that is; L (n, K, G) at K of them.

    ``terms`` gives L of the values of φ that ``rows`` number, at other places. No width where it turns nowhere so much
    that nodes miss it.
    """
    with np.errstate(all="ignore"):
        top = np.max(np.where(np.isnan(levels), -np.inf, levels), axis=1, keepdims=True)
        at, turn = _sharpest(places, np.exp(levels - top))
        width = np.where(turn > TURNS, at[:, 2] - at[:, 0], 0.0) / 2
        for _ in range(ZOOMS):
            sharp = turn > TURNS
            if not sharp.any():
                break
            closer = np.linspace(at[:, 0], at[:, 2], CLOSE_UP, axis=1)
            new, turn_there = _sharpest(closer, np.exp(terms(rows, closer) - top))
            at = np.where(sharp[:, None], new, at)
            width = np.where(sharp, (new[:, 2] - new[:, 0]) / 2, width)
            turn = np.where(sharp, turn_there, 0.0)
    return at[:, 1], width


def _sharpest(places: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The three neighbouring places, (n, 3, G), whose middle differs most from the mean of the others; twice that."""
    turns = np.nan_to_num(np.abs(values[:, 2:] - 2 * values[:, 1:-1] + values[:, :-2]))
    middle = np.argmax(turns, axis=1)[:, None]
    three = np.concatenate([np.take_along_axis(places, middle + k, axis=1) for k in range(3)], axis=1)
    return three, np.take_along_axis(turns, middle, axis=1)[:, 0]
