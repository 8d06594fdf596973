"""The models of the catalogue: the graphs they build, log joints against SciPy, evidence against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import special, stats

import bayeskit as bk
from bayeskit.catalogue.options import model_options, parse_options
from bayeskit.datasets import check_data, example_data, load_example
from bayeskit.errors import BayeskitError, DataError, ModelError, OptionError
from bayeskit.model.log_joint import LogJoint
from bayeskit.models import MODELS, load_model

REGRESSION_OPTIONS: dict[str, dict[str, Any]] = {
    "line": {},
    "linear": {"basis": "linear", "standardise": False},
    "quadratic": {"degree": 2},
    "gaussian": {"basis": "gaussian", "centres": 5},
    "sigmoid": {"basis": "sigmoid", "centres": 4, "width": 0.7},
    "no intercept": {"intercept": False, "degree": 3},
    "known noise": {"noise": "known", "noise_sd": 0.4, "intercept_mean": 25.0},
}


def dataset(**variables: Any) -> xr.Dataset:
    """A Dataset whose vectors have the dim row, and whose matrices have those of the model that takes them."""
    second = {"x": "feature", "y": "feature", "counts": "category"}
    arrays = {name: np.asarray(values) for name, values in variables.items()}
    return xr.Dataset({n: (("row", second.get(n, ""))[: a.ndim], a) for n, a in arrays.items()})


def example_model(name: str, **options: Any) -> pm.Model:
    module = load_model(name)
    return module.build(example_data(module.EXAMPLE, module.VARIABLES), **{**module.EXAMPLE.options, **options})


def forbes() -> xr.Dataset:
    module = load_model("linear_regression")
    return example_data(module.EXAMPLE, module.VARIABLES)


def forbes_design(options: dict[str, Any]) -> np.ndarray:
    """The design matrix of the regression on Forbes' one feature, by NumPy."""
    x = load_example("forbes")["temperature"].to_numpy()
    z = x if options.get("standardise") is False else (x - x.mean()) / x.std()
    if options.get("basis") in ("gaussian", "sigmoid"):
        centres = np.linspace(z.min(), z.max(), options["centres"])
        distance = (z[:, None] - centres) / options.get("width", centres[1] - centres[0])
        columns = np.exp(-(distance**2) / 2) if options["basis"] == "gaussian" else special.expit(distance)
    else:
        columns = np.stack([z**power for power in range(1, options.get("degree", 1) + 1)], axis=1)
    return columns if options.get("intercept") is False else np.column_stack([np.ones_like(z), columns])


