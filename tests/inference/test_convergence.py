"""Draws that did not converge are never returned in silence, and the sampler takes the options that mend them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest

import bayeskit as bk
from bayeskit.cli import main
from bayeskit.errors import OptionError
from bayeskit.reporting.sections import build_sections
from bayeskit.results.records import Posterior


def funnel() -> pm.Model:
    """Neal's, whose neck is too narrow for the steps that its mouth wants."""
    with pm.Model() as model:
        v = pm.Normal("v", 0.0, 3.0)
        pm.Normal("x", 0.0, pm.math.exp(v / 2), shape=9)
    return model


def two_modes() -> pm.Model:
    """Four numbers, each of either sign."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 5.0, shape=4)
        pm.Normal("y", x**2, 1.0, observed=np.array([9.0, 16.0, 25.0, 9.0]))
    return model


def unequal_modes() -> pm.Model:
    """Two modes without a symmetry and with a Potential, which takes the evidence away."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 10.0, shape=2)
        pm.Potential("modes", pm.math.logaddexp(-pm.math.sum((x + 4) ** 2), -pm.math.sum((x - 4) ** 2) / 0.8))
    return model


def mixture() -> pm.Model:
    rng = np.random.default_rng(1)
    data = np.concatenate([rng.normal(-3, 1, 30), rng.normal(3, 1, 20)])
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0.0, 5.0, shape=2), pm.HalfNormal("sigma", 2.0, shape=2)
        pm.NormalMixture("y", w=pm.Dirichlet("w", np.ones(2)), mu=mu, sigma=sigma, observed=data)
    return model


def logistic() -> pm.Model:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(80, 3))
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 2.0, shape=3)
        pm.Bernoulli("y", logit_p=pm.math.dot(x, b), observed=rng.integers(0, 2, size=80))
    return model


def hierarchy() -> pm.Model:
    """Non-centred; three numbers and more remain, so that it is sampled anyway."""
    with pm.Model() as model:
        tau, z = pm.Gamma("tau", 4.0, 4.0), pm.Normal("z", shape=4)
        effect = pm.Deterministic("effect", pm.Normal("mean") + tau * z)
        pm.Poisson("y", pm.math.exp(effect), observed=np.array([1, 3, 0, 4]))
    return model


