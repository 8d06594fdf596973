"""What is asked about finite latent variables: responsibilities, filtered and smoothed states, paths, forecasts.

Oracles are sums over all allocations and all paths, written out here.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pymc_extras as pmx
import pytensor.tensor as pt
import pytest
from scipy import special, stats

import bayeskit as bk
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.recovery import state_recovery
from bayeskit.errors import ModelError
from bayeskit.graphs.compile import small_mode
from bayeskit.model.unconstrained import Unconstrained

TRANSITION = np.array([[0.8, 0.15, 0.05], [0.1, 0.9, 0.0], [0.3, 0.3, 0.4]])
FIRST = np.array([0.5, 0.2, 0.3])
MEANS = np.array([-1.0, 0.5, 3.0])
SERIES = np.array([0.2, -1.3, np.nan, 0.4, 2.9, 0.6])


@pytest.fixture(scope="module")
def coins() -> Any:
    with pm.Model(coords={"toss": list("abcde")}) as model:
        coin = pm.Bernoulli("coin", 0.5, dims="toss")
        pm.Binomial("heads", 10, pm.math.switch(coin, 0.5, 0.6), observed=[5, 9, 8, 4, 7], dims="toss")
    return bk.infer(model, random_seed=1)


@pytest.fixture(scope="module")
def chain() -> Any:
    with pm.Model(coords={"year": np.arange(2000, 2006)}) as model:
        z = pmx.DiscreteMarkovChain("z", P=TRANSITION, init_dist=pm.Categorical.dist(FIRST), dims="year")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pm.Normal("y", pt.as_tensor(MEANS)[z], 0.8, observed=SERIES)
    return bk.infer(model, random_seed=1)


def paths(upto: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Every path of the chain, and log p(z, y_1 … y_upto)."""
    every = np.array(list(itertools.product(range(3), repeat=6)))
    with np.errstate(divide="ignore"):
        log_p = np.log(FIRST)[every[:, 0]] + np.log(TRANSITION)[every[:, :-1], every[:, 1:]].sum(axis=1)
    emission = np.nan_to_num(stats.norm.logpdf(SERIES, MEANS[every], 0.8), nan=0.0)
    return every, log_p + emission[:, :upto].sum(axis=1)


def marginals(every: np.ndarray, log_p: np.ndarray) -> np.ndarray:
    weight = special.softmax(log_p)
    return np.array([[weight[every[:, t] == k].sum() for k in range(3)] for t in range(6)])


def test_responsibilities_of_two_coins(coins: Any) -> None:
    found = bk.states(coins).responsibilities()
    np.testing.assert_allclose(found.probability.sel(state=0), [0.45, 0.80, 0.73, 0.35, 0.65], atol=5e-3)
    heads = np.array([5, 9, 8, 4, 7])
    likelihood = np.array([stats.binom.pmf(heads, 10, p) for p in (0.6, 0.5)])
    np.testing.assert_allclose(found.probability.T, likelihood / likelihood.sum(axis=0), atol=1e-14)
    assert found.attrs["label"] == "exact"
    assert np.all(found.error == 0)
    assert list(found.toss.values) == list("abcde")
    log_likelihood = bk.states(coins).log_likelihood().log_likelihood
    np.testing.assert_allclose(log_likelihood, np.log(likelihood.mean(axis=0)), atol=1e-13)
    assert coins.method == "exact"
    assert float(coins.log_evidence) == pytest.approx(np.log(likelihood.mean(axis=0)).sum(), abs=1e-12)
    np.testing.assert_allclose(
        bk.states(coins).occupancy().expected, (likelihood / likelihood.sum(axis=0)).sum(axis=1), atol=1e-13
    )


