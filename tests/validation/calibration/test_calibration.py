"""Right methods pass, methods that are a little wrong are found, and nothing depends on how the work was split."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.stats import norm

import bayeskit as bk
from bayeskit.elimination.plan import analyse
from bayeskit.errors import InferenceError, ModelError, OptionError
from bayeskit.validation import Calibration
from bayeskit.validation.calibration import simulation_based
from bayeskit.validation.calibration.experiment import Experiment, streams
from bayeskit.validation.calibration.repeated_inference import RepeatedInference
from bayeskit.validation.calibration.simulated_data import simulator
from bayeskit.validation.prepared_processes import in_prepared_processes

SEED = 7


@cache
def coin(a: float = 2.0) -> pm.Model:
    with pm.Model() as model:
        pm.Binomial("y", 10, pm.Beta("theta", a, 3.0), observed=4)
    return model


def regression() -> pm.Model:
    with pm.Model(coords={"row": range(8), "term": ["level", "slope"]}) as model:
        w = pm.Normal("w", dims="term")
        pm.Normal("y", w[0] + w[1] * np.linspace(-1.0, 1.0, 8), 1.0, observed=np.zeros(8), dims="row")
    return model


@cache
def means(prior_sd: float = 0.3, noise: float = 1.0, number: int = 20) -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0.0, prior_sd, shape=number), noise, observed=np.zeros(number))
    return model


@cache
def variance() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", 0.0, pm.math.sqrt(pm.InverseGamma("v", 3.0, 2.0)), observed=np.zeros(2))
    return model


@cache
def of_regression() -> Calibration:
    return bk.calibrate(regression(), datasets=100, random_seed=SEED)


def posterior_of_variance(model: pm.Model, seed: int, power: float = 0.0) -> dict[str, np.ndarray]:
    """Draws of v, exact but for a factor v^power of the density, as if a Jacobian had been forgotten."""
    y = model.rvs_to_values[model["y"]].data
    precision = np.random.default_rng(seed).gamma(3.0 + len(y) / 2 - power, 1.0, (1, 200))
    return {"v": (2.0 + np.sum(y**2) / 2) / precision}


def chain_of_the_coin(model: pm.Model, seed: int, burn_in: int) -> dict[str, np.ndarray]:
    """Independent draws of theta, the first ones from where a chain started."""
    y, rng = int(model.rvs_to_values[model["y"]].data), np.random.default_rng(seed)
    draws = rng.beta(2.0 + y, 13.0 - y, (1, 100))
    draws[:, :burn_in] = 0.02
    return {"theta": draws}


def two_means(model: pm.Model, seed: int, labels: bool) -> dict[str, np.ndarray]:
    """Draws of two exchangeable means, which their likelihood sees in order; with or without both labellings."""
    y, rng = np.sort(model.rvs_to_values[model["y"]].data), np.random.default_rng(seed)
    draws = y + rng.normal(size=(1, 200, 2))
    return {"mean": rng.permuted(draws, axis=2) if labels else np.sort(draws, axis=2)}


@pytest.mark.slow
def test_an_exact_answer_is_calibrated() -> None:
    found = of_regression()
    assert found.passed, str(found)
    assert not found.failures
    assert list(found.table.index) == [
        "w[level]",
        "w[slope]",
        "log prior",
        "log likelihood",
        "log likelihood of new data",
        "prediction of y",
    ]
    assert list(found.table["values"]) == ["exact", "exact", "ranks", "ranks", "ranks", "ranks"]
    assert found.methods == {"exact": 100}
    assert found.comparisons == 18
    assert found.pit.sizes["dataset"] == 100


def test_values_of_a_closed_form_are_its_cdf() -> None:
    """u of the first data sets, by the textbook's posterior of a regression."""
    draw, x = simulator(analyse(regression())), np.column_stack([np.ones(8), np.linspace(-1.0, 1.0, 8)])
    for k in range(3):
        simulated = draw(np.random.default_rng(streams(SEED, k)[0]))
        covariance = np.linalg.inv(np.eye(2) + x.T @ x)
        z = (simulated.parameters["w"] - covariance @ x.T @ simulated.data["y"]) / np.sqrt(np.diag(covariance))
        found = [float(of_regression().pit[f"w[{term}]"][k]) for term in ("level", "slope")]
        np.testing.assert_allclose(found, norm.cdf(z), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "seen_in"),
    [({"noise": 1.05}, "log likelihood of new data"), ({"prior_sd": 0.33}, "log prior")],
    ids=["sd of the data", "sd of the prior"],
)
def test_a_wrong_sd_is_found(wrong: dict[str, float], seen_in: str) -> None:
    # Of 100 numbers the sum of log densities is off by 2 × 5 % × √50 = 0.7 sd: 5.5 sd of a mean over 60 data sets.
    model, generator = means(**wrong, number=100), means(number=100)
    found = bk.calibrate(model, generator=generator, datasets=60, random_seed=1)
    assert f"{seen_in}: its posterior lies too low" in " ".join(found.failures), str(found)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "width"), [(1.5, "narrow"), (0.6, "wide")])
