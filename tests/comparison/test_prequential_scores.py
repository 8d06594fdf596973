"""Evidence as data arrive, against closed forms of each prefix and of each forecast."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.comparison.evidence_of_subsets import SubsetEvidence
from bayeskit.comparison.posteriors_of_subsets import NoSubsetAnswer
from bayeskit.comparison.prequential_scores import Sequential, sequential
from bayeskit.comparison.reasons import without_other_methods
from bayeskit.errors import CertificateError, InferenceError, ModelError, OptionError

Y = np.random.default_rng(2).normal(0.5, 1.0, size=12)


def normal(prior_sd: float, name: str = "y", y: np.ndarray = Y) -> pm.Model:
    with pm.Model() as model:
        pm.Normal(name, pm.Normal("mu", 0.0, prior_sd), 1.0, observed=y)
    return model


def evidence(y: np.ndarray, prior_sd: float) -> float:
    return float(stats.multivariate_normal(cov=np.eye(len(y)) + prior_sd**2).logpdf(y)) if len(y) else 0.0


@pytest.fixture(scope="module")
def arrived() -> Sequential:
    return sequential({"narrow": normal(0.3), "wide": normal(5.0)}, random_seed=1)


def test_each_prefix_has_its_evidence_and_bayes_factor(arrived: Sequential) -> None:
    table = arrived.table.set_index(["observations", "model"])
    for n in range(13):
        narrow, wide = evidence(Y[:n], 0.3), evidence(Y[:n], 5.0)
        assert abs(table.loc[(n, "narrow"), "log_evidence"] - narrow) < 1e-10
        assert abs(table.loc[(n, "wide"), "log_bayes_factor"] - (wide - narrow)) < 1e-10
        share = table.loc[(n, "wide"), "posterior_probability"]
        assert abs(share - 1 / (1 + np.exp(narrow - wide))) < 1e-10
    assert (table["label"] == "exact").all()
    assert (table["error"] < 1e-10).all()


def test_scores_are_those_of_the_forecasts(arrived: Sequential) -> None:
    precision, total = 1 / 0.3**2, 0.0
    for n, y in enumerate(Y):
        forecast = stats.norm(total / precision, np.sqrt(1 + 1 / precision))
        assert abs(arrived.log_scores["narrow"].iloc[n] - forecast.logpdf(y)) < 1e-10
        precision, total = precision + 1, total + y
    assert list(arrived.log_scores.columns) == ["narrow", "wide"]
    assert "12 observations (entry) in 12 blocks" in str(arrived)


def test_blocks_and_order() -> None:
    order = np.random.default_rng(3).permutation(12).tolist()
    found = sequential(normal(2.0), blocks=[1, 4, 7], order=order).table
    assert found["observations"].tolist() == [0, 1, 5, 12]
    for n, value in zip(found["observations"], found["log_evidence"], strict=True):
        assert abs(value - evidence(Y[order][:n], 2.0)) < 1e-10
    assert sequential(normal(2.0), blocks=5).table["observations"].tolist() == [0, 3, 6, 8, 10, 12]
    assert (found["posterior_probability"] == 1.0).all()
    more = sequential(normal(2.0), blocks=13)
    assert list(more.table["observations"]) == list(range(13))
    assert "12 observations make 12 blocks, where 13 were asked for" in more.notes


@pytest.mark.parametrize(
    "wrong",
    [
        {"blocks": [1, 2]},
        {"blocks": [0, 12]},
        {"order": [0, 1]},
        {"order": [0] * 12},
        {"observations": "row"},
        {"order": np.array("abc")},
        {"blocks": np.array([0.5, 11.5])},
    ],
)
def test_wrong_blocks_orders_and_units(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        sequential(normal(1.0), **wrong)  # type: ignore[arg-type]


def test_what_cannot_be_paired_or_has_no_evidence() -> None:
    with pm.Model() as improper:
        pm.Normal("y", pm.Flat("mu"), 1.0, observed=Y)
    with pytest.raises(ModelError, match="improper"):
        sequential(improper)
    with pytest.raises(ModelError, match="do not explain the same data"):
        sequential([normal(1.0), normal(1.0, y=Y[:-1])])
    with pm.Model() as rows:
        pm.MvNormal("y", pm.Normal("mu", shape=2), np.eye(2), observed=Y.reshape(6, 2))
    with pm.Model() as entries:
        pm.Normal("y", pm.Normal("mu", shape=2), 1.0, observed=Y.reshape(6, 2))
    with pytest.raises(ModelError, match=r"6 observations \(entry\) in model 1, 12"):
        sequential([rows, entries])
    with pytest.raises(ModelError, match="there are no models"):
        sequential([])


def test_quadrature_and_what_the_public_name_is() -> None:
    with pm.Model() as model:
        pm.Normal("y", 0.0, pm.HalfNormal("sigma", 2.0), observed=Y[:3])
    table = bk.sequential(model).table
    assert (table["label"] == "quadrature").all()
    sigma = np.linspace(1e-4, 30.0, 300_001)
    for n in (1, 2, 3):
        density = np.exp(stats.norm(0, sigma[:, None]).logpdf(Y[:n]).sum(axis=1)) * stats.halfnorm(scale=2).pdf(sigma)
        by_sum = np.log(np.trapezoid(density, sigma))
        assert abs(table["log_evidence"].iloc[n] - by_sum) < 1e-7 + table["error"].iloc[n]


def regression(n: int) -> tuple[pm.Model, Callable[[float], float]]:
    """Two coefficients, and their rows' log density given the log of the noise sd, prior and Jacobian included."""
    x = np.array([0.3, -1.1, 0.8, 2.0])
    with pm.Model() as model:
        mean = pm.Normal("a", 0.0, 10.0) + pm.Normal("b", 0.0, 3.0) * x
        pm.Normal("y", mean, pm.HalfNormal("sigma", 2.0), observed=Y[: len(x)])

    def log_density(u: float) -> float:
        covariance = np.exp(2 * u) * np.eye(n) + 100.0 + 9.0 * np.outer(x[:n], x[:n])
        if n > 2 and u < -8.0:  # more rows than coefficients do not lie on a line
            return -np.inf
        square, log_determinant = Y[:n] @ np.linalg.solve(covariance, Y[:n]), np.linalg.slogdet(covariance)[1]
        likelihood = -0.5 * (square + log_determinant + n * np.log(2 * np.pi))
        return float(likelihood + stats.halfnorm.logpdf(np.exp(u), scale=2.0) + u)

    return model, log_density


