"""Every strategy against NumPy on the dense matrix, and the models that only one of them can answer."""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
import pytest
from scipy import sparse
from xarray.core.indexing import LazilyIndexedArray

import bayeskit as bk
from bayeskit.elimination import conjugate_posterior
from bayeskit.gaussian import factorisation
from bayeskit.gaussian.banded_layout import Lookup, layout
from bayeskit.gaussian.factorisation import NotPositiveDefinite, Precision, factorise, factorise_root

SIZE = 160


def chain(rng, size=SIZE, reach=2):
    """A positive definite band, its variables in random order."""
    half = sparse.diags_array([rng.normal(size=size - k) for k in range(reach + 1)], offsets=range(0, -reach - 1, -1))
    order = rng.permutation(size)
    return sparse.csr_array(half @ half.T + sparse.eye_array(size))[order][:, order]


def bordered(rng, plates=chain, shared=3):
    """A band with rows and columns shared by all, at random places."""
    inner = plates(rng, SIZE - shared)
    across = rng.normal(size=(shared, SIZE - shared)) * 0.1
    corner = np.diag(rng.uniform(1.0, 2.0, shared)) + across @ np.linalg.solve(inner.toarray(), across.T)
    matrix = sparse.block_array([[inner, sparse.csr_array(across.T)], [sparse.csr_array(across), corner]], format="csr")
    order = rng.permutation(SIZE)
    return sparse.csr_array(matrix)[order][:, order]


def plates(rng, size=SIZE):
    return sparse.csr_array(sparse.diags_array(rng.uniform(0.5, 2.0, size)))


def scaled(rng, matrix):
    """The same structure in units from 1e-6 to 1e6."""
    units = sparse.diags_array(10.0 ** rng.uniform(-6, 6, matrix.shape[0]))
    return sparse.csr_array(units @ matrix @ units)


STRUCTURES = {
    "plates": (plates, factorisation.Banded),
    "chain": (chain, factorisation.Banded),
    "bordered plates": (lambda rng: bordered(rng, plates, 1), factorisation.Bordered),
    "bordered chain": (bordered, factorisation.Bordered),
    "scaled": (lambda rng: scaled(rng, bordered(rng)), factorisation.Bordered),
    "full": (lambda rng: sparse.csr_array(np.cov(rng.normal(size=(SIZE, 3 * SIZE)))), factorisation.Dense),
    "small": (lambda rng: chain(rng, 12), factorisation.Dense),
}


@pytest.fixture(params=STRUCTURES, scope="module")
def case(request) -> tuple[Precision, Precision, np.ndarray]:
    build, strategy = STRUCTURES[request.param]
    matrix = build(np.random.default_rng(7))
    precision = factorise(matrix)
    assert isinstance(precision.factor, strategy)
    dense = factorise(matrix.toarray())
    assert isinstance(dense.factor, factorisation.Dense)
    return precision, dense, matrix.toarray()


def test_integral_and_moments_are_those_of_numpy(case):
    precision, dense, matrix = case
    linear = np.random.default_rng(1).normal(size=len(matrix)) * np.sqrt(np.diag(matrix))
    unit = np.sqrt(np.outer(np.diag(matrix), np.diag(matrix)))
    covariance = np.linalg.inv(matrix / unit) / unit
    log_determinant = np.linalg.slogdet(matrix / unit)[1] + np.sum(np.log(np.diag(matrix)))
    integral = 0.5 * (linear @ covariance @ linear - log_determinant + len(matrix) * math.log(2 * math.pi))
    for p in (precision, dense):
        assert p.log_determinant == pytest.approx(log_determinant, rel=1e-12)
        mean, variances = p.solve(linear), p.variances
        own = 0.5 * (linear @ mean - p.log_determinant + p.size * math.log(2 * math.pi))
        assert own == pytest.approx(integral, rel=1e-12)
        np.testing.assert_allclose(mean, covariance @ linear, rtol=1e-9, atol=1e-11 * np.max(np.abs(mean)))
        np.testing.assert_allclose(variances, np.diag(covariance), rtol=1e-10)
        np.testing.assert_allclose(p.covariance() * unit, covariance * unit, rtol=1e-8, atol=1e-10)


def test_colour_is_a_root_of_the_covariance_and_whiten_its_inverse(case):
    precision, _, matrix = case
    root = np.stack([precision.colour(unit) for unit in np.eye(len(matrix))], axis=1)
    unit = np.sqrt(np.diag(matrix))[:, None]
    np.testing.assert_allclose((unit * root) @ (unit * root).T, np.linalg.inv(matrix / unit / unit.T), atol=1e-9)
    deviation = root @ np.arange(1.0, len(matrix) + 1)
    assert np.sum(precision.whiten(deviation) ** 2) == pytest.approx(deviation @ matrix @ deviation, rel=1e-9)
    np.testing.assert_allclose(precision.whiten(deviation), np.arange(1.0, len(matrix) + 1), rtol=1e-8)


