"""Which variables' draws have no mean or no variance that they tell, in sentences."""

from __future__ import annotations

from collections.abc import Iterable

import xarray as xr

from bayeskit.results.marginals import scalar_labels
from bayeskit.results.moments import unknown_moments

__all__ = ["doubted_moments"]


def doubted_moments(draws: xr.Dataset, names: Iterable[str]) -> tuple[str, ...]:
    """One sentence for each variable, by its entry of the heaviest tail."""
    return tuple(filter(None, (_sentence(draws, name) for name in names)))


def _sentence(draws: xr.Dataset, name: str) -> str:
    found = unknown_moments(draws[name])
    if not found:
        return ""
    worst = max(found, key=lambda k: found[k])
    index, missing = found[worst]
    more = f" (and {len(found) - 1} more entries)" if len(found) > 1 else ""
    what = "mean and sd are" if missing != "sd" else "the sd is"
    of = f"{scalar_labels(draws, name)[worst]}{more}"
    return f"{what} not finite, or not known from draws, for {of} (tail index k = {index:.2f}): read quantiles"
