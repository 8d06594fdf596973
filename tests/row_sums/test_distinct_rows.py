"""Sums over distinct rows: the same log density, of as many numbers as differ; none where rows are all different."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.transforms import Natural
from bayeskit.row_sums.distinct_rows import over_distinct_rows

N = 2_000
RNG = np.random.default_rng(7)
GROUP = RNG.integers(0, 12, N)
COUNTS = RNG.poisson(3.0, N)
TRIALS = RNG.integers(1, 8, N)
SUCCESSES = RNG.binomial(TRIALS, 0.3)
FLAGS = RNG.integers(0, 2, (N, 4)).astype(float)
EXPOSURE = RNG.uniform(0.5, 2.0, N)


def counts_by_group() -> None:
    pm.Poisson("y", pm.Gamma("rate", 2.0, 1.0, shape=12)[GROUP], observed=COUNTS)


def counts_by_group_with_exposure() -> None:
    pm.Poisson("y", EXPOSURE * pm.Gamma("rate", 2.0, 1.0, shape=12)[GROUP], observed=COUNTS)


def successes() -> None:
    pm.BetaBinomial("y", pm.Gamma("a", 2, 1), pm.Gamma("b", 2, 1), TRIALS, observed=SUCCESSES)


def overdispersed_counts() -> None:
    mu = pt.exp(pm.Normal("level") + pm.Normal("effect", shape=12)[GROUP])
    pm.NegativeBinomial("y", mu=mu, alpha=pm.Gamma("alpha", 2, 1), observed=COUNTS)


def counts_with_more_zeros() -> None:
    pm.ZeroInflatedPoisson("y", pm.Beta("psi", 1, 1), pm.Gamma("mu", 2, 1), observed=COUNTS * (GROUP < 6))


def answers_to_flags() -> None:
    logit = pm.Normal("a") + FLAGS @ pm.Normal("w", shape=4)
    pm.Bernoulli("y", logit_p=logit, observed=SUCCESSES > 0)


def real_numbers_about_a_curve() -> None:
    """A Normal likelihood is a sum of squares, however many numbers there are."""
    mean = pt.exp(pm.Normal("a")) + pm.Laplace("b", 0.0, 1.0) * EXPOSURE
    pm.Normal("y", mean, pm.HalfNormal("sd"), observed=1.0 + EXPOSURE)


def ordered_answers() -> None:
    cut = pm.Normal("cut", shape=2, transform=pm.distributions.transforms.ordered, initval=[-1.0, 1.0])
    pm.OrderedLogistic("y", FLAGS @ pm.Normal("w", shape=4), cut, observed=np.minimum(COUNTS, 2))


def counts_that_are_cut_off() -> None:
    pm.Truncated("y", pm.Poisson.dist(pm.Gamma("mu", 2, 1)), lower=1, observed=np.maximum(COUNTS, 1))


def two_kinds_of_counts() -> None:
    rates = pm.Gamma("rate", 2, 1, shape=2)
    pm.Mixture("y", pm.Dirichlet("w", np.ones(2)), pm.Poisson.dist(rates), observed=COUNTS)


RECUR = [
    counts_by_group,
    counts_by_group_with_exposure,
    successes,
    overdispersed_counts,
    counts_with_more_zeros,
    answers_to_flags,
    real_numbers_about_a_curve,
    ordered_answers,
    counts_that_are_cut_off,
    two_kinds_of_counts,
]


def written(write: Callable[[], Any]) -> tuple[LogJoint, Any]:
    with pm.Model() as model:
        write()
    joint = LogJoint.from_model(model)
    return joint, pt.sum(joint.factors["y"])


def shorter(joint: LogJoint, graph: Any) -> Any:
    shapes = joint.shapes()
    return over_distinct_rows(graph, {v: shapes[n] for n, v in joint.values.items()})


def points(joint: LogJoint) -> list[list[np.ndarray]]:
    natural, rng = Natural(joint.model, list(joint.values)), np.random.default_rng(1)
    several = [natural.at(natural.start + rng.normal(size=natural.size)) for _ in range(4)]
    return [joint.arguments(point) for point in several]


def largest(graph: Any) -> int:
    return max(int(np.size(v.data)) for v in ancestors([graph]) if isinstance(v, Constant))


@pytest.mark.parametrize("write", RECUR, ids=lambda f: f.__name__)
def test_it_is_the_same_density_of_fewer_numbers(write: Callable[[], None]) -> None:
    joint, graph = written(write)
    found = shorter(joint, graph)
    assert found is not None
    assert 4 * largest(found) <= N
    both = pytensor.function(list(joint.values.values()), [found, graph], mode="FAST_COMPILE", on_unused_input="ignore")
    for arguments in points(joint):
        one, other = both(*arguments)
        assert one == pytest.approx(other, rel=1e-12)


@pytest.mark.parametrize("write", RECUR[:5], ids=lambda f: f.__name__)
def test_its_gradient_is_the_same(write: Callable[[], None]) -> None:
    joint, graph = written(write)
    inputs = list(joint.values.values())
    gradients = [pytensor.grad(g, inputs) for g in (shorter(joint, graph), graph)]
    both = pytensor.function(inputs, [*gradients[0], *gradients[1]], mode="FAST_COMPILE")
    for arguments in points(joint):
        found = both(*arguments)
        for one, other in zip(found[: len(inputs)], found[len(inputs) :], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-9)


def test_outside_a_condition_there_is_no_density() -> None:
    x, n = pt.dvector("x"), 3 * N
    k = np.arange(n) % 5
    value = pt.switch(pt.all(pt.gt(x[k] - k, 0.0)), pt.sum(pt.log(x[k] - k)) - 2.0 * pt.sum(x[k]), -np.inf)
    found = over_distinct_rows(value, {x: (5,)})
    assert found is not None
    function = pytensor.function([x], found, mode="FAST_COMPILE")
    inside = np.arange(5) + 0.5
    assert function(inside) == pytest.approx(n * np.log(0.5) - 2 * np.sum(inside[k]), rel=1e-13)
    assert function(inside - 0.75) == -np.inf


def rows_that_are_all_different() -> None:
    pm.Poisson("y", pt.exp(pm.Normal("a") + pm.Normal("b") * EXPOSURE), observed=COUNTS)


def a_latent_number_for_each_row() -> None:
    pm.Binomial("y", TRIALS, pm.Beta("p", 1, 1, shape=N), observed=SUCCESSES)


def a_chain() -> None:
    pm.AR("y", rho=pm.Normal("rho", shape=1), sigma=1.0, init_dist=pm.Normal.dist(), observed=EXPOSURE)


def few_rows() -> None:
    pm.Poisson("y", pm.Gamma("mu", 2, 1), observed=COUNTS[:900])


@pytest.mark.parametrize(
    "write", [rows_that_are_all_different, a_latent_number_for_each_row, a_chain, few_rows], ids=lambda f: f.__name__
)
def test_what_has_no_fewer_numbers_is_left_as_it_is(write: Callable[[], None]) -> None:
    assert shorter(*written(write)) is None


def test_data_that_are_not_allowed_are_left_to_say_so() -> None:
    x = pt.dscalar("x")
    impossible = pt.sum(pm.logp(pm.Poisson.dist(x), np.where(np.arange(N) == 7, -1, COUNTS)))
    found = over_distinct_rows(impossible, {x: ()})
    function = pytensor.function([x], impossible if found is None else found, mode="FAST_COMPILE")
    assert function(2.0) == -np.inf


@pytest.mark.parametrize("rows", [4_000, 40_000])
def test_the_evidence_of_counts_in_groups(rows: int) -> None:
    """Against the sums of each group, whose rates SciPy's formulas integrate out, on a grid of both hyperparameters."""
    rng = np.random.default_rng(rows)
    group = rng.integers(0, 40, rows)
    y = rng.poisson(rng.gamma(3.0, 1.0, 40)[group])
    with pm.Model() as model:
        shape, rate = pm.Exponential("shape", 1.0), pm.Exponential("rate", 1.0)
        pm.Poisson("y", pm.Gamma("rates", shape, rate, shape=40)[group], observed=y)
    total, number = np.bincount(group, y, 40), np.bincount(group, minlength=40)

    def log_density(a: Any, b: Any) -> Any:
        terms = special.gammaln(a + total) - special.gammaln(a) + a * np.log(b) - (a + total) * np.log(b + number)
        return terms.sum(-1) - special.gammaln(y + 1).sum() - a[..., 0] - b[..., 0]

    a, b = np.meshgrid(np.linspace(0.5, 9.0, 400), np.linspace(0.1, 4.0, 400), indexing="ij")
    values = log_density(a[..., None], b[..., None])
    top = values.max()
    truth = top + np.log(integrate.simpson(integrate.simpson(np.exp(values - top), x=b[0]), x=a[:, 0]))
    post = bk.infer(model, draws=200, random_seed=1)
    assert post.method == "quadrature"
    assert abs(post.log_evidence.value - truth) <= post.log_evidence.error + 1e-6
    first = stats.gamma(a.ravel() + total[0], scale=1 / (b.ravel() + number[0]))
    weights = np.exp(values - top).ravel()
    mean = np.sum(weights * first.mean()) / weights.sum()
    assert post.summary().loc["rates[0]", "mean"] == pytest.approx(mean, rel=1e-6)