# --- the graphs -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("beta_binomial", {"theta": ("row",)}),
        ("gamma_poisson", {"rate": ()}),
        ("dirichlet_multinomial", {"probability": ("category",)}),
        ("normal", {"variance": (), "mu": ()}),
        ("multivariate_normal", {"precision": ("feature", "other_feature"), "mu": ("feature",)}),
        ("linear_regression", {"variance": (), "weights": ("basis",), "intercept": ()}),
        ("beta_binomial_groups", {"mean": (), "spread": (), "theta": ("row",)}),
        ("hierarchical_normal", {"mu": (), "tau": (), "z": ("row",)}),
        ("robust_regression", {"weights": ("feature",), "intercept": (), "sigma": (), "nu": ()}),
        ("logistic_regression", {"weights": ("feature",), "intercept": ()}),
        ("ordered_regression", {"weights": ("feature",), "probability": ("level",)}),
        ("softmax_regression", {"weights": ("feature", "other_class"), "intercept": ("other_class",)}),
        ("poisson_regression", {"weights": ("feature",), "intercept": ()}),
        ("survival", {"weights": ("feature",), "intercept": ()}),
        ("mixed_logistic_regression", {"weights": ("feature",), "intercept": (), "tau": (), "effect": ("group",)}),
        ("item_response", {"difficulty": ("item",), "spread": (), "ability": ("row",)}),
        (
            "varying_slopes",
            {
                "mu_intercept": (),
                "tau_intercept": (),
                "intercept": ("group",),
                "mu_slope": ("predictor",),
                "tau_slope": ("predictor",),
                "slope": ("group", "predictor"),
                "sigma": (),
            },
        ),
        ("poisson_changepoint", {"change": (), "rate": ("period",)}),
        (
            "structural_time_series",
            {"noise": (), "level_step": (), "slope": (), "level": ("row",), "season_start": ("first_phase",)}
            | {"forecast": ("missing_row",)},
        ),
        (
            "stochastic_volatility",
            {"level": (), "persistence": (), "step_variance": (), "deviation": ("row",)},
        ),
        (
            "gaussian_process",
            {"amplitude": (), "lengthscale": (), "noise": (), "f_new": ("new",), "y_new": ("new",)},
        ),
        (
            "neural_network",
            {
                "input_weights": ("feature", "unit"),
                "thresholds": ("unit",),
                "output_weights": ("unit",),
                "intercept": (),
                "sigma": (),
            },
        ),
        (
            "probabilistic_pca",
            {
                "diagonal_square": ("component",),
                "below": (),
                "sigma": (),
                "mu": ("column",),
                "z": ("row", "component"),
            },
        ),
        (
            "gaussian_classifier",
            {"class_probability": ("class",), "precision": ("feature", "other_feature"), "mu": ("class", "feature")},
        ),
        ("naive_bayes", {"class_probability": ("class",), "binary_probability": ("class", "indicator")}),
        (
            "supervised_markov",
            {
                "initial_probability": ("state",),
                "transition_probability": ("state", "next_state"),
                "precision": ("state", "feature"),
                "mu": ("state", "feature"),
            },
        ),
        (
            "gaussian_mixture",
            {
                "mean": ("component", "feature"),
                "weights": ("component",),
                "z": ("row",),
                "diagonal_square": ("feature",),
                "below": (),
            },
        ),
        ("binomial_mixture", {"theta": ("component",), "z": ("row",)}),
        ("hidden_markov", {"transition": ("state", "next_state"), "z": ("row",), "rate": ("state",)}),
    ],
)
def test_example_builds_the_expected_graph(name: str, variables: dict[str, tuple[str, ...]]) -> None:
    model = example_model(name)
    dims = {rv.name: tuple(model.named_vars_to_dims.get(rv.name, ())) for rv in model.free_RVs}
    assert dims == variables
    module = load_model(name)
    observed = {rv.name for rv in model.observed_RVs}
    # A variable that is observed in parts (the first states of sequences, and those that follow) names each after it.
    assert {name if name in module.VARIABLES else name.partition("_")[0] for name in observed} <= set(module.VARIABLES)
    held = {str(data.name).removesuffix("_code") for data in model.data_vars}
    required = set(example_data(module.EXAMPLE, module.VARIABLES)) | {
        name for name, variable in module.VARIABLES.items() if variable.required
    }
    assert required - observed <= held & set(module.VARIABLES)
    assert any(model.named_vars_to_dims[name][0] in ("row", "observed_row") for name in observed)


def test_every_model_is_in_the_table_above() -> None:
    (mark,) = (m for m in test_example_builds_the_expected_graph.pytestmark if m.name == "parametrize")
    assert tuple(name for name, _ in mark.args[1]) == MODELS


def test_coords_are_the_labels_of_the_data() -> None:
    assert example_model("beta_binomial").coords["row"] == tuple(range(1, 72))
    counts = example_model("dirichlet_multinomial")
    assert counts.coords == {
        "row": ("black", "brown", "red", "blond"),
        "category": ("brown", "blue", "hazel", "green"),
    }
    iris = example_model("multivariate_normal")
    features = ("sepal_length", "sepal_width", "petal_length", "petal_width")
    assert iris.coords["feature"] == iris.coords["other_feature"] == features
    line = example_model("linear_regression")
    assert line.coords["feature"] == line.coords["basis"] == ("temperature",)
    assert line.coords["row"] is None


def test_basis_coords_name_the_function_of_each_feature() -> None:
    build = load_model("linear_regression").build
    data = dataset(y=[1.0, 2.0], x=[[1.0, 5.0], [2.0, 4.0]]).assign_coords(feature=["a", "b"])
    assert build(data, degree=2).coords["basis"] == ("a", "a^2", "b", "b^2")
    assert build(data, basis="linear").coords["basis"] == ("a", "b")
    assert build(data, basis="sigmoid", centres=2).coords["basis"] == (
        "a:sigmoid1",
        "a:sigmoid2",
        "b:sigmoid1",
        "b:sigmoid2",
    )


