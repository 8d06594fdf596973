r"""What lies far below the top of a density beside the nodes of a lattice, from how its mass decays with the depth.

With :math:`M_n` the mass at depths between :math:`c - (n + 1) s` and :math:`c - n s` below the top, of which every node
is known, what lies deeper than c is at most

.. math:: M_0 \frac{\rho}{1 - \rho}, \qquad \rho = M_0 / M_1,

where the share does not grow: of :math:`r^{-\nu - k}` it is a constant, of a normal density it falls. In four variables
the lines along all axes lead to the same places many times, and leave the region at a tangent: by what they show it
would be ten times as much.
"""

from __future__ import annotations

import numpy as np

__all__ = ["mass_below"]

SHELL = 2.0  # nats
LEAST = 0.125  # share of what lies below that is not taken for seen, whatever nodes there are


def mass_below(depth: np.ndarray, weights: np.ndarray, cut: float) -> float:
    """What lies deeper than ``cut`` and not at nodes, in the unit of the weights; what is no number counts nothing."""
    outer, inner = (float(weights[(depth > cut - (n + 1) * SHELL) & (depth <= cut - n * SHELL)].sum()) for n in (0, 1))
    if not inner > outer:
        return np.inf if outer else 0.0
    mass = outer * outer / (inner - outer)
    return max(mass - float(weights[depth > cut].sum()), LEAST * mass)
