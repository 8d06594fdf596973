r"""The probability of one more observation under an exact posterior, in closed form.

A Normal observation :math:`x` that is a leaf of a Gaussian block is a part of the stacked vector, so that its posterior
marginal is its predictive distribution: Normal, or Student-t once a scale (or a Wishart matrix) is integrated out.

For a parameter :math:`\phi` of a score family, an observation adds to the coefficients of the score, so that with
:math:`\eta` the posterior's parameters and :math:`\Delta(x)` what one observation adds, for any :math:`\phi_0`

.. math::

   \log p(x \mid y) = \log p(x \mid \phi_0) + \log p(\phi_0; \eta) - \log p(\phi_0; \eta + \Delta(x)).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import toposort
from pytensor.tensor.shape import Shape, Shape_i
from scipy import linalg, special

from bayeskit.elimination.analysis import Scale
from bayeskit.elimination.conjugate_posterior import Part
from bayeskit.families.base import Parameters
from bayeskit.graphs.compile import compile_small, stacked
from bayeskit.graphs.domain import Kind, kind_of
from bayeskit.graphs.rewriting import depends_on

__all__ = ["ConjugateUpdate", "NoClosedForm", "log_leaf_density"]


class NoClosedForm(Exception):
    """The predictive distribution is not one of those known; the message says why."""


def log_leaf_density(part: Part, index: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The log density of some entries of a Gaussian block, as a function of many values of them.

    Parameters
    ----------
    part : Part
        With its Gaussian.
    index : ndarray of int, shape (d,)
        Their places in the stacked block; for a Wishart matrix one whole vector.

    Returns
    -------
    callable
        From values of shape (n, d) to log densities of shape (n,). O(n d²), or O(n d) where the entries are
        independent.

    Raises
    ------
    NoClosedForm
        If several vectors share a Wishart matrix.
    """
    gaussian = part.gaussian
    assert gaussian is not None
    mean = gaussian.mean[index]
    if part.multiple is not None:
        df, matrix = part.student
        size = len(matrix)
        rows = np.unique(index // size)
        if len(rows) > 1 or len(index) != size:
            raise NoClosedForm("several vectors of a new row share a Wishart matrix")
        factor = linalg.cho_factor(part.multiple, lower=True)
        unit = np.eye(len(part.multiple))[rows[0]]
        weight = float(linalg.cho_solve(factor, unit)[rows[0]])
        return _student(mean, weight * matrix, float(df))
    unit = np.zeros((gaussian.size, len(index)))
    unit[index, np.arange(len(index))] = 1.0
    covariance = gaussian.precision.solve(unit)[index]
    if part.scale is None:
        return _student(mean, covariance, np.inf)
    assert part.group is not None
    group = part.group[index]
    df, ratio = (np.ravel(v) for v in part.student)
    factor = ratio * np.ravel(part.reference) ** part.scale.kappa
    if len(np.unique(group)) == len(group):  # a scale for each entry: independent
        return _students(mean, np.sqrt(factor[group] * np.diag(covariance)), df[group])
    members = [np.flatnonzero(group == g) for g in np.unique(group)]
    densities = [
        (m, _student(mean[m], factor[group[m[0]]] * covariance[np.ix_(m, m)], df[group[m[0]]])) for m in members
    ]
    return lambda values: sum((density(values[:, m]) for m, density in densities), np.zeros(len(values)))


def _student(mean: np.ndarray, scale: np.ndarray, df: float) -> Callable[[np.ndarray], np.ndarray]:
    """Multivariate Student-t, Normal for infinitely many degrees of freedom; SciPy's takes its matrix apart anew."""
    size = len(mean)
    unit = np.sqrt(np.diag(scale))
    root = linalg.cholesky(scale / np.outer(unit, unit), lower=True)
    half_log_det = np.sum(np.log(np.diag(root))) + np.sum(np.log(unit))

    def log_density(values: np.ndarray) -> np.ndarray:
        white = linalg.solve_triangular(root, ((values - mean) / unit).T, lower=True)
        distance = np.sum(white**2, axis=0)
        if np.isinf(df):
            return -0.5 * (size * np.log(2 * np.pi) + distance) - half_log_det
        return _log_student(distance, size, df) - half_log_det

    return log_density


def _students(mean: np.ndarray, scale: np.ndarray, df: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Independent Student-t entries."""
    return lambda values: np.sum(_log_student(((values - mean) / scale) ** 2, 1, df) - np.log(scale), axis=-1)


def _log_student(distance: np.ndarray, size: int, df: Any) -> np.ndarray:
    """Log density of a t vector of unit scale at a squared distance."""
    normaliser = special.gammaln((df + size) / 2) - special.gammaln(df / 2) - 0.5 * size * np.log(df * np.pi)
    return normaliser - 0.5 * (df + size) * np.log1p(distance / df)


@dataclass(frozen=True)
class _Gather:
    """A node that only picks entries of one parameter: φ[class], say."""

    scale: Scale
    node: Variable
    picked: Callable[..., np.ndarray]  # from what all rows have in common, the flat indices of the entries picked


class ConjugateUpdate:
    """log p(x | y) of observations whose parameters have score families, one class at a time; compiled once.

    A row of one class touches few entries of a parameter. They are found where the graph picks them, so that only they
    have a value for each row.

    Parameters
    ----------
    log_density : tensor
        log p(x | φ) of one row, a scalar graph.
    scales : mapping of Scale to Parameters
        The families of φ and the parameters of their posterior.
    values : mapping of str to tensor
        Their variables in the graph.
    rows : sequence of tensor
        What differs from row to row.
    common : sequence of tensor
        What does not: the class.
    """

    def __init__(
        self,
        log_density: Variable,
        scales: Mapping[Scale, Parameters],
        values: Mapping[str, Variable],
        rows: list[Any],
        common: list[Any],
    ) -> None:
        self.parameters = dict(scales)
        self.gathers = [
            g for s, p in scales.items() for g in _gathers(log_density, s, _shape(p), values[s.name], rows, common)
        ]
        batched = stacked(rows)
        phi = {g.node: pt.tensor(dtype="float64", shape=(None, *g.node.type.shape)) for g in self.gathers}
        vector: Any = vectorize_graph(log_density, phi | batched)
        if vector.type.ndim == 0:
            vector = vector[None]
        gradient: Any = pytensor.grad(pt.sum(vector), list(phi.values()), disconnected_inputs="ignore") if phi else []
        self._function = compile_small([*phi.values(), *batched.values(), *common], [vector, *gradient])

    def __call__(self, rows: list[np.ndarray], common: list[np.ndarray]) -> np.ndarray:
        """Log densities of shape (n,), for row inputs whose first axis is the rows."""
        count = len(rows[0]) if rows else 1
        touched = {s: _Touched(s, p) for s, p in self.parameters.items()}
        for gather in self.gathers:
            touched[gather.scale].add(gather.picked(*common))
        places = [touched[g.scale].places(g.picked(*common)) for g in self.gathers]

        def evaluate(points: Mapping[Scale, np.ndarray]) -> list[np.ndarray]:
            values: list[np.ndarray] = [points[g.scale].ravel()[p] for g, p in zip(self.gathers, places, strict=True)]
            batch = [np.broadcast_to(v, (count, *v.shape)) for v in values]
            return list(self._function(*batch, *rows, *common))

        total = np.broadcast_to(evaluate({s: t.centre for s, t in touched.items()})[0], (count,)).astype(float)
        anchors = {s: s.family.anchors(t.centre.shape, t.centre) for s, t in touched.items()}
        slopes: dict[Scale, list[np.ndarray]] = {s: [] for s in touched}
        for k in range(max((len(a) for a in anchors.values()), default=0)):
            here = {s: a[min(k, len(a) - 1)] for s, a in anchors.items()}
            gradient = {s: np.zeros((t.centre.size, count)) for s, t in touched.items()}
            for gather, place, slope in zip(self.gathers, places, evaluate(here)[1:], strict=True):
                np.add.at(gradient[gather.scale], place.ravel(), slope.reshape(count, -1).T)
            for s, t in touched.items():
                if k < len(anchors[s]):
                    slopes[s].append(gradient[s].T.reshape(count, *t.centre.shape))
        for s, t in touched.items():
            total += t.log_ratio(s.family.coefficients_at(anchors[s], slopes[s]))
        return total


def _gathers(
    graph: Variable, scale: Scale, shape: tuple[int, ...], value: Variable, rows: list[Any], common: list[Any]
) -> list[_Gather]:
    """Where a graph does something else with entries of a parameter than picking them, the same for all rows."""
    moved, by_row = {value}, depends_on([graph], rows)
    ends: dict[Variable, None] = {} if value is not graph else {value: None}
    for node in toposort([graph]):
        inside = [i for i in node.inputs if i in moved]
        if not inside or isinstance(node.op, Shape | Shape_i):
            continue
        entries_only = kind_of(node) in (Kind.MOVE, Kind.CHECK) and inside == [node.inputs[0]]
        if entries_only and not any(by_row.get(i) for i in node.inputs):
            moved.update(node.outputs)
        else:
            ends.update(dict.fromkeys(inside))
    gathers = []
    for end in ends:
        picked = compile_small([value, *common], end)

        def indices(*arguments: np.ndarray, picked: Any = picked) -> np.ndarray:
            flat: np.ndarray = picked(np.arange(float(np.prod(shape))).reshape(shape), *arguments)
            return flat.astype(int)

        gathers.append(_Gather(scale, end, indices))
    return gathers


class _Touched:
    """The entries of one parameter (for a Dirichlet, whole vectors) that a row of one class depends on."""

    def __init__(self, scale: Scale, parameters: Parameters) -> None:
        self.family = scale.family
        self.all = parameters
        shape = _shape(parameters)
        self.length = shape[-1] if self.family.support.event else 1
        self.units = np.empty(0, dtype=int)  # which entries, or vectors, by flat index

    def add(self, flat: np.ndarray) -> None:
        self.units = np.union1d(self.units, flat.ravel() // self.length)

    def places(self, flat: np.ndarray) -> np.ndarray:
        """Flat indices into the entries that are touched, for flat indices into all of them."""
        return np.searchsorted(self.units, flat // self.length) * self.length + flat % self.length

    @cached_property
    def parameters(self) -> Parameters:
        tail = (self.length,) if self.family.support.event else ()
        return {n: np.reshape(v, (-1, *tail))[self.units] for n, v in self.all.items()}

    @cached_property
    def centre(self) -> np.ndarray:
        return np.asarray(self.family.centre(self.parameters), dtype=float)

    def log_ratio(self, added: list[np.ndarray]) -> np.ndarray:
        """Σ log p(φ₀; η) − log p(φ₀; η + Δ) for coefficients Δ of shape (n, …)."""
        eta = self.family.coefficients(self.parameters)
        before = np.sum(self.family.log_density(self.parameters, self.centre))
        if self.family.support.event:
            new = self.family.parameters([e + a for e, a in zip(eta, added, strict=True)])
            return np.asarray(before - self.family.log_density(new, self.centre).sum(axis=-1), dtype=float)
        after = np.zeros(len(added[0]), dtype=np.longdouble)
        for k in range(len(self.units)):  # the same number in many rows, of a count say, is looked up once
            distinct, inverse = np.unique(np.stack([a[:, k] for a in added]), axis=1, return_inverse=True)
            new = self.family.parameters([e[k] + d for e, d in zip(eta, distinct, strict=True)])
            after += self.family.log_density(new, np.broadcast_to(self.centre[k], distinct.shape[1:]))[inverse]
        return np.asarray(before - after, dtype=float)


def _shape(parameters: Parameters) -> tuple[int, ...]:
    return np.shape(next(iter(parameters.values())))
