"""The log likelihood and the log prior of every draw: PyMC's numbers, names, dims and coords, and what ArviZ reads."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pymc_extras as pmx
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from arviz_base import dict_to_dataset
from pytensor.scalar.basic import autocast_float_as
from scipy import stats

from bayeskit.comparison.leave_one_out import loo_from_draws
from bayeskit.errors import ModelError
from bayeskit.inference.ladder import infer
from bayeskit.model.log_joint import LogJoint
from bayeskit.results import log_densities as module
from bayeskit.results.log_densities import log_densities, with_log_densities
from bayeskit.results.records import Posterior

RNG = np.random.default_rng(131)
COORDS = {"group": ["a", "b", "c"], "axis": [10, 20], "row": list(range(0, 12, 2))}
Y = RNG.normal(size=6)
COUNTS = RNG.poisson(2.0, size=6)
PAIRS = RNG.normal(size=(3, 2))


def _binomial() -> None:
    p = pm.Beta("p", 2.0, 3.0, dims="group")
    pm.Binomial("y", 10, p, observed=[1, 2, 3], dims="group")


def _imputed() -> None:
    mean, sd = pm.Normal("mean", 0.0, 10.0), pm.Exponential("sd", 0.3)
    pm.Normal("y", mean, sd, observed=np.ma.masked_invalid([1.0, np.nan, 2.0]))


def _imputed_vectors() -> None:
    mean = pm.Normal("mean", 0.0, 10.0, dims="axis")
    pm.MvNormal("y", mean, np.eye(2) * 2.0, observed=np.ma.masked_invalid([[1.0, np.nan], [2.0, 3.0]]))


def _vectors() -> None:
    mean, scale = pm.Normal("mean", 0.0, 10.0, dims="axis"), pm.Exponential("scale", 1.0)
    pm.MvNormal("y", mean, scale * np.eye(2), observed=PAIRS, dims=("group", "axis"))


def _counts_of_classes() -> None:
    p = pm.Dirichlet("p", [1.0, 2.0], dims="axis")
    pm.Multinomial("y", [5, 6, 7], p, observed=[[1, 4], [2, 4], [3, 4]], dims=("group", "axis"))
    pm.Categorical("z", p, observed=[0, 1, 1])


def _censored_with_potential() -> None:
    mean = pm.Normal("mean", 0.0, 10.0)
    pm.Potential("penalty", -(mean**2))
    pm.Censored("y", pm.Normal.dist(mean, 2.0), lower=-1.0, upper=1.0, observed=np.clip(Y, -1, 1), dims="row")


def _mixture() -> None:
    weights, means = pm.Dirichlet("weights", [1.0, 2.0]), pm.Normal("means", 0.0, 3.0, shape=2)
    pm.NormalMixture("y", weights, means, [1.0, 2.0], observed=Y)


def _labels() -> None:
    weights, means = pm.Dirichlet("weights", [1.0, 2.0]), pm.Normal("means", 0.0, 3.0, shape=2)
    pm.Normal("y", means[pm.Categorical("z", weights, dims="row")], 2.0, observed=Y, dims="row")


def _states() -> None:
    transition = pm.Dirichlet("transition", np.ones((2, 2)))
    start = pm.Categorical.dist([0.5, 0.5])
    states: Any = pmx.DiscreteMarkovChain("states", P=transition, init_dist=start, steps=5)
    pm.Normal("y", pm.Normal("means", 0.0, 3.0, shape=2)[states], 2.0, observed=Y)


def _groups_by_index() -> None:
    code = pm.Data("group_code", np.array([0, 1, 2, 0, 1, 2]), dims="row")
    effect = pm.Normal("effect", pm.Normal("mean", 0.0, 1.0), pm.Exponential("spread", 1.0), dims="group")
    pm.StudentT("y", 4.0, mu=effect[code], sigma=pm.Gamma("scale", 2.0, 1.5), observed=Y, dims="row")


def _random_walk() -> None:
    path = pm.GaussianRandomWalk("path", mu=0.0, sigma=0.5, init_dist=pm.Normal.dist(0.0, 10.0), steps=5)
    pm.Normal("y", path, 0.3, observed=Y)


def _series() -> None:
    pm.AR("y", pm.Normal("slopes", 0.0, 0.3, shape=2), sigma=1.0, init_dist=pm.Normal.dist(0.0, 1.0), observed=Y)


def _loop() -> None:
    decay = pm.Uniform("decay", 0.0, 1.0)
    start = pt.constant(0.0)
    means = pytensor.scan(lambda x, a: a * x + 1.0, [], [start], [decay], n_steps=6, return_updates=False)
    pm.Normal("y", means, 1.0, observed=Y)


def _process() -> None:
    process = pm.gp.Latent(cov_func=pm.gp.cov.Matern32(1, pm.Gamma("length", 2.0, 1.0)))
    pm.Normal("y", process.prior("f", np.arange(6.0)[:, None]), 0.3, observed=Y)


def _two_sets_one_of_them_constant() -> None:
    pm.Normal("fixed", 0.0, 2.0, observed=Y)
    pm.Poisson("y", pt.exp(pm.Normal("level", 0.0, 0.5)), observed=COUNTS)
    pm.Normal("scalar", 1.0, 2.0, observed=3.0)


BODIES: dict[str, Callable[[], None]] = {
    body.__name__.strip("_"): body
    for body in (
        _binomial,
        _imputed,
        _imputed_vectors,
        _vectors,
        _counts_of_classes,
        _censored_with_potential,
        _mixture,
        _labels,
        _states,
        _groups_by_index,
        _random_walk,
        _series,
        _loop,
        _process,
        _two_sets_one_of_them_constant,
    )
}


# PyMC takes the log of what is a small whole number in single precision; ours is held to SciPy's below.
ROUNDED = {"censored_with_potential": 1e-7}


def built(body: Callable[[], None]) -> pm.Model:
    # PyMC computes with a 15.0 in single precision, too, unless it is told to read it otherwise.
    with autocast_float_as("float64"), pm.Model(coords=COORDS) as model, warnings.catch_warnings():
        warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
        body()
    return model


def drawn_from_the_prior(model: pm.Model, chains: int = 2, length: int = 7) -> xr.DataTree:
    with model:
        values = pm.draw(model.free_RVs, chains * length, random_seed=3, mode="FAST_COMPILE")
    named = {rv.name: v.reshape(chains, length, *v.shape[1:]) for rv, v in zip(model.free_RVs, values, strict=True)}
    dims = {name: list(of) for name, of in model.named_vars_to_dims.items()}
    draws = dict_to_dataset(named, coords=COORDS, dims=dims).assign_coords(draw=np.arange(length) * 10)
    return xr.DataTree.from_dict({"posterior": draws})


def by_pymc(model: pm.Model, tree: xr.DataTree, group: str) -> xr.Dataset:
    compute: Any = getattr(pm.stats, f"compute_{group}")
    options: dict[str, Any] = {"progressbar": False, "compile_kwargs": {"mode": "FAST_COMPILE"}}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Detected variables likely created by GP objects", UserWarning)
        return compute(tree, model=model, extend_inferencedata=False, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name_of_body", BODIES)
def test_both_groups_are_those_of_pymc(name_of_body: str) -> None:
    model, tolerance = built(BODIES[name_of_body]), ROUNDED.get(name_of_body, 1e-10)
    tree = drawn_from_the_prior(model)
    found = with_log_densities(model, tree)
    for group in ("log_likelihood", "log_prior"):
        expected, ours = by_pymc(model, tree, group), found[group].to_dataset()
        assert set(ours.data_vars) == set(expected.data_vars)
        assert np.array_equal(ours["draw"], tree["posterior"]["draw"])
        for name, values in expected.data_vars.items():
            assert ours[name].dims == values.dims
            assert set(ours[name].coords) == set(values.coords)
            assert all(np.array_equal(ours[name][c], values[c]) for c in values.coords if c != "draw")
            np.testing.assert_allclose(ours[name], values, rtol=tolerance, atol=tolerance)
    assert set(tree.children) == {"posterior"}


def test_nothing_is_in_single_precision() -> None:
    with pm.Model() as model:
        scale = pm.HalfCauchy("scale", 5.0)
        pm.Normal("y", 0.0, scale, observed=Y)
    found = with_log_densities(model, drawn_from_the_prior(model))
    values = found["posterior"]["scale"].to_numpy()
    np.testing.assert_allclose(found["log_prior"]["scale"], stats.halfcauchy(scale=5).logpdf(values), rtol=1e-13)
    expected = stats.norm(0, values[..., None]).logpdf(Y)
    np.testing.assert_allclose(found["log_likelihood"]["y"], expected, rtol=1e-12)


def test_a_censored_row_has_the_probability_of_its_tail() -> None:
    model = built(_censored_with_potential)
    found = with_log_densities(model, drawn_from_the_prior(model))
    law = stats.norm(found["posterior"]["mean"].to_numpy()[..., None], 2.0)
    y = np.clip(Y, -1, 1)
    expected = np.where(y <= -1, law.logcdf(-1), np.where(y >= 1, law.logsf(1), law.logpdf(y)))
    np.testing.assert_allclose(found["log_likelihood"]["y"], expected, rtol=1e-12)


@pytest.mark.parametrize("held", [1, 30, 10**6])
def test_batches_change_nothing(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = built(_groups_by_index)
    tree = drawn_from_the_prior(model)
    monkeypatch.setattr(module, "HELD", held)
    expected = by_pymc(model, tree, "log_likelihood")["y"]
    found = log_densities(model, tree["posterior"].to_dataset(), ["log_likelihood"])
    np.testing.assert_allclose(found["log_likelihood"]["y"], expected, rtol=1e-10)


def _refused(graphs: Any, replace: Any) -> Any:
    raise NotImplementedError


def _wrong(graphs: Any, replace: Any) -> Any:
    return [2.0 * g for g in pytensor.graph.replace.vectorize_graph(graphs, replace)]


@pytest.mark.slow
@pytest.mark.parametrize("vectorise", [_refused, _wrong])
def test_what_is_not_vectorised_is_left_to_pymc(vectorise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = built(_counts_of_classes)
    tree = drawn_from_the_prior(model)
    monkeypatch.setattr(module, "vectorize_graph", vectorise)
    found = with_log_densities(model, tree)
    for group in ("log_likelihood", "log_prior"):
        for name, values in by_pymc(model, tree, group).data_vars.items():
            np.testing.assert_array_equal(found[group][name], values)


def test_what_is_too_large_to_keep_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    model = built(_groups_by_index)
    monkeypatch.setattr(module, "KEPT", 80)
    with pytest.raises(ModelError, match=r"log_likelihood of 14 draws is 84 numbers, .* 80 are kept; infer with fewer"):
        with_log_densities(model, drawn_from_the_prior(model))


def test_without_draws_or_data_there_is_none() -> None:
    model = built(_binomial)
    with pytest.raises(ModelError, match="no draws"):
        with_log_densities(model, xr.DataTree())
    with pm.Model() as prior:
        pm.Normal("x")
    with pytest.raises(ModelError, match="no observed variable"):
        infer(prior, draws=20, random_seed=1).with_log_likelihood()
    with pm.Model() as null:
        pm.Normal("y", observed=Y)
    with pytest.raises(ModelError, match="no free variable"):
        infer(null, draws=20, random_seed=1).with_log_likelihood()


X = np.arange(12.0) - 6
LINE = 0.5 * X + np.random.default_rng(7).normal(size=12)


def exact_line() -> pm.Model:
    with pm.Model() as model:
        x = pm.Data("x", X)
        variance = pm.InverseGamma("variance", 2.0, 1.0)
        slope = pm.Normal("slope", 0.0, 10 * variance**0.5)
        pm.Normal("y", slope * x, variance**0.5, observed=LINE)
    return model


def line_with_half_normal_scale() -> pm.Model:
    with pm.Model() as model:
        sd = pm.HalfNormal("sd", 3.0)
        pm.Normal("y", pm.Normal("slope", 0.0, 10.0) * X, sd, observed=LINE)
    return model


@pytest.fixture(scope="module")
def posteriors() -> dict[str, Posterior]:
    """One of each label, with what ArviZ reads."""
    found = {
        "exact": infer(exact_line(), draws=1000, random_seed=1),
        "quadrature": infer(line_with_half_normal_scale(), draws=1000, random_seed=1),
        "nuts": infer(line_with_half_normal_scale(), method="nuts", draws=1000, random_seed=1, progressbar=False),
    }
    assert {name: posterior.method for name, posterior in found.items()} == {name: name for name in found}
    return {name: posterior.with_log_likelihood() for name, posterior in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "quadrature", "nuts"])
def test_arviz_answers_from_the_tree(method: str, posteriors: dict[str, Posterior]) -> None:
    posterior = posteriors[method]
    posterior.posterior_predictive(random_seed=2)
    posterior.prior_predictive(random_seed=3)
    tree = posterior.tree
    loo = az.loo(tree, pointwise=True)
    found, note = loo_from_draws(posterior)
    assert found is not None and note == "" and not found.high.any()
    se = np.sqrt(found.elpd.size * np.var(found.elpd, ddof=1))
    assert (found.elpd.sum(), se) == pytest.approx((loo.elpd, loo.se), rel=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a sensitive prior, which is no matter here
        sensitivity = az.psense_summary(tree)
    assert list(sensitivity.index) == list(tree["posterior"].data_vars)
    assert np.isfinite(sensitivity[["prior", "likelihood"]].to_numpy(float)).all()
    assert np.isfinite(az.loo_pit(tree)["y"]).all()
    for plot in (az.plot_psense_dist, az.plot_loo_pit, az.plot_ppc_dist, az.plot_prior_posterior):
        plot(tree, backend="none")


@pytest.mark.slow
def test_arviz_compares_the_trees(posteriors: dict[str, Posterior]) -> None:
    table = az.compare({name: posterior.tree for name, posterior in posteriors.items()})
    assert set(table.index) == set(posteriors)
    # Draws from the same posterior: the difference is Monte Carlo error.
    assert abs(table["elpd"]["quadrature"] - table["elpd"]["nuts"]) < 0.1


def test_the_groups_are_of_the_data_that_were_fitted() -> None:
    model = exact_line()
    posterior = infer(model, draws=100, random_seed=1)
    before = posterior.with_log_likelihood().tree["log_likelihood"]["y"]
    pm.set_data({"x": np.ones(12)}, model=model)
    after = posterior.with_log_likelihood().tree["log_likelihood"]["y"]
    xr.testing.assert_identical(before, after)
    assert "log_likelihood" not in posterior.tree.children


def test_the_densities_are_those_of_the_certificate() -> None:
    model = exact_line()
    tree = infer(model, draws=20, random_seed=1).with_log_likelihood().tree
    parts = [*tree["log_likelihood"].data_vars.values(), *tree["log_prior"].data_vars.values()]
    total = sum(part.sum(dim=[d for d in part.dims if d not in ("chain", "draw")]) for part in parts)
    joint = LogJoint.from_model(model)
    for draw in range(20):
        point = {n: v.isel(chain=0, draw=draw).to_numpy() for n, v in tree["posterior"].data_vars.items()}
        assert float(total[0, draw]) == pytest.approx(joint.logp(point), rel=1e-12)
