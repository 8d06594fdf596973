"""Which entries of a node depend on which entries of a variable, against what changes when others move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from hypothesis import given, reject, settings
from random_graphs import OPERATIONS, evaluate, graphs, leaf

from bayeskit.finite.axis_dependence import Axis, EntriesMixed, connection

RNG = np.random.default_rng(6)
Z, OTHER = leaf("z"), leaf("y")
VALUES = {Z: RNG.normal(size=(3, 3)), OTHER: RNG.normal(size=(3, 3))}
BOTH = (Axis(0), Axis(1))

CONNECTED = {
    **dict.fromkeys(["add", "multiply", "exponential", "truncate", "choose by the entries", "fill"], BOTH),
    "transpose": BOTH[::-1],
    "reverse": (Axis(0).select(slice(None, None, -1), 3), Axis(1)),
    "pick rows": (Axis(0).select([2, 0, 0], 3), Axis(1)),
}
KEEPING = (
    *CONNECTED,
    "add to a column",
    "set columns",
    "shift",
    "scale",
    "choose by a constant",
    "pick columns",
    "pick entries",
    "gather by a constant",
)
MIXED = (
    "reshape",
    "diagonal",
    "one row, stretched",
    "allocate",
    "join rows",
    "set a row",
    "add to a row",
    "sum",
    "sum of rows",
    "largest of columns",
    "cumulative sum",
    "cumulative sum of all",
    "softmax",
    "product",
    "solve",
)


@pytest.mark.parametrize("name", CONNECTED)
def test_axes_of_one_operation(name: str) -> None:
    graph = OPERATIONS[name](Z, Z) if name != "transpose" else Z.T
    assert connection(graph, Z, (3, 3))[0] == CONNECTED[name]


@pytest.mark.parametrize("name", MIXED)
def test_an_operation_that_mixes_entries_is_refused(name: str) -> None:
    with pytest.raises(EntriesMixed):
        connection(OPERATIONS[name](Z, OTHER) if name != "product" else Z @ Z, Z, (3, 3))


def test_a_sum_along_another_axis_keeps_the_entries_apart() -> None:
    one = pt.tensor("z", dtype="float64", shape=(3, 1))
    for total in (pt.cumsum(one * OTHER, axis=1), pt.special.softmax(one * OTHER, axis=1)):
        assert connection(total, one, (3, 1))[0] == (Axis(0), None)
    for total in (pt.inc_subtensor(OTHER[:, 1:], one), pt.set_subtensor((one * OTHER)[:, 0], one[:, 0])):
        assert connection(total, one, (3, 1))[0] == (Axis(0), None)
    assert connection(pt.max(one * OTHER, axis=1), one, (3, 1))[0] == (Axis(0),)


def check_axes(axes: Any, node: Any) -> None:
    """Move all entries of z but those at one index, along each axis that a node is said to run along."""
    before = evaluate(node, VALUES)[node]
    for place, axis in enumerate(axes):
        if axis is None:
            continue
        numbers = np.arange(3 ** len(axis.all)).reshape([3] * len(axis.all)).transpose(np.argsort(axis.all))
        numbers = np.expand_dims(numbers, [a for a in (0, 1) if a not in axis.all])
        for number in range(numbers.size):
            index = np.broadcast_to(numbers == number, (3, 3))
            moved = VALUES[Z] + RNG.normal(size=(3, 3))
            moved[index] = VALUES[Z][index]
            after = evaluate(node, {**VALUES, Z: moved})[node]
            here = np.flatnonzero(axis.indices(axis.length((3, 3))) == number)
            np.testing.assert_array_equal(np.take(after, here, axis=place), np.take(before, here, axis=place))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(graph=graphs([Z, OTHER], length=4, names=KEEPING))
def test_entries_do_not_change_when_others_move(graph: Any) -> None:
    try:
        axes, below = connection(graph, Z, (3, 3))
    except EntriesMixed:
        reject()
    check_axes(axes, graph)
    for node, own in below.items():
        check_axes(own, node)


def test_of_two_unknown_lengths_neither_is_told() -> None:
    z = pt.tensor("z", shape=(2, None), dtype="float64")
    assert connection(z.reshape((2, -1)), z, (2, 3))[0] == BOTH
    with pytest.raises(EntriesMixed):  # (2, 6) as (6, 2)
        connection(z.reshape((-1, 2)), z, (2, 6))