def test_the_marginal_of_a_state_is_a_closed_form(coins: Any, chain: Any) -> None:
    heads = np.array([5, 9, 8, 4, 7])
    fair, biased = stats.binom.pmf(heads, 10, 0.5), stats.binom.pmf(heads, 10, 0.6)
    marginal = coins.marginal("coin")
    assert (marginal.family, marginal.label) == ("categorical", "exact")
    np.testing.assert_allclose(marginal.mean(), fair / (fair + biased), atol=1e-14)
    np.testing.assert_allclose(marginal.var(), fair * biased / (fair + biased) ** 2, atol=1e-14)
    np.testing.assert_allclose(chain.marginal("z").pmf(2), marginals(*paths())[:, 2], atol=1e-12)
    summary = chain.summary()
    assert (summary.loc[[f"z[{year}]" for year in range(2000, 2006)], "label"] == "exact").all()


def test_smoothed_filtered_and_forecast_states_are_sums_over_all_paths(chain: Any) -> None:
    states = bk.states(chain)
    every, log_p = paths()
    np.testing.assert_allclose(states.smooth().probability, marginals(every, log_p), atol=1e-12)
    filtered = [marginals(*paths(t + 1))[t] for t in range(6)]
    np.testing.assert_allclose(states.filter().probability, filtered, atol=1e-12)
    last = filtered[-1]
    ahead = [last @ np.linalg.matrix_power(TRANSITION, h) for h in (1, 2, 3)]
    np.testing.assert_allclose(states.predict(3).probability, ahead, atol=1e-12)
    assert list(states.predict(3).step_ahead.values) == [1, 2, 3]
    assert float(states.log_likelihood().log_likelihood) == pytest.approx(special.logsumexp(log_p), abs=1e-12)
    assert float(chain.log_evidence) == pytest.approx(special.logsumexp(log_p), abs=1e-12)
    np.testing.assert_allclose(states.occupancy().expected, marginals(every, log_p).sum(axis=0), atol=1e-12)


def test_the_next_observations_have_their_predictive_distribution(chain: Any) -> None:
    draws = bk.states(chain).next_observation(2, random_seed=3)
    assert draws.sizes == {"sample": 1, "step_ahead": 2}  # one value of the parameters
    seen = np.array([0.2, -1.3, 2.9])
    with pm.Model() as model:
        shift = pm.Normal("shift", 0, 1e-9)
        z = pmx.DiscreteMarkovChain("z", P=TRANSITION, init_dist=pm.Categorical.dist(FIRST), shape=(3,))
        pm.Normal("y", pt.as_tensor(MEANS)[z] + shift, 0.8, observed=seen)
    many = bk.states(bk.infer(model, random_seed=1), draws=4000).next_observation(2, random_seed=3)
    every = np.array(list(itertools.product(range(3), repeat=3)))
    weight = FIRST[every[:, 0]] * TRANSITION[every[:, :-1], every[:, 1:]].prod(axis=1)
    weight = weight * stats.norm.pdf(seen, MEANS[every], 0.8).prod(axis=1)
    last = np.bincount(every[:, -1], weight) / weight.sum()
    for step in (1, 2):
        weights = last @ np.linalg.matrix_power(TRANSITION, step)
        drawn = many.sel(step_ahead=step)
        counts = np.bincount(drawn.z, minlength=3)
        assert stats.chisquare(counts, weights * 4000).pvalue > 1e-3
        assert stats.kstest(drawn.y, lambda x, w=weights: stats.norm.cdf(x[:, None], MEANS, 0.8) @ w).pvalue > 1e-3
    with pytest.raises(bk.BayeskitError, match="steps is 0"):
        bk.states(chain).next_observation(0)


def test_a_new_entry_of_a_mixture() -> None:
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1e-9)
        z = pm.Categorical("z", [0.3, 0.7], shape=3)
        pm.Normal("y", pt.as_tensor([-1.0, 1.0])[z], 0.5 + sigma, observed=[0.1, 2.0, -1.0])
    draws = bk.states(bk.infer(model, random_seed=1), draws=4000).next_observation(random_seed=4)
    cdf = lambda x: stats.norm.cdf(x[:, None], [-1.0, 1.0], 0.5) @ np.array([0.3, 0.7])  # noqa: E731
    assert stats.kstest(draws.y.sel(step_ahead=1), cdf).pvalue > 1e-3
    assert stats.binomtest(int(draws.z.sum()), 4000, 0.7).pvalue > 1e-3


