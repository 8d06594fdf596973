"""Linear algebra in loops: products, factorisations and triangular systems; and calls of what has no loop here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.link.numba.dispatch.basic import numba_funcify_ensure_cache
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.decomposition.qr import QR
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.math import Dot

from bayeskit.graphs.mvnormal_ops import DerivativeOfLogDeterminant
from bayeskit.graphs.nodes import core_op
from bayeskit.sampling.codegen.scalar_expressions import stored
from bayeskit.sampling.codegen.strided_view import Place
from bayeskit.sampling.codegen.workspace import FAILED, NoLoops, Workspace

__all__ = ["solve_or_call"]

LARGEST = 48  # rows of a matrix up to which a factorisation by loops takes no longer than LAPACK's
SMALL_PRODUCT = 4096  # multiplications of a matrix product up to which BLAS takes longer to call
OF_VECTOR = 8  # times as many of one with a vector, for which to compile that call takes longer than it saves


def solve_or_call(ws: Workspace, node: Apply) -> None:
    """Write a node of linear algebra, or a call of PyTensor's function for any other."""
    op = core_op(node)
    write = next((w for kind, w in WRITERS if isinstance(op, kind)), _call)
    if isinstance(op, OF_FACTORS) and ws.shapes[node.inputs[0]][-1] > LARGEST:
        write = _call
    write(ws, node)


def _product(ws: Workspace, node: Apply) -> None:
    """A B, of matrices or vectors, one or many."""
    left, right = (ws.place(v) for v in node.inputs)
    left = left.seen(np.atleast_2d(left.addresses))
    right = right if len(right.shape) > 1 else right.seen(right.addresses[:, None])
    to, rows, inner, columns = ws.new(node.outputs[0]), *left.shape[-2:], right.shape[-1]
    batch = to.shape[:-2]
    to = to.seen(to.addresses.reshape((*batch, rows, columns)))
    if rows * columns * inner > SMALL_PRODUCT * (1 if columns > 1 and rows > 1 else OF_VECTOR):
        if batch:
            raise NoLoops("many large products")
        left, right = (p if p.contiguous or _turned(p).contiguous else ws.copied(p) for p in (left, right))
        arguments = []
        for p in (left, right):
            arguments += [p.array, str(p.offset), str(not p.contiguous)]
        ws.blocks.append([f"multiply({', '.join(arguments)}, w, {to.offset}, {rows}, {inner}, {columns})"])
        return
    ws.loop(to.shape, [to], lambda at: [f"{at(to)} = 0.0"])
    left, right = left.seen(left.addresses[..., None]), right.seen(right.addresses[..., None, :, :])
    to = to.seen(to.addresses[..., None, :])
    shape = (*batch, rows, inner, columns)
    ws.loop(shape, [left, right, to], lambda at: [f"{at(to)} += {at(left)} * {at(right)}"])


def _factorise(ws: Workspace, node: Apply) -> None:
    """L with A = L Lᵀ, or the transpose."""
    to = ws.new(node.outputs[0])
    written = to if core_op(node).lower else _turned(to)
    _of_matrix(ws, "cholesky", node, written, f"{_steps(written)}, {to.shape[-1]}")


def _derivative(ws: Workspace, node: Apply) -> None:
    """(L Lᵀ)⁻¹ with the entries below the diagonal doubled."""
    to = ws.new(node.outputs[0])
    _of_matrix(ws, "derivative_of_log_determinant", node, to, str(to.shape[-1]))


def _triangle(ws: Workspace, node: Apply) -> None:
    """The triangular factor of a matrix, by the reflections that LAPACK makes; as long as the matrix, as SciPy's is."""
    op: Any = core_op(node)
    if op.mode != "r" or op.pivoting:
        _call(ws, node)
        return
    to = ws.new(node.outputs[0])
    rows, columns = to.shape[-2:]
    _of_matrix(ws, "triangle", node, to, f"{rows}, {columns}")


def _of_matrix(ws: Workspace, function: str, node: Apply, to: Place, rest: str) -> None:
    """A function of the only argument, for each matrix; ``rest`` is what it is told besides the places of the two."""
    matrix = ws.place(node.inputs[0])
    _each(ws, to.shape[:-2], [matrix, to], lambda at, a, b: [f"{function}({at(a)}, {_steps(a)}, {at(b)}, {rest})"])


def _solve_triangular(ws: Workspace, node: Apply) -> None:
    op: Any = core_op(node)
    if op.unit_diagonal:
        _call(ws, node)
        return
    to = ws.new(node.outputs[0])
    matrix, right = (ws.place(v) for v in node.inputs)
    _triangular(ws, matrix, right, to, op.lower, vectors=op.b_ndim == 1)


def _solve_factorised(ws: Workspace, node: Apply) -> None:
    """(L Lᵀ)⁻¹ b from L, or from its transpose."""
    op: Any = core_op(node)
    to = ws.new(node.outputs[0])
    half = ws.space(to.shape)
    matrix, right = (ws.place(v) for v in node.inputs)
    lower = matrix if op.lower else _turned(matrix)
    _triangular(ws, lower, right, half, True, vectors=op.b_ndim == 1)
    _triangular(ws, _turned(lower), half, to, False, vectors=op.b_ndim == 1)


