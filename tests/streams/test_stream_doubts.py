"""What a stream, or posteriors that are brought together, must not be silent about; and what crashed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import bayeskit as bk
from bayeskit.errors import DataError, ModelError, OptionError

RNG = np.random.default_rng(5)
Build = Callable[[Any], pm.Model]


def of(body: Callable[[Any], None]) -> Build:
    def build(rows: Any) -> pm.Model:
        with pm.Model() as model:
            body(rows)
        return model

    return build


def seen(build: Build, *chunks: Any) -> bk.Stream:
    stream = bk.Stream(build)
    for chunk in chunks:
        stream.update(chunk)
    return stream


def tosses(y: np.ndarray) -> None:
    pm.Bernoulli("y", pm.Beta("rate", 2.0, 3.0), observed=y)


def line(rows: Any) -> None:
    slope = pm.Normal("slope", 0.0, 1.0)
    pm.Normal("y", slope * np.asarray(rows["x"]), 1.0, observed=np.asarray(rows["y"]))


def shops(rows: pd.DataFrame) -> pm.Model:
    names, shop = np.unique(rows["shop"], return_inverse=True)
    with pm.Model(coords={"shop": names}) as model:
        pm.Poisson("sold", pm.Gamma("rate", 2.0, 0.5, dims="shop")[shop], observed=rows["sold"].to_numpy())
    return model


def days(prior: Callable[[int], Any]) -> Build:
    def build(rows: Any) -> pm.Model:
        labels, day = np.unique(rows["day"], return_inverse=True)
        with pm.Model(coords={"day": labels}) as model:
            pm.Normal("y", prior(len(labels))[day], 1.0, observed=rows["y"])
        return model

    return build


def effects(number: int) -> Any:
    return pm.Normal("level", pm.Normal("mean", 0.0, 1.0), 1.0, dims="day")


def walk(number: int) -> Any:
    return pm.GaussianRandomWalk("level", mu=0.0, sigma=1.0, init_dist=pm.Normal.dist(0.0, 1.0), dims="day")


def narrower(number: int) -> Any:
    return pm.Normal("level", 0.0, 1.0 / number, dims="day")


def zero_sum(number: int) -> Any:
    return pm.ZeroSumNormal("level", 1.0, dims="day")


# Covariances of the levels of the days 2 and 5 and one more, which is 4 for `effects` and 6 for `walk`.
EFFECTS = np.eye(3) + 1.0
WALK = np.minimum.outer(np.arange(3), np.arange(3)) + 1.0


def of_day(day: int, *y: float) -> dict[str, np.ndarray]:
    return {"day": np.full(len(y), day), "y": np.array(y)}


@pytest.mark.slow
@pytest.mark.parametrize(("prior", "second", "covariance"), [(effects, 4, EFFECTS), (walk, 6, WALK)])
def test_a_score_is_the_density_of_a_forecast(prior: Callable[[int], Any], second: int, covariance: np.ndarray) -> None:
    """That of the Normal distribution of a value given the two before it."""
    first = seen(days(prior), {"day": np.array([5, 2]), "y": np.array([1.5, 0.5])})
    assert np.isfinite(first.score)  # known to its copies, which need not find it anew
    total = covariance + np.eye(3)
    weights = np.linalg.solve(total[:2, :2], total[:2, 2])
    forecast = stats.norm(weights @ [0.5, 1.5], np.sqrt(total[2, 2] - weights @ total[:2, 2]))
    for y in (-2.0, 3.0):
        stream = copy(first)
        stream.update(of_day(second, y))
        assert stream.score == pytest.approx(forecast.logpdf(y), abs=1e-7)
    assert list(stream.scores) == ["chunk", "score", "error", "label"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "second", "why"),
    [
        (walk, 4, "'level'"),
        (narrower, 6, "'level' has another density"),
        (zero_sum, 6, "'level' have one distribution together"),
    ],
)
def test_a_chunk_that_was_not_forecast_has_no_score(prior: Callable[[int], Any], second: int, why: str) -> None:
    """The ratio of the evidences would be no density, which integrates to one over what may come."""
    stream = seen(days(prior), {"day": np.array([5, 2]), "y": np.array([1.5, 0.5])}, of_day(second, 0.3))
    with pytest.raises(ModelError, match=f"chunk 2 has no score: it was not forecast, for .*{why}"):
        _ = stream.score
    assert np.isnan(stream.scores["score"].iloc[1])
    assert why in stream.scores["reason"].iloc[1]
    assert np.isfinite(stream.log_evidence.value)  # that of all rows is what it is


@pytest.mark.slow
def test_a_group_that_is_left_out_is_not_taken_for_the_first() -> None:
    stream = seen(shops, pd.DataFrame({"shop": ["n", "s", "w"] * 4, "sold": [1, 10, 100] * 4}))
    with pytest.raises(DataError, match="the new data have no column 'shop'"):
        stream.predict(pd.DataFrame({"sold": [0, 0]}), random_seed=0)
    drawn = stream.predict(pd.DataFrame({"shop": ["w"]}), random_seed=0)["sold"]
    assert drawn.mean() == pytest.approx(402 / 4.5, rel=0.02)


def test_a_forecast_at_a_missing_value_is_refused() -> None:
    stream = seen(of(line), pd.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.0]}))
    with pytest.raises(DataError, match="column 'x' has a missing value in row 1"):
        stream.predict(pd.DataFrame({"x": [1.0, np.nan]}))


def test_columns_that_are_numbers_are_filled_under_their_own_name() -> None:
    def body(rows: pd.DataFrame) -> None:
        pm.Normal("y", pm.Normal("slope", 0.0, 1.0) * rows[1].to_numpy(), 1.0, observed=rows[0].to_numpy())

    stream = seen(of(body), pd.DataFrame({0: [1.0, 2.0], 1: [1.0, 2.0]}))
    assert stream.predict(pd.DataFrame({1: [3.0, 4.0]}), random_seed=1)["y"].shape[-1] == 2


def test_discounted_rows_are_no_evidence_wherever_they_go() -> None:
    first, second = np.array([1, 0, 1, 1]), np.array([0, 1])
    discounted = seen(of(tosses), first)
    discounted.discount(0.5)
    assert "power" in discounted.posterior.log_evidence.convention
    both = bk.combine([discounted.posterior, bk.infer(of(tosses)(second))])
    assert both.marginal("rate").mean() == pytest.approx((2 + 1.5 + 1) / (5 + 2 + 2))
    assert "power" in both.log_evidence.convention
    with pytest.raises(ModelError, match="its rows were discounted"):
        bk.compare({"half": both, "other": bk.infer(of(tosses)(second))})
    joined = bk.combine([seen(of(tosses), second), discounted])
    assert joined.posterior.marginal("rate").mean() == both.marginal("rate").mean()
    assert "power" in joined.posterior.log_evidence.convention
    assert "its rows were discounted" in joined.log_evidence.reason
    with pytest.raises(ModelError, match="its rows were discounted"):
        _ = joined.score


@pytest.mark.slow
def test_what_is_asked_between_chunks_changes_nothing() -> None:
    chunks = RNG.normal(size=(3, 4))

    def body(y: np.ndarray) -> None:
        pm.Normal("y", pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("sd", 2.0), observed=y)

    asked = bk.Stream(of(body))
    for y in chunks:
        asked.update(y)
        assert np.isfinite(asked.score)
    assert asked.log_evidence == seen(of(body), *chunks).log_evidence
    assert not asked.log_evidence.convention


def test_a_discount_of_no_rows_is_none() -> None:
    stream = bk.Stream(of(tosses))
    stream.discount(0.5)
    stream.update(np.array([1, 0]))
    assert not stream.posterior.log_evidence.convention
    assert not stream.log_evidence.convention


def test_the_convention_of_a_potential_stays_with_a_discount() -> None:
    def body(y: np.ndarray) -> None:
        mean = pm.Normal("mean", 0.0, 1.0)
        pm.Potential("tilt", -(mean**2))
        pm.Normal("y", mean, 2.0, observed=y)

    stream = seen(of(body), np.array([1.0, 2.0]))
    stream.discount(0.5)
    for evidence in (stream.log_evidence, stream.posterior.log_evidence):
        assert "discounted" in evidence.convention
        assert "tilt" in evidence.convention


MODULE = """
import pymc as pm
def build(y):
    with pm.Model() as model:
        {name} = pm.Normal("{name}", 0.0, {sd})
        pm.Normal("y", {slope} * {name}, {noise}, observed=y)
    return model
