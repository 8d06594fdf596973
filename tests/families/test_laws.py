"""Laws that every conjugate family obeys; a family added to ``FAMILIES`` is held to all of them without further code.

The parameters come from random coefficients, the integrals from quadrature over the family's support.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from bayeskit.families import FAMILIES, ConjugateFamily
from bayeskit.graphs.compile import small_mode

SHAPES: dict[int, tuple[int, ...]] = {0: (), 1: (3,), 2: (2, 2)}
FALSE_ALARM = 1e-6  # of one comparison of draws

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
every_seed = pytest.mark.parametrize("seed", range(3))
of_numbers = pytest.mark.parametrize("family", [f for f in FAMILIES if f.support.event < 2], ids=lambda f: f.name)
of_matrices = pytest.mark.parametrize("family", [f for f in FAMILIES if f.support.event == 2], ids=lambda f: f.name)
# The others are integrated out last, from numbers.
with_graph = pytest.mark.parametrize("family", [f for f in FAMILIES if f.log_density_graph], ids=lambda f: f.name)
scaling = pytest.mark.parametrize("family", [f for f in FAMILIES if f.gaussian is not None], ids=lambda f: f.name)


def shape_of(family: ConjugateFamily) -> tuple[int, ...]:
    return SHAPES[family.support.event]


def coefficients(family: ConjugateFamily, seed: int) -> list[Any]:
    """Those of random gradients, with everything that must be positive over two: all moments, no pole at an end."""
    rng = np.random.default_rng(seed)
    shape = shape_of(family)
    anchors = family.anchors(shape, family.support.start(shape))
    while True:
        c = family.coefficients_at(anchors, [rng.normal(scale=15.0, size=shape) for _ in anchors])
        if all(np.all(v > 2) for v in family.positive(family.parameters(c))):
            return c


def score(family: ConjugateFamily, c: list[Any], x: np.ndarray) -> np.ndarray:
    """Σ c b / w as the family states it."""
    terms = [
        np.asarray(k)[(..., *[None] * (np.ndim(b) - np.ndim(k)))] * b
        for k, b in zip(c, family.basis(x, np), strict=True)
    ]
    return np.asarray(sum(terms) / family.weight(x), dtype=float)


def integral(family: ConjugateFamily, p: Any, function: Callable[[np.ndarray], Any]) -> float:
    """∫ function over the support of one variate."""
    if family.support.event == 0:
        ends = family.support.bounds or (0.0, np.inf)
        middle = [0.0] if ends[0] < 0 else []
        pieces = list(zip([ends[0], *middle], [*middle, ends[1]], strict=True))
        return sum(
            integrate.quad(lambda v: float(function(np.asarray(v))), *p, epsabs=1e-12, limit=400)[0] for p in pieces
        )
    nodes, weights = np.polynomial.legendre.leggauss(60)
    nodes, weights = (nodes + 1) / 2, weights / 2
    if family.support.event == 1:  # a triangle, as a square (Duffy)
        u, v = np.meshgrid(nodes, nodes, indexing="ij")
        points = np.stack([u, v * (1 - u), (1 - v) * (1 - u)], axis=-1)
        return float(np.einsum("ij,ij,i,j->", function(points), 1 - u, weights, weights))
    # As seen from the centre W is L Lᵀ with L = [[a, 0], [b, d]], of Jacobian 4 a² d |centre|^(3/2), within this reach.
    reach = np.sqrt(6 + 80 / p["df"])
    a, b, d = np.meshgrid(reach * nodes, reach * (2 * nodes - 1), reach * nodes, indexing="ij")
    matrices = np.stack([np.stack([a * a, a * b], axis=-1), np.stack([a * b, b * b + d * d], axis=-1)], axis=-1)
    root = np.linalg.cholesky(family.centre(p))
    jacobian = 4 * a**2 * d * np.linalg.det(root) ** 3 * 2 * reach**3
    return float(np.einsum("ijk,i,j,k->", function(root @ matrices @ root.T) * jacobian, weights, weights, weights))


def density(family: ConjugateFamily, p: Any) -> Callable[[np.ndarray], Any]:
    return lambda x: np.exp(np.asarray(family.log_density(p, x), dtype=float))


@every_family
@every_seed
def test_the_score_is_the_stated_combination_of_the_basis(family: ConjugateFamily, seed: int) -> None:
    c = coefficients(family, seed)
    p, rng = family.parameters(c), np.random.default_rng(seed + 100)
    x = family.support.typical(shape_of(family), rng)
    expected = score(family, c, x)
    step = 1e-5 if family.support.event == 2 else 1e-6
    for entry in np.ndindex(shape_of(family)):
        unit = np.zeros(shape_of(family))
        unit[entry] += 0.5
        unit[entry[::-1] if family.support.event == 2 else entry] += 0.5
        rise = np.sum(family.log_density(p, x + step * unit)) - np.sum(family.log_density(p, x - step * unit))
        assert_allclose(float(rise) / (2 * step), expected[entry], rtol=1e-5, atol=1e-5)


@every_family
@every_seed
def test_parameters_and_coefficients_invert_each_other(family: ConjugateFamily, seed: int) -> None:
    c = coefficients(family, seed)
    p = family.parameters(c)
    for back, value in zip(family.coefficients(p), c, strict=True):
        assert_allclose(back, value, rtol=1e-12, atol=1e-12)
    again = family.parameters(family.coefficients(p))
    assert again.keys() == p.keys()
    for name, value in p.items():
        assert_allclose(again[name], value, rtol=1e-12, atol=1e-12)


@every_family
@every_seed
def test_coefficients_are_found_at_the_anchors(family: ConjugateFamily, seed: int) -> None:
    c, rng = coefficients(family, seed), np.random.default_rng(seed + 100)
    shape = shape_of(family)
    anchors = family.anchors(shape, family.support.typical(shape, rng))
    solved = [family.coefficients_at(anchors, [score(family, c, x) for x in anchors])]
    if family.from_values is not None:
        p = family.parameters(c)
        solved.append(family.from_values(lambda x: family.log_density(p, x) + 3.0, anchors[0]))
    for found in solved:
        for one, value in zip(found, c, strict=True):
            assert_allclose(one, value, rtol=1e-9, atol=1e-9)


@every_family
@every_seed
def test_the_density_is_normalised(family: ConjugateFamily, seed: int) -> None:
    p = family.parameters(coefficients(family, seed))
    assert family.proper(p)
    assert_allclose(integral(family, p, density(family, p)), 1.0, rtol=1e-8)


@pytest.mark.slow
@every_family
@every_seed
def test_moments_are_those_of_the_density(family: ConjugateFamily, seed: int) -> None:
    p = family.parameters(coefficients(family, seed))
    f, frozen = density(family, p), family.frozen(p)
    means, variances = np.asarray(frozen.mean()), np.asarray(frozen.var())
    for entry in np.ndindex(shape_of(family)):
        mean = integral(family, p, lambda x, e=entry: f(x) * x[(..., *e)])
        assert_allclose(means[entry], mean, rtol=1e-7, atol=1e-8)
        variance = integral(family, p, lambda x, e=entry, m=mean: f(x) * (x[(..., *e)] - m) ** 2)
        assert_allclose(variances[entry], variance, rtol=1e-6)


@of_numbers
@every_seed
def test_draws_follow_the_marginal(family: ConjugateFamily, seed: int) -> None:
    p = family.parameters(coefficients(family, seed))
    draws, frozen = family.draw(p, np.random.default_rng(seed), 2000), family.frozen(p)
    assert draws.shape == (2000, *shape_of(family))
    assert family.support.inside(draws)
    uniform = frozen.cdf(draws).reshape(2000, -1)
    for column in uniform.T:
        assert stats.kstest(column, "uniform").pvalue > FALSE_ALARM


@of_matrices
@every_seed
def test_draws_of_a_matrix_have_its_mean(family: ConjugateFamily, seed: int) -> None:
    p = family.parameters(coefficients(family, seed))
    draws, frozen = family.draw(p, np.random.default_rng(seed), 2000), family.frozen(p)
    z = (draws.mean(axis=0) - frozen.mean()) / np.sqrt(frozen.var() / 2000)
    assert np.all(np.abs(z) < stats.norm.isf(FALSE_ALARM / 2))


@every_family
@every_seed
def test_the_frozen_distribution_has_this_density(family: ConjugateFamily, seed: int) -> None:
    p, rng = family.parameters(coefficients(family, seed)), np.random.default_rng(seed)
    distribution = family.joint(p) or family.frozen(p)
    for _ in range(5):
        x = family.draw(p, rng, 1)[0]
        assert_allclose(distribution.logpdf(x), float(family.log_density(p, x)), rtol=1e-9, atol=1e-9)


@of_numbers
@every_seed
def test_quantiles_invert_the_distribution_function(family: ConjugateFamily, seed: int) -> None:
    frozen = family.frozen(family.parameters(coefficients(family, seed)))
    q = np.array([0.01, 0.4, 0.5, 0.97]).reshape(-1, *[1] * len(shape_of(family)))
    assert_allclose(frozen.cdf(frozen.ppf(q)), np.broadcast_to(q, (4, *shape_of(family))), rtol=1e-7)


@with_graph
@every_seed
def test_the_graph_is_the_density(family: ConjugateFamily, seed: int) -> None:
    p, rng = family.parameters(coefficients(family, seed)), np.random.default_rng(seed)
    assert family.log_density_graph is not None
    x = family.draw(p, rng, 1)[0]
    graph: Any = family.log_density_graph({n: pt.constant(np.asarray(v)) for n, v in p.items()}, x)
    assert_allclose(
        graph.eval(mode=small_mode()), np.asarray(family.log_density(p, x), dtype=float), rtol=1e-10, atol=1e-10
    )


@every_family
@every_seed
def test_the_mode_is_the_maximum(family: ConjugateFamily, seed: int) -> None:
    """Higher than anywhere on the way to any draw; and the same whatever the scale of the density's logarithm."""
    c = coefficients(family, seed)
    p = family.parameters(c)
    now = family.support.start(shape_of(family))
    mode = family.mode(c, now)
    assert mode.shape == shape_of(family)
    assert family.support.inside(mode)
    highest = family.log_density(p, mode)
    for draw in family.draw(p, np.random.default_rng(seed), 100):
        for part in (1.0, 0.3, 0.1, 0.01, 1e-3):
            assert family.log_density(p, mode + part * (draw - mode)) < highest
    assert_allclose(family.mode([3 * k for k in c], now), mode, rtol=1e-12)