@pytest.mark.parametrize("structure", ["chain", "bordered chain", "small", "full"])
def test_of_many_matrices_those_that_are_no_precision_have_no_factor(structure: str) -> None:
    """An eigenvalue below zero behind a positive diagonal, and entries that are no numbers, on and off the diagonal."""
    good = STRUCTURES[structure][0](np.random.default_rng(7))
    lower = sparse.coo_array(sparse.tril(good, format="csr"))
    rows, columns = lower.coords
    order = np.lexsort((columns, rows))
    rows, columns, entries = rows[order], columns[order], lower.data[order]
    plan = layout(good.shape[0], rows, columns)
    off = int(np.flatnonzero((rows != columns) & (entries != 0))[-1])
    on = int(np.flatnonzero(rows == columns)[3])
    many = np.repeat(entries[None], 6, axis=0)
    many[1, off] = 2 * math.sqrt(good[rows[off], rows[off]] * good[columns[off], columns[off]])
    many[2, off], many[3, on], many[4, on] = np.nan, np.inf, -1.0
    found = factorisation.factorise_each(many, plan, plan.places(Lookup(good.shape[0], rows, columns)))
    assert [p is None for p in found] == [False, True, True, True, True, False]
    for precision in (found[0], found[5]):
        assert precision is not None
        np.testing.assert_allclose(precision.covariance() @ good.toarray(), np.eye(good.shape[0]), atol=1e-7)


def test_draws_are_coloured_noise_however_many_at_a_time(case, monkeypatch):
    precision = case[0]
    noise = np.random.default_rng(3).standard_normal((7, precision.size))
    expected = np.stack([precision.colour(z) for z in noise])
    for many in (1, 10**6):
        monkeypatch.setattr(factorisation, "DRAWN", many)
        drawn = precision.draw(np.random.default_rng(3), 7)
        np.testing.assert_allclose(drawn, expected, rtol=1e-9, atol=1e-12 * np.max(np.abs(expected)))


def test_the_density_integrates_to_one(case):
    precision, _, matrix = case
    deviation = precision.colour(np.ones(precision.size))
    expected = 0.5 * (precision.size * math.log(2 * math.pi) - precision.log_determinant)
    assert precision.log_density(deviation) == pytest.approx(
        -0.5 * deviation @ matrix @ deviation - expected, rel=1e-10
    )


def test_places_lists_every_entry_once():
    matrix = bordered(np.random.default_rng(5))
    entries = sparse.coo_array(sparse.tril(matrix, format="csr"))
    rows, columns = entries.coords
    plan = layout(SIZE, rows, columns)
    band, border, corner = plan.places(Lookup(SIZE, rows, columns))
    assert sorted(plan.order) == list(range(SIZE))
    padded = np.append(entries.data, 0.0)
    assert np.sum(padded[band] ** 2) + np.sum(padded[border] ** 2) + np.sum(np.tril(padded[corner]) ** 2) == (
        pytest.approx(np.sum(entries.data**2), rel=1e-12)
    )


@pytest.mark.parametrize("shared", [0, 1, 3, 40, 200])
def test_what_all_others_touch_is_set_aside(shared):
    size = 3000
    order = np.random.default_rng(6).permutation(size)
    rows, columns = np.meshgrid(np.arange(shared), np.arange(size), indexing="ij")
    diagonal = np.arange(size)
    plan = layout(size, order[np.r_[rows.ravel(), diagonal]], order[np.r_[columns.ravel(), diagonal]])
    assert plan.width == 1
    assert sorted(plan.shared) == sorted(order[:shared])


@pytest.mark.parametrize("structure", [plates, chain, bordered])
def test_a_matrix_that_is_no_precision_is_refused(structure):
    matrix = structure(np.random.default_rng(2)).tolil()
    for value in (-1.0, 0.0, np.nan, np.inf):
        matrix[3, 3] = value
        with pytest.raises(NotPositiveDefinite):
            factorise(sparse.csr_array(matrix))
    indefinite = structure(np.random.default_rng(2)) + sparse.coo_array(([9.0, 9.0], ([3, 4], [4, 3])), (SIZE, SIZE))
    with pytest.raises(NotPositiveDefinite):
        factorise(sparse.csr_array(indefinite))
    with pytest.raises(NotPositiveDefinite):
        factorise(indefinite.toarray())


def test_a_root_is_as_good_as_its_square():
    root = np.random.default_rng(4).normal(size=(40, 9))
    precision, expected = factorise_root(root), factorise(root.T @ root)
    assert precision.log_determinant == pytest.approx(expected.log_determinant, rel=1e-10)
    np.testing.assert_allclose(precision.covariance(), expected.covariance(), rtol=1e-9, atol=1e-14)
    with pytest.raises(NotPositiveDefinite):
        factorise_root(root[:, [0, 1, 1]])


