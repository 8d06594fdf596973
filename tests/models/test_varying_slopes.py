"""Varying intercepts and slopes: density, evidence and group effects against the marginal likelihood built by hand.

The oracle knows nothing of bayeskit: the covariance of y given the scales is a sum of outer products, its log density
SciPy's, and the integral over the scales a Gauss–Legendre rule.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import statsmodels.api as sm
import xarray as xr
from scipy import special, stats

import bayeskit as bk
from bayeskit.cli import main
from bayeskit.datasets import example_data, prepare
from bayeskit.elimination.plan import analyse
from bayeskit.errors import BayeskitError, DataError
from bayeskit.graphs.compile import compile_small
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.models import load_model

MODULE = load_model("varying_slopes")
PRIORS = {
    "half_normal": lambda scale: stats.halfnorm(scale=scale),
    "half_cauchy": lambda scale: stats.halfcauchy(scale=scale),
    "exponential": lambda scale: stats.expon(scale=scale),
}
SETTINGS = {
    "intercept_mean": 1.0,
    "intercept_scale": 2.0,
    "slope_mean": 0.5,
    "slope_scale": 1.5,
    "intercept_spread": 0.8,
    "slope_spread": 0.6,
    "noise_scale": 0.7,
}


def simulated(groups: int = 4, rows: int = 6, predictors: int = 1, seed: int = 5) -> xr.Dataset:
    """Rows in no order, groups of unequal size, labels whose sorted order is not that of their appearance."""
    rng = np.random.default_rng(seed)
    labels = np.array(["south", "north", "west", "east", "centre"])[:groups]
    code = rng.permutation(np.concatenate([np.arange(groups), rng.integers(groups, size=groups * rows - groups)]))
    x = rng.normal(2.0, 1.5, size=(len(code), predictors))
    a, b = rng.normal(1.0, 0.7, size=groups), rng.normal(0.5, 0.4, size=(groups, predictors))
    y = a[code] + np.sum(x * b[code], axis=1) + 0.4 * rng.normal(size=len(code))
    names = [f"x{k}" for k in range(predictors)]
    table = pd.DataFrame({"y": y, "g": labels[code]} | dict(zip(names, x.T, strict=True)))
    return prepare(table, MODULE.VARIABLES, {"x": names, "group": "g"})


def transformed(data: xr.Dataset, predictors: str) -> np.ndarray:
    x, group = data["x"].to_numpy(), data["group"].to_numpy()
    if predictors == "within":
        return x - np.array([x[group == g].mean(axis=0) for g in group])
    if predictors == "raw":
        return x
    return (x - x.mean(axis=0)) / (x.std(axis=0) if predictors == "standardised" else 1.0)


def moments(
    z: np.ndarray, group: np.ndarray, tau_a: float, tau_b: np.ndarray, sigma: float, s: dict[str, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of y given the scales."""
    same = (group[:, None] == group).astype(float)
    mean = s["intercept_mean"] + s["slope_mean"] * z.sum(axis=1)
    covariance = sigma**2 * np.eye(len(z)) + s["intercept_scale"] ** 2 + tau_a**2 * same
    for column, tau in zip(z.T, tau_b, strict=True):
        covariance += np.outer(column, column) * (s["slope_scale"] ** 2 + tau**2 * same)
    return mean, covariance


@pytest.mark.slow
@pytest.mark.parametrize(
    ("predictors", "options"),
    [
        (1, {"centred": False, "predictors": "raw"}),
        (2, {"predictors": "within", "spread": "half_cauchy"}),
        (1, {"slopes": "shared", "predictors": "centred", "noise": "exponential"}),
        (2, {"slopes": "shared", "centred": False, "spread": "exponential", "noise": "half_cauchy"}),
        (1, {"logarithms": True, "predictors": "centred"}),
    ],
)
def test_the_collapsed_density_is_the_marginal_likelihood(predictors: int, options: dict[str, Any]) -> None:
    data = simulated(predictors=predictors)
    positive = options.get("logarithms", False)
    if positive:
        data = data.map(lambda v: np.exp(v) if v.dtype.kind == "f" else v, keep_attrs=True)
    model = MODULE.build(data, **SETTINGS, **options)
    shared = options.get("slopes") == "shared"
    analysis = analyse(model)
    plan = bk.explain(analysis)
    assert plan.remaining == ("tau_intercept", "sigma") if shared else ("tau_intercept", "tau_slope", "sigma")
    space = Unconstrained(bk.collapse(analysis))
    log = (lambda v: np.log(v)) if positive else (lambda v: v)
    z = transformed(data.assign(x=log(data["x"])), options.get("predictors", "standardised"))
    y, group = log(data["y"].to_numpy()), data["group"].to_numpy()
    rng = np.random.default_rng(3)
    for _ in range(5):
        tau_a, sigma = np.exp(rng.normal(-0.5, 0.7, size=2))
        tau_b = np.zeros(predictors) if shared else np.exp(rng.normal(-0.5, 0.7, size=predictors))
        expected = stats.multivariate_normal(*moments(z, group, tau_a, tau_b, sigma, SETTINGS)).logpdf(y)
        spread = PRIORS[options.get("spread", "half_normal")]
        noise = PRIORS[options.get("noise", "half_normal")]
        expected += spread(0.8).logpdf(tau_a) + noise(0.7).logpdf(sigma) + np.log(tau_a) + np.log(sigma)
        if not shared:
            expected += np.sum(spread(0.6).logpdf(tau_b) + np.log(tau_b))
        if positive:  # the density of y itself
            expected -= y.sum()
        values = {"tau_intercept": tau_a, "tau_slope": tau_b, "sigma": sigma}
        point = np.concatenate([np.ravel(np.log(values[n.removesuffix("_log__")])) for n in space.slices])
        assert space.log_density(point)[0] == pytest.approx(expected, abs=1e-9)


