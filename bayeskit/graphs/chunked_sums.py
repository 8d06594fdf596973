"""Sums over long data, evaluated a block of rows at a time.

Evaluated node by node, each node of a log density of N observations makes an array of length N: for a million rows a
dozen times 8 MB, written to memory and read again. Here the nodes with N entries along an axis are run on a block of
rows that stays in the cache, and only the sums are kept. The graph falls into three programs:

    before   what does not have N entries (σ, log σ, the coefficients), once
    rows     what has N entries, up to the sums over them, once a block
    after    what depends on the sums, once

:mod:`bayeskit.graphs.block_program` takes it apart, by operations that can be done block by block; a graph with
anything else that has N entries is refused (None) and evaluated as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable

from bayeskit.graphs.block_program import BlockProgram, NotByRows
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.instructions import NotEvaluable, order
from bayeskit.graphs.interpreter import evaluator

__all__ = ["RowFunction", "compile_rows"]

LONG = 100_000  # rows from which an array of that length is worth avoiding
BLOCK = 800_000  # numbers in the widest array of a block: 6.4 MB
MOST_ROWS = 32_000  # rows of a block: 256 kB a column


class RowFunction:
    """A function of long data, of N rows, that holds no array of their length; :func:`compile_rows` makes it."""

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable], rows: int) -> None:
        self.rows, self._inputs, self._outputs = rows, list(inputs), list(outputs)
        self._programs: dict[int, Callable[..., list[Any]]] = {}  # by the length of a block
        split = BlockProgram(inputs, outputs, rows, length=rows - 1)  # no N, so that no other length is taken for it
        self.width = split.width
        self._sources, self._small = list(split.sources), list(split.small)
        self._adds = [adds for _, adds in split.partial.values()]
        self._even = split.even
        self._counts = len(split.small), len(split.known), sum(split.even)
        even = [o for o, same in zip(split.outputs, split.even, strict=True) if same]
        self._before = compile_small(inputs, [*split.small, *split.known.values(), *even, *split.checks])
        self._reduced = [*split.known, *split.partial]
        later = [o for o, same in zip(outputs, split.even, strict=True) if not same]
        self._after = compile_small([*inputs, *self._reduced], [*later, *split.late_checks])
        self._made = [v for v in self._sources if v.owner is not None and v not in inputs]
        self._make = evaluator([], self._made)

    @cached_property
    def _held(self) -> dict[Variable, np.ndarray]:
        """Long data that is made from constants only."""
        return dict(zip(self._made, self._make(), strict=True))

    def blocks(self) -> list[slice]:
        """Slices of rows that together are all of them."""
        count = -(-self.rows // min(MOST_ROWS, max(1, BLOCK // self.width)))
        # Blocks of one length need one program.
        count = next((k for k in range(count, 2 * count) if self.rows % k == 0), count)
        step = -(-self.rows // count)
        return [slice(a, min(a + step, self.rows)) for a in range(0, self.rows, step)]

    def _program(self, length: int) -> Callable[..., list[Any]]:
        if length not in self._programs:
            split = BlockProgram(self._inputs, self._outputs, self.rows, length)
            reads = [*(g for g, _ in split.sources.values()), *split.small.values()]
            self._programs[length] = evaluator(reads, [g for g, _ in split.partial.values()])
        return self._programs[length]

    def _value(self, var: Variable, given: Mapping[Variable, Any]) -> Any:
        if var in given:
            return given[var]
        if isinstance(var, SharedVariable):
            return var.get_value(borrow=True)
        return var.data if isinstance(var, Constant) else self._held[var]

    def __call__(self, *arguments: np.ndarray) -> list[Any]:
        return self.at([arguments])[0]

    def at(self, points: Sequence[Sequence[np.ndarray]]) -> list[list[Any]]:
        """The outputs at each of several points, for which the long data are read once."""
        first = [self._first(arguments) for arguments in points]
        sums = self._sums([long for long, _, _, _ in first], [small for _, small, _, _ in first])
        types, shapes = [v.type.dtype for v in self._reduced], [v.type.shape for v in self._outputs]
        found = []
        for arguments, (_, _, known, even), own in zip(points, first, sums, strict=True):
            reduced = [np.asarray(v, dtype=d) for v, d in zip([*known, *own], types, strict=True)]
            later, same = iter(self._after(*arguments, *reduced)), iter(even)
            each = zip(self._even, shapes, strict=True)
            found.append([np.broadcast_to(next(same), shape) if e else next(later) for e, shape in each])
        return found

    def _first(self, arguments: Sequence[np.ndarray]) -> tuple[list[tuple[np.ndarray, int]], list[Any], Any, Any]:
        """What has rows, each with its axis of them, and what there is before any sum over them."""
        results = iter(self._before(*arguments))
        small, known, even = ([next(results) for _ in range(count)] for count in self._counts)
        given = dict(zip(self._inputs, arguments, strict=True))
        return [(self._value(v, given), v.type.shape.index(self.rows)) for v in self._sources], small, known, even

    def _sums(self, long: list[list[tuple[np.ndarray, int]]], small: list[list[np.ndarray]]) -> list[list[Any]]:
        """The sums over all rows at each point, and whether checks hold in all of them."""
        sums: list[list[Any]] = [[] for _ in small]
        for block in self.blocks():
            program = self._program(block.stop - block.start)
            for k, (own, others) in enumerate(zip(long, small, strict=True)):
                partial = program(*(v[(*([slice(None)] * axis), block)] for v, axis in own), *others)
                sums[k] = self._added(sums[k], partial)
        return sums

    def _added(self, sums: list[Any], partial: list[Any]) -> list[Any]:
        """With those of another block, in extended precision: there may be hundreds."""
        wide = [np.asarray(v, np.longdouble) if adds else v for v, adds in zip(partial, self._adds, strict=True)]
        if not sums:
            return wide
        return [a + v if add else np.logical_and(a, v) for a, v, add in zip(sums, wide, self._adds, strict=True)]


def compile_rows(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> RowFunction | None:
    """A function of ``inputs`` that takes long data block by block; None where the graph is not a sum over rows.

    Inputs may be as long as the data. Outputs have no rows, or the same value in each.
    """
    found = [v for node in order(outputs, inputs) for v in (*node.inputs, *node.outputs)]
    lengths = {n for v in found for n in getattr(v.type, "shape", ()) if n is not None and n >= LONG}
    if len(lengths) != 1:
        return None
    try:
        return RowFunction(inputs, outputs, lengths.pop())
    except (NotByRows, NotEvaluable):
        return None