def test_predictive_intervals_of_a_wrong_width_are_found(noise: float, width: str) -> None:
    found = bk.calibrate(means(), generator=means(noise=noise), datasets=80, random_seed=1)
    assert f"prediction of y: its posterior is too {width}" in " ".join(found.failures), str(found)
    # Entries are predicted with sd √(0.09 / 1.09 + 1) about a shrunk mean: the share inside of a 90 % interval.
    error = np.sqrt(noise**2 + (0.09 / 1.09) ** 2 * noise**2 + (0.3 / 1.09) ** 2)
    inside = 1 - 2 * norm.sf(norm.isf(0.05) * np.sqrt(1 + 0.09 / 1.09) / error)
    assert abs(found.table.loc["prediction of y", "inside_90"] - inside) < 5 * np.sqrt(inside * (1 - inside) / 80)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "write"),
    [
        (posterior_of_variance, partial(posterior_of_variance, power=1.0), variance),
        (partial(chain_of_the_coin, burn_in=0), partial(chain_of_the_coin, burn_in=40), coin),
    ],
    ids=["a Jacobian that was forgotten", "a start that was kept"],
)
def test_a_sampler_that_is_wrong_is_found_and_a_right_one_is_not(
    right: Callable[..., Any], wrong: Callable[..., Any], write: Callable[[], pm.Model]
) -> None:
    # Without the Jacobian log v is half its sd too large, 4.4 sd of a mean over 70; the start holds 40 % of the draws.
    found = [bk.calibrate(write(), method=method, datasets=70, random_seed=2) for method in (right, wrong)]
    assert [calibration.passed for calibration in found] == [True, False], "\n".join(map(str, found))
    assert found[0].methods == {"the sampler": 70}