def test_pooled_is_one_variable_for_all_rows() -> None:
    assert example_model("beta_binomial", pooled=True)["theta"].ndim == 0
    assert example_model("gamma_poisson", pooled=False).named_vars_to_dims["rate"] == ("row",)


def test_each_model_states_its_story_its_formula_and_its_options() -> None:
    for name in MODELS:
        module = load_model(name)
        assert ":math:" in module.__doc__
        assert "evidence" in module.__doc__
        assert all(option.doc for option in model_options(module.build).values())
        assert all(variable.doc for variable in module.VARIABLES.values())


def test_unknown_model_is_refused_with_the_list() -> None:
    with pytest.raises(ModelError, match=r"no model 'lasso' in the catalogue; it has beta_binomial, gamma_poisson"):
        load_model("lasso")


# --- the log joint density, against SciPy -----------------------------------------------------------------------------


def log_joint(model: pm.Model, **point: Any) -> float:
    return LogJoint.from_model(model).logp({name: np.asarray(value, dtype=float) for name, value in point.items()})


def test_log_joint_of_beta_binomial() -> None:
    data = load_example("rat_tumours")
    y, n = data["tumours"].to_numpy(), data["rats"].to_numpy()
    theta = np.linspace(0.05, 0.4, 71)
    expected = stats.beta(1.4, 8.6).logpdf(theta).sum() + stats.binom(n, theta).logpmf(y).sum()
    assert log_joint(example_model("beta_binomial"), theta=theta) == pytest.approx(expected, rel=1e-12)
    pooled = stats.beta(1.4, 8.6).logpdf(0.2) + stats.binom(n, 0.2).logpmf(y).sum()
    assert log_joint(example_model("beta_binomial", pooled=True), theta=0.2) == pytest.approx(pooled, rel=1e-12)


def test_log_joint_of_gamma_poisson() -> None:
    ships = load_example("ship_damage")
    t, y = ships["months"].to_numpy(), ships["incidents"].to_numpy()
    model = load_model("gamma_poisson").build(dataset(counts=y, exposure=t), shape=2.0, rate=500.0, pooled=False)
    rate = np.linspace(1e-3, 8e-3, y.size)
    expected = stats.gamma(2.0, scale=1 / 500.0).logpdf(rate).sum() + stats.poisson(rate * t).logpmf(y).sum()
    assert log_joint(model, rate=rate) == pytest.approx(expected, rel=1e-12)
    deaths = load_example("horse_kicks")["deaths"].to_numpy()
    expected = stats.gamma(1.0).logpdf(0.6) + stats.poisson(0.6).logpmf(deaths).sum()
    assert log_joint(example_model("gamma_poisson"), rate=0.6) == pytest.approx(expected, rel=1e-12)


def test_log_joint_of_dirichlet_multinomial() -> None:
    counts = load_example("hair_eye_colour").drop(columns="hair").to_numpy()
    p = np.array([0.4, 0.3, 0.2, 0.1])
    expected = stats.dirichlet(np.full(4, 1.5)).logpdf(p)
    expected += sum(stats.multinomial(row.sum(), p).logpmf(row) for row in counts)
    model = example_model("dirichlet_multinomial", concentration=1.5)
    assert log_joint(model, probability=p) == pytest.approx(expected, rel=1e-12)


def test_log_joint_of_normal_is_the_same_in_both_parametrisations_but_for_the_jacobian() -> None:
    y = load_example("cavendish")["density"].to_numpy()
    variance, mu = 0.05, 5.3
    expected = stats.invgamma(2.0, scale=0.1).logpdf(variance)
    expected += stats.norm(5.0, np.sqrt(variance / 0.1)).logpdf(mu) + stats.norm(mu, np.sqrt(variance)).logpdf(y).sum()
    assert log_joint(example_model("normal"), variance=variance, mu=mu) == pytest.approx(expected, rel=1e-12)
    precision = example_model("normal", parametrisation="precision")
    assert {rv.name for rv in precision.free_RVs} == {"precision", "mu"}
    expected += 2 * np.log(variance)
    assert log_joint(precision, precision=1 / variance, mu=mu) == pytest.approx(expected, rel=1e-12)


