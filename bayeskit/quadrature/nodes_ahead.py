"""Nodes of a lattice in several variables that are evaluated before they are asked for.

A lattice grows ring by ring, and a ring has some tens of nodes. One call of a density takes as long as a few hundred of
its points, so that the rings around are computed with it, and kept for when the lattice comes to them: it has the same
nodes in the end, from fewer calls.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np

from bayeskit.terminal import let_alarms_through

__all__ = ["NodesAhead", "key_of", "largest_coordinate", "moves"]

TOGETHER = {
    2: 512,
    3: 192,
    4: 192,
}  # nodes that are evaluated at once, where fewer are asked for, by the number of variables
# Rings around those asked for that are taken wherever they are: a lattice grows at its border for as many rounds.
BESIDE = {2: 12, 3: 6, 4: 0}
BITS, MOST_BITS = 63, 21  # of a key, and of one coordinate


def largest_coordinate(k: int) -> int:
    """Of a node in k variables, that a key has room for."""
    return 1 << (_bits(k) - 1)


def _bits(k: int) -> int:
    return min(BITS // k, MOST_BITS)


def key_of(nodes: np.ndarray) -> np.ndarray:
    """One number for each node, in the order of the layers."""
    key, k = np.zeros(len(nodes), np.int64), nodes.shape[1]
    for column in nodes.T:
        key = (key << _bits(k)) | (column + largest_coordinate(k))
    return key


def moves(k: int) -> np.ndarray:
    """From a node to its neighbours along each of k axes."""
    return np.concatenate([np.eye(k, dtype=np.int64), -np.eye(k, dtype=np.int64)])


class NodesAhead:
    """What is known of nodes that nobody asked for yet."""

    def __init__(self) -> None:
        self.keys, self.values = np.empty(0, np.int64), np.empty(0)

    def at(
        self,
        nodes: np.ndarray,
        log_density: Callable[[np.ndarray], np.ndarray],
        wanted: Callable[[np.ndarray, bool], np.ndarray] | None,
    ) -> np.ndarray:
        """The log density at nodes; those around are computed with them where some may be ``wanted`` next.

        That is a mask of nodes, which are beside some that were asked for, or farther away.
        """
        values, known = self._known(key_of(nodes))
        missing = nodes[~known]
        if not len(missing):
            return values
        further = missing[:0] if wanted is None else self._around(missing, wanted)
        try:
            computed = log_density(np.concatenate([missing, further]))
        except Exception as error:  # it need not be defined where nobody has asked for it
            let_alarms_through(error)
            computed, further = log_density(missing), missing[:0]
        values[~known] = computed[: len(missing)]
        keys = np.concatenate([self.keys, key_of(further)])
        order = np.argsort(keys)
        self.keys, self.values = keys[order], np.concatenate([self.values, computed[len(missing) :]])[order]
        return values

    def _known(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not len(self.keys):
            return np.empty(len(keys)), np.zeros(len(keys), bool)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return self.values[at], self.keys[at] == keys

    def _around(self, nodes: np.ndarray, wanted: Callable[[np.ndarray, bool], np.ndarray]) -> np.ndarray:
        """Whole rings of nodes around some."""
        found, ring, k = nodes, nodes, nodes.shape[1]
        for number in count():
            ring = (ring[:, None] + moves(k)).reshape(-1, k)
            keys, first = np.unique(key_of(ring), return_index=True)
            ring = ring[first]
            new = ~self._known(keys)[1] & ~np.isin(keys, key_of(found))
            ring = ring[new & wanted(ring, number < BESIDE[k])]
            if not len(ring) or len(found) + len(ring) > TOGETHER[k]:
                break
            found = np.concatenate([found, ring])
        return found[len(nodes) :]