@pytest.mark.slow
def test_an_answer_in_one_labelling_only_is_found() -> None:
    """The mean of a component is anywhere in its posterior only if its posterior has both components."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 50.0, shape=2)
        pm.Normal("y", pm.math.sort(mean), 1.0, observed=np.zeros(2))
    for labels in (True, False):
        found = bk.calibrate(model, method=partial(two_means, labels=labels), datasets=20, random_seed=3)
        assert found.passed == labels, str(found)


@pytest.mark.slow
def test_that_components_have_no_order_and_where_chains_start_is_said() -> None:
    with pm.Model() as model:
        weights, scale = pm.Dirichlet("weights", np.ones(3)), pm.HalfNormal("scale", shape=3)
        pm.NormalMixture("y", weights, pm.Normal("mean", 0.0, 3.0, shape=3), scale, observed=np.linspace(-2, 2, 9))
    (note,) = RepeatedInference(Experiment(model, None, "nuts", None, {}, 1)).of_chains
    assert note.startswith("the components of weights, scale, mean have no order")
    assert not RepeatedInference(Experiment(regression(), None, "nuts", None, {}, 1)).of_chains
    with pm.Model() as started:
        pm.Poisson("y", pm.math.exp(pm.Normal("slope", initval=2.0)), observed=3)
    (note,) = RepeatedInference(Experiment(started, None, "nuts", None, {}, 1)).of_chains
    assert note.startswith("chains start where the model puts slope (initval)")


@pytest.mark.slow
def test_quadrature_and_a_sampler_are_calibrated() -> None:
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        mean = pm.Normal("mean", pm.Normal("centre"), scale, shape=3)
        pm.Normal("y", mean, 1.0, observed=np.zeros(3))
    found = bk.calibrate(model, datasets=8, random_seed=4)
    assert found.passed, str(found)
    assert found.methods == {"quadrature": 8}
    assert found.table.loc["mean[0]", "values"] == "exact"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [int, float, bool])
def test_data_in_a_container_of_another_type(dtype: type) -> None:
    """PyMC casts what a container holds to what the distribution has."""
    with pm.Model() as model:
        values = pm.Data("values", np.array([0, 1, 1, 0], dtype=dtype))
        pm.Bernoulli("y", pm.Beta("p", 2.0, 2.0), observed=values)
    found = bk.calibrate(model, datasets=10, random_seed=10)
    assert found.passed, str(found)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean"), 1.0, observed=pm.Data("values", np.array([0, 1], dtype=dtype)))
    if dtype is float:
        assert bk.calibrate(model, datasets=2, random_seed=10).datasets == 2
    else:
        with pytest.raises(ModelError, match="the data container 'values' holds"):
            bk.calibrate(model, datasets=2, random_seed=10)


def test_quantities_of_ones_own_have_labels_and_deterministics() -> None:
    with regression() as model:
        pm.Deterministic("height", model["w"][0] + model["w"][1])
    quantities = {"height": lambda d: d["height"], "both": lambda d: 2 * d["w"]}
    found = bk.calibrate(model, datasets=4, quantities=quantities, random_seed=5)
    assert {"height", "both[0]", "both[1]"} <= set(found.table.index)
    with pytest.raises(OptionError, match="'w' is ranked already"):
        bk.calibrate(model, datasets=2, quantities={"w": lambda d: d["w"]}, random_seed=5)
    with pytest.raises(OptionError, match="'low' lacks the dims chain and draw"):
        bk.calibrate(model, datasets=2, quantities={"low": lambda d: d["w"].min()}, random_seed=5)


@pytest.mark.slow
def test_model_probabilities_are_calibrated() -> None:
    with pm.Model() as null:
        pm.Normal("y", 0.0, 1.0, observed=np.zeros(6))
    models = {}
    for name, sd in (("effect", 1.0), ("too wide", 30.0)):
        with pm.Model() as models[name]:
            pm.Normal("y", pm.Normal("mean", 0.0, sd), 1.0, observed=np.zeros(6))
    found = bk.calibrate({"null": null, "effect": models["effect"]}, datasets=40, random_seed=6)
    assert found.passed, str(found)
    assert list(found.table.index) == ["model"]
    assert found.table.loc["model", "values"] == "exact"
    with pm.Model() as longer:
        pm.Normal("y", 0.0, 1.0, observed=np.zeros(7))
    with pytest.raises(ModelError, match=r"longer observes y of shape \(7,\), and null of shape \(6,\)"):
        bk.calibrate({"null": null, "longer": longer}, random_seed=6)
    with pytest.raises(OptionError, match="is for one model"):
        bk.calibrate({"null": null, **models}, quantities={"a": lambda d: d}, random_seed=6)
    with pytest.raises(OptionError, match="two or more by name"):
        bk.calibrate({"null": null}, random_seed=6)


@pytest.mark.slow
def test_a_run_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    """After a kill in the middle of a line: the same numbers, and what was finished is not computed again."""
    path, whole = tmp_path / "deep" / "run.jsonl", bk.calibrate(coin(), datasets=12, random_seed=8)
    bk.calibrate(coin(), datasets=9, random_seed=8, checkpoint=path)
    lines = path.read_text().splitlines(keepends=True)
    assert len({json.loads(line)["dataset"] for line in lines[1:]}) == 9
    marked = json.loads(lines[1]) | {"seconds": 1e6}
    path.write_text("".join([lines[0], json.dumps(marked) + "\n", *lines[2:8], lines[8][:20]]))
    found = bk.calibrate(coin(), datasets=12, random_seed=8, checkpoint=path)
    xr.testing.assert_identical(found.pit, whole.pit)
    assert found.seconds > 1e6
    assert len(path.read_text().splitlines()) == 13
    path.write_text(path.read_text() + lines[3])  # as two runs on one file would leave it
    assert bk.calibrate(coin(), datasets=12, random_seed=8, checkpoint=path).datasets == 12
    fewer = bk.calibrate(coin(), datasets=5, random_seed=8, checkpoint=path)
    assert fewer.pit.sizes["dataset"] == 5


@pytest.mark.slow
def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    bk.calibrate(coin(), datasets=3, random_seed=8, checkpoint=path)
    with pytest.raises(OptionError, match="with another seed: 8 there, 9 here"):
        bk.calibrate(coin(), datasets=3, random_seed=9, checkpoint=path)
    with pytest.raises(OptionError, match="another first data set"):
        bk.calibrate(coin(2.1), datasets=3, random_seed=8, checkpoint=path)
    path.write_text("a line without an end")
    with pytest.raises(OptionError, match="it has no whole line"):
        bk.calibrate(coin(), datasets=3, random_seed=8, checkpoint=path)
    assert path.read_text() == "a line without an end"
    path.write_text("hello\n")
    with pytest.raises(OptionError, match="cannot be read"):
        bk.calibrate(coin(), datasets=3, random_seed=8, checkpoint=path)
    path.write_text('{"a": 1}\n')
    with pytest.raises(OptionError, match="is no checkpoint"):
        bk.calibrate(coin(), datasets=3, random_seed=8, checkpoint=path)


@pytest.mark.slow
def test_processes_give_the_same_numbers() -> None:
    """A copy of this one, and one that has only what was written to a file, as one that is started anew.

    That one is started, and has its share, is asked of short jobs in tests/graphs/test_processes.py.
    """
    alone = bk.calibrate(coin(), datasets=6, random_seed=9)
    xr.testing.assert_identical(bk.calibrate(coin(), datasets=6, random_seed=9, processes=2).pit, alone.pit)
    repeated = RepeatedInference(Experiment(coin(), None, "auto", None, {}, 9))
    (elsewhere,) = in_prepared_processes(simulation_based._repetition_of, repeated.of, [4], 1)
    assert elsewhere.dataset == 4
    assert elsewhere.values == {n: float(alone.pit[n][4]) for n in alone.pit}


def test_a_checkpoint_of_another_sampler_or_with_other_numbers_is_refused(tmp_path: Path) -> None:
    path, right = tmp_path / "run.jsonl", partial(chain_of_the_coin, burn_in=0)
    bk.calibrate(coin(), method=right, datasets=3, random_seed=8, checkpoint=path)
    with pytest.raises(OptionError, match="another method"):
        bk.calibrate(coin(), method=partial(right, burn_in=20), datasets=3, random_seed=8, checkpoint=path)
    whole = path.read_text()
    for row in ('{"dataset": 1}', "[1]", '{"dataset": 1, "values": {"theta": 1.7}, "exact": []}'):
        path.write_text(whole + row + "\n")
        with pytest.raises(OptionError, match="line 5"):
            bk.calibrate(coin(), method=right, datasets=3, random_seed=8, checkpoint=path)


def broken(model: pm.Model, seed: int) -> Any:
    raise ZeroDivisionError("no")


def test_a_sampler_that_raises_is_said() -> None:
    with pytest.raises(InferenceError, match=r"none of 3 data sets had an answer; .* ZeroDivisionError: no"):
        bk.calibrate(coin(), method=broken, datasets=3, random_seed=1)


def test_data_sets_without_an_answer_are_no_selection_without_a_word() -> None:
    def sometimes(model: pm.Model, seed: int) -> Any:
        if int(model.rvs_to_values[model["y"]].data) > 4:
            raise RuntimeError("too many")
        return chain_of_the_coin(model, seed, 0)

    found = bk.calibrate(coin(), method=sometimes, datasets=20, random_seed=1)
    assert not found.passed
    assert "had no answer, so that the others are a selection" in " ".join(found.failures)
    assert "RuntimeError: too many" in " ".join(found.notes)


def test_models_that_do_not_fit_each_other_are_refused() -> None:
    with pytest.raises(ModelError, match="share no free variable"):
        bk.calibrate(variance(), generator=regression(), random_seed=1)
    with pytest.raises(OptionError, match="or a function"):
        bk.calibrate(coin(), method="gibbs", random_seed=1)


def test_what_is_shown() -> None:
    found = of_regression()
    assert str(found).startswith("calibrated, as far as these data sets show: 18 tests")
    assert "\n  half the time they would show a posterior's sd that is 20 % too small, or 31 % too large\n" in str(
        found
    )
    assert "Calibration(calibrated" in repr(found)
    assert "<table" in found._repr_html_()
    drawn = found.plot(backend="none")
    assert set(drawn.viz["plot"].coords["panel"].to_numpy()) == set(found.table.index)


@pytest.mark.slow
def test_too_few_data_sets_or_draws_are_no_proof() -> None:
    few = bk.calibrate(regression(), datasets=2, random_seed=SEED)
    assert few.passed and few.too_few
    assert str(few).startswith("too few data sets to say whether it is calibrated: 18 tests")
    one = bk.calibrate(coin(), method=partial(chain_of_the_coin, burn_in=0), draws=1, datasets=30, random_seed=SEED)
    assert one.verdict.startswith("too few draws of each posterior to say whether it is calibrated")
    assert "no sd of a posterior is so small that they would show it half the time" in str(one)


def asked_once(answer: Any) -> tuple[Callable[[pm.Model, int], Any], list[int]]:
    asked: list[int] = []

    def sampler(model: pm.Model, seed: int) -> Any:
        asked.append(seed)
        return answer

    return sampler, asked


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            {"phi": np.zeros((1, 10))},
            "not draws of this model: no draws of theta: the draws hold phi",
        ),
        (None, "not draws of this model: draws are a NoneType"),
        ({"theta": np.zeros((2, 3, 4, 5))}, "not draws of this model: theta: its draws have shape"),
    ],
)
def test_what_is_no_draws_is_said_at_the_first_data_set(answer: Any, words: str) -> None:
    sampler, asked = asked_once(answer)
    with pytest.raises(OptionError, match=words):
        bk.calibrate(coin(), method=sampler, datasets=50, random_seed=1)
    assert len(asked) == 1


@pytest.mark.slow
def test_what_cannot_be_called_with_a_model_and_a_seed_is_never_called() -> None:
    for wrong in (lambda model: None, lambda model, *, seed: None, lambda model, seed, more: None):
        with pytest.raises(OptionError, match=r"^method is called as method\(model, seed\), and cannot be: "):
            bk.calibrate(coin(), method=wrong, datasets=50, random_seed=1)
    with pytest.raises(OptionError, match="'twice' raised KeyError"):
        bk.calibrate(coin(), quantities={"twice": lambda d: d["phi"]}, datasets=50, random_seed=1)


def test_of_few_data_sets_the_fault_is_a_percentage_that_can_be_read() -> None:
    """An sd of seven times the right one is 600 % too large, not "6e+02 %"."""
    found = replace(of_regression(), detectable_sds=(0.24, 7.0))
    assert found.found_half_the_time.endswith("that is 76 % too small, or 600 % too large")


@pytest.mark.parametrize(
    ("bad", "said"), [(np.nan, "1 of 1,000 draws of 'rate' are not finite"), (-1.0, "'rate' lies")]
)
def test_a_draw_that_thinning_leaves_out_is_seen(bad: float, said: str) -> None:
    """Of 1,000 draws some 200 are ranked: one that is no number, or outside, was among the others."""
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("rate", 2.0, 1.0), observed=[3, 1])

    def sampler(model: pm.Model, seed: int) -> dict[str, np.ndarray]:
        draws = np.random.default_rng(seed).gamma(2.0, size=(4, 250))
        draws[1, 3] = bad
        return {"rate": draws}

    with pytest.raises(InferenceError, match=said):
        bk.calibrate(model, method=sampler, datasets=3, random_seed=1, progressbar=False)
