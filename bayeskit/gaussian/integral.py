"""log ∫ exp(½ δ̃ᵀ T δ̃) dδ of a quadratic form as a graph in φ, with gradient.

    log ∫ exp(c + ηᵀδ − ½ δᵀΛδ) dδ = c + ½ ηᵀΛ⁻¹η − ½ log |Λ| + ½ D log 2π

The strategies are listed in :mod:`bayeskit.gaussian.strategies`. The gradient of a dense integral is −½ (Λ⁻¹ + δ̂δ̂ᵀ) in
Λ and δ̂ = Λ⁻¹η in η; a border is left to the Schur complement once the band is solved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from scipy import sparse

from bayeskit.gaussian.banded_layout import Layout, Lookup, layout
from bayeskit.gaussian.banded_solve import banded_solve
from bayeskit.gaussian.entry_table import multiplied
from bayeskit.gaussian.plate_rotation import Plates
from bayeskit.gaussian.quadratic_form import QuadraticForm
from bayeskit.gaussian.simultaneous_diagonal import spectral_integral
from bayeskit.types import Graph

__all__ = [
    "SolvedBand",
    "constant_of",
    "dense_solution",
    "diagonal_integral",
    "plates_integral",
    "solved_band",
    "solved_integral",
    "whitened_integral",
]

CANCELLED = 1e10  # ratio of the terms of a sum to the sum beyond which it counts as unknown
LEFT_OVER = 1e-4  # nats that the last correction may still be worth
DEEPEST = 8  # levels of a hierarchy up to which the root of its prior is inverted by products


def constant_of(form: QuadraticForm) -> Graph:
    """c."""
    found: Graph = _parts(form, form.values)[3]
    return found


def diagonal_integral(form: QuadraticForm) -> Graph:
    """In coordinates in which the block is diagonal at every φ."""
    assert form.spectrum is not None
    return _sum_or_nothing(*spectral_integral(form.spectrum))


def plates_integral(form: QuadraticForm) -> Graph:
    """What is left of plates once they are rotated, and as many integrals of one member as were spared."""
    assert form.plates is not None and form.beta is not None
    corner, total = _integral(form.plates, multiplied(form.plates.table, form.beta))
    if numbers := [(count, table) for count, size, table in form.plates.spared if size == 1]:
        counts, tables = zip(*numbers, strict=True)  # groups of thirty sizes are one vector, not thirty matrices
        single: Any = -multiplied(sparse.csr_array(sparse.vstack(tables)), form.beta)
        logs = pt.log(pt.switch(single > 0, single, np.nan))
        total = total + pt.sum(np.array(counts) * (0.5 * np.log(2 * np.pi) - 0.5 * logs))
    for count, size, table in form.plates.spared:
        if size == 1:
            continue
        precision: Any = -multiplied(table, form.beta).reshape((size, size))
        total = total + count * (dense_integral(precision, pt.zeros(size)) + 0.5 * size * np.log(2 * np.pi))
    return _sum_or_nothing(corner, total)


def solved_integral(form: QuadraticForm) -> Graph:
    """By a factorisation of Λ at every φ: dense, banded or bordered."""
    return _sum_or_nothing(*_integral(form, form.values))


def _parts(form: QuadraticForm | Plates, entries: Any) -> tuple[Lookup, Any, Any, Any]:
    """Where the entries of T stand in a list, the list, η and c."""
    size = form.size
    values: Any = pt.concatenate([entries, pt.zeros(1)])
    lookup = Lookup(size + 1, form.rows, form.columns)
    corner = 0.5 * values[lookup(np.array([size]), np.array([size]))][0]
    return lookup, values, values[lookup(np.arange(size), np.full(size, size))], corner


@dataclass(frozen=True, eq=False)
class SolvedBand:
    """The band of Λ solved, and what is left of its border once the band is integrated out."""

    layout: Layout
    log_determinant: Any
    solution: Any  # of η and of the border
    square: Any  # ηᵀΛ⁻¹η of the band
    own: Any  # the border's own part of Λ
    left: tuple[Any, Any]  # Λ and η of the border, none of its entries where there is none

    @property
    def bordered(self) -> bool:
        """Whether there is a border."""
        return len(self.layout.shared) > 0


def solved_band(form: QuadraticForm | Plates, entries: Any) -> SolvedBand:
    """Of a form that has a band, from the entries of T."""
    return _solved_band(layout(form.size, form.rows, form.columns), *_parts(form, entries)[:3])


def _solved_band(plan: Layout, lookup: Lookup, values: Any, eta: Any) -> SolvedBand:
    inner, shared = plan.inner, plan.shared
    band, border, own = (-values[place.ravel()].reshape(place.shape) for place in plan.places(lookup))
    columns = pt.concatenate([eta[inner][:, None], border], axis=1) if len(shared) else eta[inner][:, None]
    log_determinant, solution, _ = banded_solve(pt.specify_shape(band, (plan.width, len(inner))), columns)
    gram = pt.dot(columns.T, solution)
    return SolvedBand(plan, log_determinant, solution, gram[0, 0], own, (own - gram[1:, 1:], eta[shared] - gram[1:, 0]))


def _integral(form: QuadraticForm | Plates, entries: Any) -> tuple[Graph, Any]:
    """c, and the log integral without it, from the entries of T."""
    plan = layout(form.size, form.rows, form.columns)
    lookup, values, eta, corner = _parts(form, entries)
    constant = 0.5 * form.size * np.log(2 * np.pi)
    if not len(plan.inner):
        _, _, place = plan.places(lookup)
        return corner, constant + dense_integral(-values[place.ravel()].reshape(place.shape), eta)
    solved = _solved_band(plan, lookup, values, eta)
    result = 0.5 * solved.square - 0.5 * solved.log_determinant
    if solved.bordered:
        result = result + dense_integral(*solved.left)
    return corner, constant + result


def whitened_integral(form: QuadraticForm) -> Graph:
    """log ∫ exp(−½|Rδ + r|² + ½ δ̃ᵀTδ̃) dδ from R, r and T, or from R, r and the rows (B, b) of the data."""
    size = form.size
    root: Any = form.root
    first = root[np.arange(size), np.arange(size)] if form.depth == 1 else root[:, :size]
    arguments: list[Any] = [first, root[:, size]]
    corner: Graph = pt.constant(0.0)
    if form.data is not None:
        data: Any = form.data
        arguments += [data[:, :size], data[:, size]]
    else:
        lookup, values, eta, corner = _parts(form, form.values)
        i, j = np.indices((size, size))
        arguments += [(-values)[lookup(i.ravel(), j.ravel())].reshape((size, size)), eta]
    rooted = form.data is not None
    inputs = [v.type() for v in arguments]
    value = _whiten(inputs, form.depth, rooted)[0]

    def pullback(given: list[Graph], outputs: list[Graph], cotangents: list[Graph]) -> list[Graph]:
        # ∂ log ∫ exp(q) = E ∂q under the normalised integrand, a Normal with mean δ̂ and covariance Σ.
        cotangent: Any = cotangents[0]
        _, z, mean, half, spread = _whiten(given, form.depth, rooted)
        covariance = pt.dot(spread.T, spread)
        cross = pt.outer(z, mean) + pt.dot(half.T, spread)
        to_root = pt.diagonal(cross) if form.depth == 1 else cross
        if rooted:
            residual = pt.dot(given[2], mean) + given[3]
            to_data = [-(pt.outer(residual, mean) + pt.dot(given[2], covariance)), -residual]
        else:
            to_data = [-0.5 * (covariance + pt.outer(mean, mean)), mean]
        return [cotangent * g for g in (-to_root, -z, *to_data)]

    integral: Any = OpFromGraph(inputs, [value], pullback=pullback)(*arguments)
    return _sum_or_nothing(corner, integral)


def _sum_or_nothing(corner: Graph, integral: Graph) -> Graph:
    """c plus the integral; not a number where only the rounding of the two is left of the sum.

    Far out a few noise sds of 1e-40 let as many weights fit their rows exactly: c = −1e80, the integral its negative.
    """
    total = corner + integral
    return pt.switch(pt.abs(corner) > CANCELLED * (1.0 + pt.abs(total)), np.nan, total)


def _whiten(inputs: list[Any], depth: int, rooted: bool) -> tuple[Any, Any, Any, Any, Any]:
    """The log integral, ẑ, δ̂, and square roots H of the covariances HᵀH of z and of δ.

    The last two inputs are Λ and η of the data, or, where ``rooted``, B and b.
    """
    first, shift, matrix, vector = inputs
    size = shift.type.shape[0]
    precision = pt.dot(matrix.T, matrix) if rooted else matrix

    def slope(at: Any) -> Any:
        """Gradient of the log density of the data."""
        return -pt.dot(matrix.T, pt.dot(matrix, at) + vector) if rooted else vector - pt.dot(precision, at)

    inverse, centre, log_determinant = _inverted(first, shift, depth)
    inner = pt.eye(size) + pt.dot(inverse.T, pt.dot(precision, inverse))
    scale = 1.0 / pt.sqrt(pt.diagonal(inner))
    factor = pt.linalg.cholesky(inner * scale[:, None] * scale[None, :], lower=True, on_error="nan")
    half = pt.linalg.solve_triangular(factor, _diagonal(scale), lower=True)
    z = pt.dot(half.T, pt.dot(half, pt.dot(inverse.T, slope(centre))))
    # One step of refinement: with next to no noise the residual at the mode is a difference of nearly equal numbers.
    z = z + pt.dot(half.T, pt.dot(half, pt.dot(inverse.T, slope(centre + pt.dot(inverse, z))) - z))
    mean = centre + pt.dot(inverse, z)
    gradient = pt.dot(half, pt.dot(inverse.T, slope(mean)) - z)
    if rooted:
        height = -0.5 * pt.sum((pt.dot(matrix, mean) + vector) ** 2)
    else:
        height = pt.dot(vector, mean) - 0.5 * pt.dot(mean, pt.dot(precision, mean))
    value = (
        height
        - 0.5 * pt.sum(z**2)
        + 0.5 * pt.sum(gradient**2)
        - pt.sum(pt.log(pt.diagonal(factor)))
        + pt.sum(pt.log(scale))
        - log_determinant
        + 0.5 * size * np.log(2 * np.pi)
    )
    # Far out the terms may be so large that only their rounding is left of the sum.
    lost = pt.sum(z**2) + pt.abs(height) > CANCELLED * (1.0 + pt.abs(value))
    lost = lost | (pt.sum(gradient**2) > LEFT_OVER * (1.0 + LEFT_OVER * pt.abs(value)))
    return pt.switch(lost, np.nan, value), z, mean, half, pt.dot(half, inverse.T)


def _inverted(first: Any, shift: Any, depth: int) -> tuple[Any, Any, Any]:
    """R⁻¹, −R⁻¹r and log |R|, from the diagonal of R where its depth is 1."""
    size = shift.type.shape[0]
    if depth == 1:
        return _diagonal(1.0 / first), -shift / first, pt.sum(pt.log(pt.abs(first)))
    if size == 0:  # the coefficients of a polynomial of degree 0, say; the largest of nothing is an error
        return first, shift, pt.constant(0.0)
    if 0 < depth <= DEEPEST:
        # R = D (I − M) with Mᵏ = 0 from k = depth on: R⁻¹ = (I + M)(I + M²)(I + M⁴)… D⁻¹, all draws at once.
        pivots = pt.diagonal(first)
        power = pt.eye(size) - first / pivots[:, None]
        solved, reach = pt.eye(size) + power, 2
        while reach < depth:
            power = pt.dot(power, power)
            solved, reach = solved + pt.dot(solved, power), 2 * reach
        return solved / pivots, -pt.dot(solved, shift / pivots), pt.sum(pt.log(pt.abs(pivots)))
    # Rows of very different size (1/τ): scaled alike before they are solved.
    largest = pt.max(pt.abs(first), axis=1)
    scaled = first / largest[:, None]
    # As many right-hand sides as rows: where far out R is singular, PyTensor's answer has the shape of R.
    solved = pt.linalg.solve(scaled, pt.eye(size))
    if depth:  # a triangle in some order, of which the diagonal is the determinant
        log_determinant = pt.sum(pt.log(pt.abs(pt.diagonal(first))))
    else:
        log_determinant = pt.linalg.slogdet(scaled)[1] + pt.sum(pt.log(largest))
    return solved / largest, -pt.dot(solved, shift / largest), log_determinant


def _diagonal(entries: Any) -> Any:
    """As ``pt.diag``, which Python would run point by point where there are many."""
    return pt.switch(np.eye(entries.type.shape[0], dtype=bool), entries, 0.0)


def dense_integral(precision: Graph, linear: Graph) -> Graph:
    """½ ηᵀΛ⁻¹η − ½ log |Λ| for a dense Λ; not a number where Λ is not positive definite.

    Scaled to unit diagonal first, so that variances of 1e-12 and 1e12 may stand side by side. The gradient is written
    out because differentiating through the factorisation costs several times the factorisation.
    """
    size = precision.type.shape[0]
    lam, eta = pt.matrix("precision", shape=(size, size)), pt.vector("linear", shape=(size,))
    value, _, _ = _solved(lam, eta)

    def pullback(inputs: list[Graph], outputs: list[Graph], cotangents: list[Graph]) -> list[Graph]:
        cotangent: Any = cotangents[0]
        _, mean, inverse = _solved(*inputs)
        return [-0.5 * cotangent * (inverse + pt.outer(mean, mean)), cotangent * mean]

    return OpFromGraph([lam, eta], [value], pullback=pullback)(precision, linear)


def dense_solution(precision: Graph, linear: Graph) -> tuple[Graph, Graph]:
    """log |Λ| and Λ⁻¹η for a dense Λ."""
    scale, factor, half = _half_solved(precision, linear)
    solved = pt.linalg.solve_triangular(factor.T, half, lower=False) * scale
    return 2 * pt.sum(pt.log(pt.diagonal(factor))) - 2 * pt.sum(pt.log(scale)), solved


def _half_solved(lam: Any, eta: Any) -> tuple[Any, Any, Any]:
    """s, the factor L of diag(s) Λ diag(s), of unit diagonal, and L⁻¹ diag(s) η."""
    scale = 1.0 / pt.sqrt(pt.diagonal(lam))
    factor = pt.linalg.cholesky(lam * scale[:, None] * scale[None, :], lower=True, on_error="nan")
    return scale, factor, pt.linalg.solve_triangular(factor, (eta * scale)[:, None], lower=True)[:, 0]


def _solved(lam: Any, eta: Any) -> tuple[Any, Any, Any]:
    scale, factor, half = _half_solved(lam, eta)
    value = 0.5 * pt.sum(half**2) - pt.sum(pt.log(pt.diagonal(factor))) + pt.sum(pt.log(scale))
    root = pt.linalg.solve_triangular(factor, pt.eye(lam.type.shape[0]), lower=True) * scale[None, :]
    inverse = pt.dot(root.T, root)
    return value, pt.dot(inverse, eta), inverse
