r"""The expected log density Q(φ) = Σ r t(φ) of the M step, from weighted moments of the data where it has some.

A part of Q that is a sum over rows is reduced by :mod:`bayeskit.point_estimates.sufficient_statistics`: with weights r,
columns y and a centre :math:`c = \sum_n r_n y_n / \sum_n r_n` it needs Σ r, Σ r (y − c) and Σ r (y − c)(y − c)ᵀ, three
matrix products an iteration, and its derivatives cost nothing that grows with the data. Other parts are evaluated row
by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.scalar.basic import Switch
from pytensor.tensor.elemwise import Elemwise

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.rewriting import depends_on, entry, substitute, with_known_shapes
from bayeskit.point_estimates.column_forms import Columns, NotReduced
from bayeskit.point_estimates.complete_data import CompleteData, weighted
from bayeskit.point_estimates.moment_sums import MomentSums
from bayeskit.point_estimates.sufficient_statistics import form_of
from bayeskit.types import Graph, Point

__all__ = ["Expected", "Moments", "Score", "expected_log_density", "log_prior_of"]

SEVERAL = 16  # sequences, or entries beside the rows, up to which each is a part of its own

Score = Callable[[Point, Point, Sequence[np.ndarray]], Point]


@dataclass(frozen=True, eq=False)
class ExpectedPart:
    """Σ weight · graph over all its entries; ``source`` says which array of weights, and where in it."""

    graph: Graph
    weight: Graph | None = None
    source: tuple[int, tuple[Any, ...]] | None = None


@dataclass(frozen=True, eq=False)
class Moments:
    """What a reduced part asks of the data: columns (P, N), where its weights are, and products of inner weights."""

    columns: np.ndarray
    source: tuple[int, tuple[Any, ...]] | None
    groups: tuple[tuple[tuple[int, int, int], ...], ...]
    second: bool

    def evaluate(self, weights: Sequence[np.ndarray], inner: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The centre, and for each group of weights Σ r, Σ r (y − c), Σ r (y − c)(y − c)ᵀ as one vector."""
        found = self.sums(weights, inner)
        return [found.centre, *found.groups]

    def sums(self, weights: Sequence[np.ndarray], inner: Sequence[np.ndarray]) -> MomentSums:
        """The moments about the mean of the rows."""
        rows = self.columns.shape[1]
        weight = np.ones(rows) if self.source is None else weights[self.source[0]][self.source[1]]
        weight = np.ascontiguousarray(np.broadcast_to(weight, (rows,)))
        total = np.sum(weight)
        centre = self.columns @ weight / total if total > 0 else np.mean(self.columns, axis=1)
        centred = self.columns - centre[:, None]
        found = []
        for group in self.groups:
            r = weight
            for array, axis, place in group:
                r = r * np.moveaxis(inner[array], axis, -1).reshape(-1, rows)[place]
            scaled = centred * r
            second = (scaled @ centred.T).ravel() if self.second else np.zeros(len(centre) ** 2)
            found.append(np.concatenate([[np.sum(r)], scaled.sum(axis=1), second]))
        return MomentSums(float(total), centre, tuple(found))