def test_log_joint_of_multivariate_normal() -> None:
    y = load_example("iris_setosa").to_numpy()
    precision = np.diag([8.0, 7.0, 30.0, 90.0]) + 0.5
    mu = np.array([5.0, 3.4, 1.5, 0.2])
    expected = stats.wishart(6, np.eye(4) / (6 * 0.5**2)).logpdf(precision)
    expected += stats.multivariate_normal(np.full(4, 3.0), np.linalg.inv(0.1 * precision)).logpdf(mu)
    expected += stats.multivariate_normal(mu, np.linalg.inv(precision)).logpdf(y).sum()
    model = example_model("multivariate_normal")
    assert log_joint(model, precision=precision, mu=mu) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("options", REGRESSION_OPTIONS.values(), ids=REGRESSION_OPTIONS)
def test_log_joint_of_linear_regression(options: dict[str, Any]) -> None:
    design = forbes_design(options)
    y = load_example("forbes")["pressure"].to_numpy()
    coefficients = np.random.default_rng(1).normal(size=design.shape[1])
    known = options.get("noise") == "known"
    sd = options["noise_sd"] if known else 0.7
    unit = 1.0 if known else sd
    point: dict[str, Any] = {}
    expected = 0.0
    if not known:
        point["variance"] = sd**2
        expected += stats.invgamma(3.0, scale=2.0).logpdf(sd**2)
    weights = coefficients
    if options.get("intercept") is not False:
        point["intercept"], weights = coefficients[0], coefficients[1:]
        expected += stats.norm(options.get("intercept_mean", 0.0), 20.0 * unit).logpdf(coefficients[0])
    point["weights"] = weights
    expected += (
        stats.norm(0.0, 5.0 * unit).logpdf(weights).sum() + stats.norm(design @ coefficients, sd).logpdf(y).sum()
    )
    model = load_model("linear_regression").build(
        forbes(), **options, intercept_scale=20.0, prior_scale=5.0, noise_shape=3.0, noise_rate=2.0
    )
    assert log_joint(model, **point) == pytest.approx(expected, rel=1e-11)


# --- the evidence, against closed forms -------------------------------------------------------------------------------


def assert_exact_evidence(model: pm.Model, expected: float) -> None:
    post = bk.infer(model, draws=100, random_seed=1, progressbar=False)
    assert post.log_evidence.label == "exact"
    assert float(post.log_evidence) == pytest.approx(expected, abs=1e-10 * max(1.0, abs(expected)))


@pytest.mark.parametrize("pooled", [False, True])
def test_evidence_of_beta_binomial(pooled: bool) -> None:
    data = load_example("rat_tumours")
    y, n = data["tumours"].to_numpy(), data["rats"].to_numpy()
    if pooled:
        log_choose = special.gammaln(n + 1) - special.gammaln(y + 1) - special.gammaln(n - y + 1)
        expected = log_choose.sum() + special.betaln(1.4 + y.sum(), 8.6 + (n - y).sum()) - special.betaln(1.4, 8.6)
    else:
        expected = stats.betabinom(n, 1.4, 8.6).logpmf(y).sum()
    assert_exact_evidence(example_model("beta_binomial", pooled=pooled), expected)


def test_evidence_of_gamma_poisson() -> None:
    y = load_example("horse_kicks")["deaths"].to_numpy()
    expected = special.gammaln(1 + y.sum()) - (1 + y.sum()) * np.log(1 + y.size) - special.gammaln(y + 1).sum()
    assert_exact_evidence(example_model("gamma_poisson"), expected)


def test_evidence_of_gamma_poisson_with_exposures_is_negative_binomial() -> None:
    ships = load_example("ship_damage")
    t, y = ships["months"].to_numpy(), ships["incidents"].to_numpy()
    model = load_model("gamma_poisson").build(dataset(counts=y, exposure=t), shape=2.0, rate=500.0, pooled=False)
    assert_exact_evidence(model, stats.nbinom(2.0, 500.0 / (500.0 + t)).logpmf(y).sum())


def test_evidence_of_dirichlet_multinomial() -> None:
    counts = load_example("hair_eye_colour").drop(columns="hair").to_numpy()
    total = counts.sum(axis=0)
    expected = (special.gammaln(counts.sum(axis=1) + 1) - special.gammaln(counts + 1).sum(axis=1)).sum()
    expected += special.gammaln(4) - special.gammaln(4 + total.sum()) + special.gammaln(1 + total).sum()
    assert_exact_evidence(example_model("dirichlet_multinomial"), expected)


