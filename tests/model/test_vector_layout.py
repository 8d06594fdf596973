"""Variables as one vector: the way there and back, for one vector and for many."""

from __future__ import annotations

import numpy as np
import pytest

from bayeskit.model.vector_layout import VectorLayout

SHAPES: dict[str, tuple[int, ...]] = {"b": (2, 3), "a": (), "empty": (0, 2), "c": (4,)}


@pytest.mark.parametrize("lead", [(), (5,), (5, 2)])
def test_the_way_back_is_the_way_there_reversed(lead: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    values = {name: rng.normal(size=lead + shape) for name, shape in SHAPES.items()}
    layout = VectorLayout(SHAPES)
    vectors = layout.ravel(values)
    assert vectors.shape == (*lead, layout.size)
    assert list(layout.split(vectors)) == list(SHAPES)
    for name, part in layout.split(vectors).items():
        np.testing.assert_array_equal(part, values[name])
        np.testing.assert_array_equal(vectors[..., layout.slices[name]].ravel(), values[name].ravel())


def test_the_variables_stand_in_the_order_given() -> None:
    layout = VectorLayout(SHAPES)
    assert layout.slices == {"b": slice(0, 6), "a": slice(6, 7), "empty": slice(7, 7), "c": slice(7, 11)}


def test_no_variables_are_an_empty_vector() -> None:
    layout = VectorLayout({})
    assert layout.size == 0 and layout.ravel({}).shape == (0,) and layout.split(np.empty((3, 0))) == {}
