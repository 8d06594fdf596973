"""A model's log density, its gradient and its draws as machine code for nutpie.

nutpie compiles a model by itself; this does the same in a fraction of the time. Compiling is most of what NUTS costs on
a small model, and numba's time goes where these graphs have little work:

* PyTensor's matrix product tells a dozen layouts of BLAS apart, and is compiled anew for each pair of them: over a
  hundred seconds in eight schools, once a machine. Here it is numba's own ``np.dot`` of contiguous arrays.
* nutpie's C function takes in the compiled density and has LLVM optimise and translate all of it again, even where it
  came from PyTensor's cache on disk. Here it calls it by address, as any machine code would.
* ``OpFromGraph`` keeps the gradient from sharing a factorisation with the value. Here all of them are written out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Any

import numba
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numba.core import cgutils, types
from numba.extending import intrinsic
from nutpie.compile_pymc import CompiledPyMCModel, _prepare_dims_and_coords
from pymc.initial_point import make_initial_point_fn
from pytensor.compile.mode import get_mode
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key
from pytensor.tensor.math import Dot

from bayeskit.compiling import Graph, compile_small
from bayeskit.density import inline, with_constant_data

__all__ = ["Product", "compile_for_nutpie"]

LAST = 1000.0  # after every rewrite of PyTensor's own


class Product(Op):
    """A B of two matrices of float64: PyTensor's ``Dot`` in a form that numba compiles at once.

    It takes the place of ``Dot`` in a graph that is finished, so that it needs no gradient.
    """

    __props__ = ()

    def make_node(self, left: Any, right: Any) -> Apply:  # type: ignore[override]
        left, right = pt.as_tensor_variable(left), pt.as_tensor_variable(right)
        shape = (left.type.shape[0], right.type.shape[1])
        return Apply(self, [left, right], [pt.TensorType("float64", shape)()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = inputs[0] @ inputs[1]

    def infer_shape(self, node: Apply, shapes: list[Any]) -> list[Any]:
        return [(shapes[0][0], shapes[1][1])]


@register_funcify_default_op_cache_key(Product)
def _numba_product(op: Product, node: Apply, **kwargs: Any) -> Any:
    @numba_basic.numba_njit
    def product(left: Any, right: Any) -> Any:
        return np.dot(np.ascontiguousarray(left), np.ascontiguousarray(right))

    return product, 1


@node_rewriter([Dot])
def _dot_to_product(fgraph: FunctionGraph, node: Apply) -> list[Any] | None:
    if any(i.type.dtype != "float64" for i in node.inputs):
        return None
    return list(Product().make_node(*node.inputs).outputs)


@dataclass(frozen=True)
class _Layout:
    """Where each variable lies in a vector: names and shapes, in order."""

    names: list[str]
    shapes: list[tuple[int, ...]]

    @property
    def slices(self) -> list[slice]:
        ends = np.cumsum([0, *(int(np.prod(s)) for s in self.shapes)])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    @property
    def size(self) -> int:
        return sum(int(np.prod(s)) for s in self.shapes)


def compile_for_nutpie(model: pm.Model, jitter: set[Any]) -> CompiledPyMCModel:
    """What ``nutpie.sample`` takes, for a model whose free variables are all continuous.

    Parameters
    ----------
    model : pymc.Model
    jitter : set of random variables
        Those whose starting points differ from chain to chain.

    Notes
    -----
    Data containers are constants of the density: after ``pm.set_data``, compile again.
    """
    first = make_initial_point_fn(model=model, jitter_rvs=jitter, return_transformed=True)
    start = first(0)
    variables: list[Any] = [model.rvs_to_values[rv] for rv in model.free_RVs]
    layout = _Layout([v.name for v in variables], [np.shape(start[v.name]) for v in variables])
    others: list[Any] = [v for v in model.unobserved_value_vars if v.name not in layout.names]
    values = compile_small(variables, inline(with_constant_data(others)))(*(start[n] for n in layout.names))
    drawn = _Layout([*layout.names, *(v.name for v in others)], [*layout.shapes, *(np.shape(v) for v in values)])
    shape_info = (drawn.names, drawn.slices, drawn.shapes)
    moved = [str(model.rvs_to_values[rv].name) for rv in model.free_RVs if model.rvs_to_transforms.get(rv) is not None]
    dims, coords = _prepare_dims_and_coords(model, shape_info, moved)
    density = _function(model, variables, layout, _value_and_gradient(model, variables))
    everything = _function(model, variables, layout, [*variables, *others])
    return CompiledPyMCModel(
        dims=dims,
        _coords=coords,
        _n_dim=layout.size,
        _shapes=dict(zip(drawn.names, drawn.shapes, strict=True)),
        compiled_logp_func=_c_density(_by_address(density), layout.size),
        compiled_expand_func=_c_draw(_by_address(everything), layout.size, drawn.size),
        initial_point_func=_flat(first, layout),
        shared_data={},
        shared_var_keys={},
        user_data=np.zeros(()),
        n_expanded=drawn.size,
        shape_info=shape_info,
        # Kept alive: the C functions call them by address.
        logp_func=density,
        expand_func=everything,
        reparameterized_names=moved,
    )


def _flat(first: Callable[[Any], dict[str, np.ndarray]], layout: _Layout) -> Callable[[Any], np.ndarray]:
    """Starting points as vectors; chains ask for theirs at the same time."""
    lock = Lock()

    def start(seed: Any) -> np.ndarray:
        with lock:
            point = first(seed)
        return np.concatenate([np.zeros(0), *(np.ravel(point[n]).astype(np.float64) for n in layout.names)])

    return start


def _value_and_gradient(model: pm.Model, variables: list[Graph]) -> list[Graph]:
    # Bounds are kept or removed as the model says, and the density simplified before it is differentiated.
    removed = () if model.check_bounds else ("local_remove_check_parameter",)
    value: Any = rewrite_graph(with_constant_data([model.logp()])[0], include=("canonicalize", "stabilize", *removed))
    gradient: Any = pytensor.grad(value, variables)
    return [value, *gradient]


def _function(model: pm.Model, variables: list[Graph], layout: _Layout, outputs: list[Graph]) -> Any:
    """A function from one vector to one vector, with the linker of numba."""
    point: Any = pt.tensor("point", shape=(layout.size,), dtype="float64")
    parts = {
        variable: pt.reshape(point[where], shape, ndim=len(shape)).astype(variable.type.dtype)
        for variable, where, shape in zip(variables, layout.slices, layout.shapes, strict=True)
    }
    graphs = inline(clone_replace(with_constant_data(outputs), parts, rebuild_strict=False))
    flat = pt.concatenate([pt.cast(pt.as_tensor(g).ravel(), "float64") for g in graphs])
    checks = "local_check_parameter_to_ninf_switch" if model.check_bounds else "local_remove_check_parameter"
    # A query that PyTensor can take rewrites out of, as it does for graphs within a graph.
    mode = get_mode("NUMBA").including(checks).register((dfs_rewriter(_dot_to_product), LAST))
    return pytensor.function([point], [flat], mode=mode)


def _by_address(function: Any) -> Any:
    """A function of PyTensor for the use of other compiled code, which calls it where it is."""
    dispatcher = function.vm.jit_fn
    constants = [v.data for v in function.maker.fgraph.variables if isinstance(v, Constant)]
    if any(getattr(c, "nbytes", 0) > numba_basic.NUMBA_CONSTANT_SIZE_LIMIT for c in constants):
        # numba keeps no code with constants of this size on disk, and what wraps it to be kept only doubles the work.
        dispatcher = dispatcher.py_func.__globals__.get("jitable_func", dispatcher)
    kind = types.Array(types.float64, 1, "C")
    dispatcher.get_call_template((kind,), {})
    (compiled,) = dispatcher.overloads.values()
    returned, taken = compiled.signature.return_type, compiled.signature.args
    address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)

    @intrinsic
    def call(context: Any, point: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            convention = context.call_conv
            function_type = convention.get_function_type(returned, taken)
            pointer = builder.inttoptr(context.get_constant(types.uintp, address), function_type.as_pointer())
            if isinstance(taken[0], types.BaseTuple):  # the function has ``*args``
                arguments = [context.make_tuple(builder, taken[0], arguments)]
            status, result = convention.call_function(builder, pointer, returned, taken, arguments)
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return result

        return returned(kind), generate

    return call


def _c_density(call: Any, size: int) -> Any:
    """nutpie's C signature for the log density and its gradient; what it returns is not zero where they are not finite.

    Arrays are copied entry by entry: numba would compile the message of a wrong shape for seconds.
    """
    numbers = types.CPointer(types.double)

    def density(length, point, gradient, value, data):  # type: ignore[no-untyped-def]
        if length != size:
            return -1
        try:
            (result,) = call(numba.carray(point, (size,)))
        except Exception:  # the density is not defined here
            return 1
        finite = True
        for i in range(size):
            gradient[i] = result[i + 1]
            finite = finite and np.isfinite(result[i + 1])
        value[0] = result[0]
        if not finite:
            return 3
        return 0 if np.isfinite(result[0]) else 4

    return numba.cfunc(types.int64(types.uint64, numbers, numbers, numbers, types.voidptr))(density)


def _c_draw(call: Any, size: int, drawn: int) -> Any:
    """nutpie's C signature for all that is kept of a draw."""
    numbers = types.CPointer(types.double)

    def draw(length, expanded, point, out, data):  # type: ignore[no-untyped-def]
        if length != size or expanded != drawn:
            return -1
        try:
            (result,) = call(numba.carray(point, (size,)))
        except Exception:
            return -2
        for i in range(drawn):
            out[i] = result[i]
        return 0

    return numba.cfunc(types.int64(types.uint64, types.uint64, numbers, numbers, types.voidptr))(draw)
