"""Chunks give what all rows at once give, whatever their size and order, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from threadpoolctl import threadpool_limits

import bayeskit as bk
from bayeskit.chunks.sum_of_chunks import sum_of_chunks
from bayeskit.chunks.sums import ChunkSum
from bayeskit.datasets.loading import example_data
from bayeskit.errors import DataError, ModelError, OptionError
from bayeskit.graphs import environment
from bayeskit.model.log_joint import LogJoint
from bayeskit.models import load_model
from bayeskit.row_sums.terms import NotAdditive

CLOSE = 1e-12

IRISES = {"prior": "given", "classes": "setosa,versicolor,virginica"}
# Every exact model of the catalogue whose rows are independent given its variables, and that takes no number from them.
CATALOGUE: dict[str, tuple[str, dict[str, Any]]] = {
    "beta-binomial": ("beta_binomial", {"pooled": True}),
    "gamma-Poisson": ("gamma_poisson", {}),
    "Dirichlet-multinomial": ("dirichlet_multinomial", {}),
    "normal": ("normal", {}),
    "multivariate normal": ("multivariate_normal", {}),
    "linear regression": ("linear_regression", {"standardise": False, "basis": "linear", "degree": None}),
    "classes with one covariance": ("gaussian_classifier", IRISES),
    "classes with independent features": ("gaussian_classifier", IRISES | {"covariance": "diagonal"}),
    "naive Bayes": ("naive_bayes", {"classes": "3,5,8"}),
}
ROWS = 6


def of_catalogue(name: str) -> tuple[Callable[[xr.Dataset], pm.Model], xr.Dataset]:
    """A builder, and rows in an order of no meaning: of those with classes some of each."""
    module, options = CATALOGUE[name]
    model = load_model(module)
    data = example_data(model.EXAMPLE, model.VARIABLES)
    order = np.random.default_rng(4).permutation(data.sizes["row"])[:ROWS]
    if "indicator" in data.dims:
        data = data.isel(indicator=slice(10, 16))
    given = {k: v for k, v in (dict(model.EXAMPLE.options) | options).items() if v is not None}
    return lambda rows: model.build(rows, **given), data.isel(row=order)


@cache
def at_once(name: str) -> bk.Posterior:
    build, data = of_catalogue(name)
    return bk.infer(build(data), method="exact", draws=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_chunks_of_any_size_give_the_evidence_and_the_posterior_of_all_rows(name: str) -> None:
    build, data = of_catalogue(name)
    shuffled = data.isel(row=np.random.default_rng(1).permutation(data.sizes["row"]))
    chunks = [shuffled.isel(row=rows) for rows in (slice(0, 1), slice(1, -1), slice(-1, None))]
    expected, found = at_once(name), bk.infer(build, chunks=chunks, method="exact", draws=4)
    assert found.log_evidence.label == "exact"
    assert found.log_evidence.convention == expected.log_evidence.convention
    assert found.log_evidence.value == pytest.approx(expected.log_evidence.value, rel=CLOSE)
    assert set(found.marginals) == set(expected.marginals)
    for variable, marginal in expected.marginals.items():
        own = found.marginal(variable)
        np.testing.assert_allclose(own.mean(), marginal.mean(), rtol=CLOSE, atol=1e-13, err_msg=variable)
        np.testing.assert_allclose(own.std(), marginal.std(), rtol=CLOSE, atol=1e-13, err_msg=variable)


def table(rows: int = 24, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"group": rng.choice(["north", "south", "west"], rows), "x": rng.normal(3.0, 1.0, rows)})
    data["y"] = 1.0 + 0.5 * data["x"] + rng.normal(size=rows)
    data["hits"] = rng.binomial(1, 0.4, rows)
    return data


def normal_groups(data: pd.DataFrame) -> pm.Model:
    labels, codes = np.unique(data["group"], return_inverse=True)
    with pm.Model(coords={"group": labels}) as model:
        mean = pm.Normal("mean", 0.0, 2.0)
        level = pm.Normal("level", mean, 1.5, dims="group")
        slope = pm.Normal("slope", 0.0, 1.0)
        mu = pm.Deterministic("mu", level[codes] + slope * data["x"].to_numpy())
        pm.Normal("y", mu, 1.0, observed=data["y"].to_numpy())
    return model


def logistic(data: pd.DataFrame) -> pm.Model:
    with pm.Model() as model:
        intercept, slope = pm.Normal("intercept", 0.0, 2.0), pm.Normal("slope", 0.0, 1.0)
        pm.Bernoulli("hits", logit_p=intercept + slope * np.round(data["x"].to_numpy()), observed=data["hits"])
    return model


def robust(data: pd.DataFrame) -> pm.Model:
    with pm.Model() as model:
        centre, scale = pm.Normal("centre", 0.0, 5.0), pm.HalfNormal("scale", 2.0)
        pm.StudentT("y", nu=4.0, mu=centre, sigma=scale, observed=data["y"].to_numpy())
    return model


def mixture(data: pd.DataFrame) -> pm.Model:
    with pm.Model() as model:
        weights, means = pm.Dirichlet("weights", np.ones(2)), pm.Normal("means", 0.0, 2.0, shape=2)
        pm.NormalMixture("y", weights, means, 1.0, observed=data["y"].to_numpy())
    return model


def with_zeros(data: pd.DataFrame) -> pm.Model:
    with pm.Model() as model:
        psi, rate = pm.Beta("psi", 1.0, 1.0), pm.Gamma("rate", 2.0, 1.0)
        counts = data["hits"].to_numpy() * np.abs(np.round(data["x"].to_numpy())).astype(int)
        pm.ZeroInflatedPoisson("counts", psi, rate, observed=counts)
    return model


def levels(data: pd.DataFrame) -> pm.Model:
    """An ordered outcome: probabilities that are put side by side, and looked up by what is observed."""
    with pm.Model() as model:
        cuts = pm.Normal("cuts", [-1.0, 1.0], 1.0, shape=2)
        slope = pm.Normal("slope", 0.0, 1.0)
        observed = (data["y"] > 2).to_numpy() + data["hits"].to_numpy()
        pm.OrderedLogistic("level", eta=slope * data["x"].to_numpy(), cutpoints=cuts, observed=observed)
    return model


def two_lookups(data: pd.DataFrame) -> pm.Model:
    """Two players of one list, and matrices of whose columns a chunk has some."""
    labels, codes = np.unique(data["group"], return_inverse=True)
    with pm.Model(coords={"group": labels, "part": ["level", "slope"]}) as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        own = pm.math.dot(chol, pm.Normal("own", 0.0, 1.0, dims=("part", "group")))
        skill = pm.Normal("skill", 0.0, 1.0, shape=4)
        won = skill[data["hits"].to_numpy()] - skill[3 - (data["x"] > 3).to_numpy().astype(int)]
        pm.Normal("y", own[0, codes] + own[1, codes] * data["x"].to_numpy() + won, 1.0, observed=data["y"].to_numpy())
    return model


@pytest.mark.slow
@pytest.mark.parametrize("build", [normal_groups, logistic, robust, mixture, with_zeros, levels, two_lookups])
def test_the_log_density_is_that_of_all_rows(build: Callable[[pd.DataFrame], pm.Model]) -> None:
    data = table()
    whole, summed = (LogJoint.from_model(m) for m in (build(data), sum_of_chunks(build, [data[:1], data[1:]]).model()))
    rng = np.random.default_rng(1)
    for _ in range(3):
        point = {n: np.abs(rng.normal(size=shape)) for n, shape in whole.shapes().items()}
        point |= (
            {n: v / v.sum() for n, v in point.items() if n == "weights"}
            | {"psi": np.array(0.4)}
            | {"cuts": np.array([-0.5, 0.7])}
        )
        point = {n: point[n] for n in whole.names}
        assert summed.logp(point) == pytest.approx(whole.logp(point), rel=1e-12)


@pytest.mark.slow
def test_a_group_that_is_split_over_chunks_is_one_group_and_new_groups_may_come() -> None:
    data = table().sort_values("group", ignore_index=True)
    chunks = [data[:3], data[3:4], data[4:]]
    expected, found = bk.infer(normal_groups(data), draws=4), bk.infer(normal_groups, chunks=chunks, draws=4)
    assert found.log_evidence.value == pytest.approx(expected.log_evidence.value, rel=CLOSE)
    np.testing.assert_allclose(found.marginal("level").mean(), expected.marginal("level").mean(), rtol=1e-11)


def numbered_anew(data: pd.DataFrame) -> pm.Model:
    codes, _ = pd.factorize(data["group"])
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 1.0, shape=3)
        pm.Normal("y", level[codes], 1.0, observed=data["y"].to_numpy())
    return model


def normal_of(y: Callable[[pd.DataFrame], Any], sd: Callable[[pd.DataFrame], float] = lambda data: 1.0) -> Any:
    def build(data: pd.DataFrame) -> pm.Model:
        with pm.Model() as model:
            level = pm.Normal("level", 0.0, sd(data))
            pm.Normal("y", level, 1.0, observed=y(data))
        return model

    return build


def chain(data: pd.DataFrame) -> pm.Model:
    y = data["y"].to_numpy()
    with pm.Model() as model:
        rho = pm.Normal("rho", 0.0, 1.0)
        pm.Normal("y", rho * np.concatenate([[0.0], y[:-1]]), 1.0, observed=y)
    return model


def process(data: pd.DataFrame) -> pm.Model:
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        x = data["x"].to_numpy()[:, None]
        covariance = scale**2 * np.exp(-((x - x.T) ** 2)) + np.eye(len(x))
        pm.MvNormal("y", np.zeros(len(x)), covariance, observed=data["y"].to_numpy())
    return model


def row_effects(data: pd.DataFrame) -> pm.Model:
    with pm.Model() as model:
        effect = pm.Normal("effect", 0.0, 1.0, shape=len(data))
        pm.Normal("y", effect, 1.0, observed=data["y"].to_numpy())
    return model


def with_mean_for_missing(data: pd.DataFrame) -> pm.Model:
    """Seen only where a value is missing, far from the first and the last rows."""
    x = data["x"].where(data["x"].rank() != 3.0)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Normal("y", slope * x.fillna(x.mean()).to_numpy(), 1.0, observed=data["y"].to_numpy())
    return model


def without_first_level(data: pd.DataFrame) -> pm.Model:
    columns = pd.get_dummies(data["group"], drop_first=True)
    with pm.Model(coords={"level": list(columns)}) as model:
        intercept, effect = pm.Normal("intercept", 0.0, 3.0), pm.Normal("effect", 0.0, 3.0, dims="level")
        mu = intercept + pm.math.dot(columns.to_numpy(dtype=float), effect)
        pm.Normal("y", mu, 1.0, observed=data["y"].to_numpy())
    return model


def by_length(data: pd.DataFrame) -> pm.Model:
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 10.0 if len(data) > 7 else 1.0)
        pm.Normal("y", level, 1.0, observed=data["y"].to_numpy())
    return model


def with_potential(data: pd.DataFrame) -> pm.Model:
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 1.0)
        pm.Normal("y", level, 1.0, observed=data["y"].to_numpy())
        pm.Potential("more", -(level**2) * data["x"].sum())
    return model


REFUSED = {
    "groups numbered anew in every chunk": (numbered_anew, "does not add up over rows"),
    "centred by the mean of the chunk": (normal_of(lambda d: d["y"] - d["y"].mean()), "does not add up over rows"),
    "a difference of rows": (normal_of(lambda d: np.diff(d["y"], prepend=0.0)), "does not add up over rows"),
    "a prior made from the data": (normal_of(lambda d: d["y"], lambda d: d["y"].std() + 1.0), "prior of 'level'"),
    "a prior made from their number": (normal_of(lambda d: d["y"], lambda d: 1.0 * len(d)), "prior of 'level'"),
    "a chain": (chain, "does not add up over rows"),
    "a Gaussian process": (process, "does not add up over rows|'y'"),
    "a variable for each row": (row_effects, "'effect' has the shape"),
    "a mean in the place of what is missing": (with_mean_for_missing, "does not add up over rows"),
    "a prior made from whether they are many": (by_length, "prior of 'level'"),
    "a Potential of the rows": (with_potential, "Potential 'more'"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_add_up_is_refused_by_name(case: str) -> None:
    build, message = REFUSED[case]
    data = table().sort_values("group", ascending=False)
    with pytest.raises(NotAdditive, match=message):
        sum_of_chunks(build, [data[:8], data[8:13], data[13:]])


OF_GROUPS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "time since the first row of a group": lambda d: d["x"] - d.groupby("visit")["x"].transform("min"),
    "the mean of a group": lambda d: d.groupby("visit")["x"].transform("mean"),
    "what a group begins with": lambda d: d["x"] - d.groupby("visit")["x"].transform("first"),
    "the row before": lambda d: d["x"].shift().where(d["visit"] == d["visit"].shift(), 0.0),
    "whether it is the last row of a group": lambda d: (d["visit"] != d["visit"].shift(-1)) * 1.0,
}


@pytest.mark.slow
@pytest.mark.parametrize("case", OF_GROUPS)
@pytest.mark.parametrize("cuts", [[18], [12, 22], [2]])
def test_what_is_made_of_a_group_is_refused_wherever_chunks_end(case: str, cuts: list[int]) -> None:
    """The rows kept of the first chunk are two whole groups: beside themselves they have the same mean and minimum."""
    data = table().assign(visit=np.arange(len(table())) // 4)
    build = normal_of(lambda d: d["y"] + OF_GROUPS[case](d))
    with pytest.raises(NotAdditive, match="does not add up over rows"):
        sum_of_chunks(build, [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)])


@pytest.mark.slow
def test_what_earlier_rows_mean_does_not_change_with_labels_that_come_later() -> None:
    """Of indicators without the first level, that level is another one once north comes."""
    data = table()
    first = data[data["group"] != "north"].sort_values("y")[:10]
    assert first["group"][:4].nunique() == 2
    with pytest.raises(NotAdditive, match="depends on which labels come later, those of chunk 2"):
        sum_of_chunks(without_first_level, [first, data])


def test_a_number_that_has_no_rows_is_the_same_in_all_chunks() -> None:
    def build(data: dict[str, Any]) -> pm.Model:
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("level", 0.0, data["sd"]), 1.0, observed=data["y"])
        return model

    y = np.arange(4.0)
    found = bk.infer(build, chunks=[{"y": y[:2], "sd": 2.0}, {"y": y[2:], "sd": 2.0}], draws=4)
    assert found.log_evidence.value == pytest.approx(bk.infer(build({"y": y, "sd": 2.0}), draws=4).log_evidence.value)
    with pytest.raises(DataError, match="'sd' of chunk 2"):
        bk.infer(build, chunks=[{"y": y[:2], "sd": 2.0}, {"y": y[2:], "sd": 5.0}])


def test_labels_in_another_order_are_the_same_groups() -> None:
    def build(data: pd.DataFrame) -> pm.Model:
        labels = list(pd.unique(data["group"]))
        with pm.Model(coords={"group": labels}) as model:
            level = pm.Normal("level", 0.0, 1.5, dims="group")
            codes = [labels.index(g) for g in data["group"]]
            pm.Normal("y", level[codes], 1.0, observed=data["y"].to_numpy())
        return model

    data = table()
    found = bk.infer(build, chunks=[data[15:], data[:15]], draws=4)
    assert found.log_evidence.value == pytest.approx(bk.infer(build(data), draws=4).log_evidence.value, rel=CLOSE)


BAD: dict[str, tuple[Callable[[pd.DataFrame], Any], str]] = {
    "without a column": (lambda d: d.drop(columns="x"), "second has no column 'x'"),
    "with text for numbers": (lambda d: d.assign(x=d["x"].astype(str)), "column 'x' of second has text"),
    "with a missing outcome": (lambda d: d.assign(y=d["y"].where(d.index != 9)), "second .*column 'y' .*row 1"),
    "with a missing covariate": (lambda d: d.assign(x=d["x"].where(d.index != 8)), "second .*column 'x' .*row 0"),
    "with an infinite covariate": (lambda d: d.assign(x=d["x"].where(d.index != 8, np.inf)), "second .*infinite"),
    "with a missing label": (lambda d: d.assign(group=d["group"].where(d.index != 8, None)), "second.*column 'group'"),
    "without rows": (lambda d: d[:0], "second is empty"),
    "that is no table": (lambda d: 3, "second is int"),
}


@cache
def with_first() -> bk.Stream:
    """A stream of one chunk, of which each case goes on with a copy."""
    stream = bk.Stream(normal_groups)
    stream.update(table()[:8], id="first")
    return stream


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD)
def test_a_bad_chunk_is_named_and_leaves_what_was_added_before(case: str) -> None:
    spoil, message = BAD[case]
    data, stream = table(), copy(with_first())
    with pytest.raises((DataError, ModelError, OptionError), match=message) as raised:
        stream.update(spoil(data[8:16]), id="second")
    assert "\n" not in str(raised.value)
    assert (stream.rows, stream.chunks) == (8, 1)
    with pytest.raises(DataError, match="'first' was added before"):
        stream.update(data[16:], id="first")
    stream.update(data[8:16], id="second")
    assert stream.rows == 16


@pytest.mark.slow
def test_files_are_read_in_parts_and_one_that_is_cut_off_is_named(tmp_path: Path) -> None:
    data = table()
    days = tmp_path / "days"
    days.mkdir()
    for k in range(2):
        data[12 * k : 12 * k + 12].to_parquet(days / f"day-{k}.parquet")
    data.drop(columns="group").to_xarray().rename(index="row").drop_vars("row").to_zarr(
        tmp_path / "all.zarr", consolidated=False
    )
    point = {"centre": 1.0, "scale": 1.5}
    expected = LogJoint.from_model(robust(data)).logp(point)
    for chunks in (
        days,
        str(days / "day-*.parquet"),
        sorted(days.glob("*.parquet")),
        tmp_path / "all.zarr",
    ):
        summed = LogJoint.from_model(sum_of_chunks(robust, chunks).model())
        assert summed.logp(point) == pytest.approx(expected, rel=1e-12)
    whole = (days / "day-1.parquet").read_bytes()
    (days / "day-1.parquet").write_bytes(whole[: len(whole) // 2])
    stream = bk.Stream(robust)
    stream.update(days / "day-0.parquet")
    with pytest.raises(DataError, match=r"day-1\.parquet cannot be read"):
        stream.update(days / "day-1.parquet")
    with pytest.raises(DataError, match=r"day-0\.parquet' was added before"):
        stream.update(days / "day-0.parquet")
    with pytest.raises(DataError, match="there is no file"):
        stream.update(days / "day-9.parquet")
    assert stream.rows == 12


def test_what_is_no_builder_or_no_chunk_is_said() -> None:
    data = table()
    with pytest.raises(OptionError, match="with chunks="):
        bk.infer(robust(data), chunks=[data])
    with pytest.raises(ModelError, match="model is a function"):
        bk.infer(robust)
    with pytest.raises(DataError, match="there are no chunks"):
        bk.infer(robust, chunks=[])
    with pytest.raises(ModelError, match="returned int for chunk 1"):
        bk.infer(lambda rows: 3, chunks=[data])  # type: ignore[arg-type, return-value]


@pytest.mark.slow
def test_large_chunks_lose_no_digits_to_the_size_of_the_numbers() -> None:
    """Sums in blocks, over many rows of few groups, against the formula with the mean taken out first."""
    rng = np.random.default_rng(5)
    rows = 30_000
    data = pd.DataFrame({"group": rng.integers(0, 3, rows).astype(str), "y": 1e6 + rng.normal(size=rows)})

    def build(data: pd.DataFrame) -> pm.Model:
        labels, codes = np.unique(data["group"], return_inverse=True)
        with pm.Model(coords={"group": labels}) as model:
            variance = pm.InverseGamma("variance", 3.0, 2.0)
            level = pm.Normal("level", 1e6, pm.math.sqrt(variance), dims="group")
            pm.Normal("y", level[codes], pm.math.sqrt(variance), observed=data["y"].to_numpy())
        return model

    total = ChunkSum(build)
    for k in range(0, rows, 10_000):
        total = sum_of_chunks(build, [data[k : k + 10_000]]) if not total.chunks else total.with_chunk(_rows(data, k))
    post = bk.infer(total.model(), draws=4)
    exact = 2.0
    for _, y in data.groupby("group")["y"]:
        spread = y - 1e6
        exact += 0.5 * (np.sum((spread - spread.mean()) ** 2) + spread.mean() ** 2 * len(y) / (len(y) + 1))
    assert post.marginal("variance").mean() == pytest.approx(exact / (3.0 + rows / 2 - 1), rel=1e-11)


def _rows(data: pd.DataFrame, start: int) -> Any:
    from bayeskit.chunks.rows import ChunkRows

    return ChunkRows.of(data[start : start + 10_000], f"rows from {start}")


@pytest.mark.slow
def test_the_maximum_of_sums_is_that_of_all_rows() -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"group": rng.permutation(np.arange(24) % 3), "y": rng.normal(size=24)})
    table["y"] += table["group"]

    def build(rows: pd.DataFrame) -> pm.Model:
        groups, codes = np.unique(rows["group"], return_inverse=True)
        with pm.Model(coords={"group": groups}) as model:
            spread, noise = pm.HalfNormal("spread", 2), pm.HalfNormal("noise", 2)
            level = pm.Normal("level", 0, spread, dims="group")
            pm.Normal("y", level[codes], noise, observed=rows["y"].to_numpy())
        return model

    for function in (bk.maximize_evidence, bk.map_estimate):
        whole = function(build(table), random_seed=1)
        summed = function(build, chunks=[table[:10], table[10:]], random_seed=1)
        for name, value in whole.point.items():
            np.testing.assert_allclose(summed.point[name], value, rtol=1e-7)
        np.testing.assert_allclose(summed.log_evidence.value, whole.log_evidence.value, rtol=1e-9)


NARROW = np.random.default_rng(8).normal(size=(40, 5)).astype("float32") + np.float32(30)
OUTCOME = (NARROW @ np.arange(5) / 3).astype("float32")
PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "a matrix": lambda X, b: X @ b,
    "on the right": lambda X, b: b @ X.T,
    "times a third": lambda X, b: (X @ b) / 3.0,
    "of two columns of weights": lambda X, b: pt.sum(X @ pt.stack([b, b[::-1]], axis=1), axis=1),
    "and entry by entry": lambda X, b: X @ b + pt.sum(pt.as_tensor(X) * b[0] / 7, axis=1),
    "and squared": lambda X, b: X @ b + pt.as_tensor(X)[:, 1] ** 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("sd", [0.7, None])
def test_numbers_of_single_precision_are_widened_before_anything_is_computed_of_them(
    product: str, sd: float | None
) -> None:
    def build(rows: dict[str, np.ndarray], dtype: str = "float32") -> pm.Model:
        with pm.Model() as model:
            b = pm.Normal("b", 0.0, 1.0, shape=5)
            s = pm.HalfNormal("s", 1.0) if sd is None else sd
            pm.Normal("y", PRODUCTS[product](rows["X"].astype(dtype), b), s, observed=rows["y"].astype(dtype))
        return model

    rows = {"X": NARROW, "y": OUTCOME}
    parts = [{k: v[i : i + 25] for k, v in rows.items()} for i in (0, 25)]
    joint = LogJoint.from_model(sum_of_chunks(build, parts, progressbar=False).model())
    expected = LogJoint.from_model(build(rows, "float64"))
    for k in range(3):
        point = {"b": np.random.default_rng(k).normal(size=5)} | ({"s": np.asarray(0.4)} if sd is None else {})
        assert joint.logp(point) == pytest.approx(expected.logp(point), rel=1e-12)


@pytest.mark.slow
def test_the_digits_are_those_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of Dask has one; two add up a product in two parts."""
    # All tests run on one thread: here that is not yet so.
    monkeypatch.setattr(environment, "_ALONE", environment._Shared(environment._ALONE.make))
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20_000, 40))
    y = X[:, 0] + rng.normal(size=len(X))

    def build(rows: dict[str, np.ndarray]) -> pm.Model:
        with pm.Model() as model:
            pm.Normal("y", rows["X"] @ pm.Normal("b", 0.0, 1.0, shape=40), 0.7, observed=rows["y"])
        return model

    def evidence(threads: int) -> float:
        with threadpool_limits(threads, user_api="blas"):
            summed = sum_of_chunks(build, [{"X": X, "y": y}])
        return LogJoint.from_model(summed.model()).logp({"b": np.linspace(-1.0, 1.0, 40)})

    assert evidence(1) == evidence(2)
