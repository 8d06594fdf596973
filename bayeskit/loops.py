"""A graph as loops over one flat array: source that numba compiles in a second or two.

PyTensor hands numba a function for each node, generic in what it takes and with a message for whatever may be wrong
with that; numba takes some fifty milliseconds for each and for each function that it calls: forty seconds for a hidden
Markov model whose sampling takes half of one. Here the shapes of all arrays are known. Every array is a stretch of one
workspace of doubles, views are offsets and strides (:mod:`bayeskit.places`), elementwise nodes of one shape share a
loop, and what numba sees is arithmetic on doubles alone.

What has no loop here (factorisations, recursions of chains) calls PyTensor's function for it. A graph with a node of an
unknown kind, or whose shapes depend on values, is refused; the caller then compiles it as PyTensor does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.link.numba.dispatch.basic import numba_funcify_ensure_cache
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc, ExtractDiag, Join, MakeVector, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
    unflatten_index_variables,
)

from bayeskit.compiling import compile_small
from bayeskit.degrees import core_op
from bayeskit.density import depends_on
from bayeskit.places import Place
from bayeskit.scalar_source import expression, literal

__all__ = ["NoLoops", "Program", "program"]

WORK, DATA = "w", "c"  # the workspace, and the constants
FAILED = 0  # the first number of the workspace: not zero where an assertion of the model's author fails
LARGEST = 48  # rows of a matrix up to which a factorisation by loops takes no longer than LAPACK's
MOST = 5_000_000  # numbers in the workspace
SMALL_PRODUCT = 4096  # multiplications of a matrix product up to which BLAS takes longer to call
LINES = 80  # of a function, about: numba takes longer for one of a thousand lines than for ten of a hundred
MOST_DATA = 50_000_000  # constants

REDUCTIONS = {
    "Add": ("0.0", "{0} + {1}"),
    "Mul": ("1.0", "{0} * {1}"),
    "Maximum": ("(-INF)", "{0} if {0} >= {1} or {0} != {0} else {1}"),
    "Minimum": ("INF", "{0} if {0} <= {1} or {0} != {0} else {1}"),
    "AND": ("True", "{0} and {1}"),
    "OR": ("False", "{0} or {1}"),
}


class NoLoops(Exception):
    """The graph has a node for which there is no loop."""


@dataclass(frozen=True)
class Program:
    """What a graph computes, as source.

    Attributes
    ----------
    functions : tuple of list of str
        Bodies of functions of the workspace ``w`` and the constants ``c``, to be called in turn.
    size : int
        Length of the workspace. The inputs lie in it one after the other from 1 on.
    data : numpy.ndarray
        The constants.
    outputs : tuple of Place
    calls : dict of str to function
        Compiled functions that the source calls.
    """

    functions: tuple[list[str], ...]
    size: int
    data: np.ndarray
    outputs: tuple[Place, ...]
    calls: dict[str, Any]


def program(
    inputs: Sequence[Variable], outputs: Sequence[Variable], point: Sequence[np.ndarray], first: int
) -> Program:
    """Loops that compute ``outputs``.

    Parameters
    ----------
    inputs, outputs : sequence of tensor
    point : sequence of array
        Values of the inputs, for the shapes of everything else.
    first : int
        Where the constants of this program begin among those of several.

    Raises
    ------
    NoLoops
        If the graph has something for which there is no loop.
    """
    return _Writer(inputs, outputs, point, first).write()


@dataclass
class _Writer:
    inputs: Sequence[Variable]
    outputs: Sequence[Variable]
    point: Sequence[np.ndarray]
    first: int
    size: int = 1
    places: dict[Variable, Place] = field(default_factory=dict)
    values: dict[Variable, np.ndarray] = field(default_factory=dict)
    shapes: dict[Variable, tuple[int, ...]] = field(default_factory=dict)
    data: list[np.ndarray] = field(default_factory=list)
    data_size: int = 0
    calls: dict[str, Any] = field(default_factory=dict)
    blocks: list[list[str]] = field(default_factory=list)
    names: int = 0

    # -- what is where -------------------------------------------------------------------------------------------------
    def write(self) -> Program:
        self._trace()
        for var, value in zip(self.inputs, self.point, strict=True):
            self._new(var)
            assert self.places[var].size == np.size(value)
        self._schedule(self._needed())
        places = tuple(self._contiguous(v) for v in self.outputs)
        if self.size > MOST:
            raise NoLoops(f"a workspace of {self.size} numbers")
        return Program(self._functions(), self.size, self._constants(), places, self.calls)

    def _trace(self) -> None:
        """Shapes of all arrays and values of those that the inputs do not move."""
        nodes = list(toposort(list(self.outputs)))
        every = [v for n in nodes for v in n.outputs if hasattr(v.type, "dtype")]
        for n in nodes:
            if any(not hasattr(v.type, "dtype") for v in (*_read(n), *n.outputs)):
                raise NoLoops(f"{n.op} is not about arrays")
        leaves = {v for n in nodes for v in n.inputs if v.owner is None} | set(self.outputs)
        constants = {v: np.asarray(v.data) for v in leaves if isinstance(v, Constant) and hasattr(v.type, "dtype")}
        moving = depends_on([*every, *self.outputs], self.inputs)
        found = compile_small(list(self.inputs), every)(*self.point) if every else []
        traced = {v: np.asarray(f) for v, f in zip(every, found, strict=True)}
        traced |= {v: np.asarray(p) for v, p in zip(self.inputs, self.point, strict=True)}
        self.shapes = {v: np.shape(f) for v, f in {**traced, **constants}.items()}
        self.values = constants | {v: f for v, f in traced.items() if not moving.get(v)}

    def _needed(self) -> list[Apply]:
        """Nodes that the outputs need, in order; not those of which only a shape or a constant is wanted."""
        wanted, todo = set(), [v for v in self.outputs if v not in self.values]
        while todo:
            node = todo.pop().owner
            if node is not None and node not in wanted:
                wanted.add(node)
                todo += [i for i in _read(node) if i not in self.values and i not in self.inputs]
        return [n for n in toposort(list(self.outputs)) if n in wanted]

    def _new(self, var: Variable, shape: Sequence[int] | None = None) -> Place:
        place = self._space(self.shapes[var] if shape is None else shape)
        self.places[var] = place
        return place

    def _space(self, shape: Sequence[int]) -> Place:
        place = Place.row_major(WORK, self.size, shape)
        self.size += place.size
        return place

    def _constant(self, value: np.ndarray) -> Place:
        if value.dtype.kind == "c" or self.data_size + value.size > MOST_DATA:
            raise NoLoops("constants that are complex or too many")
        place = Place.row_major(DATA, self.first + self.data_size, value.shape)
        self.data.append(np.ascontiguousarray(value, dtype=np.float64).ravel())
        self.data_size += value.size
        return place

    def _constants(self) -> np.ndarray:
        return np.concatenate([np.zeros(0), *self.data])

    def _place(self, var: Variable) -> Place:
        if var not in self.places:
            self.places[var] = self._constant(self.values[var])
        return self.places[var]

    def _contiguous(self, var: Variable) -> Place:
        """The place of an array without gaps, copied if need be."""
        place = self._place(var)
        return place if place.contiguous else self._copied(place)

    def _copied(self, place: Place) -> Place:
        to = self._space(place.shape)
        self._copy(place, to)
        return to

    def _copy(self, place: Place, to: Place) -> None:
        self._loop(to.shape, [place, to], lambda at: [f"{at(to)} = {at(place)}"])

    # -- loops ---------------------------------------------------------------------------------------------------------
    def _name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def _loop(
        self,
        shape: Sequence[int],
        places: Sequence[Place],
        body: Callable[[Callable[[Place], str]], list[str]],
        before: Sequence[str] = (),
        after: Sequence[str] = (),
    ) -> None:
        """A nest of loops over ``shape``; ``body`` gets the source of an entry of each place."""
        spread = {id(p): p.broadcast(shape) for p in places}
        axes = [k for k, n in enumerate(shape) if n != 1]
        if any(shape[k] == 0 for k in axes):
            self.blocks.append([*before, *after])
            return
        # Neighbouring axes that lie one after the other in every array are one axis.
        merged: list[list[int]] = []
        for k in axes:
            joins = bool(merged) and all(p.strides[merged[-1][-1]] == p.strides[k] * shape[k] for p in spread.values())
            if joins:
                merged[-1].append(k)
            else:
                merged.append([k])
        names = [self._name("i") for _ in merged]
        counts = [int(np.prod([shape[k] for k in group])) for group in merged]

        def at(place: Place) -> str:
            own = spread[id(place)]
            terms = [str(own.offset)]
            for name, group in zip(names, merged, strict=True):
                stride = own.strides[group[-1]]
                if stride:
                    terms.append(name if stride == 1 else f"{name} * {stride}")
            return f"{own.array}[{' + '.join(terms)}]"

        lines, indent = list(before), ""
        for name, count in zip(names, counts, strict=True):
            lines.append(f"{indent}for {name} in range({count}):")
            indent += "    "
        lines += [indent + line for line in body(at)]
        self.blocks.append([*lines, *after])

    def _functions(self) -> tuple[list[str], ...]:
        functions: list[list[str]] = [[]]
        for block in self.blocks:
            if functions[-1] and len(functions[-1]) + len(block) > LINES:
                functions.append([])
            functions[-1] += block
        return tuple(f for f in functions if f)

    # -- the order -----------------------------------------------------------------------------------------------------
    def _schedule(self, nodes: list[Apply]) -> None:
        """Everything that is no loop as soon as it can be; then the shape of which most nodes can share a loop."""
        remaining = dict.fromkeys(nodes)
        ready = {v for v in self.values} | set(self.inputs)
        uses: dict[Variable, int] = {}
        for node in nodes:
            for var in node.inputs:
                uses[var] = uses.get(var, 0) + 1
        for var in self.outputs:
            uses[var] = uses.get(var, 0) + 1
        while remaining:
            progress = False
            for node in list(remaining):
                if not _elementwise(node) and all(i in ready for i in _read(node)):
                    self._write(node)
                    ready.update(node.outputs)
                    del remaining[node]
                    progress = True
            if progress:
                continue
            shapes = dict.fromkeys(
                self.shapes[n.outputs[0]] for n in remaining if _elementwise(n) and all(i in ready for i in n.inputs)
            )
            groups = [self._group(shape, remaining, ready) for shape in shapes]
            group = max(groups, key=lambda g: len(g[0]) + len(g[1]))
            self._elementwise(*group, uses)
            for node in (*group[0], *group[1]):
                ready.update(node.outputs)
                del remaining[node]

    def _group(
        self, shape: tuple[int, ...], remaining: dict[Apply, None], ready: set[Variable]
    ) -> tuple[list[Apply], list[Apply]]:
        """The elementwise nodes of one shape that can be computed in one loop, and full sums over them."""
        group: list[Apply] = []
        made: set[Variable] = set()
        for node in remaining:  # in topological order, so that one pass suffices
            if not _elementwise(node) or self.shapes[node.outputs[0]] != shape:
                continue
            if all(i in ready or (i in made and self.shapes[i] == shape) for i in node.inputs):
                group.append(node)
                made.add(node.outputs[0])
        sums = [n for n in remaining if self._is_full_reduction(n) and n.inputs[0] in made]
        return group, sums

    def _is_full_reduction(self, node: Apply) -> bool:
        return (
            isinstance(node.op, CAReduce)
            and self.shapes[node.outputs[0]] == ()
            and type(node.op.scalar_op).__name__ in REDUCTIONS
        )

    # -- nodes ---------------------------------------------------------------------------------------------------------
    def _elementwise(self, nodes: list[Apply], sums: list[Apply], uses: dict[Variable, int]) -> None:
        shape = self.shapes[nodes[0].outputs[0]]
        inside = dict.fromkeys(n.outputs[0] for n in nodes)  # in order: the same graph gives the same source
        within: dict[Variable, int] = {}
        for node in (*nodes, *sums):
            for var in node.inputs:
                within[var] = within.get(var, 0) + 1
        stored = [v for v in inside if uses.get(v, 0) > within.get(v, 0)]
        loads: dict[Variable, Place] = {}
        names: dict[Variable, str] = {}
        for node in nodes:
            for var in node.inputs:
                if var in inside or var in names:
                    continue
                value = self.values.get(var)
                if value is not None and value.size and np.all(value == value.flat[0]):
                    single = value.flat[0]
                    names[var] = str(bool(single)) if var.type.dtype == "bool" else literal(single)
                else:
                    loads[var] = self._place(var)
                    names[var] = self._name("x")
        before: list[str] = []
        inner: dict[Variable, Place] = {}
        for var, place in loads.items():
            if place.size == 1:  # the same at every step
                before.append(f"{names[var]} = {_load(f'{place.array}[{place.offset}]', var)}")
            else:
                inner[var] = place
        names |= {v: self._name("t") for v in inside}
        totals = {s: self._name("s") for s in sums}
        before += [f"{name} = {REDUCTIONS[_scalar(s)][0]}" for s, name in totals.items()]
        to = {v: self._new(v) for v in stored}

        def body(at: Callable[[Place], str]) -> list[str]:
            lines = [f"{names[v]} = {_load(at(p), v)}" for v, p in inner.items()]
            for node in nodes:
                source = expression(node, [names[i] for i in node.inputs])
                if source is None:
                    source = self._scalar_call(node, [names[i] for i in node.inputs])
                lines.append(f"{names[node.outputs[0]]} = {source}")
            lines += [f"{at(p)} = {_stored(names[v], v)}" for v, p in to.items()]
            for node, name in totals.items():
                lines.append(f"{name} = {REDUCTIONS[_scalar(node)][1].format(name, names[node.inputs[0]])}")
            return lines

        after = []
        for node, name in totals.items():
            place = self._new(node.outputs[0])
            after.append(f"w[{place.offset}] = {_stored(name, node.outputs[0])}")
        self._loop(shape, [*inner.values(), *to.values()], body, before, after)

    def _scalar_call(self, node: Apply, arguments: list[str]) -> str:
        """PyTensor's function of a scalar that has no expression here."""
        op: Any = node.op
        kinds = {i.type.dtype for i in node.inputs}
        if kinds != {"float64"} or node.outputs[0].type.dtype != "float64" or hasattr(op.scalar_op, "fgraph"):
            raise NoLoops(f"{op} of {sorted(kinds)}")
        name = self._name("f")
        inputs = [i.type.clone(shape=())() for i in node.inputs]
        scalar_node = op.scalar_op.make_node(*[ScalarFromTensor()(i) for i in inputs])
        self.calls[name] = numba_funcify_ensure_cache(op.scalar_op, node=scalar_node)[0]
        return f"{name}({', '.join(arguments)})"

    def _write(self, node: Apply) -> None:
        for kind, write in LINEAR_ALGEBRA:
            if isinstance(core_op(node), kind):
                write(self, node)
                return
        for kind, write in WRITERS:
            if isinstance(node.op, kind):
                write(self, node)
                return
        self._call(node)

    def _view(self, node: Apply) -> None:
        """A node whose result is its first argument seen otherwise."""
        op: Any = node.op
        place, out = self._place(node.inputs[0]), node.outputs[0]
        if isinstance(op, DimShuffle):
            place = place.transposed(op.new_order)
        elif isinstance(op, Alloc):
            place = place.broadcast(self.shapes[out])
        elif isinstance(op, Subtensor):
            place = place.indexed(self._index(node.inputs[1:], op.idx_list))
        elif isinstance(op, ExtractDiag):
            place = place.diagonal(op.offset, op.axis1, op.axis2)
        elif isinstance(op, Reshape):
            place = place if place.contiguous else self._copied(place)
            place = Place.row_major(place.array, place.offset, self.shapes[out])
        assert place.shape == self.shapes[out]
        self.places[out] = place

    def _check(self, node: Apply) -> None:
        """An assertion: the number of failures counts, and the value goes on."""
        for test in node.inputs[1:]:
            if test in self.values:
                if not np.all(self.values[test]):
                    raise NoLoops("an assertion that always fails")
                continue
            place = self._place(test)
            self._loop(place.shape, [place], lambda at, p=place: [f"if {at(p)} == 0.0:", f"    w[{FAILED}] = 1.0"])
        self.places[node.outputs[0]] = self._place(node.inputs[0])

    def _split(self, node: Apply) -> None:
        place, op = self._place(node.inputs[0]), node.op
        starts = np.cumsum([0, *(self.shapes[o][op.axis] for o in node.outputs)])
        for (a, b), out in zip(pairwise(starts), node.outputs, strict=True):
            self.places[out] = place.indexed([*[slice(None)] * op.axis, slice(int(a), int(b))])

    def _index(self, variables: Sequence[Variable], idx_list: Any) -> tuple[Any, ...]:
        for var in variables:
            if var not in self.values:
                raise NoLoops("an index that is not constant")
        values = [np.asarray(self.values[v]) for v in variables]
        plain = [int(v) if v.ndim == 0 and v.dtype.kind in "iu" else v for v in values]
        return unflatten_index_variables(plain, idx_list)

    def _gather(self, node: Apply) -> None:
        """Entries at constant places: their addresses are constants."""
        place, out = self._place(node.inputs[0]), node.outputs[0]
        index = self._index(node.inputs[1:], node.op.idx_list)
        addresses = np.ascontiguousarray(place.addresses()[index])
        at_constant = self._constant(addresses.astype(np.float64))
        to = self._new(out)
        array = place.array
        self._loop(to.shape, [at_constant, to], lambda at: [f"{at(to)} = {array}[int({at(at_constant)})]"])

    def _scatter(self, node: Apply) -> None:
        """An array with some entries set, or added to, at constant places."""
        op: Any = node.op
        out = node.outputs[0]
        index = self._index(node.inputs[2:], op.idx_list)
        to = self._new(out)
        self._copy(self._place(node.inputs[0]), to)
        sign = "=" if op.set_instead_of_inc else "+="
        entries = self._place(node.inputs[1])
        if isinstance(op, IncSubtensor):
            part = to.indexed(index)
            entries = entries.broadcast(part.shape)
            self._loop(part.shape, [part, entries], lambda at: [f"{at(part)} {sign} {at(entries)}"])
            return
        addresses = np.ascontiguousarray(to.addresses()[index])
        if getattr(op, "ignore_duplicates", False) and not op.set_instead_of_inc and _repeats(addresses):
            raise NoLoops("an index with repetitions that count once")
        at_constant = self._constant(addresses.astype(np.float64))
        spread = entries.broadcast(addresses.shape)
        self._loop(
            addresses.shape,
            [at_constant, spread],
            lambda at: [f"w[int({at(at_constant)})] {sign} {at(spread)}"],
        )

    def _join(self, node: Apply) -> None:
        to, axis = self._new(node.outputs[0]), node.op.axis
        at = 0
        for var in node.inputs:
            length = self.shapes[var][axis]
            index = [slice(None)] * (axis % to_ndim(to))
            self._copy(self._place(var), to.indexed([*index, slice(at, at + length)]))
            at += length

    def _make_vector(self, node: Apply) -> None:
        to = self._new(node.outputs[0])
        for k, var in enumerate(node.inputs):
            self._copy(self._place(var), to.indexed([k]))

    def _reduce(self, node: Apply) -> None:
        op: Any = node.op
        place, out = self._place(node.inputs[0]), node.outputs[0]
        if (name := _scalar(node)) not in REDUCTIONS:
            raise NoLoops(f"{op}")
        start, combine = REDUCTIONS[name]
        shape = place.shape
        reduced = set(range(len(shape))) if op.axis is None else {a % len(shape) for a in op.axis}
        to = self._new(out)
        # The result as an array of the argument's shape, the same along what is summed over.
        strides, kept = [], iter(to.strides)
        for k in range(len(shape)):
            strides.append(0 if k in reduced else next(kept))
        spread = Place(to.array, to.offset, shape, tuple(strides))
        truth = node.inputs[0].type.dtype == "bool"
        first = literal({"True": 1.0, "False": 0.0}[start]) if start in ("True", "False") else start
        self._loop(to.shape, [to], lambda at: [f"{at(to)} = {first}"])

        def body(at: Callable[[Place], str]) -> list[str]:
            if name in ("AND", "OR"):
                worse = "==" if name == "AND" else "!="
                return [f"if {at(place)} {worse} 0.0:", f"    {at(spread)} = {'0.0' if name == 'AND' else '1.0'}"]
            return [f"y = {at(place)}", f"z = {at(spread)}", f"{at(spread)} = {combine.format('z', 'y')}"]

        if truth and name not in ("AND", "OR", "Add"):
            raise NoLoops(f"{op} of truth values")
        self._loop(shape, [place, spread], body)

    def _product(self, node: Apply) -> None:
        """A B, of matrices or vectors, one or many."""
        left, right = (self._place(v) for v in node.inputs)
        to = self._new(node.outputs[0])
        vectors = (len(left.shape) == 1, len(right.shape) == 1)
        if any(vectors):
            axes: list[int | str] = list(range(len(to.shape)))
            to = to.transposed([*(["x"] if vectors[0] else []), *axes, *(["x"] if vectors[1] else [])])
            left = left.transposed(["x", 0]) if vectors[0] else left
            right = right.transposed([0, "x"]) if vectors[1] else right
        batch, (rows, columns), inner = to.shape[:-2], to.shape[-2:], left.shape[-1]
        if rows * columns * inner > SMALL_PRODUCT and columns > 1 and rows > 1:
            if batch:
                raise NoLoops("many large products")
            left, right = (p if p.contiguous or _turned(p).contiguous else self._copied(p) for p in (left, right))
            arguments = []
            for p in (left, right):
                turned = not p.contiguous
                arguments += [p.array, str(p.offset), str(turned)]
            self.blocks.append([f"multiply({', '.join(arguments)}, w, {to.offset}, {rows}, {inner}, {columns})"])
            return
        self._loop(to.shape, [to], lambda at: [f"{at(to)} = 0.0"])
        shape = (*batch, rows, inner, columns) if columns > 1 else (*batch, rows, columns, inner)
        swap = columns == 1
        ends = ("r", "k", "c") if not swap else ("r", "c", "k")
        left = _with_axes(left, batch, {"r": -2, "k": -1}, ends, shape)
        right = _with_axes(right, batch, {"k": -2, "c": -1}, ends, shape)
        to = _with_axes(to, batch, {"r": -2, "c": -1}, ends, shape)
        self._loop(shape, [left, right, to], lambda at: [f"{at(to)} += {at(left)} * {at(right)}"])

    def _factorise(self, node: Apply) -> None:
        """L with A = L Lᵀ, or the transpose."""
        op: Any = core_op(node)
        out = node.outputs[0]
        size = self.shapes[out][-1]
        if size > LARGEST:
            self._call(node)
            return
        place, to = self._place(node.inputs[0]), self._new(out)
        written = to if op.lower else _turned(to)
        self._each(
            to.shape[:-2],
            [place, written],
            lambda at, a, b: [f"cholesky({at(a)}, {_steps(a)}, {at(b)}, {_steps(b)}, {size})"],
        )

    def _solve_triangular(self, node: Apply) -> None:
        op: Any = core_op(node)
        size = self.shapes[node.inputs[0]][-1]
        if size > LARGEST or op.unit_diagonal:
            self._call(node)
            return
        to = self._new(node.outputs[0])
        matrix, right = (self._place(v) for v in node.inputs)
        self._triangular(matrix, right, to, op.lower, vectors=op.b_ndim == 1)

    def _solve_factorised(self, node: Apply) -> None:
        """(L Lᵀ)⁻¹ b from L, or from its transpose."""
        op: Any = core_op(node)
        size = self.shapes[node.inputs[0]][-1]
        if size > LARGEST:
            self._call(node)
            return
        to = self._new(node.outputs[0])
        half = self._space(to.shape)
        matrix, right = (self._place(v) for v in node.inputs)
        lower = matrix if op.lower else _turned(matrix)
        self._triangular(lower, right, half, True, vectors=op.b_ndim == 1)
        self._triangular(_turned(lower), half, to, False, vectors=op.b_ndim == 1)

    def _triangular(self, matrix: Place, right: Place, to: Place, lower: bool, vectors: bool) -> None:
        if vectors:
            right, to = (p.transposed([*range(len(p.shape)), "x"]) for p in (right, to))
        batch, columns, size = to.shape[:-2], to.shape[-1], matrix.shape[-1]
        self._each(
            batch,
            [matrix, right, to],
            lambda at, a, b, x: [
                f"solve_triangular({at(a)}, {_steps(a)}, {lower}, "
                f"{at(b)}, {_steps(b)}, {at(x)}, {_steps(x)}, {size}, {columns})"
            ],
        )

    def _each(self, batch: Sequence[int], places: Sequence[Place], body: Callable[..., list[str]]) -> None:
        """``body`` for each matrix; ``at`` gives the flat array and where the matrix begins in it."""
        corners = {id(p): _corner(p, len(batch)) for p in places}

        def lines(at: Callable[[Place], str]) -> list[str]:
            return body(lambda p: at(corners[id(p)]).replace("[", ", ", 1)[:-1], *places)

        self._loop(tuple(batch), list(corners.values()), lines)

    def _call(self, node: Apply) -> None:
        """PyTensor's own function, on arrays."""
        op: Any = node.op
        core, batch = op, ()
        if isinstance(op, Blockwise):
            core, batch = op.core_op, self.shapes[node.outputs[0]][: op.batch_ndim(node)]
        inner = _core_node(core, node, len(batch))
        places = []
        for var in node.inputs:
            place = self._place(var).broadcast((*batch, *self.shapes[var][len(batch) :]))
            places.append(place if _inner(place, len(batch)).contiguous else self._copied(place))
        name = self._name("f")
        self.calls[name] = numba_funcify_ensure_cache(core, node=inner)[0]
        results = [self._name("r") for _ in node.outputs]
        lines, indent, steps = [], "", []
        for length in batch:
            steps.append(self._name("b"))
            lines.append(f"{indent}for {steps[-1]} in range({length}):")
            indent += "    "
        arguments = [_array(_inner(p, len(batch)), p, steps, v) for p, v in zip(places, node.inputs, strict=True)]
        lines.append(f"{indent}{', '.join(results)} = {name}({', '.join(arguments)})")
        for result, out in zip(results, node.outputs, strict=True):
            if out.type.dtype not in ("float64", "bool") and not out.type.dtype.startswith("int"):
                raise NoLoops(f"{op} gives {out.type.dtype}")
            to = self._new(out)
            part = _inner(to, len(batch))
            names = [self._name("i") for _ in part.shape]
            deeper = indent
            for i, length in zip(names, part.shape, strict=True):
                lines.append(f"{deeper}for {i} in range({length}):")
                deeper += "    "
            terms = [str(to.offset), *(f"{i} * {s}" for i, s in zip((*steps, *names), to.strides, strict=True))]
            entry = f"{result}[{', '.join(names) if names else '()'}]"
            lines.append(f"{deeper}w[{' + '.join(terms)}] = {_stored(entry, out)}")
        self.blocks.append(lines)


