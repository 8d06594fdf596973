"""Pictures of mixtures and hidden Markov models: the numbers they show, and that they are drawn."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import special, stats

import bayeskit as bk
from bayeskit.datasets import example_data, load_example, prepare
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.recovery import draw_the_rest
from bayeskit.model.forward_sampling import deterministics
from bayeskit.models import load_model
from bayeskit.reporting.components import allocation_picture, component_picture, gaussian_components, same_component
from bayeskit.reporting.decoding import decoded_series, decoding_picture
from bayeskit.reporting.latent_states import latent_states
from bayeskit.reporting.records import blend, styled
from bayeskit.results.records import LogEvidence, Posterior
from bayeskit.results.tree import build_tree

DRAWS = 12
IRIS = {"y": ("sepal_length", "sepal_width", "petal_length", "petal_width")}


def posterior(model: pm.Model, seed: int = 0) -> Posterior:
    """A few draws around the initial values, without sampling, and the states given each."""
    analysis, rng = analyse(model), np.random.default_rng(seed)
    values: dict[str, np.ndarray] = {}
    for rv in model.free_RVs:
        if rv.name in analysis.plan.remaining:
            start = np.asarray(model.rvs_to_initial_values[rv])
            drawn = start * np.exp(0.03 * rng.normal(size=(DRAWS, *start.shape)))
            simplex = type(rv.owner.op).__name__ == "DirichletRV"
            values[rv.name] = drawn / drawn.sum(axis=-1, keepdims=True) if simplex else drawn
    values = draw_the_rest(analysis, values, DRAWS, rng)
    values |= deterministics(analysis.original, values)
    return Posterior(
        model=model,
        plan=analysis.plan,
        log_evidence=LogEvidence(np.nan, np.inf, "estimated"),
        method="nuts",
        certificate=0.0,
        tree=build_tree(model, values, DRAWS),
        random_seed=seed,
        analysis=analysis,
    )


def flat(post: Posterior, name: str) -> np.ndarray:
    return post.tree["posterior"][name].stack(sample=("chain", "draw")).transpose("sample", ...).to_numpy()


def mixture(columns: tuple[str, ...], **options: Any) -> Posterior:
    module = load_model("gaussian_mixture")
    table = prepare(load_example("iris").iloc[::5], module.VARIABLES, {"y": columns})
    return posterior(module.build(table, components=3, **options))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("covariance", "size"), [("diagonal", 1), ("full", 2), ("spherical", 2), ("tied", 4), ("full", 4), ("diagonal", 4)]
)
def test_components_of_a_gaussian_mixture(covariance: str, size: int) -> None:
    post = mixture(IRIS["y"][-size:], covariance=covariance)
    states = latent_states(post)
    assert states is not None
    found = gaussian_components(post, states)
    assert found is not None
    assert found.projected == (size > 2)
    y = post.tree["observed_data"]["y"].to_numpy()
    weights, mean = flat(post, "weights"), flat(post, "mean")
    if "covariance" in post.tree["posterior"]:
        sigma = np.broadcast_to(flat(post, "covariance").reshape(DRAWS, -1, size, size), (DRAWS, 3, size, size))
    else:
        variance = flat(post, "variance").reshape(DRAWS, 3, -1)
        sigma = np.broadcast_to(variance, (DRAWS, 3, size))[..., None] * np.eye(size)
    terms = np.array(
        [
            [np.log(weights[n, k]) + stats.multivariate_normal(mean[n, k], sigma[n, k]).logpdf(y) for k in range(3)]
            for n in range(DRAWS)
        ]
    )
    responsibilities = special.softmax(terms, axis=1).mean(axis=0).T
    np.testing.assert_allclose(found.responsibilities, responsibilities, atol=1e-10)
    if size <= 2:
        density = stats.multivariate_normal(mean[3, 1], sigma[3, 1]).pdf(y)
        np.testing.assert_allclose(found.densities(y)[3, 1], density, rtol=1e-10)
    else:
        # The mass of a projection is that of the whole.
        side = np.linspace(-12, 12, 121)
        grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
        assert found.densities(grid)[0].sum(axis=-1) * 0.04 == pytest.approx(1.0, abs=1e-3)
    with styled():
        picture = component_picture(found)
    words = {1: "beneath, the probability", 2: "petal_length and petal_width", 4: "two leading principal axes"}
    assert words[size] in picture.caption
    assert len(picture.data) > 5000


def test_draws_that_exchange_labels_are_relabelled_before_they_are_averaged() -> None:
    post = mixture(IRIS["y"][2:3], covariance="spherical")
    states = latent_states(post)
    assert states is not None and not states.relabelled
    exchanged = post.tree.copy(deep=True)
    draws = exchanged["posterior"].to_dataset()
    for name in ("weights", "mean", "variance"):
        draws[name].to_numpy()[:, 1::2] = draws[name].to_numpy()[:, 1::2, ::-1]
    exchanged["posterior"] = xr.DataTree(draws)
    again = latent_states(dataclasses.replace(post, tree=exchanged))
    assert again is not None and again.relabelled
    order = np.argsort(again.parameters[0].mean(axis=0).ravel())
    wanted = np.argsort(states.parameters[0].mean(axis=0).ravel())
    np.testing.assert_allclose(again.probabilities[..., order], states.probabilities[..., wanted], atol=1e-12)


def test_colours_are_mixed_as_the_components_are_responsible() -> None:
    pure, half = blend(np.eye(2)), blend(np.array([[0.5, 0.5]]))
    np.testing.assert_allclose(half[0], pure.mean(axis=0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("emissions", "sequences"), [("normal", False), ("poisson", True), ("categorical", True), ("categorical", False)]
)
def test_decoded_series(emissions: str, sequences: bool) -> None:
    module = load_model("hidden_markov")
    y = np.random.default_rng(1).integers(3, size=25).astype(float)
    y[4] = np.nan
    names = np.array(list("abbab" * 5))
    table = pd.DataFrame({"y": y, "when": [f"day {k}" for k in range(25)], "sequence": names})
    columns = {"row": "when"} | ({"sequence": "sequence"} if sequences else {})
    data = prepare(table if sequences else table.drop(columns="sequence"), module.VARIABLES, columns)
    post = posterior(module.build(data, emissions=emissions, initial="dirichlet"))
    states = latent_states(post)
    assert states is not None
    found = decoded_series(post, states)
    assert [s.sequence for s in found] == (["a", "b"] if sequences else [""])
    for k, part in enumerate(found):
        np.testing.assert_array_equal(part.y, y[names == "ab"[k]] if sequences else y)
        np.testing.assert_allclose(part.probabilities.sum(axis=1), 1.0)
        assert (part.levels is None) == (emissions == "categorical")
    if emissions != "categorical":
        name = "mean" if emissions == "normal" else "rate"
        np.testing.assert_allclose(found[0].levels, flat(post, name).mean(axis=0))
    with styled():
        pictures = [decoding_picture(part) for part in found]
    assert all(len(p.data) > 5000 for p in pictures)
    assert pictures[0].caption.startswith("Sequence a: " if sequences else "y in the colours")


@pytest.mark.slow
def test_rows_with_the_same_component() -> None:
    module = load_model("binomial_mixture")
    data = example_data(module.EXAMPLE, module.VARIABLES)
    post = bk.infer(module.build(data, weights="equal"), draws=400, random_seed=1, progressbar=False)
    found = same_component(post)
    assert found is not None
    name, what, pairs, labels = found
    assert (name, what, labels.tolist()) == ("z", "successes", [5, 9, 8, 4, 7])
    np.testing.assert_allclose(pairs, np.mean([np.equal.outer(row, row) for row in flat(post, "z")], axis=0))
    with styled():
        assert "does not depend on how they are labelled" in allocation_picture(*found).caption
    assert same_component(mixture(IRIS["y"])) is not None


def test_models_without_states_have_no_such_picture() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        pm.Normal("y", mu, 1.0, observed=np.arange(5.0))
    post = bk.infer(model, draws=40, random_seed=1)
    assert latent_states(post) is None
    assert same_component(post) is None


def test_parameters_that_change_from_row_to_row_have_no_picture() -> None:
    """A regression with a hidden component has no density that is the same for all rows."""
    with pm.Model(coords={"row": np.arange(14)}) as model:
        slope = pm.Normal("slope", 0.0, 1.0, shape=2, initval=[0.5, 2.0])
        z = pm.Categorical("z", p=[0.5, 0.5], dims="row")
        pm.Normal("y", slope[z] * np.arange(14), 1.0, observed=np.arange(14.0), dims="row")
    assert latent_states(posterior(model)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("coords", "dims", "names"),
    [
        ({}, None, ("0", "1")),
        ({"state": ["calm", "wild"]}, "state", ("calm", "wild")),
        ({"state": [1, 2], "row": np.arange(30)}, "state", ("1", "2")),
        ({"state": ["calm", "wild"], "other": ["a", "b"]}, "state", ("0", "1")),  # which of the two is not known
    ],
)
def test_states_are_called_what_the_tables_call_them(coords: Any, dims: str | None, names: tuple[str, ...]) -> None:
    y = np.random.default_rng(3).normal(size=30) + np.repeat([0.0, 4.0], 15)
    shape = {"dims": dims} if dims else {"shape": 2}
    with pm.Model(coords=coords) as model:
        if "other" in coords:
            pm.Normal("beside", dims="other")
        mean = pm.Normal("mean", 0.0, 5.0, initval=np.array([0.0, 4.0]), **shape)
        z = pm.Categorical("z", [0.5, 0.5], shape=30)
        pm.Normal("y", mean[z], 1.0, observed=y)
    post = posterior(model)
    states = latent_states(post)
    assert states is not None and states.labels == names
    found = gaussian_components(post, states)
    assert found is not None and found.names == names
    series = dataclasses.replace(states, kind="chain")
    (decoded,) = decoded_series(post, series)
    assert decoded.states == names
    with styled():
        plane = component_picture(found), decoding_picture(decoded)
    assert all(picture.data for picture in plane)
