"""``posterior_check``: right models are left alone as often as stated, misfits are named, and tables are right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import bayeskit as bk
from bayeskit.errors import DataError, ModelError, OptionError
from bayeskit.validation.predictive_checks import against_replicated
from bayeskit.validation.predictive_checks.replicated_data import Replicated
from bayeskit.validation.predictive_checks.statistics_by_kind import Column

DRAWS, ROWS = 1000, 50
LEVEL = 0.05


def checked(
    y: np.ndarray, replicated: np.ndarray, law: str, seed: int = 0, repeated: np.ndarray | None = None
) -> bk.PredictiveCheck:
    """The check of data and replicated data that are computed here: four chains of independent draws."""
    many = replicated.reshape(4, -1, *y.shape)
    dims = ("row", "column")[: y.ndim]
    groups = (xr.Dataset({"y": (dims, y)}), xr.Dataset({"y": (("chain", "draw", *dims), many)}))
    labels = {"y": ("a", "b", "c")} if law == "Categorical" else {}
    again = None if repeated is None else xr.Dataset({"y": (("parameter", "repeat", *dims), repeated)})
    found = Replicated(*groups, labels, {"y": law}, independent=True, again=lambda: again)
    return against_replicated._checked(found, ["y"], LEVEL, np.random.default_rng(seed))


def given_poisson(y: np.ndarray, rng: np.random.Generator) -> bk.PredictiveCheck:
    """Counts under Poisson, rate Gamma(2, 1/2)."""
    rate = rng.gamma(2 + y.sum(), 1 / (0.5 + y.size), DRAWS)
    return checked(y, rng.poisson(rate[:, None], (DRAWS, y.size)), "Poisson")


def given_line(y: np.ndarray, rng: np.random.Generator) -> bk.PredictiveCheck:
    """A straight line on −1, …, 1 with Normal noise: coefficients N(0, 9σ²), σ² inverse gamma (2, 2)."""
    x = np.column_stack([np.ones(y.size), np.linspace(-1, 1, y.size)])
    precision = np.eye(2) / 9 + x.T @ x
    mean = np.linalg.solve(precision, x.T @ y)
    scale = 2 + 0.5 * (y @ y - mean @ precision @ mean)
    sigma = np.sqrt(1 / rng.gamma(2 + y.size / 2, 1 / scale, DRAWS))[:, None]
    factor = np.linalg.cholesky(np.linalg.inv(precision))
    line = (mean + sigma * rng.normal(size=(DRAWS, 2)) @ factor.T) @ x.T
    return checked(y, line + sigma * rng.normal(size=line.shape), "Normal")


def nothing_unknown(y: np.ndarray, rng: np.random.Generator) -> bk.PredictiveCheck:
    """Normal(0, 1), nothing of which is fitted: tail probabilities that are uniform."""
    return checked(y, rng.normal(size=(DRAWS, y.size)), "Normal")


def a_mean_each(y: np.ndarray, rng: np.random.Generator) -> bk.PredictiveCheck:
    """Each value has a mean of its own, N(0, 9), and unit noise: its residual is small because the mean has seen it."""
    mean = 0.9 * y + np.sqrt(0.9) * rng.normal(size=(DRAWS, y.size))
    return with_unit_noise(y, mean, rng)


def given_unit_noise(y: np.ndarray, rng: np.random.Generator) -> bk.PredictiveCheck:
    """A straight line on −1, …, 1 with noise N(0, 1): coefficients N(0, 9)."""
    x = np.column_stack([np.ones(y.size), np.linspace(-1, 1, y.size)])
    precision = np.eye(2) / 9 + x.T @ x
    factor = np.linalg.cholesky(np.linalg.inv(precision))
    draws = np.linalg.solve(precision, x.T @ y) + rng.normal(size=(DRAWS, 2)) @ factor.T
    return with_unit_noise(y, draws @ x.T, rng)


def in_any_order(values: np.ndarray) -> np.ndarray:
    return np.random.default_rng(9).permutation(values)


def given_unit_noise_in_any_order(y: np.ndarray, rng: np.random.Generator) -> bk.PredictiveCheck:
    """The same line, of rows in an order that says nothing of x."""
    x = np.column_stack([np.ones(y.size), in_any_order(np.linspace(-1, 1, y.size))])
    precision = np.eye(2) / 9 + x.T @ x
    factor = np.linalg.cholesky(np.linalg.inv(precision))
    draws = np.linalg.solve(precision, x.T @ y) + rng.normal(size=(DRAWS, 2)) @ factor.T
    return with_unit_noise(y, draws @ x.T, rng)


def with_unit_noise(y: np.ndarray, mean: np.ndarray, rng: np.random.Generator) -> bk.PredictiveCheck:
    """Of each mean a data set, and of every fortieth mean forty."""
    repeated = mean[::40, None, :] + rng.normal(size=(DRAWS // 40, 40, y.size))
    return checked(y, mean + rng.normal(size=mean.shape), "Normal", repeated=repeated)


def line_data(rng: np.random.Generator) -> np.ndarray:
    sigma = np.sqrt(1 / rng.gamma(2, 0.5))
    coefficients = rng.normal(0, 3 * sigma, 2)
    return coefficients[0] + coefficients[1] * np.linspace(-1, 1, ROWS) + rng.normal(0, sigma, ROWS)


def neighbours(rng: np.random.Generator, like: float = 0.7) -> np.ndarray:
    noise = rng.normal(size=ROWS)
    for row in range(1, ROWS):
        noise[row] += like * noise[row - 1]
    return noise


def curved(rng: np.random.Generator) -> np.ndarray:
    x = np.linspace(-1, 1, ROWS)
    return in_any_order(3 * x + 2 * np.exp(2 * x) + rng.normal(size=ROWS))


def growing(rng: np.random.Generator) -> np.ndarray:
    x = np.linspace(-1, 1, 4 * ROWS)
    return in_any_order(3 * x + (0.9 + 0.6 * x) * rng.normal(size=4 * ROWS))


def unit_line(rng: np.random.Generator, noise: float) -> np.ndarray:
    return rng.normal(0, 3) + rng.normal(0, 3) * np.linspace(-1, 1, ROWS) + rng.normal(0, noise, ROWS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "simulate"),
    [
        (nothing_unknown, lambda rng: rng.normal(size=ROWS)),
        (given_poisson, lambda rng: rng.poisson(rng.gamma(2, 2.0), ROWS)),
        (given_line, line_data),
        (given_unit_noise, lambda rng: unit_line(rng, 1.0)),
        (given_unit_noise_in_any_order, lambda rng: in_any_order(unit_line(rng, 1.0))),
        (given_unit_noise_in_any_order, lambda rng: in_any_order(0.02 * unit_line(rng, 0.0)) + rng.normal(size=ROWS)),
        (a_mean_each, lambda rng: rng.normal(0, 3, ROWS) + rng.normal(size=ROWS)),
    ],
)
def test_a_right_model_is_accused_no_more_often_than_stated(
    given: Callable[..., bk.PredictiveCheck], simulate: Callable[..., np.ndarray]
) -> None:
    """At level 0.05, more than 6 of 40 data sets have probability 0.004 where the level is exact."""
    assert stats.binom.sf(6, 40, LEVEL) < 0.004
    generators = [np.random.default_rng(seed) for seed in range(40)]
    assert sum(not given(simulate(rng), rng).passed for rng in generators) <= 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "simulate", "words", "least"),
    [
        (given_poisson, lambda rng: rng.negative_binomial(2, 1 / 3, ROWS), "vary more than a Poisson", 10),
        (given_poisson, lambda rng: rng.poisson(4, ROWS) * (rng.random(ROWS) < 0.6), "zero inflation", 10),
        (given_poisson, lambda rng: rng.binomial(4, 0.9, ROWS), "underdispersion", 10),
        (given_unit_noise, lambda rng: unit_line(rng, 0.4), "noise that is set too large", 10),
        (given_unit_noise, lambda rng: unit_line(rng, 2.0), "noise that is set too small", 10),
        (given_unit_noise, lambda rng: unit_line(rng, 0) + 0.7 * neighbours(rng, -0.7), "rows that alternate", 7),
        (given_unit_noise_in_any_order, curved, "an effect that is curved", 8),
        (given_unit_noise_in_any_order, growing, "noise that grows with the level", 8),
        (given_line, lambda rng: rng.standard_t(2, 4 * ROWS), "heavier than a Normal's", 7),
        (given_line, lambda rng: neighbours(rng), "depend on their neighbours", 7),
        (given_line, lambda rng: np.linspace(-2, 2, ROWS) ** 2 + rng.normal(size=ROWS), "missing trend", 7),
    ],
    ids=[
        "overdispersed",
        "zeros",
        "underdispersed",
        "noise too large",
        "noise too small",
        "alternating",
        "curved, in any order",
        "growing noise",
        "heavy tails",
        "AR(1)",
        "a curve",
    ],
)
def test_a_misfit_is_named(
    given: Callable[..., bk.PredictiveCheck], simulate: Callable[..., np.ndarray], words: str, least: int
) -> None:
    generators = [np.random.default_rng(seed) for seed in range(10)]
    found = [given(simulate(rng), rng).sentences for rng in generators]
    assert sum(any(words in sentence for sentence in sentences) for sentences in found) >= least


def test_the_table_has_the_statistics_and_their_tails() -> None:
    rng = np.random.default_rng(3)
    y, many = rng.poisson(3.0, 30), rng.poisson(2.0, (400, 30))
    table = checked(y, many, "Poisson").table.set_index("statistic")
    assert list(table.index) == ["mean", "sd", "min", "max", "zeros", "lag-1", "PIT"]
    own: dict[str, Callable[[np.ndarray], float]] = {
        "mean": np.mean,
        "sd": np.std,
        "min": np.min,
        "max": np.max,
        "zeros": lambda v: float(np.mean(v == 0)),
    }
    for name, statistic in own.items():
        values = np.array([statistic(row) for row in many])
        at_least, at_most = np.mean(values >= statistic(y) - 1e-12), np.mean(values <= statistic(y) + 1e-12)
        assert table.loc[name, "observed"] == pytest.approx(statistic(y))
        assert table.loc[name, "median"] == pytest.approx(np.median(values))
        tail = min(1.0, 2 * (1 + 400 * min(at_least, at_most)) / 401)
        assert table.loc[name, "tail"] == pytest.approx(tail)
        assert table.loc[name, "below"] == pytest.approx((at_most + 1 - at_least) / 2)
    residuals = (y - many.mean(axis=0)) / many.std(axis=0)
    assert table.loc["lag-1", "observed"] == pytest.approx(pd.Series(residuals).autocorr(1), abs=0.05)


def test_columns_times_and_categories_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    columns = checked(rng.normal(size=(20, 2)), rng.normal(size=(200, 20, 2)), "MvNormal").table
    assert list(dict.fromkeys(columns["variable"])) == ["y[0]", "y[1]"]
    codes = checked(rng.integers(0, 3, 20), rng.integers(0, 3, (200, 20)), "Categorical").table
    assert list(codes["statistic"]) == ["share of a", "share of b", "share of c", "repeats"]
    ones = checked(rng.integers(0, 2, 20), rng.integers(0, 2, (200, 20)), "Bernoulli").table
    assert list(ones["statistic"]) == ["ones", "lag-1"]
    assert list(checked(np.array([1.0]), rng.normal(size=(200, 1)), "Normal").table["statistic"]) == ["value"]


def test_rows_in_the_order_of_their_values_have_no_neighbours() -> None:
    rng = np.random.default_rng(1)
    found = checked(np.sort(rng.normal(size=30)), rng.normal(size=(400, 30)), "Normal")
    assert found.passed
    assert "lag-1" not in set(found.table["statistic"])
    assert any("in the order of their values" in note for note in found.notes)


def test_few_or_infinite_replicated_data_are_said() -> None:
    rng = np.random.default_rng(1)
    few = checked(rng.normal(size=9), rng.normal(size=(40, 9)), "Normal")
    assert few.too_few and few.verdict.startswith("40 replicated data sets are too few")
    broken = rng.normal(size=(40, 9))
    broken[0, 0] = np.inf
    found = checked(rng.normal(size=9), broken, "Normal")
    assert found.table.empty
    assert "not finite" in found.notes[0]


def test_replicated_data_are_said_to_know_nothing_of_a_potential() -> None:
    # Times of a study that ended: those observed are the small ones, the censored are in the Potential, and no upper
    # bound or trend of the observed ones is a misfit of the model.
    times = stats.expon.ppf(np.linspace(0.01, 0.6, 20), scale=10.0)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 10.0)
        pm.Exponential("y", rate, observed=times)
        pm.Potential("censored", -rate * 20 * times.max())
    draws = np.random.default_rng(1).gamma(22.0, 1 / (10 + times.sum() + 20 * times.max()), size=(2, 200))
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"rate": (("chain", "draw"), draws)})})
    found = bk.posterior_check(tree, model, random_seed=1)
    assert any("maxima" in sentence for sentence in found.sentences)
    assert any("know nothing of the Potential censored" in note for note in found.notes)
    assert "know nothing of the Potential censored" in str(found)


def test_small_residuals_say_nothing_where_no_data_are_drawn_again() -> None:
    """The mean of each row has seen the row: of a right model the residuals by the predictive moments are small."""
    rng = np.random.default_rng(2)
    y = rng.normal(0, 3, ROWS) + rng.normal(size=ROWS)
    predicted = 0.9 * y + rng.normal(0, np.sqrt(1.9), (DRAWS, ROWS))
    found = checked(y, predicted, "Normal")
    table = found.table.set_index("statistic")
    assert table.loc["residual sd", "below"] == 0 and found.passed
    assert any("only large ones are looked at" in note for note in found.notes)
    assert not a_mean_each(y, rng).notes


def model_of_counts(data: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        pm.Poisson("n", pm.Gamma("rate", 2.0, 0.5), observed=data)
    return model


@pytest.fixture(scope="module")
def post() -> bk.Posterior:
    counts = np.random.default_rng(1).negative_binomial(2, 0.3, 40)
    return bk.infer(model_of_counts(counts), draws=1000, random_seed=1, progressbar=False)


def test_a_posterior_and_its_draws_as_a_tree_are_told_the_same(post: bk.Posterior) -> None:
    ours = bk.posterior_check(post)
    assert any("vary more than a Poisson" in s and "overdispersion" in s for s in ours.sentences)
    pd.testing.assert_frame_equal(ours.table, bk.posterior_check(post).table)
    tree = xr.DataTree.from_dict({"posterior": post.tree["posterior"].to_dataset()})
    theirs = bk.posterior_check(tree, post.model, random_seed=1)
    assert "posterior_predictive" not in tree.children
    assert [*theirs.table["statistic"]] == [*ours.table["statistic"]]
    np.testing.assert_array_equal(theirs.table["observed"][:5], ours.table["observed"][:5])
    assert any("overdispersion" in s for s in theirs.sentences)
    assert "statistics of 1,000 replicated data sets" in str(ours)
    assert ours.plot(backend="none") is not None


def test_counts_under_a_regression_vary_less_than_its_poisson() -> None:
    """Data of which a tenth of the Poisson's variance is left; the model draws its data again."""
    x = np.linspace(-1, 1, 40)
    rng = np.random.default_rng(4)
    counts = rng.binomial(np.round(np.exp(2 + x) / 0.9).astype(int), 0.9)
    with pm.Model() as model:
        pm.Poisson("n", pm.math.exp(pm.Normal("a") + pm.Normal("b") * x), observed=counts)
    draws = np.random.default_rng(5).normal([2, 1], 0.06, (4, 250, 2))
    tree = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({n: (("chain", "draw"), draws[..., k]) for k, n in enumerate("ab")})}
    )
    found = bk.posterior_check(tree, model, random_seed=1)
    assert any("about their predictions the counts vary less than a Poisson" in s for s in found.sentences)