def _triangular(ws: Workspace, matrix: Place, right: Place, to: Place, lower: bool, vectors: bool) -> None:
    if vectors:
        right, to = (p.seen(p.addresses[..., None]) for p in (right, to))
    batch, columns, size = to.shape[:-2], to.shape[-1], matrix.shape[-1]

    def line(at: Any, a: Place, b: Place, x: Place) -> list[str]:
        places = f"{at(a)}, {_steps(a)}, {lower}, {at(b)}, {_steps(b)}, {at(x)}, {_steps(x)}"
        return [f"solve_triangular({places}, {size}, {columns})"]

    _each(ws, batch, [matrix, right, to], line)


def _each(ws: Workspace, batch: Sequence[int], places: Sequence[Place], body: Callable[..., list[str]]) -> None:
    """``body`` for each matrix; ``at`` gives the flat array and where the matrix begins in it."""
    if any(p.size == 0 for p in places):
        raise NoLoops("an empty matrix")
    corners = {id(p): p.seen(p.addresses[..., 0, 0]) for p in places}

    def lines(at: Callable[[Place], str]) -> list[str]:
        return body(lambda p: at(corners[id(p)]).replace("[", ", ", 1)[:-1], *places)

    ws.loop(tuple(batch), list(corners.values()), lines)


def _call(ws: Workspace, node: Apply) -> None:
    """PyTensor's own function, on arrays."""
    op: Any = node.op
    core: Any = op
    inner: Apply = node
    batch: tuple[int, ...] = ()
    if isinstance(op, Blockwise):
        core, batch = op.core_op, ws.shapes[node.outputs[0]][: op.batch_ndim(node)]
        inner = core.make_node(*[i.type.clone(shape=i.type.shape[len(batch) :])() for i in node.inputs])
    places = []
    for var in node.inputs:
        place = ws.place(var)
        place = place.seen(np.broadcast_to(place.addresses, (*batch, *place.shape[len(batch) :])))
        places.append(place if _inner(place, len(batch)).contiguous else ws.copied(place))
    name = ws.call(*numba_funcify_ensure_cache(core, node=inner))
    results = [ws.name("r") for _ in node.outputs]
    lines: list[str] = []
    steps: list[str] = []
    indent = ""
    for length in batch:
        steps.append(ws.name("b"))
        lines.append(f"{indent}for {steps[-1]} in range({length}):")
        indent += "    "
    arguments = [_array(_inner(p, len(batch)), p, steps, v) for p, v in zip(places, node.inputs, strict=True)]
    lines.append(f"{indent}{', '.join(results)} = {name}({', '.join(arguments)})")
    for result, out in zip(results, node.outputs, strict=True):
        if out.type.dtype not in ("float64", "bool") and not out.type.dtype.startswith("int"):
            raise NoLoops(f"{op} gives {out.type.dtype}")
        to = ws.new(out)
        part = _inner(to, len(batch))
        names = [ws.name("i") for _ in part.shape]
        deeper = indent
        if part.shape:  # a shape may depend on values
            lines.append(f"{indent}if {result}.shape != ({', '.join(map(str, part.shape))},):")
            lines += [f"{indent}    w[{FAILED}] = 1.0", f"{indent}else:"]
            deeper += "    "
        for i, length in zip(names, part.shape, strict=True):
            lines.append(f"{deeper}for {i} in range({length}):")
            deeper += "    "
        terms = [str(to.offset), *(f"{i} * {s}" for i, s in zip((*steps, *names), to.strides, strict=True))]
        entry = f"{result}[{', '.join(names) if names else '()'}]"
        lines.append(f"{deeper}w[{' + '.join(terms)}] = {stored(entry, out)}")
    ws.blocks.append(lines)


def _turned(place: Place) -> Place:
    return place.seen(place.addresses.swapaxes(-1, -2))


def _steps(place: Place) -> str:
    """The strides of a matrix."""
    return f"{place.strides[-2]}, {place.strides[-1]}"


def _inner(place: Place, batch: int) -> Place:
    """The first of many arrays."""
    return place.seen(place.addresses[(0,) * batch])


def _array(part: Place, whole: Place, steps: Sequence[str], var: Any) -> str:
    """The source of an array without gaps."""
    shifts = "".join(f" + {b} * {s}" for b, s in zip(steps, whole.strides, strict=False) if s)
    start = f"{part.offset}{shifts}"
    source = f"{part.array}[{start} : {start} + {part.size}].reshape(({', '.join(f'{n}' for n in part.shape)},))"
    if not part.shape:
        source = f"np.asarray({part.array}[{start}])"
    if var.type.dtype == "bool":
        return f"({source} != 0.0)"
    return source if var.type.dtype == "float64" else f"{source}.astype(np.{var.type.dtype})"


OF_FACTORS = (Cholesky, SolveTriangular, CholeskySolve, DerivativeOfLogDeterminant)
WRITERS: tuple[tuple[Any, Callable[[Workspace, Apply], None]], ...] = (
    (Dot, _product),
    (Cholesky, _factorise),
    (SolveTriangular, _solve_triangular),
    (CholeskySolve, _solve_factorised),
    (DerivativeOfLogDeterminant, _derivative),
    (QR, _triangle),
)
