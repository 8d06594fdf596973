r"""Sums over the entries of a chunk, by the distinct arguments of the functions of latent variables beside them.

Beside a function f(θ; k) stands Σ w of the entries with key k; beside f times a linear form, Σ w x. A square
Σ w (a + z·g(θ))² is kept as n = Σ w, the weighted mean of z and the scatter about it, which lose no digits to the size
of z as Σ w z zᵀ would, and merge by the formulas of Chan, Golub and LeVeque (1983), "Algorithms for computing the
sample variance", The American Statistician 37. Totals are held in extended precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeskit.row_sums.sums_by_key import (
    MOST_KEYS,
    Entries,
    as_integers,
    by_key,
    columns_by_key,
    distinct,
    moments,
    require_few,
)
from bayeskit.row_sums.terms import DataTerm, Factor, KeyColumn, NotAdditive, TermSum, along, apply, joined_factors

__all__ = ["Recipe", "RowStatistic", "merged", "reduced_terms"]


CLOSE = 1e-9  # of sums that are the same, relative to those of one key
ROUNDING = 1e-13  # relative to the largest

type _Named = tuple[str, RowStatistic]
_Pack = Callable[[str, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Recipe:
    """The functions that a statistic stands beside.

    ``outer`` is f; ``inner`` has, for each summand of a square, its number, its function and its linear form, of which
    the number is None where the summand has columns of its own in z.
    """

    kind: str  # "sum", "linear", "square", "vectors" or "condition"
    places: tuple[Any, ...]
    latent: tuple[str, ...]  # of each place
    outer: Any = None
    vector: Any = None
    inner: tuple[tuple[float | None, Any, Any], ...] = ()
    through: Any = None
    whole: frozenset[str] = frozenset()
    names: Mapping[str, Any] | None = None  # the latent variables, as the graphs have them


@dataclass(frozen=True, eq=False)
class RowStatistic:
    """Sums by key: ``keys`` of shape (U, columns); ``total`` (U,); of a linear form ``mean`` (U, K) is Σ w x."""

    recipe: Recipe
    keys: np.ndarray
    total: np.ndarray
    mean: np.ndarray | None = None
    scatter: np.ndarray | None = None

    @property
    def is_condition(self) -> bool:
        """Whether it adds nothing, and says what has to be true of latent variables."""
        return self.recipe.kind == "condition"

    @property
    def largest(self) -> int:
        """Numbers in its largest array."""
        return max(a.size for a in (self.total, self.mean, self.scatter) if a is not None)

    @property
    def is_finite(self) -> bool:
        held = [a for a in (self.total, self.mean, self.scatter) if a is not None]
        return not np.isnan(self._data_keys).any() and all(bool(np.all(np.isfinite(a))) for a in held)

    @property
    def has_infinite_keys(self) -> bool:
        """Whether a function takes an infinite number: one of data, or the logarithm of nothing in a model."""
        return bool(np.isinf(self._data_keys).any())

    @property
    def _data_keys(self) -> np.ndarray:
        places = self.recipe.latent
        per = self.keys.shape[1] // len(places) if places else 0
        data = [self.keys[:, k * per : (k + 1) * per] for k, name in enumerate(places) if not name]
        return np.concatenate([np.ascontiguousarray(keys).view(float).reshape(-1) for keys in data] or [np.empty(0)])

    def is_close(self, other: RowStatistic) -> bool:
        """Whether it is the same to rounding."""
        if self.keys.shape != other.keys.shape:
            return False
        a, b = (np.lexsort(s.keys.T[::-1]) if s.keys.shape[1] else np.arange(1) for s in (self, other))
        if not np.array_equal(self.keys[a], other.keys[b]):
            return False
        pairs = [(self.total, other.total), (self.mean, other.mean), (self.scatter, other.scatter)]
        return all(_close(x[a], y[b]) for x, y in pairs if x is not None and y is not None)

    def relabelled(self, translate: Callable[[str, np.ndarray], np.ndarray]) -> RowStatistic:
        """With other numbers for the entries of latent variables."""
        keys, places = self.keys.copy(), self.recipe.latent
        per = keys.shape[1] // len(places) if places else 0
        for k, name in enumerate(places):
            own = slice(k * per, (k + 1) * per)
            if name:
                keys[:, own] = translate(name, np.ascontiguousarray(keys[:, own]).reshape(-1)).reshape(-1, per)
        return replace(self, keys=keys)

    def scaled(self, factor: float) -> RowStatistic:
        """As of data that count ``factor`` times."""
        mean = self.mean if self.recipe.kind != "linear" or self.mean is None else self.mean * factor
        scatter = None if self.scatter is None else self.scatter * factor
        return replace(self, total=self.total * factor, mean=mean, scatter=scatter)


def reduced_terms(
    value: TermSum, conditions: Iterable[Factor], latents: Mapping[str, Any], pack: _Pack, most: int = MOST_KEYS
) -> dict[str, RowStatistic]:
    """The statistics of the sum of all entries of a node, by what they stand beside; of equal ones the sum.

    ``pack`` gives, for the name of a latent variable and the numbers of some of its entries, numbers that are the same
    for the same entries in every chunk. NotAdditive where a function has more than ``most`` distinct arguments.
    """
    result: dict[str, RowStatistic] = {}
    for term in value.terms:
        if term.square is not None and not np.any(term.weight):
            continue  # no row has a part in it: all of a chunk are censored, say, and it is of those that are not
        sign, found = _of_term(term, value.shape, latents, pack, most)
        result[sign] = merged(result[sign], found) if sign in result else found
    for factor in conditions:
        sign = f"condition:{factor.sign}"
        columns = np.broadcast_arrays(*[c.values for c in factor.columns])
        packed = [_packed(a.reshape(-1), c, pack) for a, c in zip(columns, factor.columns, strict=True)]
        keys, _ = distinct(packed, 1)
        places, latent = tuple(c.place for c in factor.columns), tuple(c.latent for c in factor.columns)
        recipe = Recipe("condition", places, latent, factor.graph, whole=factor.whole, names=latents)
        found = RowStatistic(recipe, keys, np.zeros(len(keys), dtype=np.longdouble))
        result[sign] = merged(result[sign], found) if sign in result else found
    return result


def merged(a: RowStatistic, b: RowStatistic) -> RowStatistic:
    """The statistic of the entries of both."""
    if np.array_equal(a.keys, b.keys):
        keys, place = a.keys, np.arange(len(a.keys))
    else:
        keys, codes = distinct(list(np.concatenate([a.keys, b.keys]).T), 0)
        place = codes[len(a.keys) :]
    size = len(keys)

    def spread(array: np.ndarray, where: np.ndarray) -> np.ndarray:
        out = np.zeros((size, *array.shape[1:]), dtype=np.longdouble)
        out[where] = array
        return out

    first = np.arange(len(a.keys))  # keys are in the order in which they come
    n1, n2 = spread(a.total, first), spread(b.total, place)
    total = n1 + n2
    if a.mean is None or b.mean is None:
        return replace(a, keys=keys, total=total)
    m1, m2 = spread(a.mean, first), spread(b.mean, place)
    if a.scatter is None or b.scatter is None:
        return replace(a, keys=keys, total=total, mean=m1 + m2)
    share = np.divide(n2, total, out=np.zeros_like(total), where=total > 0)[:, None]
    apart = np.where((n1[:, None] > 0) & (n2[:, None] > 0), m2 - m1, 0)
    mean = np.where(n1[:, None] > 0, m1 + apart * share, m2)
    scatter = spread(a.scatter, first) + spread(b.scatter, place)
    scatter += (n1[:, None] * share)[:, :, None] * apart[:, :, None] * apart[:, None, :]
    return replace(a, keys=keys, total=total, mean=mean, scatter=scatter)


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two sums are the same to rounding, key by key: a small group is not lost beside a large one."""
    size = np.maximum(np.abs(a), np.abs(b)).astype(float)
    of_key = size.max(axis=tuple(range(1, size.ndim)), keepdims=True) if size.size else size
    return bool(np.all(np.abs(a - b) <= CLOSE * of_key + ROUNDING * np.max(size, initial=0.0)))


