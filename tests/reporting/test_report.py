"""The report: what it says against the posterior it is about, and that its page stands alone, whole and safe."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import bayeskit as bk
from bayeskit.errors import BayeskitError
from bayeskit.reporting import checks, curve, figures, formulas, graph, html, projection, sections
from bayeskit.reporting.evidence_sections import evidence_section
from bayeskit.reporting.records import MAX_ROWS, MOST_ROWS, Section, Table, frame_table, styled
from bayeskit.reporting.subject import Subject
from bayeskit.results.records import LogEvidence, Posterior
from bayeskit.validation.predictive_checks import replicated_data

VOID = {"meta", "img", "br", "hr", "link", "input", "wbr"}


def regression(name: str = "slope", rows: int = 16) -> pm.Model:
    """A line with known noise; the slope's posterior is known by hand."""
    x = np.linspace(-1.0, 1.0, rows)
    noise = np.random.default_rng(3).normal(0.0, 0.5, rows)
    with pm.Model() as model:
        data = pm.Data("x", x, dims="row")
        slope = pm.Normal(name, 0.0, 2.0)
        pm.Normal("y", slope * data, 0.5, observed=1.5 * x + noise, dims="row")
    return model


@pytest.fixture(scope="module")
def post() -> Posterior:
    return bk.infer(regression(), draws=1000, random_seed=1, progressbar=False)


@pytest.fixture(scope="module")
def parts(post: Posterior) -> dict[str, Section]:
    return {s.key: s for s in sections.build_sections(post)}


