"""A model's log density, its gradient and its draws as machine code for nutpie.

nutpie compiles a model by itself, node by node as PyTensor does; most of what NUTS costs on a small model is waiting
for that. Here both are loops over a workspace (:mod:`bayeskit.sampling.codegen.loops`), compiled in a few seconds and
evaluated in a fraction of the time, since nothing is allocated on the way. What they give is held against the graph
itself, run by NumPy, at a few points; a model that they cannot do, or do not do to rounding, is compiled by nutpie.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np
import nutpie
import pymc as pm
import pytensor
from numba.core.errors import NumbaError
from nutpie.compile_pymc import CompiledPyMCModel, _prepare_dims_and_coords
from pymc.initial_point import make_initial_point_fn
from pytensor.graph.rewriting.utils import rewrite_graph

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.constant_matrices import with_constant_matrices
from bayeskit.graphs.environment import lightly, silently
from bayeskit.graphs.mvnormal_gradients import shared_factorisations
from bayeskit.graphs.rewriting import inline, with_constant_data, without_checks
from bayeskit.graphs.stable_logistic import stable_logistics
from bayeskit.model.unconstrained import Objective
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.sampling.codegen.generated import density_source, draw_source, load_functions
from bayeskit.sampling.codegen.loops import program
from bayeskit.sampling.codegen.workspace import NoLoops
from bayeskit.types import Array, Graph, Point

__all__ = ["compile_for_nutpie", "compiled_loops", "density_graphs", "objective_of"]

# Fused nodes hide what they do, and nothing is to be written over: the loops do both.
LEFT_OUT = ("fusion", "inplace", "BlasOpt", "local_pow_to_nested_squaring")
# Points around the start at which the machine code is held against the graph: their spread on the unconstrained scale,
# and how far the two may be apart. A gradient through a covariance that is nearly singular keeps no more digits.
POINTS = ((0.0, 1e-6), (0.1, 1e-6), (0.1, 1e-6), (1.0, 1e-3))


def compile_for_nutpie(model: pm.Model, jitter: set[Any]) -> Any:
    """What ``nutpie.sample`` takes, for a model whose free variables are all continuous.

    Chains differ in where the variables of ``jitter`` start. Data containers are constants of the density: after
    ``pm.set_data``, compile again.
    """
    try:
        with lightly():
            return compiled_loops(model, jitter)
    except (NoLoops, NumbaError):
        return nutpie.compile_pymc_model(model, jitter_rvs=jitter)


def objective_of(compiled: CompiledPyMCModel) -> Objective:
    """The log density that was compiled, and its gradient, at one point; the gradient is nan where there is none."""

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        at, value, gradient = np.ascontiguousarray(point, dtype=np.float64), np.zeros(1), np.zeros(compiled.n_dim)
        failed = _called(compiled.compiled_logp_func, at.size, at, gradient, value, compiled.user_data)
        return (-np.inf, np.full_like(gradient, np.nan)) if failed else (float(value[0]), gradient)

    return objective


def compiled_loops(model: pm.Model, jitter: set[Any]) -> CompiledPyMCModel:
    """As :func:`compile_for_nutpie`, by loops over a workspace; NoLoops where they cannot, or give something else."""
    first = make_initial_point_fn(model=model, jitter_rvs=jitter, return_transformed=True)
    start = first(0)
    variables: list[Any] = [model.rvs_to_values[rv] for rv in model.free_RVs]
    layout = VectorLayout({str(v.name): np.shape(start[v.name]) for v in variables})
    others: list[Any] = [v for v in model.unobserved_value_vars if v.name not in layout.shapes]
    of_density = _graphs(model, _value_and_gradient(model, variables))
    of_draw = _graphs(model, others)
    graph_of_density, graph_of_draw = compile_small(variables, of_density), compile_small(variables, of_draw)
    at = [np.asarray(start[n], dtype=np.float64) for n in layout.shapes]
    values = graph_of_draw(*at)
    drawn = VectorLayout(layout.shapes | {v.name: np.shape(value) for v, value in zip(others, values, strict=True)})

    density = program("density", variables, _rewritten(of_density), at)
    draw = program("draw", variables, _rewritten(of_draw), at, density.data.size)
    data = np.concatenate([density.data, draw.data, np.zeros(1)])
    source = density_source(density, layout.size, data.size) + draw_source(draw, layout.size, data.size)
    module = load_functions(source, {**density.calls, **draw.calls})
    _hold(module, data, layout, drawn, graph_of_density, graph_of_draw, layout.ravel(start).astype(np.float64))

    shape_info = (list(drawn.shapes), list(drawn.slices.values()), list(drawn.shapes.values()))
    moved = [str(model.rvs_to_values[rv].name) for rv in model.free_RVs if model.rvs_to_transforms.get(rv) is not None]
    dims, coords = _prepare_dims_and_coords(model, shape_info, moved)
    return CompiledPyMCModel(
        dims=dims,
        _coords=coords,
        _n_dim=layout.size,
        _shapes=drawn.shapes,
        compiled_logp_func=module.density,
        compiled_expand_func=module.draw,
        initial_point_func=_flat(first, layout, data),
        shared_data={},
        shared_var_keys={},
        user_data=data,
        n_expanded=drawn.size,
        shape_info=shape_info,
        logp_func=module.density,
        expand_func=module.draw,
        reparameterized_names=moved,
    )


def _flat(first: Callable[[Any], Point], layout: VectorLayout, data: Array) -> Callable[[Any], np.ndarray]:
    """Starting points as vectors; chains ask for theirs at the same time, and for none once they were told to stop."""
    lock = Lock()

    def start(seed: Any) -> np.ndarray:
        with lock:
            if data[-1]:
                raise InterruptedError
            return layout.ravel(first(seed)).astype(np.float64)

    return start


def density_graphs(model: pm.Model, variables: Sequence[Graph]) -> list[Graph]:
    """The log density and its gradient, rewritten for the loops."""
    return _rewritten(_graphs(model, _value_and_gradient(model, variables)))


def _value_and_gradient(model: pm.Model, variables: Sequence[Graph]) -> list[Graph]:
    # Bounds are kept or removed as the model says, and the density simplified before it is differentiated.
    removed = () if model.check_bounds else ("local_remove_check_parameter",)
    written = stable_logistics(with_constant_matrices(with_constant_data([model.logp()])))[0]
    value: Any = rewrite_graph(written, include=("canonicalize", "stabilize", *removed))
    gradient: Any = pytensor.grad(value, list(variables))
    return [value, *gradient]


def _graphs(model: pm.Model, outputs: list[Graph]) -> list[Graph]:
    """Graphs of doubles, of which nothing is hidden, and a parameter out of its bounds is a density of zero."""
    graphs = shared_factorisations(inline(with_constant_matrices(with_constant_data([*outputs]))))
    return [*(without_checks(graphs) if model.check_bounds else graphs)] if graphs else []


def _rewritten(graphs: list[Graph]) -> list[Graph]:
    if not graphs:
        return []
    rewritten: Any = rewrite_graph(graphs, include=("fast_run",), exclude=LEFT_OUT)
    return inline(list(rewritten))


# -- held against the graph ------------------------------------------------------------------------------------------
def _hold(
    module: Any,
    data: np.ndarray,
    layout: VectorLayout,
    drawn: VectorLayout,
    density: Callable[..., Any],
    draw: Callable[..., Any],
    start: np.ndarray,
) -> None:
    """Refuse machine code that does not give what the graphs of the density and of a draw give, near the start."""
    rng = np.random.default_rng(0)
    for k, (spread, agreement) in enumerate(POINTS):
        point = start + spread * rng.normal(size=start.shape)
        at = list(layout.split(point).values())
        with silently():
            expected, others = density(*at), draw(*at)
        value, gradient, found = np.zeros(1), np.zeros(layout.size), np.zeros(drawn.size)
        failed = _called(module.density, layout.size, point, gradient, value, data)
        finite = all(np.all(np.isfinite(e)) for e in expected)
        if bool(failed) == finite and (finite or k == 0):
            raise NoLoops("the loops are finite where the graph is not, or the other way round")
        if not failed and finite:
            _require_agreement([value, *layout.split(gradient).values()], expected, agreement)
        _called(module.draw, layout.size, drawn.size, point, found, data)
        _require_agreement(list(drawn.split(found).values()), [*at, *others], agreement)


def _called(function: Any, *arguments: Any) -> int:
    double = ctypes.POINTER(ctypes.c_double)
    try:
        code: int = function.ctypes(*(a.ctypes.data_as(double) if isinstance(a, np.ndarray) else a for a in arguments))
    except SystemError as error:  # Python code that was called back has raised
        raise NoLoops("a function that is called raises an error") from error
    return code


def _require_agreement(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], agreement: float) -> None:
    """Each variable by itself: one may be a thousand million times the other."""
    for one, other in zip(found, expected, strict=True):
        one, other = np.ravel(one), np.ravel(other).astype(float)
        finite = np.isfinite(other)
        largest = np.max(np.abs(other[finite]), initial=0.0)
        alike = np.array_equal(one[~finite], other[~finite], equal_nan=True)
        if not alike or np.any(np.abs(one[finite] - other[finite]) > agreement * (1e-3 + largest)):
            raise NoLoops("the loops do not give what the graph gives")