def to_ndim(place: Place) -> int:
    return len(place.shape)


def _read(node: Apply) -> Sequence[Variable]:
    return node.inputs[:1] if isinstance(node.op, SpecifyShape) else node.inputs


def _elementwise(node: Apply) -> bool:
    return isinstance(node.op, Elemwise) and len(node.outputs) == 1


def _scalar(node: Apply) -> str:
    return type(node.op.scalar_op).__name__


def _load(source: str, var: Any) -> str:
    return f"{source} != 0.0" if var.type.dtype == "bool" else source


def _stored(source: str, var: Any) -> str:
    return f"1.0 if {source} else 0.0" if var.type.dtype == "bool" else source


def _repeats(addresses: np.ndarray) -> bool:
    return np.unique(addresses).size < addresses.size


def _turned(place: Place) -> Place:
    return place.transposed([*range(len(place.shape) - 2), len(place.shape) - 1, len(place.shape) - 2])


def _corner(place: Place, batch: int) -> Place:
    """Where each of many matrices begins."""
    ahead = len(place.shape) - 2
    missing = batch - ahead
    return Place(
        place.array, place.offset, (1,) * missing + place.shape[:ahead], (0,) * missing + place.strides[:ahead]
    )


def _steps(place: Place) -> str:
    """The strides of a matrix."""
    return f"{place.strides[-2]}, {place.strides[-1]}"