@pytest.fixture(scope="module")
def page(post: Posterior, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = bk.report(post, tmp_path_factory.mktemp("reports") / "new" / "line.html", title="A line")
    return path.read_text(encoding="utf-8")


# what it says


@pytest.mark.slow
def test_sections_in_order(parts: dict[str, Section]) -> None:
    assert list(parts) == ["verdict", *(name for name in sections.SECTIONS if name in parts)]
    assert set(parts) >= {"posterior", "sampler", "predictive", "graph", "priors", "plan", "evidence", "versions"}
    assert all(s.paragraphs or s.text or s.tables for s in parts.values())


def test_posterior_table_is_the_summary(post: Posterior, parts: dict[str, Section]) -> None:
    (table,) = parts["posterior"].tables
    summary = post.summary()
    assert table.columns == ("variable", *summary.columns)
    assert [row[0] for row in table.rows] == list(summary.index)
    np.testing.assert_array_equal([row[1:6] for row in table.rows], summary.iloc[:, :5].to_numpy(dtype=float))


def test_posterior_table_is_right(parts: dict[str, Section]) -> None:
    x = np.linspace(-1, 1, 16)
    observed = 1.5 * x + np.random.default_rng(3).normal(0.0, 0.5, 16)
    precision = 1 / 4 + x @ x / 0.25
    row = dict(zip(parts["posterior"].tables[0].columns, parts["posterior"].tables[0].rows[0], strict=True))
    np.testing.assert_allclose(row["mean"], x @ observed / 0.25 / precision, rtol=1e-9)
    np.testing.assert_allclose(row["sd"], precision**-0.5, rtol=1e-9)


def test_evidence_has_value_error_and_label(post: Posterior, parts: dict[str, Section]) -> None:
    (table,) = parts["evidence"].tables
    assert table.rows == ((post.log_evidence.value, post.log_evidence.error, "exact"),)
    assert any(f"{post.certificate:.1e}" in p for p in parts["evidence"].paragraphs)


def test_plan_is_the_plan(post: Posterior, parts: dict[str, Section]) -> None:
    assert parts["plan"].text == str(post.plan)
    assert parts["plan"].tables[0].rows[0][1:3] == ("slope", post.plan.eliminated[0].family.replace("_", " "))


def test_priors_and_likelihood(parts: dict[str, Section]) -> None:
    prior, likelihood = parts["priors"].tables
    assert prior.rows == (("slope", "Normal(mu=0, sigma=2)", "scalar"),)
    assert likelihood.rows == (("y", "Normal(mu=slope * x, sigma=0.5)", "row (16)"),)


def test_versions_and_seed(parts: dict[str, Section]) -> None:
    versions = dict(parts["versions"].tables[0].rows)
    assert versions["pymc"] == pm.__version__
    assert versions["bayeskit"] == bk.__version__
    assert {"python", "arviz", "numpy", "scipy"} <= set(versions)
    assert parts["versions"].paragraphs == ("Random seed: 1.", "Time: less than ten seconds.")
    assert parts["versions"].text == 'bk.infer(model, method="exact", draws=1000, random_seed=1)'


def test_pictures_of_a_regression(parts: dict[str, Section]) -> None:
    assert len(parts["graph"].pictures) == 1
    assert len(parts["posterior"].pictures) == 1
    assert len(parts["predictive"].pictures) == 3  # the fitted curve, the predictive check, the residuals
    pictures = [p for s in parts.values() for p in s.pictures]
    assert all(p.alt and p.data.startswith((b"<svg", b"\x89PNG")) for p in pictures)


def test_without_evidence_it_says_so(post: Posterior) -> None:
    sampled = replace(post, method="nuts", log_evidence=LogEvidence(np.nan, np.inf, "estimated"), certificate=np.nan)
    section = evidence_section(Subject(sampled))
    assert not section.tables
    assert "not available" in section.paragraphs[0]


@pytest.mark.slow
def test_validation_and_comparison_are_shown(post: Posterior) -> None:
    from bayeskit.validation import judge

    validation = judge(post, post.tree, random_seed=1)
    wider = bk.infer(regression(), draws=1000, random_seed=2, progressbar=False)
    comparison = bk.compare({"a": post, "b": wider}, random_seed=1)
    chosen = ["posterior", "validation", "comparison"]
    made = sections.build_sections(post, validation=validation, comparison=comparison, chosen=chosen)
    parts = {s.key: s for s in made}
    row = dict(zip(parts["validation"].tables[0].columns, parts["validation"].tables[0].rows[0], strict=True))
    assert row["z_mean"] == validation.table["z_mean"].iloc[0]
    assert "agree with the closed form" in parts["validation"].paragraphs[0]
    first = dict(zip(parts["comparison"].tables[0].columns, parts["comparison"].tables[0].rows[0], strict=True))
    assert first["posterior_probability"] == pytest.approx(0.5)
    assert "dashed orange: NUTS" in parts["posterior"].pictures[0].caption


def test_a_long_variable_is_folded_and_what_is_cut_is_said() -> None:
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0, shape=100)
        pm.Poisson("counts", rate, observed=np.arange(100) % 7)
    post = bk.infer(model, draws=400, random_seed=1, progressbar=False)
    section = bk.report_section(post, "posterior")
    assert not section.tables
    (folded,) = section.folded
    assert (folded.title, len(folded.tables[0].rows)) == ("rate: 100 entries", 100)
    page = html.render("rates", [section])
    assert page.count("<details>") == page.count("</details>") == 2
    assert f"{100 - MAX_ROWS} more rows" in page
    assert f"{100 - figures.MAX_INTERVALS} are not shown" in section.pictures[0].caption


def test_of_a_table_that_has_no_room_the_rest_is_counted() -> None:
    table = frame_table(pd.DataFrame({"value": np.arange(MOST_ROWS + 7.0)}), "row", "")
    assert len(table.rows) == MOST_ROWS
    assert table.note == f"7 of {MOST_ROWS + 7} rows are not shown."


# formulas


def formula_of(**names: object) -> str:
    """Text of the variable ``v`` of a model in which every name is a keyword argument's function of the model."""
    with pm.Model():
        for name, make in names.items():
            make(name)  # type: ignore[operator]
        model = pm.modelcontext(None)
    return next(t.text for t in formulas.describe_variables(model) if t.name == "v")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda n: pm.Gamma(n, 2, 3), "Gamma(alpha=2, beta=3)"),
        (lambda n: pm.Gamma(n, mu=2, sigma=1), "Gamma(alpha=4, beta=2)"),
        (lambda n: pm.Exponential(n, 5), "Exponential(lam=5)"),
        (lambda n: pm.Exponential(n, scale=0.5), "Exponential(scale=0.5)"),
        (lambda n: pm.HalfNormal(n, 3), "HalfNormal(sigma=3)"),
        (lambda n: pm.Normal(n, 1, tau=4), "Normal(mu=1, tau=4)"),
        (lambda n: pm.Dirichlet(n, np.ones(5)), "Dirichlet(a=1 (5 times))"),
        (lambda n: pm.Categorical(n, [0.2, 0.8]), "Categorical(p=[0.2, 0.8])"),
        (lambda n: pm.Wishart(n, nu=4, V=2 * np.eye(3)), "Wishart(nu=4, V=2 · identity (3×3))"),
        (
            lambda n: pm.MvNormal(n, np.zeros(3), cov=np.eye(3)),
            "MultivariateNormal(mu=0 (3 times), cov=identity (3×3))",
        ),
    ],
)
def test_distribution_as_users_write_it(make: object, text: str) -> None:
    assert formula_of(v=make) == text


