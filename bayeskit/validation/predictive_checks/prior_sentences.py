"""What there is to think about in draws from a prior: absurd sizes, piles at the ends, data that are not foreseen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["of_data", "of_parameter", "of_shares"]

# A share of the draws of which the size is said, and how many times the size of the data is then absurd.
ABSURD = ((0.5, 10.0), (0.9, 100.0), (0.99, 10_000.0))
SHARES = {0.5: "half", 0.9: "one in ten", 0.99: "one in a hundred"}
CONFLICT = 0.01  # two-sided prior predictive probability
DECADES = 12.0  # of the central 94 % of a positive variable
EDGE, PILED = 0.01, 0.6  # what is near zero or one, and the share of draws there that is worth a sentence
UNIFORM = 0.05  # draws outside of what is plausible


def of_parameter(name: str, draws: np.ndarray, outside: float) -> Iterator[str]:
    """Of all draws of a variable."""
    finite = draws[np.isfinite(draws)]
    if finite.size < draws.size:
        yield f"{name}: {_percent(1 - finite.size / draws.size)} of its prior draws are not finite"
    if outside > UNIFORM:
        yield f"{name}: {_percent(outside)} of its prior draws lie outside of what was said to be plausible"
    if not finite.size or draws.dtype.kind in "bi":
        return
    low, high = np.quantile(finite, [0.03, 0.97])
    if finite.min() >= 0 and finite.max() <= 1 and np.ptp(finite) > 0:
        piled = float(np.mean((finite < EDGE) | (finite > 1 - EDGE)))
        if piled > PILED:
            yield f"{name}: {_percent(piled)} of its prior draws lie within {EDGE:g} of zero or one"
    elif finite.min() >= 0 and high > 0 and (low == 0 or np.log10(high / low) > DECADES):
        reach = "zero in floating point" if low == 0 else f"{low:.2g}"
        yield f"{name}: the central 94 % of its prior reach from {reach} to {high:.2g}; hardly any of it is plausible"


def of_data(
    name: str, draws: np.ndarray, observed: np.ndarray | None, outside: float, given: bool, tails: dict[str, float]
) -> Iterator[str]:
    """Of replicated measurements or counts, and where there are data, these."""
    finite = draws[np.isfinite(draws)]
    if finite.size < draws.size:
        lost = _percent(1 - finite.size / draws.size)
        yield f"{name}: {lost} of the prior predictive draws are not finite, or too large to be drawn"
    if given and outside > UNIFORM:
        yield f"{name}: {_percent(outside)} of the prior predictive draws lie outside of what was said to be plausible"
    if observed is None or not finite.size:
        return
    reach = float(np.abs(observed).max())
    for share, times in ABSURD:
        size = float(np.quantile(np.abs(finite), share))
        if reach > 0 and size > times * reach:
            some = f"{SHARES[share]} of the prior predictive draws"
            yield f"{name}: {some} lie beyond {size:.2g}, where the data reach {reach:.3g}"
            break
    for statistic, words in (("mean", "mean"), ("sd", "standard deviation")):
        if tails.get(statistic, 1.0) < CONFLICT:
            few = f"hardly any data set that the prior predicts has a {words} like theirs"
            yield f"{name}: prior and data disagree: {few} (two-sided probability {tails[statistic]:.2g})"


def of_shares(name: str, draws: np.ndarray) -> Iterator[str]:
    """Of replicated zeros and ones or categories, first axis the draws: data sets in which all are the same."""
    if draws.shape[1] > 4 and (alike := float(np.mean((draws == draws[:, :1]).all(axis=1)))) > 0.5:
        yield f"{name}: in {_percent(alike)} of the data sets that the prior predicts all values are the same"


def _percent(share: float) -> str:
    return "all" if share == 1 else f"{100 * share:.3g} %"
