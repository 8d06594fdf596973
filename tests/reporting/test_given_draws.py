"""Draws of any sampler with their model: a page of a model that has no closed form at all, and wrong pairs by name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from matplotlib.figure import Figure
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

import bayeskit as bk
from bayeskit.errors import BayeskitError, DataError
from bayeskit.reporting import records
from bayeskit.reporting.given_draws import METHOD, posterior_of_draws
from bayeskit.reporting.sampler import sampler_section
from bayeskit.reporting.sections import build_sections
from bayeskit.reporting.subject import Subject
from bayeskit.results.diagnostics import diagnostics_of

LENGTH = 250


class BlackBox(Op):  # type: ignore[misc]
    """What no analysis can look into."""

    __props__ = ()

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [pt.as_tensor_variable(x)], [pt.dvector()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = np.array([np.sinh(float(inputs[0])), np.arctan(float(inputs[0])), 0.5])


@cache
def black_box() -> pm.Model:
    with pm.Model(coords={"dose": ["low", "mid", "high"], "part": ["a", "b"]}) as model:
        theta = pm.Normal("theta")
        pm.Dirichlet("share", [1.0, 1.0], dims="part")
        mean = pm.Deterministic("mean", BlackBox()(theta), dims="dose")
        pm.Normal("y", mean, pm.HalfNormal("sigma"), observed=[0.3, 0.1, 0.7], dims="dose")
    return model


def chains(seed: int = 0, away: float = 0.0) -> xr.DataTree:
    """Independent draws of the black box's variables, the last chain moved away."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(0.2, 0.3, (4, LENGTH))
    theta[3] += away
    share = rng.beta(1, 1, (4, LENGTH))
    draws = {
        "theta": (("chain", "draw"), theta),
        "sigma": (("chain", "draw"), np.abs(rng.normal(0, 1, (4, LENGTH)))),
        "share": (("chain", "draw", "part"), np.stack([share, 1 - share], axis=-1)),
        "mean": (("chain", "draw", "dose"), np.stack([np.sinh(theta), np.arctan(theta), 0 * theta + 0.5], -1)),
    }
    coords = {"chain": range(4), "draw": range(LENGTH), "dose": ["low", "mid", "high"], "part": ["a", "b"]}
    diverging = theta > 2.4
    stats = xr.Dataset({"diverging": (("chain", "draw"), diverging)}, {"chain": range(4), "draw": range(LENGTH)})
    groups = {"posterior": xr.Dataset(draws, coords), "sample_stats": stats}
    return xr.DataTree.from_dict(groups)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are composed and not drawn, for tests of words and tables: they are drawn on the whole page."""

    def save(figure: Figure, file: BinaryIO, **options: Any) -> None:
        file.write(b'<svg xmlns="http://www.w3.org/2000/svg" width="72pt" height="72pt" viewBox="0 0 72 72"></svg>')

    monkeypatch.setattr(Figure, "savefig", save)
    monkeypatch.setattr(records, "_lay_out", lambda figure: None)


@cache
def page_of(away: float) -> dict[str, Any]:
    chosen = None if away == 0.0 else ["verdict", "sampler"]
    return {s.key: s for s in build_sections(posterior_of_draws(chains(away=away), black_box()), chosen=chosen)}


@pytest.mark.slow
def test_a_model_without_any_closed_form_has_a_page(tmp_path: Path) -> None:
    assert {"verdict", "posterior", "sampler", "predictive", "graph", "priors"} <= set(page_of(0.0))
    assert "plan" not in page_of(0.0)
    given = chains()["posterior"].to_dataset()
    path = bk.report(given, tmp_path / "box.html", model=black_box(), sections=["verdict", "sampler"])
    assert "theta" in path.read_text(encoding="utf-8")


def test_the_verdict_has_the_answer_its_interval_and_how_it_was_found() -> None:
    paragraph = page_of(0.0)["verdict"].paragraphs[0]
    theta = chains()["posterior"]["theta"].to_numpy()
    assert "What do the data y (dose: 3) say about theta, share and sigma?" in paragraph
    assert f"theta {theta.mean():.3g} (89 % interval {np.quantile(theta, 0.055):.3g} to" in paragraph.replace("−", "-")
    assert f"4 × {LENGTH} draws" in paragraph
    assert "did not converge" not in paragraph


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_chains_that_disagree_are_the_first_thing_to_be_said() -> None:
    away = page_of(2.0)
    assert "The draws did not converge, so that these numbers may be wrong" in away["verdict"].paragraphs[0]
    assert any(doubt.startswith("the chains disagree") for doubt in away["sampler"].doubts)
    assert all(doubt in away["verdict"].paragraphs[0] for doubt in away["sampler"].doubts)


@pytest.mark.usefixtures("undrawn")
def test_of_one_chain_nothing_is_claimed_either_way() -> None:
    tree = chains()
    one = xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset().isel(chain=[0])})
    (verdict,) = build_sections(posterior_of_draws(one, black_box()), chosen=["verdict"])
    assert "Nothing shows that the draws converged, so that these numbers may be wrong" in verdict.paragraphs[0]
    assert "did not converge" not in verdict.paragraphs[0]


@pytest.mark.usefixtures("undrawn")
def test_the_worst_parameter_comes_first_with_what_arviz_computes() -> None:
    table = page_of(2.0)["sampler"].tables[0]
    row = dict(zip(table.columns, table.rows[0], strict=True))
    draws = chains(away=2.0)["posterior"].to_dataset()
    import arviz as az

    assert row["parameter"] == "theta"
    assert row["r_hat"] == pytest.approx(float(az.rhat(draws["theta"])))
    assert row["ess_bulk"] == pytest.approx(float(az.ess(draws["theta"])))
    assert row["mcse_mean"] == pytest.approx(float(az.mcse(draws["theta"])))
    assert table.rows[0][1] == max(r[1] for r in table.rows)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_divergences_are_found_where_they_are() -> None:
    section = page_of(2.0)["sampler"]
    located = next(table for table in section.tables if table.caption == "Where the divergent draws lie")
    assert located.rows[0][0] == "theta"
    assert any("told from the others best by theta" in said for said in section.paragraphs)
    tree = chains()
    tree["sample_stats"]["diverging"][:] = np.random.default_rng(3).random((4, LENGTH)) < 0.02
    spread = sampler_section(Subject(posterior_of_draws(tree, black_box())))
    assert any("all over the posterior" in said for said in spread.paragraphs)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("number", [3, 12])
def test_few_divergences_have_a_place_only_where_it_is_none_by_chance(number: int) -> None:
    """Three draws anywhere lie half a distribution from all in some parameter; of twelve there is no 5 % quantile."""
    tree = chains()
    order = np.argsort(tree["posterior"]["theta"].to_numpy().ravel())
    for where, said in (
        (
            np.random.default_rng(5).permutation(order)[:number],
            f"The {number} divergent transitions are too few to say",
        ),
        (order[-number:], "told from the others best by theta: they have it between"),
    ):
        diverging = np.zeros(4 * LENGTH, bool)
        diverging[where] = True
        tree["sample_stats"]["diverging"][:] = diverging.reshape(4, LENGTH)
        section = sampler_section(Subject(posterior_of_draws(tree, black_box())))
        paragraphs = [one for one in section.paragraphs if said in one]
        assert paragraphs, section.paragraphs
        table = next(table for table in section.tables if table.caption == "Where the divergent draws lie")
        row = next(row for row in table.rows if row[0] == "theta")
        values = tree["posterior"]["theta"].to_numpy().ravel()[where]
        assert row[2:4] == (values.min(), values.max()) and table.columns[2:4] == ("divergent: from", "to")


def test_of_independent_draws_there_is_nothing_to_diagnose() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=[0.1, 0.4])
    post = bk.infer(model, draws=400, random_seed=1, progressbar=False)
    section = bk.report_section(post, "sampler")
    assert "nothing to diagnose" in section.paragraphs[0]
    assert f"{post.certificate:.1e} nats" in section.paragraphs[1]
    assert not (section.tables or section.pictures or section.doubts)


def test_nutpies_statistics_are_read_under_pymcs_names() -> None:
    tree = chains()
    tree["sample_stats"]["maxdepth_reached"] = tree["sample_stats"]["diverging"] | True
    post = posterior_of_draws(tree, black_box())
    assert post.diagnostics is not None and post.diagnostics.draws_at_max_tree_depth == 4 * LENGTH
    assert "reached_max_treedepth" not in tree["sample_stats"]
    assert diagnostics_of(post.tree, ["theta"]).divergences == post.diagnostics.divergences


def without(name: str) -> Callable[[xr.DataTree], None]:
    def change(tree: xr.DataTree) -> None:
        tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().drop_vars(name))

    return change


def longer(tree: xr.DataTree) -> None:
    draws = tree["posterior"].to_dataset()
    tree["posterior"] = xr.DataTree(draws.assign(theta=draws["theta"].expand_dims(extra=2, axis=-1)))


def relabelled(tree: xr.DataTree) -> None:
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().assign_coords(part=["b", "a"]))


def of_other_data(tree: xr.DataTree) -> None:
    tree["observed_data"] = xr.DataTree(xr.Dataset({"y": ("dose", [0.3, 0.1, 0.8])}))


def infinite(tree: xr.DataTree) -> None:
    tree["posterior"]["theta"][0, 0] = np.inf


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("theta"), r"not draws of this model: 'theta' is missing; they have .*sigma"),
        (longer, "the draws of 'theta' have shape"),
        (relabelled, "'share' has other labels along 'part'"),
        (of_other_data, "observed values of 'y' are others"),
        (infinite, "'theta' are not all finite: leave the chains out that have them, or sample again"),
    ],
)
def test_draws_of_another_model_are_refused_by_name(
    change: Callable[[xr.DataTree], None], words: str, tmp_path: Path
) -> None:
    tree = copy.deepcopy(chains())
    change(tree)
    with pytest.raises(BayeskitError, match=words):
        bk.report(tree, tmp_path / "a.html", model=black_box())
    assert not list(tmp_path.iterdir())


def test_what_is_no_posterior_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BayeskitError, match="post is a int; give a Posterior"):
        bk.report(3, tmp_path / "a.html")
    with pytest.raises(BayeskitError, match="draws need the model that they are of"):
        bk.report(chains(), tmp_path / "a.html")
    with pytest.raises(BayeskitError, match="has its model"):
        bk.report(posterior_of_draws(chains(), black_box()), tmp_path / "a.html", model=black_box())
    assert posterior_of_draws(chains(), black_box()).method == METHOD


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_sections_are_left_out_and_added_by_name(tmp_path: Path) -> None:
    post = posterior_of_draws(chains(), black_box())
    costs = bk.Section("costs", "What it costs", ("Nothing.",))
    found = [s.key for s in build_sections(post, chosen=["verdict", "priors", costs])]
    assert found == ["verdict", "priors", "costs"]
    with pytest.raises(BayeskitError, match="no section 'prior'; there are verdict, posterior"):
        bk.report(post, tmp_path / "a.html", sections=["prior"])
    with pytest.raises(BayeskitError, match="do one of both"):
        bk.report(post, tmp_path / "a.html", sections=["verdict", "~priors"])
    with pytest.raises(BayeskitError, match="'priors', which is a page's"):
        bk.report(post, tmp_path / "a.html", sections=[bk.Section("priors", "Mine")])
    without_check = build_sections(post, chosen=["~predictive", "~graph", "~posterior", "~loo", "~sensitivity"])
    assert "predictive" not in [s.key for s in without_check]
    assert (
        "Not looked at: the fit to the data, single observations and the prior's influence"
        in without_check[0].paragraphs[0]
    )


@pytest.mark.parametrize("days", ["days of pandas", "days of Python"])
def test_labels_that_are_dates_are_the_models_however_they_are_kept(days: str) -> None:
    week = pd.date_range("2024-01-01", periods=3)
    labels = week if "pandas" in days else [day.date() for day in week]
    with pm.Model(coords={days: labels}) as model:
        level = pm.Normal("level", dims=days)
        pm.Normal("y", level, observed=[0.1, 0.2, 0.3])
    values = np.random.default_rng(1).normal(size=(4, LENGTH, 3))
    draws = xr.Dataset({"level": (("chain", "draw", days), values)}, {days: week})
    post = posterior_of_draws(xr.DataTree.from_dict({"posterior": draws}), model)
    assert "ESS" in str(post.diagnostics).splitlines()[0]
    draws[days] = week + pd.Timedelta(1, "D")
    with pytest.raises(DataError, match="other labels"):
        posterior_of_draws(xr.DataTree.from_dict({"posterior": draws}), model)


def test_a_label_with_a_line_break_leaves_the_line_on_convergence_whole() -> None:
    with pm.Model(coords={"part": ["a", "b\nbreak"]}) as model:
        pm.Normal("y", pm.Normal("x", dims="part"), observed=[0.1, 0.2])
    values = np.random.default_rng(1).normal(size=(4, LENGTH, 2)) + np.arange(4)[:, None, None] * [0, 1]
    draws = xr.Dataset({"x": (("chain", "draw", "part"), values)}, {"part": ["a", "b\nbreak"]})
    post = posterior_of_draws(xr.DataTree.from_dict({"posterior": draws}), model)
    assert "b break" in str(post.diagnostics).splitlines()[0] and "ESS" in str(post.diagnostics).splitlines()[0]


def test_where_an_observation_has_no_score_there_is_no_sum() -> None:
    """The largest observation excludes ends that all others allow: a sum without it is that of other data."""
    with pm.Model() as model:
        pm.Uniform("y", 0.0, pm.Pareto("end", 1.0, 1.0), observed=[1.0, 2.0, 3.0, 0.5, 2.5, 2.9])
    ends = 3.0 / np.random.default_rng(1).uniform(size=(4, 500)) ** (1 / 7)
    draws = xr.Dataset({"end": (("chain", "draw"), ends)})
    section = bk.report_section(xr.DataTree.from_dict({"posterior": draws}), "loo", model=model)
    assert "1 of 6 observations have no score, so that there is no sum over all of them" in section.paragraphs[0]
    assert "exclude parameters that all others allow" in section.doubts[0] and "cross_validate" in section.doubts[0]


@pytest.fixture(scope="module")
def table() -> tuple[pm.Model, np.ndarray]:
    """A model of a table one of whose labels has a slash, and draws of it."""
    rng = np.random.default_rng(5)
    with pm.Model(coords={"city": ["Ulm", "N/A", "Bonn"], "unit": ["km/h", "m"]}) as model:
        w = pm.Normal("w", 0.0, 1.0, dims=("city", "unit"))
        pm.Normal("y", w, 1.0, observed=rng.normal(size=(3, 2)), dims=("city", "unit"))
    return model, rng.normal(size=(2, 100, 3, 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    "dims", [("city", "unit"), ("w_dim_0", "w_dim_1")], ids=["dims-without-labels", "default-dims"]
)
def test_labels_with_a_slash_and_dims_of_other_samplers_are_shown(
    table: tuple[pm.Model, np.ndarray], dims: tuple[str, ...], tmp_path: Path
) -> None:
    model, values = table
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"w": (("chain", "draw", *dims), values)})})
    page = bk.report(tree, tmp_path / "page.html", model=model).read_text("utf-8")
    assert "w[N/A, km/h]" in page
    assert "w_dim_0" not in page


def test_the_plot_of_a_check_takes_labels_with_a_slash(table: tuple[pm.Model, np.ndarray]) -> None:
    model, values = table
    draws = xr.Dataset({"w": (("chain", "draw", "city", "unit"), values)})
    check = bk.posterior_check(xr.DataTree.from_dict({"posterior": draws}), model)
    assert any("km/h" in name for name in check.table["variable"])
    check.plot()
    plt.close("all")


def test_divergences_that_no_statistics_tell_are_not_counted_as_none(table: tuple[pm.Model, np.ndarray]) -> None:
    model, values = table
    draws = xr.Dataset({"w": (("chain", "draw", "city", "unit"), values)})
    told = xr.Dataset({"diverging": (("chain", "draw"), np.zeros(values.shape[:2], dtype=bool))})
    silent = posterior_of_draws(xr.DataTree.from_dict({"posterior": draws}), model).diagnostics
    counted = posterior_of_draws(xr.DataTree.from_dict({"posterior": draws, "sample_stats": told}), model).diagnostics
    assert "divergences not recorded" in str(silent)
    assert "0 divergences" in str(counted)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("group", ["observed_data", "posterior_predictive", "log_likelihood", "sample_stats"])
def test_a_group_without_variables_is_none(group: str, tmp_path: Path) -> None:
    tree = chains()
    tree[group] = xr.DataTree(xr.Dataset())
    chosen = ["verdict", "sampler", "predictive", "loo"]
    assert bk.report(tree, tmp_path / "a.html", model=black_box(), sections=chosen).exists()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.full((4, LENGTH), "no"), "the values of the statistic 'diverging' are not numbers"),
        (np.zeros((4, 3), dtype=bool), rf"'diverging' has chain: 4, draw: 3; \(chain: 4, draw: {LENGTH}\) is needed"),
    ],
)
def test_statistics_that_are_none_are_refused(values: np.ndarray, words: str, tmp_path: Path) -> None:
    tree = chains()
    tree["sample_stats"] = xr.DataTree(xr.Dataset({"diverging": (("chain", "draw"), values)}))
    with pytest.raises(DataError, match=words):
        bk.report(tree, tmp_path / "a.html", model=black_box())
