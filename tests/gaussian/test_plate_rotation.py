"""Plates whose members share one precision: their rotated form against the whole, and against dense covariances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import sparse, stats

import bayeskit as bk
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.plan import analyse
from bayeskit.gaussian.plate_rotation import Plates, rotated
from bayeskit.model.unconstrained import Unconstrained

Arrays = tuple[int, np.ndarray, np.ndarray, sparse.csr_array]


def dense(size: int, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """T."""
    matrix = np.zeros((size + 1, size + 1))
    matrix[rows, columns] = matrix[columns, rows] = values
    return matrix


def log_integral(matrix: np.ndarray) -> float:
    precision, linear = -matrix[:-1, :-1], matrix[:-1, -1]
    half = 0.5 * linear @ np.linalg.solve(precision, linear) + 0.5 * matrix[-1, -1]
    return float(half - 0.5 * np.linalg.slogdet(precision / (2 * np.pi))[1])


def example(
    members: tuple[int, ...], width: int, shared: int, rng: np.random.Generator, *, same: bool = True, rank: int = 2
) -> Arrays:
    """Plates of several sizes with two entries of β, in an order that is mixed up; β = (1, 1) is proper."""
    size = sum(members) * width + shared
    matrices = np.zeros((2, size + 1, size + 1))
    start = 0
    for count in members:
        a = rng.normal(size=(2, width, width))
        crossing = rng.normal(size=(2, count, rank)) @ rng.normal(size=(2, rank, width * (shared + 1)))
        for c in range(count):
            at = np.arange(start + c * width, start + (c + 1) * width)
            extra = 0.0 if same else 1e-9 * c
            matrices[:, at[:, None], at] = -(a @ np.swapaxes(a, 1, 2)) - (20.0 + extra) * np.eye(width)
            cross = crossing[:, c].reshape(2, width, shared + 1)
            matrices[:, at, size - shared :] = cross
            matrices[:, size - shared :, at] = np.swapaxes(cross, 1, 2)
        start += count * width
    corner = np.arange(size - shared, size)
    matrices[:, corner[:, None], corner] = -40.0 * sum(members) * np.eye(shared)
    matrices[:, -1, -1] = 3.0
    # Members next to each other differ by their place in their plate only: those of a plate are everywhere.
    places = rng.permutation(sum(members) + shared)
    order = np.concatenate(
        [
            np.arange(p * width, (p + 1) * width) if p < sum(members) else [sum(members) * (width - 1) + p]
            for p in places
        ]
    )
    order = np.append(order, size)
    matrices = matrices[:, order][:, :, order]
    rows, columns = np.tril_indices(size + 1)
    used = np.any(matrices[:, rows, columns] != 0, axis=0)
    rows, columns = rows[used], columns[used]
    return size, rows, columns, sparse.csr_array(matrices[:, rows, columns].T)


@pytest.mark.parametrize(
    ("members", "width", "shared", "left"),
    [
        ((80,), 1, 0, 2),
        ((50,), 2, 3, 4 * 2 + 3),
        ((40, 30, 1), 3, 0, 4 * 3 + 4 * 3 + 3),
        ((30, 40, 1, 1), 2, 2, 4 * 2 + 4 * 2 + 2 + 2 + 2),
    ],
)
@pytest.mark.parametrize("beta", [(1.0, 1.0), (0.3, 2.0), (40.0, 0.01)])
def test_the_integral_is_that_of_the_whole(
    members: tuple[int, ...], width: int, shared: int, left: int, beta: tuple[float, float]
) -> None:
    size, rows, columns, table = example(members, width, shared, np.random.default_rng(3))
    plates = rotated(size, rows, columns, table)
    assert isinstance(plates, Plates)
    assert plates.size == left
    whole = log_integral(dense(size, rows, columns, table @ np.array(beta)))
    short = log_integral(dense(plates.size, plates.rows, plates.columns, plates.table @ np.array(beta)))
    for count, width_, constants in plates.spared:
        precision = -(constants @ np.array(beta)).reshape(width_, width_)
        short -= 0.5 * count * np.linalg.slogdet(precision / (2 * np.pi))[1]
    assert short == pytest.approx(whole, rel=1e-12)


def test_members_that_differ_are_left_alone() -> None:
    assert rotated(*example((80,), 1, 0, np.random.default_rng(3), same=False)) is None


def test_members_of_which_each_says_something_else_are_left_alone() -> None:
    assert rotated(*example((80,), 1, 40, np.random.default_rng(3), rank=80)) is None


def test_few_variables_are_left_alone() -> None:
    assert rotated(*example((60,), 1, 0, np.random.default_rng(3))) is None


# --- whole models -----------------------------------------------------------------------------------------------------
GROUPS, EACH = 70, 3
Y = np.random.default_rng(4).normal(size=(GROUPS, EACH)) + np.random.default_rng(5).normal(size=(GROUPS, 1))
X = np.random.default_rng(6).normal(size=GROUPS)


def balanced() -> tuple[pm.Model, Callable[[np.ndarray], float]]:
    """As many rows in each group, a covariate of the groups."""
    with pm.Model() as model:
        tau, sigma = pm.HalfNormal("tau"), pm.HalfNormal("sigma")
        mu, slope = pm.Normal("mu", 0.0, 2.0), pm.Normal("slope", 0.0, 2.0)
        level = pm.Normal("level", 0.0, tau, shape=GROUPS)
        pm.Normal("y", (mu + slope * X + level)[:, None], sigma, observed=Y)

    def covariance(phi: np.ndarray) -> float:
        tau, sigma = phi
        between = 4.0 + 4.0 * np.outer(X, X) + tau**2 * np.eye(GROUPS)
        whole = np.kron(between, np.ones((EACH, EACH))) + sigma**2 * np.eye(GROUPS * EACH)
        return float(stats.multivariate_normal(np.zeros(GROUPS * EACH), whole).logpdf(Y.ravel()))

    return model, covariance


def one_factor() -> tuple[pm.Model, Callable[[np.ndarray], float]]:
    """Loadings on a factor that every row has a value of."""
    with pm.Model() as model:
        loading, sigma = pm.HalfNormal("loading", shape=EACH), pm.HalfNormal("sigma", shape=EACH)
        factor = pm.Normal("factor", 0.5, 1.0, shape=(GROUPS, 1))
        pm.Normal("y", pt.dot(factor, loading[None, :]), sigma, observed=Y)

    def covariance(phi: np.ndarray) -> float:
        loading, sigma = phi[:EACH], phi[EACH:]
        row = stats.multivariate_normal(0.5 * loading, np.outer(loading, loading) + np.diag(sigma**2))
        return float(row.logpdf(Y).sum())

    return model, covariance


@pytest.mark.slow
@pytest.mark.parametrize("build", [balanced, one_factor])
def test_models_against_dense_covariances(build: Callable[[], tuple[pm.Model, Callable[[np.ndarray], float]]]) -> None:
    model, expected = build()
    collapsed = collapsed_density(analyse(model))
    plates = collapsed.blocks[0][1].plates
    assert plates is not None
    assert plates.size < 10
    space = Unconstrained(bk.collapse(model))
    for seed in range(3):
        point = 0.5 * np.random.default_rng(seed).normal(size=space.size)
        phi = np.exp(point)
        wanted = expected(phi) + float(np.sum(stats.halfnorm.logpdf(phi) + point))
        assert space.log_density(point)[0] == pytest.approx(wanted, rel=1e-11)
        value, gradient = space.value_and_gradient(point)
        assert value == pytest.approx(wanted, rel=1e-11)
        step = 1e-4
        sides = np.concatenate([point + k * step * np.eye(space.size) for k in (-2, -1, 1, 2)])
        f = space.log_density(sides).reshape(4, -1)
        differences = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)
        assert gradient == pytest.approx(differences, rel=1e-6, abs=1e-6 * np.abs(gradient).max())


@pytest.mark.slow
def test_what_was_rotated_away_is_recovered_all_the_same() -> None:
    """The moments of the factor given everything else are those of a regression of the row on the loadings."""
    model, _ = one_factor()
    loading, sigma = np.array([0.7, 1.2, 0.4]), np.array([0.5, 0.9, 1.1])
    names = ("chain", "draw")
    drawn = xr.Dataset(
        {
            "loading": ((*names, "loading_dim_0"), np.broadcast_to(loading, (1, 20_000, EACH))),
            "sigma": ((*names, "sigma_dim_0"), np.broadcast_to(sigma, (1, 20_000, EACH))),
        }
    )
    factor = bk.recover(model, drawn, random_seed=1)["posterior"]["factor"].to_numpy()[0, :, :, 0]
    precision = 1 + np.sum(loading**2 / sigma**2)
    mean = (0.5 + Y @ (loading / sigma**2)) / precision
    assert factor.mean(axis=0) == pytest.approx(mean, abs=5 * precision**-0.5 / np.sqrt(20_000))
    assert factor.std(axis=0) == pytest.approx(np.full(GROUPS, precision**-0.5), rel=0.03)
