"""Conjugate families, one a file: support, score basis, parameters from coefficients, distribution.

Adding a family is one file with a :class:`~bayeskit.families.base.ScoreFamily` named ``FAMILY`` and one line in
``FAMILIES`` below; the order is the order in which they are tried on a variable of their support.
"""

from bayeskit.families import beta, dirichlet, gamma, inverse_gamma
from bayeskit.families.base import ScoreFamily

__all__ = ["FAMILIES", "ScoreFamily", "families_for"]

FAMILIES: tuple[ScoreFamily, ...] = (beta.FAMILY, gamma.FAMILY, inverse_gamma.FAMILY, dirichlet.FAMILY)


def families_for(support: str) -> tuple[ScoreFamily, ...]:
    """The families on a kind of support, in the order in which they are tried."""
    return tuple(f for f in FAMILIES if f.support == support)
