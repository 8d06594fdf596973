"""Finite Markov chains at fixed parameters: against all paths, against plain logarithms, and against hmmlearn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chain_oracles import Problem, all_paths, distribution, log, one_hot, problem
from hmmlearn import hmm
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from bayeskit.errors import BayeskitError, DataError, ModelError, OptionError
from bayeskit.finite import hmm as chains
from bayeskit.finite.forward_backward import evidence_and_filter, evidence_gradient


def check_against_all_paths(arguments: Problem) -> None:
    initial, transition, likelihood = arguments
    steps, states = likelihood.shape
    paths, joint = all_paths(*arguments)
    evidence = special.logsumexp(joint)
    assert chains.log_evidence(*arguments) == pytest.approx(evidence, abs=1e-10)
    if evidence == -np.inf:
        queries = (chains.filter_states, chains.smooth_states, chains.most_likely_states)
        for query in queries:
            with pytest.raises(DataError, match="the observation at step"):
                query(*arguments)
        with pytest.raises(DataError, match="the observation at step"):
            chains.draw_states(*arguments, rng=np.random.default_rng(1))
        return
    weights = np.exp(joint - evidence)
    hot = one_hot(paths, states)
    smoothed = np.einsum("n,ntk->tk", weights, hot)
    pairs = np.einsum("n,nti,ntj->tij", weights, hot[:, :-1], hot[:, 1:])
    np.testing.assert_allclose(chains.smooth_states(*arguments), smoothed, atol=1e-10)
    value, *forward = evidence_and_filter(*arguments)
    found = evidence_gradient(transition, *forward)
    assert value == pytest.approx(evidence, abs=1e-10)
    np.testing.assert_allclose(found[0], smoothed, atol=1e-10)
    np.testing.assert_allclose(
        found[1], pairs.sum(axis=0, keepdims=True) if len(transition) == 1 else pairs, atol=1e-10
    )

    filtered = chains.filter_states(*arguments)
    for t in range(steps):
        matrices = transition if len(transition) == 1 else transition[:t]
        some, partial = all_paths(initial, matrices, likelihood[: t + 1])
        expected = np.exp(partial - special.logsumexp(partial)) @ one_hot(some[:, -1], states)
        np.testing.assert_allclose(filtered[t], expected, atol=1e-10)

    best = chains.most_likely_states(*arguments)
    assert best.log_probability == pytest.approx(joint.max(), abs=1e-10)
    assert joint[np.flatnonzero((paths == best.states).all(axis=1))[0]] == pytest.approx(joint.max(), abs=1e-10)

    # A future that is not observed is a sequence with missing observations after its end.
    if len(transition) == 1:
        ahead = 2 if states**steps < 2000 else 1
        longer, value = all_paths(initial, transition, np.concatenate([likelihood, np.zeros((ahead, states))]))
        expected = np.einsum("n,ntk->tk", np.exp(value - evidence), one_hot(longer[:, steps:], states))
        np.testing.assert_allclose(chains.forecast_states(*arguments, steps=ahead), expected, atol=1e-10)


@pytest.mark.parametrize("time_varying", [False, True])
@pytest.mark.parametrize(("steps", "states"), [(1, 1), (1, 3), (2, 2), (5, 1), (4, 3), (6, 3), (8, 2), (5, 4)])
def test_every_query_agrees_with_all_paths(steps: int, states: int, time_varying: bool) -> None:
    for seed in range(5):
        arguments = problem(seed, steps, states, time_varying=time_varying)
        check_against_all_paths(arguments)


@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(1, 5),
    states=st.integers(1, 3),
    time_varying=st.booleans(),
    zeros=st.sampled_from([0.0, 0.3, 0.7]),
    scale=st.sampled_from([1.0, 40.0, 3e3]),
)
def test_every_query_agrees_with_all_paths_for_any_shape_and_scale(
    seed: int, steps: int, states: int, time_varying: bool, zeros: float, scale: float
) -> None:
    initial, transition, likelihood = problem(seed, steps, states, time_varying=time_varying, zeros=zeros)
    # Rounded, so that sums of large numbers are exact and a tolerance of 1e-10 means something.
    likelihood = np.round(likelihood * scale)
    check_against_all_paths((initial, transition, likelihood))


def test_a_tie_goes_to_the_lowest_states() -> None:
    uniform = np.log(np.full((1, 4, 4), 0.25))
    best = chains.most_likely_states(uniform[0, 0], uniform, np.zeros((5, 4)))
    assert best.states.tolist() == [0] * 5
    likelihood = np.zeros((5, 4))
    likelihood[2] = [-1.0, 0.0, -2.0, 0.0]
    assert chains.most_likely_states(uniform[0, 0], uniform, likelihood).states.tolist() == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("time_varying", [False, True])
def test_several_sequences_and_parameters_broadcast(time_varying: bool) -> None:
    steps, states = 6, 3
    initial, transition, likelihood = problem(3, steps, states, time_varying=time_varying, zeros=0.0, batch=(2, 4))
    for arguments in (
        (initial[0, 0], transition[:, :1], likelihood),
        (initial[:, :1], transition[0, 0], likelihood[0]),
        (initial[0], transition[:, :1], likelihood[0, 0]),
    ):
        broadcast = [
            np.broadcast_to(a, (2, 4, *b.shape[2:]))
            for a, b in zip(arguments, (initial, transition, likelihood), strict=True)
        ]
        smoothed = chains.smooth_states(*arguments)
        filtered = chains.filter_states(*arguments)
        best = chains.most_likely_states(*arguments)
        evidence = chains.log_evidence(*arguments)
        assert chains.draw_states(*arguments, rng=np.random.default_rng(1)).shape == (2, 4, steps)
        for at in np.ndindex(2, 4):
            one = [b[at] for b in broadcast]
            np.testing.assert_array_equal(chains.log_evidence(*one), evidence[at])
            np.testing.assert_array_equal(chains.filter_states(*one), filtered[at])
            np.testing.assert_array_equal(chains.smooth_states(*one), smoothed[at])
            np.testing.assert_array_equal(chains.most_likely_states(*one).states, best.states[at])
    no_sequences = chains.smooth_states(initial[0, 0], transition[0, 0], likelihood[0, :0])
    assert no_sequences.shape == (0, steps, states)


@pytest.mark.parametrize("mixing", [True, False])
def test_drawn_paths_have_their_exact_probabilities(mixing: bool) -> None:
    steps, states = 4, 3
    initial, transition, likelihood = problem(11, steps, states, zeros=0.15)
    if not mixing:
        # The third state is left behind by more than a double can hold, and comes back.
        transition = log(np.array([[[0.5, 0.5, 0.0], [0.3, 0.7, 0.0], [0.0, 0.0, 1.0]]]))
        initial = np.log(np.full(3, 1 / 3))
        likelihood = np.array([[0.0, 0.5, -800.0], [0.0, 0.3, 0.0], [0.0, 0.0, 800.0], [0.0, 0.0, 0.4]])
    paths, joint = all_paths(initial, transition, likelihood)
    exact = np.exp(joint - special.logsumexp(joint))
    size = 40_000
    rng = np.random.default_rng(5)
    initials, transitions = (np.broadcast_to(v, (size, *v.shape)) for v in (initial, transition))
    for arguments in ((initials, transition, likelihood), (initial, transitions, likelihood)):
        draws = chains.draw_states(*arguments, rng)
        count = np.bincount(np.ravel_multi_index(tuple(draws.T), (states,) * steps), minlength=len(paths))
        assert np.all(count[exact == 0] == 0)
        common = exact * size >= 5
        observed = [*count[common], count[~common].sum()]
        expected = [*(exact[common] * size), exact[~common].sum() * size]
        if expected[-1] < 5:  # too few for a cell of their own
            observed, expected = observed[:-1], expected[:-1]
            expected = list(np.array(expected) * sum(observed) / sum(expected))
        # A false alarm has probability 1e-3.
        assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_the_same_seed_gives_the_same_paths() -> None:
    arguments = problem(2, 60, 3, zeros=0.0)
    first, second, other = (chains.draw_states(*arguments, rng=np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert np.any(first != other)


def plain_logarithms(initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray) -> dict[str, np.ndarray]:
    """Forward, backward and Viterbi in NumPy, in logarithms throughout."""
    steps, states = likelihood.shape
    forward, backward, best = (np.zeros((steps, states)) for _ in range(3))
    forward[0] = best[0] = initial + likelihood[0]
    origin = np.zeros((steps, states), dtype=int)
    for t in range(1, steps):
        forward[t] = special.logsumexp(forward[t - 1][:, None] + transition, axis=0) + likelihood[t]
        arriving = best[t - 1][:, None] + transition
        origin[t] = np.argmax(arriving, axis=0)
        best[t] = np.max(arriving, axis=0) + likelihood[t]
    for t in range(steps - 2, -1, -1):
        backward[t] = special.logsumexp(transition + likelihood[t + 1] + backward[t + 1], axis=1)
    path = [int(np.argmax(best[-1]))]
    for t in range(steps - 1, 0, -1):
        path.append(int(origin[t, path[-1]]))
    return {
        "evidence": special.logsumexp(forward[-1]),
        "smoothed": special.softmax(forward + backward, axis=1),
        "filtered": special.softmax(forward, axis=1),
        "path": np.array(path[::-1]),
        "best": np.max(best[-1]),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transition", "level"),
    [
        (np.array([[0.95, 0.04, 0.01], [0.02, 0.9, 0.08], [0.1, 0.0, 0.9]]), 1.5),
        (np.array([[0.95, 0.04, 0.01], [0.02, 0.9, 0.08], [0.1, 0.0, 0.9]]), 60.0),
        (np.array([[1 - 1e-120, 1e-120, 0.0], [0.0, 1 - 1e-120, 1e-120], [0.0, 0.0, 1.0]]), 3.0),
        (np.eye(3), 0.5),
    ],
    ids=["close", "far apart", "one way", "never mixing"],
)
def test_a_long_sequence_agrees_with_plain_logarithms(transition: np.ndarray, level: float) -> None:
    rng = np.random.default_rng(7)
    steps = 3_000
    states = np.repeat([0, 1, 2], steps // 3)
    y = level * states + rng.normal(size=steps)
    likelihood = stats.norm(level * np.arange(3), 1.0).logpdf(y[:, None])
    arguments = (np.log(np.full(3, 1 / 3)), log(transition)[None], likelihood)
    expected = plain_logarithms(arguments[0], log(transition), likelihood)
    smoothed = chains.smooth_states(*arguments)
    np.testing.assert_allclose(chains.log_evidence(*arguments), expected["evidence"], rtol=1e-12)
    np.testing.assert_allclose(smoothed, expected["smoothed"], atol=1e-8)
    np.testing.assert_allclose(smoothed.sum(axis=1), 1.0, atol=1e-12)
    _, pairs = evidence_gradient(arguments[1], *evidence_and_filter(*arguments)[1:])
    np.testing.assert_allclose(pairs.sum(), steps - 1, rtol=1e-10)
    np.testing.assert_allclose(chains.filter_states(*arguments), expected["filtered"], atol=1e-8)
    best = chains.most_likely_states(*arguments)
    np.testing.assert_array_equal(best.states, expected["path"])
    np.testing.assert_allclose(best.log_probability, expected["best"], rtol=1e-12)


@pytest.mark.parametrize("shift", [-1e5, 1e5])
def test_the_size_of_the_log_likelihood_does_no_harm(shift: float) -> None:
    initial, transition, likelihood = problem(4, 50, 3, zeros=0.0)
    arguments, shifted = (initial, transition, likelihood), (initial, transition, likelihood + shift)
    np.testing.assert_allclose(chains.smooth_states(*shifted), chains.smooth_states(*arguments), atol=1e-9)
    evidence = chains.log_evidence(*shifted) - 50 * shift
    np.testing.assert_allclose(evidence, chains.log_evidence(*arguments), atol=1e-7)
    best = chains.most_likely_states(*shifted)
    np.testing.assert_array_equal(best.states, chains.most_likely_states(*arguments).states)


def test_a_state_far_below_the_others_comes_back_when_the_data_say_so() -> None:
    # In scaled probabilities alone the second regime would be lost after the first observation.
    initial, transition = np.log([0.5, 0.5]), log(np.eye(2))[None]
    likelihood = np.array([[0.0, -1e5], [-3e5, 0.0]])
    assert chains.log_evidence(initial, transition, likelihood) == pytest.approx(np.log(0.5) - 1e5, rel=1e-15)
    np.testing.assert_array_equal(chains.smooth_states(initial, transition, likelihood), [[0.0, 1.0], [0.0, 1.0]])
    assert chains.draw_states(initial, transition, likelihood, rng=np.random.default_rng(1)).tolist() == [1, 1]


def test_a_state_that_cannot_be_reached_may_have_the_largest_likelihood() -> None:
    initial, transition = log([1.0, 0.0]), log(np.array([[[1.0, 0.0], [0.5, 0.5]]]))
    likelihood = np.array([[-1e5, 1e5], [-2.0, 1e5]])
    assert chains.log_evidence(initial, transition, likelihood) == -1e5 - 2.0
    np.testing.assert_array_equal(chains.smooth_states(initial, transition, likelihood)[:, 0], 1.0)


def test_missing_observations_at_the_end_are_a_forecast() -> None:
    initial, transition, likelihood = problem(8, 6, 3, zeros=0.0)
    padded = np.concatenate([likelihood, np.zeros((4, 3))])
    short, long = (chains.smooth_states(initial, transition, values) for values in (likelihood, padded))
    evidence = [chains.log_evidence(initial, transition, values) for values in (likelihood, padded)]
    np.testing.assert_allclose(*evidence, rtol=1e-13)
    np.testing.assert_allclose(long[:6], short, atol=1e-12)
    ahead = chains.forecast_states(initial, transition, likelihood, steps=4)
    np.testing.assert_allclose(long[6:], ahead, atol=1e-12)


def fitted(model: Any, **parameters: np.ndarray) -> Any:
    for name, value in parameters.items():
        setattr(model, name, value)
    return model


# hmmlearn 0.3.3 sets the shape of an array, which NumPy 2.5 deprecates.
@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning:hmmlearn")
@pytest.mark.parametrize("implementation", ["log", "scaling"])
@pytest.mark.parametrize("family", ["categorical", "gaussian", "poisson"])
def test_hmmlearn_says_the_same_at_equal_parameters(family: str, implementation: str) -> None:
    rng = np.random.default_rng(13)
    states, lengths = 3, [60, 25, 40]
    start = np.exp(distribution(rng, states))
    transition = np.exp(distribution(rng, states, states))
    total = sum(lengths)
    options: Any = {"n_components": states, "implementation": implementation}
    match family:
        case "categorical":
            emission = np.exp(distribution(rng, states, 5))
            y = rng.integers(5, size=total)
            likelihood = np.log(emission[:, y]).T
            model = fitted(hmm.CategoricalHMM(**options), emissionprob_=emission, n_features=5)
        case "gaussian":
            means, variances = rng.normal(size=states), rng.gamma(2.0, size=states)
            y = rng.normal(size=total)
            likelihood = stats.norm(means, np.sqrt(variances)).logpdf(y[:, None])
            model = hmm.GaussianHMM(covariance_type="diag", **options)
            fitted(model, n_features=1, means_=means[:, None], covars_=variances[:, None])
        case _:
            rates = rng.gamma(3.0, size=states)
            y = rng.poisson(2.0, size=total)
            likelihood = stats.poisson(rates).logpmf(y[:, None])
            model = fitted(hmm.PoissonHMM(**options), lambdas_=rates[:, None], n_features=1)
    fitted(model, startprob_=start, transmat_=transition)
    column = y[:, None]
    parts = [(log(start), log(transition)[None], part) for part in np.split(likelihood, np.cumsum(lengths)[:-1])]
    evidence = sum(chains.log_evidence(*part) for part in parts)
    assert model.score(column, lengths) == pytest.approx(evidence, abs=1e-8)
    smoothed = np.concatenate([chains.smooth_states(*part) for part in parts])
    np.testing.assert_allclose(model.predict_proba(column, lengths), smoothed, atol=1e-8)
    decoded, path = model.decode(column, lengths, algorithm="viterbi")
    best = [chains.most_likely_states(*part) for part in parts]
    assert decoded == pytest.approx(sum(b.log_probability for b in best), abs=1e-8)
    np.testing.assert_array_equal(path, np.concatenate([b.states for b in best]))


def test_what_cannot_be_computed_is_said_in_one_line() -> None:
    initial, transition, likelihood = problem(1, 5, 3, zeros=0.0)
    spoiled = likelihood.copy()
    spoiled[2, 1] = np.nan
    infinite = likelihood.copy()
    infinite[4, 0] = np.inf
    impossible = np.stack([likelihood, likelihood])
    impossible[1, 3] = -np.inf
    short = transition.copy()
    short[0, 2] = np.log([0.5, 0.3, 0.1])
    cases: list[tuple[type[BayeskitError], str, Any]] = [
        (DataError, "step 3 in state 1 is nan", lambda: chains.log_evidence(initial, transition, spoiled)),
        (DataError, "step 5 in state 0 is inf", lambda: chains.log_evidence(initial, transition, infinite)),
        (
            DataError,
            r"it must end in \(steps, states\)",
            lambda: chains.log_evidence(initial, transition, likelihood[0]),
        ),
        (
            DataError,
            r"it must end in \(steps, states\)",
            lambda: chains.log_evidence(initial, transition, likelihood[:0]),
        ),
        (DataError, "step 4 of sequence 2 of 2", lambda: chains.smooth_states(initial, transition, impossible)),
        (DataError, "step 4 of sequence 2 of 2", lambda: chains.most_likely_states(initial, transition, impossible)),
        (
            ModelError,
            "row 2 of the transition matrix sums to 0.9",
            lambda: chains.log_evidence(initial, short, likelihood),
        ),
        (
            ModelError,
            "the distribution of the first state sums",
            lambda: chains.log_evidence(initial - 1, transition, likelihood),
        ),
        (ModelError, "log_initial has shape", lambda: chains.log_evidence(initial[:2], transition, likelihood)),
        (
            ModelError,
            r"must end in \(4, 3, 3\)",
            lambda: chains.log_evidence(initial, transition[0], likelihood),
        ),
        (ModelError, "do not broadcast", lambda: chains.log_evidence(np.stack([initial] * 3), transition, impossible)),
        (OptionError, "steps is -1", lambda: chains.forecast_states(initial, transition, likelihood, steps=-1)),
    ]
    for error, message, call in cases:
        with pytest.raises(error, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
    np.testing.assert_array_equal(np.isneginf(chains.log_evidence(initial, transition, impossible)), [False, True])