@pytest.mark.parametrize("parametrisation", ["variance", "precision"])
def test_evidence_of_normal_is_a_multivariate_student_t(parametrisation: str) -> None:
    y = load_example("cavendish")["density"].to_numpy()
    a, b, weight = 2.0, 0.1, 0.1
    shape = b / a * (np.eye(y.size) + np.ones((y.size, y.size)) / weight)
    expected = stats.multivariate_t(np.full(y.size, 5.0), shape, df=2 * a).logpdf(y)
    assert_exact_evidence(example_model("normal", parametrisation=parametrisation), expected)


def test_evidence_of_multivariate_normal_is_a_product_of_one_step_ahead_student_ts() -> None:
    y = load_example("iris_setosa").to_numpy()
    dimension = y.shape[1]
    weight, nu, mean = 0.1, float(dimension + 2), np.full(dimension, 3.0)
    inverse_scale = nu * 0.5**2 * np.eye(dimension)
    expected = 0.0
    for row in y:
        df = nu - dimension + 1
        expected += stats.multivariate_t(mean, inverse_scale * (weight + 1) / (weight * df), df=df).logpdf(row)
        inverse_scale = inverse_scale + weight / (weight + 1) * np.outer(row - mean, row - mean)
        mean = (weight * mean + row) / (weight + 1)
        weight, nu = weight + 1, nu + 1
    assert_exact_evidence(example_model("multivariate_normal"), expected)


@pytest.mark.slow
@pytest.mark.parametrize("options", REGRESSION_OPTIONS.values(), ids=REGRESSION_OPTIONS)
def test_evidence_of_linear_regression(options: dict[str, Any]) -> None:
    design = forbes_design(options)
    y = load_example("forbes")["pressure"].to_numpy()
    prior_sd = np.full(design.shape[1], 5.0)
    prior_mean = np.zeros(design.shape[1])
    if options.get("intercept") is not False:
        prior_sd[0], prior_mean[0] = 20.0, options.get("intercept_mean", 0.0)
    spread = design @ np.diag(prior_sd**2) @ design.T
    if options.get("noise") == "known":
        expected = stats.multivariate_normal(design @ prior_mean, spread + 0.4**2 * np.eye(y.size)).logpdf(y)
    else:
        shape = 2.0 / 3.0 * (np.eye(y.size) + spread)
        expected = stats.multivariate_t(design @ prior_mean, shape, df=6.0).logpdf(y)
    model = load_model("linear_regression").build(
        forbes(), **options, intercept_scale=20.0, prior_scale=5.0, noise_shape=3.0, noise_rate=2.0
    )
    assert_exact_evidence(model, expected)


# --- data that are odd but have an answer -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "x",
    [[[0.1]], [[0.1]] * 7, [[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], [[0.0], [0.0]], [[1e200], [-1e200], [0.0]]],
    ids=["one row", "constant", "collinear", "zero", "huge"],
)
@pytest.mark.parametrize("basis", ["linear", "polynomial", "gaussian", "sigmoid"])
def test_awkward_features_have_a_finite_density(x: list[list[float]], basis: str) -> None:
    data = dataset(y=np.arange(len(x), dtype=float), x=x)
    model = load_model("linear_regression").build(data, basis=basis)
    assert np.isfinite(log_joint(model, variance=1.3, intercept=0.2, weights=np.full(len(model.coords["basis"]), 0.1)))


def test_constant_feature_is_centred_and_not_divided_by_rounding_error() -> None:
    model = load_model("linear_regression").build(dataset(y=np.arange(7.0), x=[[0.1]] * 7))
    assert log_joint(model, variance=1.0, intercept=3.0, weights=[1e6]) == pytest.approx(
        log_joint(model, variance=1.0, intercept=3.0, weights=[0.0]) - 0.5 * (1e6 / 10) ** 2
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("beta_binomial", {"successes": [0], "trials": [0]}),
        ("gamma_poisson", {"counts": [0]}),
        ("dirichlet_multinomial", {"counts": [[0, 0]]}),
        ("normal", {"y": [1.0]}),
        ("multivariate_normal", {"y": [[1.0]]}),
        ("multivariate_normal", {"y": [[1.0, 2.0], [1.0, 2.0]]}),
    ],
)
def test_least_data_have_an_answer(name: str, variables: dict[str, Any]) -> None:
    post = bk.infer(load_model(name).build(dataset(**variables)), draws=100, random_seed=1, progressbar=False)
    assert post.method == "exact"
    assert np.isfinite(float(post.log_evidence))


