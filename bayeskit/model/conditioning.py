r"""A model with some of its variables held at values, and a model without its data, as plain ``pm.Model`` objects.

With :math:`Z` the evidence of a model and :math:`Z_{\delta = a}` that of the same model with :math:`\delta` observed,

.. math:: p(\delta = a \mid y) = Z_{\delta = a} / Z.

A difference :math:`\delta = \sum_k c_k \theta_k + c` is held at :math:`a` by one of its entries, the pivot, which is
then a function of the others: :math:`\theta_p = (a - c - \sum_{k \ne p} c_k \theta_k) / c_p`, with the density
:math:`p(\theta_p) / |c_p|` in the place of its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import create_partial_observed_rv
from pymc.distributions.transforms import _default_transform
from pymc.model.fgraph import (
    ModelFreeRV,
    ModelObservedRV,
    ModelVar,
    model_deterministic,
    model_free_rv,
    model_observed_rv,
    model_potential,
)
from pymc.pytensorf import toposort_replace
from pymc.util import get_transformed_name
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from scipy import linalg

from bayeskit.errors import ModelError
from bayeskit.graphs.nodes import evaluated_shape
from bayeskit.model.data_slots import changed_copy
from bayeskit.model.support import support_of

__all__ = ["LinearForm", "NotHeld", "held_at", "without_data"]

EQUAL = ("positive", "unit")  # supports that are the same for all variables that have them

TIED = 1e-12  # share of the largest pivot

type Entry = tuple[str, int]  # a variable, and the place of one of its numbers in C order


class NotHeld(Exception):
    """No plain model has these variables at these values; the message says why."""


@dataclass(frozen=True)
class LinearForm:
    """A number that is a weighted sum of entries of free variables and a constant."""

    terms: Mapping[Entry, float] = field(default_factory=dict)
    constant: float = 0.0

    def __add__(self, other: LinearForm) -> LinearForm:
        terms = dict(self.terms)
        for entry, coefficient in other.terms.items():
            terms[entry] = terms.get(entry, 0.0) + coefficient
        return LinearForm({e: c for e, c in terms.items() if c}, self.constant + other.constant)

    def times(self, factor: float) -> LinearForm:
        """Every coefficient multiplied."""
        return LinearForm({e: factor * c for e, c in self.terms.items() if factor * c}, factor * self.constant)

    def shifted(self, constant: float) -> LinearForm:
        """A constant more."""
        return LinearForm(self.terms, self.constant + constant)

    @property
    def names(self) -> set[str]:
        """The variables that enter."""
        return {name for name, _ in self.terms}


def without_data(model: pm.Model, names: Iterable[str]) -> pm.Model:
    """The prior of some free variables and Deterministics: these, and what they are made of."""
    wanted = set(names)

    def prune(fgraph: FunctionGraph) -> None:
        nodes = [n for n in fgraph.apply_nodes if isinstance(n.op, ModelVar)]
        above = set(ancestors([n.outputs[0] for n in nodes if n.op.name in wanted]))
        for node in nodes:
            if node.outputs[0] not in above:
                fgraph.remove_node(node)
            elif isinstance(node.op, ModelObservedRV):
                raise ModelError(f"the prior of {', '.join(sorted(wanted))} is made of the observed {node.op.name!r}")

    return changed_copy(model, prune)


def held_at(model: pm.Model, forms: Sequence[LinearForm], values: Sequence[float]) -> pm.Model:
    """The model given that each form has its value; NotHeld where that is no plain model."""
    single: dict[Entry, float] = {}
    others: list[tuple[LinearForm, float]] = []
    log_jacobian = 0.0
    for form, value in zip(forms, values, strict=True):
        if len(form.terms) > 1:
            others.append((form, value))
            continue
        ((entry, coefficient),) = form.terms.items()
        if entry in single:
            raise NotHeld("an entry is held at two values")
        single[entry] = (value - form.constant) / coefficient
        log_jacobian -= math.log(abs(coefficient))
    pivot = _pivot(model, others, {n for n, _ in single}) if others else None
    log_jacobian += pivot.log_jacobian if pivot else 0.0

    def hold(fgraph: FunctionGraph) -> None:
        of = {n.op.name: n.outputs[0] for n in fgraph.apply_nodes if isinstance(n.op, ModelFreeRV)}
        replaced: dict[Any, Any] = {}
        for name in {n for n, _ in single}:
            known = {k: value for (n, k), value in single.items() if n == name}
            replaced[of[name]] = _observed(of[name], evaluated_shape(model[name]), known)
        potentials = [model_potential(pt.as_tensor(log_jacobian), "log of a Jacobian")] if log_jacobian else []
        if pivot is not None:
            replaced[of[pivot.name]], log_density = _solved(model, of, pivot)
            potentials.append(model_potential(log_density, f"log density of {pivot.name}"))
        for potential in potentials:
            fgraph.add_output(potential, import_missing=True)
        toposort_replace(fgraph, tuple(replaced.items()))

    return changed_copy(model, hold)


def _observed(variable: Any, shape: tuple[int, ...], known: Mapping[int, float]) -> Any:
    """A variable of the graph of a model, all or some of its entries observed."""
    (rv, _), op = variable.owner.inputs, variable.owner.op
    size = math.prod(shape)
    data = np.zeros(size, dtype=rv.type.dtype)
    data[list(known)] = list(known.values())
    if len(known) == size:
        return model_observed_rv(rv, rv.type.filter_variable(data.reshape(shape)), op.name, *op.dims)
    seen, where, free, rest = _split(variable, shape, known)
    fixed = model_observed_rv(seen, pt.as_tensor(data.reshape(shape)[where]), f"{op.name}_observed")
    joined = pt.set_subtensor(pt.empty(shape, dtype=rv.type.dtype)[rest], free)
    return model_deterministic(pt.set_subtensor(joined[where], fixed), op.name, *op.dims)


def _split(variable: Any, shape: tuple[int, ...], taken: Collection[int]) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """The entries of a variable that are taken, as one random variable, and the others, which stay free; with masks."""
    (rv, _), op = variable.owner.inputs, variable.owner.op
    rest = np.ones(math.prod(shape), dtype=bool)
    rest[list(taken)] = False
    rest = rest.reshape(shape)
    (seen, _), (unseen, _), _ = create_partial_observed_rv(rv, pt.as_tensor(rest))
    transform = _default_transform(unseen.owner.op, unseen)
    if type(transform) is not type(op.transform):
        raise NotHeld(f"the transform of {op.name!r} is not one of its entries")
    name = f"{op.name}_unobserved"
    value = unseen.type(name=name if transform is None else get_transformed_name(name, transform))
    return seen, ~rest, model_free_rv(unseen, value, transform, name), rest


@dataclass(frozen=True)
class _Pivot:
    """Entries of one variable as a function of what else enters some forms: x = constant − Σ matrix · the others."""

    name: str
    entries: list[int]  # in increasing order
    constant: np.ndarray
    matrices: dict[str, np.ndarray]  # by variable, of all of its entries
    log_jacobian: float


def _pivot(model: pm.Model, others: Sequence[tuple[LinearForm, float]], held: set[str]) -> _Pivot:
    """A variable of which some entries are settled by the forms, which are made of nothing that depends on it."""
    entered = set().union(*[f.names for f, _ in others])
    if entered & held:
        raise NotHeld(f"{', '.join(sorted(entered & held))} is held by itself and as a part of a difference")
    rows = {n: np.zeros((len(others), math.prod(evaluated_shape(model[n])))) for n in sorted(entered)}
    for row, (form, _) in enumerate(others):
        for (name, k), coefficient in form.terms.items():
            rows[name][row, k] = coefficient
    target = np.array([value - form.constant for form, value in others])
    for rv in reversed([rv for rv in model.free_RVs if rv.name in entered]):
        own = rows[str(rv.name)]
        below = {str(other.name) for other in model.free_RVs if other is not rv and rv in ancestors([other])}
        everywhere = support_of(model, rv).kind == "real" or _equal(model, str(rv.name), others)
        if own.shape[1] < len(others) or below & entered or not everywhere:
            continue
        _, triangle, order = linalg.qr(own, mode="economic", pivoting=True)
        size = np.abs(np.diag(triangle))
        if size[-1] <= TIED * size[0]:
            continue
        entries = sorted(order[: len(others)].tolist())
        inverse = np.linalg.inv(own[:, entries])
        matrices = {n: inverse @ r for n, r in rows.items()}
        matrices[str(rv.name)][:, entries] = 0.0
        constant, log_jacobian = inverse @ target, float(np.linalg.slogdet(inverse)[1])
        return _Pivot(str(rv.name), entries, constant, {n: m for n, m in matrices.items() if m.any()}, log_jacobian)
    raise NotHeld("no variable of the difference can be taken as a function of the others")


def _equal(model: pm.Model, name: str, others: Sequence[tuple[LinearForm, float]]) -> bool:
    """Whether a variable is to be equal, entry by entry, to one that has the same support."""
    for form, value in others:
        if len(form.terms) != 2 or math.fsum(form.terms.values()) or form.constant != value:
            return False
        (other,) = form.names - {name} or {name}
        kinds = [support_of(model, model[n]).kind for n in (name, other)]
        if kinds[0] != kinds[1] or kinds[0] not in EQUAL:
            return False
    return len(others) == 1


def _solved(model: pm.Model, of: Mapping[str, Any], pivot: _Pivot) -> tuple[Any, Any]:
    """The pivot's variable as a graph in all others, and the log density of its entries."""
    variable, shape = of[pivot.name], evaluated_shape(model[pivot.name])
    rv, op = variable.owner.inputs[0], variable.owner.op
    base: Any = None
    where, seen = np.ones(shape, dtype=bool), rv
    if len(pivot.entries) < math.prod(shape):
        seen, where, free, rest = _split(variable, shape, pivot.entries)
        if not isinstance(seen.owner.op, RandomVariable):
            raise NotHeld(f"the entries of {pivot.name!r} have no densities of their own")
        base = pt.set_subtensor(pt.zeros(shape, dtype=rv.type.dtype)[rest], free)
    solved: Any = pt.as_tensor(pivot.constant)
    for name, matrix in pivot.matrices.items():
        other = base if name == pivot.name else of[name]
        if other.type.ndim == 0:
            solved = solved - pt.as_tensor(matrix[:, 0]) * other
        elif matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.diag(np.diag(matrix))):
            solved = solved - pt.as_tensor(np.diag(matrix)) * other.flatten()
        else:
            solved = solved - pt.dot(pt.as_tensor(matrix), other.flatten())
    if base is None:
        whole = solved.reshape(shape)
        return model_deterministic(whole, op.name, *op.dims), pm.logp(rv, whole, warn_rvs=False)
    whole = pt.set_subtensor(base[where], solved)
    return model_deterministic(whole, op.name, *op.dims), pm.logp(seen, solved, warn_rvs=False)