def _inner(place: Place, batch: int) -> Place:
    return Place(place.array, place.offset, place.shape[batch:], place.strides[batch:])


def _with_axes(
    place: Place, batch: tuple[int, ...], own: dict[str, int], order: Sequence[str], shape: Sequence[int]
) -> Place:
    """The place with the axes named in ``order`` after those of the batch; it is the same along those it lacks."""
    ahead = len(place.shape) - 2
    full = [0] * (len(batch) - ahead) + [0 if place.shape[k] == 1 else place.strides[k] for k in range(ahead)]
    strides = full + [place.strides[own[name]] if name in own else 0 for name in order]
    return Place(place.array, place.offset, tuple(shape), tuple(strides))


def _core_node(core: Any, node: Apply, batch: int) -> Apply:
    if core is node.op:
        return node
    inputs = [i.type.clone(shape=i.type.shape[batch:])() for i in node.inputs]
    made: Apply = core.make_node(*inputs)
    return made


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


LINEAR_ALGEBRA: tuple[tuple[Any, Callable[[_Writer, Apply], None]], ...] = (
    (Dot, _Writer._product),
    (Cholesky, _Writer._factorise),
    (SolveTriangular, _Writer._solve_triangular),
    (CholeskySolve, _Writer._solve_factorised),
)
WRITERS: tuple[tuple[Any, Callable[[_Writer, Apply], None]], ...] = (
    (
        (DimShuffle, Alloc, Subtensor, ExtractDiag, Reshape, SpecifyShape, ScalarFromTensor, TensorFromScalar),
        _Writer._view,
    ),
    (CheckAndRaise, _Writer._check),
    (Split, _Writer._split),
    (AdvancedSubtensor, _Writer._gather),
    ((AdvancedIncSubtensor, IncSubtensor), _Writer._scatter),
    (Join, _Writer._join),
    (MakeVector, _Writer._make_vector),
    (CAReduce, _Writer._reduce),
)
