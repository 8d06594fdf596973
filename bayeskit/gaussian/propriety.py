"""Whether the data tell apart what a prior that is improper leaves free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayeskit.errors import UnanswerableError
from bayeskit.gaussian.block import Gaussian, GaussianBlock
from bayeskit.gaussian.factorisation import NotPositiveDefinite
from bayeskit.model.support import is_improper

__all__ = ["proper_at"]

UNIDENTIFIED = 1e20  # condition of a precision without a prior, above which it has lost a rank to all but rounding


def proper_at(block: GaussianBlock, point: Mapping[str, Any]) -> Gaussian:
    """θ given all variables outside a block; an UnanswerableError where an improper prior leaves it no posterior.

    NotPositiveDefinite where that has another reason.
    """
    free = [n for n in block.names if n in block.joint.shared or is_improper(block.joint.model[n])]
    improper = (
        f"the posterior of {', '.join(block.names)} is improper: the data do not tell {', '.join(free)} apart, "
        "whose prior is; leave out what is there twice, or give it a proper prior"
    )
    if free and not block.factors:
        raise UnanswerableError(improper)
    try:
        gaussian = block.at(point)
    except NotPositiveDefinite as error:
        if free:
            raise UnanswerableError(improper) from error
        raise
    if free and gaussian.precision.condition > UNIDENTIFIED:
        raise UnanswerableError(improper)
    return gaussian