def _packed(values: np.ndarray, column: KeyColumn, pack: _Pack) -> np.ndarray:
    return pack(column.latent, as_integers(values)) if column.latent else as_integers(values)


def _of_term(
    term: DataTerm, shape: tuple[int, ...], latents: Mapping[str, Any], pack: _Pack, most: int
) -> tuple[str, RowStatistic]:
    if term.solved is not None:
        raise NotAdditive("its log density divides by a matrix")
    if term.square is not None and term.square.through is not None:
        return _of_vectors(term, shape, latents, pack)
    inner = () if term.square is None else term.square.terms
    functions = [_product(term.factors), *(_product(t.factors) for t in inner)]
    graphs, columns, signs = joined_factors([f for f in functions if f is not None])
    told = iter(zip(graphs, signs, strict=True))
    (outer, sign), *others = [(None, "1") if f is None else next(told) for f in functions]
    arrays = Entries(term, shape, columns, inner)
    require_few(arrays.columns, arrays.length, most)
    packed = [_packed(v, c, pack) for v, c in zip(arrays.columns, columns, strict=True)]
    keys, codes = distinct(packed, arrays.length, most)
    whole = frozenset().union(*[f.whole for f in functions if f is not None])
    places, latent = tuple(c.place for c in columns), tuple(c.latent for c in columns)
    recipe = Recipe("sum", places, latent, outer, whole=whole, names=latents)
    total = by_key(arrays.weight, codes, len(keys))
    if term.linear is not None:
        rows = arrays.taken(term.linear.rows, 1)
        mean = columns_by_key(arrays.weight[:, None] * rows, codes, len(keys))
        recipe = replace(recipe, kind="linear", vector=term.linear.vector, whole=whole | term.linear.whole)
        return f"linear:{sign}|{term.linear.sign}|{rows.shape[1]}", RowStatistic(recipe, keys, total, mean)
    if term.square is None:
        return f"sum:{sign}", RowStatistic(recipe, keys, total)
    return _of_square(inner, others, arrays, sign, recipe, keys, codes)


