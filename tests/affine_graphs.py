"""Random graphs that are affine in θ = (a, b, c), for laws about walks over them; PyTensor says what their value is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from hypothesis import strategies as st
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.linalg import cho_solve, solve, solve_triangular

Graph = Any
Step = Callable[[Any, Any], Any]
THETA = {"a": (4,), "b": (2, 3), "c": ()}


def variables(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Graph]:
    return {name: pt.tensor(name, shape=shape, dtype="float64") for name, shape in shapes.items()}


def numbers(draw: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Constants, with zeros now and then."""
    entries = draw(st.lists(st.sampled_from([-2.0, -1.5, 0.0, 0.25, 1.0, 3.0]), min_size=1, max_size=5))
    return np.resize(entries, shape)


def size_of(x: Graph) -> int:
    return int(np.prod(x.type.shape, dtype=int))


def whole(draw: Any, low: int, high: int) -> int:
    return draw(st.integers(low, high))


def axis_of(draw: Any, x: Graph) -> int:
    return whole(draw, 0, x.ndim - 1)


# -- steps of one argument: each gives another graph that is affine where its argument is -------
def scaled(draw: Any, x: Graph) -> Graph:
    other = numbers(draw, x.type.shape[whole(draw, 0, x.ndim) :])
    return draw(st.sampled_from([x * other, other * x * 2.0, x / (other + 0.1), -x]))


def shifted(draw: Any, x: Graph) -> Graph:
    other = numbers(draw, x.type.shape)
    return draw(st.sampled_from([x + other, x - other, other - x]))


def broadcast(draw: Any, x: Graph) -> Graph:
    rows = whole(draw, 1, 3)
    larger = (rows, *x.type.shape)
    return draw(st.sampled_from([x + numbers(draw, larger), pt.broadcast_to(x, larger), pt.alloc(x, *larger)]))


def filled(draw: Any, x: Graph) -> Graph:
    return pt.second(numbers(draw, (2, *x.type.shape)), x)


def sliced(draw: Any, x: Graph) -> Graph:
    step = draw(st.sampled_from([-2, -1, 1, 2]))
    return x[(slice(None),) * axis_of(draw, x) + (slice(None, None, step),)]


def without_ends(draw: Any, x: Graph) -> Graph:
    return draw(st.sampled_from([x[1:], x[:-1], x[-1:], x[0:0]]))


def entry(draw: Any, x: Graph) -> Graph:
    axis = axis_of(draw, x)
    return x[(slice(None),) * axis + (whole(draw, 0, x.type.shape[axis] - 1),)]


def picked(draw: Any, x: Graph) -> Graph:
    axis = axis_of(draw, x)
    index = draw(st.lists(st.integers(0, x.type.shape[axis] - 1), min_size=1, max_size=6))
    return x[(slice(None),) * axis + (np.array(index),)]


def masked(draw: Any, x: Graph) -> Graph:
    return x[np.resize([True, False, True], x.type.shape[0])]


def reordered(draw: Any, x: Graph) -> Graph:
    axes: list[Any] = list(draw(st.permutations(range(x.ndim))))
    axes.insert(whole(draw, 0, len(axes)), "x")
    return x.dimshuffle(axes)