def test_expressions() -> None:
    with pm.Model(coords={"k": [0, 1]}) as model:
        a = pm.Normal("a", 0, 1, dims="k")
        s = pm.HalfNormal("s", 1)
        x = pm.Data("x", np.ones((4, 2)))
        group = pm.Data("group", np.array([0, 1, 1, 0]))
        pm.Deterministic("sum", a[0] + 2 * a[1])
        pm.Normal("dot", pm.math.dot(x, a), pm.math.sqrt(s), observed=np.zeros(4))
        pm.Normal("indexed", a[group], 1 / s, observed=np.zeros(4))
        pm.Normal(
            "long", pm.math.sin(a[0] * a[1] + a[0] ** 2) * pm.math.exp(a[0] / a[1]) + a[1] ** 3 + s, 1, observed=0.0
        )
    texts = {t.name: t.text for t in formulas.describe_variables(model)}
    assert texts["sum"] == "a[0] + 2 * a[1]"
    assert texts["dot"] == "Normal(mu=x @ a, sigma=sqrt(s))"
    assert texts["indexed"] == "Normal(mu=a[group], sigma=1 / s)"
    assert texts["long"] == "Normal(mu=f(a, s), sigma=1)"


def test_improper_prior_is_described() -> None:
    assert formula_of(v=lambda n: pm.Flat(n, shape=2)) == "Flat()"


# the graph


def hierarchy() -> pm.Model:
    with pm.Model(coords={"school": list("abc")}) as model:
        top = pm.Normal("top", 0, 1)
        spread = pm.HalfNormal("spread", 1)
        effect = pm.Normal("effect", top, spread, dims="school")
        shift = pm.Deterministic("shift", effect - top, dims="school")
        pm.Normal("y", shift + effect, spread, observed=pm.Data("scores", np.zeros(3)), dims="school")
    return model


def structure_of(model: pm.Model, **options: int) -> graph.Structure:
    return graph.read_structure(model, formulas.describe_variables(model), **options)


def test_graph_has_the_models_structure() -> None:
    structure = structure_of(hierarchy())
    roles = {n.name: n.role for n in structure.nodes}
    assert roles == {"top": "free", "spread": "free", "effect": "free", "shift": "deterministic", "y": "observed"}
    assert set(structure.edges) == {
        ("top", "effect"),
        ("spread", "effect"),
        ("effect", "shift"),
        ("top", "shift"),
        ("shift", "y"),
        ("effect", "y"),
        ("spread", "y"),
    }
    assert {n.dims for n in structure.nodes if n.name == "effect"} == {"school (3)"}


def test_graph_layers_go_down_and_nodes_do_not_overlap() -> None:
    structure = structure_of(hierarchy())
    rows, chains = graph._with_places(graph.layers_of(structure), structure.edges)
    widths = {n.name: graph._width(n) for n in structure.nodes}
    widths = {name: widths.get(name, graph.PLACE) for row in rows for name in row}
    positions = graph._positions(rows, chains, widths)
    for parent, child in structure.edges:
        assert positions[parent][1] > positions[child][1]
    for row in rows:
        ordered = sorted(row, key=lambda n: positions[n][0])
        for a, b in pairwise(ordered):
            assert positions[b][0] - positions[a][0] >= (widths[a] + widths[b]) / 2


def test_wide_graph_is_broken_into_lines_and_a_large_one_is_cut() -> None:
    with pm.Model() as model:
        names = [pm.Normal(f"a_rather_long_name_{i}", 0, 1) for i in range(30)]
        pm.Normal("y", pm.math.sum(pm.math.stack(names)), 1, observed=0.0)
    structure = structure_of(model, max_nodes=20)
    assert (len(structure.nodes), structure.hidden) == (20, 11)
    widths = {n.name: graph._width(n) for n in structure.nodes}
    assert all(sum(widths[n] for n in row) <= graph.MAX_WIDTH for row in graph.layers_of(structure))
    with styled():
        assert graph.draw_structure(structure, alt="wide").width <= 96 * (graph.MAX_WIDTH + 3)


