"""What is computed forward from draws: Deterministics, variables drawn from their own distribution, prior draws.

PyTensor graphs are vectorised over the draws and evaluated once; its default compilation takes seconds for each model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.shape_utils import change_dist_size
from pymc.distributions.timeseries import AutoRegressiveRV
from pymc.pytensorf import collect_default_updates, reseed_rngs
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneTypeT
from pytensor.tensor.variable import TensorVariable

from bayeskit.graphs.compile import compile_small, compile_stacked, stacked
from bayeskit.graphs.environment import silently
from bayeskit.graphs.nodes import core_op
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.matrix_sizes import require_room
from bayeskit.types import Graph

__all__ = [
    "deterministics",
    "draw_given",
    "draws_together",
    "generative_sampler",
    "over_draws",
    "prior_points",
    "prior_sampler",
    "sampler_given",
]

type _Seeded = Callable[[np.random.Generator], Any]

COMPILED_FROM = 500  # draws from which it pays to compile a graph with a matrix factorisation
TOGETHER = 50  # draws of the variables drawn forward at a time: each may hold a covariance matrix


def over_draws(
    graphs: Sequence[Graph], inputs: Mapping[str, Graph], *, unknown: Mapping[str, tuple[int, ...]] | None = None
) -> Callable[[Mapping[str, np.ndarray], int], list[np.ndarray]]:
    """Graphs as a function of draws of the inputs, by name, and of their number: first axes are the draws.

    ``unknown`` are the shapes of variables that the graphs mention without depending on their values: where no draws of
    one are given, it is zero.
    """
    graphs = [pt.as_tensor_variable(g) for g in graphs]
    function = compile_stacked(inputs.values(), graphs)

    def evaluate(draws: Mapping[str, np.ndarray], number: int) -> list[np.ndarray]:
        arguments = [
            np.asarray(draws[n] if n in draws or unknown is None else np.zeros((number, *unknown[n])), v.type.dtype)
            for n, v in inputs.items()
        ]
        with silently():
            results = function(*arguments)
        # What depends on no draw comes back once.
        return [
            np.asarray(r) if np.ndim(r) > g.type.ndim else np.broadcast_to(r, (number, *np.shape(r)))
            for r, g in zip(results, graphs, strict=True)
        ]

    return evaluate


def deterministics(joint: LogJoint, draws: Mapping[str, np.ndarray], number: int = 1) -> dict[str, np.ndarray]:
    """The model's Deterministics at every draw of all free random variables; of none of these, so many times."""
    if not joint.deterministics:
        return {}
    evaluate = over_draws(list(joint.deterministics.values()), joint.values)
    values = evaluate(draws, len(next(iter(draws.values()))) if draws else number)
    return dict(zip(joint.deterministics, values, strict=True))


def draw_given(
    model: pm.Model, names: Sequence[str], draws: Mapping[str, np.ndarray], rng: np.random.Generator, number: int
) -> dict[str, np.ndarray]:
    """Random variables of a model drawn jointly from their own distribution, one draw for each draw of the others.

    ``draws`` are of the free variables that they depend on, ``number`` of them.
    """
    return sampler_given(model, names, draws)(draws, rng, number)