def test_the_most_probable_path(chain: Any) -> None:
    every, log_p = paths()
    best = bk.states(chain).viterbi()
    assert list(best.state.values) == list(every[np.argmax(log_p)])
    assert float(best.log_probability) == pytest.approx(log_p.max() - special.logsumexp(log_p), abs=1e-12)
    assert list(best.year.values) == list(range(2000, 2006))


def test_a_query_at_fixed_parameters_is_exact() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        z = pm.Categorical("z", [0.3, 0.7], shape=3)
        pm.Normal("y", mu[z], sigma, observed=[0.1, 2.0, -1.0])
    found = bk.states(model, at={"mu": [-1.0, 1.0], "sigma": 0.5}).responsibilities()
    terms = np.log([0.3, 0.7]) + stats.norm.logpdf(np.array([[0.1], [2.0], [-1.0]]), [-1.0, 1.0], 0.5)
    np.testing.assert_allclose(found.probability, special.softmax(terms, axis=1), atol=1e-14)
    with pm.Model() as counted:
        trials = pm.Geometric("trials", 0.5)
        state = pm.Bernoulli("state", 0.5, shape=2)
        pm.Normal("y", state * trials, 1.0, observed=[0.1, 2.0])
    with pytest.raises(bk.BayeskitError, match="'trials' are not all whole numbers"):
        bk.states(counted, at={"trials": 1.5})
    with pytest.raises(bk.BayeskitError, match="at has no value for 'sigma'; the states depend on it"):
        bk.states(model, at={"mu": [0.0, 1.0]})
    with pytest.raises(bk.BayeskitError, match=r"at\['mu'\] has shape \(3,\); the variable has \(2,\)"):
        bk.states(model, at={"mu": [0.0, 1.0, 2.0], "sigma": 1.0})
    with pytest.raises(bk.BayeskitError, match="need parameters"):
        bk.states(model)
    with pytest.raises(bk.BayeskitError, match="'z' is not a Markov chain, and viterbi is for those"):
        bk.states(model, at={"mu": [0.0, 1.0], "sigma": 1.0}).viterbi()
    with pytest.raises(bk.BayeskitError, match="'mu' was not summed out"):
        bk.states(model, "mu", at={"mu": [0.0, 1.0], "sigma": 1.0})


def test_a_model_without_finite_variables_has_no_states() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3)
        pm.Normal("y", mu, 1.0, observed=[0.1, 2.0, -1.0])
    with pytest.raises(bk.BayeskitError, match="no finite latent variable"):
        bk.states(model, at={"mu": 0.0})


def test_states_on_a_posterior_average_over_its_draws() -> None:
    """Against the mixture enumerated over all allocations, conjugate in each of them."""
    y = np.array([-1.2, -0.9, 1.4, 1.1, -1.0, 0.2])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2, shape=2)
        z = pm.Categorical("z", [0.3, 0.7], shape=6)
        pm.Normal("y", mu[z], 0.6, observed=y)
    post = bk.infer(model, random_seed=2)
    assert post.method == "exact"
    total, inside = -np.inf, np.full(6, -np.inf)
    for allocation in itertools.product((0, 1), repeat=6):
        a = np.array(allocation)
        value = np.log(np.where(a == 1, 0.7, 0.3)).sum()
        covariance = 0.36 * np.eye(6) + 4.0 * (a[:, None] == a)
        value += stats.multivariate_normal(np.zeros(6), covariance).logpdf(y)
        total = np.logaddexp(total, value)
        inside = np.where(a == 1, np.logaddexp(inside, value), inside)
    assert float(post.log_evidence) == pytest.approx(total, abs=1e-11)
    asked = bk.states(post, draws=4000)
    known, expected = asked.responsibilities(), np.exp(inside - total)
    assert known.attrs["label"] == "exact" and np.all(known.error == 0)
    np.testing.assert_allclose(known.probability.sel(state=1), expected, atol=1e-11)
    np.testing.assert_allclose(post.marginal("z").mean(), expected, atol=1e-11)
    occupancy = asked.occupancy()
    assert occupancy.attrs["label"] == "exact"
    np.testing.assert_allclose(occupancy.expected, [6 - expected.sum(), expected.sum()], atol=1e-11)
    found = replace(asked, _known=None).responsibilities()
    assert found.attrs["label"] == "estimated"
    difference = np.abs(found.probability.sel(state=1) - expected)
    assert np.all(difference <= 4 * found.error.sel(state=1) + 1e-12)
    frequency = post.tree["posterior"]["z"].mean(("chain", "draw")).to_numpy()
    assert np.all(np.abs(frequency - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000) + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["entries", "a switch", "sums"])