def rates(n: int) -> tuple[pm.Model, Callable[[float], float]]:
    """Rates of which those without a count have a Gamma of rate e⁻¹⁰⁰ where b has its lower tail."""
    counts = np.array([2, 5])
    with pm.Model() as model:
        rate = pm.Gamma("rate", 0.2, pm.Gamma("b", 0.1, 1.0), shape=2)
        pm.Poisson("count", 1.5 * rate, observed=counts)

    def log_density(u: float) -> float:
        b = np.exp(u)
        likelihood = stats.nbinom.logpmf(counts[:n], 0.2, b / (b + 1.5)).sum()
        return float(likelihood + stats.gamma.logpdf(b, 0.1) + u)

    return model, log_density


@pytest.mark.slow
@pytest.mark.parametrize(("build", "low"), [(regression, -18.0), (rates, -200.0)])
def test_the_first_observations_leave_parameters_uninformed(build: Any, low: float) -> None:
    table = bk.sequential(build(1)[0]).table
    for n in table["observations"][1:]:
        log_density = build(n)[1]
        parts = [low, low / 2, -8.0, -4.0, -2.0, 0.0, 2.0, 5.0]
        whole = sum(
            integrate.quad(lambda u, f=log_density: np.exp(f(u)), a, b, epsabs=0, epsrel=1e-10)[0]
            for a, b in pairwise(parts)
        )
        row = table.iloc[n]
        assert row["label"] == "quadrature"
        assert abs(row["log_evidence"] - np.log(whole)) < 3e-8 + row["error"]


SIDE = np.array([-0.5, 0.5, -0.5, 0.5, 0.5, -0.5])
SHARED = ("mu", "sigma2")


