"""A subset of the observations has the evidence of a model of that subset alone, written here by its closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pymc as pm
import pymc_extras as pmx
import pytensor.tensor as pt
import pytest
from scipy import special, stats

import bayeskit as bk
from bayeskit.comparison.evidence_of_subsets import SubsetEvidence
from bayeskit.errors import ModelError, OptionError
from bayeskit.model.observations import observations_of
from bayeskit.model.separate_observations import require_separate
from bayeskit.model.weighted_likelihood import weighted_likelihood

RNG = np.random.default_rng(5)
COUNTS, TRIALS = np.array([2, 0, 5, 3, 1]), np.array([9, 4, 7, 5, 6])
ROWS = RNG.multinomial(6, [0.2, 0.3, 0.5], size=5)
REAL = RNG.normal(size=6)
PAIRS = RNG.normal(size=(5, 2))
NOISE = np.array([[1.0, 0.4], [0.4, 2.0]])
PLACES = np.linspace(0.0, 2.0, 6)
SIGNAL = np.exp(-0.5 * (PLACES[:, None] - PLACES) ** 2) + 0.3 * np.eye(6)
STATES = np.array([[0.9, 0.1], [0.3, 0.7]])

type Oracle = Callable[[np.ndarray], float]


def normal(mean: np.ndarray, covariance: np.ndarray) -> Oracle:
    return lambda at: float(stats.multivariate_normal(mean[at], covariance[np.ix_(at, at)]).logpdf(REAL[at]))


def poisson() -> tuple[pm.Model, Oracle]:
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("rate", 2.0, 1.5), observed=COUNTS)

    def oracle(at: np.ndarray) -> float:
        y = COUNTS[at]
        power = special.gammaln(2.0 + y.sum()) - (2.0 + y.sum()) * np.log(1.5 + len(y))
        return float(2.0 * np.log(1.5) + power - special.gammaln(y + 1).sum())

    return model, oracle


def binomial() -> tuple[pm.Model, Oracle]:
    with pm.Model() as model:
        pm.Binomial("y", TRIALS, pm.Beta("p", 2.0, 3.0), observed=COUNTS)

    def oracle(at: np.ndarray) -> float:
        y, n = COUNTS[at], TRIALS[at]
        ways = -np.log(n + 1) - special.betaln(n - y + 1, y + 1)
        return float(ways.sum() + special.betaln(2.0 + y.sum(), 3.0 + (n - y).sum()) - special.betaln(2.0, 3.0))

    return model, oracle


def multinomial_rows() -> tuple[pm.Model, Oracle]:
    with pm.Model() as model:
        pm.Multinomial("y", 6, pm.Dirichlet("p", [1.0, 2.0, 3.0]), observed=ROWS)

    def oracle(at: np.ndarray) -> float:
        prior, y = np.array([1.0, 2.0, 3.0]), ROWS[at]
        ways = len(y) * special.gammaln(7) - special.gammaln(y + 1).sum()
        both = [special.gammaln(a).sum() - special.gammaln(a.sum()) for a in (prior + y.sum(axis=0), prior)]
        return float(ways + both[0] - both[1])

    return model, oracle


def dirichlet_multinomial_rows() -> tuple[pm.Model, Oracle]:
    with pm.Model() as model:
        weight = pm.Categorical("k", [0.3, 0.7])
        pm.DirichletMultinomial("y", 6, pt.as_tensor([1.0, 4.0])[weight] * np.ones(3), observed=ROWS)

    def oracle(at: np.ndarray) -> float:
        terms = [stats.dirichlet_multinomial(a * np.ones(3), 6).logpmf(ROWS[at]).sum() for a in (1.0, 4.0)]
        return float(special.logsumexp(terms, b=[0.3, 0.7]))

    return model, oracle


def normal_rows() -> tuple[pm.Model, Oracle]:
    with pm.Model() as model:
        pm.MvNormal("y", pm.Normal("mean", 0.0, 1.0, shape=2), NOISE, observed=PAIRS)

    def oracle(at: np.ndarray) -> float:
        covariance = np.kron(np.eye(len(at)), NOISE) + np.kron(np.ones((len(at), len(at))), np.eye(2))
        return float(stats.multivariate_normal(cov=covariance).logpdf(PAIRS[at].ravel()))

    return model, oracle


def unknown_precision() -> tuple[pm.Model, Oracle]:
    with pm.Model() as model:
        pm.MvNormal("y", np.zeros(2), tau=pm.Wishart("precision", nu=4, V=np.eye(2)), observed=PAIRS)

    def oracle(at: np.ndarray) -> float:
        n, y = len(at), PAIRS[at]
        gamma = special.multigammaln((4 + n) / 2, 2) - special.multigammaln(2.0, 2)
        return float(gamma - n * np.log(np.pi) - (4 + n) / 2 * np.linalg.slogdet(np.eye(2) + y.T @ y)[1])

    return model, oracle


def joint_normal() -> tuple[pm.Model, Oracle]:
    with pm.Model() as model:
        pm.MvNormal("y", pm.Normal("level", 1.0, 2.0) * np.ones(6), SIGNAL, observed=REAL)
    return model, normal(np.ones(6), SIGNAL + 4.0)


def some_missing() -> tuple[pm.Model, Oracle]:
    whole = np.ma.masked_invalid(np.insert(REAL, [1, 4], np.nan))
    with pm.Model() as model, pytest.warns(UserWarning, match="imput"):
        pm.Normal("y", pm.Normal("level", 1.0, 2.0), 1.0, observed=whole)
    return model, normal(np.ones(6), np.eye(6) + 4.0)


def two_variables_of_one_row() -> tuple[pm.Model, Oracle]:
    with pm.Model(coords={"row": list("abcde")}) as model:
        level = pm.Normal("level", 0.0, 1.0)
        pm.Normal("u", level, 1.0, observed=PAIRS[:, 0], dims="row")
        pm.Normal("v", 2.0 * level, 1.0, observed=PAIRS[:, 1], dims="row")

    def oracle(at: np.ndarray) -> float:
        slope = np.tile([1.0, 2.0], len(at))
        return float(
            stats.multivariate_normal(cov=np.eye(slope.size) + np.outer(slope, slope)).logpdf(PAIRS[at].ravel())
        )

    return model, oracle


def labels_and_features() -> tuple[pm.Model, Oracle]:
    label = np.array([0, 1, 1, 0, 1])
    with pm.Model(coords={"row": range(5)}) as model:
        z = pm.Bernoulli("label", pm.Beta("p", 1.0, 1.0), observed=label, dims="row")
        pm.Normal("x", pm.Normal("mean", 0.0, 2.0, shape=2)[z], 1.0, observed=REAL[:5], dims="row")

    def oracle(at: np.ndarray) -> float:
        c = label[at]
        same = (c[:, None] == c) * 4.0 + np.eye(len(at))
        return float(
            special.betaln(1 + c.sum(), 1 + (1 - c).sum()) + stats.multivariate_normal(cov=same).logpdf(REAL[at])
        )

    return model, oracle


def hidden_chain() -> tuple[pm.Model, Oracle]:
    with pm.Model() as model:
        first = pm.Categorical.dist([0.4, 0.6])
        z = pmx.DiscreteMarkovChain("z", P=STATES, init_dist=first, shape=(6,))
        pm.Normal("y", pt.as_tensor([-1.0, 1.5])[z], 1.0, observed=REAL)

    def oracle(at: np.ndarray) -> float:
        paths = np.array(list(product((0, 1), repeat=6)))
        prior = np.array([0.4, 0.6])[paths[:, 0]] * STATES[paths[:, :-1], paths[:, 1:]].prod(axis=1)
        emitted = stats.norm(np.array([-1.0, 1.5])[paths[:, at]], 1.0).logpdf(REAL[at]).sum(axis=1)
        return float(special.logsumexp(emitted, b=prior))

    return model, oracle


MODELS = [
    poisson,
    binomial,
    multinomial_rows,
    dirichlet_multinomial_rows,
    normal_rows,
    unknown_precision,
    joint_normal,
    some_missing,
    two_variables_of_one_row,
    labels_and_features,
    hidden_chain,
]


@pytest.mark.slow
@pytest.mark.parametrize("build", MODELS, ids=lambda f: f.__name__)
def test_evidence_of_a_subset(build: Callable[[], tuple[pm.Model, Oracle]]) -> None:
    model, oracle = build()
    evidence = SubsetEvidence("m", bk.infer(model, draws=4, random_seed=1), None, 1)
    number = len(evidence)
    for kept in ([0], [1, 3], list(range(number - 1)), list(range(1, number)), list(range(number))):
        mask = np.isin(np.arange(number), kept)
        found = evidence(mask)
        assert abs(found.value - oracle(np.array(kept))) < 1e-9 + found.error
        assert "Potential" not in str(found)
    assert evidence(np.zeros(number, dtype=bool)).value == 0.0


def unit_of(model: pm.Model, unit: str | None = None) -> tuple[str, Sequence[object]]:
    found = observations_of(model, weighted_likelihood(model).shapes, unit)
    return found.unit, found.labels


def test_what_an_observation_is() -> None:
    two, _ = two_variables_of_one_row()
    assert unit_of(two) == ("row", tuple("abcde"))
    assert unit_of(two, "entry")[1][4:6] == ("u[e]", "v[a]")
    assert unit_of(normal_rows()[0]) == ("entry", (0, 1, 2, 3, 4))
    with pm.Model(coords={"who": ["x", "y"], "when": range(3)}) as table:
        pm.Normal("y", pm.Normal("m", shape=2)[:, None], 1.0, observed=REAL.reshape(2, 3), dims=("who", "when"))
    assert unit_of(table)[1][:2] == ("y[x, 0]", "y[x, 1]")
    assert unit_of(table, "who") == ("who", ("x", "y"))
    with pytest.raises(OptionError, match=r"'shoe', which counts no rows of 'y'; .*'entry'"):
        unit_of(table, "shoe")


def autoregression(**options: Any) -> pm.Model:
    with pm.Model() as model:
        pm.AR("y", [pm.Normal("rho", 0.0, 0.5)], 0.8, observed=REAL, **options)
    return model


@pytest.mark.slow
def test_the_first_values_of_a_time_series_are_a_subset() -> None:
    with pm.Model() as walk:
        start = pm.Normal.dist(0.0, 2.0)
        pm.GaussianRandomWalk("y", pm.Normal("drift", 0.0, 1.0), 0.5, init_dist=start, observed=REAL)
    with pm.Model() as second_order:
        slopes = pm.Normal("slopes", 0.0, 0.5, shape=3)
        pm.AR("y", slopes, 0.8, init_dist=pm.Normal.dist(0.0, 2.0), constant=True, observed=REAL)
    lagged = np.column_stack([np.ones(4), REAL[1:-1], REAL[:-2]])
    for model, lags, after, covariance in (
        (walk, 1, np.diff(REAL), 0.25 * np.eye(5) + 1.0),
        (autoregression(init_dist=pm.Normal.dist(0.0, 2.0)), 1, REAL[1:], regressed(REAL[:-1, None])),
        (second_order, 2, REAL[2:], regressed(lagged)),
    ):
        evidence = SubsetEvidence("m", bk.infer(model, draws=4, random_seed=1), None, 1)
        for n in range(1, 7):
            later = after[: max(n - lags, 0)]
            value = stats.norm(0.0, 2.0).logpdf(REAL[: min(n, lags)]).sum()
            if later.size:
                value += stats.multivariate_normal(cov=covariance[: later.size, : later.size]).logpdf(later)
            assert abs(evidence(np.arange(6) < n).value - value) < 1e-9
        with pytest.raises(ModelError, match="an observation of 'y' depends on those before it"):
            evidence(np.arange(6) != 2)


def regressed(columns: np.ndarray) -> np.ndarray:
    return 0.64 * np.eye(len(columns)) + 0.25 * columns @ columns.T


def test_one_density_over_all_entries_is_refused() -> None:
    start = pm.MvNormal.dist(np.zeros(1), np.eye(1))
    with pytest.raises(ModelError, match=r"y \(AutoRegressive\) has one density"):
        unit_of(autoregression(init_dist=start))


def test_rows_that_are_missing_in_part_are_refused() -> None:
    holes = np.ma.masked_array(PAIRS, np.arange(10).reshape(5, 2) == 3)
    with pm.Model() as model, pytest.warns(UserWarning, match="imput"):
        pm.MvNormal("y", pm.Normal("mean", shape=2), NOISE, observed=holes)
    with pytest.raises(ModelError, match="rows of which some entries are missing"):
        weighted_likelihood(model)


def separate(model: pm.Model, unit: str | None = None) -> None:
    require_separate(model, observations_of(model, weighted_likelihood(model).shapes, unit))


def test_an_observation_in_the_density_of_another_is_refused() -> None:
    def lagged(value: pt.TensorVariable, rho: pt.TensorVariable) -> pt.TensorVariable:
        before = pt.concatenate([pt.zeros(1), value[:-1]])
        return pm.logp(pm.Normal.dist(rho * before, 1.0), value)

    with pm.Model() as chain:
        pm.CustomDist("y", pm.Normal("rho", 0.0, 0.5), logp=lagged, observed=REAL)
    with pytest.raises(ModelError, match="an observation of 'y' depends on values of another"):
        separate(chain)
    with pm.Model() as own:
        pm.CustomDist("y", pm.Normal("m"), logp=lambda v, m: -((v - m) ** 2), observed=REAL)
    separate(own)
    labelled, _ = labels_and_features()
    separate(labelled)
    with pytest.raises(ModelError, match="an observation of 'x' depends on values of another"):
        separate(labelled, "entry")
    with pm.Model(coords={"row": range(6)}) as backwards:
        u = pm.Normal("u", pm.Normal("m"), 1.0, observed=REAL, dims="row")
        pm.Normal("v", u[::-1], 1.0, observed=REAL, dims="row")
    with pytest.raises(ModelError, match="an observation of 'v' depends on values of another"):
        separate(backwards)
