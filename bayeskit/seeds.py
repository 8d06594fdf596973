"""The seeds that every function takes, those that PyMC takes, as one number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeskit.arguments import shown
from bayeskit.errors import OptionError

__all__ = ["RandomSeed", "whole_seed"]

type RandomSeed = int | Sequence[int] | np.random.Generator | None


def whole_seed(random_seed: RandomSeed) -> int:
    """A seed as one whole number; a fresh one for None."""
    if isinstance(random_seed, int | np.integer) and not isinstance(random_seed, bool) and random_seed >= 0:
        return int(random_seed)
    try:
        if isinstance(random_seed, bool):
            raise TypeError
        return int(np.random.default_rng(random_seed).integers(2**32))
    except (TypeError, ValueError):
        kinds = "a whole number of at least 0, a sequence of such numbers, or a numpy.random.Generator"
        raise OptionError(f"random_seed is {shown(random_seed)}; it must be {kinds}") from None
