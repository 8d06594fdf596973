"""A copy of a model whose data can be exchanged: every observed array and every data container is a slot for values.

While slots are sealed their values cannot be read. What is proved of a model with sealed slots therefore holds for all
data of these shapes and types.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.model.fgraph import ModelNamed, ModelObservedRV, fgraph_from_model, model_from_fgraph
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.sharedvar import TensorSharedVariable

from bayeskit.arguments import numeric
from bayeskit.errors import DataError
from bayeskit.types import Graph

__all__ = [
    "DataRead",
    "DataSlot",
    "changed_copy",
    "filled",
    "held_array",
    "sealed",
    "sealed_in",
    "take_out",
    "uncut",
    "unsealed",
    "with_constants",
    "with_slots",
]


class _Sealed:
    """What lies in a sealed slot in the place of its value: no operation takes it."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value


class DataRead(RuntimeError):
    """The value of a sealed slot was asked for."""


class DataSlot(TensorSharedVariable):
    """A shared variable that may be sealed."""

    @property
    def is_sealed(self) -> bool:
        """Whether its value cannot be read now."""
        return isinstance(self.container.storage[0], _Sealed)

    def get_value(self, borrow: bool = False, return_internal_type: bool = False) -> Any:
        if self.is_sealed:
            raise DataRead(str(self.name))
        return super().get_value(borrow=borrow, return_internal_type=return_internal_type)


def held_array(leaf: Any) -> np.ndarray | None:
    """The numbers of a constant or of shared data; None of anything else."""
    data = leaf.data if isinstance(leaf, Constant) else None
    if isinstance(leaf, SharedVariable):
        data = leaf.get_value(borrow=True)
    return data if isinstance(data, np.ndarray) and data.dtype.kind in "biuf" else None


def sealed_in(graphs: Iterable[Graph]) -> list[DataSlot]:
    """The sealed slots that graphs depend on."""
    return [v for v in graph_inputs(graphs) if isinstance(v, DataSlot) and v.is_sealed]


@contextmanager
def sealed(slots: Iterable[DataSlot]) -> Iterator[None]:
    """Within it the values of the slots cannot be read, by ``get_value`` or by a compiled function."""
    with _holding({slot: _Sealed(slot.get_value(borrow=True)) for slot in slots}):
        yield


@contextmanager
def unsealed(slots: Iterable[DataSlot]) -> Iterator[None]:
    """Within it the values can be read again, for a question that goes on record."""
    stored = {slot: slot.container.storage[0] for slot in slots}
    with _holding({s: v.value if isinstance(v, _Sealed) else v for s, v in stored.items()}):
        yield


@contextmanager
def _holding(content: Mapping[DataSlot, Any]) -> Iterator[None]:
    before = {slot: slot.container.storage[0] for slot in content}
    for slot, value in content.items():
        slot.container.storage[0] = value
    try:
        yield
    finally:
        for slot, value in before.items():
            slot.container.storage[0] = value


def with_slots(model: pm.Model) -> tuple[pm.Model, dict[str, DataSlot]]:
    """A copy of a model with slots, and these by the names of data containers and observed variables.

    An observed variable whose values are those of a container has the container's slot.
    """

    def slot(name: str, value: np.ndarray, container: bool, lengths: tuple[int | None, ...]) -> DataSlot:
        plain = pytensor.shared(value, name=name, shape=lengths)
        nothing: Any = None  # PyTensor's own form for a container that is there already
        return DataSlot(type=plain.type, value=nothing, strict=nothing, container=plain.container, name=name)

    copy, leaves = _copied(model, slot)
    return copy, {n: v for n, v in leaves.items() if isinstance(v, DataSlot)}


def with_constants(model: pm.Model, *, containers: bool = True) -> pm.Model:
    """A copy of a model with slots as a person writes one: containers, and constants for what is observed.

    Without ``containers`` their values are constants, too.
    """

    def leaf(name: str, value: np.ndarray, container: bool, lengths: tuple[int | None, ...]) -> Graph:
        is_container = container and containers
        return pytensor.shared(value, name=name, shape=lengths) if is_container else pt.constant(value)

    return _copied(model, leaf)[0]


