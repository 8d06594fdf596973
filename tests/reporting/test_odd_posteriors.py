"""Pages of posteriors that leave something out: no data, a Potential, draws without a histogram, categories by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats

import bayeskit as bk
from bayeskit.errors import ModelError
from bayeskit.reporting import categories, checks, figures, formulas, sections
from bayeskit.reporting.records import Section, styled
from bayeskit.results.records import Posterior
from bayeskit.validation.predictive_checks import data_kinds

QUIET: dict[str, Any] = {"random_seed": 1, "progressbar": False}


def fitted(build: Callable[[], object], draws: int = 400, **coords: list[str]) -> Posterior:
    with warnings.catch_warnings(), pm.Model(coords=coords) as model:
        warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
        build()
    return bk.infer(model, draws=draws, **QUIET)


def sections_of(post: Posterior, *names: str) -> dict[str, Section]:
    """All of a page, or those that are named alone: what is not asked is not drawn."""
    return {s.key: s for s in sections.build_sections(post, chosen=names or None)}


def prior_only() -> None:
    pm.Normal("v", 0.0, 3.0)


def funnel() -> None:
    pm.Normal("x", 0.0, pm.math.exp(pm.Normal("v", 0.0, 3.0)))


def only_potential() -> None:
    v = pm.Normal("v", 0.0, 3.0)
    pm.Potential("seen", pm.logp(pm.Normal.dist(v, 1.0), np.array([1.0, 2.0, 0.5])).sum())


def censored() -> None:
    rate = pm.Gamma("rate", 2.0, 2.0)
    pm.Exponential("t", rate, observed=[0.5, 1.2, 0.3])
    pm.Potential("alive", -rate * 6.0)


def plain() -> None:
    pm.Exponential("t", pm.Gamma("rate", 2.0, 2.0), observed=[0.5, 1.2, 0.3])


# no data, and Potentials


@pytest.mark.slow
@pytest.mark.parametrize("build", [prior_only, funnel, only_potential])
def test_without_an_observed_variable_there_is_a_page_and_a_file(build: Callable[[], object], tmp_path: Path) -> None:
    post = fitted(build)
    loaded = bk.load(post.save(tmp_path / "post.nc"))
    with_model = bk.load(tmp_path / "post.nc", model=post.model)
    for one in (post, loaded, with_model):
        parts = sections_of(one)
        assert "predictive" not in parts
        asked = "What do the Potentials (seen) say about v?" if build is only_potential else "no observed variable"
        assert asked in parts["verdict"].paragraphs[0]
    assert bk.report(post, tmp_path / "post.html").exists()
    assert loaded.summary().equals(post.summary())


@pytest.mark.parametrize("build", [prior_only, funnel, only_potential])
@pytest.mark.parametrize("ask", ["predict", "posterior_predictive", "prior_predictive"])
def test_where_nothing_was_observed_nothing_is_predicted(build: Callable[[], object], ask: str) -> None:
    with pytest.raises(ModelError, match="nothing to predict: the model has no observed variable") as caught:
        getattr(fitted(build), ask)(random_seed=1)
    assert ("Potential (seen)" in str(caught.value)) == (build is only_potential)


def test_a_deterministic_is_predicted_without_data() -> None:
    post = fitted(lambda: (prior_only(), pm.Deterministic("twice", 2 * pm.modelcontext(None)["v"]))[0])
    np.testing.assert_allclose(post.predict(var_names=["twice"])["twice"], 2 * post.tree["posterior"]["v"])


@pytest.mark.slow
def test_replicated_data_say_that_they_do_not_know_of_a_potential() -> None:
    """Warnings are errors here: neither PyMC's on Potentials nor another may come out of a page or a prediction."""
    post = fitted(censored, 1000)
    section = sections_of(post)["predictive"]
    assert "Potentials (alive)" in section.paragraphs[1]
    assert section.pictures[0].caption.endswith("know nothing of alive.")
    assert not any("Potential" in p for p in sections_of(fitted(plain), "predictive")["predictive"].paragraphs)
    # Gamma(2 + 3, 2 + 2 + 6), and an Exponential of that rate: P(t > 1) = (10 / 11)^5.
    share = float((post.predict(random_seed=2)["t"] > 1).mean(("chain", "draw"))[0])
    right = (10 / 11) ** 5
    assert abs(share - right) < 5 * np.sqrt(right * (1 - right) / 1000)


