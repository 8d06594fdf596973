"""Products of a large design, kept and made for several points at once."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from bayeskit.graphs import product_cache as products
from bayeskit.graphs.product_cache import Function, Products


@pytest.mark.parametrize("shared", [False, True], ids=["constant", "shared"])
@pytest.mark.parametrize("transposed", [False, True], ids=["vector", "column"])
def test_products_are_those_of_numpy(shared: bool, transposed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "LARGE", 100)
    rng = np.random.default_rng(1)
    values = rng.normal(size=(60, 3))
    matrix = pytensor.shared(values) if shared else pt.constant(values)
    x, s = pt.vector("x", shape=(3,)), pt.scalar("s")
    mean = pt.dot(matrix, (2 * x)[:, None])[:, 0] if transposed else pt.dot(matrix, 2 * x)
    made = Products()
    function = made.compile([x, s], ((mean - s) ** 2).sum())
    assert isinstance(function, Function)
    points = [(rng.normal(size=3), np.array(float(k))) for k in range(6)]
    expected = [((values @ (2 * a) - b) ** 2).sum() for a, b in points]
    assert [function(*p) for p in points] == pytest.approx(expected, rel=1e-13)
    assert len(made.kept) == products.KEPT
    function.prepare(points)
    before = dict(made.kept)
    assert [function(*p) for p in points] == pytest.approx(expected, rel=1e-13)
    assert all(made.kept[k] is v for k, v in before.items() if k in made.kept)


def test_a_product_within_a_product_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "LARGE", 100)
    rng = np.random.default_rng(2)
    values = rng.normal(size=(20, 20))
    x = pt.vector("x", shape=(20,))
    function = Products().compile([x], pt.dot(pt.constant(values), pt.exp(pt.dot(pt.constant(values), x) / 10)))
    at = rng.normal(size=20)
    assert function(at) == pytest.approx(values @ np.exp(values @ at / 10), rel=1e-12)


def test_small_matrices_are_not_kept() -> None:
    x = pt.vector("x", shape=(2,))
    assert not isinstance(Products().compile([x], pt.dot(pt.constant(np.eye(2)), x)), Function)