# predictive checks


def draws_of(centres: Sequence[float], dtype: type = float) -> xr.DataArray:
    rng = np.random.default_rng(1)
    values = (
        rng.poisson(centres, (2, 200, len(centres))) if dtype is int else rng.normal(centres, 1, (2, 200, len(centres)))
    )
    return xr.DataArray(values, dims=["chain", "draw", "row"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("observed", "centres", "kind"),
    [
        (np.array([3]), [3.0], "value"),
        (np.zeros(8), np.zeros(8), "interval"),
        (np.linspace(0, 1, 50), np.zeros(50), "kde"),
        (np.arange(50) % 2, np.full(50, 0.5), "rootogram"),
        (np.arange(50) % 5, np.full(50, 2.0), "rootogram"),
        (np.arange(50) % 5, np.linspace(1, 40, 50), "interval"),
        (np.arange(50) * 10, np.full(50, 200.0), "ecdf"),
    ],
)
def test_check_suits_the_data(observed: np.ndarray, centres: Sequence[float], kind: str) -> None:
    dtype = int if observed.dtype.kind == "i" else float
    predicted = draws_of(centres, dtype)
    data = xr.DataArray(observed, dims=["row"])
    assert checks.kind_of_check(data, predicted) == kind
    with styled():
        picture, *_ = checks._pictures_of(checks._Checked("y", data, predicted, {}, False), np.random.default_rng(1))
    assert picture.data
    assert "y" in picture.alt


@pytest.mark.slow
def test_a_matrix_of_counts_and_more_scalars_than_panels_have_their_pictures() -> None:
    with pm.Model() as model:
        for k in range(13):
            pm.Normal(f"unused{k}", 0, 1)
        pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=np.random.default_rng(0).poisson(1.0, (14, 3)))
    post = bk.infer(model, draws=200, random_seed=1, progressbar=False)
    replicated = post.posterior_predictive(random_seed=1)["y"]
    assert checks.kind_of_check(post.tree["observed_data"]["y"], replicated) == "rootogram"
    assert [p.alt.split(" of ")[0] for p in checks.check_pictures(post)] == ["Posterior predictive check", "Residuals"]
    _, intervals, hidden = figures.split_variables(post)
    assert intervals and not hidden
    assert len(figures.interval_pictures(post, intervals)) == len(intervals)


def test_a_long_random_walk_is_drawn_along_its_steps() -> None:
    with pm.Model(coords={"day": np.arange(41)}) as model:
        level = pm.GaussianRandomWalk("level", sigma=0.2, init_dist=pm.Normal.dist(0, 1), dims="day")
        pm.Normal("y", level, 0.5, observed=np.sin(np.arange(41) / 7))
    post = bk.infer(model, draws=100, random_seed=1, progressbar=False)
    (picture,) = figures.interval_pictures(post, ("level",))
    assert picture.caption == "level: mean, 50 % and 89 % intervals along day."


def test_large_data_are_shown_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MAX_ROWS", 20)
    monkeypatch.setattr(replicated_data, "MAX_ELEMENTS", 5000)
    fresh = bk.infer(regression(rows=50), draws=400, random_seed=1, progressbar=False)
    with styled():
        pictures = checks.check_pictures(fresh)
    assert all(picture.caption.endswith("20 of 50 rows.") for picture in pictures)
    assert "posterior_predictive" not in fresh.tree.children


def test_fitted_curve_is_the_models_mean(post: Posterior) -> None:
    found = curve.fitted_curve(post)
    assert found is not None
    assert (found.covariate, found.response) == ("x", "y")
    assert found.grid[0] < found.x.min()
    assert found.grid[-1] > found.x.max()
    slopes = post.tree["posterior"]["slope"].to_numpy().ravel()
    np.testing.assert_allclose(found.mean, slopes[:, None] * found.grid, rtol=1e-12, atol=1e-12)
    spread = np.sqrt((slopes[:, None] * found.grid).std(axis=0) ** 2 + 0.25)
    np.testing.assert_allclose(found.predicted.std(axis=0), spread, rtol=0.2)


