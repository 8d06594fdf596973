"""The numbers that the priors of a model are written with, by name, and copies of the model with others in their place.

A number is a bare parameter of a prior (the 5 of ``pm.HalfCauchy("tau", 5)`` is ``tau.beta``), one that takes part in
the arithmetic of a parameter (the 10 of ``pm.Normal("a", 0, 10 * sigma)`` is ``a.sigma``), or a data container that
does either, under its own name. Exponents are part of the form of a model, and so are whole 0 and ±1 in arithmetic, as
in ``1 - w``; what counts something (a number of steps, say) is no number that could be a little larger.

In a copy each of some numbers is a data container, so that :meth:`Analysis.with_data
<bayeskit.elimination.analysis.Analysis.with_data>` gives it other values; or a constant again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.model.fgraph import ModelFreeRV, ModelNamed, ModelVar, model_free_rv, model_named
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import toposort

from bayeskit.graphs.rewriting import substitute
from bayeskit.model.data_slots import changed_copy
from bayeskit.model.written_priors import (
    Parameter,
    constant_value,
    distribution_name,
    is_missing_data,
    operation,
    parameters_of,
    through,
)

__all__ = [
    "PriorConstant",
    "prior_constant",
    "prior_constants",
    "prior_matrices",
    "with_containers",
    "with_values",
    "with_variables",
]

ARITHMETIC = {"Add", "Sub", "Mul", "TrueDiv", "Reciprocal", "Neg", "Sqr", "Sqrt", "Exp", "Log", "Abs", "Pow"}
# Parameters that count, or say where: none of them can be a little larger.
COUNTED = {"n", "N", "k", "good", "n_zerosum_axes", "steps", "support_shape", "ar_order"}
OF_WHOLE_NUMBERS = {"lower", "upper"}  # parameters that count where the variable does
ENDS = {"lower", "upper", ("Pareto", "m"), ("Wald", "alpha")}  # parameters that are an end of the support
MATRIX = 2  # dimensions of a parameter whose entries do not move by themselves


@dataclass(frozen=True)
class PriorConstant:
    """One number, or one array, that priors are written with."""

    name: str
    value: np.ndarray
    places: tuple[str, ...]  # every "variable.parameter" that it is written in
    container: bool  # a data container of the model
    is_an_end: bool = False  # of a support: then draws of a posterior say nothing of what lies beyond


def prior_constants(model: pm.Model) -> dict[str, PriorConstant]:
    """The numbers in the priors of a model by name, in the order of its variables."""
    found: dict[str, PriorConstant] = {}
    order = _order(model)

    def look(fgraph: FunctionGraph) -> FunctionGraph:
        found.update({name: constant for name, (_, constant) in _found(fgraph, order).items()})
        return fgraph

    changed_copy(model, look)
    return found


def prior_matrices(model: pm.Model) -> tuple[str, ...]:
    """The parameters of priors that are matrices of numbers, as of a multivariate Normal; none is a prior constant."""
    found: list[str] = []
    order = _order(model)

    def look(fgraph: FunctionGraph) -> FunctionGraph:
        known, nodes = _named_in(fgraph)
        for name in order:
            for parameter in parameters_of(nodes[name].inputs[0], known):
                if parameter.ndim >= MATRIX and _is_number(parameter.value, known):
                    found.append(f"{name}.{parameter.label}")
        return fgraph

    changed_copy(model, look)
    return tuple(found)


def prior_constant(model: pm.Model, name: str) -> PriorConstant | None:
    """A number of the priors by any of its names, or what a data container of real numbers holds."""
    for constant in prior_constants(model).values():
        if name == constant.name or name in constant.places:
            return constant
    for container in model.data_vars:
        if container.name == name and np.dtype(container.type.dtype).kind == "f":
            return PriorConstant(name, np.asarray(container.get_value()), (name,), True)
    return None


def with_containers(model: pm.Model, names: Iterable[str]) -> pm.Model:
    """A copy of a model in which some numbers of its priors are data containers of these names."""

    def container(name: str, value: np.ndarray) -> Any:
        return model_named(pytensor.shared(value, name=name, shape=value.shape), name)

    return changed_copy(model, _put(_order(model), dict.fromkeys(names), container))


def with_variables(model: pm.Model, names: Iterable[str]) -> pm.Model:
    """A copy of a model in which some numbers of its priors are variables, of a density that is one and no family's."""

    def variable(name: str, value: np.ndarray) -> Any:
        def drawn(rng: Any = None, size: Any = None) -> np.ndarray:
            return np.array(value)  # where searches start

        rv = pm.CustomDist.dist(logp=pt.zeros_like, random=drawn, shape=value.shape)
        return model_free_rv(rv, rv.type(name=name), None, name)

    return changed_copy(model, _put(_order(model), dict.fromkeys(names), variable))