def test_new_inputs_go_through_the_basis_that_was_fixed_by_the_data() -> None:
    model = load_model("linear_regression").build(forbes(), basis="gaussian", centres=5)
    x = load_example("forbes")["temperature"].to_numpy()
    point = {"variance": 1e-12, "intercept": 2.0, "weights": [1.0, 2.0, 3.0, 4.0, 5.0]}
    posterior = xr.Dataset(
        {
            name: (("chain", "draw", *model.named_vars_to_dims.get(name, ())), np.asarray(value)[None, None])
            for name, value in point.items()
        },
        coords={"basis": list(model.coords["basis"])},
    )
    with model:
        pm.set_data({"x": np.array([[200.0], [205.0], [300.0]])})
        drawn = pm.sample_posterior_predictive(
            posterior, progressbar=False, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"}
        )
    z = (np.array([200.0, 205.0, 300.0]) - x.mean()) / x.std()
    centres = (np.linspace(x.min(), x.max(), 5) - x.mean()) / x.std()
    columns = np.exp(-(((z[:, None] - centres) / (centres[1] - centres[0])) ** 2) / 2)
    expected = 2.0 + columns @ np.arange(1.0, 6.0)
    np.testing.assert_allclose(drawn["posterior_predictive"]["y"].to_numpy()[0, 0], expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("labelled", [False, True])
def test_predictions_at_new_inputs_have_the_closed_form_mean(labelled: bool) -> None:
    data = forbes().assign_coords(row=list("abcdefghijklmnopq")) if labelled else forbes()
    model = load_model("linear_regression").build(data, noise="known", noise_sd=0.3, intercept_mean=25.0)
    post = bk.infer(model, draws=4000, random_seed=1, progressbar=False)
    drawn = post.predict({"x": np.array([[190.0], [215.0]])}, coords={"row": ["p", "q"]}, random_seed=2)["y"]
    table = load_example("forbes")
    x, y = table["temperature"].to_numpy(), table["pressure"].to_numpy()
    design = np.column_stack([np.ones(17), (x - x.mean()) / x.std()])
    new = np.column_stack([np.ones(2), (np.array([190.0, 215.0]) - x.mean()) / x.std()])
    prior = np.diag([100.0**-2, 10.0**-2])
    covariance = np.linalg.inv(prior + design.T @ design / 0.3**2)
    mean = new @ covariance @ (prior @ [25.0, 0.0] + design.T @ y / 0.3**2)
    sd = np.sqrt(0.3**2 + np.einsum("ij,jk,ik->i", new, covariance, new))
    assert drawn.dims == ("chain", "draw", "row")
    assert drawn["row"].values.tolist() == ["p", "q"]
    np.testing.assert_array_less(abs(drawn.mean(["chain", "draw"]) - mean) / (sd / np.sqrt(4000)), 4.0)
    np.testing.assert_allclose(drawn.std(["chain", "draw"]), sd, rtol=0.06)


def test_predictions_at_new_trials_and_exposures() -> None:
    rats = bk.infer(example_model("beta_binomial", pooled=True), draws=4000, random_seed=1, progressbar=False)
    drawn = rats.predict({"trials": np.array([10_000])}, coords={"row": ["next"]}, random_seed=2)["successes"]
    assert float(drawn.mean()) == pytest.approx(10_000 * (1.4 + 267) / (10 + 1739), rel=0.005)
    deaths = bk.infer(example_model("gamma_poisson"), draws=4000, random_seed=1, progressbar=False)
    drawn = deaths.predict({"exposure": np.array([1e4, 1e5])}, random_seed=2)["counts"]
    np.testing.assert_allclose(drawn.mean(["chain", "draw"]), np.array([1e4, 1e5]) * 197 / 281, rtol=0.005)


# --- options and data that are refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("normal", {"shape": 0.0}, r"option shape is 0.0; it must be a finite number above 0"),
        ("normal", {"rate": float("inf")}, r"option rate is inf; it must be a finite number above 0"),
        ("normal", {"mean": float("nan")}, r"option mean is nan; it must be a finite number$"),
        ("normal", {"parametrisation": "sd"}, r"option parametrisation is 'sd'; it must be one of variance, precision"),
        ("beta_binomial", {"pooled": 1}, r"option pooled is 1; it must be true or false"),
        ("beta_binomial", {"gamma": 1.0}, r"unknown option 'gamma'; this model's options are alpha, beta, pooled"),
        ("multivariate_normal", {"degrees_of_freedom": 3}, r"degrees_of_freedom is 3; it must be above 3, the number"),
        ("multivariate_normal", {"degrees_of_freedom": 5.5}, r"degrees_of_freedom is 5.5; it must be a whole number"),
        ("linear_regression", {"degree": 21}, r"option degree is 21; it must be a whole number from 1 to 20, or none"),
        ("linear_regression", {"basis": "sigmoid", "degree": 2}, r"degree is 2 but has no effect here; set basis=poly"),
        ("linear_regression", {"width": 1.0}, r"option width is 1.0 but has no effect here; set basis=gaussian"),
        ("linear_regression", {"noise_sd": 0.1}, r"option noise_sd is 0.1 but has no effect here; set noise=known too"),
    ],
)
def test_options_out_of_range_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        example_model(name, **options)


