"""The answers of references, against sums over a grid of PyMC's own density and against SciPy's formulas."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.graph.replace import vectorize_graph
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.graphs.compile import small_mode
from bayeskit.validation import ReferencePosterior, assert_matches_exact
from bayeskit.validation.references.reference_posterior import PROBABILITIES

# Of one or two real numbers, from every group that has such: what a grid can integrate.
ON_A_GRID = (
    "one_in_a_million",
    "half_cauchy_scale",
    "waves",
    "banana",
    "logistic_slope",
    "end_of_a_range",
    "gamma_near_zero",
)
GRID = {1: (20_001, 2.0), 2: (401, 1.0)}  # points an axis, and how far it goes beyond the draws


@cache
def the(name: str) -> ReferencePosterior:
    (found,) = bk.reference_posteriors([name])
    return found


def log_density_of(model: pm.Model) -> Any:
    """PyMC's log density in the coordinates in which it samples, of all points of a grid at once."""
    flat = [pt.vector(f"x{k}") for k in range(sum(size_of(model, v) for v in model.value_vars))]
    rest, batched = list(flat), {}
    for value in model.value_vars:
        parts, rest = rest[: size_of(model, value)], rest[size_of(model, value) :]
        batched[value] = pt.stack(parts, axis=-1) if value.type.ndim else parts[0]
    backward = [
        batched[v] if (move := model.rvs_to_transforms[rv]) is None else move.backward(batched[v], *rv.owner.inputs)
        for rv, v in ((model.values_to_rvs[v], v) for v in model.value_vars)
    ]
    graphs = [vectorize_graph(model.logp(), batched), *backward]
    return pytensor.function(flat, graphs, mode=Mode(linker="py", optimizer=None), on_unused_input="ignore")


def size_of(model: pm.Model, value: Any) -> int:
    return int(np.size(model.initial_point(random_seed=0)[value.name]))


def grid_of(reference: ReferencePosterior, model: pm.Model) -> list[np.ndarray]:
    """Axes that hold the draws and as much again on either side, or more; what they leave out, the evidence shows."""
    draws = reference.posterior.tree["posterior"].to_dataset()
    axes = []
    for value in model.value_vars:
        rv = model.values_to_rvs[value]
        values, move = draws[rv.name].stack(s=("chain", "draw")).to_numpy(), model.rvs_to_transforms[rv]
        moved = values if move is None else move.forward(pt.constant(values), *rv.owner.inputs).eval(mode=small_mode())
        axes += list(moved.reshape(-1, moved.shape[-1]))
    points, more = GRID[len(axes)]
    spread = [(axis.min() - more * np.ptp(axis), axis.max() + more * np.ptp(axis)) for axis in axes]
    return [np.linspace(low, high, points) for low, high in spread]


def hold_to_sum(name: str, axes: list[np.ndarray], log_density: Any, scalars: list[np.ndarray]) -> None:
    """Evidence, quantiles and moments of a reference against the sum over a grid; a scalar for each of its axes."""
    shape = tuple(map(len, axes))
    log_cell = sum(np.log(axis[1] - axis[0]) for axis in axes)
    assert special.logsumexp(log_density) + log_cell == pytest.approx(float(the(name).posterior.log_evidence), abs=1e-6)
    weights = special.softmax(log_density).reshape(shape)
    for k, (label, row) in enumerate(the(name).summary().iterrows()):
        along = weights.sum(axis=tuple(i for i in range(len(axes)) if i != k))
        values = np.moveaxis(scalars[k].reshape(shape), k, 0).reshape(len(along), -1)[:, 0]
        below = np.cumsum(along) - along / 2
        for p in PROBABILITIES:
            assert np.interp(row[f"q{100 * p:g}"], values, below) == pytest.approx(p, abs=5e-4), label
        if np.isfinite(row["sd"]):
            assert row["mean"] == pytest.approx(along @ values, abs=1e-5 * row["sd"])
            assert row["sd"] == pytest.approx(np.sqrt(along @ (values - along @ values) ** 2), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_A_GRID)
def test_an_answer_is_that_of_a_sum_over_a_grid(name: str) -> None:
    model = the(name).build()
    axes = grid_of(the(name), model)
    mesh = [m.ravel() for m in np.meshgrid(*axes, indexing="ij")]
    log_density, *parameters = log_density_of(model)(*mesh)
    scalars = np.concatenate([p.reshape(len(mesh[0]), -1) for p in parameters], axis=1).T
    hold_to_sum(name, axes, log_density, list(scalars))


def contaminated(y: np.ndarray, mean: np.ndarray) -> np.ndarray:
    density = 0.9 * stats.norm.pdf(y, mean[:, None], 1.0) + 0.1 * stats.norm.pdf(y, mean[:, None], 10.0)
    return stats.norm.logpdf(mean, 0, 5) + np.log(density).sum(axis=1)