def panels(cuts: list[float], nodes: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes and weights over panels side by side."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    half, middle = np.diff(cuts)[:, None] / 2, (np.array(cuts[1:]) + np.array(cuts[:-1]))[:, None] / 2
    return (middle + half * x).ravel(), (half * w).ravel()


@pytest.fixture(scope="module")
def fitted() -> tuple[xr.Dataset, bk.Posterior]:
    data = simulated(groups=3, rows=5)
    return data, bk.infer(MODULE.build(data, **SETTINGS), draws=1000, random_seed=1, progressbar=False)


@pytest.mark.slow
def test_evidence_and_effects_against_an_independent_rule(fitted: tuple[xr.Dataset, bk.Posterior]) -> None:
    """The priors are smooth and even at τ = 0 and so is the likelihood: Gauss–Legendre in τ itself converges fast."""
    data, post = fitted
    assert post.method == "quadrature"
    y, group, z = data["y"].to_numpy(), data["group"].to_numpy(), transformed(data, "standardised")
    member = (np.unique(group)[:, None] == group).astype(float)
    taus, tau_weights = panels([0.0, 0.4, 1.0, 2.0, 6.0], 11)
    sigmas, sigma_weights = panels([0.1, 0.3, 0.5, 0.8, 1.5, 5.0], 9)
    a, b = (t.ravel() for t in np.meshgrid(taus, taus, indexing="ij"))
    weights = np.outer(tau_weights, tau_weights).ravel()
    log_prior = PRIORS["half_normal"](0.8).logpdf(a) + PRIORS["half_normal"](0.6).logpdf(b)
    mean, _ = moments(z, group, 1.0, np.ones(1), 1.0, SETTINGS)
    base = moments(z, group, 0.0, np.zeros(1), 0.0, SETTINGS)[1]
    same = member.T @ member
    between = a[:, None, None] ** 2 * same + b[:, None, None] ** 2 * same * np.outer(z, z)
    # Covariance of every group's intercept and slope with y, and their own variances.
    of_a = SETTINGS["intercept_scale"] ** 2 + a[:, None, None] ** 2 * member
    of_b = (SETTINGS["slope_scale"] ** 2 + b[:, None, None] ** 2 * member) * z[:, 0]
    cross = np.concatenate([of_a, of_b], axis=1)
    groups = len(member)
    own = np.concatenate(
        [
            np.tile(SETTINGS["intercept_scale"] ** 2 + a[:, None] ** 2, groups),
            np.tile(SETTINGS["slope_scale"] ** 2 + b[:, None] ** 2, groups),
        ],
        axis=1,
    )
    prior_mean = np.repeat([SETTINGS["intercept_mean"], SETTINGS["slope_mean"]], groups)
    values, vectors = np.linalg.eigh(base + between)
    rotated = vectors.mT @ np.concatenate([np.tile((y - mean)[:, None], (len(a), 1, 1)), cross.mT], axis=2)
    logs, firsts, seconds = [], [], []
    for sigma, weight in zip(sigmas, sigma_weights, strict=True):
        variance = values + sigma**2
        solved = rotated / np.sqrt(variance)[:, :, None]
        white, gain = solved[:, :, :1], solved[:, :, 1:]
        log = -0.5 * np.sum(white**2, axis=(1, 2)) - 0.5 * np.log(variance).sum(axis=1)
        logs.append(log + log_prior + np.log(weights) + np.log(weight) + PRIORS["half_normal"](0.7).logpdf(sigma))
        first = prior_mean + np.sum(gain * white, axis=1)
        firsts.append(first)
        seconds.append(own - np.sum(gain**2, axis=1) + first**2)
    log_nodes = np.concatenate(logs) - 0.5 * len(y) * np.log(2 * np.pi)
    evidence = special.logsumexp(log_nodes)
    assert float(post.log_evidence) == pytest.approx(evidence, abs=1e-6)
    share = np.exp(log_nodes - evidence)
    first, second = share @ np.concatenate(firsts), share @ np.concatenate(seconds)
    sd = np.sqrt(second - first**2)
    found = [post.marginal(n) for n in ("intercept", "slope")]
    assert np.concatenate([np.ravel(m.mean()) for m in found]) == pytest.approx(first, abs=1e-6)
    assert np.concatenate([np.ravel(m.std()) for m in found]) == pytest.approx(sd, abs=1e-6)
    draws = post.tree["posterior"].to_dataset().stack(sample=("chain", "draw")).transpose("sample", ...)
    drawn = np.concatenate([draws[n].to_numpy().reshape(1000, -1) for n in ("intercept", "slope")], axis=1)
    assert np.all(np.abs(drawn.mean(axis=0) - first) < 5 * sd / np.sqrt(1000))
    assert drawn.std(axis=0) == pytest.approx(sd, rel=0.1)


@pytest.mark.slow
def test_the_most_likely_scales_are_those_of_restricted_maximum_likelihood() -> None:
    """With next to flat priors of the means, p(y | scales) is the restricted likelihood of statsmodels' MixedLM."""
    data = example_data(MODULE.EXAMPLE, MODULE.VARIABLES)
    flat = {"intercept_scale": 1e3, "slope_scale": 1e3}
    model = MODULE.build(data, logarithms=True, predictors="centred", **flat)
    found = bk.maximize_evidence(model, random_seed=1)
    x = np.log(data["x"].to_numpy())
    design = np.column_stack([np.ones(len(x)), x - x.mean()])
    mixed = sm.MixedLM(np.log(data["y"].to_numpy()), design, data["group"].to_numpy(), exog_re=design)
    diagonal = sm.regression.mixed_linear_model.MixedLMParams.from_components(np.ones(2), np.eye(2))
    fit = mixed.fit(reml=True, free=diagonal)
    expected = np.sqrt([*np.diag(fit.cov_re), fit.scale])
    values = [float(np.ravel(found.point[n])[0]) for n in ("tau_intercept", "tau_slope", "sigma")]
    assert values == pytest.approx(expected, rel=1e-3)


# --- prediction -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_prediction_at_new_rows_of_known_groups(fitted: tuple[xr.Dataset, bk.Posterior]) -> None:
    data, post = fitted
    x_new = np.array([[1.0], [3.0]])
    new = post.predict({"x": x_new, "group": ["west", "north"]}, random_seed=2)["y"]
    assert new.sizes == {"chain": 4, "draw": 250, "row": 2}
    codes = [list(post.model.coords["group"]).index(g) for g in ("west", "north")]
    by_code = post.predict({"x": x_new, "group_code": codes}, random_seed=2)["y"]
    xr.testing.assert_equal(new, by_code)
    x = data["x"].to_numpy()
    z = (x_new[:, 0] - x.mean()) / x.std()
    draws = post.tree["posterior"].to_dataset()
    for row, label in enumerate(("west", "north")):
        line = draws["intercept"].sel(group=label) + draws["slope"].sel(group=label, predictor="x0") * z[row]
        noise = (new[..., row] - line) / draws["sigma"]
        assert abs(float(noise.mean())) < 5 / np.sqrt(1000)
        assert float(noise.std()) == pytest.approx(1.0, abs=5 / np.sqrt(2000))


def test_predictors_of_new_rows_are_shifted_by_the_mean_of_their_group() -> None:
    data = simulated()
    model = MODULE.build(data, predictors="within", slopes="shared", noise_scale=1e-6)
    x, group = data["x"].to_numpy()[:, 0], data["group"].to_numpy()
    mean = model["y"].owner.op.dist_params(model["y"].owner)[0]
    pm.set_data({"x": [[1.0], [5.0]], "group_code": [0, 2]}, model=model)
    found = compile_small([model["intercept"], model["slope"]], mean)(np.arange(4.0), np.array([2.0]))
    codes = np.array([0, 2])
    means = [x[group == label].mean() for label in np.unique(group)[codes]]
    assert found == pytest.approx(codes + 2 * (np.array([1.0, 5.0]) - means))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"group": ["west", "atlantis"]}, r"the new values of 'group' have 'atlantis', .* it knows north, south, west"),
        ({"group_code": [0, 3]}, r"the new values of 'group_code' are not all codes of a known label, 0 to 2"),
        ({"group_code": [0, -1]}, r"the new values of 'group_code' are not all codes of a known label, 0 to 2"),
        ({"group": ["west", "west"], "group_code": [0, 1]}, r"both 'group' and 'group_code'; give the labels or the"),
    ],
)
def test_rows_of_unknown_groups_are_refused(
    fitted: tuple[xr.Dataset, bk.Posterior], new: dict[str, Any], message: str
) -> None:
    _, post = fitted
    with pytest.raises(DataError, match=message):
        post.predict({"x": np.ones((2, 1)), **new}, random_seed=2)