def test_fitted_curve_of_a_binary_response_is_its_probability() -> None:
    with pm.Model() as model:
        x = pm.Data("x", np.linspace(-2.0, 2.0, 9))
        slope = pm.Normal("slope")
        pm.Bernoulli("y", logit_p=slope * x, observed=[0, 0, 1, 0, 0, 1, 1, 0, 1])
    fitted = bk.infer(model, draws=400, random_seed=1, progressbar=False)
    found = curve.fitted_curve(fitted)
    assert found is not None
    assert found.predicted is None
    slopes = fitted.tree["posterior"]["slope"].to_numpy().ravel()
    np.testing.assert_allclose(found.mean, 1 / (1 + np.exp(-slopes[:, None] * found.grid)), rtol=1e-12)
    assert "credible band." in curve.curve_picture(found).alt


def test_draws_of_whole_numbers_are_drawn_as_shares() -> None:
    points, shares = figures._density_of(np.array([3, 3, 5, 4, 3]))
    assert points.tolist() == [3, 4, 5]
    assert shares.tolist() == [0.6, 0.2, 0.2]


def test_no_fitted_curve_without_one_covariate() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=np.zeros(5))
    assert curve.fitted_curve(bk.infer(model, draws=400, random_seed=1, progressbar=False)) is None


# the page