def two_level_evidence(group, y, mean, between, within, prior):
    """log p(y), in extended precision: residuals within the groups, then their means, then the mean of these."""
    exact = np.longdouble
    y, count = y.astype(exact), np.bincount(group).astype(exact)
    total = np.zeros(len(count), exact)
    np.add.at(total, group, y)
    average = total / count
    log_two_pi = np.log(2 * exact(np.pi))
    noise = exact(within) ** 2
    result = -0.5 * np.sum((y - average[group]) ** 2) / noise
    result -= 0.5 * (np.sum(count - 1) * (log_two_pi + np.log(noise)) + np.sum(np.log(count)))
    variance = exact(between) ** 2 + noise / count
    weight = np.sum(1 / variance)
    centre = np.sum(average / variance) / weight
    result -= 0.5 * np.sum(log_two_pi + np.log(variance) + (average - centre) ** 2 / variance)
    result += 0.5 * (log_two_pi - np.log(weight))
    spread = 1 / weight + exact(prior) ** 2
    return result - 0.5 * (log_two_pi + np.log(spread) + (centre - mean) ** 2 / spread)


@pytest.mark.parametrize("columns", [0, 2])
def test_a_mean_of_25_000_groups_has_a_closed_form(columns):
    groups, rows = 25_000, 60_000
    rng = np.random.default_rng(11)
    group = rng.permutation(np.arange(rows) % groups)
    y = rng.normal(1.0 + 0.7 * rng.standard_normal(groups)[group], 1.3)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.5, 2.0)
        theta = pm.Normal("theta", mu, 0.7, shape=groups)
        mean = theta[group]
        if columns:
            # Columns of zeros leave the evidence as it is, and cross every group.
            mean = mean + pm.math.dot(np.zeros((rows, columns)), pm.Normal("beta", 0.0, 1.0, shape=columns))
        pm.Normal("y", mean, 1.3, observed=y)
    posterior = bk.infer(model, draws=8, random_seed=1)
    expected = two_level_evidence(group, y, 0.5, 0.7, 1.3, 2.0)
    assert posterior.method == "exact"
    assert abs(posterior.log_evidence.value - expected) <= 1e-10 * abs(expected)
    assert 0 < posterior.certificate < 1e-6
    count = np.bincount(group)
    shrunk = 1 / 0.7**2 + count / 1.3**2
    average = np.bincount(group, y) / count
    variance = 0.7**2 + 1.3**2 / count
    precision_of_mu = 1 / 2.0**2 + np.sum(1 / variance)
    mean_of_mu = (0.5 / 2.0**2 + np.sum(average / variance)) / precision_of_mu
    assert posterior.marginal("mu").mean() == pytest.approx(mean_of_mu, rel=1e-10)
    assert posterior.marginal("mu").std() == pytest.approx(precision_of_mu**-0.5, rel=1e-10)
    expected_sd = np.sqrt(1 / shrunk + (1 / 0.7**2 / shrunk) ** 2 / precision_of_mu)
    np.testing.assert_allclose(posterior.marginal("theta").std(), expected_sd, rtol=1e-10)


def test_a_dense_precision_that_is_too_large_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(factorisation, "LARGEST_DENSE", 100)
    matrix = STRUCTURES["full"][0](np.random.default_rng(7))
    with pytest.raises(bk.BayeskitError, match="160 Normal variables is not banded"):
        factorise(matrix)


def test_draws_of_very_many_variables_are_made_when_they_are_read(monkeypatch):
    with pm.Model(coords={"group": list("abcdef")}) as model:
        theta = pm.Normal("theta", pm.Normal("mu", 0.0, 1.0), 1.0, dims="group")
        pm.Normal("y", theta, 1.0, observed=np.arange(6.0))
    monkeypatch.setattr(conjugate_posterior, "AT_ONCE", 100)
    later, again = (bk.infer(model, draws=400, random_seed=3).tree["posterior"] for _ in range(2))
    assert isinstance(later["theta"].variable._data, LazilyIndexedArray)
    assert later["theta"].dims == ("chain", "draw", "group")
    assert later["theta"].shape == (4, 100, 6)
    assert list(later["theta"].coords["group"].values) == list("abcdef")
    part = later["theta"].sel(group=["b", "e"]).isel(draw=[3, 1]).transpose("group", ...)
    whole = later["theta"].values
    np.testing.assert_array_equal(part, np.moveaxis(whole[:, [3, 1]][..., [1, 4]], -1, 0))
    np.testing.assert_array_equal(whole, again["theta"].values)
    np.testing.assert_array_equal(later["theta"].stack(sample=("chain", "draw")).values, whole.reshape(400, 6).T)
    # Of one draw of all variables together: their covariance with mu is that of the model.
    expected = np.linalg.inv(np.block([[np.array([[7.0]]), -np.ones((1, 6))], [-np.ones((6, 1)), 2 * np.eye(6)]]))
    stacked = np.concatenate([later["mu"].values.reshape(400, 1), whole.reshape(400, 6)], axis=1)
    np.testing.assert_allclose(np.cov(stacked.T), expected, atol=5 * np.max(expected) * np.sqrt(2 / 400))
    monkeypatch.undo()
    at_once = bk.infer(model, draws=400, random_seed=3)
    assert isinstance(at_once.tree["posterior"]["theta"].variable._data, np.ndarray)
    assert float(abs(later["theta"].mean() - at_once.marginal("theta").mean().mean())) < 0.1
