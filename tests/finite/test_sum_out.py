"""Finite variables summed out of a density, against enumeration with PyMC's own density of the model as written."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pymc_extras as pmx
import pytensor.tensor as pt
import pytest
from pymc_extras.marginal import marginalize
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.recovery import state_recovery
from bayeskit.graphs.compile import small_mode

Y = np.array([-1.3, 0.4, 2.2, 0.9, -0.6])
PLANE = np.array([[-1.3, 0.2], [0.4, 1.1], [2.2, -0.7], [0.9, 0.3], [-0.6, -1.9]])


@dataclass(frozen=True)
class Case:
    """A model whose finite variables are summed out, and into what shape of sum."""

    name: str
    build: Callable[[], Any]
    kinds: dict[str, str]


def mixture() -> None:
    w = pm.Dirichlet("w", np.ones(3))
    mu = pm.Normal("mu", 0, 3, shape=3)
    sigma = pm.HalfNormal("sigma", 1)
    z = pm.Categorical("z", w, shape=4)
    pm.Normal("y", mu[z], sigma, observed=Y[:4])


def mixture_with_dims_and_deterministics() -> None:
    model = pm.modelcontext(None)
    model.add_coord("row", [f"r{i}" for i in range(5)])
    model.add_coord("component", ["low", "high"])
    w = pm.Dirichlet("w", np.ones(2), dims="component")
    mu = pm.Normal("mu", 0, 3, dims="component", initval=[-1.0, 1.0])
    sigma = pm.HalfNormal("sigma", 1, dims="component")
    z = pm.Categorical("z", w, dims="row")
    pm.Deterministic("share", pt.eq(z, 0).mean())
    pm.Deterministic("mean", mu[z], dims="row")
    x = pm.Data("x", np.linspace(-1, 1, 5), dims="row")
    pm.Normal("y", mu[z] * x, sigma[z], observed=Y, dims="row")


def full_covariances() -> None:
    mu = pm.Normal("mu", 0, 3, shape=(2, 2))
    scale = pm.HalfNormal("scale", 1, shape=2)
    factor = pt.stack([pt.eye(2) * scale[0], pt.as_tensor([[1.0, 0.0], [0.7, 0.5]]) * scale[1]])
    z = pm.Categorical("z", [0.3, 0.7], shape=5)
    pm.MvNormal("y", mu[z], chol=factor[z], observed=PLANE)


def columns_share_a_row_label() -> None:
    mu = pm.Normal("mu", 0, 3, shape=(3, 2))
    sigma = pm.HalfNormal("sigma", 1)
    z = pm.Categorical("z", [0.2, 0.3, 0.5], shape=5)
    pm.Normal("y", mu[z], sigma, observed=PLANE)


def two_likelihoods() -> None:
    rate = pm.Gamma("rate", 2, 1, shape=2)
    mu = pm.Normal("mu", 0, 3, shape=2)
    sigma = pm.HalfNormal("sigma", 1)
    z = pm.Bernoulli("z", 0.4, shape=5)
    pm.Normal("y", mu[z], sigma, observed=Y)
    pm.Poisson("count", rate[z], observed=[0, 3, 1, 5, 2])


def coins() -> None:
    theta = pm.Beta("theta", 2, 2, shape=2)
    kappa = pm.HalfNormal("kappa", 1)
    z = pm.Bernoulli("z", 0.5, shape=5)
    pm.BetaBinomial(
        "heads",
        alpha=pm.math.switch(z, theta[0], theta[1]) * kappa,
        beta=kappa,
        n=10,
        observed=[5, 9, 8, 4, 7],
    )


def nested() -> None:
    first = pm.Bernoulli("first", 0.3, shape=3)
    rows = pm.Dirichlet("rows", np.ones(3), size=2)
    second = pm.Categorical("second", rows[first])
    mu = pm.Normal("mu", 0, 1, shape=(2, 3))
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", mu[first, second], sigma, observed=Y[:3])


def one_switch_for_all() -> None:
    model = pm.Categorical("model", [0.2, 0.5, 0.3])
    z = pm.Bernoulli("z", 0.4, shape=5)
    mu = pm.Normal("mu", 0, 2, shape=3)
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", mu[model] + 2.0 * z, sigma, observed=Y)


def coupled() -> None:
    z = pm.Bernoulli("z", 0.4, shape=4)
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", z.sum(), sigma, observed=Y)


def many_values() -> None:
    n = pm.DiscreteUniform("n", 0, 30, shape=3)
    p = pm.Beta("p", 2, 2)
    noise = pm.HalfNormal("noise", 1)
    pm.Normal("y", n * p, noise, observed=[3.0, 4.5, 1.0])


def missing_rows() -> None:
    mu = pm.Normal("mu", 0, 3, shape=2)
    sigma = pm.HalfNormal("sigma", 1)
    z = pm.Categorical("z", [0.3, 0.7], shape=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pm.Normal("y", mu[z], sigma, observed=np.where(np.arange(5) == 2, np.nan, Y))


def chain() -> None:
    transition = pm.Dirichlet("transition", np.ones(3), size=3)
    first = pm.Dirichlet("first", np.ones(3))
    mu = pm.Normal("mu", 0, 2, shape=3)
    sigma = pm.HalfNormal("sigma", 1)
    z = pmx.DiscreteMarkovChain("z", P=transition, init_dist=pm.Categorical.dist(first), shape=4)
    pm.Normal("y", mu[z], sigma, observed=Y[:4])


def chain_with_gaps() -> None:
    rate = pm.Gamma("rate", 2, 0.2, shape=2)
    transition = pm.Beta("transition", 2, 1, shape=2)
    matrix = pt.stack([pt.stack([transition[0], 1 - transition[0]]), pt.stack([1 - transition[1], transition[1]])])
    z = pmx.DiscreteMarkovChain("z", P=matrix, init_dist=pm.Categorical.dist([0.5, 0.5]), shape=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts = np.ma.masked_equal(np.array([3, 12, -1, 9, 2, 4]), -1)
        pm.Poisson("y", rate[z], observed=counts)


def several_chains() -> None:
    transition = pm.Dirichlet("transition", np.ones(2), size=2)
    mu = pm.Normal("mu", 0, 2, shape=2)
    sigma = pm.HalfNormal("sigma", 1)
    z = pmx.DiscreteMarkovChain("z", P=transition, init_dist=pm.Categorical.dist([0.2, 0.8]), shape=(2, 3))
    pm.Normal("y", mu[z], sigma, observed=np.array([[0.1, -1.0, 2.0], [1.1, 0.4, -0.2]]))


def chain_with_mixture_emissions() -> None:
    transition = pm.Dirichlet("transition", np.ones(2), size=2)
    weights = pm.Dirichlet("weights", np.ones(2), size=2)
    mu = pm.Normal("mu", 0, 2, shape=(2, 2))
    sigma = pm.HalfNormal("sigma", 1)
    z = pmx.DiscreteMarkovChain("z", P=transition, init_dist=pm.Categorical.dist([0.5, 0.5]), shape=4)
    which = pm.Categorical("which", weights[z])
    pm.Normal("y", mu[z, which], sigma, observed=Y[:4])


def chain_with_transitions_that_vary() -> None:
    transition = pm.Dirichlet("transition", np.ones(2), size=(3, 2))
    mu = pm.Normal("mu", 0, 2, shape=2)
    sigma = pm.HalfNormal("sigma", 1)
    first = pm.Categorical.dist([0.2, 0.8])
    z = pmx.DiscreteMarkovChain("z", P=transition, init_dist=first, time_varying_P=True, shape=4)
    pm.Normal("y", mu[z], sigma, observed=Y[:4])


def sequences_share_transitions_that_vary() -> None:
    transition = pm.Dirichlet("transition", np.ones(2), size=(2, 2))
    mu = pm.Normal("mu", 0, 2, shape=2)
    sigma = pm.HalfNormal("sigma", 1)
    first = pm.Categorical.dist([0.2, 0.8])
    z = pmx.DiscreteMarkovChain("z", P=transition, init_dist=first, time_varying_P=True, shape=(2, 3))
    pm.Normal("y", mu[z], sigma, observed=np.array([[0.1, -1.0, 2.0], [1.1, 0.4, -0.2]]))


def chain_drives_a_chain() -> None:
    rows = pm.Dirichlet("rows", np.ones(2), size=(2, 2))
    mu = pm.Normal("mu", 0, 2, shape=2)
    sigma = pm.HalfNormal("sigma", 1)
    first = np.array([0.2, 0.8])
    matrix = np.array([[0.9, 0.1], [0.4, 0.6]])
    regime = pmx.DiscreteMarkovChain("regime", P=matrix, init_dist=pm.Categorical.dist(first), shape=4)
    z = pmx.DiscreteMarkovChain(
        "z", P=rows[regime[:-1]], init_dist=pm.Categorical.dist(first), time_varying_P=True, shape=4
    )
    pm.Normal("y", mu[z], sigma, observed=Y[:4])


def spike_and_slab() -> None:
    z = pm.Bernoulli("z", 0.4, shape=3)
    beta = pm.Normal("beta", 0, pt.switch(z, 2.0, 0.1))
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", pt.dot(np.vander(np.linspace(-1, 1, 5), 3), beta), sigma, observed=Y)


def label_of_a_group() -> None:
    mu = pm.Normal("mu", 0, 3, shape=2)
    sigma = pm.HalfNormal("sigma", 1)
    group = pm.Data("group", np.array([0, 0, 2, 1, 0]))
    z = pm.Categorical("z", [0.3, 0.7], shape=4)
    pm.Normal("y", mu[z[group]], sigma, observed=Y)


def one_entry_for_many_rows() -> None:
    mu = pm.Normal("mu", 0, 3, shape=2)
    sigma = pm.HalfNormal("sigma", 1)
    z = pm.Categorical("z", [0.3, 0.7], shape=3)
    pm.Normal("x", mu[z[:1]], sigma, observed=Y[:4])
    pm.Normal("y", mu[z[1:]], sigma, observed=Y[:2])


CASES = (
    Case("mixture", mixture, {"z": "independent"}),
    Case("dims, Deterministics, initval, pm.Data", mixture_with_dims_and_deterministics, {"z": "independent"}),
    Case("full covariances", full_covariances, {"z": "independent"}),
    Case("columns share a label", columns_share_a_row_label, {"z": "independent"}),
    Case("two likelihoods", two_likelihoods, {"z": "independent"}),
    Case("coins", coins, {"z": "independent"}),
    Case("nested", nested, {"second": "independent", "first": "independent"}),
    Case("one switch for all", one_switch_for_all, {"z": "independent", "model": "independent"}),
    Case("coupled", coupled, {"z": "joint"}),
    Case("missing rows", missing_rows, {"z": "independent"}),
    Case("chain", chain, {"z": "chain"}),
    Case("chain with gaps", chain_with_gaps, {"z": "chain"}),
    Case("several chains", several_chains, {"z": "chain"}),
    Case("chain with mixture emissions", chain_with_mixture_emissions, {"which": "independent", "z": "chain"}),
    Case("chain with transitions that vary", chain_with_transitions_that_vary, {"z": "chain"}),
    Case("sequences share transitions that vary", sequences_share_transitions_that_vary, {"z": "chain"}),
    Case("chain drives a chain", chain_drives_a_chain, {"z": "chain", "regime": "joint"}),
    Case("spike and slab", spike_and_slab, {"z": "independent"}),
    Case("label of a group", label_of_a_group, {"z": "independent"}),
    Case("one entry for many rows", one_entry_for_many_rows, {"z": "joint"}),
)


@dataclass(frozen=True)
class Summed:
    """A case, its analysis, prior draws of its variables, the recovery of its states, and their joint density."""

    kinds: dict[str, str]
    analysis: Any
    points: list[dict[str, np.ndarray]]
    recovery: dict[str, Any]
    table: dict[tuple[Any, ...], float]  # at the first point


@pytest.fixture(scope="module", params=CASES, ids=lambda c: c.name)
def case(request: pytest.FixtureRequest) -> Summed:
    with pm.Model() as model:
        request.param.build()
    analysis, drawn = analyse(model, sums=True), points(model)
    return Summed(request.param.kinds, analysis, drawn, state_recovery(analysis), enumerated(analysis, drawn[0]))


def points(model: pm.Model, number: int = 3) -> list[dict[str, np.ndarray]]:
    names = [rv.name for rv in model.free_RVs]
    drawn = pm.draw(model.free_RVs, draws=max(number, 2), random_seed=3, mode=small_mode())
    return [dict(zip(names, (v[k] for v in drawn), strict=True)) for k in range(number)]


def enumerated(analysis: Any, point: dict[str, np.ndarray]) -> dict[tuple[Any, ...], float]:
    """log p(y, z, φ) of the model as written at every joint value of its finite variables, without the leaves."""
    joint = analysis.original.without(analysis.ancestral)
    sizes = {s.name: (analysis.supports[s.name].values, s.shape) for s in analysis.summed}
    cells = [itertools.product(v, repeat=int(np.prod(shape, dtype=int))) for v, shape in sizes.values()]
    found = {}
    for row in itertools.product(*cells):
        state = {n: np.reshape(c, shape) for c, (n, (_, shape)) in zip(row, sizes.items(), strict=True)}
        found[row] = joint.logp({**point, **state})
    return found


@pytest.mark.slow
def test_what_is_summed_and_how(case: Summed) -> None:
    analysis = case.analysis
    assert {s.name: s.kind for s in analysis.summed} == case.kinds
    assert not set(case.kinds) & set(analysis.plan.remaining)
    steps = {v: s.family for s in analysis.plan.eliminated for v in s.variables}
    expected = {"independent": "categorical", "chain": "markov_chain", "joint": "categorical"}
    assert all(steps[n] == expected[k] for n, k in case.kinds.items())


@pytest.mark.slow
def test_the_sum_is_that_over_all_values(case: Summed) -> None:
    joint = case.analysis.joint.without(case.analysis.ancestral)
    for k, point in enumerate(case.points):
        expected = special.logsumexp(list((enumerated(case.analysis, point) if k else case.table).values()))
        assert abs(joint.logp(point) - expected) <= 1e-10 * max(1, abs(expected))


@pytest.mark.slow
def test_the_probabilities_are_those_of_enumeration(case: Summed) -> None:
    analysis, point, table = case.analysis, case.points[0], case.table
    total = special.logsumexp(list(table.values()))
    last = analysis.summed[-1]  # given by the parameters alone
    place = [s.name for s in analysis.summed].index(last.name)
    values = analysis.supports[last.name].values
    one = {n: np.asarray(v)[None] for n, v in point.items() if n not in [s.name for s in analysis.summed]}
    if last.kind != "joint":
        ((_, found),) = case.recovery[last.name].probabilities(one, 1)
        expected = np.zeros((int(np.prod(last.shape, dtype=int)), len(values)))
        for states, log_p in table.items():
            for entry, value in enumerate(states[place]):
                expected[entry, list(values).index(value)] += np.exp(log_p - total)
        np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-10)
    # Every state's own probability, the others given by the chain rule.
    for states, log_p in list(table.items())[:: max(1, len(table) // 12)]:
        if log_p == -np.inf:
            continue
        state = {s.name: np.reshape(c, s.shape) for c, s in zip(states, analysis.summed, strict=True)}
        at = {**point, **state}
        log_probability = sum(r.log_probability(at) for r in case.recovery.values())
        assert abs(log_probability - (log_p - total)) < 1e-9


@pytest.mark.slow
def test_draws_have_the_probabilities(case: Summed) -> None:
    analysis, point, table = case.analysis, case.points[0], case.table
    weights = special.softmax(list(table.values()))
    number, rng = 4000, np.random.default_rng(7)
    names = [s.name for s in analysis.summed]
    draws = {n: np.broadcast_to(v, (number, *np.shape(v))).copy() for n, v in point.items() if n not in names}
    for name, recovery in case.recovery.items():
        draws[name] = recovery.draw(draws, number, rng)
    seen = np.stack([draws[n].reshape(number, -1) for n in names], axis=-1) if len(names) == 1 else None
    keys = [tuple(tuple(draws[n][k].ravel()) for n in names) for k in range(number)]
    assert seen is None or len(seen) == number
    index = {key: i for i, key in enumerate(table)}
    counts = np.bincount([index[k] for k in keys], minlength=len(table))
    common = weights * number >= 5
    observed = [*counts[common], counts[~common].sum()]
    expected = [*(weights[common] * number), weights[~common].sum() * number]
    if expected[-1] < 5:
        observed, expected = observed[:-1], expected[:-1]
        expected = list(np.array(expected) * sum(observed) / sum(expected))
    assert stats.chisquare(observed, expected).pvalue > 1e-3 if len(observed) > 1 else True


def test_a_variable_of_many_values_is_summed_entry_by_entry() -> None:
    with pm.Model() as model:
        many_values()
    analysis = analyse(model)
    point = {"p": np.array(0.3), "noise": np.array(0.7)}
    y = np.array([3.0, 4.5, 1.0])
    each = special.logsumexp(stats.norm.logpdf(y, np.arange(31)[:, None] * 0.3, 0.7) - np.log(31), axis=0)
    expected = each.sum() + stats.beta.logpdf(0.3, 2, 2) + stats.halfnorm.logpdf(0.7)
    assert abs(analysis.joint.logp(point) - expected) < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("build", [mixture, full_covariances, nested, chain, several_chains], ids=lambda b: b.__name__)
def test_pymc_extras_agrees(build: Callable[[], None]) -> None:
    with pm.Model() as model:
        build()
    analysis = analyse(model, sums=True)
    finite = [rv.name for rv in model.free_RVs if rv.name in {s.name for s in analysis.summed}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = marginalize(model, finite)
        density = theirs.compile_logp(jacobian=False, mode="FAST_COMPILE")
    for point in points(model, 2):
        values = {}
        for rv in theirs.free_RVs:
            transform = theirs.rvs_to_transforms[rv]
            value = pt.constant(point[rv.name])
            moved = value if transform is None else transform.forward(value, *rv.owner.inputs)
            values[theirs.rvs_to_values[rv].name] = moved.eval(mode=small_mode())
        assert density(values) == pytest.approx(analysis.joint.logp(point), rel=1e-6)


def too_coupled() -> None:
    z = pm.Bernoulli("z", 0.4, shape=30)
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", z.sum(), sigma, observed=Y)


def cumulative() -> None:
    z = pm.Bernoulli("z", 0.4, shape=30)
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", z.cumsum(), sigma, observed=np.arange(30.0))


def neighbours() -> None:
    z = pm.Bernoulli("z", 0.4, shape=30)
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", z[1:] + z[:-1], sigma, observed=np.arange(29.0))


def second_order_chain() -> None:
    sigma = pm.HalfNormal("sigma", 1)
    transition = np.full((2, 2, 2), 0.5)
    z = pmx.DiscreteMarkovChain("z", P=transition, init_dist=pm.Categorical.dist([0.5, 0.5]), n_lags=2, shape=(30,))
    pm.Normal("y", z, sigma, observed=np.arange(30.0))


def reversed_entries() -> None:
    z = pm.Bernoulli("z", 0.4, shape=30)
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", z + z[::-1], sigma, observed=np.arange(30.0))


@pytest.mark.parametrize(
    "build", [too_coupled, cumulative, neighbours, second_order_chain, reversed_entries], ids=lambda b: b.__name__
)
def test_too_many_values_are_refused_with_their_number(build: Callable[[], None]) -> None:
    with pm.Model() as model:
        build()
    plan = bk.explain(model)
    refusal = next(r for r in plan.refusals if r.variable == "z")
    assert "2^30 = 1.07e+09 values" in refusal.reason
    assert plan.method == "nuts"


def test_nested_indicators_of_many_entries() -> None:
    rng = np.random.default_rng(3)
    y = rng.normal(size=60)
    with pm.Model() as model:
        first = pm.Categorical("first", [0.4, 0.6], shape=60)
        rows = pm.Dirichlet("rows", np.ones(3), size=2)
        second = pm.Categorical("second", rows[first], shape=60)
        mu = pm.Normal("mu", 0, 1, shape=3)
        pm.Normal("y", mu[second], 1.0, observed=y)
    analysis = analyse(model)
    assert [s.kind for s in analysis.summed] == ["independent", "independent"]
    for point in points(model, 2):
        weights = np.array([0.4, 0.6]) @ point["rows"]
        expected = np.log(stats.norm.pdf(y[:, None], point["mu"]) @ weights).sum()
        expected += stats.norm.logpdf(point["mu"]).sum() + stats.dirichlet.logpdf(point["rows"].T, np.ones(3)).sum()
        assert analysis.joint.logp(point) == pytest.approx(expected, abs=1e-10)


def test_a_selection_of_entries_is_no_coupling() -> None:
    with pm.Model() as model:
        z = pm.Bernoulli("z", 0.4, shape=5)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", 2.0 * z[1:4], sigma, observed=Y[1:4])
        pm.Normal("x", -1.0 * z[[0, 3, 3]], sigma, observed=[0.3, -0.2, 0.1])
    analysis = analyse(model)
    assert [s.kind for s in analysis.summed] == ["independent"]
    for point in points(model, 2):
        expected = special.logsumexp(list(enumerated(analysis, point).values()))
        assert analysis.joint.logp(point) == pytest.approx(expected, abs=1e-10)


def test_a_covariate_that_is_observed_in_part_is_summed_entry_by_entry() -> None:
    """PyMC joins what was observed and what is missing by setting entries: 15 sums of two, not of 2^15."""
    rng = np.random.default_rng(3)
    missing = np.zeros(30, dtype=bool)
    missing[rng.permutation(30)[:15]] = True
    covariate = np.ma.array(rng.integers(0, 2, 30), mask=missing)
    y = rng.poisson(2.0, 30)
    with pm.Model() as model:
        with pytest.warns(pm.exceptions.ImputationWarning):
            z = pm.Bernoulli("z", 0.3, observed=covariate)
        pm.Poisson("y", pm.Gamma("rate", 2, 1) * (1 + 2 * z), observed=y)
    post = bk.infer(model, draws=200, random_seed=1, progressbar=False)

    def likelihood(rate: float) -> float:
        of_state = stats.poisson.pmf(y, rate * np.array([[1.0], [3.0]])) * np.array([[0.7], [0.3]])
        known = np.where(covariate.data == 1, of_state[1], of_state[0])
        return float(np.prod(np.where(missing, of_state.sum(axis=0), known)) * 1e20)

    expected = integrate.quad(lambda r: likelihood(r) * stats.gamma.pdf(r, 2), 0, 20, epsabs=0, epsrel=1e-11)[0]
    assert abs(float(post.log_evidence) - np.log(expected) + 20 * np.log(10)) < post.log_evidence.error + 1e-9
    draws = post.tree["posterior"]["z_unobserved"].to_numpy().reshape(200, 15)
    high = y[missing] >= 5
    assert draws[:, high].mean() > draws[:, ~high].mean()
