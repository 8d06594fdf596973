"""A right sampler passes on cheap references, and one that is a little wrong is found; nothing depends on the order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayeskit as bk
from bayeskit.errors import OptionError
from bayeskit.graphs.compile import small_mode
from bayeskit.sampling.named_samplers import SAMPLERS, Settings, contenders, sampler_names
from bayeskit.validation.references.reference_posterior import ReferencePosterior
from bayeskit.validation.trials.outcomes import SamplerOutcome, judged_draws, outcome_of
from bayeskit.validation.trials.scoreboard import trial_of

SEED = 5
DATA = np.array([0.3, -0.6, 1.4, 0.2])


def normal_mean(prior_sd: float = 2.0) -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0.0, prior_sd), 1.0, observed=DATA)
    return model


def wide_mean() -> pm.Model:
    return normal_mean(1e3)


def rate() -> pm.Model:
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("rate", 3.0, 1.0), observed=[2, 4, 1])
    return model


def component() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Bernoulli("state", 0.4), 1.0, observed=0.7)
    return model


def reference(build: Callable[[], pm.Model]) -> ReferencePosterior:
    return ReferencePosterior(build.__name__, "", "cheap", build)


MEAN, WIDE, RATE, STATE = map(reference, (normal_mean, wide_mean, rate, component))
FEW = (MEAN, WIDE, RATE)

# The posteriors by their textbook formulas, which is what a right sampler is here.
PRECISION = {"normal_mean": 1 / 4 + len(DATA), "wide_mean": 1e-6 + len(DATA)}
POSTERIORS = {name: stats.norm(DATA.sum() / p, p**-0.5) for name, p in PRECISION.items()}
POSTERIORS["rate"] = stats.gamma(3.0 + 7.0, scale=1 / (1.0 + 3.0))


def posterior_of(model: pm.Model) -> tuple[str, Any]:
    """Which of the posteriors a model has, by what it was built of."""
    (free,) = model.free_RVs
    if free.name == "rate":
        return "rate", POSTERIORS["rate"]
    prior_sd = float(free.owner.op.dist_params(free.owner)[1].eval(mode=small_mode()))
    return "mean", POSTERIORS["normal_mean" if prior_sd < 10 else "wide_mean"]


def right(model: pm.Model, seed: int) -> Mapping[str, np.ndarray]:
    name, dist = posterior_of(model)
    return {name: dist.rvs(size=(4, 1000), random_state=seed)}


def too_wide(model: pm.Model, seed: int, factor: float = 1.05) -> Mapping[str, np.ndarray]:
    name, dist = posterior_of(model)
    draws = dist.rvs(size=(4, 1000), random_state=seed)
    return {name: dist.mean() + factor * (draws - dist.mean())}


def without_jacobian(model: pm.Model, seed: int) -> Mapping[str, np.ndarray]:
    """log rate moves as if it had the density of the rate: Gamma(a − 1) in place of Gamma(a)."""
    name, dist = posterior_of(model)
    dist = stats.gamma(9.0, scale=1 / 4.0) if name == "rate" else dist
    return {name: dist.rvs(size=(4, 1000), random_state=seed)}


def without_warm_up(model: pm.Model, seed: int) -> Mapping[str, np.ndarray]:
    """A random walk of the right stationary distribution, from a place 30 standard deviations away."""
    name, dist = posterior_of(model)
    rng, chains = np.random.default_rng(seed), []
    steps = rng.normal(0.0, 2.4 * dist.std(), (1000, 4))
    log_uniform = np.log(rng.random((1000, 4)))
    now = np.full(4, dist.mean() + 30 * dist.std())
    for step, accept in zip(steps, log_uniform, strict=True):
        new = now + step
        now = np.where(accept < dist.logpdf(new) - dist.logpdf(now), new, now)
        chains.append(now)
    return {name: np.stack(chains, axis=1)}


@cache
def of_all() -> bk.Trial:
    tried = [right, too_wide, without_jacobian, without_warm_up, "exact"]
    return bk.trial(tried, references=FEW, random_seed=SEED, progressbar=False)


@pytest.mark.slow
def test_a_right_sampler_passes_and_a_broken_one_is_found() -> None:
    verdicts = of_all().scores["verdict"].to_dict()
    broken = dict.fromkeys(("too_wide", "without_jacobian", "without_warm_up"), "wrong")
    assert verdicts == {"right": "right", **broken, "exact": "right"}
    assert not of_all().passed


def test_the_fault_is_named() -> None:
    table = of_all().table.set_index(["sampler", "reference"])
    assert table.at[("without_jacobian", "rate"), "verdict"] == "wrong"
    assert table.at[("without_jacobian", "normal_mean"), "verdict"] == "right"
    assert any(": sd " in why for why in table.loc["too_wide", "why"])
    assert "no mass" in table.at[("without_warm_up", "normal_mean"), "why"]
    assert of_all().scores.at["too_wide", "sd_ratio"] == pytest.approx(1.05, abs=0.03)
    assert any("all references together: its sds are too large" in line for line in of_all().failures)


def outcome(sampler: str, of: ReferencePosterior, draws: np.ndarray, name: str) -> SamplerOutcome:
    return judged_draws(SamplerOutcome(sampler, of.name, of.group, "drawn"), of, {name: draws}, SEED)


ASKED = {"draws": 1000, "chains": 4, "tune": 1000, "random_seed": SEED}


@pytest.mark.slow
def test_a_fault_too_small_for_one_reference_is_seen_over_all() -> None:
    """An sd that is two per cent too large is 1.8 standard errors on each of 16, and 7 over all of them."""
    rng = np.random.default_rng(3)
    dist = POSTERIORS["normal_mean"]
    draws = dist.mean() + 1.02 * dist.std() * rng.normal(size=(16, 4, 1000))
    outcomes = [
        outcome("two per cent", ReferencePosterior(f"r{k}", "", "g", normal_mean), d, "mean")
        for k, d in enumerate(draws)
    ]
    found = trial_of(outcomes, 0.01, ASKED)
    assert found.scores.at["two per cent", "right"] >= 14
    assert found.scores.at["two per cent", "verdict"] == "wrong"
    assert "over all references" in found.failures[0]


def test_few_effective_draws_are_neither_right_nor_wrong() -> None:
    """Chains that hardly moved, all of them on one side."""
    dist = POSTERIORS["normal_mean"]
    walk = 0.005 * np.random.default_rng(1).normal(size=(4, 1000)).cumsum(axis=1)
    draws = dist.mean() + dist.std() * (walk + np.array([[0.9], [1.4], [0.5], [1.1]]))
    found = trial_of([outcome("slow", MEAN, draws, "mean")], 0.01, ASKED)
    assert found.table.at[0, "verdict"] == "undecided"
    assert not found.passed


@pytest.mark.parametrize(
    ("draws", "said"),
    [
        (np.full((4, 1000), np.nan), "not finite"),
        (np.zeros((4, 0)), "there are no draws"),
    ],
    ids=["not a number", "none"],
)
def test_draws_that_are_none_are_a_failure(draws: np.ndarray, said: str) -> None:
    found = trial_of([outcome("broken", MEAN, draws, "mean")], 0.01, ASKED)
    assert found.table.at[0, "verdict"] == "failed"
    assert said in found.table.at[0, "why"]


def test_draws_outside_of_the_support_are_wrong() -> None:
    draws = POSTERIORS["rate"].rvs(size=(4, 1000), random_state=1)
    draws[0, 0] = -1.0
    found = trial_of([outcome("outside", RATE, draws, "rate")], 0.01, ASKED)
    assert found.table.at[0, "verdict"] == "wrong"


def test_what_a_sampler_raises_is_an_outcome_and_other_samplers_go_on() -> None:
    def raising(model: pm.Model, seed: int) -> Any:
        raise RuntimeError("no\nstart")

    def nameless(model: pm.Model, seed: int) -> Any:
        return {"another": np.zeros((4, 1000))}

    found = bk.trial([raising, nameless, right], references=[MEAN], random_seed=SEED, progressbar=False)
    assert found.scores["verdict"].tolist() == ["failed", "failed", "right"]
    assert found.table["why"].tolist() == ["RuntimeError: no start", "no draws of mean: the draws hold another", ""]


def test_a_sampler_that_ends_the_program_has_failed() -> None:
    """A trial that ends with the code of a sampler, zero say, would pass."""

    def leaving(model: pm.Model, seed: int) -> Any:
        raise SystemExit(0)

    found = bk.trial([leaving, right], references=[MEAN], random_seed=SEED, progressbar=False)
    assert found.scores["verdict"].tolist() == ["failed", "right"]
    assert found.table["why"].tolist() == ["SystemExit: 0", ""]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda draws: np.repeat(draws[:1], 4, axis=0), "two chains have the same draws"),
        (lambda draws: np.full(draws.shape, -60.0), "next to no mass"),
    ],
    ids=["copies", "one place far out"],
)
def test_chains_that_are_no_chains_are_wrong(fault: Callable[[np.ndarray], np.ndarray], said: str) -> None:
    draws = fault(POSTERIORS["normal_mean"].rvs(size=(4, 1000), random_state=1))
    found = trial_of([outcome("no chains", MEAN, draws, "mean")], 0.01, ASKED)
    assert found.table.at[0, "verdict"] == "wrong"
    assert said in found.table.at[0, "why"]


def test_chains_and_draws_that_look_swapped_are_noted() -> None:
    draws = POSTERIORS["normal_mean"].rvs(size=(1000, 4), random_state=1)
    found = trial_of([outcome("swapped", MEAN, draws, "mean")], 0.01, ASKED)
    assert "swapped: 1,000 chains of 4 draws" in str(found)


def test_a_sampler_that_takes_too_long_has_failed_there() -> None:
    def endless(model: pm.Model, seed: int) -> Any:
        while True:
            with suppress(ArithmeticError):
                sum(range(10_000))

    found = bk.trial([endless, right], references=[MEAN], time_limit=0.2, random_seed=SEED, progressbar=False)
    assert found.scores["verdict"].tolist() == ["failed", "right"]
    assert found.table["why"].tolist() == ["TimeoutError: it took more than 0.2 s of processor time", ""]


def test_discrete_parameters_are_not_asked_of_a_sampler_that_follows_gradients() -> None:
    found = bk.trial(["laplace", "exact"], references=[STATE], random_seed=SEED, progressbar=False)
    assert found.scores["verdict"].tolist() == ["not applicable", "right"]


def test_a_run_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    calls: list[str] = []

    def counted(model: pm.Model, seed: int) -> Any:
        calls.append(model.free_RVs[0].name)
        return right(model, seed)

    path = tmp_path / "trial.jsonl"
    asked = {"random_seed": SEED, "progressbar": False, "draws": 1000}
    whole = bk.trial({"counted": counted}, references=FEW, **asked)
    calls.clear()
    bk.trial({"counted": right}, references=[MEAN], checkpoint=path, **asked)
    with path.open("a") as file:
        file.write('{"sampler": "cou')
    again = bk.trial({"counted": right}, references=FEW, checkpoint=path, **asked)
    assert len(path.read_text().splitlines()) == 4
    assert _without_seconds(again) == _without_seconds(whole)
    with pytest.raises(OptionError, match="another draws"):
        bk.trial({"counted": right}, references=FEW, checkpoint=path, **{**asked, "draws": 500})
    bk.trial({"counted": counted}, references=FEW, checkpoint=path, **asked)
    assert len(calls) == 3  # another function of the same name is tried anew


def _without_seconds(trial: bk.Trial) -> Any:
    record = json.loads(trial.to_json())
    return [{k: v for k, v in row.items() if "second" not in k} for row in record["table"]], record["scalars"]


def test_the_draws_depend_on_sampler_and_reference_only() -> None:
    alone = bk.trial({"right": right}, references=[RATE], random_seed=SEED, progressbar=False).scalars
    beside = of_all().scalars
    beside = beside[(beside["sampler"] == "right") & (beside["reference"] == "rate")]
    assert alone["mcmc_mean"].tolist() == beside["mcmc_mean"].tolist()


@pytest.mark.parametrize(
    ("sampler", "references", "said"),
    [
        ("gibbs", None, "no sampler 'gibbs'"),
        (["exact", "exact"], None, "two samplers"),
        ([], None, "no sampler is given"),
        ("nowhere_at_all:sampler", None, "cannot be loaded .*; give module:function"),
        ("math:pi", None, "no function"),
        ("this_program_ends:sampler", None, "cannot be loaded .SystemExit: 0."),
        ("exact", "nothing like it", "no reference or group 'nothing like it': the groups are .*reference list"),
        ("exact", "coins", "no reference or group 'coins': did you mean coin"),
        ("exact", [], "empty"),
        ("exact", [MEAN, ReferencePosterior("normal_mean", "", "", rate)], "two are called"),
    ],
)
def test_what_cannot_be_tried_is_refused(
    sampler: Any, references: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "this_program_ends.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=said):
        bk.trial(sampler, references=references, random_seed=1)


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayeskit.sampling.named_samplers.find_spec", lambda package: None)
    with pytest.raises(OptionError, match=r"blackjax needs jax and blackjax: pip install 'bayeskit\[samplers\]'"):
        bk.trial("blackjax", random_seed=1)


@pytest.mark.slow
def test_a_sampler_by_name_gives_as_many_draws_as_asked() -> None:
    (metropolis,) = (sampler for sampler in SAMPLERS if sampler.name == "metropolis")
    found = outcome_of(metropolis, MEAN, Settings(20, 2, 20, SEED))
    assert (found.ended, found.chains, found.draws) == ("drawn", 2, 20)


def test_a_mapping_names_samplers_also_those_of_one_kind() -> None:
    """As the error of two of one name advises."""
    with pytest.raises(OptionError, match="give them as a mapping by name"):
        contenders(["metropolis", "metropolis"])
    one, two = contenders({"one": "metropolis", "two": "metropolis"})
    assert (one.name, two.name, one.options) == ("one", "two", two.options)
    found = outcome_of(two, MEAN, Settings(20, 2, 20, SEED))
    assert (found.sampler, found.ended, found.draws) == ("two", "drawn", 20)


def test_every_sampler_has_a_name_of_its_own() -> None:
    assert len(set(sampler_names())) == len(SAMPLERS) >= 12


@pytest.mark.slow
def test_the_page_and_the_picture_show_every_sampler(tmp_path: Path) -> None:
    page = of_all().report(tmp_path / "trial.html").read_text()
    assert all(name in page for name in of_all().scores.index)
    assert "no mass" in page
    assert "right" in str(of_all())
    drawn = of_all().plot(backend="none").viz["plot"]
    assert drawn.size == 1
