"""A PyTensor graph run by NumPy, one instruction after the other: no rewriting and no compilation.

``pytensor.function`` clones a graph, rewrites it, checks it and links it, which takes milliseconds; a graph of some
tens of nodes that is evaluated a handful of times is better run as it stands. Three things make that fast where arrays
are long: what does not depend on the inputs is computed once; a value spread over a shape is a view that holds no
memory (:mod:`bayeskit.graphs.instructions`); and an elementwise instruction writes over an argument that nobody else
holds, which CPython's count of references tells: a view holds a reference to the array whose memory it shares.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable

from bayeskit.graphs.instructions import Instruction, NotEvaluable, instructions_of, order
from bayeskit.graphs.operation_costs import cost_of, counted

__all__ = ["evaluator"]

WORTHWHILE = 4096  # numbers in an array from which its memory is worth using again

_Rules = Callable[[Apply, Callable[..., Callable[..., Any]]], Iterator[Instruction]]


class _OwnLock:
    """A lock, because threads may call side by side; a copy, in another process say, has one of its own."""

    def __init__(self) -> None:
        self.held = Lock()

    def __reduce__(self) -> tuple[type[_OwnLock], tuple[()]]:
        return _OwnLock, ()


def _merged(nodes: Iterable[Apply]) -> tuple[Iterable[Apply], dict[Variable, Variable]]:
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


def evaluator(
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    *,
    merge: bool = False,
    rules: _Rules = instructions_of,
    loaded: Callable[[Any], Any] = lambda value: value,
) -> Callable[..., list[Any]]:
    """A function from values of ``inputs`` to the list of values of ``outputs``; NotEvaluable where there is none.

    With ``merge``, nodes that compute the same are computed once. ``rules`` and ``loaded`` give another arithmetic: the
    instructions of a node, and how a value is taken in. What depends on constants only is computed at the first call
    and held; what depends on shared variables, when they have been given other arrays.
    """
    nodes, same = _merged(order(outputs, inputs)) if merge else (order(outputs, inputs), {})
    steps = [step for node in nodes for step in _of(node, rules)]
    for step in steps if same else ():
        step.inputs = tuple(same.get(i, i) for i in step.inputs)
    wanted = [same.get(o, o) for o in outputs]
    slots: dict[Variable, int] = {}
    for var in [*inputs, *wanted, *(v for s in steps for v in (*s.inputs, *s.outputs))]:
        slots.setdefault(var, len(slots))
    shared: list[Any] = [v for v in slots if isinstance(v, SharedVariable) and v not in inputs]
    constant, of_data, always = _stages(steps, shared, inputs, wanted, slots)
    start: list[Any] = [loaded(v.data) if isinstance(v, Constant) else None for v in slots]
    known = {*inputs, *shared, *(o for s in steps for o in s.outputs)}
    if missing := [v for v in slots if not isinstance(v, Constant) and v not in known]:
        raise NotEvaluable(f"no value for {missing[0]}")
    types = [(slots[v], getattr(v.type, "dtype", None)) for v in inputs]
    given = [slots[v] for v in [*inputs, *shared]]
    read: list[Any] = []  # the arrays of shared variables that ``held`` was computed from
    held: list[Any] = []
    own = _OwnLock()
    costs: dict[Any, float] = {}  # of the instructions in ``always``, by the shapes of what they are given

    def function(*arguments: Any) -> list[Any]:
        with np.errstate(all="ignore"):
            with own.held:
                if constant:
                    _run(constant, start)
                    constant.clear()
                now = [var.get_value(borrow=True) for var in shared]
                if not held or any(new is not old for new, old in zip(now, read, strict=True)):
                    values = start.copy()
                    for var, value in zip(shared, now, strict=True):
                        values[slots[var]] = loaded(value)
                    _run(of_data, values)
                    held[:], read[:] = values, now  # only if nothing was raised
                values = held.copy()
            for (slot, dtype), value in zip(types, arguments, strict=True):
                values[slot] = loaded(value if dtype is None else np.asarray(value, dtype=dtype))
            _run_counted(always, values, given, costs)
        found = [values[slots[v]] for v in wanted]
        values.clear()
        _set_alone(found)
        return found

    return function


def _of(node: Apply, rules: _Rules) -> Iterator[Instruction]:
    for step in rules(node, evaluator):
        step.node = node
        yield step


def _stages(
    steps: Sequence[Instruction],
    shared: Sequence[Variable],
    inputs: Sequence[Variable],
    wanted: Sequence[Variable],
    slots: dict[Variable, int],
) -> list[list[Instruction]]:
    """The instructions for what nothing changes, what shared variables change, and the others; each with its slots."""
    stage = dict.fromkeys(shared, 1) | dict.fromkeys(inputs, 2)
    stages: list[list[Instruction]] = [[], [], []]
    last: dict[Variable, Instruction] = {}
    lasting = {*inputs, *shared, *wanted}
    for step in steps:
        number = max((stage.get(i, 0) for i in step.inputs), default=0)
        stage.update(dict.fromkeys(step.outputs, number))
        stages[number].append(step)
    for step in itertools.chain(*stages):
        last.update(dict.fromkeys(step.inputs, step))
    for number, several in enumerate(stages):
        for step in several:
            step.reads, step.writes = tuple([slots[v] for v in step.inputs]), tuple([slots[v] for v in step.outputs])
            done = [v for v in step.inputs if last[v] is step and stage.get(v) == number and v not in lasting]
            step.last = tuple([slots[v] for v in done])
            if not done or step.outputs[0].type.dtype != "float64":
                step.ufunc = None
    return stages


def _references(values: list[Any], k: int) -> int:
    return sys.getrefcount(values[k])


ALONE = _references([np.empty(0)], 0)  # to an array that nothing but a list holds


def _is_alone(values: list[Any], k: int) -> bool:
    """Whether a list is all that holds an array, and the array all that holds its memory."""
    array = isinstance(values[k], np.ndarray) and values[k].base is None and values[k].flags.owndata
    return array and _references(values, k) == ALONE


def _set_alone(values: list[Any]) -> None:
    """Copy what is somebody else's memory, so that no output changes with another."""
    for k in range(len(values)):
        if not _is_alone(values, k) and isinstance(values[k], np.ndarray | np.generic):
            values[k] = np.array(values[k])