def test_what_cannot_be_checked_is_refused(post: bk.Posterior) -> None:
    with pm.Model() as nothing:
        pm.Normal("a")
    draws = post.tree["posterior"].to_dataset()
    tree = xr.DataTree.from_dict({"posterior": draws})
    with pytest.raises(OptionError, match="has its own"):
        bk.posterior_check(post, nothing)
    with pytest.raises(ModelError, match="no variable is observed"):
        bk.posterior_check(tree, nothing)
    with pytest.raises(ModelError, match="no observed variable"):
        bk.posterior_check(post, var_names=["rate"])
    with pytest.raises(DataError, match="there are no draws"):
        bk.posterior_check(xr.DataTree(), post.model)
    other = xr.DataTree.from_dict({"posterior": draws.rename(rate="another")})
    with pytest.raises(DataError, match="no draws of rate"):
        bk.posterior_check(other, post.model, random_seed=1)
    other = xr.DataTree.from_dict({"posterior": draws.assign(rate=("chain", np.ones(4)))})
    with pytest.raises(DataError, match=r"the draws of 'rate' have shape \(4,\)"):
        bk.posterior_check(other, post.model, random_seed=1)


def test_residuals_of_replicated_data_are_those_that_they_would_have_as_observed_ones() -> None:
    """Else the observed ones of a right model are larger, which 40 data sets of many rows show."""
    rng = np.random.default_rng(5)
    sets = rng.normal(np.linspace(0, 3, 6)[:, None], 1.0, (9, 6, 1))
    column = Column("y", "continuous", sets[0], sets[1:])
    for k in range(1, 9):
        exchanged = sets.copy()
        exchanged[[0, k]] = exchanged[[k, 0]]
        as_observed = Column("y", "continuous", exchanged[0], exchanged[1:])
        np.testing.assert_allclose(column.residuals[1][k - 1], as_observed.residuals[0], rtol=1e-12)


