"""A stream goes on where it was: scores, discounts, files, forecasts; and shards are brought together."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import special, stats

import bayeskit as bk
from bayeskit.errors import DataError, ModelError, OptionError

CLOSE = 1e-12
TOSSES = [[1, 0, 1], [1], [0, 0, 1, 1, 1], [0, 1]]


def coin(tosses: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        rate = pm.Beta("rate", 2.0, 3.0)
        pm.Bernoulli("y", rate, observed=tosses)
    return model


def log_evidence(heads: float, tails: float) -> float:
    return float(special.betaln(2 + heads, 3 + tails) - special.betaln(2, 3))


@pytest.fixture(scope="module")
def stream() -> bk.Stream:
    found = bk.Stream(coin)
    for chunk in TOSSES:
        found.update(np.array(chunk))
    return found


@pytest.mark.slow
def test_the_scores_are_those_of_forecasts_and_add_up_to_the_evidence(stream: bk.Stream) -> None:
    heads = np.cumsum([0, *(sum(c) for c in TOSSES)])
    tails = np.cumsum([0, *(len(c) - sum(c) for c in TOSSES)])
    expected = np.diff([log_evidence(h, t) for h, t in zip(heads, tails, strict=True)])
    np.testing.assert_allclose(stream.scores["score"], expected, rtol=1e-11)
    assert set(stream.scores["label"]) == {"exact"}
    assert stream.score == pytest.approx(expected[-1], rel=1e-11)
    assert stream.log_evidence.value == pytest.approx(log_evidence(heads[-1], tails[-1]), rel=CLOSE)
    assert stream.scores["score"].sum() == pytest.approx(stream.log_evidence.value, rel=CLOSE)
    assert stream.posterior.marginal("rate").mean() == pytest.approx((2 + heads[-1]) / (5 + sum(map(len, TOSSES))))
    assert repr(stream) == "Stream(11 rows in 4 chunks)"


@pytest.mark.slow
def test_a_discount_is_a_power_of_the_likelihood_before_it() -> None:
    stream, heads, tails, expected = bk.Stream(coin), 0.0, 0.0, 0.0
    for chunk in TOSSES:
        before = log_evidence(heads, tails)
        heads, tails = heads + sum(chunk), tails + len(chunk) - sum(chunk)
        expected += log_evidence(heads, tails) - before
        stream.update(np.array(chunk))
        stream.discount(0.75)
        heads, tails = 0.75 * heads, 0.75 * tails
    assert stream.log_evidence.value == pytest.approx(expected, rel=1e-11)
    assert "discounted" in stream.log_evidence.convention
    assert stream.posterior.marginal("rate").mean() == pytest.approx((2 + heads) / (5 + heads + tails), rel=CLOSE)
    with pytest.raises(OptionError, match="factor is"):
        stream.discount(1.5)


def test_a_saved_stream_goes_on_with_the_same_digits(stream: bk.Stream, tmp_path: Path) -> None:
    path = stream.save(tmp_path / "coin.stream")
    loaded = bk.Stream.load(path)
    assert repr(loaded) == repr(stream)
    assert loaded.log_evidence == stream.log_evidence
    on, straight = bk.Stream.load(path), copy(stream)
    for one in (on, straight):
        one.update(np.array([1, 1]))
    pd.testing.assert_frame_equal(on.scores, straight.scores)
    assert stream.chunks == len(TOSSES)


def test_a_file_that_is_no_stream_or_was_damaged_is_refused(stream: bk.Stream, tmp_path: Path) -> None:
    path = stream.save(tmp_path / "coin.stream")
    held = path.read_bytes()
    for name, content, message in (
        ("cut", held[:-10], "is damaged"),
        ("changed", held[:-5] + b"xxxxx", "is damaged"),
        ("newer", held.replace(b"stream 3", b"stream 9", 1), "version 9"),
        ("other", b"a\nb\nc", "no stream of bayeskit"),
        ("short", b"nothing", "no stream of bayeskit"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            bk.Stream.load(tmp_path / name)
    with pytest.raises(DataError, match="cannot be read"):
        bk.Stream.load(tmp_path / "absent")
    with pytest.raises(OptionError, match="cannot write the stream"):
        stream.save(tmp_path)


def regression(data: pd.DataFrame) -> pm.Model:
    labels, codes = np.unique(data["group"], return_inverse=True)
    with pm.Model(coords={"group": labels}) as model:
        variance = pm.InverseGamma("variance", 3.0, 2.0)
        level = pm.Normal("level", 0.0, pm.math.sqrt(2 * variance), dims="group")
        slope = pm.Normal("slope", 0.0, pm.math.sqrt(variance))
        mu = level[codes] + slope * data["x"].to_numpy()
        pm.Normal("y", mu, pm.math.sqrt(variance), observed=data["y"].to_numpy())
    return model


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"group": rng.choice(["a", "b"], 30), "x": rng.normal(size=30)})
    return data.assign(y=data["x"] + (data["group"] == "b") + rng.normal(size=30))


@pytest.fixture(scope="module")
def whole(table: pd.DataFrame) -> bk.Posterior:
    """Of all rows of the table at once."""
    return bk.infer(regression(table), random_seed=1, draws=4)


@pytest.mark.slow
def test_new_rows_are_drawn_from_the_posterior_of_all_chunks(table: pd.DataFrame, whole: bk.Posterior) -> None:
    stream = bk.Stream(regression)
    stream.update(table[:17])
    stream.update(table[17:])
    new = pd.DataFrame({"group": ["b", "b"], "x": [0.0, 2.0]})
    drawn = stream.predict(new, random_seed=1)["y"]
    level, slope = (np.asarray(whole.marginal(name).mean()) for name in ("level", "slope"))
    mean = level[1] + new["x"].to_numpy() * slope
    error = drawn.std(("chain", "draw")).to_numpy() / np.sqrt(drawn.sizes["chain"] * drawn.sizes["draw"])
    assert np.all(np.abs(drawn.mean(("chain", "draw")).to_numpy() - mean) < 5 * error)
    with pytest.raises(DataError, match="the new data have the group 'c'"):
        stream.predict(new.assign(group="c"))
    with pytest.raises(DataError, match="no column 'x', which the forecast depends on"):
        stream.predict(new.drop(columns="x"))


@pytest.mark.slow
def test_shards_are_one_posterior_and_the_prior_counts_once(table: pd.DataFrame, whole: bk.Posterior) -> None:
    shards = [bk.infer(regression(table[k::3]), random_seed=1, draws=4) for k in range(3)]
    both = bk.combine(shards, random_seed=1, draws=4)
    assert both.log_evidence.label == "exact"
    assert both.log_evidence.value == pytest.approx(whole.log_evidence.value, rel=CLOSE)
    for name in ("variance", "level", "slope"):
        np.testing.assert_allclose(both.marginal(name).mean(), whole.marginal(name).mean(), rtol=1e-11)
    # Of what was added up before, too, and beside a model of all rows: they explain the same data.
    again = bk.combine([bk.combine(shards[:2], draws=4), shards[2]], draws=4)
    assert again.log_evidence.value == pytest.approx(whole.log_evidence.value, rel=CLOSE)
    compared = bk.compare({"whole": whole, "shards": both, "chunks": bk.infer(regression, chunks=[table], draws=4)})
    np.testing.assert_allclose(compared.table["log_bayes_factor"], 0.0, atol=1e-10)
    with pytest.raises(ModelError, match="do not explain the same data: 30 and 20 rows"):
        bk.compare({"whole": whole, "part": bk.infer(regression, chunks=[table[:20]], draws=4)})


@pytest.mark.slow
def test_streams_of_different_groups_are_one_stream(table: pd.DataFrame) -> None:
    data = pd.concat([table.assign(group="c"), table]).reset_index(drop=True)
    first, second = bk.Stream(regression), bk.Stream(regression)
    first.update(data[:20], id="one")
    second.update(data[35:], id="two")
    second.update(data[20:35], id="three")
    both = bk.combine([first, second])
    assert isinstance(both, bk.Stream)
    expected = bk.infer(regression(data), draws=4)
    assert both.log_evidence.value == pytest.approx(expected.log_evidence.value, rel=CLOSE)
    np.testing.assert_allclose(
        both.infer(draws=4).marginal("level").mean(), expected.marginal("level").mean(), rtol=1e-11
    )
    assert both.scores["score"].sum() == pytest.approx(expected.log_evidence.value, rel=CLOSE)
    assert (first.rows, second.rows, both.rows) == (20, 40, 60)
    with pytest.raises(DataError, match="'two' was added before"):
        both.update(data[:5], id="two")
    with pytest.raises(DataError, match="'one' is in both"):
        bk.combine([first, both])
    with pytest.raises(ModelError, match="a stream is there twice"):
        bk.combine([first, first])
    coins = [bk.Stream(coin), bk.Stream(other_prior)]
    for stream in coins:
        stream.update(np.array([1, 0, 1]))
    with pytest.raises(ModelError, match="'rate' has another density"):
        bk.combine(coins)


def other_prior(tosses: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("rate", 2.0, 3.5), observed=tosses)
    return model


def other_shape(tosses: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("rate", 2.0, 3.0, shape=2)[0], observed=tosses)
    return model


def other_variable(tosses: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("chance", 2.0, 3.0), observed=tosses)
    return model


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (other_prior, "'rate' has another density in posterior 2"),
        (other_shape, "'rate' has the shape"),
        (other_variable, "posterior 2 has the free variables chance"),
    ],
)
def test_shards_of_different_models_are_refused(build: Any, message: str) -> None:
    first = bk.infer(coin(np.array([1, 0])), draws=4)
    with pytest.raises(ModelError, match=message):
        bk.combine([first, bk.infer(build(np.array([1, 1])), draws=4)])
    with pytest.raises(ModelError, match="posterior 2 is there twice"):
        bk.combine([first, first])


def test_what_is_asked_of_rows_that_were_added_up_says_so(stream: bk.Stream) -> None:
    post = stream.posterior
    for ask in (
        post.predict,
        post.with_log_likelihood,
        lambda: bk.cross_validate(post),
        lambda: bk.posterior_check(post),
    ):
        with pytest.raises(ModelError, match="rows of the model were added up"):
            ask()
    empty = bk.Stream(coin)
    for ask in (lambda: empty.posterior, lambda: empty.log_evidence, lambda: empty.score):
        with pytest.raises(DataError, match="there is no chunk yet"):
            ask()


def test_a_remainder_is_integrated_over_the_sums() -> None:
    """Of a logistic regression, whose rows are one number for each distinct covariate, against a sum over a grid."""
    rng = np.random.default_rng(2)
    x = rng.integers(-2, 3, 40).astype(float)
    y = rng.binomial(1, special.expit(0.7 * x))

    def build(rows: dict[str, np.ndarray]) -> pm.Model:
        with pm.Model() as model:
            slope = pm.Normal("slope", 0.0, 1.0)
            pm.Bernoulli("y", logit_p=slope * rows["x"], observed=rows["y"])
        return model

    found = bk.infer(build, chunks=[{"x": x[k::4], "y": y[k::4]} for k in range(4)], draws=4).log_evidence
    grid = np.linspace(-6, 6, 4001)
    logits = grid[:, None] * x
    logs = (y * logits - np.logaddexp(0, logits)).sum(axis=1) + stats.norm.logpdf(grid)
    expected = special.logsumexp(logs) + np.log(grid[1] - grid[0])
    assert found.label == "quadrature"
    assert abs(found.value - expected) < max(found.error, 1e-9)