def two_means(y: np.ndarray, ratio: float) -> pm.Model:
    """A flat mean and a variance of density 1/σ²; the effect is Normal, with an sd of a multiple of σ."""
    with pm.Model() as model:
        sigma2 = pm.HalfFlat("sigma2")
        pm.Potential("jeffreys", -pt.log(sigma2))
        mean = pm.Flat("mu")
        if ratio:
            mean += SIDE[: len(y)] * pm.Normal("effect", 0.0, ratio * pt.sqrt(sigma2))
        pm.Normal("y", mean, pt.sqrt(sigma2), observed=y)
    return model


def up_to_a_constant(rows: np.ndarray, ratio: float) -> float:
    """The Normal with covariance σ² V, its mean and log σ² integrated out."""
    v, y, one = np.eye(len(rows)) + ratio**2 * np.outer(SIDE[rows], SIDE[rows]), Y[rows], np.ones(len(rows))
    free = (len(rows) - 1) / 2
    precision = one @ np.linalg.solve(v, one)
    rest = y @ np.linalg.solve(v, y) - (one @ np.linalg.solve(v, y)) ** 2 / precision
    density = special.gammaln(free) - free * (np.log(2 * np.pi) + np.log(rest / 2))
    return float(density - 0.5 * (np.linalg.slogdet(v)[1] + np.log(precision)))


@pytest.fixture(scope="module")
def compared() -> bk.Comparison:
    models = {"same": two_means(Y[:6], 0.0), "apart": two_means(Y[:6], 1.5)}
    return bk.compare(models, shared=SHARED, prior_odds={"apart": 3.0}, loo=False, random_seed=1)


def test_shared_priors_have_numbers_from_the_first_proper_posterior_on(compared: bk.Comparison) -> None:
    found = sequential(compared)
    table = found.table.set_index(["observations", "model"])
    assert (table["label"] == "exact").all()
    for n in (0, 1):
        numbers = table.loc[n][["log_evidence", "log_score", "log_bayes_factor", "posterior_probability"]]
        assert numbers.isna().all(axis=None)
        assert np.isinf(table.loc[n]["error"]).all()
    assert np.isnan(table.loc[(2, "apart"), "log_score"])
    for n in range(2, 7):
        same, apart = (up_to_a_constant(np.arange(n), ratio) for ratio in (0.0, 1.5))
        assert abs(table.loc[(n, "apart"), "log_bayes_factor"] - (apart - same)) < 1e-10
        assert abs(table.loc[(n, "apart"), "log_evidence"] - apart) < 1e-10
        assert abs(table.loc[(n, "apart"), "posterior_probability"] - special.expit(apart - same + np.log(3))) < 1e-10
        if n > 2:
            score = apart - up_to_a_constant(np.arange(n - 1), 1.5)
            assert abs(table.loc[(n, "apart"), "log_score"] - score) < 1e-10
    assert any("same: no number after 0 observations: the prior of mu, sigma2 is improper" in n for n in found.notes)
    assert any("apart: no number after 1 observations: the posterior of" in note for note in found.notes)
    assert any("every log evidence is up to an arbitrary constant" in note for note in found.notes)


@pytest.mark.slow
def test_shared_priors_are_declared_or_come_with_the_posteriors(compared: bk.Comparison) -> None:
    models = {"same": two_means(Y[:6], 0.0), "apart": two_means(Y[:6], 1.5)}
    declared = sequential(models, shared=SHARED, blocks=[4, 2]).table["log_evidence"]
    carried = sequential(dict(compared.posteriors), blocks=[4, 2]).table["log_evidence"]
    assert np.array_equal(declared, carried, equal_nan=True)
    alone = sequential(models["apart"], shared=SHARED, blocks=[4, 2]).table
    score = up_to_a_constant(np.arange(6), 1.5) - up_to_a_constant(np.arange(4), 1.5)
    assert abs(alone["log_score"].iloc[-1] - score) < 1e-10
    with pytest.raises(ModelError, match=r"declare it: shared=\('mu',\)|Potential"):
        sequential(models)
    with pytest.raises(ModelError, match="Potential"):  # one of them was inferred without
        sequential({"same": models["same"], "apart": compared.posteriors["apart"]})
    with pytest.raises(OptionError, match=r"a sequence of text, as in \('mu',\)"):
        sequential(models, shared="mu")