def test_what_cannot_be_drawn_has_a_page_that_says_so() -> None:
    def build() -> None:
        mu = pm.Normal("mu")
        pm.CustomDist("y", mu, logp=lambda y, mu: pm.logp(pm.Normal.dist(mu, 1.0), y), observed=np.zeros(4))

    post = fitted(build)
    assert "random=" in sections_of(post)["predictive"].paragraphs[0]
    with pytest.raises(ModelError, match="PyMC cannot draw from this model"):
        post.predict()


# draws without a histogram

ODD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "constant": (lambda p: p * 0 + 3, "every draw is 3"),
    "not a number": (lambda p: pm.math.log(p - 2), "no draw is finite"),
    "infinite": (lambda p: -1 / (p * 0), "no draw is finite"),
    "partly": (lambda p: pm.math.log(p - 0.12), "of the draws are not finite"),
    "ulps": (lambda p: 1e15 + p, "but for rounding"),
    "one ulp": (lambda p: 1e16 + 0.1 * p, "every draw is 1e+16"),
    "true": (lambda p: p > -1, "every draw is 1"),
    "code": (lambda p: (p > -1).astype("int8"), "every draw is 1"),
    "huge": (lambda p: np.asarray(1e308) * p, "out of what can be drawn"),
    "tiny": (lambda p: np.asarray(1e-310) * p, "out of what can be drawn"),
    "plain": (lambda p: p + 5, ""),
    "large": (lambda p: 1e8 + p, ""),
    "small": (lambda p: np.asarray(1e-200) * p, ""),
    "whether": (lambda p: p > 0.12, ""),
    "zero inflated": (lambda p: pm.math.maximum(p - 0.12, 0), ""),
}


@pytest.fixture(scope="module")
def odd() -> Posterior:
    def build() -> None:
        p = pm.Beta("p", 1.0, 1.0)
        pm.Binomial("k", 100, p, observed=12)
        for name, (make, _) in ODD.items():
            pm.Deterministic(name, make(p))
        entries = [p * 0 + 1, p, pm.math.log(p - 0.12), 1 / (p * 0)]
        pm.Deterministic("entries", pt.stack([*entries]))
        pm.Deterministic("many", pt.stack([*entries, *(k * p for k in range(10))]))

    return fitted(build)


@pytest.mark.parametrize("name", ODD)
def test_draws_without_a_histogram_are_drawn_in_words(name: str, odd: Posterior) -> None:
    draws = odd.tree["posterior"][name].to_numpy()
    why = figures.no_histogram(draws.astype(int) if draws.dtype == bool else draws)
    assert ODD[name][1] in why and bool(why) == bool(ODD[name][1])
    with styled():
        picture = figures.marginal_picture(odd, (name,))
    assert picture is not None and picture.data


