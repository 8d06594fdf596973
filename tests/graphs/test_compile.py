"""Small functions: what is rewritten on the way, and what is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from bayeskit.graphs.compile import compile_small, fill_to_alloc, small_mode


@pytest.mark.parametrize("shape", [(None,), (3,), (None, 2)])
def test_a_value_is_spread_without_rewriting_the_graphs_of_its_lengths(
    shape: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    like: Any = pt.tensor("like", dtype="float64", shape=shape)
    spread = pt.fill(like * 2.0, 3)

    def refused(*arguments: Any) -> Any:
        raise AssertionError("the graph of a length was rewritten")

    monkeypatch.setattr("pytensor.tensor.basic.infer_static_shape", refused)
    (made,) = fill_to_alloc.transform(None, spread.owner)
    monkeypatch.undo()
    assert made.type == spread.type
    at = np.zeros([n or 4 for n in shape])
    np.testing.assert_array_equal(compile_small([like], made)(at), np.full(at.shape, 3.0))


@pytest.mark.parametrize("lower, upper", [(0.6, None), (None, 0.6), (0.2, 0.6)])
def test_data_censored_on_one_side_are_drawn_within_it(lower: float | None, upper: float | None) -> None:
    """PyMC writes the side that is not there as a bound that is the value itself."""
    censored = pm.Censored.dist(pm.Normal.dist(0.0, 3.0), lower=lower, upper=upper, shape=200)
    drawn = pm.draw(censored, random_seed=1, mode=small_mode())
    assert np.array_equal(drawn, pm.draw(censored, random_seed=1, mode="FAST_COMPILE"))
    assert np.all((drawn >= (lower or -np.inf)) & (drawn <= (upper or np.inf)))


@pytest.mark.parametrize("shape, size", [((50, 4), (50,)), ((4,), (7, 5)), ((6, 1, 3), (6, 5)), ((3,), ())])
def test_categories_drawn_together_are_those_of_pytensor(
    shape: tuple[int, ...], size: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    p = np.where(rng.random(shape) < 0.2, 0.0, rng.random(shape)) + 1e-3
    drawn = pm.Categorical.dist(p=p / p.sum(axis=-1, keepdims=True), shape=size)
    expected = pm.draw(drawn, draws=3, random_seed=1, mode="FAST_COMPILE")
    monkeypatch.setattr("pytensor.tensor.random.basic.vsearchsorted", None)  # Python once a row
    found = pm.draw(drawn, draws=3, random_seed=1, mode=small_mode())
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
