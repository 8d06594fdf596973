"""Finite discrete variables without structure: a table of hypotheses, enumerated.

pymc-extras' ``marginalize`` sums such a variable out of a density but carries no closed form of the continuous
variables inside each hypothesis, and gives no table of posterior probabilities without draws; it is the oracle of the
tests. Mixtures and chains, whose tables grow as K^N, are summed out by :mod:`bayeskit.finite.sum_out`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from bayeskit.elimination.analysis import Analysis

__all__ = ["table"]


def table(analysis: Analysis) -> Iterator[dict[str, np.ndarray]]:
    """Every joint value of the finite variables; one empty value where there are none.

    Parameters
    ----------
    analysis : Analysis

    Yields
    ------
    dict of str to numpy.ndarray
    """
    cells = []
    for name in analysis.finite:
        size = int(np.prod(analysis.shapes[name], dtype=int))
        cells.append(itertools.product(analysis.values[name], repeat=size))
    for row in itertools.product(*cells):
        yield {
            name: np.asarray(entries).reshape(analysis.shapes[name])
            for name, entries in zip(analysis.finite, row, strict=True)
        }