def _run(steps: Sequence[Instruction], values: list[Any], *, counts: bool = False) -> float:
    """Run ``steps`` on ``values``; the nanoseconds that they are counted as, if that is asked."""
    cost = 0.0
    for step in steps:
        arguments = [values[r] for r in step.reads]
        for slot in step.last:
            values[slot] = None
        result = _over_an_argument(step.ufunc, arguments) if step.ufunc is not None else None
        if result is None:
            result = step.call(arguments)
        if counts and step.node is not None:
            cost += cost_of(step.node, arguments, result)
        if len(step.writes) == 1:
            values[step.writes[0]] = result
        else:
            for slot, value in zip(step.writes, result or (), strict=True):
                values[slot] = value
        del arguments, result
    return cost


def _run_counted(
    steps: Sequence[Instruction], values: list[Any], given: Sequence[int], costs: dict[Any, float]
) -> None:
    """Run them, and add to what is counted, if anything is: ``costs`` has what they cost by the shapes of ``given``.

    Looking at each instruction every time took a tenth of a latent Gaussian's whole answer.
    """
    if (counting := counted()) is None:
        _run(steps, values)
        return
    shapes = tuple([getattr(values[k], "shape", ()) for k in given])
    cost = _run(steps, values, counts=shapes not in costs)
    counting.nanoseconds += costs.setdefault(shapes, cost)


def _over_an_argument(function: np.ufunc, arguments: list[Any]) -> np.ndarray | None:
    """The result in the memory of an argument that is not needed again; None where none has its size."""
    for k in range(len(arguments)):
        if arguments[k].size < WORTHWHILE or arguments[k].dtype != np.float64 or not _is_alone(arguments, k):
            continue
        shape, shapes = arguments[k].shape, [a.shape for a in arguments]
        if all(s in ((), shape) for s in shapes) or shape == np.broadcast_shapes(*shapes):
            result: np.ndarray = function(*arguments, out=arguments[k])
            return result
    return None
