"""Mixtures and hidden Markov models of the catalogue: their density without the finite variables, and NUTS on it.

The oracles are SciPy's densities, a log-sum-exp over components, the forward algorithm in NumPy, and enumeration.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import special, stats

import bayeskit as bk
from bayeskit.catalogue.starts import group_rows, group_steps
from bayeskit.datasets import example_data, load_example, prepare
from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.recovery import state_recovery
from bayeskit.errors import BayeskitError
from bayeskit.graphs.compile import compile_small
from bayeskit.model.log_joint import LogJoint
from bayeskit.models import load_model

GAUSSIAN, BINOMIAL, MARKOV = (load_model(n) for n in ("gaussian_mixture", "binomial_mixture", "hidden_markov"))
COVARIANCES = ("spherical", "diagonal", "tied", "full")
POINTS = 3

Point = Mapping[str, np.ndarray]


def without_states(model: pm.Model) -> Analysis:
    """The model with z summed out, as the plan has it."""
    analysis = analyse(model)
    assert [s.name for s in analysis.summed] == ["z"]
    return analysis


def density_of(analysis: Analysis, point: Point) -> float:
    """log p(y, φ)."""
    return analysis.joint.logp({n: point[n] for n in analysis.joint.names})


def summed_density(model: pm.Model, point: Point) -> tuple[float, Analysis]:
    analysis = without_states(model)
    return density_of(analysis, point), analysis


def states_at(analysis: Analysis, points: list[Point]) -> np.ndarray:
    """p(z | y, φ) at each point."""
    draws = {n: np.stack([np.asarray(p[n]) for p in points]) for n in points[0]}
    return np.concatenate([found for _, found in state_recovery(analysis)["z"].probabilities(draws, len(points))])


def state_probabilities(analysis: Analysis, point: Point) -> np.ndarray:
    return states_at(analysis, [point])[0]


# --- Gaussian mixtures ------------------------------------------------------------------------------------------------


def table(rows: int, features: int, seed: int = 0) -> xr.Dataset:
    """Three clusters, in columns of different units."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(rows, features)) + 3 * rng.integers(3, size=(rows, 1))
    return xr.Dataset({"y": (("row", "feature"), y * 10.0 ** np.arange(features) + 5)})


