"""Which observations are left out together, and which of the others a model is given then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayeskit.errors import DataError, OptionError

__all__ = ["Fold", "FoldLayout", "FoldMethod"]

type FoldMethod = Literal["loo", "kfold", "stratified", "grouped", "leave_future_out"]

FOLDS = 10


@dataclass(frozen=True, eq=False)
class Fold:
    """Observations that are scored, by number, and a mask of those that the model has seen before."""

    scored: np.ndarray
    seen: np.ndarray


@dataclass(frozen=True, eq=False)
class FoldLayout:
    """How observations are laid out in folds: the arguments of :func:`bayeskit.cross_validate`."""

    method: FoldMethod
    folds: int | None = None
    groups: Any = None
    initial: int | None = None

    def of(self, number: int, rng: np.random.Generator) -> list[Fold]:
        """The folds of a number of observations.

        Raises
        ------
        OptionError
            If an argument is not one of the method's, is missing, or leaves a fold empty.
        DataError
            If the groups are not one an observation.
        """
        method, folds = self.method, self.folds
        if (self.groups is not None) != (method in ("stratified", "grouped")):
            lacking = "needs groups, one label an observation"
            what = lacking if self.groups is None else "takes no groups, which 'grouped' does"
            raise OptionError(f"method={method!r} {what}")
        if self.initial is not None and method != "leave_future_out":
            raise OptionError(f"method={method!r} takes no initial; 'leave_future_out' does")
        if folds is not None and method == "loo":
            raise OptionError("method='loo' takes no folds: each observation is one; method='kfold' does")
        if folds is not None and not 2 <= folds <= number:
            raise OptionError(f"folds is {folds}; it must be from 2 to the {number} observations")
        if method == "leave_future_out":
            return _future(number, folds, self.initial)
        if method == "loo":
            place = np.arange(number)
        elif method == "kfold":
            place = rng.permutation(np.arange(number) % min(folds or FOLDS, number))
        else:
            codes = _codes(self.groups, number)
            place = (_stratified if method == "stratified" else _grouped)(codes, folds, rng)
        return [Fold(np.flatnonzero(place == k), place != k) for k in np.unique(place)]


def _codes(groups: Any, number: int) -> np.ndarray:
    """The groups as numbers."""
    labels = np.asarray(groups, dtype=object)
    if labels.shape != (number,):
        raise DataError(f"groups must be {number} labels, one an observation in their order")
    try:
        codes, _ = pd.factorize(labels)
    except TypeError as error:
        raise DataError(f"groups must be {number} labels, texts or numbers ({error})") from error
    if np.any(codes < 0):
        raise DataError(f"the label of observation {int(np.argmax(codes < 0))} is missing; give each a group")
    return np.asarray(codes)


def _stratified(codes: np.ndarray, folds: int | None, rng: np.random.Generator) -> np.ndarray:
    """Each group is dealt out to the folds in turn, so that each fold has its share."""
    order = np.lexsort((rng.random(codes.size), codes))
    place = np.empty(codes.size, dtype=int)
    place[order] = np.arange(codes.size) % min(folds or FOLDS, codes.size)
    return place


def _grouped(codes: np.ndarray, folds: int | None, rng: np.random.Generator) -> np.ndarray:
    """Groups stay whole: each is a fold, or goes to the smallest of fewer folds."""
    sizes = np.bincount(codes)
    if sizes.size < 2 or (folds or 0) > sizes.size:
        raise OptionError(f"there are {sizes.size} groups; at least two are needed, and no more folds than groups")
    if folds is None:
        return codes
    filled, place = np.zeros(folds, dtype=int), np.empty(sizes.size, dtype=int)
    for group in sorted(rng.permutation(sizes.size), key=lambda g: -sizes[g]):
        place[group] = smallest = int(np.argmin(filled))
        filled[smallest] += sizes[group]
    return place[codes]


def _future(number: int, folds: int | None, initial: int | None) -> list[Fold]:
    """Blocks of what comes after the initial observations, each given all that comes before it."""
    first = max(1, number // 4) if initial is None else initial
    if not 0 <= first < number:
        raise OptionError(f"initial is {first}; it must be from 0 to {number - 1}, the observations but the last")
    later = np.arange(first, number)
    blocks = np.array_split(later, min(folds or later.size, later.size))
    return [Fold(block, np.arange(number) < block[0]) for block in blocks]