@pytest.mark.slow
def test_a_t_test_as_its_data_arrive() -> None:
    """Against the integral of Rouder et al. (2009): Student's sleep data, the first of the patients."""
    gain = np.array([-1.2, -2.4])
    with pm.Model() as none:
        sigma2 = pm.HalfFlat("sigma2")
        pm.Potential("jeffreys", -pt.log(sigma2))
        pm.Normal("y", 0.0, pt.sqrt(sigma2), observed=gain)
    with pm.Model() as some:
        sigma2 = pm.HalfFlat("sigma2")
        pm.Potential("jeffreys", -pt.log(sigma2))
        g = pm.InverseGamma("g", 0.5, 0.25)
        pm.Normal("y", pm.Normal("effect", 0.0, pt.sqrt(g * sigma2)), pt.sqrt(sigma2), observed=gain)
    table = sequential({"none": none, "some": some}, shared=("sigma2",)).table
    table = table.set_index(["observations", "model"])
    # One difference is as likely under both: g changes the scale of σ², of which no value is likelier than another.
    first = table.loc[(1, "some")]
    assert abs(first["log_evidence"] + np.log(1.2)) < 1e-9 + first["error"] < 1e-7
    n, t2 = 2, 2 * gain.mean() ** 2 / gain.var(ddof=1)

    def density(u: float) -> float:
        wide = 1 + n * np.exp(u)
        likelihood = wide**-0.5 * (1 + t2 / (wide * (n - 1))) ** (-n / 2)
        return float(likelihood * stats.invgamma.pdf(np.exp(u), 0.5, scale=0.25) * np.exp(u))

    whole = integrate.quad(density, -20, 60, epsabs=0, epsrel=1e-11, limit=500)[0]
    by_formula = np.log(whole) + n / 2 * np.log1p(t2 / (n - 1))
    found = table.loc[(n, "some")]
    assert abs(found["log_bayes_factor"] - by_formula) < 1e-9 + found["log_bayes_factor_error"]
    assert found["label"] == "quadrature"


def test_where_some_observations_leave_no_number_the_others_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    given = SubsetEvidence.given

    def none_of_seven(self: SubsetEvidence, kept: np.ndarray, *rest: object) -> bk.Posterior:
        if kept.sum() == 7 and self.name == "narrow":
            raise NoSubsetAnswer("narrow: given 7 of 12 observations", "the bound is not met")
        return given(self, kept, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(SubsetEvidence, "given", none_of_seven)
    found = sequential({"narrow": normal(0.3), "wide": normal(5.0)}, blocks=[6, 1, 1, 4])
    table = found.table.set_index(["observations", "model"])
    assert table.loc[7][["log_bayes_factor", "posterior_probability"]].isna().all(axis=None)
    assert np.isnan(table.loc[(7, "narrow"), "log_evidence"])
    assert abs(table.loc[(7, "wide"), "log_evidence"] - evidence(Y[:7], 5.0)) < 1e-10
    for n in (6, 8, 12):
        assert abs(table.loc[(n, "narrow"), "log_evidence"] - evidence(Y[:n], 0.3)) < 1e-10
    assert table.loc[8]["log_score"].isna().tolist() == [True, False]
    assert found.notes == (
        "narrow: no number after 7 observations: the bound is not met; a model of these observations alone may have "
        "one, by bayeskit.infer",
    )


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("no answer by quadrature: too wide; use method='nuts'", "no answer by quadrature: too wide"),
        ("not proved; use method='nuts', and please report the model; use method='nuts'", "not proved"),
        ("no answer; try another method= (one of 'auto', 'nuts'), and please report the model", "no answer"),
        ("the posterior is improper; rescale the data", "the posterior is improper; rescale the data"),
    ],
)
def test_advice_names_no_argument_that_is_not_there(said: str, left: str) -> None:
    assert without_other_methods(InferenceError(said)) == left
    assert without_other_methods(CertificateError(said)) == left
