"""Expectation–maximisation: printed answers, plain NumPy, scikit-learn and hmmlearn; what has no maximum is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc_extras import DiscreteMarkovChain
from scipy import special, stats

import bayeskit as bk
from bayeskit.graphs.compile import compile_small
from bayeskit.point_estimates.complete_data import complete_data
from bayeskit.point_estimates.q_function import expected_log_density

HEADS = np.array([5, 9, 8, 4, 7])
# Zucchini, MacDonald and Langrock, Hidden Markov Models for Time Series: earthquakes of magnitude 7 or more, 1900–2006.
EARTHQUAKES = np.array(
    """
    13 14 8 10 16 26 32 27 18 32 36 24 22 23 22 18 25 21 21 14 8 11 14 23 18 17 19 20 22 19 13 26 13 14 22 24
    21 22 26 21 23 24 27 41 31 27 35 26 28 36 39 21 17 22 17 19 15 34 10 15 22 18 15 20 15 22 19 16 30 27 29 23
    20 16 21 21 25 16 18 15 18 14 10 15 8 15 6 11 8 7 18 16 13 12 13 20 15 16 12 18 15 16 13 15 16 11 11
    """.split(),  # noqa: SIM905
    dtype=int,
)


# -- two coins ---------------------------------------------------------------------------------------------------------
def coins() -> pm.Model:
    with pm.Model(coords={"set": list("abcde")}) as model:
        theta = pm.Beta("theta", 1.0, 1.0, shape=2)
        z = pm.Categorical("z", [0.5, 0.5], dims="set")
        pm.Binomial("heads", 10, theta[z], observed=HEADS)
    return model


def plain_coins(theta: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """(θ, responsibilities of the first coin at the last θ but one)."""
    for _ in range(iterations):
        density = stats.binom.pmf(HEADS[:, None], 10, theta)
        r = density / density.sum(axis=1, keepdims=True)
        theta = (r * HEADS[:, None]).sum(axis=0) / (10 * r.sum(axis=0))
    return theta, r[:, 0]


def test_two_coins_as_printed() -> None:
    once = bk.em(coins(), start={"theta": [0.6, 0.5]}, max_iterations=1)
    np.testing.assert_allclose(once.point["theta"], [0.71, 0.58], atol=0.005)
    np.testing.assert_allclose(once.point["theta"], plain_coins(np.array([0.6, 0.5]), 1)[0], atol=1e-12)
    _, r = plain_coins(np.array([0.6, 0.5]), 1)
    np.testing.assert_allclose(r, [0.45, 0.80, 0.73, 0.35, 0.65], atol=0.005)
    first = expected_log_density(complete_data(coins()), with_prior=False)
    (posterior,) = first.data.sums[0].posterior
    found = compile_small(list(first.data.values.values()), posterior)(np.array([0.6, 0.5]))
    np.testing.assert_allclose(found[0], r, atol=1e-12)

    result = bk.em(coins(), start={"theta": [0.6, 0.5]}, tolerance=0.0)
    theta, r = plain_coins(np.array([0.6, 0.5]), 500)
    np.testing.assert_allclose(result.point["theta"], theta, atol=1e-8)
    np.testing.assert_allclose(result.probabilities["z"].sel(z_state=0), r, atol=1e-7)
    assert result.probabilities["z"].dims == ("set", "z_state")
    assert list(result.probabilities["set"].values) == list("abcde")
    expected = special.logsumexp(stats.binom.logpmf(HEADS[:, None], 10, theta) + np.log(0.5), axis=1).sum()
    assert result.log_likelihood == pytest.approx(expected, abs=1e-10)
    assert result.converged
    assert np.all(np.diff(result.trace) >= 0)
    assert "beta, closed form" in str(result)
    assert "maximum likelihood" in str(result)


# -- earthquakes -------------------------------------------------------------------------------------------------------
def stationary_chain(states: int) -> pm.Model:
    with pm.Model() as model:
        transition = pm.Dirichlet("transition", np.ones((states, states)))
        rate = pm.Gamma("rate", 2.0, 0.1, shape=states)
        ones = pt.ones((states,))
        first = pt.linalg.solve(pt.eye(states) - transition.T + pt.ones((states, states)), ones)
        z = DiscreteMarkovChain("z", P=transition, init_dist=pm.Categorical.dist(p=first), steps=len(EARTHQUAKES) - 1)
        pm.Poisson("count", rate[z], observed=EARTHQUAKES)
    return model


# The book's four states, rounded, and moved off the boundary: of random starts, one in several gets there.
FOUR_STATES = {
    "transition": np.array(
        [[0.8, 0.1, 0.09, 0.01], [0.01, 0.95, 0.01, 0.03], [0.05, 0.01, 0.89, 0.05], [0.01, 0.01, 0.18, 0.8]]
    ),
    "rate": [11.0, 14.0, 20.0, 30.0],
}


@pytest.mark.slow
@pytest.mark.parametrize(("states", "printed", "start"), [(2, 342.3183, None), (4, 327.8316, FOUR_STATES)])
def test_stationary_poisson_chains_as_printed(states: int, printed: float, start: Any) -> None:
    assert len(EARTHQUAKES) == 107
    assert np.mean(EARTHQUAKES) == pytest.approx(19.36, abs=0.005)
    result = bk.em(stationary_chain(states), starts=1, start=start, tolerance=1e-8, random_seed=1)
    assert -result.log_likelihood == pytest.approx(printed, abs=6e-5)
    assert result.blocks == ("rate: gamma, closed form", "transition: L-BFGS-B")


def fitted(reference: Any, y: np.ndarray, lengths: list[int]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of hmmlearn, about NumPy
        return reference.fit(y, lengths)


def test_chain_of_free_start_agrees_with_hmmlearn() -> None:
    from hmmlearn.hmm import PoissonHMM

    with pm.Model() as model:
        transition = pm.Dirichlet("transition", np.ones((2, 2)))
        first = pm.Dirichlet("first", np.ones(2))
        rate = pm.Gamma("rate", 2.0, 0.1, shape=2)
        z = DiscreteMarkovChain("z", P=transition, init_dist=pm.Categorical.dist(p=first), steps=106)
        pm.Poisson("count", rate[z], observed=EARTHQUAKES)
    start = {"transition": np.array([[0.8, 0.2], [0.3, 0.7]]), "first": [0.4, 0.6], "rate": [15.0, 25.0]}
    reference = PoissonHMM(2, n_iter=25, tol=-np.inf, init_params="")
    reference.startprob_, reference.transmat_ = np.array(start["first"]), np.array(start["transition"])
    reference.lambdas_ = np.array(start["rate"])[:, None]
    fitted(reference, EARTHQUAKES[:, None], [107])
    result = bk.em(model, start=start, max_iterations=25, tolerance=0.0)
    np.testing.assert_allclose(result.point["transition"], reference.transmat_, atol=1e-8)
    np.testing.assert_allclose(result.point["first"], reference.startprob_, atol=1e-8)
    np.testing.assert_allclose(result.point["rate"], reference.lambdas_[:, 0], atol=1e-8)
    assert result.log_likelihood == pytest.approx(reference.score(EARTHQUAKES[:, None]), abs=1e-8)
    smoothed = reference.predict_proba(EARTHQUAKES[:, None])
    np.testing.assert_allclose(result.probabilities["z"], smoothed, atol=1e-8)


@pytest.mark.slow
def test_gaussian_chain_of_several_sequences_agrees_with_hmmlearn() -> None:
    from hmmlearn.hmm import GaussianHMM

    rng = np.random.default_rng(4)
    y = rng.normal(size=(3, 40)) + 3.0 * rng.integers(2, size=(3, 40))
    with pm.Model() as model:
        transition = pm.Dirichlet("transition", np.ones((2, 2)))
        first = pm.Dirichlet("first", np.ones(2))
        mu, variance = pm.Normal("mu", 0, 5, shape=2), pm.InverseGamma("variance", 2, 1, shape=2)
        z = DiscreteMarkovChain("z", P=transition, init_dist=pm.Categorical.dist(p=first, shape=(3,)), shape=(3, 40))
        pm.Normal("y", mu[z], pt.sqrt(variance)[z], observed=y)
    start = {"transition": np.array([[0.6, 0.4], [0.4, 0.6]]), "first": [0.5, 0.5], "mu": [0.0, 2.0]}
    start["variance"] = [1.0, 1.0]
    reference = GaussianHMM(
        2,
        n_iter=20,
        tol=-np.inf,
        init_params="",
        covariance_type="diag",
        covars_prior=0.0,
        covars_weight=1.0,
        min_covar=0.0,
    )
    reference.startprob_, reference.transmat_ = np.array(start["first"]), np.array(start["transition"])
    reference.means_, reference.covars_ = np.array(start["mu"])[:, None], np.array(start["variance"])[:, None]
    fitted(reference, y.reshape(-1, 1), [40, 40, 40])
    result = bk.em(model, start=start, max_iterations=20, tolerance=0.0)
    np.testing.assert_allclose(result.point["transition"], reference.transmat_, atol=1e-8)
    np.testing.assert_allclose(result.point["mu"], reference.means_[:, 0], atol=1e-8)
    np.testing.assert_allclose(result.point["variance"], reference.covars_[:, 0, 0], atol=1e-8)


# -- Gaussian mixtures -------------------------------------------------------------------------------------------------
def groups(points: int = 150, features: int = 3, components: int = 3) -> np.ndarray:
    rng = np.random.default_rng(7)
    z = rng.integers(components, size=points)
    return rng.normal(scale=2.5, size=(components, features))[z] + rng.normal(size=(points, features))


def full(y: np.ndarray, components: int = 3) -> pm.Model:
    features = y.shape[1]
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(components))
        mu = pm.Normal("mu", 0, 10, shape=(components, features))
        packed = [
            pm.LKJCholeskyCov(f"factor_{k}", n=features, eta=1.0, sd_dist=pm.HalfNormal.dist(1.0), compute_corr=False)
            for k in range(components)
        ]
        factors = pt.stack([pm.math.expand_packed_triangular(features, p) for p in packed])
        z = pm.Categorical("z", weights, shape=len(y))
        pm.MvNormal("y", mu[z], chol=factors[z], observed=y)
    return model


def full_of(point: dict[str, np.ndarray]) -> np.ndarray:
    factors = np.zeros((3, 3, 3))
    for k in range(3):
        factors[k][np.tril_indices(3)] = point[f"factor_{k}"]
    return factors @ factors.transpose(0, 2, 1)


def tied(y: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(3))
        mu = pm.Normal("mu", 0, 10, shape=(3, y.shape[1]))
        precision = pm.Wishart("precision", nu=y.shape[1] + 2, V=np.eye(y.shape[1]))
        z = pm.Categorical("z", weights, shape=len(y))
        pm.MvNormal("y", mu[z], chol=pt.linalg.cholesky(pt.linalg.inv(precision)), observed=y)
    return model


def diagonal(y: np.ndarray, prior: Callable[[tuple[int, ...]], Any], sd: Callable[[Any], Any]) -> pm.Model:
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(3))
        mu = pm.Normal("mu", 0, 10, shape=(3, y.shape[1]))
        scale = prior((3, y.shape[1]))
        z = pm.Categorical("z", weights, shape=len(y))
        pm.Normal("y", mu[z], sd(scale)[z], observed=y)
    return model


SPELLINGS: dict[str, tuple[Any, Any, Any]] = {
    "half-normal sd": (lambda s: pm.HalfNormal("scale", 1.0, shape=s), lambda v: v, lambda v: v**2),
    "uniform sd": (lambda s: pm.Uniform("scale", 0.0, 100.0, shape=s), lambda v: v, lambda v: v**2),
    "variance": (lambda s: pm.HalfCauchy("scale", 1.0, shape=s), pt.sqrt, lambda v: v),
    "precision": (lambda s: pm.LogNormal("scale", 0.0, 1.0, shape=s), lambda v: 1 / pt.sqrt(v), lambda v: 1 / v),
}


def scikit_learn(y: np.ndarray, kind: str, iterations: int, means: np.ndarray) -> Any:
    from sklearn.mixture import GaussianMixture

    shape = {"full": np.array([np.eye(3)] * 3), "tied": np.eye(3), "diag": np.ones((3, 3))}[kind]
    reference = GaussianMixture(
        3,
        covariance_type=kind,
        tol=0.0,
        max_iter=iterations,
        reg_covar=0.0,
        weights_init=np.full(3, 1 / 3),
        means_init=means,
        precisions_init=shape,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it has not converged
        return reference.fit(y)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "tied", *SPELLINGS])
def test_mixture_agrees_with_scikit_learn(kind: str) -> None:
    y = groups()
    means = y[:3]
    start: dict[str, Any] = {"weights": np.full(3, 1 / 3), "mu": means}
    if kind == "full":
        model = full(y)
        start |= {f"factor_{k}": np.eye(3)[np.tril_indices(3)] for k in range(3)}
    elif kind == "tied":
        model, start["precision"] = tied(y), np.eye(3)
    else:
        prior, sd, variance = SPELLINGS[kind]
        model, start["scale"] = diagonal(y, prior, sd), np.ones((3, 3))
    result = bk.em(model, start=start, max_iterations=30, tolerance=0.0)
    reference = scikit_learn(y, kind if kind in ("full", "tied") else "diag", 30, means)
    np.testing.assert_allclose(result.point["weights"], reference.weights_, atol=1e-8)
    np.testing.assert_allclose(result.point["mu"], reference.means_, atol=1e-8)
    if kind == "full":
        found = full_of(result.point)
    else:
        found = np.linalg.inv(result.point["precision"]) if kind == "tied" else variance(result.point["scale"])
    np.testing.assert_allclose(found, reference.covariances_, atol=1e-8)
    assert result.log_likelihood == pytest.approx(reference.score(y) * len(y), abs=1e-8)
    np.testing.assert_allclose(result.probabilities["z"], reference.predict_proba(y), atol=1e-8)
    assert all("closed form" in block for block in result.blocks)
    assert result.iterations == 30
    assert not result.converged


@pytest.mark.slow
def test_moments_give_the_same_steps_as_rows() -> None:
    y = groups(60, 2, 2)
    data = complete_data(full(y, 2))
    values = list(data.values.values())
    e_step = compile_small(values, [g for s in data.sums for g in s.posterior])
    point = {"weights": np.array([0.3, 0.7]), "mu": y[:2]}
    point |= {f"factor_{k}": (np.eye(2) + 0.2 * (k + 1))[np.tril_indices(2)] for k in range(2)}
    weights = e_step(*[point[n] for n in data.values])
    scores = []
    for reduced in (True, False):
        expected = expected_log_density(data, with_prior=True, reduced=reduced)
        assert bool(expected.moments) is reduced
        names = list(data.values)
        score = expected.score(names, 1)
        scores.append(score({n: point[n][None] for n in names}, point, expected.statistics(weights, [])))
    for name in data.values:
        np.testing.assert_allclose(scores[0][name], scores[1][name], rtol=1e-10, atol=1e-9)


# -- the objective never falls -----------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "components", "objective"),
    [("normal", 3, "likelihood"), ("poisson", 2, "posterior"), ("student", 3, "posterior")],
)
def test_the_objective_never_falls(family: str, components: int, objective: Any) -> None:
    rng = np.random.default_rng(6)
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.full(components, 2.0))
        z = pm.Categorical("z", weights, shape=40)
        if family == "poisson":
            rate = pm.Gamma("rate", 2.0, 0.5, shape=components)
            pm.Poisson("y", rate[z], observed=rng.poisson(rng.choice([2.0, 9.0], size=40)))
        else:
            mu, sd = pm.Normal("mu", 0, 3, shape=components), pm.HalfNormal("sd", 2.0)
            y = rng.normal(size=40) + rng.choice([-2.0, 2.0], size=40)
            normal = family == "normal"
            pm.Normal("y", mu[z], sd, observed=y) if normal else pm.StudentT("y", nu=4, mu=mu[z], sigma=sd, observed=y)
    result = bk.em(model, objective=objective, starts=1, max_iterations=12, random_seed=6)
    assert np.all(np.diff(result.trace) >= 0)
    assert result.trace[-1] == (result.log_likelihood if objective == "likelihood" else result.log_posterior)


def test_the_mode_of_the_posterior_has_no_gradient() -> None:
    rng = np.random.default_rng(3)
    y = np.concatenate([rng.normal(-2, 1, 30), rng.normal(3, 0.5, 30)])
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", [3.0, 3.0])
        mu, sd = pm.Normal("mu", 0, 2, shape=2), pm.HalfNormal("sd", 0.5, shape=2)
        z = pm.Categorical("z", weights, shape=60)
        pm.Normal("y", mu[z], sd[z], observed=y)
    result = bk.em(model, objective="posterior", starts=2, tolerance=0.0, random_seed=0)

    def density(w: float, mu: np.ndarray, sd: np.ndarray) -> float:
        terms = np.log([w, 1 - w]) + stats.norm.logpdf(y[:, None], mu, sd)
        prior = stats.dirichlet.logpdf([w, 1 - w], [3.0, 3.0]) + stats.norm.logpdf(mu, 0, 2).sum()
        return float(special.logsumexp(terms, axis=1).sum() + prior + stats.halfnorm.logpdf(sd, scale=0.5).sum())

    at = (result.point["weights"][0], result.point["mu"], result.point["sd"])
    assert density(*at) == pytest.approx(result.log_posterior, abs=1e-9)
    for index, moved in [(0, 1e-5), (1, np.array([1e-5, 0])), (1, np.array([0, 1e-5])), (2, np.array([1e-5, 0]))]:
        ends = [density(*[a + sign * moved if i == index else a for i, a in enumerate(at)]) for sign in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(0.0, abs=1e-4)


# -- what has no maximum -----------------------------------------------------------------------------------------------
def test_a_component_on_one_point_is_not_returned() -> None:
    y = np.concatenate([np.random.default_rng(1).normal(size=30), [50.0]])
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", [1.0, 1.0])
        mu, sd = pm.Normal("mu", 0, 10, shape=2), pm.InverseGamma("sd", 2.0, 1.0, shape=2)
        z = pm.Categorical("z", weights, shape=31)
        pm.Normal("y", mu[z], sd[z], observed=y)
    start = {"mu": [0.0, 50.0], "sd": [1.0, 1.0], "weights": [0.9, 0.1]}
    with pytest.raises(bk.BayeskitError, match=r"every start is degenerate.*sd\[1\].*objective='posterior'"):
        bk.em(model, start=start)
    result = bk.em(model, start=start, objective="posterior")
    assert result.converged
    assert result.point["sd"][1] > 0.1


def test_an_empty_component_is_not_returned() -> None:
    y = np.concatenate([np.full(20, 1), np.full(20, 9)])
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(2))
        rate = pm.Gamma("rate", 2.0, 0.5, shape=2)
        z = pm.Categorical("z", weights, shape=40)
        pm.Poisson("y", rate[z], observed=y)
    with pytest.raises(bk.BayeskitError, match="state 1 of z, which is empty"):
        bk.em(model, start={"weights": [1.0, 0.0], "rate": [5.0, 5.0]})


# -- refusals ----------------------------------------------------------------------------------------------------------
def normal_only() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=[1.0, 2.0])
    return model


def hierarchical() -> pm.Model:
    with pm.Model() as model:
        spread = pm.HalfNormal("spread", 1.0)
        mu = pm.Normal("mu", 0, spread, shape=2)
        z = pm.Categorical("z", [0.5, 0.5], shape=3)
        pm.Normal("y", mu[z], 1.0, observed=[1.0, 2.0, 5.0])
    return model


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (normal_only, {}, "no finite latent variable"),
        (hierarchical, {}, "spread is in the prior of other variables only"),
        (coins, {"starts": 0}, "starts is 0"),
        (coins, {"objective": "evidence"}, "objective is 'evidence'"),
        (coins, {"tolerance": -1.0}, "tolerance is -1.0"),
        (coins, {"start": {"p": 0.5}}, "start has 'p', which is none of theta"),
        (coins, {"start": {"theta": 0.5}}, r"start\['theta'\] has shape \(\) instead of \(2,\)"),
    ],
)
def test_refusals_are_one_line(model: Callable[[], pm.Model], options: dict[str, Any], message: str) -> None:
    with pytest.raises(bk.BayeskitError, match=message) as caught:
        bk.em(model(), **options)
    assert "\n" not in str(caught.value)


def test_starts_are_listed_and_the_same_seed_gives_the_same_answer() -> None:
    one, two = (bk.em(coins(), starts=3, random_seed=5) for _ in range(2))
    assert one.starts.shape == (3,)
    # The first of those that differ by rounding only.
    assert one.log_likelihood == pytest.approx(np.max(one.starts), rel=1e-8)
    np.testing.assert_array_equal(one.point["theta"], two.point["theta"])
    assert "of 3 starts reached this objective" in str(one)
    assert "from one start: others may reach a higher objective" in str(bk.em(coins(), starts=1, random_seed=5))


@pytest.mark.slow
def test_nested_indicators_leave_the_saddle_where_all_components_are_alike() -> None:
    rng = np.random.default_rng(4)
    y = np.concatenate([rng.normal(-2.0, 0.5, 40), rng.normal(2.0, 0.5, 20)])
    with pm.Model() as model:
        first = pm.Categorical("first", [0.5, 0.5], shape=60)
        rows = pm.Dirichlet("rows", np.full(2, 2.0), size=2)
        second = pm.Categorical("second", rows[first], shape=60)
        mu = pm.Normal("mu", 0.0, 3.0, shape=2)
        pm.Normal("y", mu[second], 0.5, observed=y)
    result = bk.em(model, objective="posterior", starts=2, random_seed=1, progressbar=False)
    share = result.point["rows"].mean(axis=0)
    density = stats.norm.pdf(y[:, None], result.point["mu"], 0.5)
    assert result.log_likelihood == pytest.approx(np.log(density @ share).sum(), abs=1e-9)
    responsibility = density * share / (density @ share)[:, None]
    mode = (responsibility * y[:, None]).sum(axis=0) / (responsibility.sum(axis=0) + 0.25 / 9.0)
    np.testing.assert_allclose(result.point["mu"], mode, atol=1e-4)
    assert np.ptp(result.point["mu"]) > 3