def reshaped(draw: Any, x: Graph) -> Graph:
    flat = x.flatten()
    return flat.reshape((2, size_of(x) // 2)) if size_of(x) % 2 == 0 else flat


def summed(draw: Any, x: Graph) -> Graph:
    return pt.sum(x, axis=draw(st.sampled_from([None, axis_of(draw, x), (-1,)])))


def cumulated(draw: Any, x: Graph) -> Graph:
    return pt.cumsum(x, axis=draw(st.sampled_from([None, axis_of(draw, x)])))


def multiplied(draw: Any, x: Graph) -> Graph:
    left = pt.dot(numbers(draw, (3, x.type.shape[-2 if x.ndim > 1 else 0])), x)
    right = pt.dot(x, numbers(draw, (x.type.shape[-1], 2)))
    weights = pt.dot(x, numbers(draw, (x.type.shape[-1],)))
    return draw(st.sampled_from([left, right, weights] if x.ndim <= 2 else [right, weights]))


def batched(draw: Any, x: Graph) -> Graph:
    if x.ndim == 1:
        return pt.outer(pt.constant(numbers(draw, (2,))), x)
    batch = x.type.shape[:-2] or (2,)
    return pt.matmul(numbers(draw, (*batch, 3, x.type.shape[-2])), x)


def solved(draw: Any, x: Graph) -> Graph:
    n = x.type.shape[-2 if x.ndim > 1 else 0]
    low = np.tril(0.3 * np.ones((n, n))) + np.eye(n)
    vectors = min(x.ndim, 2)
    return draw(
        st.sampled_from(
            [
                solve_triangular(pt.constant(low), x, lower=True, b_ndim=vectors),
                solve_triangular(pt.constant(low.T), x, lower=False, b_ndim=vectors),
                solve(pt.constant(low @ low.T), x, b_ndim=vectors),
                cho_solve((pt.constant(low), True), x, b_ndim=vectors),
            ]
        )
    )


def joined(draw: Any, x: Graph) -> Graph:
    other = draw(st.sampled_from([numbers(draw, x.type.shape), x, 2.0 * x]))
    axis = axis_of(draw, x)
    return draw(st.sampled_from([pt.concatenate([x, other], axis=axis), pt.concatenate([other, x, other], axis=axis)]))


def stacked(draw: Any, x: Graph) -> Graph:
    return pt.stack([x, draw(st.sampled_from([numbers(draw, x.type.shape), -x]))], axis=whole(draw, 0, x.ndim))


def vector_of_numbers(draw: Any, x: Graph) -> Graph:
    first = x.flatten()[0]
    return pt.stack([first, 2.0, x.flatten()[-1]])


def put_in(draw: Any, x: Graph) -> Graph:
    ground = pt.constant(numbers(draw, (x.type.shape[0] + 2, *x.type.shape[1:])))
    index = np.arange(x.type.shape[0]) * 1 + 1
    return draw(st.sampled_from([pt.set_subtensor(ground[1:-1], x), pt.set_subtensor(ground[index], x)]))


def overwritten(draw: Any, x: Graph) -> Graph:
    return draw(st.sampled_from([pt.set_subtensor(x[0], 2.0), pt.set_subtensor(x[-1:], x[:1])]))


def added_in(draw: Any, x: Graph) -> Graph:
    """An entry is a sum of several where an index is repeated."""
    ground = pt.constant(numbers(draw, (2, *x.type.shape[1:])))
    rows = np.arange(x.type.shape[0]) % 2
    return draw(st.sampled_from([pt.inc_subtensor(ground[rows], x), pt.inc_subtensor(x[-1:], 2.0 * x[:1])]))


def added_to(draw: Any, x: Graph) -> Graph:
    ground = pt.constant(numbers(draw, (x.type.shape[0] + 2, *x.type.shape[1:])))
    twice = np.arange(x.type.shape[0]) // 2  # every entry of the ground has two added to it
    changed = [pt.inc_subtensor(ground[1:-1], x), pt.inc_subtensor(ground[twice], x)]
    return draw(st.sampled_from([*changed, pt.inc_subtensor(x[0], 2.0), pt.inc_subtensor(x[-1:], x[:1])]))


def chosen(draw: Any, x: Graph) -> Graph:
    mask = numbers(draw, x.type.shape) > 0
    other = draw(st.sampled_from([numbers(draw, x.type.shape), 3.0 * x]))
    return draw(st.sampled_from([pt.switch(mask, x, other), pt.switch(mask, other, x)]))


def parted(draw: Any, x: Graph) -> Graph:
    n = x.type.shape[0]
    return pt.split(x, [1, n - 1], n_splits=2)[whole(draw, 0, 1)]


def diagonal(draw: Any, x: Graph) -> Graph:
    return pt.diagonal(x, offset=whole(draw, -1, 1), axis1=0, axis2=1) if x.ndim > 1 else x


def repeated(draw: Any, x: Graph) -> Graph:
    return pt.repeat(x, whole(draw, 1, 3), axis=axis_of(draw, x))


def checked(draw: Any, x: Graph) -> Graph:
    return pt.specify_shape(pytensor.raise_op.Assert("positive")(x, pt.constant(True)), x.type.shape)


ANY_SHAPE = (scaled, shifted, broadcast, filled, stacked, chosen, checked, vector_of_numbers)
WITH_AXES = (sliced, without_ends, entry, picked, masked, reordered, reshaped, cumulated, multiplied, batched, solved)
WITH_AXES += (summed, joined, put_in, overwritten, added_in, added_to, parted, diagonal, repeated)


def grow(draw: Any, x: Graph, more: Sequence[Step] = (), only: Sequence[Step] = ()) -> Graph:
    """One more step, where the graph has the axes for it and stays small."""
    steps = only or (*ANY_SHAPE, *more, *(WITH_AXES if x.ndim and 0 not in x.type.shape else ()))
    grown = with_static_shape(draw(st.sampled_from(steps))(draw, x))
    return grown if grown.ndim <= 3 and 0 < size_of(grown) <= 60 else x


def with_static_shape(x: Graph) -> Graph:
    """Steps read the shape from the type."""
    if None not in x.type.shape:
        return x
    return pt.specify_shape(x, value_of(x).shape)


def evaluator(inputs: Sequence[Graph], outputs: Sequence[Graph]) -> Callable[..., list[np.ndarray]]:
    """The graph run as it stands: no rewrite, no compiler."""
    return pytensor.function(list(inputs), list(outputs), mode=Mode("py", None), on_unused_input="ignore")


def value_of(var: Graph) -> Any:
    """The value of a node that depends on shapes and constants only."""
    if isinstance(var, Constant) or not hasattr(var.type, "dtype"):
        return getattr(var, "data", var)
    inputs = [v for v in graph_inputs([var]) if not isinstance(v, Constant)]
    rng = np.random.default_rng(1)
    return evaluator(inputs, [var])(*[rng.gamma(2.0, size=v.type.shape) for v in inputs])[0]
