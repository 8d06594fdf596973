"""Sums over entries by key: the distinct keys, totals, means and scatters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pandas as pd

from bayeskit.row_sums.terms import DataTerm, KeyColumn, NotAdditive, along, of_entries

__all__ = ["MOST_KEYS", "Entries", "as_integers", "by_key", "columns_by_key", "distinct", "moments", "require_few"]


SMALL = 10_000  # entries that are added up in extended precision
FEW = 200  # entries a key below which all keys are gone through at once
SPARSE = 64  # of so many entries one is part of a first guess of their mean
BLOCK = 32_768  # entries that are worked on at a time, which stay in the cache
MOST_KEYS = 2_000_000  # distinct arguments of a function
ALIKE = 16  # rows of a sample that are like another, fewer than which there are if most are distinct


def as_integers(values: np.ndarray) -> np.ndarray:
    """Numbers that are the same for the same values, with which :func:`distinct` tells them apart."""
    return values.astype(np.int64) if values.dtype.kind in "iu" else (values.astype(float) + 0.0).view(np.int64)


def require_few(columns: Sequence[np.ndarray], length: int, most: int) -> None:
    """NotAdditive if a sample of rows shows that more than ``most`` are distinct, which takes long to find of all.

    Of m rows of which D are distinct some m²/2D pairs are alike, or more where some are more frequent: 32 at D = most.
    """
    sample = int(8 * np.sqrt(most))
    if not columns or length <= max(most, 4 * sample):
        return
    chosen = np.random.default_rng(0).integers(0, length, sample)
    taken = pd.DataFrame({k: np.asarray(c)[chosen] for k, c in enumerate(columns)})
    if np.count_nonzero(taken.duplicated()) < ALIKE:
        raise _too_many(most)


def _too_many(most: int) -> NotAdditive:
    return NotAdditive(f"its log density takes a function of more than {most:,} distinct rows of data")


def distinct(columns: Sequence[np.ndarray], length: int, most: int = MOST_KEYS) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of some columns of integers, in the order in which they come, and the number of each row's."""
    if not columns:
        return np.zeros((1, 0), dtype=np.int64), np.zeros(length, dtype=np.int64)
    codes, _ = pd.factorize(columns[0])
    for column in columns[1:]:
        more, found = pd.factorize(column)
        codes, _ = pd.factorize(codes * max(len(found), 1) + more)
    count = int(codes.max()) + 1 if len(codes) else 0
    if count > most:
        raise _too_many(most)
    first = np.empty(count, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return np.stack([c[first] for c in columns], axis=1), codes


type ScaledRows = tuple[Any, np.ndarray]
type MomentsByKey = tuple[np.ndarray, np.ndarray, np.ndarray]


class Entries:
    """The arrays of a term with its entries in a row: those that no function tells apart are added up first."""

    def __init__(
        self, term: DataTerm, shape: tuple[int, ...], columns: Sequence[KeyColumn], inner: Sequence[DataTerm]
    ) -> None:
        ndim = len(shape)
        self.shape = shape
        told = [along(c.values, ndim).shape for c in columns]
        for one in (replace(term, weight=np.ones(())), *inner):
            of_entries(one, lambda a, extra: told.append(along(a, ndim + extra).shape[:ndim]) or a)  # type: ignore[func-returns-value]
        alike = [i for i in range(ndim) if all(s[i] == 1 for s in told)]
        weight = along(np.asarray(term.weight), ndim)
        times = int(np.prod([shape[i] for i in alike if weight.shape[i] == 1], dtype=int))
        weight = weight.sum(axis=tuple(alike), keepdims=True) * times
        self._lengths = tuple(1 if i in alike else n for i, n in enumerate(shape))
        flat = np.broadcast_to(weight, self._lengths).reshape(-1)
        # What a weight of zero stands beside has no part in the sum, be it infinite.
        self._kept = None if np.all(flat != 0) else np.flatnonzero(flat)
        self.weight = flat if self._kept is None else flat[self._kept]
        self.length = len(self.weight)
        self.columns = [self.taken(c.values, 0) for c in columns]

    def taken(self, array: np.ndarray, extra: int) -> np.ndarray:
        full = along(np.asarray(array), len(self.shape) + extra)
        tail = full.shape[full.ndim - extra :]
        flat = np.broadcast_to(full, (*self._lengths, *tail)).reshape(-1, *tail)
        return flat if self._kept is None else flat[self._kept]


def by_key(values: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    if count == 1:
        return np.array([np.sum(values, dtype=np.longdouble if len(values) < SMALL else float)], dtype=np.longdouble)
    if len(values) < SMALL:
        out = np.zeros(count, dtype=np.longdouble)
        np.add.at(out, codes, values.astype(np.longdouble))
        return out
    return np.bincount(codes, values, count).astype(np.longdouble)


def columns_by_key(values: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    return np.stack([by_key(v, codes, count) for v in values.T], axis=1) if values.shape[1] else np.zeros((count, 0))


def moments(weight: np.ndarray, parts: Sequence[ScaledRows], codes: np.ndarray, count: int) -> MomentsByKey:
    """Σ w, the weighted mean of the rows of z and Σ w (z − mean)(z − mean)ᵀ, by key.

    ``parts`` are z side by side: of each its columns, and what its rows are multiplied by. No array as large as z is
    made where keys have many rows each.
    """
    width = sum(rows.shape[1] for _, rows in parts)
    if not width or len(weight) < SMALL or len(weight) < FEW * count:
        return _moments_at_once(
            weight, np.concatenate([np.zeros((len(weight), 0)), *_parts_at(parts, slice(None))], axis=1), codes, count
        )
    order = None if count == 1 else np.argsort(codes, kind="stable")
    ends = np.array([len(weight)]) if count == 1 else np.cumsum(np.bincount(codes, minlength=count))
    total = np.zeros(count, dtype=np.longdouble)
    mean, scatter = (np.zeros((count, *(width,) * k), dtype=np.longdouble) for k in (1, 2))
    for key, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        for first in range(start, end, BLOCK):
            block = slice(first, min(first + BLOCK, end))
            where: Any = block if order is None else order[block]
            w = weight[where]
            if not np.any(w):  # all of them are censored, say, and what is summed is of those that are not
                continue
            # About the mean of some of them, so that no sum depends on how large z is.
            some = slice(block.start, block.stop, SPARSE) if order is None else where[::SPARSE]
            guess = [part.mean(axis=0) for part in _parts_at(parts, some)]
            z = [part - g for part, g in zip(_parts_at(parts, where), guess, strict=True)]
            middle, n = np.concatenate(guess), w.sum()
            more = np.concatenate([w @ part for part in z]) / n
            even = np.all(w == w[0])
            weighed = z if even else [part * w[:, None] for part in z]
            spread = np.empty((width, width))
            ends_of_parts = np.cumsum([0, *(part.shape[1] for part in z)])
            for j, k in combinations_with_replacement(range(len(z)), 2):
                rows, columns = (slice(*ends_of_parts[i : i + 2]) for i in (j, k))
                spread[rows, columns] = weighed[j].T @ z[k]
                spread[columns, rows] = spread[rows, columns].T
            spread = spread * (w[0] if even else 1.0) - n * np.outer(more, more)
            apart = middle.astype(np.longdouble) + more - mean[key]
            share = n / (total[key] + n)
            scatter[key] += spread + total[key] * share * np.outer(apart, apart)
            mean[key] += share * apart
            total[key] += n
    return total, mean, scatter


def _parts_at(parts: Sequence[ScaledRows], where: Any) -> list[np.ndarray]:
    """Some rows of each part of z; not side by side, for that takes longer than the products of all with all."""
    found = []
    for factor, rows in parts:
        own = np.asarray(rows[where], dtype=float)  # a block of single precision is widened in the cache
        number = np.ndim(factor) == 0
        found.append(own if number and factor == 1 else own * (factor if number else factor[where][:, None]))
    return found


def _moments_at_once(weight: np.ndarray, z: np.ndarray, codes: np.ndarray, count: int) -> MomentsByKey:
    width = z.shape[1]
    total = by_key(weight, codes, count)
    if not width:
        return total, np.zeros((count, 0), dtype=np.longdouble), np.zeros((count, 0, 0), dtype=np.longdouble)
    counted = np.where(total == 0, 1, total)
    share = counted[:, None].astype(float)
    mean = columns_by_key(weight[:, None] * z, codes, count).astype(float) / share
    apart = z - (mean[0] if count == 1 else mean[codes])
    # The rounding of the mean is put right, so that no sum depends on how large z is.
    more = columns_by_key(weight[:, None] * apart, codes, count) / counted[:, None]
    scatter = np.zeros((count, width, width), dtype=np.longdouble)
    for j in range(width):
        for k in range(j + 1):
            scatter[:, j, k] = scatter[:, k, j] = by_key(weight * apart[:, j] * apart[:, k], codes, count)
    scatter -= total[:, None, None] * more[:, :, None] * more[:, None, :]
    return total, mean.astype(np.longdouble) + more, scatter