def _copied(model: pm.Model, leaf: Callable[..., Any]) -> tuple[pm.Model, dict[str, Any]]:
    """A copy of a model with other leaves in the place of its data, and these by name."""
    leaves: dict[str, Any] = {}

    def exchange(fgraph: FunctionGraph) -> None:
        for node in [n for n in fgraph.toposort() if isinstance(n.op, ModelNamed)]:
            (old,) = node.inputs
            if isinstance(old, TensorSharedVariable):
                leaves[node.op.name] = leaf(node.op.name, old.get_value(), True, old.type.shape)
                fgraph.replace(old, leaves[node.op.name], import_missing=True)
        for node in [n for n in fgraph.toposort() if isinstance(n.op, ModelObservedRV)]:
            value = node.inputs[1]
            if value.owner is not None and isinstance(value.owner.op, ModelNamed):
                value = value.owner.inputs[0]
            if isinstance(value, Constant) and isinstance(value.type, pt.TensorType):
                leaves[node.op.name] = leaf(node.op.name, np.array(value.data), False, np.shape(value.data))
                fgraph.change_node_input(node, 1, leaves[node.op.name], import_missing=True)
            elif isinstance(value, DataSlot) and value not in leaves.values():
                leaves[node.op.name] = leaf(node.op.name, value.get_value(), False, value.type.shape)
                fgraph.change_node_input(node, 1, leaves[node.op.name], import_missing=True)
            elif isinstance(value, SharedVariable):
                leaves.setdefault(node.op.name, value)

    return changed_copy(model, exchange), leaves


def take_out(fgraph: FunctionGraph, node: Any) -> None:
    """Take a variable of a model out; what depends on it depends on its value."""
    out = node.outputs[0]
    if out in fgraph.outputs:
        fgraph.remove_output(fgraph.outputs.index(out))
    if fgraph.clients.get(out):
        inside = node.inputs[1] if isinstance(node.op, ModelObservedRV) else node.inputs[0]
        fgraph.replace(out, inside, import_missing=True)


def changed_copy(model: pm.Model, change: Callable[[FunctionGraph], FunctionGraph | None]) -> pm.Model:
    """A copy of a model with something changed in its graph, in which a variable is a node of PyMC's ``ModelVar``.

    ``change`` changes the graph that it is given, or gives back another.
    """
    initial = dict(model.rvs_to_initial_values)
    # PyMC copies no variable of which some axes have dims and some have none: the copy goes without.
    partly = {name: dims for name, dims in model.named_vars_to_dims.items() if dims and None in dims}
    # PyMC copies no model that has starting values; a closed form needs none, and quadrature finds its own.
    model.rvs_to_initial_values.update(dict.fromkeys(initial))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of Gaussian processes: the copy is not added to
            model.named_vars_to_dims.update(dict.fromkeys(partly, ()))
            fgraph, _ = fgraph_from_model(model)
    finally:
        model.named_vars_to_dims.update(partly)
        model.rvs_to_initial_values.update(initial)
    other = change(fgraph)
    copy = model_from_fgraph(fgraph if other is None else other, mutate_fgraph=True)
    # PyMC puts what depends on nothing first; plans name variables in the order in which they are declared.
    for own, theirs in ((copy.free_RVs, model.free_RVs), (copy.observed_RVs, model.observed_RVs)):
        place = {rv.name: k for k, rv in enumerate(theirs)}
        own.sort(key=lambda rv, place=place: place.get(rv.name, len(place)))
    free = {rv.name: rv for rv in copy.free_RVs}
    for rv in [rv for rv in model.free_RVs if rv.name in free]:
        if isinstance(initial.get(rv), np.ndarray | float | int | str):
            copy.set_initval(free[rv.name], initial[rv])
    return copy


def filled(slots: Mapping[str, DataSlot], data: Mapping[str, Any]) -> dict[DataSlot, np.ndarray]:
    """Values for slots, each of its slot's shape and type; a DataError where they are not, or some are missing."""
    result: dict[DataSlot, np.ndarray] = {}
    for name, value in data.items():
        if name not in slots:
            raise DataError(f"no data {name!r} in the model; it has {', '.join(slots) or 'none'}")
        slot = slots[name]
        array = numeric(f"the new values of {name!r}", value)
        shape = np.shape(slot.get_value(borrow=True))
        if array.shape != shape:
            raise DataError(f"the new values of {name!r} have shape {array.shape}; those of before have {shape}")
        if np.any(np.isnan(array)):
            raise DataError(f"the new values of {name!r} have missing entries, which make another model; build it anew")
        result[slot] = uncut(name, array, slot.type.dtype)
    return result


def uncut(name: str, given: Any, dtype: Any) -> np.ndarray:
    """New values as another type of number; a DataError where that would cut fractions off, or has no such number."""
    values = numeric(f"the new values of {name!r}", given)
    with np.errstate(invalid="ignore"):
        cast = values.astype(dtype)
    if cast.dtype.kind != "f" and not np.array_equal(cast, values):
        raise DataError(f"the new values of {name!r} are not all whole numbers of type {cast.dtype}")
    return cast