def sampler_given(
    model: pm.Model,
    names: Sequence[str],
    given: Collection[str],
    *,
    compiled_from: float = COMPILED_FROM,
) -> Callable[[Mapping[str, np.ndarray], np.random.Generator, int], dict[str, np.ndarray]]:
    """As :func:`draw_given`, compiled once for many sets of draws of the variables that are ``given``.

    A graph with a matrix factorisation is compiled from ``compiled_from`` draws on.
    """
    wanted = {rv.name: rv for rv in model.basic_RVs if rv.name in names}
    free = [rv for rv in model.free_RVs if rv.name in given]
    known = {rv: pt.TensorType(rv.type.dtype, rv.type.shape)(f"{rv.name}_given") for rv in free}
    outputs = graph_replace(list(wanted.values()), known, strict=False)
    dense = any(v.owner and type(core_op(v.owner)).__name__ == "Cholesky" for v in ancestors(outputs))

    @cache
    def together() -> _Seeded:
        series = any(isinstance(o.owner.op, AutoRegressiveRV) for o in outputs)
        above = [v for v in ancestors(outputs) if v.owner is not None and _draws(v.owner.op)]
        # The start of a series is drawn once for each of them: its size is theirs.
        if not all(any(v in known.values() for v in ancestors([drawn])) for drawn in (outputs if series else above)):
            raise NotImplementedError("what depends on no draw would be drawn once for all")
        many = stacked(known.values())
        if series:
            return _random_function(list(many.values()), [_series(o, many) for o in outputs])
        apart = all(not _draws(op) for o in outputs for op in _above(o))
        batch = [_aligned(o, many) for o in outputs] if apart else vectorize_graph(outputs, many)
        return _random_function(list(many.values()), batch)

    @cache
    def one_by_one(compiled: bool) -> _Seeded:
        return _random_function(list(known.values()), outputs, compiled=compiled)

    def draw(draws: Mapping[str, np.ndarray], rng: np.random.Generator, number: int) -> dict[str, np.ndarray]:
        arguments = [np.asarray(draws[str(rv.name)], dtype=rv.type.dtype) for rv in known]
        compiled = dense and number >= compiled_from  # a matrix for each draw: PyTensor's compiled loops are faster
        if not compiled:
            # Not where PyTensor cannot draw for many parameters at once (pm.CAR), or not of this size.
            with suppress(NotImplementedError, TypeError, ValueError):
                function = together()(rng)
                some = [slice(start, start + TOGETHER) for start in range(0, number, TOGETHER)]
                parts = [function(*[a[rows] for a in arguments]) for rows in some]
                return {n: np.concatenate([np.asarray(p[i]) for p in parts]) for i, n in enumerate(wanted)}
        function = one_by_one(compiled)(rng)
        rows = [function(*[a[k] for a in arguments]) for k in range(number)]
        return {name: np.stack([np.asarray(r[i]) for r in rows]) for i, name in enumerate(wanted)}

    return draw


def _above(rv: Graph) -> list[Any]:
    """The operations that a random variable is drawn after."""
    return [v.owner.op for v in ancestors(rv.owner.inputs) if v.owner is not None]


def _random_function(inputs: list[TensorVariable], outputs: list[Any], *, compiled: bool = False) -> _Seeded:
    """A function of a generator of random numbers, which gives the function of the inputs that draws with it."""
    require_room({str(o.name): o for o in outputs}, "draw fewer rows")
    updates = _updates(inputs, outputs)
    function: Any
    if compiled:
        function = pytensor.function(inputs, outputs, updates=updates, on_unused_input="ignore")
    else:
        function = compile_small(inputs, outputs, updates=updates)

    def seeded(rng: np.random.Generator) -> Any:
        reseed_rngs(list(updates), int(rng.integers(2**31)))
        return function

    return seeded


def _updates(inputs: list[TensorVariable], outputs: list[Any]) -> dict[Any, Any]:
    updates = collect_default_updates(outputs=outputs, inputs=inputs, must_be_shared=False)
    return {k: v for k, v in updates.items() if isinstance(k, pytensor.compile.SharedVariable)}


def draws_together(
    model: pm.Model,
    number: int,
    seed: int,
    *,
    independent: bool = False,
    aligned: bool = False,
    without: Collection[str] = (),
) -> dict[str, Any] | None:
    """Draws from the prior made together; None where they cannot be, or where one depends on another and must not.

    With ``aligned``, of vectors whose parameters are drawn numbers, too; ``without`` some that no other depends on.
    """
    vectorised = _aligned if aligned else vectorize_graph
    drawn: dict[Any, Any] = {}
    try:
        for rv in (rv for rv in model.free_RVs if rv.name not in without):  # parents first
            above = set(ancestors([rv]))
            parents = {other: many for other, many in drawn.items() if other in above}
            if parents and (independent or isinstance(rv.owner.op, SymbolicRandomVariable)):
                return None
            drawn[rv] = vectorised(rv, parents) if parents else change_dist_size(rv, (number,), expand=True)
        updates = _updates([], [*drawn.values()])
        reseed_rngs(list(updates), int(np.random.default_rng(seed).integers(2**31)))
        values = compile_small([], [*drawn.values()], updates=updates)()
    except (ArithmeticError, NotImplementedError, TypeError, ValueError, np.linalg.LinAlgError):
        return None
    return dict(zip([str(rv.name) for rv in drawn], map(np.asarray, values), strict=True))