def gaussian_point(
    rng: np.random.Generator, y: np.ndarray, components: int, covariance: str, nu: float, guess: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray, float]:
    """Values of the covariance's variables, the covariances, and their prior log density."""
    size = y.shape[1]
    if covariance in ("spherical", "diagonal"):
        shape = (components, size) if covariance == "diagonal" else (components,)
        prior = guess**2 if covariance == "diagonal" else np.mean(guess**2)
        variance = prior * rng.uniform(0.3, 3.0, size=shape)
        value = stats.invgamma(nu / 2, scale=nu * prior / 2).logpdf(variance).sum()
        sigma = [np.diag(np.broadcast_to(v, size)) for v in variance]
        return {"variance": variance}, np.stack(sigma), value
    batch = (components,) if covariance == "full" else ()
    square = rng.uniform(0.5, 5.0, size=(*batch, size))
    below = rng.normal(size=(*batch, size * (size - 1) // 2))
    value = stats.chi2(nu - size + np.arange(1, size + 1)).logpdf(square).sum() + stats.norm.logpdf(below).sum()
    sigma = []
    for s, b in zip(np.atleast_2d(square), np.atleast_2d(below), strict=True):
        whitener = np.diag(np.sqrt(s))
        whitener[np.tril_indices(size, -1)] = b
        whitener = whitener / (np.sqrt(nu) * guess)
        sigma.append(np.linalg.inv(whitener.T @ whitener))
    values = {"diagonal_square": square} | ({"below": below} if size > 1 else {})
    return values, np.stack(sigma if covariance == "full" else sigma * components), value


@pytest.mark.slow
@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_gaussian_mixture_with_its_components_summed_out(features: int, covariance: str) -> None:
    standardise = COVARIANCES.index(covariance) % 2 == features // 3
    data, components, rng = table(14, features), 3, np.random.default_rng(features)
    y = data["y"].to_numpy()
    options: dict[str, Any] = {} if standardise else {"mean": 2.0}
    centre, unit = (y.mean(axis=0), y.std(axis=0)) if standardise else (2.0, np.ones(features))
    nu, spread, scale, concentration = features + 1.5, 0.7, 1.5, 1.4
    model = GAUSSIAN.build(
        data, components=components, covariance=covariance, standardise=standardise, concentration=concentration,
        mean_scale=scale, spread=spread, degrees_of_freedom=nu, **options,
    )  # fmt: skip
    analysis, points, probabilities = without_states(model), list[Point](), []
    for _ in range(POINTS):
        point, sigma, expected = gaussian_point(rng, y, components, covariance, nu, spread * unit)
        point["weights"] = rng.dirichlet(np.ones(components))
        point["mean"] = rng.normal(y.mean(axis=0), y.std(axis=0), size=(components, features))
        expected += stats.dirichlet(np.full(components, concentration)).logpdf(point["weights"])
        expected += stats.norm(centre, scale * unit).logpdf(point["mean"]).sum()
        terms = [
            np.log(point["weights"][k]) + stats.multivariate_normal(point["mean"][k], sigma[k]).logpdf(y)
            for k in range(components)
        ]
        found = density_of(analysis, point)
        assert found == pytest.approx(expected + special.logsumexp(terms, axis=0).sum(), rel=1e-10, abs=1e-10)
        points.append(point)
        probabilities.append(special.softmax(np.array(terms), axis=0).T)
    np.testing.assert_allclose(states_at(analysis, points), probabilities, atol=1e-10)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_gaussian_mixture_against_all_allocations(covariance: str) -> None:
    data, components, rng = table(8, 2), 3, np.random.default_rng(8)
    y = data["y"].to_numpy()
    point, sigma, _ = gaussian_point(rng, y, components, covariance, 4.0, 0.5 * y.std(axis=0))
    point["weights"], point["mean"] = rng.dirichlet(np.ones(3)), y[:3]
    model = GAUSSIAN.build(data, components=components, covariance=covariance)
    allocations = np.array(list(itertools.product(range(components), repeat=len(y))))
    each = np.stack(
        [np.log(point["weights"][k]) + stats.multivariate_normal(y[k], sigma[k]).logpdf(y) for k in range(components)]
    )
    joint = each[allocations, np.arange(len(y))].sum(axis=1)
    found, analysis = summed_density(model, point)
    prior = analysis.original.logp({**point, "z": allocations[17]}) - joint[17]
    assert found == pytest.approx(prior + special.logsumexp(joint), rel=1e-10)
    marginal = special.softmax(joint) @ (allocations[..., None] == np.arange(components)).reshape(len(joint), -1)
    np.testing.assert_allclose(state_probabilities(analysis, point).ravel(), marginal, atol=1e-10)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_covariance_by_its_factor_is_inverse_wishart(size: int) -> None:
    """The densities of the entries of the factor are that of SciPy's Wishart times the Jacobian."""
    data, nu = table(6, size), size + 2.5
    guess = 0.5 * data["y"].to_numpy().std(axis=0)
    joint = LogJoint.from_model(GAUSSIAN.build(data, components=1, covariance="full", degrees_of_freedom=nu))
    names = [n for n in joint.names if n != "mean"]
    covariance = compile_small([joint.values[n] for n in names], joint.deterministics["covariance"])
    density = compile_small([joint.values[n] for n in names], sum(joint.factors[n].sum() for n in names))
    rng = np.random.default_rng(size)
    values = [rng.uniform(0.5, 3.0, size=(1, size)), rng.normal(size=(1, size * (size - 1) // 2))][: len(names)]
    lower = np.tril_indices(size)
    flat = np.concatenate([v.ravel() for v in values])

    def entries(flat: np.ndarray) -> np.ndarray:
        parts = np.split(flat, [size])[: len(values)]
        return np.linalg.inv(covariance(*(p.reshape(v.shape) for p, v in zip(parts, values, strict=True)))[0])[lower]

    step = 1e-4
    jacobian = np.stack([(entries(flat + s) - entries(flat - s)) / (2 * step) for s in step * np.eye(len(flat))])
    precision = np.linalg.inv(covariance(*values)[0])
    expected = stats.wishart(nu, np.diag(1 / (nu * guess**2))).logpdf(precision) + np.linalg.slogdet(jacobian)[1]
    assert float(density(*values)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["spherical", "full"])
def test_one_component_is_the_gaussian_itself(covariance: str) -> None:
    data = table(10, 1)
    y = data["y"].to_numpy()[:, 0]
    post = bk.infer(
        GAUSSIAN.build(data, components=1, covariance=covariance), draws=40, random_seed=1, progressbar=False
    )
    assert post.method == "quadrature"
    # The integral over the precision, with the mean integrated out, on a fine grid.
    guess = 0.25 * y.var()
    precision = np.exp(np.linspace(-12, 8, 4001)) / y.var()
    of_data = np.eye(10) / precision[:, None, None] + y.var()
    centred = np.broadcast_to((y - y.mean())[:, None], (4001, 10, 1))
    square = np.sum(centred * np.linalg.solve(of_data, centred), axis=(1, 2))
    evidence = -0.5 * (square + np.linalg.slogdet(of_data)[1] + 10 * np.log(2 * np.pi))
    evidence += stats.gamma(1.5, scale=1 / (1.5 * guess)).logpdf(precision)
    expected = special.logsumexp(evidence + np.log(precision)) + np.log(20 / 4000)
    assert float(post.log_evidence) == pytest.approx(expected, abs=1e-8)


# --- binomial mixtures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["equal", "dirichlet"])
def test_binomial_mixture_with_its_components_summed_out(weights: str) -> None:
    rng = np.random.default_rng(3)
    trials = rng.integers(0, 12, size=20)
    y = rng.binomial(trials, 0.4)
    data = xr.Dataset({"successes": ("row", y), "trials": ("row", trials)})
    model = BINOMIAL.build(data, components=3, weights=weights, alpha=1.5, beta=2.5, concentration=0.7)
    analysis, points, probabilities = without_states(model), list[Point](), []
    for _ in range(POINTS):
        theta, share = rng.beta(2, 2, size=3), np.full(3, 1 / 3)
        expected = stats.beta(1.5, 2.5).logpdf(theta).sum()
        if weights == "dirichlet":
            share = rng.dirichlet(np.ones(3))
            expected += stats.dirichlet(np.full(3, 0.7)).logpdf(share)
        terms = np.log(share)[:, None] + stats.binom(trials, theta[:, None]).logpmf(y)
        point = {"theta": theta, "weights": share}
        found = density_of(analysis, point)
        assert found == pytest.approx(expected + special.logsumexp(terms, axis=0).sum(), rel=1e-10)
        points.append(point)
        probabilities.append(special.softmax(terms, axis=0).T)
    np.testing.assert_allclose(states_at(analysis, points), probabilities, atol=1e-10)


def test_two_coins_are_exact_by_all_allocations() -> None:
    """Five sets of tosses have 32 allocations; given each, the coins are Beta."""
    post = bk.infer(BINOMIAL.build(example_data(BINOMIAL.EXAMPLE, BINOMIAL.VARIABLES), weights="equal"), random_seed=1)
    y = load_example("two_coins")["heads"].to_numpy()
    terms = []
    for allocation in itertools.product((0, 1), repeat=5):
        chosen = np.array(allocation)
        value = 5 * np.log(0.5) + np.log(special.comb(10, y)).sum()
        for k in (0, 1):
            value += special.betaln(1 + y[chosen == k].sum(), 1 + (10 - y[chosen == k]).sum())
        terms.append(value)
    assert post.method == "exact"
    assert float(post.log_evidence) == pytest.approx(special.logsumexp(terms), rel=1e-10)


def test_responsibilities_of_the_worked_example() -> None:
    """Do and Batzoglou's first E step: coins of 0.6 and 0.5."""
    data = example_data(BINOMIAL.EXAMPLE, BINOMIAL.VARIABLES)
    found = analyse(BINOMIAL.build(data.isel(row=np.arange(15) % 5)))  # five rows alone are enumerated
    point = {"theta": np.array([0.6, 0.5]), "weights": np.array([0.5, 0.5])}
    np.testing.assert_allclose(state_probabilities(found, point)[:5, 0], [0.45, 0.80, 0.73, 0.35, 0.65], atol=0.005)


# --- hidden Markov models ---------------------------------------------------------------------------------------------

EMISSIONS = ("normal", "poisson", "categorical")
INITIAL = ("uniform", "dirichlet", "stationary")
STATES, CATEGORIES = 3, 4


def series(emissions: str, rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if emissions == "normal":
        return 100 + 10 * rng.normal(size=rows)
    return rng.integers(CATEGORIES, size=rows).astype(float)


def markov_model(emissions: str, initial: str, y: np.ndarray, sequence: Any = None, **options: Any) -> pm.Model:
    columns = {"y": y} | ({} if sequence is None else {"sequence": sequence})
    if emissions == "categorical":
        options["categories"] = CATEGORIES
    data = prepare(pd.DataFrame(columns), MARKOV.VARIABLES)
    return MARKOV.build(data, states=STATES, emissions=emissions, initial=initial, **options)


def markov_point(emissions: str, initial: str, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    point = {"transition": rng.dirichlet(np.ones(STATES), size=STATES)}
    if initial == "dirichlet":
        point["initial"] = rng.dirichlet(np.ones(STATES))
    if emissions == "normal":
        return point | {"mean": rng.normal(100, 10, size=STATES), "variance": rng.uniform(20, 200, size=STATES)}
    if emissions == "poisson":
        return point | {"rate": rng.gamma(2.0, size=STATES)}
    return point | {"probability": rng.dirichlet(np.ones(CATEGORIES), size=STATES)}


def first_probabilities(initial: str, point: Point) -> np.ndarray:
    if initial == "uniform":
        return np.full(STATES, 1 / STATES)
    if initial == "dirichlet":
        return point["initial"]
    values, vectors = np.linalg.eig(point["transition"].T)
    vector = np.real(vectors[:, np.argmax(np.real(values))])
    return vector / vector.sum()


def emission_densities(emissions: str, point: Point, y: np.ndarray) -> np.ndarray:
    """log p(y_t | z_t = k), of shape (rows, states); zero for missing entries."""
    seen = ~np.isnan(y)
    value = np.where(seen, y, 0.0)[:, None]
    if emissions == "normal":
        found = stats.norm(point["mean"], np.sqrt(point["variance"])).logpdf(value)
    elif emissions == "poisson":
        found = stats.poisson(point["rate"]).logpmf(value)
    else:
        found = np.log(point["probability"]).T[value[:, 0].astype(int)]
    return np.where(seen[:, None], found, 0.0)


def forward(first: np.ndarray, transition: np.ndarray, likelihood: np.ndarray) -> float:
    """log p(y_1 … y_T), one step at a time."""
    alpha = np.log(first) + likelihood[0]
    for row in likelihood[1:]:
        alpha = special.logsumexp(alpha[:, None] + np.log(transition), axis=0) + row
    return float(special.logsumexp(alpha))


def markov_prior(emissions: str, initial: str, point: Point, y: np.ndarray) -> float:
    """The prior log density of the defaults, by SciPy."""
    value = sum(stats.dirichlet(np.ones(STATES)).logpdf(row) for row in point["transition"])
    if initial == "dirichlet":
        value += stats.dirichlet(np.ones(STATES)).logpdf(point["initial"])
    centre, unit = np.nanmean(y), np.nanstd(y)
    if emissions == "normal":
        value += stats.norm(centre, unit).logpdf(point["mean"]).sum()
        return value + stats.invgamma(1.5, scale=1.5 * 0.25 * unit**2).logpdf(point["variance"]).sum()
    if emissions == "poisson":
        return value + stats.gamma(1.0, scale=centre).logpdf(point["rate"]).sum()
    return value + sum(stats.dirichlet(np.ones(CATEGORIES)).logpdf(row) for row in point["probability"])


LAYOUTS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "one sequence": (None, ()),
    "missing entries": (None, (0, 5, 6, 14)),
    "sequences of different length": (list("aabbbcaaaaacbca"), ()),
    "both": (list("aabbbcaaaaacbca"), (1, 5, 14)),
}


# Every emission with two initial distributions, every initial distribution with two emissions, and every layout.
OPTIONS = [
    *((EMISSIONS[k], INITIAL[k - 1], "both") for k in range(3)),
    *((EMISSIONS[k], INITIAL[k], layout) for k, layout in enumerate(list(LAYOUTS)[:3])),
]


@pytest.mark.slow
@pytest.mark.parametrize(("emissions", "initial", "layout"), OPTIONS)
def test_hidden_markov_model_with_its_states_summed_out(emissions: str, initial: str, layout: str) -> None:
    sequence, missing = LAYOUTS[layout]
    y = series(emissions, 15)
    y[list(missing)] = np.nan
    names = np.array(sequence or ["a"] * len(y))
    model = markov_model(emissions, initial, y, sequence)
    point = markov_point(emissions, initial, 1)
    first, likelihood = first_probabilities(initial, point), emission_densities(emissions, point, y)
    parts = [forward(first, point["transition"], likelihood[names == name]) for name in np.unique(names)]
    found, analysis = summed_density(model, point)
    assert analysis.summed[0].kind == "chain"
    assert found == pytest.approx(markov_prior(emissions, initial, point, y) + sum(parts), rel=1e-10, abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("emissions", "initial"), list(zip(EMISSIONS, ("dirichlet", "stationary", "dirichlet"), strict=True))
)
def test_hidden_markov_model_against_all_paths(emissions: str, initial: str) -> None:
    y = series(emissions, 7)
    y[3] = np.nan
    point = markov_point(emissions, initial, 2)
    first, likelihood = first_probabilities(initial, point), emission_densities(emissions, point, y)
    paths = np.array(list(itertools.product(range(STATES), repeat=len(y))))
    joint = np.log(first)[paths[:, 0]] + likelihood[np.arange(len(y)), paths].sum(axis=1)
    joint += np.log(point["transition"])[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    found, analysis = summed_density(markov_model(emissions, initial, y), point)
    assert found == pytest.approx(markov_prior(emissions, initial, point, y) + special.logsumexp(joint), rel=1e-10)
    smoothed = special.softmax(joint) @ (paths[..., None] == np.arange(STATES)).reshape(len(joint), -1)
    np.testing.assert_allclose(state_probabilities(analysis, point).ravel(), smoothed, atol=1e-10)


@pytest.mark.slow
def test_states_of_padded_sequences_are_those_of_each_alone() -> None:
    y, point = series("normal", 15), markov_point("normal", "stationary", 3)
    y[4] = np.nan
    names = np.array(LAYOUTS["both"][0])
    _, together = summed_density(markov_model("normal", "stationary", y, names), point)
    found = state_probabilities(together, point)
    for position, name in enumerate("ab"):  # c has three rows, and is below
        part = y[names == name]
        _, alone = summed_density(markov_model("normal", "stationary", part), point)
        np.testing.assert_allclose(found[position, : len(part)], state_probabilities(alone, point), atol=1e-10)
    assert found.shape == (3, 8, STATES)
    # After the end of a sequence, the chain goes on without observations.
    ahead = found[2, 2] @ point["transition"]
    np.testing.assert_allclose(found[2, 3], ahead, atol=1e-10)


def test_prior_options_of_the_hidden_markov_model() -> None:
    y, point = series("poisson", 12), markov_point("poisson", "uniform", 4)
    changed = {"concentration": 2.0, "persistence": 3.0, "rate_shape": 0.5, "standardise": False}
    value = analyse(markov_model("poisson", "uniform", y, **changed)).original.logp({**point, "z": np.zeros(12, int)})
    plain = analyse(markov_model("poisson", "uniform", y)).original.logp({**point, "z": np.zeros(12, int)})
    expected = sum(stats.dirichlet(2 + 3 * np.eye(3)[k]).logpdf(point["transition"][k]) for k in range(3))
    expected += stats.gamma(0.5, scale=2.0).logpdf(point["rate"]).sum()
    assert value - plain == pytest.approx(expected - markov_prior("poisson", "uniform", point, y), rel=1e-10)


# --- what is said about them ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "step"),
    [
        (
            "gaussian_mixture",
            "z: categorical given mean, weights, diagonal_square, below — 3 values, for each of 150 entries",
        ),
        ("hidden_markov", "z: markov chain given transition, rate — 2 states, 107 steps, summed out"),
    ],
)
def test_explain_names_what_is_summed_out(model: str, step: str) -> None:
    module = load_model(model)
    plan = bk.explain(module.build(example_data(module.EXAMPLE, module.VARIABLES), **module.EXAMPLE.options))
    assert step in str(plan)
    assert plan.method == "importance"
    assert "z" not in plan.remaining


def test_an_enumeration_that_is_too_large_is_refused_with_its_size() -> None:
    """Allocations that are coupled, here by their sum, have no product of sums."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0, shape=2)
        z = pm.Categorical("z", p=[0.5, 0.5], shape=30)
        pm.Normal("y", mu[z], 1.0, observed=np.arange(30.0))
        pm.Poisson("total", 1.0 + z.sum(), observed=12)
    (refusal,) = [r for r in bk.explain(model).refusals if r.variable == "z"]
    assert "2^30 = 1.07e+09 values would have to be enumerated" in refusal.reason
    assert "the limit is 4096" in refusal.reason


# --- sampling ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sampled() -> tuple[np.ndarray, np.ndarray, bk.Posterior]:
    """States, observations and the posterior of two sequences with missing entries, simulated."""
    rng = np.random.default_rng(11)
    states = np.zeros((2, 80), dtype=int)
    for t in range(1, 80):
        states[:, t] = np.where(rng.random(2) < 0.9, states[:, t - 1], 1 - states[:, t - 1])
    y = np.where(states == 0, 10.0, 13.0) + rng.normal(size=states.shape) * np.where(states == 0, 0.6, 1.2)
    y[0, 30:34] = np.nan
    table = pd.DataFrame({"y": y.ravel(), "sequence": np.repeat(["a", "b"], 80)})
    model = MARKOV.build(prepare(table, MARKOV.VARIABLES), initial="dirichlet")
    return states, y, bk.infer(model, draws=400, random_seed=1, progressbar=False)


@pytest.mark.slow
def test_sampling_finds_the_parameters_that_data_were_simulated_with(
    sampled: tuple[np.ndarray, np.ndarray, bk.Posterior],
) -> None:
    states, y, post = sampled
    assert post.method == "importance"
    assert post.certificate < 1e-8
    draws = post.tree["posterior"].to_dataset()
    truth = {"mean": [10.0, 13.0], "variance": [0.36, 1.44], "transition": [[0.9, 0.1], [0.1, 0.9]]}
    for name, values in truth.items():
        away = (draws[name].mean(("chain", "draw")) - values) / draws[name].std(("chain", "draw"))
        assert float(np.abs(away).max()) < 4
    # Most probable states are the true ones but for a few; the missing entries come from them.
    found = draws["z"].mean(("chain", "draw")).to_numpy() > 0.5
    assert np.mean(found == states) > 0.95
    missing = draws["y_unobserved"]
    assert missing.sizes["missing_row"] == np.isnan(y).sum()
    assert 9.5 < float(missing.mean()) < 13.5


@pytest.mark.slow
def test_drawn_states_have_their_exact_probabilities(sampled: tuple[np.ndarray, np.ndarray, bk.Posterior]) -> None:
    _, _, post = sampled
    draws = post.tree["posterior"].to_dataset().stack(sample=("chain", "draw")).transpose("sample", ...)
    values = {n: np.asarray(draws[n]) for n in post.plan.remaining}
    parts = [p for _, p in state_recovery(analyse(post.model))["z"].probabilities(values, draws.sizes["sample"])]
    exact = np.concatenate(parts)[..., 1]
    # Given the parameters' draws the states are independent, so that z-scores of the frequencies are standard Normal.
    sd = np.sqrt(np.sum(exact * (1 - exact), axis=0))
    score = (np.asarray(draws["z"]).sum(axis=0) - exact.sum(axis=0)) / sd
    assert np.max(np.abs(score[sd > 2])) < 5
    assert np.std(score[sd > 2]) == pytest.approx(1.0, abs=0.35)


# --- where chains start -----------------------------------------------------------------------------------------------


def given_start(model: pm.Model) -> dict[str, np.ndarray]:
    """The initial values that the model states, of all its free variables."""
    return {rv.name: np.asarray(model.rvs_to_initial_values[rv]) for rv in model.free_RVs}


def test_groups_are_those_of_the_data_and_numbered_along_their_main_axis() -> None:
    y = np.concatenate([np.full(5, 9.0), np.full(4, 1.0), np.full(6, 5.0)])[:, None] + np.linspace(0, 0.1, 15)[:, None]
    np.testing.assert_array_equal(group_rows(y, 3), [2] * 5 + [0] * 4 + [1] * 6)
    np.testing.assert_array_equal(group_rows(np.hstack([y, -y]), 3), [2] * 5 + [0] * 4 + [1] * 6)


@pytest.mark.parametrize("groups", [1, 2, 5, 6])
def test_no_group_is_empty_where_rows_are_alike(groups: int) -> None:
    for y in (np.ones((6, 2)), np.array([[0.0], [0], [0], [0], [0], [1]])):
        assert np.all(np.bincount(group_rows(y, groups), minlength=groups) > 0)


def test_steps_are_grouped_by_the_categories_around_them() -> None:
    codes = np.array([0, 1] * 20 + [2, 3] * 20)
    found = group_steps(codes, 4, 2)
    assert len(set(found[:37])) == len(set(found[43:])) == 1
    assert found[0] != found[-1]


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_chains_start_at_the_groups(covariance: str) -> None:
    data = table(40, 2)
    model = GAUSSIAN.build(data, components=3, covariance=covariance)
    y, start = data["y"].to_numpy(), given_start(model)
    labels = group_rows(y, 3)
    np.testing.assert_allclose(start["mean"], [y[labels == k].mean(axis=0) for k in range(3)])
    np.testing.assert_array_equal(start["z"], labels)
    assert np.isfinite(LogJoint.from_model(model).logp(start))


# --- data and options that are refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "columns", "options", "message"),
    [
        (GAUSSIAN, {"y": [1.0, 2.0]}, {"components": 3}, r"components is 3; it can be at most the number of rows, 2"),
        (
            GAUSSIAN,
            {"y": [1.0, 2.0]},
            {"mean": 1.0},
            r"option mean is 1.0 but has no effect here; set standardise=false",
        ),
        (GAUSSIAN, {"y": [1.0, np.nan]}, {}, r"column '0', row 2: the value is missing"),
        (
            GAUSSIAN,
            {"y": [[1.0, 2.0, 3.0]] * 4},
            {"degrees_of_freedom": 2.0},
            r"option degrees_of_freedom is 2\.0; it must be above 2, the number of features less one",
        ),
        (BINOMIAL, {"successes": [1], "trials": [2]}, {}, r"components is 2; it can be at most the number of rows, 1"),
        (BINOMIAL, {"successes": [1, 3], "trials": [2, 2]}, {}, r"row 2: 3 successes are more than the 2 trials"),
        (
            BINOMIAL,
            {"successes": [1.5, 3], "trials": [2, 4]},
            {},
            r"column 'successes', row 1: 1.5 is not a whole number",
        ),
        (MARKOV, {"y": [1.0, 2.0]}, {"states": 3}, r"states is 3; it can be at most the number of observations, 2"),
        (MARKOV, {"y": [1.0, np.nan, 2.0]}, {"states": 3}, r"it can be at most the number of observations, 2"),
        (MARKOV, {"y": [1.0, 2.5]}, {"emissions": "poisson"}, r"column 'y', row 2: 2.5 is not a whole number"),
        (MARKOV, {"y": [1.0, -2.0]}, {"emissions": "poisson"}, r"column 'y', row 2: -2 is negative; a count is"),
        (MARKOV, {"y": [1.0, -2.0]}, {"emissions": "categorical"}, r"column 'y', row 2: -2 is negative"),
        (
            MARKOV,
            {"y": [0.0, 3.0, 1.0]},
            {"emissions": "categorical"},
            r"column 'y' never has the category 2, of 0 to 3; number the categories from 0 without gaps, or set cat",
        ),
        (
            MARKOV,
            {"y": [0.0, 3.0, 1.0]},
            {"emissions": "categorical", "categories": 3},
            r"column 'y' has the category 3, but option categories is 3: they are numbered from 0; set categories=4",
        ),
        (MARKOV, {"y": [0.0, 3.0]}, {"categories": 3}, r"categories is 3 but has no effect here; set emissions=cat"),
        (MARKOV, {"y": [1.0, 2.0], "sequence": ["a", "b"]}, {}, r"no sequence has two rows, so that no transition was"),
        (MARKOV, {"y": [1.0, 2.0], "sequence": ["a", None]}, {}, r"column 'sequence', row 2: the label is missing"),
        (MARKOV, {"y": [np.nan, np.nan]}, {}, r"every entry of 'y' is missing; the model needs at least one"),
    ],
)
def test_data_and_options_that_are_refused(
    module: Any, columns: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    values = {n: np.asarray(v, dtype=object if n == "sequence" else float) for n, v in columns.items()}
    second = {"y": "feature"} if module is GAUSSIAN else {}
    if module is GAUSSIAN:
        values["y"] = values["y"].reshape(len(values["y"]), -1)
    data = xr.Dataset({n: (("row", second.get(n, ""))[: v.ndim], v) for n, v in values.items()})
    with pytest.raises(BayeskitError, match=message) as caught:
        module.build(data, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_least_data_and_constant_columns_have_a_density() -> None:
    for covariance in COVARIANCES:
        data = xr.Dataset({"y": (("row", "feature"), np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 3.0]]))})
        model = GAUSSIAN.build(data, components=3, covariance=covariance)
        assert np.isfinite(LogJoint.from_model(model).logp(given_start(model)))
    model = MARKOV.build(prepare(pd.DataFrame({"y": [0.0, 0.0]}), MARKOV.VARIABLES), emissions="poisson")
    assert np.isfinite(LogJoint.from_model(model).logp(given_start(model)))


def test_the_tables_are_as_published() -> None:
    earthquakes = load_example("earthquakes")["count"]
    assert (len(earthquakes), round(earthquakes.mean(), 2), round(earthquakes.var(), 2)) == (107, 19.36, 51.57)
    assert load_example("two_coins")["heads"].tolist() == [5, 9, 8, 4, 7]