def test_entries_without_a_histogram_leave_the_others_theirs(odd: Posterior, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = odd.tree["posterior"].to_dataset()[["entries"]]
    before, drawn, said = draws.copy(deep=True), list[np.ndarray](), list[str]()
    monkeypatch.setattr(figures, "_draw_histogram", lambda axes, values, sampled: drawn.append(values))
    monkeypatch.setattr(figures, "say_instead", lambda axes, why: said.append(axes.get_title()))
    with styled():
        figures.marginal_picture(odd, ("entries",))
    assert [title[title.index("[") :] for title in said] == ["[0]", "[2]", "[3]"]
    xr.testing.assert_identical(draws, before)
    np.testing.assert_array_equal(drawn, [draws["entries"].to_numpy()[..., 1].ravel()])
    with styled():
        (picture,) = figures.interval_pictures(odd, ("many",))
    assert picture.caption.endswith("Where a draw is not finite there is none.")


@pytest.mark.slow
def test_the_page_and_the_summary_of_odd_draws(odd: Posterior, tmp_path: Path) -> None:
    table = odd.summary()
    assert table.loc["constant", "mean"] == 3 and table.loc["constant", "sd"] == 0
    assert table.loc["infinite", "mean"] == -np.inf and np.isnan(table.loc["partly", "mean"])
    assert bk.report(odd, tmp_path / "odd.html").exists()


@pytest.mark.parametrize(
    ("observed", "predicted", "words"),
    [
        (
            np.zeros(1, int),
            np.zeros((2, 50, 1), int),
            "every draw is 0 of the replicated data; the observed value is 0",
        ),
        (np.zeros(20, int), np.zeros((2, 50, 20), int), "The share of each category in replicated data"),
        (
            np.zeros(3),
            np.where(np.arange(300) % 3 == 0, np.inf, 1.0).reshape(2, 50, 3),
            "33 % of the replicated values",
        ),
        (2.0**63 + 2048.0 * np.arange(20), 2.0**63 + np.zeros((2, 50, 20)), "Distribution functions"),
    ],
    ids=["one value", "proportion", "infinite", "ulps"],
)
def test_checks_of_odd_replicated_values(observed: np.ndarray, predicted: np.ndarray, words: str) -> None:
    dims = ["chain", "draw", "row"]
    with styled():
        values = xr.DataArray(observed, dims=["row"]), xr.DataArray(predicted, dims=dims)
        picture, *_ = checks._pictures_of(checks._Checked("y", *values, {}, False), np.random.default_rng(1))
    assert words in picture.caption


def test_masked_counts_have_a_page() -> None:
    data = np.ma.masked_array([3, 4, 5, -1], mask=[0, 0, 0, 1])
    post = fitted(lambda: pm.Poisson("y", pm.Gamma("rate", 2.0, 0.1), observed=data))
    assert sections_of(post)["predictive"].pictures


@pytest.mark.slow
def test_a_scalar_for_which_no_panel_is_left_has_an_interval() -> None:
    def build() -> None:
        scalars = [pm.Normal(f"a{k}") for k in range(figures.MAX_PANELS + 2)]
        pm.Normal("y", pt.stack(scalars), 1.0, observed=np.zeros(len(scalars)))

    section = sections_of(fitted(build), "posterior")["posterior"]
    assert [picture.caption.partition(":")[0] for picture in section.pictures[1:]] == ["a12", "a13"]


# categories

COLOURS = ["red", "white", "rosé"]
CODES = np.array([0, 2, 2, 1, 2, 2, 0, 1, 2, 2, 2, 0, 1, 2])


def test_categories_are_shown_by_their_names(tmp_path: Path) -> None:
    post = fitted(
        lambda: pm.Categorical("wine", pm.Dirichlet("p", np.ones(3), dims="colour"), observed=CODES),
        colour=COLOURS,
    )
    assert data_kinds.category_labels(post.model) == {"wine": tuple(COLOURS)}
    caption = sections_of(post, "predictive")["predictive"].pictures[0].caption
    assert "share of each category" in caption
    loaded = bk.load(post.save(tmp_path / "post.nc"))
    assert sections_of(loaded, "predictive")["predictive"].pictures[0].caption == caption


def test_shares_of_categories_are_those_of_the_data_and_of_the_predictive_distribution() -> None:
    """Given Dirichlet(1 + n), the number of a category in new data is beta-binomial."""
    post = fitted(
        lambda: pm.Categorical("wine", pm.Dirichlet("p", np.ones(3), dims="colour"), observed=CODES),
        4000,
        colour=COLOURS,
    )
    observed = post.tree["observed_data"]["wine"].to_numpy()
    drawn = post.posterior_predictive(random_seed=3)["wine"].to_numpy().reshape(4000, -1)
    with styled():
        figure, _ = categories.category_figure({"wine": (observed, drawn)}, COLOURS)
        (axes,) = figure.axes
        names = [label.get_text() for label in axes.get_xticklabels()]
        heights = np.array([bar.get_height() for bar in axes.patches])
        dots = np.asarray(axes.lines[-1].get_ydata())
    counts = np.bincount(CODES)
    exact = stats.betabinom(14, 1 + counts, 2 + 14 - counts)
    assert names == COLOURS
    np.testing.assert_allclose(dots, counts / 14)
    assert np.all(np.abs(heights - exact.mean() / 14) < 5 * exact.std() / 14 / np.sqrt(4000))


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (lambda: pm.Categorical("y", pm.Dirichlet("p", np.ones(3)), observed=2), "category"),
        (
            lambda: pm.Categorical("y", pm.Dirichlet("p", np.ones((4, 3))), observed=CODES[:12].reshape(3, 4)),
            "category",
        ),
        (lambda: pm.Bernoulli("y", pm.Beta("p", 1.0, 1.0), observed=CODES > 1), "binary"),
        (lambda: pm.Poisson("y", pm.Gamma("p", 1.0, 1.0), observed=CODES), "rootogram"),
    ],
)
def test_only_categories_are_drawn_as_such(build: Callable[[], object], kind: str) -> None:
    post = fitted(build)
    labels = data_kinds.category_labels(post.model)
    observed = post.tree["observed_data"]["y"]
    observed = observed.assign_attrs(labels=labels["y"]) if "y" in labels else observed
    assert checks.kind_of_check(observed, post.posterior_predictive()["y"]) == kind