@dataclass(frozen=True, eq=False)
class Expected:
    """Q of one model, in φ and in the moments, the weights and the inner weights, which are its ``inputs`` in turn.

    ``inner`` are the inner weights as graphs in φ₀.
    """

    data: CompleteData
    total: Graph
    inputs: list[Graph]
    moments: tuple[Moments, ...]
    inner: tuple[Graph, ...]

    def statistics(self, weights: Sequence[np.ndarray], inner: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The values of ``inputs``."""
        found = [m for part in self.moments for m in part.evaluate(weights, inner)]
        return [*found, *weights, *inner]

    def score(self, names: Sequence[str], count: int) -> Score:
        """∂Q/∂φ for some of the variables: (their values at several points, all of φ, statistics) → one array each.

        The points are taken ``count`` at a time: where their number is not known beforehand a call takes twice as long.
        """
        values = self.data.values
        gradient: Any = pytensor.grad(self.total, [values[n] for n in names], disconnected_inputs="ignore")
        moving = {values[n]: pt.tensor(dtype="float64", shape=(count, *values[n].type.shape)) for n in names}
        held = [n for n in values if n not in names]
        inputs = [*moving.values(), *[values[n] for n in held], *self.inputs]
        function = compile_small(inputs, vectorize_graph(with_known_shapes(gradient), moving))

        def evaluate(points: Point, fixed: Point, statistics: Sequence[np.ndarray]) -> Point:
            given = [*[fixed[n] for n in held], *statistics]
            total, parts = len(next(iter(points.values()))), []
            for start in range(0, total, count):
                rows = np.minimum(np.arange(start, start + count), total - 1)
                here = [points[n][rows] for n in names]
                with silently():
                    found = function(*here, *given)
                # What does not depend on the point comes back once.
                parts.append([np.broadcast_to(f, x.shape) for f, x in zip(found, here, strict=True)])
            return {n: np.concatenate(each)[:total] for n, each in zip(names, zip(*parts, strict=True), strict=True)}

        return evaluate


def expected_log_density(data: CompleteData, *, with_prior: bool, reduced: bool = True) -> Expected:
    """Q of a model, as a graph in φ and in what the E step gives; ``reduced`` to moments where it can be."""
    parts = _parts(data)
    if with_prior:
        parts += [ExpectedPart(g) for g in data.priors.values()]
    graphs, inner = _cut([p.graph for p in parts], data)
    inputs = list(inner)
    weights = [w for s in data.sums for w in s.weights]
    variables = [*data.values.values(), *inputs, *weights]
    graphs = _folded(graphs, depends_on(graphs, variables))
    latent = depends_on(graphs, variables)
    terms, moment_inputs = [], []
    moments: list[Moments] = []
    for part, graph in zip(parts, graphs, strict=True):
        if not latent.get(graph):
            continue
        found = _reduce(part, graph, latent, inputs) if reduced else None
        if found is None:
            terms.append(pt.sum(graph if part.weight is None else weighted(part.weight, graph)))
        else:
            term, asked, needed = found
            terms.append(term)
            # One copy of the columns that all states read.
            same = [m.columns for m in moments if np.array_equal(m.columns, asked.columns)]
            moments.append(replace(asked, columns=same[0]) if same else asked)
            moment_inputs += needed
    total = pt.add(*terms, pt.constant(0.0))
    return Expected(data, total, [*moment_inputs, *weights, *inputs], tuple(moments), tuple(inner.values()))


def log_prior_of(data: CompleteData) -> Graph:
    """Σ log p(φ), which is in Q once however many chunks the rows come in."""
    graphs = list(data.priors.values())
    folded = _folded(graphs, depends_on(graphs, data.values.values()))
    return pt.add(*[pt.sum(g) for g in folded], pt.constant(0.0))


def _parts(data: CompleteData) -> list[ExpectedPart]:
    parts: list[ExpectedPart] = []
    number = 0
    for s in data.sums:
        step = s.summed
        if step.kind == "joint":
            parts.append(ExpectedPart(step.table, s.weights[0]))
        else:
            axis = 0 if step.kind == "independent" else step.table.type.ndim - 1
            for k in range(len(step.values)):
                where = tuple(k if i == axis else slice(None) for i in range(len(step.shape) + 1))
                part = ExpectedPart(entry(step.table, k, axis), s.weights[0][where], (number, where))
                parts += _sequences(part, step.shape)
        if step.kind == "chain":
            parts += [ExpectedPart(step.log_initial, s.weights[1]), ExpectedPart(step.log_transition, s.weights[2])]
        number += len(s.weights)
    return parts + [ExpectedPart(g) for g in data.rest.values()]


def _sequences(part: ExpectedPart, shape: tuple[int, ...]) -> list[ExpectedPart]:
    """A part for each of a few sequences, so that every part has one axis of rows."""
    if len(shape) < 2 or np.prod(shape, dtype=int) > SEVERAL * max(shape):
        return [part]
    assert part.source is not None and part.weight is not None
    axis = 1 if int(np.argmax(shape)) == 0 else 0
    array, where = part.source
    place = [i for i, index in enumerate(where) if isinstance(index, slice)][axis]
    found = []
    for k in range(shape[axis]):
        weight = part.weight[(slice(None),) * axis + (k,)]
        smaller = ExpectedPart(entry(part.graph, k, axis), weight, (array, (*where[:place], k, *where[place + 1 :])))
        found += _sequences(smaller, shape[:axis] + shape[axis + 1 :])
    return found


def _cut(graphs: list[Graph], data: CompleteData) -> tuple[list[Graph], dict[Graph, Graph]]:
    """Graphs with inputs for what depends on φ₀ alone; and for each of these, what it stands for, in φ₀."""
    before = set(data.before.values())
    depends = depends_on(graphs, [*before, *data.values.values()])

    def old(v: Variable) -> bool:
        return bool(depends.get(v)) and depends[v] <= before

    edge: dict[Any, Any] = {}
    for node in toposort(graphs):
        if not all(old(o) for o in node.outputs):
            edge.update((i, i.type()) for i in node.inputs if old(i) and i.type.dtype.startswith("float"))
    edge.update((g, g.type()) for g in graphs if old(g))
    back = dict(zip(data.before.values(), data.values.values(), strict=True))
    sources = substitute(list(edge), back)
    return substitute(graphs, edge), dict(zip(edge.values(), sources, strict=True))


def _folded(graphs: list[Graph], latent: Mapping[Any, Any]) -> list[Graph]:
    """What depends on no variable computed, and the branch of every ``switch`` taken that is then known."""
    edge: dict[Any, Any] = {}
    for node in toposort(graphs):
        if any(latent.get(o) for o in node.outputs):
            edge.update((i, None) for i in node.inputs if i.owner is not None and not latent.get(i))
    # The length of a variable depends on no value, and is not known without it.
    edge = {v: None for v in edge if all(isinstance(i, Constant) for i in graph_inputs([v]))}
    with silently():
        values = compile_small([], list(edge))() if edge else []
    known = zip(edge, values, strict=True)
    memo: dict[Any, Any] = {v: pt.constant(np.asarray(x, dtype=v.type.dtype)) for v, x in known}
    for node in toposort(graphs):
        if not any(latent.get(o) for o in node.outputs):
            continue
        inputs = [memo.get(i, i) for i in node.inputs]
        out = node.outputs[0]
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Switch) and isinstance(inputs[0], Constant):
            taken = inputs[1] if np.all(inputs[0].data) else inputs[2]
            if np.all(inputs[0].data == inputs[0].data.flat[0]) and taken.type.broadcastable == out.type.broadcastable:
                memo[out] = taken
                continue
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            memo.update(zip(node.outputs, node.clone_with_new_inputs(inputs, strict=False).outputs, strict=True))
    return [memo.get(g, g) for g in graphs]


def _reduce(
    part: ExpectedPart, graph: Any, latent: Any, inner: Sequence[Any]
) -> tuple[Graph, Moments, list[Graph]] | None:
    """A part as Σ b · moments; None if it has no such form."""
    if graph.type.ndim != 1 or graph.type.shape[0] is None or (part.weight is not None and part.source is None):
        return None
    columns = Columns(graph.type.shape[0], latent, tuple(inner))
    try:
        form = form_of(graph, 0, columns)
    except NotReduced:
        return None
    groups = tuple(dict.fromkeys(tuple(columns.weights[w] for w in key[0]) for key in form.keys))
    size = len(columns.data)
    second = any(len(key[1]) == 2 for key in form.keys)
    vectors = [pt.dvector() for _ in groups]
    places = []
    for weights, data in form.keys:
        start = groups.index(tuple(columns.weights[w] for w in weights)) * (1 + size + size**2)
        offset = [0, 1 + (data[0] if data else 0), 1 + size + (data[0] * size + data[1] if len(data) == 2 else 0)]
        places.append(start + offset[len(data)])
    every = pt.concatenate(vectors) if len(vectors) > 1 else vectors[0]
    chosen = every[np.array(places)]
    term = pt.sum(pt.switch(pt.eq(chosen, 0.0), 0.0, form.b * chosen))
    data_columns = np.array(columns.data).reshape(size, columns.rows)
    return term, Moments(data_columns, part.source, groups, second), [columns.centre, *vectors]