def with_values(model: pm.Model, values: Mapping[str, np.ndarray]) -> pm.Model:
    """A copy of a model written with other numbers in its priors, and in data containers."""
    copy = changed_copy(model, _put(_order(model), values, lambda name, value: pt.constant(value)))
    for container in copy.data_vars:
        if container.name in values:
            container.set_value(np.asarray(values[container.name], dtype=container.type.dtype))
    return copy


def _order(model: pm.Model) -> list[str]:
    return [str(rv.name) for rv in model.free_RVs if not is_missing_data(model, rv)]


def _put(
    order: list[str], values: Mapping[str, Any], make: Callable[[str, np.ndarray], Variable]
) -> Callable[..., FunctionGraph]:
    def put(fgraph: FunctionGraph) -> FunctionGraph:
        replaced = {}
        for name, (variable, constant) in _found(fgraph, order).items():
            if name in values and not constant.container:
                value = constant.value if values[name] is None else values[name]
                replaced[variable] = make(name, np.asarray(value, dtype=np.float64))
        result = FunctionGraph(outputs=_with_replaced(list(fgraph.outputs), replaced), clone=False)
        for kept in ("_coords", "_dim_lengths"):  # PyMC's own notes
            setattr(result, kept, getattr(fgraph, kept))
        return result

    return put


def _with_replaced(graphs: list[Variable], replaced: Mapping[Variable, Variable]) -> list[Variable]:
    """Graphs with a real number wherever a whole one is replaced, within symbolic distributions too."""
    memo = dict(replaced)
    for node in toposort(graphs):
        inputs = [memo.get(v, v) for v in node.inputs]
        if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
            continue
        fits = all(v.type.is_super(new.type) for v, new in zip(node.inputs, inputs, strict=True))
        if isinstance(node.op, OpFromGraph) and not fits:
            made = _of_types(node.op, inputs).make_node(*inputs)
        else:
            made = node.clone_with_new_inputs(inputs, strict=False)
        memo.update((old, new) for old, new in zip(node.outputs, made.outputs, strict=True) if old not in memo)
    return [memo.get(g, g) for g in graphs]


def _of_types(op: OpFromGraph, inputs: list[Variable]) -> OpFromGraph:
    """An operation that is a graph, for inputs of other types."""
    inner, fresh = op.fgraph.unfreeze(), [new.type() for new in inputs]
    outputs = substitute(list(inner.outputs), dict(zip(inner.inputs, fresh, strict=True)))
    twin = copy(op)
    OpFromGraph.__init__(twin, fresh, outputs, inline=op.is_inline, strict=True, name=op.name, on_unused_input="ignore")
    return twin


