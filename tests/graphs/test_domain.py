"""The walk that every analysis follows, where there is no rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from random_graphs import evaluate, graphs, leaf

from bayeskit.graphs.domain import GraphAnalysis

RNG = np.random.default_rng(3)
X, Y = leaf("x"), leaf("y")
VALUES = {X: RNG.normal(size=(3, 3)), Y: RNG.normal(size=(3, 3))}


class Reached(GraphAnalysis[bool]):
    """No rule at all: everything reached is unknown."""

    def constant(self, var: Any) -> bool:
        return False

    def unknown(self, out: Any, values: list[bool]) -> bool:
        return True


@settings(max_examples=50, deadline=None)
@given(graph=graphs([X, Y]))
def test_without_rules_everything_that_depends_on_a_leaf_is_unknown(graph: Any) -> None:
    values = Reached({X: True}).walk([graph])
    one, two = (evaluate(graph, {**VALUES, X: VALUES[X] + shift}) for shift in (0.0, 0.3))
    for var in one:
        if not np.array_equal(np.nan_to_num(one[var]), np.nan_to_num(two[var])):
            assert values.get(var)
