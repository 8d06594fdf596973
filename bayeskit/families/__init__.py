"""Conjugate families, one a file: support, score basis, parameters from coefficients, distribution, mode.

Adding a family is one file with a :class:`~bayeskit.families.base.ConjugateFamily` named ``FAMILY`` and one line in
``FAMILIES`` below; the order is the order in which they are tried on a variable of their support. Everything else reads
them through the functions below.
"""

from bayeskit.families import beta, dirichlet, gamma, inverse_gamma, von_mises, wishart
from bayeskit.families.base import ConjugateFamily
from bayeskit.families.support_kinds import SupportKind

__all__ = ["FAMILIES", "ConjugateFamily", "SupportKind", "families_for", "support_kinds", "support_of_prior"]

FAMILIES: tuple[ConjugateFamily, ...] = (
    beta.FAMILY,
    gamma.FAMILY,
    inverse_gamma.FAMILY,
    dirichlet.FAMILY,
    wishart.FAMILY,
    von_mises.FAMILY,
)


def families_for(support: str) -> tuple[ConjugateFamily, ...]:
    """The families on a kind of support, in the order in which they are tried."""
    return tuple(f for f in FAMILIES if f.support.name == support)


def support_kinds() -> dict[str, SupportKind]:
    """The kinds of support that families live on, by name."""
    return {f.support.name: f.support for f in FAMILIES}


def support_of_prior(op: str) -> SupportKind | None:
    """The support of one of PyMC's distributions, by the class of its op, where it is a member of a family."""
    return next((f.support for f in FAMILIES if op in f.priors), None)
