"""Counts whose rate changes once: evidence and posterior against the sum over all changes, written with SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import special, stats

import bayeskit as bk
from bayeskit.datasets import example_data, load_example, prepare
from bayeskit.errors import BayeskitError
from bayeskit.models import load_model

MODULE = load_model("poisson_changepoint")


def dataset(**columns: Any) -> xr.Dataset:
    return prepare(pd.DataFrame(columns), MODULE.VARIABLES)


def one_rate(y: np.ndarray, e: np.ndarray, shape: float, rate: float) -> float:
    """log p(y) of Poisson counts that share one Gamma rate."""
    a, b = shape + y.sum(), rate + e.sum()
    ratio = special.gammaln(a) - special.gammaln(shape) + shape * np.log(rate) - a * np.log(b)
    return float(ratio + np.sum(y * np.log(e) - special.gammaln(y + 1)))


def by_hand(
    y: np.ndarray, t: np.ndarray, e: np.ndarray, shape: float, rate: float
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Log evidence, the values of the change, their probabilities, and the mean rates before and after given each."""
    changes = np.arange(t.min() + 1, t.max() + 1)
    parts = [[(y[k], e[k]) for k in (t < c, t >= c)] for c in changes]
    log = np.array([sum(one_rate(*part, shape, rate) for part in two) for two in parts])
    means = np.array([[(shape + a.sum()) / (rate + b.sum()) for a, b in two] for two in parts])
    total = special.logsumexp(log)
    return float(total - np.log(len(changes))), changes, np.exp(log - total), means


@pytest.fixture(scope="module")
def coal() -> bk.Posterior:
    data = example_data(MODULE.EXAMPLE, MODULE.VARIABLES)
    return bk.infer(MODULE.build(data, **MODULE.EXAMPLE.options), random_seed=1, progressbar=False)


def test_coal_mining_is_exact(coal: bk.Posterior) -> None:
    table = load_example("coal_mining")
    y, t = table["disasters"].to_numpy(), table["year"].to_numpy()
    expected, changes, share, means = by_hand(y, t, np.ones(len(y)), 2.0, 1.0)
    assert coal.log_evidence.label == "exact"
    assert float(coal.log_evidence) == pytest.approx(expected, abs=1e-9)
    assert coal.marginal("change").dist.pmf(changes) == pytest.approx(share, abs=1e-10)
    assert coal.marginal("rate").mean().to_numpy() == pytest.approx(share @ means, rel=1e-9)
    # Carlin, Gelfand and Smith (1992): the last year of the first rate is most probably 1891.
    assert changes[share.argmax()] == 1892


def test_the_table_is_that_of_the_papers() -> None:
    table = load_example("coal_mining")
    assert table["year"].tolist() == list(range(1851, 1963))
    assert table["disasters"].sum() == 191  # Jarrett (1979)


def test_a_change_against_none(coal: bk.Posterior) -> None:
    table = load_example("coal_mining")
    none = load_model("gamma_poisson")
    model = none.build(prepare(table, none.VARIABLES, {"counts": "disasters"}), shape=2.0, rate=1.0)
    without = bk.infer(model, random_seed=1, progressbar=False)
    y = table["disasters"].to_numpy()
    expected = by_hand(y, table["year"].to_numpy(), np.ones(112), 2.0, 1.0)[0] - one_rate(y, np.ones(112), 2, 1)
    assert float(coal.log_evidence) - float(without.log_evidence) == pytest.approx(expected, abs=1e-9)
    assert expected > 20


def test_exposures_times_with_gaps_and_rows_in_no_order() -> None:
    y, t = np.array([3, 0, 7, 2, 5, 1]), np.array([10, 3, 12, 4, 11, 3])
    e = np.array([1.5, 0.5, 2.0, 1.0, 1.0, 2.5])
    model = MODULE.build(dataset(counts=y, time=t, exposure=e), shape=1.5, rate=0.7)
    post = bk.infer(model, random_seed=1, progressbar=False)
    expected, changes, share, means = by_hand(y, t, e, 1.5, 0.7)
    first = stats.nbinom(1.5, 0.7 / (0.7 + e[:1])).logpmf(y[:1])
    second = stats.nbinom(1.5 + y[0], (0.7 + e[0]) / (0.7 + e[0] + e[1])).logpmf(y[1])
    assert one_rate(y[:2], e[:2], 1.5, 0.7) == pytest.approx(float(first[0] + second))
    assert post.log_evidence.label == "exact"
    assert float(post.log_evidence) == pytest.approx(expected, abs=1e-10)
    assert post.marginal("change").dist.pmf(changes) == pytest.approx(share, abs=1e-11)
    assert share[changes == 6] == pytest.approx(share[changes == 9])  # nothing was counted between
    assert post.marginal("rate").mean().to_numpy() == pytest.approx(share @ means, rel=1e-9)


def test_rows_without_times_are_numbered_from_one() -> None:
    model = MODULE.build(dataset(counts=[0, 1, 6]))
    post = bk.infer(model, random_seed=1, progressbar=False)
    expected, changes, share, _ = by_hand(np.array([0, 1, 6]), np.arange(1, 4), np.ones(3), 1.0, 1.0)
    assert changes.tolist() == [2, 3]
    assert float(post.log_evidence) == pytest.approx(expected, abs=1e-12)
    assert post.marginal("change").dist.pmf([1, 2, 3, 4]) == pytest.approx([0, *share, 0], abs=1e-12)


@pytest.mark.slow
def test_predictions_follow_the_rate_of_their_time(coal: bk.Posterior) -> None:
    new = coal.predict({"time": [1800, 1963, 1963], "exposure": [1.0, 1.0, 10.0]}, random_seed=2)["counts"]
    rates = coal.tree["posterior"]["rate"]
    n = new.sizes["chain"] * new.sizes["draw"]
    for row, (period, factor) in enumerate((("before", 1), ("after", 1), ("after", 10))):
        mean = factor * coal.marginal("rate").mean()[["before", "after"].index(period)]
        variance = mean + (factor * float(rates.sel(period=period).std())) ** 2
        assert abs(float(new[..., row].mean()) - mean) < 5 * np.sqrt(variance / n)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"counts": [3]}, r"all rows have the time 1; a change needs rows of at least two times"),
        ({"counts": [3, 4], "time": [7, 7]}, r"all rows have the time 7"),
        ({"counts": [3, 4], "time": [0, 20_001]}, r"the times span 20,001 units, of 10,000 at most; count them in"),
        ({"counts": [3, 4], "time": [0.5, 1]}, r"column 'time', row 1"),
        ({"counts": [3, -1]}, r"column 'counts', row 2"),
    ],
)
def test_data_that_have_no_change_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(BayeskitError, match=message):
        MODULE.build(dataset(**columns))
