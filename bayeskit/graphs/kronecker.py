r"""Covariances of processes on a grid, K₁ ⊗ … ⊗ K_D + v I, solved and measured through the factors, with gradients.

With :math:`K_i = Q_i \Lambda_i Q_i^\top`, Q = ⊗ Q_i and Λ = ⊗ Λ_i,

.. math::

   S^{-1} y = Q (\Lambda + v I)^{-1} Q^\top y, \qquad \log |S| = \sum \log (\Lambda + v),

in O(Σ n_i³ + n Σ n_i) for n = Π n_i rows. The derivatives of Q in K divide by differences of eigenvalues, of which
smooth covariances have many that are equal to rounding; those of S⁻¹y and of log |S| need none of them:

.. math::

   d\,S^{-1} y = S^{-1} (dy - dS\, S^{-1} y), \qquad d \log |S| = \operatorname{tr} S^{-1} dS.

Source: Y. Saatchi (2011), Scalable inference for structured Gaussian process models, chapter 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import register_funcify_and_cache_key
from scipy.linalg import eigh

from bayeskit.graphs.numba_functions import as_it_is
from bayeskit.types import Graph

__all__ = ["FactorSpectrum", "KroneckerLogDeterminant", "KroneckerSolve", "KroneckerTraces", "kronecker_terms"]


class FactorSpectrum(Op):
    """K → its eigenvalues and eigenvectors, no numbers where K has an entry that is none, and without derivatives.

    SciPy and PyTensor raise there, and far from all values that a parameter has a covariance overflows.
    """

    __props__ = ()
    gufunc_signature = "(k,k)->(k),(k,k)"

    def make_node(self, matrix: Any) -> Apply:  # type: ignore[override]
        matrix = pt.as_tensor_variable(matrix)
        return Apply(self, [matrix], [pt.TensorType("float64", matrix.type.shape[:1])(), matrix.type()])

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [shapes[0][:1], shapes[0]]

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        (matrix,) = inputs
        if np.all(np.isfinite(matrix)):
            output_storage[0][0], output_storage[1][0] = eigh(matrix)
        else:
            output_storage[0][0], output_storage[1][0] = np.full(len(matrix), np.nan), np.full(matrix.shape, np.nan)

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[False, False]]


class _OfFactors(Op):
    """An operation on v and a number of factors: K₁, …, K_D, their eigenvalues Λ₁, … and eigenvectors Q₁, …"""

    __props__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count

    @property
    def gufunc_signature(self) -> str:
        vectors = ",".join(f"(k{i})" for i in range(self.count))
        matrices = ",".join(f"(k{i},k{i})" for i in range(self.count))
        return f"{self._first}(),{matrices},{vectors},{matrices}->{self._last}"

    _first, _last = "", "()"

    def _split(self, inputs: Sequence[Any]) -> tuple[Any, list[Any], list[Any], list[Any]]:
        """v, and the K, Λ and Q, which come last."""
        d = self.count
        given = list(inputs)[-3 * d - 1 :]
        return given[0], given[1 : d + 1], given[d + 1 : 2 * d + 1], given[2 * d + 1 :]

    def make_node(self, *inputs: Any) -> Apply:
        given: list[Any] = [pt.cast(pt.as_tensor_variable(value), "float64") for value in inputs]
        if [v.type.ndim for v in given[-3 * self.count - 1 :]] != [
            0,
            *[2] * self.count,
            *[1] * self.count,
            *[2] * self.count,
        ]:
            raise TypeError("a variance, covariances, their eigenvalues and their eigenvectors")
        return Apply(self, given, self._types(given))

    def _types(self, inputs: Sequence[Any]) -> list[Graph]:
        return [pt.dscalar()]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Λ and Q are what belongs to K, and not varied beside it."""
        connected = [True] * (len(node.inputs) - 2 * self.count) + [False] * (2 * self.count)
        return [[c] * len(node.outputs) for c in connected]


class KroneckerSolve(_OfFactors):
    """(y, v, K, Λ, Q) → S⁻¹y."""

    _first, _last = "(n),", "(n)"

    def _types(self, inputs: Sequence[Any]) -> list[Graph]:
        return [inputs[0].type()]

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [shapes[0]]

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        variance, _, values, vectors = self._split(inputs)
        turned = _times([q.T for q in vectors], inputs[0])
        output_storage[0][0] = _times(vectors, turned / (_product(values) + variance))

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        _, covariances, *_ = self._split(inputs)
        solved: Any = outputs[0]
        back: Any = self(cotangents[0], *inputs[1:])
        lengths = [k.shape[0] for k in covariances]
        to_covariances = []
        for i in range(self.count):
            others = [None if j == i else k for j, k in enumerate(covariances)]
            left, right = _rows_of(back, lengths, i), _rows_of(_multiplied(others, solved, lengths), lengths, i)
            to_covariances.append(-pt.dot(left, right.T))
        return [back, -pt.sum(back * solved), *to_covariances, *[disconnected_type() for _ in range(2 * self.count)]]


