"""Products of a large design with coefficients, computed once for each value of the coefficients.

The gradient in a noise scale and the log density at the posterior mean both need Xθ̂, and the certificate needs Xθ at
several θ: for a large X each is a pass over memory. A function compiled here looks its products up among the last ones
made, and :meth:`Function.prepare` makes those of several points in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.tensor.math import Dot

from bayeskit.graphs.chunked_sums import RowFunction, compile_rows
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.nodes import core_op

__all__ = ["Function", "Products"]

LARGE = 1_000_000  # numbers in a matrix from which a product with it is kept
BLOCK = 200_000  # numbers of a matrix that are multiplied by every vector before the next are read
KEPT = 4  # products kept: each is as long as the data


def _matrix(var: Variable) -> np.ndarray | None:
    if isinstance(var, Constant):
        return np.asarray(var.data)
    return np.asarray(var.get_value(borrow=True)) if isinstance(var, SharedVariable) else None


def _large_products(outputs: Sequence[Variable], inputs: Sequence[Variable]) -> list[Apply]:
    """The nodes A v with a large constant matrix A and a vector, or one column, v that contains no such product."""
    moving, found, within = set(inputs), [], set()
    for node in toposort(list(outputs)):
        if any(i in within for i in node.inputs):
            within.update(node.outputs)
            continue
        if not any(i in moving for i in node.inputs):
            continue
        moving.update(node.outputs)
        if not isinstance(core_op(node), Dot) or node.inputs[1] not in moving:
            continue
        matrix = _matrix(node.inputs[0])
        column = node.inputs[1].type.ndim == 1 or node.inputs[1].type.shape[1:] == (1,)
        if matrix is not None and matrix.ndim == 2 and matrix.size >= LARGE and column:
            found.append(node)
            within.update(node.outputs)
    return found


@dataclass(eq=False)
class Products:
    """The last few products Av, by matrix and value of v.

    The matrices are held as long: the address of one that was freed may belong to another.
    """

    kept: dict[tuple[int, tuple[int, ...], bytes], np.ndarray] = field(default_factory=dict)
    matrices: dict[int, np.ndarray] = field(default_factory=dict)

    def compile(self, inputs: Sequence[Variable], outputs: Variable | Sequence[Variable]) -> Callable[..., Any]:
        """As :func:`~bayeskit.compiling.compile_small`, with products looked up; a :class:`Function` if there are any.

        Parameters
        ----------
        inputs : sequence of tensor
        outputs : tensor or sequence of tensor
        """
        graphs = [outputs] if isinstance(outputs, Variable) else list(outputs)
        nodes = _large_products(graphs, inputs)
        if not nodes:
            return compile_small(inputs, outputs)
        cut = [*inputs, *(n.outputs[0] for n in nodes)]
        rows = compile_rows(cut, graphs)
        return Function(
            self,
            [n.inputs[0] for n in nodes],
            compile_small(inputs, [n.inputs[1] for n in nodes]),
            compile_small(cut, graphs) if rows is None else rows,
            single=isinstance(outputs, Variable),
        )

    def of(self, matrix: np.ndarray, vectors: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Av for each v; what is not kept is made in one pass over A."""
        self.matrices[id(matrix)] = matrix
        keys = [(id(matrix), v.shape, v.tobytes()) for v in vectors]
        new = {k: v for k, v in zip(keys, vectors, strict=True) if k not in self.kept}
        made = {k: self.kept.pop(k) for k in dict.fromkeys(keys) if k in self.kept}
        made |= dict(zip(new, _products(matrix, list(new.values())), strict=True))
        self.kept |= made
        while new and len(self.kept) > max(KEPT, len(made)):
            del self.kept[next(iter(self.kept))]
        return [made[k] for k in keys]


def _products(matrix: np.ndarray, vectors: list[np.ndarray]) -> list[np.ndarray]:
    """Av for each v, in one pass over A: a block of rows stays in the cache while every vector is multiplied by it.

    BLAS multiplies a tall matrix by two or three columns no faster than one at a time.
    """
    if len(vectors) == 1:
        return [matrix @ vectors[0]]
    results = [np.empty(matrix.shape[:1] + v.shape[1:]) for v in vectors]
    step = max(1, BLOCK // matrix.shape[1])
    for start in range(0, len(matrix), step):
        block = matrix[start : start + step]
        for vector, result in zip(vectors, results, strict=True):
            np.matmul(block, vector, out=result[start : start + step])
    return results


@dataclass(frozen=True, eq=False)
class Function:
    """A compiled function whose large products are looked up before it runs."""

    products: Products
    matrices: list[Variable]
    vectors: Callable[..., list[np.ndarray]]
    rest: Callable[..., list[Any]]
    single: bool
    prepared: dict[tuple[bytes, ...], list[Any]] = field(default_factory=dict)

    @property
    def by_rows(self) -> bool:
        """Whether what follows the products runs block by block, so that nothing of the data's length is held."""
        return isinstance(self.rest, RowFunction)

    def __call__(self, *arguments: np.ndarray) -> Any:
        found = self.prepared.get(_key(arguments))
        if found is None:
            found = self.rest(*arguments, *self._products([arguments])[0])
        return found[0] if self.single else found

    def prepare(self, points: Sequence[Sequence[np.ndarray]]) -> None:
        """Make the products of several points in one pass over each matrix; by rows, all of the function."""
        if not isinstance(self.rest, RowFunction):
            self._products(points)
            return
        self.prepared.clear()
        vectors = [self.vectors(*arguments) for arguments in points]
        states = [self.rest.begin([*arguments, *(None for _ in self.matrices)]) for arguments in points]
        matrices = [_value_of(var) for var in self.matrices]
        for block in self.rest.blocks():
            made = [_products(m[block], [v[k] for v in vectors]) for k, m in enumerate(matrices)]
            for k, state in enumerate(states):
                self.rest.add(state, block, [products[k] for products in made])
        self.prepared.update({_key(p): self.rest.end(s) for p, s in zip(points, states, strict=True)})

    def _products(self, points: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """For each point the product of each matrix."""
        vectors = [self.vectors(*arguments) for arguments in points]
        found = [self.products.of(_value_of(var), [v[k] for v in vectors]) for k, var in enumerate(self.matrices)]
        return [[products[k] for products in found] for k in range(len(points))]


def _value_of(var: Variable) -> np.ndarray:
    value = _matrix(var)
    assert value is not None
    return value


def _key(arguments: Sequence[np.ndarray]) -> tuple[bytes, ...]:
    return tuple(np.asarray(a).tobytes() for a in arguments)