def _of_square(
    inner: Sequence[DataTerm], others: Sequence[Any], arrays: Entries, sign: str, recipe: Recipe, keys: Any, codes: Any
) -> tuple[str, RowStatistic]:
    if np.any(arrays.weight < 0) and np.any(arrays.weight > 0):
        raise NotAdditive("its log density adds squares with weights of both signs")
    signed = -1.0 if np.any(arrays.weight < 0) else 1.0
    summands: list[tuple[float | None, Any, Any]] = []
    told, parts = [f"{signed}"], list[tuple[Any, np.ndarray]]()
    for term, (graph, own) in zip(inner, others, strict=True):
        vector = term.linear and term.linear.vector
        if term.linear is None and term.weight.size == 1:
            number = float(term.weight.reshape(()))
            summands.append((number, graph, None))
            told.append(f"{number!r}*{own}")
            continue
        factor = term.weight.reshape(()) if term.weight.size == 1 else arrays.taken(term.weight, 0)
        rows = np.ones((arrays.length, 1)) if term.linear is None else arrays.taken(term.linear.rows, 1)
        parts.append((factor, rows))
        summands.append((None, graph, vector))
        told.append(f"{own}*{'1' if term.linear is None else term.linear.sign}*{rows.shape[1]}")
    total, mean, scatter = moments(np.abs(arrays.weight), parts, codes, len(keys))
    outer = recipe.outer if signed > 0 else (-1.0 if recipe.outer is None else -recipe.outer)
    whole = recipe.whole.union(*[t.linear.whole for t in inner if t.linear is not None])
    recipe = replace(recipe, kind="square", outer=outer, inner=tuple(summands), whole=whole)
    return f"square:{sign}|{'|'.join(told)}", RowStatistic(recipe, keys, total, mean, scatter)


def _of_vectors(
    term: DataTerm, shape: tuple[int, ...], latents: Mapping[str, Any], pack: _Pack
) -> tuple[str, RowStatistic]:
    """Of multivariate Normal rows: n, the mean vector and the scatter matrix, by the entries that the mean reads."""
    square = term.square
    assert square is not None
    if term.factors:
        raise NotAdditive("its log density weighs the rows of a multivariate Normal by latent variables")
    ndim = len(shape) + 1
    data = [t for t in square.terms if t.is_data]
    means = [t for t in square.terms if not t.is_data]
    if any(t.linear is not None or t.weight.size != 1 for t in means) or len(shape) != 1:
        raise NotAdditive("the mean of its rows, which are multivariate Normal, is not a lookup in latent variables")
    z = np.broadcast_to(sum((along(t.weight, ndim) for t in data), np.zeros((1, 1))), (shape[0], _width(square.terms)))
    functions = [_product(t.factors) for t in means]
    graphs, columns, signs = joined_factors([f for f in functions if f is not None])
    full = [np.broadcast_to(along(c.values, ndim), z.shape) for c in columns]
    packed = [
        _packed(np.ascontiguousarray(v[:, d]), c, pack)
        for v, c in zip(full, columns, strict=True)
        for d in range(z.shape[1])
    ]
    keys, codes = distinct(packed, len(z))
    weight = np.broadcast_to(along(term.weight, 1), (len(z),))
    if not (np.all(weight >= 0) or np.all(weight <= 0)):
        raise NotAdditive("its log density adds squares with weights of both signs")
    signed = -1.0 if np.any(weight < 0) else 1.0
    total, mean, scatter = moments(np.abs(weight), [(1.0, z)], codes, len(keys))
    numbers = [float(t.weight.reshape(())) for t in means]
    inner = tuple((n, g, None) for n, g in zip(numbers, graphs, strict=True))
    whole = square.whole.union(*[f.whole for f in functions if f is not None])
    places, latent = tuple(c.place for c in columns), tuple(c.latent for c in columns)
    recipe = Recipe("vectors", places, latent, signed, inner=inner, through=square.through, whole=whole, names=latents)
    told = "|".join(f"{n!r}*{s}" for n, s in zip(numbers, signs, strict=True))
    return f"vectors:{signed}|{square.sign}|{z.shape[1]}|{told}", RowStatistic(recipe, keys, total, mean, scatter)


def _width(terms: Iterable[DataTerm]) -> int:
    lengths = [a.shape[-1] for t in terms for a in (t.weight, *(c.values for c in t.columns)) if a.ndim]
    return max(lengths, default=1)


def _product(factors: Sequence[Factor]) -> Factor | None:
    if len(factors) < 2:
        return factors[0] if factors else None
    return apply(lambda first, *others: _times(first, others), "mul", factors)


def _times(first: Any, others: Sequence[Any]) -> Any:
    for other in others:
        first = first * other
    return first
