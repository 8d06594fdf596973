"""Models compared by evidence: the numbers against closed forms written here, and what must be refused."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayeskit as bk
from bayeskit import BayeskitError
from bayeskit.comparison.comparison import Comparison
from bayeskit.comparison.evidence_table import compare
from bayeskit.comparison.leave_one_out import leave_one_out, loo_from_draws
from bayeskit.comparison.same_data import observed_values, require_same_data
from bayeskit.errors import InferenceError, ModelError, OptionError

Y = np.array([0.3, -0.8, 1.9, 0.7, 1.2, 0.4])
X = np.array([-1.0, -0.6, -0.2, 0.2, 0.6, 1.0])


def mean_model(prior_sd: float = 2.0, y: np.ndarray = Y, name: str = "y") -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, prior_sd)
        pm.Normal(name, mu, 1.0, observed=y)
    return model


def mean_evidence(prior_sd: float = 2.0, y: np.ndarray = Y) -> float:
    covariance = np.eye(y.size) + prior_sd**2
    return float(stats.multivariate_normal(np.zeros(y.size), covariance).logpdf(y))


def line_model() -> pm.Model:
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0.0, 2.0)
        slope = pm.Normal("slope", 0.0, 1.5)
        pm.Normal("y", intercept + slope * X, 1.0, observed=pm.Data("observations", Y))
    return model


def line_evidence() -> float:
    covariance = np.eye(Y.size) + 4.0 + 2.25 * np.outer(X, X)
    return float(stats.multivariate_normal(np.zeros(Y.size), covariance).logpdf(Y))


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(
        {"mean": mean_model(), "line": line_model(), "wide": mean_model(1e3)},
        prior_odds={"mean": 3.0, "line": 1.0, "wide": 2.0},
        random_seed=1,
    )


def test_evidence_bayes_factors_and_probabilities(comparison: Comparison) -> None:
    expected = {"mean": mean_evidence(), "line": line_evidence(), "wide": mean_evidence(1e3)}
    table = comparison.table
    assert list(table.index) == sorted(expected, key=lambda name: -expected[name])
    for name, value in expected.items():
        assert table.at[name, "log_evidence"] == pytest.approx(value, abs=1e-9)
        assert table.at[name, "label"] == "exact"
        for other in expected:
            assert comparison.log_bayes_factor(name, other) == pytest.approx(value - expected[other], abs=1e-9)
    weights = {"mean": 3.0, "line": 1.0, "wide": 2.0}
    total = sum(weights[name] * math.exp(expected[name]) for name in expected)
    for name, value in expected.items():
        assert table.at[name, "posterior_probability"] == pytest.approx(weights[name] * math.exp(value) / total)
        assert table.at[name, "prior_probability"] == pytest.approx(weights[name] / 6)
    assert table["log_bayes_factor"].max() == 0


def test_loo_is_the_exact_leave_one_out_density(comparison: Comparison) -> None:
    """For a conjugate mean, log p(y_i | the others) is normal with known mean and variance."""
    expected = 0.0
    for i in range(Y.size):
        others = np.delete(Y, i)
        variance = 1 / (1 / 4.0 + others.size)
        expected += stats.norm(variance * others.sum(), np.sqrt(1 + variance)).logpdf(Y[i])
    assert comparison.table.at["mean", "elpd_loo"] == pytest.approx(expected, abs=1e-10)
    assert comparison.table.at["mean", "se_loo"] > 0


def test_words_stand_beside_the_numbers_when_asked(comparison: Comparison) -> None:
    found, table = comparison.words(), comparison.table
    assert list(found.drop(columns="evidence_words")) == list(table)
    assert found["evidence_words"].iloc[0] == ""
    size = 2 * (mean_evidence() - mean_evidence(1e3))
    assert size > 10
    assert found.at["wide", "evidence_words"] == "very strong"
    assert "evidence_words" not in str(comparison)


def test_comparison_is_readable(comparison: Comparison) -> None:
    text = str(comparison)
    assert "log_evidence" in text
    assert "slope ~ Normal(mu=0, sigma=1.5)" in text
    assert "priors" in text
    with pytest.raises(ModelError, match=r"no model 'cubic' in this comparison; it has"):
        comparison.log_bayes_factor("mean", "cubic")


def test_far_apart_models_do_not_overflow() -> None:
    y = Y + 300.0
    comparison = compare({"far": mean_model(0.1, y), "near": mean_model(300.0, y)}, loo=False)
    assert comparison.table.at["near", "posterior_probability"] == pytest.approx(1.0)
    assert comparison.table.at["far", "posterior_probability"] < 1e-300
    assert np.isfinite(comparison.table["posterior_probability"]).all()
    assert comparison.table["elpd_loo"].isna().all()


@pytest.mark.slow
def test_posteriors_are_compared_without_inferring_again() -> None:
    posterior = bk.infer(mean_model(), random_seed=3, progressbar=False)
    comparison = compare({"done": posterior, "line": line_model()}, loo=False)
    assert comparison.table.at["done", "log_evidence"] == posterior.log_evidence.value


def test_same_data_under_other_names_and_in_pm_data() -> None:
    comparison = compare({"a": mean_model(), "b": mean_model(name="strength"), "c": line_model()}, loo=False)
    assert comparison.log_bayes_factor("a", "b") == pytest.approx(0.0, abs=1e-12)


def test_several_observed_variables_have_one_loo() -> None:
    def two(prior_sd: float) -> pm.Model:
        with pm.Model() as model:
            mu = pm.Normal("mu", 0.0, prior_sd)
            pm.Normal("first", mu, 1.0, observed=Y[:4])
            pm.Normal("second", mu, 1.0, observed=Y[4:])
        return model

    split = compare({"a": two(2.0), "b": two(1.0)}, random_seed=1).table
    whole = compare({"a": mean_model(2.0), "b": mean_model(1.0)}, random_seed=1).table
    assert split.at["a", "elpd_loo"] == pytest.approx(whole.at["a", "elpd_loo"], abs=0.1)


def test_loo_is_refused_for_one_observation() -> None:
    with pm.Model() as series:
        mu = pm.Normal("mu")
        pm.MvNormal("y", mu * np.ones(6), np.eye(6), observed=Y)
    comparison = compare({"series": series, "mean": mean_model()}, random_seed=1)
    assert np.isnan(comparison.table.at["series", "elpd_loo"])
    assert any("series: LOO was not computed" in note for note in comparison.notes)


def test_loo_of_few_draws_says_that_they_are_few() -> None:
    _, note = leave_one_out(bk.infer(mean_model(), draws=400, random_seed=1))
    assert note == "LOO was not computed: 400 draws are too few, it takes 500: infer with draws=4000"


def test_a_row_that_says_nothing_of_the_parameters_keeps_its_log_density_in_loo() -> None:
    x, y = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.4, 1.2, 1.9, 3.3])
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("slope", 0.0, 10.0) * x, 1.0, observed=y)
    terms = np.empty(4)
    for k in range(4):  # in closed form, by the Normal slope given the other rows
        others = np.arange(4) != k
        precision = 0.01 + np.sum(x[others] ** 2)
        predictive = stats.norm(x[k] * np.sum((x * y)[others]) / precision, np.sqrt(1 + x[k] ** 2 / precision))
        terms[k] = predictive.logpdf(y[k])
    (elpd, se, high, error), note = leave_one_out(bk.infer(model, random_seed=1))
    assert elpd == pytest.approx(terms.sum(), abs=0.05)
    assert se == pytest.approx(2 * terms.std(ddof=1), abs=0.05)
    assert (high, note) == (0, "") and 0 <= error < 1e-9


def test_the_loo_of_a_point_null_is_its_log_density() -> None:
    with pm.Model() as null:
        pm.Normal("y", 0.0, 1.0, observed=Y)
    terms = stats.norm.logpdf(Y)
    (elpd, se, high, _), note = leave_one_out(bk.infer(null, random_seed=1))
    assert (elpd, se) == pytest.approx((terms.sum(), np.sqrt(terms.size) * terms.std(ddof=1)), rel=1e-12)
    assert (high, note) == (0, "")


def test_loo_takes_the_log_likelihood_that_is_there() -> None:
    posterior = bk.infer(mean_model(), random_seed=1)
    known = posterior.with_log_likelihood()
    (before, _), (same, _) = loo_from_draws(posterior), loo_from_draws(known)
    assert before is not None and same is not None and np.array_equal(before.elpd, same.elpd)
    known.tree["log_likelihood"]["y"] += 1.0
    more, _ = loo_from_draws(known)
    assert more is not None
    np.testing.assert_allclose(more.elpd, before.elpd + 1, atol=1e-10)


def test_no_loo_where_a_draw_leaves_a_row_without_a_density() -> None:
    posterior = bk.infer(mean_model(), random_seed=1).with_log_likelihood()
    posterior.tree["log_likelihood"]["y"][2, 3, 4] = -np.inf
    result, note = leave_one_out(posterior)
    assert np.isnan(result).all()
    assert note == "LOO was not computed: the log likelihood of 1 observation(s) is not finite at some draw"


# --- refusals ---------------------------------------------------------------------------------------------------------


def refused(other: pm.Model | bk.Posterior, message: str) -> None:
    with pytest.raises(ModelError, match=message) as error:
        compare({"first": mean_model(), "second": other})
    assert "\n" not in str(error.value)
    assert isinstance(error.value, BayeskitError)


def test_other_values_are_refused() -> None:
    y = Y.copy()
    y[2] += 1e-9
    refused(mean_model(y=y), r"first and second do not explain the same data: 1 of 6 values of y differ")


def test_other_shapes_are_refused() -> None:
    refused(mean_model(y=Y[:5]), r"y has shape \(6,\) and \(5,\)")


def test_more_observed_variables_are_refused() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=Y)
        pm.Normal("z", mu, 1.0, observed=1.0)
    refused(model, r"observed y in first, observed y, z in second")


def test_transformed_data_are_refused() -> None:
    y = np.exp(Y)
    with pm.Model() as lognormal:
        pm.LogNormal("y", pm.Normal("mu", 0.0, 2.0), 1.0, observed=y)
    with pytest.raises(ModelError, match=r"6 of 6 values of y differ.*log y"):
        compare({"lognormal": lognormal, "normal of the log": mean_model(y=np.log(y))})


def test_probabilities_are_not_compared_with_densities() -> None:
    counts = np.array([2, 0, 3])
    with pm.Model() as poisson:
        pm.Poisson("y", pm.Gamma("rate", 2.0, 1.0), observed=counts)
    with pytest.raises(ModelError, match=r"y is discrete in one and continuous in the other"):
        compare({"poisson": poisson, "normal": mean_model(y=counts.astype(float))})


def spiked(kind: str) -> pm.Model:
    """Models of one y ≥ 0, of whose values two are 0 and one is 3."""
    y = np.array([0.0, 0.7, 0.0, 3.0, 1.2])
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0)
        if kind == "density":
            pm.Normal("y", mean, 1.0, observed=y)
        elif kind == "truncated":
            pm.Truncated("y", pm.Normal.dist(mean, 1.0), lower=-1.0, observed=y)
        elif kind == "censored":
            pm.Censored("y", pm.Normal.dist(mean, 1.0), lower=pm.Data("floor", 0.0), upper=None, observed=y)
        elif kind == "censored below the data":
            pm.Censored("y", pm.Normal.dist(mean, 1.0), lower=-0.5, upper=9.0, observed=y)
        elif kind == "censored twice":
            pm.Censored("y", pm.Normal.dist(mean, 1.0), lower=0.0, upper=3.0, observed=y)
        elif kind == "hurdle":
            pm.HurdleLogNormal("y", psi=0.6, mu=mean, sigma=1.0, observed=y)
        elif kind == "spike and slab":
            pm.Mixture("y", [0.4, 0.6], [pm.DiracDelta.dist(0.0), pm.Normal.dist(mean, 1.0)], observed=y)
        else:
            pm.Mixture("y", [0.4, 0.6], [pm.Normal.dist(0.0, 0.1), pm.Normal.dist(mean, 1.0)], observed=y)
    return model


MEASURES = {  # how many of the values have a probability
    "density": 0, "truncated": 0, "censored below the data": 0, "mixture": 0,
    "censored": 2, "hurdle": 2, "spike and slab": 2,
    "censored twice": 3,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("one", "two"), list(itertools.combinations(MEASURES, 2)))
def test_single_values_with_a_probability_are_not_compared_with_densities(one: str, two: str) -> None:
    models = {name: spiked(name) for name in (one, two)}
    count = abs(MEASURES[one] - MEASURES[two])
    if count == 0:
        require_same_data(models)
        return
    words = rf"{count} of 5 values of y have a probability in one, a density in the other, and a probability cannot"
    with pytest.raises(ModelError, match=words):
        compare(models)


@pytest.mark.slow
@pytest.mark.parametrize("floor", [0.0, [0.0, -1.0]])
def test_spikes_of_components_in_one_variable_are_found(floor: object) -> None:
    """Components as the last axis of a single variable; each with its spike, or one of them."""
    y = np.array([0.0, 1.0, 1.0, 0.0])
    with pm.Model() as points:
        pm.Mixture("y", [0.3, 0.7], pm.DiracDelta.dist([0.0, 1.0]), observed=y)
    with pytest.raises(ModelError, match="y is discrete in one and continuous in the other"):
        compare({"points": points, "normal": mean_model(y=y)})
    with pm.Model() as censored:
        parts = pm.Normal.dist(pm.Normal("mean"), [1.0, 2.0])
        pm.Mixture("y", [0.3, 0.7], pm.Censored.dist(parts, lower=floor, upper=None), observed=y)
    with pytest.raises(ModelError, match="2 of 4 values of y have a probability in one"):
        compare({"censored": censored, "normal": mean_model(y=y)})


def custom(kind: str) -> pm.Model:
    """Of one y, a function of a Normal variable; or of a density that is written down."""
    y = np.array([0.0, 1.0, 0.0, 3.0, 2.0])
    y = y + 0.5 if kind in ("exp", "density of halves") else y
    functions: dict[str, Any] = {
        "clip": lambda x: pm.math.clip(x, 0, 3), "maximum": lambda x: pm.math.maximum(x, 0), "round": pm.math.round,
        "minimum": lambda x: pm.math.minimum(x, 3), "exp": pm.math.exp,
    }  # fmt: skip
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 2.0)
        if kind in functions:
            pm.CustomDist(
                "y", mean, dist=lambda m, size: functions[kind](pm.Normal.dist(m, 1.0, size=size)), observed=y
            )
        else:
            pm.CustomDist("y", mean, logp=lambda v, m: -0.5 * (v - m) ** 2, observed=y)
    return model


@pytest.mark.parametrize(
    ("kind", "atoms"),
    [
        ("clip", [1, 0, 1, 1, 0]),
        ("maximum", [1, 0, 1, 0, 0]),
        ("minimum", [0, 0, 0, 1, 0]),
        ("round", [1, 1, 1, 1, 1]),
        ("exp", [0, 0, 0, 0, 0]),
        ("density of halves", [0, 0, 0, 0, 0]),
        ("density of whole numbers", []),
    ],
)
def test_masses_in_distributions_of_ones_own_are_found(kind: str, atoms: list[int]) -> None:
    assert observed_values(custom(kind))["y"][0].tolist() == atoms


def test_what_is_clipped_is_compared_with_what_is_censored_and_not_with_a_density() -> None:
    y = np.array([0.0, 1.0, 0.0, 3.0, 2.0])
    with pm.Model() as censored:
        mean = pm.Normal("mean", 0.0, 2.0)
        pm.Censored("y", pm.Normal.dist(mean, 1.0), lower=0, upper=3, observed=y)
    table = compare({"clipped": custom("clip"), "censored": censored}, random_seed=1, loo=False).table
    assert abs(table["log_bayes_factor"]).max() < 1e-6
    with pytest.raises(ModelError, match="3 of 5 values of y have a probability in one"):
        compare({"clipped": custom("clip"), "normal": mean_model(y=y)})


def test_what_cannot_be_told_of_a_density_of_ones_own_is_a_note() -> None:
    y = np.array([0.0, 1.0, 0.0, 3.0, 2.0])
    (note,) = require_same_data({"own": custom("density of whole numbers"), "normal": mean_model(y=y)})
    assert "own: y has a density of its own" in note


def test_variables_of_the_same_values_are_paired_by_what_they_are() -> None:
    def pair(first: str, second: str) -> pm.Model:
        with pm.Model() as model:
            rate = pm.Gamma("rate", 2.0, 1.0)
            for name in (first, second):
                (pm.Poisson if name.startswith("count") else pm.Exponential)(name, rate, observed=[1, 2])
        return model

    assert require_same_data({"one": pair("count", "time"), "two": pair("times", "counts")}) == []


def test_potentials_are_refused() -> None:
    model = mean_model()
    with model:
        pm.Potential("penalty", -(model["mu"] ** 2))
    refused(model, r"second: it has a Potential \(penalty\)")


@pytest.mark.parametrize("prior", [pm.Flat, pm.HalfFlat])
def test_improper_priors_are_refused(prior: type) -> None:
    with pm.Model() as model:
        pm.Normal("y", prior("mu"), 1.0, observed=Y)
    refused(model, rf"second: the prior of mu is improper \({prior.__name__}\)")


def test_models_without_observed_variables_are_refused() -> None:
    with pm.Model() as model:
        pm.Normal("mu")
    refused(model, r"second: it has no observed variable")


@pytest.mark.slow
def test_estimated_evidences_are_compared_with_their_errors() -> None:
    """The same model twice, once by NUTS on the model as written: no difference, within the error."""
    sampled = bk.infer(line_model(), method="nuts", random_seed=1, progressbar=False)
    comparison = compare({"exact": line_model(), "sampled": sampled, "mean": mean_model()}, loo=False)
    table = comparison.table
    assert table.at["sampled", "label"] == "estimated"
    error = table.at["sampled", "error"]
    assert 0 < error < 0.05
    assert abs(comparison.log_bayes_factor("exact", "sampled")) < 4 * error
    assert table.index[0] == "mean"
    assert table.at["mean", "log_bayes_factor_error"] == 0
    assert table.at["sampled", "log_bayes_factor_error"] == pytest.approx(error, abs=1e-9)
    p = table["posterior_probability"]
    rest = p["exact"] + p["mean"]
    assert table.at["sampled", "posterior_probability_error"] == pytest.approx(p["sampled"] * rest * error, rel=1e-6)
    assert table.at["mean", "posterior_probability_error"] == pytest.approx(p["mean"] * p["sampled"] * error, rel=1e-6)
    assert any("not every log evidence is exact" in note for note in comparison.notes)


@pytest.mark.slow
def test_models_without_evidence_are_refused_by_name() -> None:
    with pm.Model() as model:
        # Four real numbers remain, too many for quadrature, and what their order leaves of the prior is not known.
        ordered = pm.distributions.transforms.ordered
        prior = {"mu": [0.0, 0.0, 0.0, 1.0], "cov": np.eye(4)}
        mu = pm.MvNormal("mu", **prior, transform=ordered, initval=[-1.0, 0.0, 1.0, 2.0])
        pm.StudentT("y", nu=4.0, mu=mu.sum(), sigma=1.0, observed=Y)
    sampled = bk.infer(model, method="nuts", draws=100, sampler={"tune": 100}, random_seed=1, progressbar=False)
    refused(sampled, r"second: it cannot be compared, for its log evidence is not available: the prior of mu .*Ordered")


def test_what_is_given_is_checked() -> None:
    with pytest.raises(ModelError, match="at least two"):
        compare({"only": mean_model()})
    with pytest.raises(ModelError, match="second: a str cannot be compared"):
        compare({"first": mean_model(), "second": "model"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("odds", "message"),
    [
        ({"c": 1.0}, "no model 'c'; the models are a, b"),
        ({"a": 0.0}, "'a' has 0.0"),
        ({"a": -1.0}, "positive"),
        ({"a": math.inf}, "finite"),
        ({"a": math.nan}, "finite"),
    ],
)
def test_prior_odds_are_checked(odds: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        compare({"a": mean_model(), "b": line_model()}, prior_odds=odds)


def test_what_is_said_of_one_model_names_it(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    import logging

    import bayeskit.comparison.given_models as module

    def told(model: pm.Model, **options: Any) -> Any:
        logging.getLogger("bayeskit").warning("NUTS draws: %s", "the chains disagree")
        if model is models["wide"]:
            raise InferenceError("no closed form")
        return infer(model, **options)

    models, infer = {"mean": mean_model(), "wide": mean_model(1e3)}, module.infer
    monkeypatch.setattr(module, "infer", told)
    with pytest.raises(InferenceError, match=r"^wide: no closed form$"):
        compare(models, random_seed=1)
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"{name}: NUTS draws: the chains disagree" for name in models]


@pytest.mark.slow
def test_an_observation_that_draws_cannot_score_has_an_exact_score() -> None:
    """By quadrature: one row far out decides how large the sd is."""
    y = np.append(Y[:3], 9.0)
    with pm.Model() as model:
        pm.Normal("y", 0.0, pm.HalfNormal("sd", 1.0), observed=y)
    posterior = bk.infer(model, random_seed=1)
    found, _ = loo_from_draws(posterior)
    assert found is not None and found.high.any() and posterior.method == "quadrature"
    (elpd, _, high, error), note = leave_one_out(posterior)
    exact = bk.cross_validate(posterior, progressbar=False).pointwise["model"].to_numpy()
    kept = ~found.high
    assert elpd == pytest.approx(exact[found.high].sum() + found.elpd[kept].sum(), abs=1e-8)
    assert abs(elpd - exact.sum()) < 0.1
    assert high == 0 and "exact scores, by ratios of evidences" in note
    assert found.error_of(kept) < error < 0.1