def test_powers_that_overflow_are_refused() -> None:
    data = dataset(y=[1.0, 2.0], x=[[1e20], [2e20]])
    with pytest.raises(DataError, match=r"feature 0\^8 reaches 1e150 and its square overflows; set standardise=true"):
        load_model("linear_regression").build(data, degree=8, standardise=False)


@pytest.mark.parametrize(
    ("name", "variables", "message"),
    [
        (
            "beta_binomial",
            {"successes": [1, 5], "trials": [3, 4]},
            r"column 'successes', row 2: 5 successes are more than the 4 trials",
        ),
        (
            "beta_binomial",
            {"successes": [1]},
            r"the model needs 'trials' with dims \('row',\); the data set has successes",
        ),
        ("gamma_poisson", {"counts": [1, -2]}, r"column 'counts', row 2: -2 is negative; a count is a whole number"),
        ("gamma_poisson", {"counts": [1.5]}, r"column 'counts', row 1: 1.5 is not a whole number"),
        ("gamma_poisson", {"counts": [1], "exposure": [0.0]}, r"column 'exposure', row 1: 0 is not above zero"),
        (
            "dirichlet_multinomial",
            {"counts": [[3]]},
            r"'counts' has 1 column; the model needs at least 2, one for each",
        ),
        ("dirichlet_multinomial", {"counts": [3, 4]}, r"'counts' has dims \('row',\); the model needs \('row', 'cat"),
        ("normal", {"y": [1.0, np.nan]}, r"column 'y', row 2: the value is missing; this model cannot impute it"),
        ("normal", {"y": [np.inf]}, r"column 'y', row 1: inf is infinite; correct it or drop the row"),
        ("normal", {"y": np.array([])}, r"'y' has no rows; the model needs at least one"),
        ("normal", {"y": ["a"]}, r"'y' holds .* values; the model needs numbers"),
    ],
)
def test_data_that_a_model_cannot_explain_are_refused(name: str, variables: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load_model(name).build(dataset(**variables))
    assert "\n" not in str(caught.value)


def test_data_of_another_type_are_refused() -> None:
    with pytest.raises(DataError, match=r"the data are a DataFrame, not an xarray\.Dataset; make one with"):
        load_model("normal").build(load_example("cavendish"))


def test_build_leaves_the_data_as_they_were() -> None:
    data = forbes()
    before = data.copy(deep=True)
    load_model("linear_regression").build(data)
    xr.testing.assert_identical(data, before)
    assert check_data(data, load_model("linear_regression").VARIABLES) is not data


def test_options_from_text_are_those_from_python() -> None:
    build = load_model("linear_regression").build
    parsed = parse_options(build, ["degree=2", "standardise=no", "noise=known", "noise_sd=0.5", "width=none"])
    assert parsed == {"degree": 2, "standardise": False, "noise": "known", "noise_sd": 0.5, "width": None}
    with pytest.raises(BayeskitError, match=r"option degree is 'two'; it must be a whole number from 1 to 20, or none"):
        parse_options(build, ["degree=two"])