@pytest.mark.parametrize("shared", [0.0, 5.0, 0.1, 1e-9])
def test_residuals_where_all_other_data_sets_agree_are_no_rounding_errors(shared: float) -> None:
    """As of data that are censored at a bound, or of rare counts: one data set of forty lies elsewhere."""
    sets = np.full((41, 4, 1), shared)
    sets[7, 0] = sets[0, 1] = shared + 0.8
    sets[:, 2, 0] = np.random.default_rng(1).normal(size=41)
    column = Column("y", "continuous", sets[0], sets[1:])
    for k, found in enumerate([column.residuals[0], *column.residuals[1]]):
        others = np.delete(sets, k, axis=0)
        agree = (others == others[0]).all(axis=0)
        spread = np.where(agree, 1.0, others.std(axis=0))
        right = (sets[k] - np.where(agree, others[0], others.mean(axis=0))) / spread
        np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-12)


def test_means_of_few_replicated_data_sets_differ_by_chance_only() -> None:
    rng = np.random.default_rng(6)
    same = Column("y", "continuous", rng.normal(size=(2000, 1)), rng.normal(size=(40, 2000, 1)))
    assert not same.differing
    means = 0.3 * rng.normal(size=(2000, 1))
    assert Column("y", "continuous", means, means + rng.normal(size=(40, 2000, 1))).differing