class Checker(HTMLParser):
    """Collects what is not balanced, where the page leads, and pictures without a description."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.targets: list[str] = []
        self.ids: list[str] = []
        self.undescribed = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.targets += [str(given[k]) for k in ("src", "href") if k in given]
        self.ids += [str(given["id"])] if "id" in given else []
        self.undescribed += tag == "img" and not given.get("alt")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    return checker


def components(number: int, observed: np.ndarray) -> pm.Model:
    """Principal components with known loadings: the posterior of the coordinates is exact."""
    loadings = np.random.default_rng(4).normal(size=(observed.shape[1], number))
    names = [f"case {k}" for k in range(len(observed))]
    with pm.Model(coords={"row": names, "column": list("abcd"), "component": range(number)}) as model:
        w = pm.Normal("w", loadings, 1e-6, dims=("column", "component"))
        z = pm.Normal("z", 0.0, 1.0, dims=("row", "component"))
        pm.Deterministic("loadings", w + 0.0, dims=("column", "component"))
        pm.Normal("y", z @ loadings.T, 0.3, observed=observed, dims=("row", "column"))
    return model


def test_projection_is_the_posterior_mean_of_the_coordinates() -> None:
    y = np.random.default_rng(5).normal(size=(9, 4))
    model = components(3, y)
    loadings = np.random.default_rng(4).normal(size=(4, 3))
    post = bk.infer(model, draws=4000, random_seed=1)
    found = projection.latent_projection(post)
    assert found is not None and (found.name, found.dim) == ("z", "component")
    covariance = np.linalg.inv(np.eye(3) + loadings.T @ loadings / 0.3**2)
    mean = y @ loadings @ covariance / 0.3**2
    sd = np.sqrt(np.diag(covariance))[:2]
    assert np.all(np.abs(found.mean - mean[:, :2]) < 5 * sd / np.sqrt(4000))
    assert found.sd == pytest.approx(np.broadcast_to(sd, (9, 2)), rel=0.08)
    assert found.labels[3] == "case 3" and found.columns == ("a", "b", "c", "d")
    assert found.loadings == pytest.approx(loadings[:, :2], abs=1e-5)
    with styled():
        picture = projection.projection_picture(found)
    assert "loadings" in picture.caption and len(picture.data) > 5000


def test_no_projection_onto_one_component_or_of_a_regression(post: Posterior) -> None:
    assert projection.latent_projection(post) is None
    one = bk.infer(components(1, np.ones((5, 4))), draws=8, random_seed=1)
    assert projection.latent_projection(one) is None


@pytest.mark.slow
def test_page_is_well_formed_and_stands_alone(page: str) -> None:
    found = checked(page)
    assert not found.open
    assert not found.undescribed
    assert not found.tags & {"script", "link", "iframe", "object"}
    assert all(t.startswith(("data:image/", "#")) for t in found.targets)
    assert {t[1:] for t in found.targets if t.startswith("#")} == set(found.ids)
    pictures = re.findall(r'src="data:[^"]*"', page)
    assert not re.search(r"https?://|url\(|@import", re.sub(r'src="data:[^"]*"', "", page))
    inside = re.sub(r"xmlns(:xlink)?='http://www.w3.org/(2000/svg|1999/xlink)'", "", "".join(pictures))
    assert not re.search(r"https?://|url\((?!%23)|@import", inside)
    assert "<h1>A line</h1>" in page


def test_odd_names_are_escaped(tmp_path: Path) -> None:
    name = '<b>$x_1$ & "w"'
    post = bk.infer(regression(name), draws=400, random_seed=1, progressbar=False)
    path = bk.report(post, tmp_path / "odd.html", title="<script>alert(1)</script>", about=("a < b",))
    page = path.read_text(encoding="utf-8")
    found = checked(page)
    assert not found.open
    assert not found.tags & {"b", "script"}
    assert "a &lt; b" in page


@pytest.mark.slow
def test_same_posterior_gives_the_same_bytes_and_users_figures_and_style_are_left_alone(
    page: str, tmp_path: Path
) -> None:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    again = bk.infer(regression(), draws=1000, random_seed=1, progressbar=False)
    figure = plt.figure()
    before = dict(mpl.rcParams)
    assert bk.report(again, str(tmp_path / "again.html"), title="A line").read_bytes() == page.encode()
    assert plt.get_fignums() == [figure.number]
    assert dict(mpl.rcParams) == before
    plt.close(figure)


def test_folder_that_cannot_be_written(post: Posterior, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file" / "page.html", tmp_path):
        with pytest.raises(BayeskitError, match="cannot write the report") as caught:
            bk.report(post, path)
        assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_page_is_replaced_whole_or_not_at_all(post: Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_text("old page")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BayeskitError, match="No space left on device"):
        bk.report(post, path, sections=["versions"])
    assert path.read_text() == "old page"
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-1.23456789, "−1.2346"),
        (3.1e-14, "3.1 × 10^−14"),
        (123456.7, "123457"),
        (1.5e9, "1.5 × 10^9"),
        (float("nan"), "–"),
        (float("-inf"), "−∞"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert html.number(value) == text


def test_large_numbers_can_be_read() -> None:
    """Whole ones of a column alike; an R-hat of chains that stand still is a power of ten."""
    table = Table(("name", "ess_bulk", "r_hat"), (("a", 4000, 1.0), ("b", 12345.2, 6487759022193670.0)))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html.table_markup(table))
    assert cells == ["4,000", "1.000", "12,345", "6.5 × 10<sup>15</sup>"]


def test_numbers_in_sentences_have_the_minus_of_the_tables() -> None:
    said = "Log evidence -27.38 (error 1.0e-11), from -1 to -0.5, of 2020-01-05 and w[-1]; leave-one-out"
    section = Section("a", "A", (said,), doubts=("a mean of -3",), text="x = -1")
    page = "".join(html.contents_markup(section))
    assert "Log evidence −27.38 (error 1.0e-11), from −1 to −0.5, of 2020-01-05 and w[" in page
    assert "a mean of −3." in page and "x = -1" in page


def test_dims_without_a_name_are_not_named() -> None:
    with pm.Model(coords={"row": range(3)}) as model:
        mu = pm.Normal("mu")
        for name, values, dims in (
            ("y", [0.1, 0.2], None),
            ("z", np.zeros((3, 2)), None),
            ("u", np.zeros(3), "row"),
            ("v", 0.3, None),
        ):
            pm.Normal(name, mu, 1.0, observed=values, dims=dims)
    verdict = bk.report_section(bk.infer(model, random_seed=1), "verdict").paragraphs[0]
    assert verdict.startswith("What do the data y (2 values), z (3 × 2), u (row: 3) and v (one value) say about mu?")


def test_columns_share_their_decimals_where_sizes_are_alike() -> None:
    alike = html.table_markup(Table(("name", "mean"), (("a", 0.15541), ("b", 0.3))))
    assert re.findall(r'class="number">([^<]*)</td>', alike) == ["0.1554", "0.3000"]
    unlike = html.table_markup(Table(("name", "mean"), (("a", 0.00015541), ("b", 3000.0))))
    assert re.findall(r'class="number">([^<]*)</td>', unlike) == ["0.00015541", "3000"]