@pytest.mark.slow
def test_labels_that_are_whole_numbers() -> None:
    table = pd.DataFrame({"y": [1.0, 2, 2, 4], "x": [0.0, 1, 0, 1], "group": [30, 10, 10, 30]})
    model = MODULE.build(prepare(table, MODULE.VARIABLES), slopes="shared")
    assert model.coords["group"] == (10, 30)
    post = bk.infer(model, draws=100, random_seed=1, progressbar=False)
    new = {"x": np.ones((2, 1))}
    drawn = [post.predict({**new, "group": labels}, random_seed=1)["y"] for labels in ([30, 10], ["30", "10"])]
    drawn.append(post.predict({**new, "group_code": [1, 0]}, random_seed=1)["y"])
    xr.testing.assert_equal(drawn[0], drawn[1])
    xr.testing.assert_equal(drawn[0], drawn[2])
    with pytest.raises(DataError, match="'0', which the model was not fitted to; it knows 10, 30"):
        post.predict({**new, "group": [0, 1]})


# --- data that do not fit, and data that are thin ---------------------------------------------------------------------


@pytest.mark.slow
def test_one_group_is_answered_and_its_scales_stay_near_their_prior() -> None:
    data = simulated(groups=1, rows=8)
    model = MODULE.build(data, slopes="shared", **{k: v for k, v in SETTINGS.items() if k != "slope_spread"})
    post = bk.infer(model, draws=40, random_seed=1, progressbar=False)
    assert post.method == "quadrature"
    assert model.coords["group"] == ("south",)
    assert float(post.marginal("tau_intercept").mean()) == pytest.approx(PRIORS["half_normal"](0.8).mean(), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("predictors", ["raw", "standardised", "within"])
def test_one_row_and_a_constant_predictor_have_a_density(predictors: str) -> None:
    rows = {"raw": 1, "standardised": 1}.get(predictors, 2)
    table = pd.DataFrame({"y": [1.0, 3.0], "x": [2.0, 2.0], "group": ["a", "b"]})[:rows]
    space = Unconstrained(bk.collapse(MODULE.build(prepare(table, MODULE.VARIABLES), predictors=predictors)))
    assert np.isfinite(space.log_density(space.start)[0])


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"g": ["a", None, "b"]}, {}, r"column 'g', row 2: the label is missing; fill it in or drop the row"),
        ({"g": [1.5, 1.0, 2.0]}, {}, r"column 'g', row 1: 1\.5 is not a label; give text or a whole number"),
        ({"x": [1.0, "two", 3.0]}, {}, r"column 'x', row 2: 'two' is not a number; correct it, or name another column"),
        ({"y": [1.0, np.nan, 3.0]}, {}, r"column 'y', row 2: the value is missing"),
        ({"y": [1.0, 0.0, 3.0]}, {"logarithms": True}, r"column 'y', row 2: 0 has no logarithm; drop the row, or set"),
        ({"x": [-1.0, 2.0, 3.0]}, {"logarithms": True}, r"column 'x', row 1: -1 has no logarithm; drop the row, or"),
        ({}, {"slopes": "none"}, r"option slopes is 'none'; it must be one of varying, shared"),
    ],
)
def test_data_that_the_model_cannot_explain_are_refused(
    change: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    table = pd.DataFrame({"y": [1.0, 2.0, 3.0], "x": [1.0, 2.0, 3.0], "g": ["a", "b", "a"]} | change)
    with pytest.raises(BayeskitError, match=message):
        MODULE.build(prepare(table, MODULE.VARIABLES, {"group": "g"}), **options)


def test_the_command_line_reads_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "strength,density,mill\n1,1,A\n2,2,B\n2.5,3,A\n4,4,B\n"
    (tmp_path / "mills.csv").write_text(text)
    arguments = ["--data", str(tmp_path / "mills.csv"), "--columns", "y=strength,x=density,group=mill"]
    assert main(["explain", "varying_slopes", *arguments, "--set", "slopes=shared"]) == 0
    assert "tau_intercept, sigma will be integrated by quadrature" in capsys.readouterr().out
    (tmp_path / "mills.csv").write_text(text.replace("2.5,3,A", "2.5,3,"))
    assert main(["explain", "varying_slopes", *arguments]) == 2
    assert "column 'mill', row 3: the label is missing" in capsys.readouterr().err
