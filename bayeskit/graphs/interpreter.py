"""A PyTensor graph run by NumPy, one instruction after the other: no rewriting and no compilation.

``pytensor.function`` clones a graph, rewrites it, checks it and links it, which takes milliseconds; a graph of some
tens of nodes that is evaluated a handful of times is better run as it stands. Three things make that fast where arrays
are long: what does not depend on the inputs is computed at the first call only; a value spread over a shape is a view
that holds no memory (:mod:`bayeskit.graphs.instructions`); and an elementwise instruction writes over an argument that
nobody reads again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable

from bayeskit.graphs.instructions import Instruction, NotEvaluable, instructions_of, order

__all__ = ["evaluator"]

WORTHWHILE = 4096  # numbers in an array from which its memory is worth using again


def _merged(nodes: Iterable[Apply], outputs: Sequence[Variable]) -> tuple[list[Apply], dict[Variable, Variable]]:
    """The nodes without those that compute again what another computes, and what stands for the outputs left out."""
    same: dict[Variable, Variable] = {}
    first: dict[Any, Any] = {}

    def stands_for(var: Variable) -> Variable:
        if isinstance(var, Constant) and np.size(var.data) <= WORTHWHILE and hasattr(var.type, "dtype"):
            return first.setdefault((var.type, np.asarray(var.data).tobytes()), var)
        return same.get(var, var)

    distinct = []
    for node in nodes:
        twin = first.setdefault((node.op, tuple(stands_for(i) for i in node.inputs)), node)
        if twin is node:
            distinct.append(node)
        else:
            same.update(zip(node.outputs, twin.outputs, strict=True))
    return distinct, same


class _Memory:
    """Which values may share memory, and which step reads each for the last time."""

    def __init__(self, steps: Sequence[Instruction], lasting: Iterable[Variable]) -> None:
        self.owner: dict[Variable, Variable] = {}  # the value whose memory a view is of
        self.shared: set[Variable] = set()  # owners whose memory others may hold without our knowing
        self.fresh = {o for s in steps if s.view is False for o in s.outputs}
        for step in steps:
            owners = [self.owner.get(i, i) for i in step.inputs]
            if step.view is True:
                self.owner.update(dict.fromkeys(step.outputs, owners[0]))
            elif step.view is None:
                self.shared.update(owners)
                self.shared.update(step.outputs)
        self.lasting = {self.owner.get(v, v) for v in lasting}
        self.last: dict[Variable, int] = {}
        self.last_of_owner: dict[Variable, int] = {}
        for k, step in enumerate(steps):
            for var in step.inputs:
                self.last[var] = k
                self.last_of_owner[self.owner.get(var, var)] = k

    def may_be_written_over(self, var: Variable, step: int) -> bool:
        return (
            var in self.fresh and var not in self.shared and var not in self.lasting and self.last_of_owner[var] == step
        )


def evaluator(inputs: Sequence[Variable], outputs: Sequence[Variable], *, merge: bool = False) -> Callable[..., Any]:
    """A function from values of ``inputs`` to the list of values of ``outputs``.

    Parameters
    ----------
    inputs, outputs : sequence of tensor
    merge : bool
        Whether nodes that compute the same are looked for, and computed once.

    Raises
    ------
    NotEvaluable
        If only a compiled function can run the graph.

    Notes
    -----
    What depends on constants only is held for as long as the function is.
    """
    steps, wanted = _program(inputs, outputs, merge)
    once, always = _apart(steps, inputs)
    slots: dict[Variable, int] = {}
    for var in [*inputs, *wanted, *(v for s in steps for v in (*s.inputs, *s.outputs))]:
        slots.setdefault(var, len(slots))
    start, shared = _given(slots, inputs, steps)
    memory = _Memory(always, wanted)
    _place(steps, always, wanted, slots, memory)
    lasting = {i for s in always for i in s.inputs} | set(wanted)
    passing = [slots[o] for s in once for o in s.outputs if o not in lasting]
    types = [(slots[v], getattr(v.type, "dtype", None)) for v in inputs]
    # What may be somebody else's memory is copied on return, so that no output changes with another.
    results = [
        (slots[v], v in memory.fresh and v not in memory.shared and v not in wanted[:k]) for k, v in enumerate(wanted)
    ]
    pending = list(once)

    def function(*arguments: Any) -> list[Any]:
        with np.errstate(all="ignore"):
            if pending:
                _run(pending, start)
                for slot in passing:
                    start[slot] = None
                pending.clear()
            values = start.copy()
            for (slot, dtype), value in zip(types, arguments, strict=True):
                values[slot] = value if dtype is None else np.asarray(value, dtype=dtype)
            for slot, var in shared:
                values[slot] = var.get_value(borrow=True)
            _run(always, values)
        return [values[slot] if own else _own(values[slot]) for slot, own in results]

    return function


def _program(
    inputs: Sequence[Variable], outputs: Sequence[Variable], merge: bool
) -> tuple[list[Instruction], list[Variable]]:
    """The instructions for the outputs, in order, and the values that are to be returned."""
    nodes = list(order(outputs, inputs))
    same: dict[Variable, Variable] = {}
    if merge:
        nodes, same = _merged(nodes, outputs)
    steps = [s for n in nodes for s in instructions_of(n, evaluator)]
    if same:
        for step in steps:
            step.inputs = tuple(same.get(i, i) for i in step.inputs)
    return steps, [same.get(o, o) for o in outputs]


def _apart(steps: Sequence[Instruction], inputs: Sequence[Variable]) -> tuple[list[Instruction], list[Instruction]]:
    """The instructions for what no input or shared variable changes, and the others."""
    moving = set(inputs)
    once, always = [], []
    for step in steps:
        if any(i in moving or isinstance(i, SharedVariable) for i in step.inputs):
            moving.update(step.outputs)
            always.append(step)
        else:
            once.append(step)
    return once, always


def _given(
    slots: dict[Variable, int], inputs: Sequence[Variable], steps: Sequence[Instruction]
) -> tuple[list[Any], list[tuple[int, Any]]]:
    """The values to start from, by slot, and the shared variables whose values are read at each call."""
    computed = {o for s in steps for o in s.outputs} | set(inputs)
    start: list[Any] = [None] * len(slots)
    shared: list[tuple[int, Any]] = []
    for var, slot in slots.items():
        if isinstance(var, Constant):
            start[slot] = var.data
        elif isinstance(var, SharedVariable) and var not in inputs:
            shared.append((slot, var))
        elif var.owner is None and var not in computed:
            raise NotEvaluable(f"no value for {var}")
    return start, shared


def _place(
    steps: Sequence[Instruction],
    always: Sequence[Instruction],
    wanted: Sequence[Variable],
    slots: dict[Variable, int],
    memory: _Memory,
) -> None:
    """Write into each instruction which slots it reads, writes, leaves to nobody after it, and may write over."""
    produced = {o for s in always for o in s.outputs}
    for k, step in enumerate(always):
        step.last = tuple(
            slots[v] for v in dict.fromkeys(step.inputs) if v in produced and memory.last[v] == k and v not in wanted
        )
        if step.ufunc is not None:
            step.buffers = tuple(p for p, v in enumerate(step.inputs) if memory.may_be_written_over(v, k))
    for step in steps:
        step.reads, step.writes = tuple(slots[v] for v in step.inputs), tuple(slots[v] for v in step.outputs)


def _own(value: Any) -> Any:
    return np.array(value) if isinstance(value, np.ndarray | np.generic) else value


def _run(steps: Sequence[Instruction], values: list[Any]) -> None:
    for step in steps:
        arguments = [values[r] for r in step.reads]
        result = _over_an_argument(step, arguments) if step.buffers else None
        if result is None:
            result = step.call(arguments)
        if len(step.writes) == 1:
            values[step.writes[0]] = result
        else:
            for slot, value in zip(step.writes, result or (), strict=True):
                values[slot] = value
        del arguments, result
        for slot in step.last:
            values[slot] = None


def _over_an_argument(step: Instruction, arguments: list[Any]) -> np.ndarray | None:
    """The result in the memory of an argument that is not needed again; None where none has its size."""
    assert step.ufunc is not None
    for k in step.buffers:
        buffer = arguments[k]
        if buffer.size < WORTHWHILE or buffer.dtype != np.float64 or step.outputs[0].type.dtype != "float64":
            continue
        if all(a.ndim == 0 or a.shape == buffer.shape for a in arguments) or buffer.shape == np.broadcast_shapes(
            *(a.shape for a in arguments)
        ):
            result: np.ndarray = step.ufunc(*arguments, out=buffer)
            return result
    return None