def test_after_quadrature_the_states_are_a_sum_over_its_nodes(kind: str) -> None:
    """Against a fine grid of the one parameter; without exchangeable labels there is nothing to average over draws."""
    y = np.array([0.3, 2.5, 1.9, -0.4, 2.2])
    with pm.Model() as model:
        p = pm.LogitNormal("p", 0.0, 1.5)
        if kind == "entries":
            pm.Normal("y", 2.0 * pm.Bernoulli("z", p, shape=5), 1.0, observed=y)
        elif kind == "a switch":
            z = pm.DiscreteUniform("z", 0, 4)
            pm.Normal("y", 4.0 * p * (np.arange(5) >= z), 1.0, observed=y)
        else:
            z = pm.Bernoulli("z", p, shape=3)
            pm.Normal("y", pt.sum(z), 1.0, observed=y)
    post = bk.infer(model, draws=8, random_seed=2, progressbar=False)
    assert post.method == "quadrature"
    grid = special.expit(np.linspace(-15, 15, 4001))
    prior = stats.norm(0.0, 1.5).logpdf(special.logit(grid))
    if kind == "entries":
        each = np.exp(stats.norm(np.array([[0.0], [2.0]]), 1.0).logpdf(y))
        terms = np.stack([(1 - grid)[:, None] * each[0], grid[:, None] * each[1]], axis=-1)
        weights = special.softmax(prior + np.log(terms.sum(axis=-1)).sum(axis=1))
        expected = np.tensordot(weights, terms / terms.sum(axis=-1, keepdims=True), axes=(0, 0))
    elif kind == "a switch":
        after = np.arange(5) >= np.arange(5)[:, None]
        log_p = prior[:, None] + stats.norm(4.0 * grid[:, None, None] * after, 1.0).logpdf(y).sum(axis=-1)
        expected = special.softmax(log_p.ravel()).reshape(log_p.shape).sum(axis=0)
    else:
        paths = np.array(list(itertools.product((0, 1), repeat=3)))
        ones = paths.sum(axis=1)
        log_p = prior[:, None] + ones * np.log(grid)[:, None] + (3 - ones) * np.log1p(-grid)[:, None]
        log_p = log_p + stats.norm(ones[:, None], 1.0).logpdf(y).sum(axis=1)
        weights = special.softmax(log_p.ravel()).reshape(log_p.shape).sum(axis=0)
        expected = np.stack([weights @ (1 - paths), weights @ paths], axis=-1)
    found = bk.states(post).responsibilities()
    assert found.attrs["label"] == post.marginal("z").label == "quadrature"
    np.testing.assert_allclose(found.probability, expected, atol=1e-7)
    assert 0 < float(found.error.max()) < 1e-6
    np.testing.assert_allclose(post.marginal("z").mean(), expected @ np.arange(expected.shape[-1]), atol=1e-6)
    labels = post.summary()["label"]
    assert set(labels[labels.index.str.startswith("z")]) == {"quadrature"}


def mixture_weight(data: pm.Data) -> None:
    p = pm.Beta("p", 2, 2)
    z = pm.Bernoulli("z", p, shape=20)
    pm.Normal("y", 2.0 * z, 1.0, observed=data)


def persistence(data: pm.Data) -> None:
    p = pm.Beta("p", 4, 2)
    matrix = pt.stack([pt.stack([p, 1 - p]), pt.stack([1 - p, p])])
    z = pmx.DiscreteMarkovChain("z", P=matrix, init_dist=pm.Categorical.dist([0.5, 0.5]), shape=(20,))
    pm.Normal("y", 2.0 * z, 1.0, observed=data)