def _aligned(rv: Graph, parents: Mapping[Any, Any]) -> Graph:
    """A random variable given many values of its parents: PyTensor takes no (n,) of a scalar beside a size of (4,)."""
    op, size = rv.owner.op, rv.owner.inputs[1]
    if not isinstance(op, RandomVariable) or not op.dist_params(rv.owner):
        return vectorize_graph(rv, parents)
    given = op.dist_params(rv.owner)
    many = vectorize_graph(list(given), parents)
    batch, (number, *_) = rv.type.ndim - op.ndim_supp, next(iter(parents.values())).shape
    moved = []
    for one, each, own in zip(given, many, op.ndims_params, strict=True):
        lacking = batch - (one.type.ndim - own) if each.type.ndim > one.type.ndim else 0
        moved.append(pt.expand_dims(each, axis=tuple(range(1, 1 + lacking))) if lacking else each)
    shape = [] if isinstance(size.type, NoneTypeT) else [size[k] for k in range(batch)]
    whole = None if isinstance(size.type, NoneTypeT) else (number, *shape)
    rng = pytensor.shared(np.random.default_rng(0))
    return op(*moved, size=whole, dtype=rv.type.dtype, rng=rng, return_next_rng=True)[1]


def _series(rv: Graph, parents: Mapping[Any, Any]) -> Graph:
    """An autoregressive series given many values of its parents: a scan over steps, each for all of them at once."""
    op, size = rv.owner.op, (next(iter(parents.values())).shape[0],)
    above = [v.owner.op for v in ancestors(rv.owner.inputs[:3]) if v.owner is not None]
    if not isinstance(op, AutoRegressiveRV) or rv.type.ndim != 1 or sum(map(_draws, above)) > 1:
        raise NotImplementedError("no single series, or its start depends on what is drawn")
    coefficients, sd, start, steps, _ = rv.owner.inputs
    if any(v in parents for v in ancestors([start])):
        raise NotImplementedError("the start of a series depends on parameters")
    many = vectorize_graph([coefficients, sd], parents)
    order = {"ar_order": op.ar_order, "constant_term": op.constant_term}
    return op.rv_op(*many, start, steps, **order, size=size)


def _draws(op: Any) -> bool:
    return isinstance(op, SymbolicRandomVariable | RandomVariable)


def prior_points(
    model: pm.Model, number: int, random_seed: int, without: Collection[str] = ()
) -> Iterator[dict[str, np.ndarray]]:
    """Draws of the free random variables from the prior; a NotImplementedError where it has none, or they overflow."""
    return prior_sampler(model, without)(number, random_seed)


def prior_sampler(
    model: pm.Model, without: Collection[str] = ()
) -> Callable[[int, int], Iterator[dict[str, np.ndarray]]]:
    """A function of a number of draws and a seed, compiled once: draws of the free random variables from the prior."""
    outputs = [rv for rv in model.free_RVs if rv.name not in without]
    names = [str(rv.name) for rv in outputs]
    updates = _updates([], outputs)
    function = compile_small([], outputs, updates=updates)

    def draw(number: int, random_seed: int) -> Iterator[dict[str, np.ndarray]]:
        if names:
            reseed_rngs(list(updates), int(np.random.default_rng(random_seed).integers(2**31)))
        for _ in range(number if names else 0):
            try:
                drawn = function()
            except (ArithmeticError, ValueError) as error:
                # A Gamma draw of 1e-400 is zero, and what is divided by it, or has it as a parameter, has no draw.
                raise NotImplementedError(f"the prior cannot be drawn from: {str(error).splitlines()[0]}") from error
            yield dict(zip(names, map(np.asarray, drawn), strict=True))

    return draw


def generative_sampler(
    model: pm.Model, increasing: Collection[str] = ()
) -> Callable[[np.random.Generator], dict[str, np.ndarray]]:
    """A function of a generator of random numbers: one draw of all random variables, those that are observed, too.

    Variables that are ``increasing`` have exchangeable entries, of which a transform leaves the increasing order: they
    are sorted before anything is drawn given them.
    """
    outputs: list[Any] = list(model.basic_RVs)
    for rv in [rv for rv in model.basic_RVs if rv.name in increasing]:
        unsorted = rv.owner.clone().outputs[rv.owner.outputs.index(rv)]
        outputs = graph_replace(outputs, {rv: pt.sort(unsorted, axis=-1)}, strict=False)
    function = _random_function([], outputs)
    names = [str(rv.name) for rv in model.basic_RVs]

    def draw(rng: np.random.Generator) -> dict[str, np.ndarray]:
        return dict(zip(names, map(np.asarray, function(rng)()), strict=True))

    return draw