class KroneckerLogDeterminant(_OfFactors):
    """(v, K, Λ, Q) → log |S|, which is no number where S is not positive definite."""

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [()]

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        variance, _, values, _ = self._split(inputs)
        spectrum = _product(values) + variance
        positive = bool(np.all(spectrum > 0.0))
        output_storage[0][0] = np.asarray(np.sum(np.log(spectrum)) if positive else np.nan)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        found: Any = KroneckerTraces(self.count)(*inputs)
        scaled = [cotangents[0] * f for f in found]
        return [*scaled, *[disconnected_type() for _ in range(2 * self.count)]]


class KroneckerTraces(_OfFactors):
    """(v, K, Λ, Q) → tr S⁻¹, and the derivative of log |S| in each K, Σⱼ qⱼ qⱼᵀ tr (Λ + v)⁻¹ Λ / λⱼ."""

    @property
    def _last(self) -> str:  # type: ignore[override]
        return ",".join(["()", *(f"(k{i},k{i})" for i in range(self.count))])

    def _types(self, inputs: Sequence[Any]) -> list[Graph]:
        return [pt.dscalar(), *(k.type() for k in self._split(inputs)[1])]

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [(), *self._split(shapes)[1]]

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        variance, _, values, vectors = self._split(inputs)
        inverse = 1.0 / (_product(values) + variance)
        output_storage[0][0] = np.asarray(np.sum(inverse))
        shape = [len(v) for v in values]
        for i, q in enumerate(vectors):
            others = _product([np.ones(len(v)) if j == i else v for j, v in enumerate(values)])
            along = np.moveaxis((inverse * others).reshape(shape), i, 0).reshape(shape[i], -1).sum(axis=1)
            output_storage[i + 1][0] = (q * along) @ q.T

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Graph]:
        raise NotImplementedError("second derivatives of the determinant of a Kronecker product with noise")


def kronecker_terms(right: Any, variance: Any, covariances: Iterable[Any]) -> tuple[Graph, Graph]:
    """S⁻¹y and log |S| for y = ``right``, S = K₁ ⊗ … ⊗ K_D + v I with v = ``variance``, as graphs."""
    matrices = [pt.cast(pt.as_tensor_variable(k), "float64") for k in covariances]
    spectra: Any = [FactorSpectrum()(k) for k in matrices]
    given = [variance, *matrices, *(values for values, _ in spectra), *(vectors for _, vectors in spectra)]
    solved: Any = KroneckerSolve(len(matrices))(right, *given)
    log_determinant: Any = KroneckerLogDeterminant(len(matrices))(*given)
    return solved, log_determinant


def _product(values: Sequence[np.ndarray]) -> np.ndarray:
    """All entries of Λ₁ ⊗ … ⊗ Λ_D."""
    return reduce(lambda a, b: np.multiply.outer(a, b).ravel(), values)


def _times(matrices: Sequence[np.ndarray], vector: np.ndarray) -> np.ndarray:
    """(A₁ ⊗ … ⊗ A_D) y for square A."""
    for a in matrices:
        vector = (a @ vector.reshape(len(a), -1)).T.ravel()  # the axis that was multiplied goes last
    return vector


def _multiplied(matrices: Sequence[Any], vector: Any, lengths: Sequence[Any]) -> Any:
    """The same as a graph, a None being the identity."""
    for a, length in zip(matrices, lengths, strict=True):
        rows = vector.reshape((length, -1))
        vector = (rows if a is None else pt.dot(a, rows)).T.ravel()
    return vector


def _rows_of(vector: Any, lengths: Sequence[Any], axis: int) -> Any:
    """A vector over a grid as a matrix with a row for each place along one axis."""
    order = [axis, *(i for i in range(len(lengths)) if i != axis)]
    return vector.reshape(tuple(lengths)).transpose(order).reshape((lengths[axis], -1))


# Eigenvectors and products of matrices are all that they do.
register_funcify_and_cache_key(FactorSpectrum)(as_it_is)
register_funcify_and_cache_key(_OfFactors)(as_it_is)