def test_the_evidence_of_pairs_that_recur_is_that_of_a_beta_binomial() -> None:
    """A probability for each row, integrated out: rows with the same trials and successes are one term."""
    successes = np.random.default_rng(3).binomial(TRIALS, stats.beta(2.0, 5.0).rvs(N, random_state=3))
    with pm.Model() as latent:
        a, b = pm.Exponential("a", 1.0), pm.Exponential("b", 1.0)
        pm.Binomial("y", TRIALS, pm.Beta("p", a, b, shape=N), observed=successes)
    with pm.Model() as summed:
        a, b = pm.Exponential("a", 1.0), pm.Exponential("b", 1.0)
        pm.BetaBinomial("y", a, b, TRIALS, observed=successes)
    x, y = np.meshgrid(np.linspace(0.3, 6.0, 401), np.linspace(0.5, 14.0, 401), indexing="ij")
    pairs, number = np.unique(np.stack([TRIALS, successes]), axis=1, return_counts=True)
    values = -x - y
    for (n, k), times in zip(pairs.T, number, strict=True):
        values += times * (np.log(special.comb(n, k)) + special.betaln(x + k, y + n - k) - special.betaln(x, y))
    top = values.max()
    truth = top + np.log(integrate.simpson(integrate.simpson(np.exp(values - top), x=y[0]), x=x[:, 0]))
    for model in (latent, summed):
        post = bk.infer(model, draws=50, random_seed=1)
        assert post.method == "quadrature"
        assert abs(post.log_evidence.value - truth) <= post.log_evidence.error + 1e-6
