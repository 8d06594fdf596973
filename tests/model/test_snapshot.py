"""A posterior is that of the data it was fitted to: every query answers as before after ``pm.set_data``."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayeskit as bk
from bayeskit.graphs.compile import small_mode
from bayeskit.model.snapshot import Snapshot

RNG = np.random.default_rng(11)
X = RNG.normal(size=12)
Y = 1.0 + 2.0 * X + 0.5 * RNG.normal(size=12)
CODES = np.repeat([0, 1], 6)
OTHER: dict[str, dict[str, Any]] = {
    "values": {"x": X[::-1] * 3.0 + 1.0, "data": Y[::-1] - 7.0},
    "length": {"x": np.linspace(-9.0, 9.0, 5), "data": np.linspace(50.0, 70.0, 5)},
}


def line() -> pm.Model:
    with pm.Model(coords={"row": np.arange(12)}) as model:
        x = pm.Data("x", X, dims="row")
        data = pm.Data("data", Y, dims="row")
        w = pm.Normal("w", 0.0, 3.0, shape=2)
        pm.Normal("y", w[0] + w[1] * x, 0.5, observed=data, dims="row")
    return model


def two_means() -> pm.Model:
    with pm.Model() as model:
        data = pm.Data("data", np.where(CODES == 0, -2.0, 3.0) + 0.3 * X)
        mu = pm.Laplace("mu", 0.0, 4.0, shape=2)
        z = pm.Categorical("z", [0.5, 0.5], shape=data.shape)
        pm.Normal("y", mu[z], 1.0, observed=data)
    return model


def classes() -> pm.Model:
    with pm.Model(coords={"class": ["a", "b"], "row": np.arange(12)}) as model:
        codes = pm.Data("codes", CODES)
        data = pm.Data("data", X + 2.0 * CODES)
        p = pm.Dirichlet("p", np.ones(2), dims="class")
        label = pm.Categorical("label", p, observed=codes, dims="row")
        mu = pm.Normal("mu", 0.0, 3.0, dims="class")
        pm.Normal("x", mu[label], 1.0, observed=data, dims="row")
    return model


def change(model: pm.Model, kind: str) -> None:
    other = {str(v.name): OTHER[kind][str(v.name)] for v in model.data_vars if v.name != "codes"}
    if "codes" in model.named_vars:
        other["codes"] = np.zeros(len(other["data"]), dtype=int)
        model.set_dim("row", len(other["data"]), np.arange(len(other["data"])))
    coords = {d: np.arange(len(other["data"])) for d in model.coords if d == "row"}
    pm.set_data(other, model=model, coords=coords)


def same(one: Any, two: Any) -> None:
    xr.testing.assert_equal(one, two)


@pytest.fixture(scope="module")
def fitted() -> dict[str, bk.Posterior]:
    models = {"line": line(), "two_means": two_means(), "classes": classes()}
    return {n: bk.infer(m, draws=200, random_seed=5, progressbar=False) for n, m in models.items()}


def new_line(post: bk.Posterior) -> xr.Dataset:
    return post.predict({"x": [0.0, 1.0]}, random_seed=1)


QUERIES: dict[str, tuple[str, Callable[[bk.Posterior], Any]]] = {
    "predict": ("line", new_line),
    "predict at its data": ("line", lambda p: p.predict(random_seed=1)),
    "posterior predictive": ("line", lambda p: fresh(p).posterior_predictive(random_seed=1)),
    "prior predictive": ("line", lambda p: fresh(p).prior_predictive(draws=20, random_seed=1)),
    "responsibilities": ("two_means", lambda p: bk.states(p).responsibilities()),
    "log likelihood": ("two_means", lambda p: bk.states(p).log_likelihood()),
    "next observation": ("two_means", lambda p: bk.states(p).next_observation(random_seed=1)),
    "relabel": ("two_means", lambda p: bk.relabel(p)["posterior"].to_dataset()),
    "classify": ("classes", lambda p: bk.classify(p, {"x": [0.0, 1.0, 4.0]})),
    "classify by draws": ("classes", lambda p: bk.classify(p, {"x": [0.0, 1.0]}, method="estimated")),
}


def fresh(post: bk.Posterior) -> bk.Posterior:
    """The same posterior without the predictive draws that it keeps."""
    for group in ("posterior_predictive", "prior_predictive", "prior"):
        if group in post.tree.children:
            del post.tree[group]
    return post


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHER)
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_does_not_see_what_the_model_was_given_later(
    fitted: dict[str, bk.Posterior], query: str, kind: str
) -> None:
    name, ask = QUERIES[query]
    post = fitted[name]
    with Snapshot.of(post.model).restored():
        before = ask(post)
        change(post.model, kind)
        given = post.model["data"].get_value()
        same(ask(post), before)
        np.testing.assert_array_equal(post.model["data"].get_value(), given)


@pytest.mark.parametrize("kind", OTHER)
def test_states_asked_for_before_the_change_answer_with_the_data_of_before(
    fitted: dict[str, bk.Posterior], kind: str
) -> None:
    post = fitted["two_means"]
    expected = bk.states(post).responsibilities()
    with Snapshot.of(post.model).restored():
        asked = bk.states(post)  # nothing is computed yet
        at = bk.states(post.model, at={"mu": [-2.0, 3.0]})
        known = bk.states(post.model, at={"mu": [-2.0, 3.0]}).responsibilities()
        change(post.model, kind)
        same(asked.responsibilities(), expected)
        same(at.responsibilities(), known)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHER)
def test_a_comparison_compares_what_was_fitted(fitted: dict[str, bk.Posterior], kind: str) -> None:
    def flat() -> pm.Model:
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("m", 0.0, 3.0), 2.0, observed=Y)
        return model

    post = bk.infer(line(), draws=2000, random_seed=5, progressbar=False)
    other = bk.infer(flat(), draws=2000, random_seed=5, progressbar=False)
    before = bk.compare({"line": post, "flat": other})
    change(post.model, kind)
    assert bk.compare({"line": post, "flat": other}).table.equals(before.table)


@pytest.mark.slow
def test_draws_are_judged_on_the_data_of_the_closed_form() -> None:
    with pm.Model() as model:
        data = pm.Data("data", 3)
        theta = pm.Beta("theta", 1.0, 1.0)
        pm.Binomial("y", 10, theta, observed=data)
    post = bk.infer(model, draws=200, random_seed=5, progressbar=False)
    pm.set_data({"data": 9}, model=model)
    assert bk.validate(model, exact=post, draws=1000, random_seed=5, progressbar=False).passed
    assert model["data"].get_value() == 9


@pytest.mark.slow
def test_a_page_says_the_same_after_the_change(fitted: dict[str, bk.Posterior]) -> None:
    from bayeskit.reporting.sections import build_sections

    def words(post: bk.Posterior) -> list[tuple[str, Any, Any]]:
        sections = build_sections(fresh(post))
        return [(s.title, s.paragraphs, [str(t) for t in s.tables]) for s in sections]

    post = fitted["line"]
    with Snapshot.of(post.model).restored():
        before = words(post)
        change(post.model, "length")
        assert words(post) == before


def test_no_query_reads_the_model_again(fitted: dict[str, bk.Posterior], monkeypatch: pytest.MonkeyPatch) -> None:
    from bayeskit.model.log_joint import LogJoint

    def refuse(model: pm.Model) -> Any:
        raise AssertionError(f"{model} was read again")

    monkeypatch.setattr(LogJoint, "from_model", refuse)
    for name, ask in QUERIES.values():
        if name != "classes":  # rows are added there: another model
            ask(fitted[name])


def test_the_analysis_of_a_posterior_has_its_data() -> None:
    """Asked as it is and with other data of one name, it takes the rest from the posterior, not from the model."""
    model = line()
    post = bk.infer(model, draws=4, random_seed=1)
    change(model, "values")
    again = bk.infer(post.analysis, draws=4, random_seed=1)
    assert again.log_evidence.value == post.log_evidence.value
    there = pickle.loads(pickle.dumps(again)).analysis
    assert bk.infer(there, draws=4, random_seed=1).log_evidence.value == post.log_evidence.value
    other = post.analysis.with_data({"data": Y + 1.0})
    with pm.Model() as fresh:
        w = pm.Normal("w", 0.0, 3.0, shape=2)
        pm.Normal("y", w[0] + w[1] * X, 0.5, observed=Y + 1.0)
    expected = bk.infer(fresh, draws=4, random_seed=1).log_evidence.value
    assert bk.infer(other, draws=4, random_seed=1).log_evidence.value == pytest.approx(expected, abs=1e-10)
    again = bk.infer(other.with_data({"data": Y}), draws=4, random_seed=1)
    assert again.log_evidence.value == pytest.approx(post.log_evidence.value, abs=1e-10)


def test_data_that_are_written_into_are_those_of_before() -> None:
    model = line()
    post = bk.infer(model, draws=4, random_seed=1)
    before = post.predict(random_seed=2)["y"]
    model["x"].get_value(borrow=True)[:] = 100.0
    assert np.array_equal(post.predict(random_seed=2)["y"], before)
    assert bk.infer(post.analysis, draws=4, random_seed=1).log_evidence.value == post.log_evidence.value
    assert np.all(model["x"].get_value() == 100.0)


def test_a_snapshot_restores_lengths_and_labels() -> None:
    model = line()
    snapshot = Snapshot.of(model)
    change(model, "length")
    with snapshot.restored():
        assert len(model.coords["row"]) == model.dim_lengths["row"].eval(mode=small_mode()) == 12
        np.testing.assert_array_equal(model["x"].get_value(), X)
        with pytest.raises(RuntimeError), snapshot.restored():
            raise RuntimeError
    assert len(model.coords["row"]) == model.dim_lengths["row"].eval(mode=small_mode()) == 5
    np.testing.assert_array_equal(model["x"].get_value(), OTHER["length"]["x"])