# the first table, and formulas


def test_the_first_table_gives_the_evidence_with_its_label_and_error() -> None:
    post = fitted(plain)
    rows = dict(sections_of(post, "verdict")["verdict"].tables[0].rows)
    assert rows["log evidence"] == post.log_evidence.value
    assert rows["label"] == "exact"
    assert rows["error (rounding)"] == pytest.approx(post.log_evidence.error, rel=0.05)
    # An estimate has no digits beyond the second of its standard error.
    estimate = replace(post.log_evidence, value=-70.76663112, error=0.00068, label="estimated")
    rows = dict(sections_of(replace(post, log_evidence=estimate), "verdict")["verdict"].tables[0].rows)
    assert rows["log evidence"] == -70.76663


def test_formulas_have_the_brackets_that_they_need() -> None:
    x = np.arange(40.0)
    with pm.Model() as model:
        a, b, c = (pm.HalfNormal(n, shape=40) for n in "abc")
        s = pm.HalfNormal("s")
        pm.Deterministic("picked", (a + b * x)[0])
        pm.Deterministic("root", (a**0.5)[1])
        pm.Deterministic("called", pm.math.exp(a + b)[1])
        pm.Deterministic("twice", a[2:3][0] * pm.math.exp(a + b))
        pm.Deterministic("power", (a**b) ** c)
        pm.Deterministic("tower", a ** (b**c))
        pm.Deterministic("minus", (-a) ** 2)
        pm.Deterministic("square", (a + b) ** 2)
        pm.Deterministic("spread", pt.full((5,), s**0.5)[pt.as_tensor([0, 3])])
        pm.Deterministic("plain", a[0] + b[1])
    texts = {t.name: t.text for t in formulas.describe_variables(model)}
    assert texts["picked"] == "(a + b * [0, 1, …] (40 numbers))[0]"
    assert texts["root"] in ("(a ** 0.5)[1]", "sqrt(a)[1]")
    assert texts["called"] == "exp(a + b)[1]"
    assert texts["power"] == "(a ** b) ** c"
    assert texts["tower"] in ("a ** (b ** c)", "a ** b ** c")
    assert texts["minus"] == "(-a) ** 2"
    assert texts["square"] == "(a + b) ** 2"
    assert texts["spread"] in ("s ** 0.5", "sqrt(s)")
    assert texts["plain"] == "a[0] + b[1]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "There are no observations that could speak against it."),
        ([3.0], "One observed value is too few to speak against it."),
        ([0.3, 0.4], "speaks against it, but 2 observed values show a gross misfit at most."),
        (np.linspace(-1, 1, 8).tolist(), "Nothing that was looked at speaks against it."),
    ],
)
def test_the_verdict_says_where_there_are_too_few_observations_to_judge_by(values: list[float], said: str) -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.0, 3.0), 1.0, observed=np.array(values))
    post = bk.infer(model, draws=400, random_seed=1, progressbar=False)
    assert said in bk.report_section(post, "verdict").paragraphs[0]


def test_a_process_at_new_places_without_dims_has_a_page(tmp_path: Path) -> None:
    places = np.linspace(0.0, 10.0, 12)
    with pm.Model() as model:
        given, new = pm.Data("X", places[:, None]), pm.Data("X_new", [[2.5], [5.0], [11.0]])
        process = pm.gp.Marginal(cov_func=pm.gp.cov.Matern32(1, 1.5))
        process.marginal_likelihood("y", X=given, y=np.sin(places), sigma=pm.HalfNormal("noise", 0.5))
        process.conditional("f_new", new)
    post = bk.infer(model, draws=100, **QUIET)
    bk.report(post, tmp_path / "page.html")
    assert "f_new" in (tmp_path / "page.html").read_text()