@of_numbers
def test_a_flat_density_keeps_the_value_of_now(family: ConjugateFamily) -> None:
    now = family.support.start(shape_of(family))
    assert_allclose(family.mode([0 * k for k in coefficients(family, 0)], now), now)


@every_family
def test_the_support_holds_what_it_says(family: ConjugateFamily) -> None:
    support, rng = family.support, np.random.default_rng(0)
    shape = (4, *shape_of(family))
    assert support.inside(support.start(shape))
    assert support.start(shape).shape == support.typical(shape, rng).shape == shape
    assert support.inside(support.typical(shape, rng))
    assert all(support.inside(x) and x.shape == shape for x in support.edges(shape))
    guess = support.typical(shape, rng)
    centre, move = support.recentred(guess, guess)
    assert_allclose(centre, guess, rtol=1e-12)
    assert move < 1e-9
    centre, _ = support.recentred(guess, np.full(shape, np.nan))
    assert support.inside(centre)


@scaling
@every_seed
def test_a_block_that_is_scaled_adds_to_its_coefficient(family: ConjugateFamily, seed: int) -> None:
    """φ^(−κd/2), and |W|^(−d/2) of a matrix, stays in the family."""
    gaussian = family.gaussian
    assert gaussian is not None
    c, rng = coefficients(family, seed), np.random.default_rng(seed)
    changed = list(c)
    changed[gaussian.coefficient] = changed[gaussian.coefficient] - 0.5 * gaussian.power
    differences = []
    for _ in range(3):
        x = family.support.typical(shape_of(family), rng)
        size = np.linalg.slogdet(x)[1] if family.support.event else np.log(x)
        after, before = (family.log_density(family.parameters(k), x) for k in (changed, c))
        differences.append(float(after - before + 0.5 * gaussian.power * size))
    assert_allclose(differences, differences[0], rtol=1e-9)


@scaling
@every_seed
def test_what_it_scales_is_student_once_it_is_integrated_out(family: ConjugateFamily, seed: int) -> None:
    gaussian = family.gaussian
    assert gaussian is not None
    p = family.parameters(coefficients(family, seed))
    f, (df, scale) = density(family, p), gaussian.student(p)
    size = shape_of(family)[0] if family.support.event else 1
    theta = np.random.default_rng(seed).normal(size=size) * np.sqrt(np.diag(np.atleast_2d(scale)))

    def joint(x: np.ndarray) -> Any:
        precision = np.asarray(x if family.support.event else x[..., None, None] ** gaussian.power)
        square = np.einsum("i,...ij,j->...", theta, precision, theta)
        return f(x) * np.exp(0.5 * np.linalg.slogdet(precision)[1] - 0.5 * square - 0.5 * size * np.log(2 * np.pi))

    expected = stats.multivariate_t(np.zeros(size), np.atleast_2d(scale), df=float(df)).pdf(theta)
    assert_allclose(integral(family, p, joint), expected, rtol=1e-7)