"""


def test_a_builder_that_is_another_one_by_now_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one in a module the file has no more than the name."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    first = {"name": "mu", "sd": 1.0, "slope": 1.0, "noise": 1.0}
    source = tmp_path / "builder_of_streams.py"

    def build_of(**changes: Any) -> Build:
        source.write_text(MODULE.format(**{**first, **changes}))
        sys.modules.pop(source.stem, None)
        importlib.invalidate_caches()
        found: Build = importlib.import_module(source.stem).build
        return found

    stream = seen(build_of(), np.array([1.0, 2.0, 3.0]), np.array([4.0, 2.0]))
    path = stream.save(tmp_path / "means.stream")
    assert bk.Stream.load(path).log_evidence == stream.log_evidence
    for change, message in (
        ({"sd": 10.0}, "the prior of 'mu' is another one"),
        ({"slope": 2.0}, "another likelihood"),
        ({"noise": 3.0}, "another likelihood"),
        ({"name": "nu"}, "only one of the two has the variable"),
    ):
        build_of(**change)
        with pytest.raises(ModelError, match=message):
            bk.Stream.load(path)


def test_a_stream_goes_on_beside_its_copy() -> None:
    stream = seen(of(tosses), np.array([1, 0]))
    (alone,) = [bk.combine([stream])]
    alone.update(np.array([1, 1]))
    assert (stream.rows, alone.rows) == (2, 4)
    assert len(stream.scores) == 1


def test_a_generator_of_seeds_gives_other_draws_each_time() -> None:
    stream, rng = seen(of(tosses), np.array([1, 0])), np.random.default_rng(0)
    one, two = (stream.infer(random_seed=rng).tree["posterior"]["rate"].to_numpy() for _ in range(2))
    assert not np.array_equal(one, two)
    assert stream.infer(random_seed=3) is stream.infer(random_seed=3)
    assert stream.infer(random_seed=[1, 2]).log_evidence.label == "exact"


@pytest.mark.parametrize("identity", [float("nan"), ("a", [1]), [1]])
def test_what_a_chunk_is_known_by_can_be_told_again(identity: Any) -> None:
    with pytest.raises(OptionError, match="id is"):
        bk.Stream(of(tosses)).update(np.array([1, 0]), id=identity)


def test_a_path_that_is_none_is_refused() -> None:
    with pytest.raises(OptionError, match="path is None"):
        bk.Stream.load(None)  # type: ignore[arg-type]


TABLE = pd.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.5]})


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (TABLE.assign(z=1), "chunk 2 has the column 'z', which the chunks before it do not have"),
        ({"x": np.ones(2), "y": np.ones(2)}, "chunk 2 is a mapping, and the chunks before it a DataFrame"),
    ],
)
def test_chunks_of_another_form_are_refused_by_name(chunk: Any, message: str) -> None:
    stream = seen(of(line), TABLE)
    with pytest.raises(DataError, match=message):
        stream.update(chunk)
    assert stream.rows == 2


def test_a_builder_may_add_columns_to_what_it_is_given() -> None:
    def body(rows: pd.DataFrame) -> None:
        rows["half"] = rows["x"] / 2
        pm.Normal("y", pm.Normal("slope", 0.0, 1.0) * rows["half"].to_numpy(), 1.0, observed=rows["y"].to_numpy())

    assert seen(of(body), TABLE, TABLE).rows == 4
    assert list(TABLE) == ["x", "y"]


def test_a_stream_within_a_model_is_refused() -> None:
    with pm.Model(), pytest.raises(ModelError, match="inside a"):
        bk.Stream(of(tosses)).update(np.array([1, 0]))


def test_builders_with_other_variables_are_refused() -> None:
    def more(rows: Any) -> None:
        line(rows)
        pm.Normal("extra", 0.0, 1.0)

    streams = [seen(of(line), TABLE), seen(of(more), TABLE)]
    for pair in (streams, streams[::-1]):
        with pytest.raises(ModelError, match="'extra'"):
            bk.combine(pair)


def test_posteriors_of_sums_combine_alone_and_again() -> None:
    one = bk.infer(of(line), chunks=[TABLE, TABLE])
    again = bk.combine([bk.combine([one])])
    assert again.log_evidence.value == pytest.approx(one.log_evidence.value, rel=1e-12)


@pytest.mark.slow
def test_chunks_of_which_all_rows_are_censored() -> None:
    def body(y: np.ndarray) -> None:
        pm.Censored("y", pm.Normal.dist(pm.Normal("mean", 0.0, 1.0), 2.0), lower=None, upper=2.0, observed=y)

    chunks = [np.array([1.0, 2.0, 0.5]), np.array([2.0, 2.0]), np.array([2.0, 0.1])]
    whole = bk.infer(of(body)(np.concatenate(chunks)), random_seed=0).log_evidence
    for order in ([0, 1, 2], [1, 2, 0]):
        found = seen(of(body), *(chunks[k] for k in order)).log_evidence
        assert found.value == pytest.approx(whole.value, abs=found.error + whole.error)


def test_a_choice_of_numbers_has_all_digits() -> None:
    """PyTensor makes a number of single precision of 2.0, and takes its logarithm so."""

    def body(rows: Any) -> None:
        rate = pm.math.switch(pm.Bernoulli("z", 0.4, shape=2)[rows["g"]], 2.0, 4.0)
        pm.Poisson("k", rate, observed=rows["k"])

    stream = seen(of(body), {"g": np.array([0, 1, 0]), "k": np.array([3, 1, 4])})
    of_group = [
        np.log(sum(p * np.prod(stats.poisson(r).pmf(k)) for p, r in ((0.4, 2.0), (0.6, 4.0)))) for k in ([3, 4], [1])
    ]
    assert stream.log_evidence.value == pytest.approx(sum(of_group), rel=1e-13)


def test_a_process_over_rows_is_refused_by_name() -> None:
    def body(y: np.ndarray) -> None:
        kernel = pm.gp.cov.ExpQuad(1, pm.Gamma("length", 2.0, 2.0))
        pm.MvNormal("y", np.zeros(len(y)), kernel(np.arange(len(y))[:, None]) + 4.0 * np.eye(len(y)), observed=y)

    with pytest.raises(ModelError, match="'y' does not add up over rows"):
        bk.Stream(of(body)).update(np.array([1.0, 2.0, 0.0]))


def visits(seed: int) -> pd.DataFrame:
    """Of three thousand customers, few of whom come twice."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"day": np.repeat(np.arange(4), 80), "customer": rng.integers(0, 3000, 320), "y": rng.normal(size=320)}
    )