@pytest.mark.slow
@pytest.mark.parametrize("build", [mixture_weight, persistence], ids=lambda b: b.__name__)
def test_recovered_states_are_calibrated(build: Callable[[Any], None]) -> None:
    """The rank of the true number of ones, and of the true parameter, among posterior draws is uniform.

    200 data sets are drawn from the prior; the one parameter's posterior is taken on a grid of the collapsed density.
    """
    sets, draws = 200, 99
    rng = np.random.default_rng(11)
    with pm.Model() as model:
        data = pm.Data("data", np.zeros(20))
        build(data)
    p, z, y = pm.draw([model["p"], model["z"], model["y"]], draws=sets, random_seed=5, mode=small_mode())
    analysis = analyse(model)
    assert analysis.plan.remaining == ("p",)
    space = Unconstrained(collapsed_model(collapsed_density(analysis)))
    recovery = state_recovery(analysis)["z"]
    grid = np.linspace(-9, 9, 361)
    ranks = np.empty((sets, 2))
    for k in range(sets):
        data.set_value(y[k])
        weights = special.softmax(space.log_density(grid[:, None]))
        points = rng.choice(grid, size=draws, p=weights) + rng.uniform(-0.5, 0.5, draws) * (grid[1] - grid[0])
        parameter = special.expit(points)
        states = recovery.draw({"p": parameter}, draws, rng)
        ones, truth = states.sum(axis=1), z[k].sum()
        # Ties are broken at random, as the number is discrete.
        ranks[k] = (parameter < p[k]).sum(), rng.integers((ones < truth).sum(), (ones <= truth).sum() + 1)
    for column in ranks.T:
        counts = np.histogram(column, bins=10, range=(-0.5, draws + 0.5))[0]
        assert stats.chisquare(counts).pvalue > 1e-3


def test_a_chain_that_was_enumerated_has_no_next_step() -> None:
    transition, first = np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0.5, 0.5])
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1)
        second_order = np.stack([transition, transition[::-1]])
        z = pmx.DiscreteMarkovChain("z", P=second_order, init_dist=pm.Categorical.dist(first), n_lags=2, shape=4)
        pm.Normal("y", z, sigma, observed=[0.1, 0.9, 1.2, -0.3])
    known = bk.states(model, at={"sigma": 0.5})
    for question in (known.next_observation, known.smooth, known.predict):
        with pytest.raises(ModelError, match="enumerated as a whole"):
            question()


def test_a_single_state_is_occupied_by_its_probability() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Bernoulli("z", 0.3) * 2.0, 1.0, observed=1.5)
    joint = np.array([0.7 * stats.norm.pdf(1.5), 0.3 * stats.norm.pdf(1.5, 2.0)])
    for found in (bk.states(bk.infer(model, draws=40)), bk.states(model, at={})):
        np.testing.assert_allclose(found.occupancy().expected, joint / joint.sum(), rtol=1e-12)
        assert found.occupancy().attrs["label"] == "exact" and np.all(found.occupancy().error == 0)


@pytest.mark.slow
def test_the_error_after_quadrature_counts_the_nodes_that_were_left_out() -> None:
    y = np.array([-1.0, 0.3, 2.5, 3.1])
    with pm.Model() as model:
        apart = pm.HalfCauchy("apart", 2.0)
        pm.Normal("y", pm.Bernoulli("z", 0.3, shape=4) * apart, 1.0, observed=y)
    found = bk.states(bk.infer(model, draws=40, random_seed=1)).responsibilities()
    # By d = 2 tan u, under which the prior is uniform and all is smooth up to both ends.
    nodes, weights = np.polynomial.legendre.leggauss(2000)
    d = 2.0 * np.tan((nodes + 1) * np.pi / 4)
    one = 0.3 * stats.norm.pdf(y[:, None], d)
    total = 0.7 * stats.norm.pdf(y[:, None]) + one
    density = weights * total.prod(axis=0)
    error = np.abs(found.probability.sel(state=1) - (one / total) @ density / density.sum())
    assert np.all(error <= found.error.sel(state=1)) and np.all(found.error < 2e-8)