@cache
def sampled(make: Callable[[], pm.Model], seed: int, draws: int = 2000) -> tuple[Posterior, tuple[str, ...]]:
    """A posterior by NUTS, and what was logged."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("bayeskit")
    logger.addHandler(handler)
    try:
        return bk.infer(make(), method="nuts", draws=draws, random_seed=seed), tuple(lines)
    finally:
        logger.removeHandler(handler)


@pytest.mark.slow
@pytest.mark.parametrize("make", [funnel, two_modes])
def test_what_did_not_converge_is_warned_of(make: Callable[[], pm.Model]) -> None:
    post, lines = sampled(make, 1)
    found = post.diagnostics
    assert found is not None and not found.converged
    assert lines == tuple(f"NUTS draws: {problem}" for problem in found.problems)
    assert any("disagree" in line for line in lines)
    assert "\nNOT CONVERGED: 4 chains of 500 draws" in str(post) and all(p in str(post) for p in found.problems)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 0])
def test_a_mode_that_no_chain_visited_is_warned_of(seed: int) -> None:
    """With the first seed all four chains stay in one mode, which happens in an eighth of all runs."""
    post, lines = sampled(unequal_modes, seed)
    found = post.diagnostics
    assert found is not None and lines
    assert (found.max_r_hat < 1.02) == (seed == 7) == ("there is another mode" in lines[0])


@pytest.mark.slow
def test_mirror_images_that_the_chains_do_not_go_to_and_fro_between_are_named() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 3.0)
        pm.Normal("y", x**2, 1.0, observed=9.0)
    post = bk.infer(model, method="nuts", draws=2000, random_seed=1)
    assert post.diagnostics is not None
    assert "mirror images that the chains did not visit alike: fix a sign among x" in post.diagnostics.problems[-1]


@pytest.mark.slow
def test_labels_that_were_mixed_are_said_to_be_and_judged_after_relabelling() -> None:
    post, lines = sampled(mixture, 1, 1200)
    found = post.diagnostics
    assert found is not None and found.relabelled is not None
    assert found.max_r_hat > 1.5 and found.relabelled.converged
    assert len(lines) == 1 and "exchanged the labels of components" in lines[0] and "bk.relabel(posterior)" in lines[0]


@pytest.mark.slow
@pytest.mark.parametrize("make", [logistic, hierarchy])
def test_what_mixed_well_is_returned_in_silence(make: Callable[[], pm.Model]) -> None:
    post, lines = sampled(make, 1)
    assert post.diagnostics is not None and post.diagnostics.converged and not lines
    assert "\nconverged: 4 chains of 500 draws, R-hat 1.0" in str(post)


@pytest.mark.slow
def test_few_draws_that_mixed_well_are_returned_in_silence() -> None:
    for seed in (1, 2):
        assert sampled(logistic, seed, 400)[1] == ()


def test_independent_draws_have_no_diagnostics() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean"), 1.0, observed=[0.3, 1.2])
    post = bk.infer(model, draws=40, random_seed=1)
    assert post.diagnostics is None and "r_hat" not in post.summary()


def test_the_summary_has_what_the_chains_are_worth() -> None:
    post, _ = sampled(hierarchy, 1)
    table = post.summary()
    assert list(table.columns[-4:]) == ["r_hat", "ess_bulk", "ess_tail", "label"]
    assert table.loc["effect[0]", ["r_hat", "ess_bulk", "ess_tail"]].notna().all()
    free = table.loc[[not str(name).startswith("effect") for name in table.index]]
    assert post.diagnostics is not None
    assert free["r_hat"].max() == post.diagnostics.max_r_hat
    assert free["ess_tail"].idxmin() == post.diagnostics.min_ess_tail_of


@pytest.mark.slow
def test_a_report_begins_with_what_is_wrong() -> None:
    sections = ("verdict", "sampler")  # the two that chains are spoken of in
    first, *_ = build_sections(sampled(mixture, 1, 1200)[0], chosen=sections)
    assert "the draws did not converge" in first.paragraphs[0].lower()
    assert "To distrust: the chains exchanged the labels" in first.paragraphs[0]
    assert dict(first.tables[0].rows)["chains"].startswith("NOT CONVERGED")
    first, *_ = build_sections(sampled(logistic, 1)[0], chosen=sections)
    assert "Converged: 4 chains" in first.paragraphs[0] and "NOT CONVERGED" not in first.paragraphs[0]
    assert "the chains" not in first.paragraphs[0]


def test_a_comparison_says_whose_draws_did_not_converge() -> None:
    mixed = sampled(mixture, 1, 1200)[0]
    with pm.Model() as single:
        pm.Normal("y", pm.Normal("mu", 0.0, 5.0), 3.0, observed=mixed.tree["observed_data"]["y"].to_numpy())
    notes = bk.compare({"two": mixed, "one": single}, loo=False, random_seed=1).notes
    assert [n for n in notes if n.startswith("two: its draws are not to be relied on: the chains exchanged the labels")]
    assert not [n for n in notes if n.startswith("one: its draws")]


# --- options of the sampler -------------------------------------------------------------------------------------------


def settings_of(post: Posterior) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(post.tree["sample_stats"].attrs["inference_library_settings"])["settings"]
    return settings


def test_options_reach_the_sampler() -> None:
    options = {"tune": 300, "chains": 3, "target_accept": 0.95, "init": "adapt_diag", "maxdepth": 8, "cores": 1}
    post = bk.infer(logistic(), method="nuts", draws=100, random_seed=1, sampler=options)
    assert dict(post.tree["posterior"].sizes) == {"chain": 3, "draw": 34, "b_dim_0": 3}
    settings = settings_of(post)
    assert (settings["num_tune"], settings["maxdepth"]) == (300, 8)
    assert settings["adapt_options"]["step_size_settings"]["target_accept"] == 0.95
    assert post.diagnostics is not None and post.diagnostics.chains == 3
    usual = settings_of(sampled(logistic, 1)[0])
    assert (usual["num_tune"], usual["adapt_options"]["step_size_settings"]["target_accept"]) == (1000, 0.9)


def test_a_low_rank_adaptation_has_settings_of_its_own() -> None:
    options = {"adaptation": "low_rank", "mass_matrix_gamma": 1e-4}
    post = bk.infer(logistic(), method="nuts", draws=200, random_seed=1, sampler=options)
    assert settings_of(post)["adapt_options"]["mass_matrix_options"]["gamma"] == 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tunes": 5}, "no option 'tunes'"),
        ({"draws": 5}, "no option 'draws'"),
        ({"seed": 5}, "no option 'seed'"),
        ({"num_tune": 5}, "no option 'num_tune'"),
        ({"store_unconstrained": False}, "no option 'store_unconstrained'"),
        ({"tune": 0}, "tune is 0; it must be a whole number"),
        ({"chains": 2.5}, "chains is 2.5"),
        ({"chains": True}, "chains is True"),
        ({"target_accept": 1.5}, "target_accept is 1.5; it must be a number between 0 and 1"),
        ({"target_accept": "high"}, "target_accept is 'high'"),
        ({"init": "advi"}, "init is 'advi'; it must be one of 'jitter\\+adapt_diag', 'adapt_diag'"),
        ({"adaptation": "flows"}, "adaptation is 'flows'"),
        ({"maxdepth": -1}, "maxdepth is -1; it must be as nutpie takes it"),
        (
            {"mass_matrix_gamma": 1.0},
            "mass_matrix_gamma is 1.0; it must be as nutpie takes it .*not available for diag",
        ),
        ({3: 4}, "no option 3"),
        ([("tune", 5)], "it must be a mapping"),
    ],
    ids=str,
)
def test_what_is_no_option_is_refused_by_name(options: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        bk.infer(logistic(), sampler=options)


def test_methods_without_a_sampler_refuse_options_or_say_that_they_were_not_used() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean"), 1.0, observed=[0.3, 1.2])
    with pytest.raises(OptionError, match="method is 'exact'"):
        bk.infer(model, method="exact", sampler={"tune": 50})
    plan = bk.infer(model, draws=40, random_seed=1, sampler={"tune": 50, "chains": 2}).plan
    assert plan.notes == ("no sampler was needed: its options tune, chains were not used",)
    assert bk.infer(model, draws=40, random_seed=1, sampler={}).plan.notes == ()


@pytest.mark.slow
def test_options_of_nutpie_are_refused_where_discrete_variables_need_another_step() -> None:
    with pm.Model() as model:
        k = pm.Poisson("k", 3.0, initval=2)
        pm.Normal("y", pm.math.sqrt(k + 1.0), 1.0, observed=1.5)
    with pytest.raises(OptionError, match="maxdepth is an option of nutpie, which cannot sample k"):
        bk.infer(model, method="nuts", sampler={"maxdepth": 5})
    post = bk.infer(model, method="nuts", draws=200, random_seed=1, sampler={"tune": 200, "chains": 2, "cores": 1})
    assert post.diagnostics is not None and (post.diagnostics.chains, post.diagnostics.draws) == (2, 100)


@pytest.mark.slow
def test_the_command_line_has_the_options_and_shows_the_diagnostics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "logistic.py"
    path.write_text(
        "import numpy as np\nimport pymc as pm\n\nwith pm.Model() as model:\n    b = pm.Normal('b', 0, 2, shape=4)\n"
        "    x = np.random.default_rng(2).normal(size=(40, 4))\n"
        "    pm.Bernoulli('y', logit_p=pm.math.dot(x, b), observed=np.arange(40) % 2)\n"
    )
    options = [
        "--method",
        "nuts",
        "--tune",
        "400",
        "--chains",
        "2",
        "--target-accept",
        "0.95",
        "--draws",
        "600",
        "--seed",
        "1",
    ]
    assert main(["infer", str(path), *options, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    found = record["diagnostics"]
    assert (found["chains"], found["draws"], found["converged"], found["problems"]) == (2, 300, True, [])
    assert {"r_hat", "ess_bulk", "ess_tail"} <= set(record["summary"][0])
    assert main(["infer", str(path), *options]) == 0
    shown = capsys.readouterr().out
    assert "\nconverged: 2 chains of 300 draws, R-hat 1.0" in shown and "ess_bulk" in shown
    assert main(["infer", str(path), "--method", "exact", "--tune", "5"]) == 2
    assert "sampler is for methods that sample" in capsys.readouterr().err
    assert main(["infer", str(path), "--target-accept", "2"]) == 2
    assert "target_accept is 2.0; it must be a number between 0 and 1" in capsys.readouterr().err


def test_one_chain_has_an_evidence_and_a_warning() -> None:
    post = bk.infer(logistic(), method="nuts", draws=1000, random_seed=1, sampler={"chains": 1})
    assert post.log_evidence.value == pytest.approx(sampled(logistic, 1)[0].log_evidence.value, abs=0.05)
    assert post.diagnostics is not None and post.diagnostics.problems[0].startswith("one chain cannot show")