@pytest.mark.parametrize("seed", range(3))
def test_what_is_made_of_the_first_row_of_a_customer_is_refused(seed: int) -> None:
    def body(rows: pd.DataFrame) -> None:
        since = rows["day"] - rows.groupby("customer")["day"].transform("min")
        mean = pm.Normal("level", 0.0, 1.0) + pm.Normal("slope", 0.0, 1.0) * since.to_numpy(float)
        pm.Normal("y", mean, 1.0, observed=rows["y"].to_numpy())

    with pytest.raises(ModelError, match="'y' does not add up over rows"):
        seen(of(body), *(part for _, part in visits(seed).groupby("day")))


@pytest.mark.slow
def test_a_column_of_a_group_is_not_refused() -> None:
    """What is the same in all rows of a group may be looked up in the first of them."""

    def build(rows: pd.DataFrame) -> pm.Model:
        of_county = rows.groupby("county")["uranium"].first()
        with pm.Model(coords={"county": of_county.index.to_numpy()}) as model:
            mean = pm.Normal("slope", 0.0, 1.0) * of_county.to_numpy()
            effect = pm.Normal("effect", mean, 1.0, dims="county")
            place = of_county.index.get_indexer(rows["county"])
            pm.Normal("y", effect[place], 1.0, observed=rows["y"].to_numpy())
        return model

    rng = np.random.default_rng(1)
    county = rng.integers(0, 30, 120)
    table = pd.DataFrame({"county": county, "uranium": np.sqrt(county), "y": rng.normal(size=120)})
    whole = bk.infer(build(table), draws=4, random_seed=1).log_evidence
    found = seen(build, *(part for _, part in table.groupby(np.arange(120) // 40))).log_evidence
    assert found.value == pytest.approx(whole.value, rel=1e-10)


def by_row(y: np.ndarray) -> None:
    pm.Normal("y", pm.Normal("effect", pm.Normal("mean", 0.0, 1.0), 1.0, shape=len(y)), 1.0, observed=y)


def indicators(y: np.ndarray) -> None:
    z = pm.Bernoulli("effect", 0.3, shape=len(y))
    pm.Normal("y", pm.Normal("mean", 0.0, 1.0) + 3.0 * z, 1.0, observed=y)


def walk_by_row(y: np.ndarray) -> None:
    moves = pm.Normal("effect", 0.0, 1.0, shape=len(y))
    pm.Normal("y", pm.math.cumsum(moves), 1.0, observed=y)


def probabilities(y: np.ndarray) -> None:
    pm.Binomial("y", 9, pm.Beta("effect", 2.0, 2.0, shape=len(y)), observed=np.round(4.0 + y).clip(0, 9))


def shares(y: np.ndarray) -> None:
    """Of which none can be moved alone."""
    pm.Multinomial("y", 9, pm.Dirichlet("effect", np.ones(4)), observed=[[3, 3, 2, 1]] * len(y))


@pytest.mark.parametrize("body", [by_row, indicators, walk_by_row, probabilities])
def test_variables_of_rows_do_not_combine(body: Callable[[np.ndarray], None]) -> None:
    posts = [bk.infer(of(body)(y), draws=40, random_seed=1) for y in RNG.normal(size=(2, 4))]
    with pytest.raises(ModelError, match="'effect' has an entry for each row of 'y'"):
        bk.combine(posts)


def test_shares_as_many_as_rows_are_not_those_of_rows() -> None:
    posts = [bk.infer(of(shares)(y), draws=40, random_seed=1) for y in RNG.normal(size=(2, 4))]
    both = bk.combine(posts)
    np.testing.assert_allclose(both.marginal("effect").mean(), np.array([25, 25, 17, 9]) / 76, rtol=1e-12)


def test_effects_of_as_many_groups_as_rows_combine_if_they_have_labels() -> None:
    y = RNG.normal(size=(2, 4))

    def build(rows: np.ndarray) -> pm.Model:
        with pm.Model(coords={"school": list("abcd")}) as model:
            pm.Normal("y", pm.Normal("effect", 0.0, 1.0, dims="school"), 1.0, observed=rows)
        return model

    both = bk.combine([bk.infer(build(rows)) for rows in y])
    np.testing.assert_allclose(both.marginal("effect").mean(), y.sum(axis=0) / 3.0, rtol=1e-10)


def test_weights_as_many_as_rows_are_not_those_of_rows() -> None:
    x, y = RNG.normal(size=(2, 4, 4)), RNG.normal(size=(2, 4))

    def build(k: int) -> pm.Model:
        with pm.Model() as model:
            pm.Normal("y", x[k] @ pm.Normal("weights", 0.0, 1.0, shape=4), 1.0, observed=y[k])
        return model

    both = bk.combine([bk.infer(build(k)) for k in range(2)])
    design = np.concatenate(x)
    expected = np.linalg.solve(np.eye(4) + design.T @ design, design.T @ y.ravel())
    np.testing.assert_allclose(both.marginal("weights").mean(), expected, rtol=1e-9)


def test_the_same_rows_twice_are_warned_of() -> None:
    posts = [bk.infer(of(line)(TABLE), draws=40, random_seed=1) for _ in range(2)]
    with pytest.warns(UserWarning, match="posterior 2 has the observed values of one before it"):
        bk.combine(posts)