def _found(fgraph: FunctionGraph, order: list[str]) -> dict[str, tuple[Any, PriorConstant]]:
    """By name, what stands for a number in the graph of a model, and the number."""
    containers = {n.inputs[0]: n.op.name for n in fgraph.toposort() if isinstance(n.op, ModelNamed)}
    known, nodes = _named_in(fgraph)
    places: dict[Any, list[str]] = {}
    ends: set[Any] = set()
    for name in order:
        for place, variable, is_an_end in _of_distribution(name, nodes[name].inputs[0], known):
            places.setdefault(variable, []).append(place)
            ends |= {variable} if is_an_end else set()
    found: dict[str, tuple[Any, PriorConstant]] = {}
    for variable, of in places.items():
        if variable in containers:
            name, value = containers[variable], np.asarray(variable.get_value())
        else:
            name, value = of[0], np.asarray(constant_value(variable, known), dtype=np.float64)
        found[name] = (variable, PriorConstant(name, value, tuple(of), variable in containers, variable in ends))
    return found


def _named_in(fgraph: FunctionGraph) -> tuple[set[Any], dict[str, Any]]:
    """Variables and containers of a model's graph, and the node of each free variable by name."""
    known = {v for node in fgraph.toposort() if isinstance(node.op, ModelVar) for v in node.outputs}
    known |= {node.inputs[0] for node in fgraph.toposort() if isinstance(node.op, ModelNamed)}
    return known, {n.op.name: n for n in fgraph.toposort() if isinstance(n.op, ModelFreeRV)}


def _of_distribution(name: str, rv: Variable, known: Collection[Variable]) -> Iterator[tuple[str, Variable, bool]]:
    """Where a distribution has numbers, what stands for them, and whether it is an end of the support.

    Of the distributions within it, too.
    """
    parameters = list(parameters_of(rv, known))
    labels = [p.label or str(k) for k, p in enumerate(parameters, 1)]
    discrete = np.dtype(rv.type.dtype).kind in "biu"
    for k, (label, parameter) in enumerate(zip(labels, parameters, strict=True)):
        several = f"[{labels[:k].count(label)}]" if labels.count(label) > 1 else ""
        place, counts = f"{name}.{label}{several}", label in COUNTED or (discrete and label in OF_WHOLE_NUMBERS)
        if parameter.value.owner is not None and hasattr(parameter.value.owner.op, "dist_params"):
            if parameter.value not in known:
                yield from _of_distribution(place, parameter.value, known)
        elif not counts and parameter.ndim < MATRIX:
            numbers = list(dict.fromkeys(_numbers(parameter, known)))
            for which, number in enumerate(numbers, 1):
                end = label in ENDS or (distribution_name(rv), label) in ENDS
                yield (f"{place}.{which}" if len(numbers) > 1 else place), number, end


def _numbers(parameter: Parameter, known: Collection[Variable]) -> Iterator[Variable]:
    """What stands for a number in a parameter: it is one, or takes part in the arithmetic that gives it."""
    if _is_number(parameter.value, known):
        if np.all(np.isfinite(_value(parameter.value, known))):  # an infinite end of a truncation is none
            yield parameter.value
        return
    todo = [parameter.value]
    while todo:
        variable = through(todo.pop(), known)
        if _is_number(variable, known):
            value = _value(variable, known)
            form = value.dtype.kind in "biu" and not isinstance(variable, SharedVariable) and np.all(abs(value) <= 1)
            if value.size == 1 and np.isfinite(value).all() and not form:
                yield variable
        elif variable not in known and variable.owner is not None:
            operator = type(operation(variable)).__name__
            if operator in ARITHMETIC:
                todo += reversed(variable.owner.inputs[: 1 if operator == "Pow" else None])


def _is_number(variable: Variable, known: Collection[Variable]) -> bool:
    if isinstance(variable, SharedVariable):
        return variable in known and np.dtype(variable.type.dtype).kind == "f"
    value = constant_value(variable, known)
    return value is not None and value.dtype.kind in "biuf" and value.size > 0


def _value(variable: Variable, known: Collection[Variable]) -> np.ndarray:
    return np.asarray(variable.get_value() if isinstance(variable, SharedVariable) else constant_value(variable, known))