@pytest.mark.parametrize("unit", [2.0**1000, 2.0**520, 2.0**-1000])
@pytest.mark.parametrize("differing", [False, True])
def test_a_unit_in_which_squares_overflow_changes_nothing(unit: float, differing: bool) -> None:
    rng = np.random.default_rng(4)
    mean = 3 * np.arange(ROWS) * differing + 1e-3
    y, many, again = (mean + rng.normal(size=(*shape, ROWS)) for shape in ((), (DRAWS,), (25, 40)))
    usual, extreme = (checked(u * y, u * many, "Normal", repeated=u * again) for u in (1.0, unit))
    assert list(extreme.table["statistic"]) == list(usual.table["statistic"])
    columns = ["below", "tail", "error"]
    np.testing.assert_allclose(extreme.table[columns], usual.table[columns], rtol=1e-9)
    in_unit = usual.table["statistic"].isin(["mean", "sd", "min", "max"])
    for column in ("observed", "median"):
        expected = usual.table[column] * np.where(in_unit, unit, 1.0)
        np.testing.assert_allclose(extreme.table[column], expected, rtol=1e-9)
    assert extreme.passed and "inf" not in str(extreme)
    sd = extreme.statistics["y: sd"].to_numpy() / unit
    np.testing.assert_allclose(sd.ravel(), many.std(axis=1), rtol=1e-9)


