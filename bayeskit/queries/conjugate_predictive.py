r"""The probability of one more observation under an exact posterior, in closed form.

A Normal observation :math:`x` that is a leaf of a Gaussian block is a part of the stacked vector, so that its posterior
marginal is its predictive distribution: Normal, or Student-t once a scale (or a Wishart matrix) is integrated out.

For a parameter :math:`\phi` of a score family, an observation adds to the coefficients of the score, so that with
:math:`\eta` the posterior's parameters and :math:`\Delta(x)` what one observation adds, for any :math:`\phi_0`

.. math::

   \log p(x \mid y) = \log p(x \mid \phi_0) + \log p(\phi_0; \eta) - \log p(\phi_0; \eta + \Delta(x)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
from bayeskit.graphs.operations import Kind, kind_of
from bayeskit.graphs.rewriting import depends_on

__all__ = ["ConjugateUpdate", "NoClosedForm", "log_leaf_density", "log_student"]


class NoClosedForm(Exception):
    """The predictive distribution is not one of those known; the message says why."""


def log_leaf_density(part: Part, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The log density of many values, of shape (n, d), of the entries of a Gaussian block at ``index``.

    O(n d²), or O(n d) where the entries are independent. Of a Wishart matrix, the entries are one whole vector.
    """
    gaussian = part.gaussian
    assert gaussian is not None
    values = values - gaussian.mean[index]
    if part.multiple is not None:
        df, matrix = part.student
        size = len(matrix)
        rows = np.unique(index // size)
        if len(rows) > 1 or len(index) != size:
            raise NoClosedForm("several vectors of a new row share a Wishart matrix")
        unit = np.eye(len(part.multiple))[rows[0]]
        weight = float(linalg.cho_solve(linalg.cho_factor(part.multiple, lower=True), unit)[rows[0]])
        return log_student(values, weight * matrix, float(df))
    unit = np.zeros((gaussian.size, len(index)))
    unit[index, np.arange(len(index))] = 1.0
    covariance = gaussian.precision.solve(unit)[index]
    if part.scale is None:
        return log_student(values, covariance, np.inf)
    assert part.group is not None
    group = part.group[index]
    df, ratio = (np.ravel(v) for v in part.student)
    factor = ratio * np.ravel(part.reference) ** part.scale.kappa
    if len(np.unique(group)) == len(group):  # a scale for each entry: independent
        scale = factor[group] * np.diag(covariance)
        return np.sum(_log_of_distance(values**2 / scale, 1, df[group]) - 0.5 * np.log(scale), axis=-1)
    total = np.zeros(len(values))
    for g in np.unique(group):
        own = group == g
        total += log_student(values[:, own], factor[g] * covariance[np.ix_(own, own)], df[g])
    return total


def log_student(values: np.ndarray, scale: np.ndarray, df: float) -> np.ndarray:
    """Log density of a multivariate Student-t about zero, Normal for infinitely many degrees of freedom.

    SciPy's leaves out, and does not say so, directions of less than 2·10⁻¹⁰ of the largest variance.
    """
    unit = np.sqrt(np.diag(scale))
    root = linalg.cholesky(scale / np.outer(unit, unit), lower=True)
    distance = np.sum(linalg.solve_triangular(root, (values / unit).T, lower=True) ** 2, axis=0)
    return _log_of_distance(distance, len(unit), df) - np.sum(np.log(np.diag(root))) - np.sum(np.log(unit))


def _log_of_distance(distance: np.ndarray, size: int, df: Any) -> np.ndarray:
    """Log density of a t vector of unit scale at a squared distance."""
    if np.all(np.isinf(df)):
        return -0.5 * (size * np.log(2 * np.pi) + distance)
    normaliser = special.gammaln((df + size) / 2) - special.gammaln(df / 2) - 0.5 * size * np.log(df * np.pi)
    return normaliser - 0.5 * (df + size) * np.log1p(distance / df)


class _Gather(NamedTuple):
    """A node that only picks entries of one parameter: φ[class], say."""

    scale: Scale
    node: Variable
    function: Callable[..., np.ndarray]  # of the parameter, and of what all rows have in common
    shape: tuple[int, ...]  # of the parameter

    def picked(self, *common: np.ndarray) -> np.ndarray:
        """The flat indices of the entries picked."""
        return self.function(np.arange(float(math.prod(self.shape))).reshape(self.shape), *common).astype(int)


class ConjugateUpdate:
    """log p(x | y) of observations whose parameters have score families, one class at a time; compiled once.

    It is made of log p(x | φ) of one row, the families of φ with the parameters of their posterior, and the variables
    of the graph: those of φ, what differs from row to row, and what all rows have in common, the class. A row of one
    class touches few entries of φ. They are found where the graph picks them, so that only they have a value for each
    row.
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
        picked = [(g.scale, g.picked(*common)) for g in self.gathers]
        touched = {s: _Touched(s, p, [i for of, i in picked if of is s]) for s, p in self.parameters.items()}
        places = [touched[s].places(i) for s, i in picked]

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
    return [_Gather(scale, end, compile_small([value, *common], end), shape) for end in ends]


class _Touched:
    """The entries of one parameter (for a Dirichlet, whole vectors) that a row of one class depends on."""

    def __init__(self, scale: Scale, parameters: Parameters, picked: list[np.ndarray]) -> None:
        self.family = scale.family
        tail = _shape(parameters)[-1:] if self.family.support.event else ()
        self.length = math.prod(tail)
        flat = np.concatenate([np.empty(0, dtype=int), *map(np.ravel, picked)])
        self.units = np.unique(flat // self.length)  # which entries, or vectors, by flat index
        self.parameters = {n: np.reshape(v, (-1, *tail))[self.units] for n, v in parameters.items()}
        self.centre = np.asarray(self.family.centre(self.parameters), dtype=float)

    def places(self, flat: np.ndarray) -> np.ndarray:
        """Flat indices into the entries that are touched, for flat indices into all of them."""
        return np.searchsorted(self.units, flat // self.length) * self.length + flat % self.length

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
