"""The log evidence of a chain as a graph: its value against all paths, its gradient against differences and a scan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from chain_oracles import all_paths, log, problem
from pymc_extras import DiscreteMarkovChain, marginalize
from pytensor.graph.replace import vectorize_graph
from scipy import special

from bayeskit.finite.hmm_op import chain_log_evidence
from bayeskit.graphs.compile import compile_small, small_mode
from bayeskit.graphs.environment import lightly
from bayeskit.model.markov_chain import log_probability


def density() -> Any:
    """Value and gradient as a function of the three arguments."""
    inputs = [pt.dvector(), pt.dtensor3(), pt.dmatrix()]
    value = chain_log_evidence(*inputs)
    return compile_small(inputs, [value, *pt.grad(value, inputs)])


def differences(arguments: Any) -> list[np.ndarray]:
    """Central differences of the sum over all paths; zero where an entry is −inf."""
    result = []
    for n, values in enumerate(arguments):
        slopes = np.zeros(values.shape)
        for at in np.argwhere(np.isfinite(values)):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [v.copy() for v in arguments]
                moved[n][tuple(at)] += step
                ends.append(special.logsumexp(all_paths(*moved)[1]))
            slopes[tuple(at)] = (ends[0] - ends[1]) / 2e-5
        result.append(slopes)
    return result


@pytest.mark.parametrize("time_varying", [False, True])
@pytest.mark.parametrize(("steps", "states"), [(1, 2), (2, 3), (5, 3), (4, 1)])
def test_value_and_gradient_agree_with_all_paths(steps: int, states: int, time_varying: bool) -> None:
    function = density()
    finite = 0
    for seed in range(4):
        arguments = problem(seed, steps, states, time_varying=time_varying, zeros=0.2)
        value, *gradient = function(*arguments)
        expected = special.logsumexp(all_paths(*arguments)[1])
        assert value == pytest.approx(expected, abs=1e-12)
        if expected == -np.inf:
            assert all(np.all(part == 0) for part in gradient)
            continue
        finite += 1
        for part, slopes in zip(gradient, differences(arguments), strict=True):
            np.testing.assert_allclose(part, slopes, atol=1e-8)
    assert finite


def test_the_gradient_is_right_where_scaled_probabilities_would_be_lost() -> None:
    arguments = (np.log([0.5, 0.5]), log(np.eye(2))[None], np.array([[0.0, -2000.0], [-4000.0, 0.0]]))
    value, initial, transition, likelihood = density()(*arguments)
    assert value == np.log(0.5) - 2000.0
    np.testing.assert_array_equal(initial, [0.0, 1.0])
    np.testing.assert_array_equal(transition, [[[0.0, 0.0], [0.0, 1.0]]])
    np.testing.assert_array_equal(likelihood, [[0.0, 1.0], [0.0, 1.0]])


def test_nan_is_passed_on_and_an_impossible_observation_is_not_nan() -> None:
    function = density()
    initial, transition, likelihood = problem(1, 4, 3, zeros=0.0)
    impossible = likelihood.copy()
    impossible[2] = -np.inf
    value, *gradient = function(initial, transition, impossible)
    assert value == -np.inf
    assert all(np.all(part == 0) for part in gradient)
    likelihood[2, 1] = np.nan
    value, *gradient = function(initial, transition, likelihood)
    assert np.isnan(value)
    assert all(np.any(np.isnan(part)) for part in gradient)


@pytest.mark.slow
@pytest.mark.parametrize("time_varying", [False, True])
def test_numba_and_batches_give_what_one_point_gives(time_varying: bool) -> None:
    steps, states, batch = 7, 3, 5
    points = [problem(seed, steps, states, time_varying=time_varying, zeros=0.2) for seed in range(batch)]
    # One that is out of the range of scaled probabilities.
    points[1][2][:] = np.linspace(-3000, 3000, steps)[:, None] * np.array([1, 0, -1])
    points[1][1][:] = log(np.eye(states))
    points[1][0][:] = np.log(1 / states)
    one = density()
    alone = [one(*point) for point in points]

    core = [pt.dvector(), pt.dtensor3(), pt.dmatrix()]
    value = chain_log_evidence(*core)
    outputs = [value, *pt.grad(value, core)]
    batched = [pt.TensorType("float64", (None,) * (v.type.ndim + 1))() for v in core]
    graphs = vectorize_graph(outputs, dict(zip(core, batched, strict=True)))
    stacked = [np.stack(parts) for parts in zip(*points, strict=True)]
    for function in (compile_small(batched, graphs), pytensor.function(batched, graphs, mode="NUMBA")):
        for n, result in enumerate(function(*stacked)):
            np.testing.assert_allclose(result, np.stack([a[n] for a in alone]), rtol=1e-13, atol=1e-13)


def test_several_sequences_share_their_parameters() -> None:
    initial, transition, _ = problem(1, 6, 3, zeros=0.2)
    sequences = np.stack([problem(seed, 6, 3, zeros=0.0)[2] for seed in range(4)])
    inputs = [pt.dvector(), pt.dtensor3(), pt.dtensor3()]
    each = chain_log_evidence(*inputs)
    function = compile_small(inputs, [each, *pt.grad(pt.sum(each), inputs)])
    values, *gradient = function(initial, transition, sequences)
    one = density()
    alone = [one(initial, transition, likelihood) for likelihood in sequences]
    np.testing.assert_allclose(values, [a[0] for a in alone], rtol=1e-14)
    np.testing.assert_allclose(gradient[0], sum(a[1] for a in alone), rtol=1e-12)
    np.testing.assert_allclose(gradient[1], sum(a[2] for a in alone), rtol=1e-12)
    np.testing.assert_allclose(gradient[2], np.stack([a[3] for a in alone]), rtol=1e-12)


def test_an_impossible_transition_does_not_spoil_the_gradient_of_the_others() -> None:
    stay = pt.dscalar()
    likelihood = problem(5, 6, 2, zeros=0.0)[2]
    pattern = np.array([[1.0, 0.0], [0.0, 0.0]])
    transition = stay * pattern + (1 - stay) * np.array([[0.0, 1.0], [0.0, 0.0]]) + np.array([[0.0, 0.0], [0.0, 1.0]])
    value = chain_log_evidence(np.log([0.5, 0.5]), log_probability(transition)[None], likelihood)
    function = compile_small([stay], [value, pt.grad(value, stay)])
    slope = function(0.3)[1]
    assert slope == pytest.approx((function(0.3 + 1e-6)[0] - function(0.3 - 1e-6)[0]) / 2e-6, abs=1e-7)
    np.testing.assert_array_equal(
        log_probability(np.array([0.0, 0.5, 1.0])).eval(mode=small_mode()), log([0.0, 0.5, 1.0])
    )


def models(steps: int) -> tuple[pm.Model, pm.Model]:
    """A Gaussian hidden Markov model with its states summed out by a scan of pymc-extras, and by ours."""
    rng = np.random.default_rng(2)
    y = 2.0 * (np.arange(steps) // 7 % 2) + rng.normal(size=steps)

    def parameters() -> tuple[Any, Any, Any]:
        transition = pm.Dirichlet("transition", np.array([[3.0, 1.0], [1.0, 3.0]]))
        return transition, pm.Normal("mu", [0.0, 2.0], 1.0), pm.HalfNormal("sigma")

    with pm.Model() as written:
        transition, mu, sigma = parameters()
        first = pm.Categorical.dist(p=[0.5, 0.5])
        states = DiscreteMarkovChain("states", P=transition, init_dist=first, steps=steps - 1)
        pm.Normal("y", mu[states], sigma, observed=y)
    with pm.Model() as ours:
        transition, mu, sigma = parameters()
        likelihood = pm.logp(pm.Normal.dist(mu, sigma), y[:, None])
        pm.Potential("y", chain_log_evidence(np.log([0.5, 0.5]), log_probability(transition)[None], likelihood))
    return marginalize(written, [states]), ours


def test_a_scan_gives_the_same_density_and_gradient() -> None:
    results = []
    for model in models(40):
        values = [model.rvs_to_values[model[name]] for name in ("transition", "mu", "sigma")]
        logp = model.logp()
        with lightly():  # or the step of the scan would be compiled as C
            function = pytensor.function(values, [logp, *pt.grad(logp, values)], mode=small_mode())
        results.append(function(np.array([[0.7], [-0.4]]), np.array([0.3, 1.6]), np.array(0.2)))
    for scanned, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, scanned, rtol=1e-10)


@pytest.mark.slow
def test_nuts_runs_on_it_natively() -> None:
    import nutpie

    rng = np.random.default_rng(3)
    y = 3.0 * (np.arange(60) // 10 % 2) + rng.normal(size=60)
    likelihood = -0.5 * (y[:, None] - np.array([0.0, 3.0])) ** 2
    with pm.Model() as model:
        stay = pm.Uniform("stay")
        transition = pt.stack([pt.stack([stay, 1 - stay]), pt.stack([1 - stay, stay])])
        pm.Potential("y", chain_log_evidence(np.log([0.5, 0.5]), log_probability(transition)[None], likelihood))
    compiled = nutpie.compile_pymc_model(model, backend="numba")
    tree = nutpie.sample(compiled, draws=500, tune=300, chains=2, cores=1, seed=1, progress_bar=False)
    draws = tree["posterior"]["stay"].to_numpy()
    grid = (np.arange(2000) + 0.5) / 2000
    stays = pt.dvector()
    each = chain_log_evidence(
        np.log([0.5, 0.5]),
        pt.log(pt.stack([pt.stack([stays, 1 - stays]), pt.stack([1 - stays, stays])])).transpose(2, 0, 1)[:, None],
        likelihood,
    )
    weights = special.softmax(compile_small([stays], each)(grid))
    mean = weights @ grid
    # Five standard errors of a mean of at least 200 effective draws.
    assert abs(draws.mean() - mean) < 5 * np.sqrt(weights @ (grid - mean) ** 2 / 200)