def test_large_values_that_are_whole_do_not_overflow() -> None:
    rng = np.random.default_rng(4)
    y, many = (1e300 * (1 + 0.1 * rng.random(size=(*shape, ROWS))) for shape in ((), (DRAWS,)))
    found = checked(y, many, "Uniform")
    assert found.passed and np.isfinite(found.table[["observed", "median"]].to_numpy()).all()


@pytest.mark.parametrize("whose", ["replicated", "observed"])
def test_where_nothing_is_finite_nothing_is_said_to_fit(whose: str) -> None:
    y, many = np.linspace(0.1, 1.1, ROWS), np.random.default_rng(4).normal(size=(DRAWS, ROWS))
    (many if whose == "replicated" else y)[..., 3] = np.nan
    found = checked(y, many, "Normal")
    assert found.verdict == "nothing of the data could be compared with replicated ones" and found.too_few
    assert found.notes == (f"2 % of the {whose} values of y are not finite: it was not looked at",)


def test_data_that_are_no_numbers_are_refused() -> None:
    data = {"y": (("chain", "draw"), np.full((1, 4), "a"))}
    observed = xr.Dataset({"y": ((), 1.0)})
    tree = xr.DataTree.from_dict({"posterior_predictive": xr.Dataset(data), "observed_data": observed})
    with pytest.raises(DataError, match="the replicated data of 'y' are not numbers"):
        bk.posterior_check(tree)


@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_in_the_order_of_a_class_have_no_neighbours(shuffled: bool) -> None:
    """A table sorted by class, as most are: replicated classes are in no order, and features of one class are alike."""
    rng = np.random.default_rng(4)
    order = rng.permutation(60) if shuffled else np.arange(60)
    classes = np.repeat([0, 1, 2], 20)[order]
    feature = np.array([-3.0, 0.0, 3.0])[classes] + rng.normal(size=60)
    with pm.Model(coords={"row": range(60), "class": ["a", "b", "c"]}) as model:
        c = pm.Categorical("c", pm.Dirichlet("p", np.ones(3), dims="class"), observed=classes, dims="row")
        pm.Normal("x", pm.Normal("mu", 0.0, 5.0, dims="class")[c], 1.0, observed=feature, dims="row")
    found = bk.posterior_check(bk.infer(model, random_seed=1), var_names=["x"])
    assert found.passed, found.sentences
    note = "the rows of x are in the order of c: neighbours were not compared"
    assert (note in found.notes, "lag-1" in set(found.table["statistic"])) == (not shuffled, shuffled)
