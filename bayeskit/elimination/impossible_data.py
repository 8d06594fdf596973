"""Data that no value of the variables explains: found before anything is computed, with their place.

A LogNormal observation of zero, a count of −1, an infinite or missing number: whatever the parameters are, the density
is zero or none. That it is zero is read off PyMC's own graph: where a ``switch`` whose condition depends on data alone
gives −∞, and what it gives is a term of the log density, no parameter mends it. At an end of a support, as where a
Beta variable is 0, and with an infinite covariate the density is zero or infinite at all typical points instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.utils import ParameterValueError
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc

from bayeskit.arguments import all_finite
from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.check_points import typical_points
from bayeskit.elimination.positive_definite import require_positive_definite
from bayeskit.errors import DataError, UnanswerableError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.nodes import applies, constant_number
from bayeskit.model.data_slots import held_array
from bayeskit.model.distribution_functions import require_right_distribution_functions
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.support import support_without_transform
from bayeskit.types import Graph, Point

__all__ = ["entry_at_fault", "require_answerable", "require_possible"]

CHECK = "check it against its distribution"
TYPICAL = 8  # points, of which an entry that is possible has a density at one

type Conditions = Mapping[str, Callable[[], np.ndarray]]  # of each observed variable, whether its entries are possible


def require_answerable(analysis: Analysis) -> None:
    """Refuse what no method can answer: data, parameters and covariances that are impossible or no numbers."""
    analysis.remembered("distributions", partial(require_right_distribution_functions, analysis.original.model))
    conditions = analysis.remembered("conditions", lambda: _conditions(analysis.original))
    require_possible(
        analysis.original, conditions, analysis.remembered("constants", partial(_constants_of, analysis.original))
    )
    _require_density(analysis)
    require_positive_definite(analysis)


def require_possible(
    joint: LogJoint, conditions: Conditions | None = None, constants: Mapping[str, set[Graph]] | None = None
) -> None:
    """Refuse data that are not numbers, by a DataError, or impossible whatever the variables are: UnanswerableError.

    The conditions that the density puts on data, and the constants in it, may be given, where they are at hand.
    """
    observed = {str(rv.name): _held(joint.model.rvs_to_values[rv]) for rv in joint.model.observed_RVs}
    for name, values in observed.items():
        if not all_finite(values):
            _require(name, values, np.isfinite(values))
    for rv in joint.model.observed_RVs:
        # PyMC cuts fractions off what a count is observed to be: of a container it does so without a word.
        node = joint.model.rvs_to_values[rv].owner
        if node is not None and applies(node, ps.Cast) and rv.dtype.startswith("int"):
            given = _held(node.inputs[0])
            _require(str(rv.name), given, given == np.floor(given), "is not a whole number")
    for container in joint.model.data_vars:
        if not all_finite(values := _held(container)):
            _require(str(container.name), values, ~np.isnan(values))
    for name, several in (_constants_of(joint) if constants is None else constants).items():
        for values in (held for held in map(_held, several) if not all_finite(held)):
            _require(f"a constant in the density of {name!r}: it", values, ~np.isnan(values))
    for name, holds in (_conditions(joint) if conditions is None else conditions).items():
        with silently():
            possible = np.asarray(holds())
        if not np.all(possible):
            if name not in observed:
                raise UnanswerableError(f"the model is impossible: {name}; check its numbers")
            values, there = observed[name], possible.ndim == observed[name].ndim and observed[name].size
            place = _first(name, values, np.broadcast_to(possible, values.shape)) if there else f"an entry of {name}"
            raise UnanswerableError(f"the data are impossible whatever the variables are: {place}; {CHECK}")


def entry_at_fault(analysis: Analysis, point: Point) -> str:
    """What has density zero or none at a point, to follow a sentence: an entry of the data, a prior; empty if none."""
    joint = analysis.joint
    filled = {n: np.zeros(analysis.shapes[n]) for n in joint.names} | point
    free = [rv for rv in joint.model.free_RVs if rv.name in point]
    for rv in [rv for rv in (*free, *joint.model.observed_RVs) if rv.name in joint.factors]:
        try:
            with silently():
                terms = compile_small(list(joint.values.values()), joint.factors[rv.name])(*joint.arguments(filled))
        except ParameterValueError as error:
            return f" (it needs {str(error).splitlines()[0]} of the parameters of {rv.name!r})"
        except (ArithmeticError, ValueError, IndexError, AssertionError):
            return f" (that of {rv.name!r} cannot be evaluated)"
        values, fine = _held(joint.model.rvs_to_values[rv]), np.isfinite(terms)
        if rv not in free and not np.all(fine):
            place = _first(rv.name, values, fine) if fine.shape == values.shape else rv.name
            return f" ({place}, of density zero there)"
    return ""


def _require_density(analysis: Analysis) -> None:
    """Refuse data at an end of a support that no typical point gives a density, and infinite covariates.

    The density of a Beta variable is zero or infinite at 0 and 1, whatever its parameters are but for some exact ones.
    """
    joint = analysis.original
    containers = [(str(v.name), _held(v)) for v in joint.model.data_vars]
    for rv in [rv for rv in joint.model.observed_RVs if rv.name in joint.factors]:
        name, values = str(rv.name), _held(joint.model.rvs_to_values[rv])
        constants = analysis.remembered("constants", partial(_constants_of, joint))[name]
        leaves = [*containers, *((f"a constant in the density of {name!r}: it", _held(c)) for c in constants)]
        infinite = [(leaf, held) for leaf, held in leaves if held.ndim and not all_finite(held)]
        bounded = values.dtype.kind == "f" and support_without_transform(rv).kind != "real"
        edges = np.isin(values, (0, 1)) & bounded
        if not (infinite or np.any(edges)):
            continue
        finite = _has_density(analysis, name)
        never, outer = ~finite.any(axis=0), tuple(range(finite.ndim - 1, values.ndim))
        if never.any() and finite.shape[1:] == edges.any(axis=outer).shape and np.all(edges.any(axis=outer)[never]):
            edges &= never.reshape(never.shape + (1,) * len(outer))
            raise UnanswerableError(f"{_first(name, values, ~edges)}, where its distribution has no density; {CHECK}")
        for leaf, held in infinite:  # times a coefficient: at both ends of the line
            rows = np.isinf(held).any(axis=tuple(range(finite.ndim - 1, held.ndim)))
            if np.array_equal(rows, ~finite.all(axis=0)):
                _require(leaf, held, np.isfinite(held))


def _has_density(analysis: Analysis, name: str) -> np.ndarray:
    """Whether each entry of an observed variable has a density at each of a few typical points."""
    joint = analysis.original
    density = partial(compile_small, list(joint.values.values()), joint.factors[name])
    points = analysis.remembered("typical", lambda: typical_points(analysis, TYPICAL, names=joint.names))
    try:
        with silently():
            function = analysis.remembered(f"density of {name}", density)
            return np.isfinite([function(*joint.arguments(point)) for point in points])
    except (ArithmeticError, AssertionError, ValueError):  # values that a distribution or the author does not allow
        return np.ones(TYPICAL, dtype=bool)


def _held(variable: Any) -> np.ndarray:
    """The numbers of a constant or of shared data; none of anything else."""
    data = held_array(variable)
    return np.empty(0) if data is None else data


def _constants_of(joint: LogJoint) -> dict[str, set[Graph]]:
    return {name: _constants(graph) for name, graph in joint.factors.items()}


def _constants(graph: Graph) -> set[Graph]:
    """The constants of a density, but for the branches of a choice: PyTensor writes √x² as x where x ≥ 0, else NaN."""
    nodes = toposort([graph])
    return {i for n in nodes for i in n.inputs[: 1 if applies(n, ps.Switch) else None] if isinstance(i, Constant)}


def _require(name: str, values: np.ndarray, fine: np.ndarray, what: str = "is no finite number") -> None:
    if not np.all(fine):
        raise DataError(f"{_first(name, values, fine)}, which {what}; correct it, or leave it out")


def _first(name: str, values: np.ndarray, fine: np.ndarray) -> str:
    """The first entry that is not fine, with its value and how many more there are."""
    bad = np.argwhere(~fine)
    index = ", ".join(map(str, bad[0]))
    more = f" (and {len(bad) - 1:,} more)" if len(bad) > 1 else ""
    return f"{name}{f'[{index}]' if index else ''} is {values[tuple(bad[0])]:g}{more}"


def _conditions(joint: LogJoint) -> Conditions:
    """For each observed variable, whether its entries may have a density, where the graph says that some may not.

    And by what it needs, whether the parameters of a distribution are possible, where no variable decides that; of
    covariances ``require_positive_definite`` says more.
    """
    found = {}
    for name, graph in joint.factors.items():
        for node in [n for n in toposort([graph]) if isinstance(n.op, CheckAndRaise)]:
            needs = f"it needs {str(node.op.msg).splitlines()[0]} of the parameters of {name!r}"
            given = [c for c in node.inputs[1:] if _is_data(c) and "posdef" not in needs]
            if given and needs not in found:
                found[needs] = compile_small([], pt.all(pt.stack([pt.all(c) for c in given])))
    for rv in joint.model.observed_RVs:
        possible = _possible(joint.factors[rv.name])
        if not isinstance(possible, bool):
            found[str(rv.name)] = compile_small([], possible)
    return found


def _possible(graph: Graph) -> Graph | bool:
    """Whether a log density may be more than −∞: a graph of the data alone, or the same for all of them."""
    node = graph.owner
    if constant_number(graph) == -np.inf:
        return False
    if node is None:
        return True
    if isinstance(node.op, CheckAndRaise | Alloc) or applies(node, ps.Cast):
        return _possible(node.inputs[0])
    if applies(node, ps.Add):
        return reduce(_both, [_possible(term) for term in node.inputs])
    if not applies(node, ps.Switch):
        return True
    condition, *branches = node.inputs
    first, second = (_possible(branch) for branch in branches)
    if first is True and second is True:
        return True
    negated = pt.eq(condition, 0) if _is_data(condition) else True
    return _either(_both(_may_hold(condition), first), _both(negated, second))


def _may_hold(condition: Graph) -> Graph | bool:
    """Whether a condition may be true for some value of the variables: all of its parts that the data decide are."""
    if _is_data(condition):
        return pt.neq(condition, 0)
    if condition.owner is not None and applies(condition.owner, ps.AND, ps.Mul):
        return reduce(_both, [_may_hold(part) for part in condition.owner.inputs])
    return True


def _is_data(graph: Graph) -> bool:
    """Whether no variable enters, be it by its shape alone."""
    return all(isinstance(i, Constant | SharedVariable) for i in graph_inputs([graph]))


def _both(one: Graph | bool, other: Graph | bool) -> Graph | bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return (other if one else False) if isinstance(one, bool) else (one if other else False)
    return pt.and_(one, other)


def _either(one: Graph | bool, other: Graph | bool) -> Graph | bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return (True if one else other) if isinstance(one, bool) else (True if other else one)
    return pt.or_(one, other)