def switching(y: np.ndarray, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    density = (stats.norm.pdf(y, one[:, None], 1.5) + stats.norm.pdf(y, two[:, None], 1.5)) / 2
    return stats.norm.logpdf(one, 0, 2) + stats.norm.logpdf(two, 0, 2) + np.log(density).sum(axis=1)


def correlated(pairs: np.ndarray, rho: np.ndarray) -> np.ndarray:
    (a, c), b = (pairs**2).sum(axis=0), pairs.prod(axis=1).sum()
    quadratic = (a + c - 2 * rho * b) / (1 - rho**2)
    return -np.log(2) - 12 * np.log(2 * np.pi) - 6 * np.log(1 - rho**2) - quadratic / 2


BY_FORMULA = {
    "contaminated_mean": (contaminated, "y", [np.linspace(-40, 40, 40_001)]),
    "switching_labels": (switching, "y", [np.linspace(-9, 9, 301)] * 2),
    "correlation_of_pairs": (correlated, "pairs", [np.linspace(-1, 1, 60_001)[1:-1]]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_FORMULA)
def test_an_answer_is_that_of_scipys_densities(name: str) -> None:
    formula, data, axes = BY_FORMULA[name]
    observed = the(name).posterior.tree["observed_data"][data].to_numpy()
    mesh = [m.ravel() for m in np.meshgrid(*axes, indexing="ij")]
    hold_to_sum(name, axes, formula(observed, *mesh), mesh)


def test_a_funnel_is_that_of_quadrature_by_scipy() -> None:
    """Given the log variance v, each y is Normal(0, e^v + 20²), and x Normal(0, 1 / (e^-v + 1/400)) at y = 0."""

    def mean_of(value: Any) -> float:
        def integrand(v: float) -> float:
            return value(v) * stats.norm.pdf(v, 0, 3) * stats.norm.pdf(0, 0, np.sqrt(np.exp(v) + 400)) ** 9

        return integrate.quad(integrand, -40, 40, points=[0], epsabs=0, epsrel=1e-11, limit=400)[0]

    reference, total = the("funnel_of_10"), mean_of(lambda v: 1.0)
    table = reference.summary()
    assert float(reference.posterior.log_evidence) == pytest.approx(np.log(total), abs=1e-9)
    assert table.at["log_variance", "mean"] == pytest.approx(mean_of(lambda v: v) / total, abs=1e-6)
    variance = mean_of(lambda v: 1 / (np.exp(-v) + 1 / 400)) / total
    assert table.loc["x[0]":"x[8]", "sd"].to_numpy() == pytest.approx(np.full(9, np.sqrt(variance)), rel=1e-6)
    below = mean_of(lambda v: stats.norm.cdf(table.at["x[0]", "q95"] / np.sqrt(1 / (np.exp(-v) + 1 / 400)))) / total
    assert below == pytest.approx(0.95, abs=1e-6)
    assert set(table["label"]) == {"quadrature"}


def test_closed_forms_are_those_of_scipy() -> None:
    """Student's t of two degrees, whose variance is infinite; 0.9999; a hundred Gammas; shares; a hypergeometric."""
    table = the("student_of_two_degrees").summary()
    assert table.loc["mean", ["q5", "q95"]].to_list() == pytest.approx(
        stats.t(2, 0.75, 0.729).ppf([0.05, 0.95]), rel=1e-3
    )
    assert not np.isfinite(table.at["mean", "sd"])
    draws = the("sum_of_two").posterior.tree["posterior"]["part"].to_numpy().reshape(-1, 2)
    assert np.corrcoef(draws.T)[0, 1] == pytest.approx(-1e4 / (1e4 + 1), abs=1e-5)
    gamma = stats.gamma(0.5 + np.arange(100) % 10, scale=1 / 1.5)
    assert the("hundred_rates").summary()["q25"].to_numpy() == pytest.approx(gamma.ppf(0.25))
    beta = stats.beta(5.0, 19.5)
    assert the("shares").summary().loc["share[0]", ["mean", "sd"]].to_list() == pytest.approx([beta.mean(), beta.std()])
    sizes = np.arange(79, 401)
    weights = stats.hypergeom(sizes, 40, 50).pmf(11)
    found = the("how_many_animals")
    assert found.summary().at["size", "mean"] == pytest.approx(sizes @ weights / weights.sum())
    assert float(found.posterior.log_evidence) == pytest.approx(np.log(weights.mean()))


@pytest.mark.parametrize("name", [*ON_A_GRID, *BY_FORMULA, "funnel_of_10", "coin", "precision_of_pairs"])
def test_an_answer_is_exact_or_by_quadrature_and_made_once(name: str) -> None:
    """Of those that are answered here anyway; benchmarks/bench_references.py holds all of them to it."""
    posterior = the(name).posterior
    assert posterior is the(name).posterior
    assert posterior.method in ("exact", "quadrature") and posterior.log_evidence.label == posterior.method
    assert posterior.log_evidence.error < 1e-6 and posterior.certificate < 1e-6
    assert posterior.tree["posterior"].sizes["chain"] * posterior.tree["posterior"].sizes["draw"] == 10_000
    assert not the(name).summary()["mean"].isna().any()


def test_draws_are_asserted_to_match_a_reference() -> None:
    right = stats.beta(9, 6).rvs(size=(4, 1000), random_state=1)
    assert assert_matches_exact(the("coin"), {"chance": right}).passed
    with pytest.raises(AssertionError, match="chance: mean"):
        assert_matches_exact(the("coin"), {"chance": right * 0.95})


def test_a_matrix_is_judged_by_its_name_in_the_other_writing() -> None:
    """Bartlett's decomposition holds the matrix as a Deterministic; the answer is that of the Wishart prior."""
    model = the("precision_of_pairs").build()
    assert {rv.name for rv in model.free_RVs} == {"precision_squares", "precision_below"}
    assert [rv.name for rv in the("precision_of_pairs").posterior.model.free_RVs] == ["precision"]
    y = model.rvs_to_values[model["y"]].eval(mode=small_mode())
    exact = stats.wishart(4 + 10, np.linalg.inv(np.eye(2) * 4 + y.T @ y))
    assert_matches_exact(the("precision_of_pairs"), {"precision": exact.rvs((4 * 1000), 1).reshape(4, 1000, 2, 2)})
