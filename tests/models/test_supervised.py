"""Models of labelled data: evidence against closed forms, and class probabilities against predictive densities.

Every closed form is written here, with SciPy; every class probability is also a ratio of evidences, brute force.
"""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.cli import main
from bayeskit.datasets import example_data, load_example, prepare
from bayeskit.errors import BayeskitError, DataError, ModelError, OptionError
from bayeskit.graphs.compile import small_mode
from bayeskit.models import load_model
from bayeskit.reporting.classes import class_picture, class_plane
from bayeskit.reporting.posterior_section import PICTURES
from bayeskit.reporting.states import state_series

CLASSIFIER, NAIVE, MARKOV = (load_model(n) for n in ("gaussian_classifier", "naive_bayes", "supervised_markov"))
COVARIANCES = ("separate", "tied", "diagonal", "tied_diagonal", "spherical")
SECOND = {"x": "feature", "binary": "indicator", "counts": "item", "y": "feature"}


def dataset(**variables: Any) -> xr.Dataset:
    arrays = {n: np.asarray(v) for n, v in variables.items()}
    return xr.Dataset({n: (("row", SECOND.get(n, ""))[: a.ndim], a) for n, a in arrays.items()})


def rows_of(data: xr.Dataset, which: Any) -> xr.Dataset:
    return data.isel(row=which)


def iris() -> xr.Dataset:
    return example_data(CLASSIFIER.EXAMPLE, CLASSIFIER.VARIABLES)


def infer(model: pm.Model) -> bk.Posterior:
    post = bk.infer(model, draws=100, random_seed=1, progressbar=False)
    assert post.method == "exact"
    return post


@cache
def of_iris(covariance: str) -> bk.Posterior:
    return bk.infer(CLASSIFIER.build(iris(), covariance=covariance), draws=1000, random_seed=5, progressbar=False)


GIVEN = {"prior": "given", "mean_weight": 0.02, "sd": 2.0, "concentration": 3.0}


@cache
def of_given_units(covariance: str) -> bk.Posterior:
    """With a prior that does not come from the data: one more row leaves it as it is."""
    return infer(CLASSIFIER.build(iris(), covariance=covariance, **GIVEN))


def assert_evidence(model: pm.Model | bk.Posterior, expected: float) -> bk.Posterior:
    post = model if isinstance(model, bk.Posterior) else infer(model)
    assert float(post.log_evidence) == pytest.approx(expected, abs=1e-10 * max(1.0, abs(expected)))
    return post


# --- closed forms -----------------------------------------------------------------------------------------------------


def polya(counts: np.ndarray, prior: np.ndarray) -> float:
    """log ∫ Π p_k^n_k Dirichlet(p; a) dp, over the last axis, summed over the others."""
    a, n = np.broadcast_arrays(prior, counts)
    each = special.gammaln(a.sum(-1)) - special.gammaln((a + n).sum(-1))
    return float(np.sum(each + (special.gammaln(a + n) - special.gammaln(a)).sum(-1)))


def normal_gamma(
    x: np.ndarray, groups: list[np.ndarray], mean: float, unit: float, nu: float, sd: float, weight: float
) -> float:
    """Evidence of columns of numbers with means of their own and one shared precision, each group a mean."""
    a, b = nu / 2, nu * sd**2 / 2
    z = (x - mean) / unit
    total = -x.size * np.log(unit)
    n, rate = 0, b
    for group in groups:
        values = z[group]
        n += values.size
        if values.size:
            centre = values.mean()
            rate += (
                0.5 * np.sum((values - centre) ** 2) + 0.5 * weight * values.size / (weight + values.size) * centre**2
            )
        total += 0.5 * np.log(weight / (weight + values.size))
    total += special.gammaln(a + n / 2) - special.gammaln(a) + a * np.log(b) - (a + n / 2) * np.log(rate)
    return float(total - 0.5 * n * np.log(2 * np.pi))


def units(x: np.ndarray, prior: str) -> tuple[np.ndarray, np.ndarray]:
    if prior == "given":
        return np.zeros(x.shape[1]), np.ones(x.shape[1])
    sd = np.array([s if s > 1e-12 * max(abs(c)) else 1.0 for s, c in zip(x.std(axis=0), x.T, strict=True)])
    return x.mean(axis=0), sd


def wishart_posterior(
    x: np.ndarray, codes: np.ndarray, classes: list[int], options: dict[str, Any]
) -> tuple[float, np.ndarray, dict[int, tuple[float, np.ndarray]], np.ndarray, float]:
    """nu_n, the inverse scale, and weight and mean of each class, for classes that share one Wishart precision.

    ``classes`` are the classes that share it; ``codes`` of other classes are left out.
    """
    size = x.shape[1]
    location, unit = units(x, options.get("prior", "data"))
    weight, sd = options.get("mean_weight", 0.1), options.get("sd", 0.5)
    location = location + options.get("mean", 0.0) * unit
    nu0 = options.get("degrees_of_freedom", size + 2)
    start = nu0 * np.diag((sd * unit) ** 2)
    inverse, nu, means = start.copy(), nu0, {}
    for c in classes:
        rows = x[codes == c]
        n = len(rows)
        nu += n
        centre = rows.mean(axis=0) if n else location
        deviation = rows - centre
        inverse = inverse + deviation.T @ deviation
        inverse = inverse + weight * n / (weight + n) * np.outer(centre - location, centre - location)
        means[c] = (weight + n, (weight * location + n * centre) / (weight + n))
    return nu, inverse, means, start, nu0


def normal_wishart(x: np.ndarray, codes: np.ndarray, classes: list[int], options: dict[str, Any]) -> float:
    size, weight = x.shape[1], options.get("mean_weight", 0.1)
    nu, inverse, means, start, nu0 = wishart_posterior(x, codes, classes, options)
    n = int(np.isin(codes, classes).sum())
    total = -0.5 * n * size * np.log(np.pi) + special.multigammaln(nu / 2, size) - special.multigammaln(nu0 / 2, size)
    total += 0.5 * nu0 * np.linalg.slogdet(start)[1] - 0.5 * nu * np.linalg.slogdet(inverse)[1]
    return float(total + sum(0.5 * size * np.log(weight / kappa) for kappa, _ in means.values()))


def classifier_evidence(data: xr.Dataset, covariance: str, classes: int, **options: Any) -> float:
    x, label = data["x"].to_numpy(), data["label"].to_numpy()
    codes = np.unique(label, return_inverse=True)[1]
    every = list(range(classes))
    total = polya(np.bincount(codes, minlength=classes), np.full(classes, options.get("concentration", 1.0)))
    if covariance == "tied":
        return total + normal_wishart(x, codes, every, options)
    if covariance == "separate":
        return total + sum(normal_wishart(x, codes, [c], options) for c in every)
    location, unit = units(x, options.get("prior", "data"))
    prior = (options.get("degrees_of_freedom", 3.0), options.get("sd", 0.5), options.get("mean_weight", 0.1))
    groups = [codes == c for c in every]
    if covariance == "diagonal":
        pairs = [(d, [g]) for d in range(x.shape[1]) for g in groups]
    elif covariance == "tied_diagonal":
        pairs = [(d, groups) for d in range(x.shape[1])]
    else:
        for g in groups:  # one precision for all columns of a class: its columns in their units, end to end
            z = ((x - location) / unit)[g]
            stacked = z.T.ravel()
            blocks = [np.repeat(np.arange(x.shape[1]) == d, len(z)) for d in range(x.shape[1])]
            total += normal_gamma(stacked, blocks, 0.0, 1.0, *prior) - len(z) * np.log(unit).sum()
        return total
    for d, members in pairs:
        inside = np.any(members, axis=0)
        total += normal_gamma(x[inside, d], [m[inside] for m in members], location[d], unit[d], *prior)
    return total


# --- the evidence -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_evidence_of_the_classifier(covariance: str) -> None:
    """With a prior from the data: below, in all of these, and where they are compared."""
    assert_evidence(of_given_units(covariance), classifier_evidence(iris(), covariance, 3, **GIVEN))


@pytest.mark.slow
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_evidence_of_thin_data(covariance: str) -> None:
    """One row a class, a constant column, more columns than rows, and a class without a row."""
    x = np.random.default_rng(3).normal(size=(2, 4))
    x[:, 2] = 7.0
    data = dataset(x=x, label=["a", "b"])
    model = CLASSIFIER.build(data, covariance=covariance, classes="a,b,c")
    post = assert_evidence(model, classifier_evidence(data, covariance, 3))
    found = bk.classify(post, {"x": x})
    assert found.attrs["label"] == "exact"
    assert np.all(np.isfinite(found["log_density"]))
    assert np.all(found["probability"].sel({"class": "c"}) > 0)


@pytest.mark.slow
def test_evidence_with_a_dozen_features_in_very_different_units() -> None:
    """Mean, error and worst of radii and of areas, nearly functions of each other, and of two small numbers."""
    from sklearn.datasets import load_breast_cancer

    x, label = load_breast_cancer(return_X_y=True)
    x = x[:100, np.isin(np.arange(30) % 10, [0, 3, 4, 9])]
    assert x.mean(axis=0).max() > 1e5 * x.mean(axis=0).min()
    data = dataset(x=x, label=label[:100])
    assert_evidence(CLASSIFIER.build(data), classifier_evidence(data, "tied", 2))


def mixed(rows: int = 40, classes: int = 3, seed: int = 5) -> xr.Dataset:
    rng = np.random.default_rng(seed)
    label = rng.integers(0, classes, rows)
    return dataset(
        label=label,
        x=rng.normal(label[:, None], 1.0, size=(rows, 2)) * [1.0, 30.0],
        binary=rng.integers(0, 2, size=(rows, 3)),
        counts=rng.poisson(2.0 + label[:, None], size=(rows, 2)),
    )


def naive_evidence(data: xr.Dataset, counts: str, classes: int, names: tuple[str, ...], prior: str = "data") -> float:
    codes = np.unique(data["label"].to_numpy(), return_inverse=True)[1]
    total = polya(np.bincount(codes, minlength=classes), np.ones(classes))
    for c in range(classes):
        rows = data.isel(row=codes == c)
        if "x" in names:
            x = data["x"].to_numpy()
            location, unit = units(x, prior)
            for d in range(x.shape[1]):
                values = rows["x"].to_numpy()[:, d]
                total += normal_gamma(values, [np.ones(values.size, dtype=bool)], location[d], unit[d], 3.0, 0.5, 0.1)
        if "binary" in names:
            b = rows["binary"].to_numpy()
            total += np.sum(special.betaln(2.0 + b.sum(0), 1.5 + (1 - b).sum(0)) - special.betaln(2.0, 1.5))
        if "counts" in names:
            k = rows["counts"].to_numpy()
            total -= special.gammaln(k + 1).sum()
            if counts == "poisson":
                average = data["counts"].to_numpy().mean(axis=0) if prior == "data" else np.ones(k.shape[1])
                rate = 2.0 / (0.7 * np.where(average > 0, average, 1.0))
                s = k.sum(axis=0)
                each = special.gammaln(2.0 + s) - special.gammaln(2.0) + 2.0 * np.log(rate)
                total += np.sum(each - (2.0 + s) * np.log(rate + len(k)))
            else:
                total += special.gammaln(k.sum(axis=1) + 1).sum() + polya(k.sum(axis=0), np.full(k.shape[1], 0.5))
    return float(total)


NAIVE_OPTIONS = {"ones": 2.0, "zeros": 1.5, "rate_shape": 2.0, "rate_mean": 0.7, "item_concentration": 0.5}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "counts"),
    [
        (("x",), "poisson"),
        (("binary",), "poisson"),
        (("counts",), "poisson"),
        (("counts",), "multinomial"),
        (("x", "binary", "counts"), "multinomial"),
    ],
)
def test_evidence_of_naive_bayes(names: tuple[str, ...], counts: str) -> None:
    data = mixed()[["label", *names]]
    expected = naive_evidence(data, counts, 3, names)
    assert_evidence(NAIVE.build(data, counts=counts, **NAIVE_OPTIONS), expected)


@pytest.mark.slow
def test_evidence_of_naive_bayes_with_a_class_and_values_never_seen() -> None:
    data = mixed(rows=5, classes=2)
    data["counts"] = data["counts"] * 0
    data["binary"] = data["binary"] * 0 + 1
    model = NAIVE.build(data, classes="0,1,2", **NAIVE_OPTIONS)
    post = assert_evidence(model, naive_evidence(data, "poisson", 3, ("x", "binary", "counts")))
    new = {"x": [[0.0, 0.0]], "binary": [[0, 0, 0]], "counts": [[9, 0]]}
    found = bk.classify(post, new)["probability"].to_numpy()
    assert np.all(found > 0)


def chains() -> xr.Dataset:
    """Three sequences of different lengths, one of a single row, their rows interleaved."""
    rng = np.random.default_rng(8)
    state = rng.integers(0, 3, 31)
    return dataset(
        state=np.array(["low", "middle", "high"])[state],
        sequence=np.array([*("ab" * 10), *("a" * 10), "c"]),
        y=rng.normal(state[:, None], 1.0, size=(31, 2)),
        counts=rng.poisson(state[:, None] + 1.0, size=(31, 1)),
        symbols=np.array(["x", "y"])[rng.integers(0, 2, 31)],
    )


@cache
def of_chains() -> bk.Posterior:
    return infer(MARKOV.build(chains()[["state", "y"]]))


@pytest.mark.slow
@pytest.mark.parametrize("states", [None, "low,middle,high,extreme"])
def test_evidence_of_the_supervised_markov_model(states: str | None) -> None:
    data = chains()
    names = ["high", "low", "middle"] if states is None else states.split(",")
    count = len(names)
    codes = np.array([names.index(s) for s in data["state"].to_numpy()])
    sequence = data["sequence"].to_numpy()
    first, moves = np.zeros(count), np.zeros((count, count))
    for name in "abc":
        path = codes[sequence == name]
        first[path[0]] += 1
        for one, two in itertools.pairwise(path):
            moves[one, two] += 1
    total = polya(first, np.full(count, 0.5)) + polya(moves, 0.5 + 2.0 * np.eye(count))
    y, k = data["y"].to_numpy(), data["counts"].to_numpy()[:, 0]
    location, unit = units(y, "data")
    emitted = np.zeros((count, 3))
    for c in range(count):
        inside = codes == c
        for d in range(2):
            values = y[inside, d]
            total += normal_gamma(values, [np.ones(values.size, dtype=bool)], location[d], unit[d], 3.0, 0.5, 0.1)
        rate, s = 1.0 / k.mean(), k[inside].sum()
        total += special.gammaln(1 + s) + np.log(rate) - (1 + s) * np.log(rate + inside.sum())
        emitted[c] = [np.sum(data["symbols"].to_numpy()[inside] == z) for z in "xyz"]
    total += polya(emitted, np.ones(3)) - special.gammaln(k + 1).sum()
    model = MARKOV.build(data, states=states, symbols="x,y,z", concentration=0.5, persistence=2.0)
    post = assert_evidence(model, float(total))
    probability = post.marginal("transition_probability").mean()
    expected = (moves + 0.5 + 2.0 * np.eye(count)) / (moves.sum(1, keepdims=True) + 0.5 * count + 2.0)
    assert probability.to_numpy() == pytest.approx(expected, rel=1e-10)


def test_a_single_row_has_no_transition() -> None:
    data = rows_of(chains(), [0])
    post = infer(MARKOV.build(data[["state", "y"]], states="low,middle,high", prior="given"))
    assert {rv.name for rv in post.model.observed_RVs} == {"state_first", "y"}


# --- class probabilities ----------------------------------------------------------------------------------------------


def student_log_joint(data: xr.Dataset, new: np.ndarray, covariance: str) -> np.ndarray:
    """log p(c, x | y) from SciPy's multivariate t, with the defaults of the classifier."""
    x, codes = data["x"].to_numpy(), np.unique(data["label"].to_numpy(), return_inverse=True)[1]
    classes = range(codes.max() + 1)
    result = np.empty((len(new), len(classes)))
    for c in classes:
        shared = list(classes) if covariance == "tied" else [c]
        nu, inverse, means, _, _ = wishart_posterior(x, codes, shared, {})
        df = nu - x.shape[1] + 1
        kappa, mean = means[c]
        density = stats.multivariate_t(mean, inverse * (kappa + 1) / (kappa * df), df=df)
        result[:, c] = density.logpdf(new) + np.log((1 + np.sum(codes == c)) / (len(classes) + len(x)))
    return result


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["tied", "separate"])
def test_class_probabilities_are_those_of_student_t_predictives(covariance: str) -> None:
    data = iris()
    new = data["x"].to_numpy()[1::2] + np.random.default_rng(1).normal(0.0, 0.3, size=(75, 4))
    expected = student_log_joint(data, new, covariance)
    found = bk.classify(of_iris(covariance), {"x": new})
    assert found["log_density"].to_numpy() == pytest.approx(special.logsumexp(expected, axis=1), rel=1e-10)
    assert found["probability"].to_numpy() == pytest.approx(special.softmax(expected, axis=1), rel=1e-8, abs=1e-14)
    assert np.all(found["error"] == 0)
    assert found["predicted"].to_numpy().tolist() == [
        np.unique(data["label"])[k] for k in expected.argmax(axis=1)
    ]  # labels, not codes


@pytest.mark.slow
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_class_probabilities_are_ratios_of_evidences(covariance: str) -> None:
    """By the closed form of the evidence, of the data with one more row of each class it might have."""
    data, new = iris(), rows_of(iris(), [121])[["x"]] + 0.1
    found = bk.classify(of_given_units(covariance), new)
    more = [xr.concat([data, new.assign(label=("row", [c]))], "row") for c in np.unique(data["label"])]
    before, *after = (classifier_evidence(d, covariance, 3, **GIVEN) for d in (data, *more))
    expected = np.array(after) - before
    assert found["log_density"].item() == pytest.approx(special.logsumexp(expected), abs=1e-9)
    assert found["probability"].to_numpy()[0] == pytest.approx(special.softmax(expected), abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("counts", ["poisson", "multinomial"])
def test_class_probabilities_of_mixed_features_are_ratios_of_evidences(counts: str) -> None:
    data = mixed()
    train, new = rows_of(data, slice(0, 30)), rows_of(data, [34])
    options = {"prior": "given", "counts": counts, "classes": "0,1,2,3", **NAIVE_OPTIONS}
    post = infer(NAIVE.build(train, **options))
    found = bk.classify(post, new.drop_vars("label"))
    more = [xr.concat([train, new.assign(label=("row", [c]))], "row") for c in range(4)]  # class 3 has no rows
    before, *after = (naive_evidence(d, counts, 4, ("x", "binary", "counts"), "given") for d in (train, *more))
    log_joint = np.log(found["probability"].to_numpy()[0]) + found["log_density"].item()
    assert log_joint == pytest.approx(np.array(after) - before, abs=1e-9)


def test_features_that_share_their_parameters_are_judged_together() -> None:
    """Two counts of one rate, and two numbers of one mean and variance: neither is a product of predictives.

    The density of a new row is a ratio of evidences.
    """
    rng = np.random.default_rng(2)
    label = np.repeat([0, 1], 15)
    one, two = rng.poisson(2.0 + 2 * label, size=(2, 30))
    x, y = rng.normal(label, 1.0, size=(2, 30))

    def build(data: xr.Dataset) -> pm.Model:
        codes = data["label"].to_numpy()
        with pm.Model(coords={"class": [0, 1], "row": range(codes.size)}) as model:
            c = pm.Categorical("label", p=[0.4, 0.6], observed=codes, dims="row")
            rate = pm.Gamma("rate", 2.0, 1.0, dims="class")
            variance = pm.InverseGamma("variance", 3.0, 2.0)
            mu = pm.Normal("mu", 0.0, 2.0 * variance**0.5, dims="class")
            for name in ("one", "two"):
                pm.Poisson(name, rate[c], observed=data[name].to_numpy(), dims="row")
            for name in ("x", "y"):
                pm.Normal(name, mu[c], variance**0.5, observed=data[name].to_numpy(), dims="row")
        return model

    data = dataset(label=label, one=one, two=two).assign(x=("row", x), y=("row", y))
    new = xr.Dataset({"one": ("row", [5]), "two": ("row", [1]), "x": ("row", [0.3]), "y": ("row", [1.9])})

    def evidence(data: xr.Dataset) -> float:
        codes, values = data["label"].to_numpy(), np.concatenate([data["x"], data["y"]])
        counts = np.stack([data["one"], data["two"]])
        total = np.log([0.4, 0.6])[codes].sum() - special.gammaln(counts + 1).sum()
        for c in (0, 1):
            own = counts[:, codes == c]
            shape = 2.0 + own.sum()
            total += special.gammaln(shape) - shape * np.log(1.0 + own.size)
        groups = [np.tile(codes == c, 2) for c in (0, 1)]
        return float(total) + normal_gamma(values, groups, 0.0, 1.0, 6.0, np.sqrt(2 / 3), 0.25)

    post = assert_evidence(build(data), evidence(data))
    found = bk.classify(post, new)
    more = [xr.concat([data, new.assign(label=("row", [c]))], "row") for c in (0, 1)]
    expected = np.array([evidence(d) for d in more]) - evidence(data)
    assert found.attrs["label"] == "exact"
    assert found["log_density"].item() == pytest.approx(special.logsumexp(expected), abs=1e-9)
    assert found["probability"].to_numpy()[0] == pytest.approx(special.softmax(expected), abs=1e-10)


# --- against scikit-learn ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["tied", "diagonal"])
def test_with_many_rows_the_classifier_is_discriminant_analysis(covariance: str) -> None:
    """Each row of training data is there 100 times: the posterior is then as good as a point, the prior forgotten."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.naive_bayes import GaussianNB

    data = iris()
    train = rows_of(data, np.tile(np.arange(0, 150, 2), 100))
    x, label = train["x"].to_numpy(), train["label"].to_numpy()
    theirs = {
        "tied": LinearDiscriminantAnalysis(),
        "diagonal": GaussianNB(),
    }[covariance].fit(x, label)
    post = infer(CLASSIFIER.build(train, covariance=covariance, mean_weight=1e-6, sd=0.1))
    new = data["x"].to_numpy()[1::2]
    found = bk.classify(post, {"x": new})["probability"].to_numpy()
    assert found == pytest.approx(theirs.predict_proba(new), abs=3e-3)


def test_bernoulli_naive_bayes_is_scikit_learns_with_a_uniform_prior() -> None:
    from sklearn.naive_bayes import BernoulliNB

    table = load_example("digits")
    pixels, label = table.drop(columns="digit").to_numpy(), table["digit"].to_numpy()
    post = infer(NAIVE.build(dataset(binary=pixels[:60], label=label[:60]), concentration=1e-9))
    found = bk.classify(post, {"binary": pixels[60:]})["probability"].to_numpy()
    theirs = BernoulliNB(alpha=1.0).fit(pixels[:60], label[:60])
    assert found == pytest.approx(theirs.predict_proba(pixels[60:]), abs=1e-8)


@pytest.mark.slow
def test_held_out_log_score_is_better_than_that_of_point_estimates() -> None:
    """Five rows a class of iris: point estimates are too sure."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.naive_bayes import GaussianNB

    data = iris()
    label, rng = data["label"].to_numpy(), np.random.default_rng(0)
    train = np.concatenate([rng.choice(np.flatnonzero(label == c), 5, replace=False) for c in np.unique(label)])
    test = np.setdiff1d(np.arange(150), train)
    for covariance, rival in (("tied", LinearDiscriminantAnalysis()), ("diagonal", GaussianNB())):
        post = infer(CLASSIFIER.build(rows_of(data, train), covariance=covariance))
        ours = bk.classify(post, rows_of(data, test)).attrs["mean_log_score"]
        rival.fit(data["x"].to_numpy()[train], label[train])
        places = np.searchsorted(rival.classes_, label[test])
        theirs = rival.predict_log_proba(data["x"].to_numpy()[test])[np.arange(test.size), places]
        assert ours > theirs.mean(), covariance


# --- without a closed form --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_estimate_agrees_with_the_closed_form_within_its_error() -> None:
    data, names = mixed(), ("x", "binary", "counts")
    model = NAIVE.build(data, counts="multinomial", prior="given", **NAIVE_OPTIONS)
    naive = bk.infer(model, draws=1000, random_seed=2, progressbar=False)
    flowers, rows = iris()["x"].to_numpy()[70:140:5], mixed(seed=9)[["x", "binary", "counts"]].isel(row=slice(14))

    def joint(row: int, c: int) -> float:
        more = xr.concat([data, rows.isel(row=[row]).assign(label=("row", [c]))], "row")
        return naive_evidence(more, "multinomial", 3, names, "given")

    of_rows = np.array([[joint(row, c) for c in range(3)] for row in range(14)])
    of_rows -= naive_evidence(data, "multinomial", 3, names, "given")
    for post, new, log_joint in (
        (of_iris("separate"), {"x": flowers}, student_log_joint(iris(), flowers, "separate")),
        (naive, rows, of_rows),
    ):
        estimate = bk.classify(post, new, method="estimated")
        assert estimate.attrs["label"] == "estimated"
        # 42 probabilities with t-distributed errors of 19 degrees of freedom: false alarm 1 in 1000.
        z = (estimate["probability"] - special.softmax(log_joint, axis=1)) / (estimate["error"] + 1e-12)
        assert float(np.abs(z).max()) < stats.t(19).isf(0.5e-3 / 42)
        known = np.isfinite(estimate["error"])
        assert float(known.mean()) > 0.4 and float(estimate["error"].where(known).max()) < 0.1
        assert estimate["log_density"].to_numpy() == pytest.approx(special.logsumexp(log_joint, axis=1), abs=0.5)


@pytest.mark.slow
def test_no_error_is_stated_where_a_few_draws_decide() -> None:
    """A flower of probability 1.5e-11 to be setosa: over 400 draws the average is 1e-12, and their spread as little."""
    flower = {"x": iris()["x"].to_numpy()[[80]]}
    exact, estimate = (bk.classify(of_iris("separate"), flower, method=m, draws=400) for m in ("exact", "estimated"))
    assert float(exact["probability"][0, 0]) > 10 * float(estimate["probability"][0, 0])
    assert np.isinf(estimate["error"].to_numpy()).tolist() == [[True, False, False]]
    assert float(np.abs(estimate["probability"] - exact["probability"])[0, 1:].max()) < 4 * float(
        estimate["error"][0, 1:].max()
    )


def test_a_posterior_by_quadrature_is_averaged_over_its_draws() -> None:
    label, x = np.repeat([0, 1], 6), np.array([0.1, -1.0, 0.4, 1.2, -0.3, 0.0, 2.1, 1.0, 2.9, 2.0, 1.4, 3.1])
    with pm.Model(coords={"row": range(12)}) as model:
        c = pm.Bernoulli("label", p=0.3, observed=label, dims="row")
        sigma = pm.HalfNormal("sigma", 2.0)
        pm.Normal("x", 2.0 * c, sigma, observed=x, dims="row")
    post = bk.infer(model, random_seed=1, progressbar=False)
    assert post.method == "quadrature"
    with pytest.raises(ModelError, match=r"no exact class probabilities: the posterior is not exact but by quadrature"):
        bk.classify(post, {"x": [0.5]}, method="exact")
    found = bk.classify(post, {"x": [1.2, -3.0]}, draws=2000)

    s = np.geomspace(0.05, 12.0, 2001)
    fitted = stats.norm.logpdf(x[:, None], 2.0 * label[:, None], s).sum(axis=0) + stats.halfnorm.logpdf(s, scale=2.0)

    def joint(new: float, c: int) -> float:
        return float(np.trapezoid(np.exp(fitted + stats.norm.logpdf(new, 2.0 * c, s) + 15), s)) * (0.7, 0.3)[c]

    for row, new in enumerate((1.2, -3.0)):
        weights = np.array([joint(new, 0), joint(new, 1)])
        difference = found["probability"].to_numpy()[row] - weights / weights.sum()
        assert np.all(np.abs(difference) < 5 * found["error"].to_numpy()[row] + 1e-6)
    assert found.attrs["reason"] == "the posterior is not exact but by quadrature"


def test_a_class_that_is_predicted_from_covariates() -> None:
    x = np.array([-2.0, -1.0, -0.5, 0.3, 1.0, 2.2])
    y = np.array([0, 0, 1, 0, 1, 1])
    with pm.Model() as model:
        inputs = pm.Data("x", x, dims="row")
        w = pm.Normal("w", 0.0, 2.0)
        pm.Bernoulli("passed", logit_p=w * inputs, observed=y, dims="row")
    post = bk.infer(model, random_seed=1, progressbar=False)
    found = bk.classify(post, {"x": np.array([0.7, -1.5])}, draws=2000)

    def weight(w: float) -> float:
        return float(np.prod(special.expit(w * x * (2 * y - 1))) * np.exp(-(w**2) / 8))

    total = integrate.quad(weight, -15, 15)[0]
    for row, new in enumerate((0.7, -1.5)):
        expected = integrate.quad(lambda w, new=new: weight(w) * special.expit(w * new), -15, 15)[0] / total
        error = found["error"].to_numpy()[row, 1]
        assert abs(found["probability"].to_numpy()[row, 1] - expected) < 5 * error
        assert 0 < error < 0.02
    assert np.isnan(found["log_density"]).all()  # of covariates there is none


def test_new_covariates_that_are_missing_are_named() -> None:
    with pm.Model() as model:
        x = pm.Data("x", [-1.0, 0.5, 2.0], dims="row")
        pm.Bernoulli("passed", logit_p=pm.Normal("w") * x, observed=[0, 1, 1], dims="row")
    post = bk.infer(model, draws=40, random_seed=1)
    with pytest.raises(DataError, match="the new values of 'x', row 2: the value is missing or infinite"):
        bk.classify(post, pd.DataFrame({"x": [0.5, np.nan]}))
    assert bk.classify(post, pd.DataFrame({"x": [0.5, 0.7]})).sizes["row"] == 2


def test_a_class_of_known_weights_is_exact() -> None:
    with pm.Model() as model:
        pm.Bernoulli("passed", logit_p=1.5 * pm.Data("x", [-1.0, 0.5, 2.0], dims="row"), observed=[0, 1, 1], dims="row")
    found = bk.classify(bk.infer(model, random_seed=1), {"x": np.array([0.7, -1.5])}, method="exact")
    np.testing.assert_allclose(found["probability"][:, 1], special.expit([1.05, -2.25]), rtol=1e-14)
    assert found.attrs == {"label": "exact"}
    assert not found["error"].any()


# --- compared, predicted, drawn --------------------------------------------------------------------------------------


def test_covariances_are_compared_by_evidence_though_one_is_written_class_by_class() -> None:
    data = iris()
    models = {c: of_iris(c) for c in ("separate", "tied", "spherical")}
    table = bk.compare(models, loo=False, random_seed=1).table
    assert table.index.tolist() == ["tied", "separate", "spherical"]
    for covariance in models:
        expected = classifier_evidence(data, covariance, 3)
        assert table.at[covariance, "log_evidence"] == pytest.approx(expected, rel=1e-10)
    other = data.assign(x=data["x"] + 0.1)
    with pytest.raises(
        ModelError, match=r"separate and tied do not explain the same data: 600 of 600 values of x differ"
    ):
        bk.compare({"separate": models["separate"], "tied": CLASSIFIER.build(other)})


@pytest.mark.slow
def test_emissions_of_new_states_are_predicted_by_their_labels() -> None:
    model = MARKOV.build(example_data(MARKOV.EXAMPLE, MARKOV.VARIABLES))
    post = bk.infer(model, draws=1000, random_seed=1, progressbar=False)
    drawn = post.predict({"state": ["recession", "expansion", "recession"]}, random_seed=1)["y"]
    means = drawn.mean(("chain", "draw")).to_numpy()[:, 0]
    expected = post.marginal("mu").mean().to_numpy()[:, 0][[1, 0, 1]]
    assert np.all(np.abs(means - expected) < 5 * drawn.std(("chain", "draw")).to_numpy()[:, 0] / np.sqrt(1000))
    with pytest.raises(
        DataError, match=r"have 'boom', which the model was not fitted to; it knows expansion, recession"
    ):
        post.predict({"state": ["boom"]})


def test_the_plane_of_a_classifier() -> None:
    data, covariance = iris().isel(feature=[0, 2]), "tied"
    post = infer(CLASSIFIER.build(data, covariance=covariance))
    plane = class_plane(post)
    assert plane is not None
    assert (plane.labels, plane.axes) == (("setosa", "versicolor", "virginica"), ("sepal_length", "petal_length"))
    assert plane.points == pytest.approx(data["x"].to_numpy())
    expected = special.softmax(student_log_joint(data, data["x"].to_numpy(), covariance), axis=1)
    assert plane.certainty == pytest.approx(expected[np.arange(150), plane.codes], abs=1e-9)
    here = np.array([[plane.grid[0][30], plane.grid[1][70]]])
    there = special.softmax(student_log_joint(data, here, covariance))[0]
    assert plane.probability is not None
    assert plane.probability[70, 30] == pytest.approx(there, abs=1e-9)


@pytest.mark.slow
def test_many_features_are_seen_in_the_plane_of_the_discriminant_directions() -> None:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    data = iris()
    plane = class_plane(of_iris("tied"))
    assert plane is not None
    assert plane.axes == ("first discriminant direction", "second discriminant direction")
    assert "in the plane of the two leading discriminant directions of 4 features" in class_picture(plane).caption
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(data["x"], data["label"]).transform(data["x"].to_numpy())
    for k in range(2):
        assert abs(np.corrcoef(plane.points[:, k], theirs[:, k])[0, 1]) == pytest.approx(1.0, abs=1e-6)
    counted = class_plane(infer(NAIVE.build(mixed()[["label", "counts"]])))
    assert counted is not None
    assert counted.probability is None
    assert class_plane(of_chains()) is None


def test_a_series_of_states_knows_where_its_sequences_begin() -> None:
    data = chains()[["state", "sequence", "y"]]
    series = state_series(infer(MARKOV.build(data)))
    assert series is not None
    assert [series.states[c] for c in series.codes] == data["state"].to_numpy().tolist()
    assert np.flatnonzero(series.begins).tolist() == [0, 1, 30]
    assert series.means is not None
    assert series.means.shape == (3, 2)
    assert state_series(of_iris("tied")) is None


@pytest.mark.slow
def test_reports_have_their_pictures() -> None:
    section = bk.report_section(of_chains(), "posterior")
    assert any("The series over its observed states" in picture.caption for picture in section.pictures)
    assert (class_plane, class_picture) in PICTURES  # they are made by the same lines


# --- what a person sees -----------------------------------------------------------------------------------------------


def test_labelled_rows_are_scored_and_keep_their_names() -> None:
    data, post = iris(), of_iris("tied")
    new = rows_of(data, slice(1, None, 2)).assign_coords(row=[f"plant {k}" for k in range(75)])
    found = bk.classify(post, new)
    chosen = [found["probability"].sel({"class": c}).to_numpy()[k] for k, c in enumerate(new["label"].to_numpy())]
    assert np.exp(found["log_score"].to_numpy()) == pytest.approx(chosen)
    assert found.attrs["accuracy"] == np.mean(found["predicted"].to_numpy() == new["label"].to_numpy())
    assert found["row"].to_numpy()[3] == "plant 3"
    shuffled = new["x"][:, ::-1]
    assert bk.classify(post, {"x": shuffled})["probability"].to_numpy() == pytest.approx(
        found["probability"].to_numpy()
    )


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({}, r"the new rows lack x; a new row has x, label"),
        ({"x": np.ones((2, 3))}, r"the new values of 'x' have shape \(2, 3\); .* with 4 columns"),
        ({"x": np.ones((0, 4))}, r"there are no new rows; give at least one"),
        ({"x": [[1.0, 2, 3, np.nan]]}, r"'x', row 1: the value of column 'petal_width' is missing or infinite"),
        ({"x": [["a"] * 4]}, r"the new values of 'x' are not numbers"),
        ({"x": np.ones((1, 4)), "colour": [1]}, r"'colour' is no feature of the model; a new row has x, label"),
        ({"x": np.ones((2, 4)), "label": ["setosa"]}, r"the new rows have different numbers \(x 2, label 1\)"),
        (
            {"x": np.ones((2, 4)), "label": ["setosa", "ensata"]},
            r"'label', row 2: 'ensata' is a class that the model was not fitted to; it knows setosa, versicolor, virg",
        ),
        (
            {"x": xr.DataArray(np.ones((1, 2)), dims=("row", "feature"), coords={"feature": ["sepal_length", "b"]})},
            r"the new values of 'x' lack the column 'sepal_width'; it has sepal_length, b",
        ),
    ],
)
def test_new_rows_that_do_not_fit_are_refused(new: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        bk.classify(of_iris("tied"), new)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["count", "binary", "covariate"])
def test_fractions_of_counts_are_not_cut_off(kind: str) -> None:
    with pm.Model(coords={"class": ["a", "b"], "row": range(4)}) as model:
        c = pm.Categorical("c", pm.Dirichlet("p", np.ones(2), dims="class"), observed=[0, 0, 1, 1], dims="row")
        if kind == "binary":
            pm.Bernoulli("n", pm.Beta("q", 1.0, 1.0, dims="class")[c], observed=[0, 1, 1, 1], dims="row")
        else:
            rows = pm.Data("rows", np.array([1, 2, 1, 2]), dims="row")
            pm.Poisson("n", pm.Gamma("rate", 1.0, 1.0, dims="class")[c] * rows, observed=[1, 2, 7, 8], dims="row")
    new: dict[str, Any] = {"n": [1.0, 0.0]} | ({} if kind == "binary" else {"rows": [1.0, 2.0]})
    post = infer(model)
    np.testing.assert_allclose(bk.classify(post, new).probability.sum("class"), 1.0, atol=1e-12)
    name = "rows" if kind == "covariate" else "n"
    with pytest.raises(bk.BayeskitError, match=f"the new values of '{name}' are not all whole numbers"):
        bk.classify(post, new | {name: [0.7, 1.0]})


def test_models_without_a_class_or_with_several_are_refused() -> None:
    normal = load_model("normal")
    post = infer(normal.build(example_data(normal.EXAMPLE, normal.VARIABLES)))
    with pytest.raises(ModelError, match=r"classification needs an observed Categorical or Bernoulli .* it has none"):
        bk.classify(post, {"y": [1.0]})
    chain = of_chains()
    with pytest.raises(ModelError, match=r"it has several: state_first, state_next; say which is the class"):
        bk.classify(chain, {"y": np.ones((1, 2))})
    with pytest.raises(ModelError, match=r"'y' is no observed Categorical or Bernoulli variable"):
        bk.classify(chain, {"y": np.ones((1, 2))}, label="y")
    with pytest.raises(ModelError, match=r"nothing tells the classes apart: no observed .* depends on 'state_next'"):
        bk.classify(chain, {"y": np.ones((1, 2))}, label="state_next")
    with pm.Model(coords={"row": range(4)}) as shifted:
        c = pm.Bernoulli("c", 0.5, observed=[0, 1, 1, 0], dims="row")
        mu = pm.Normal("mu", 0.0, 1.0, shape=2)
        pm.Normal("x", mu[c] + np.arange(4.0), 1.0, observed=[0.0, 2.0, 3.0, 1.0], dims="row")
    with pytest.raises(
        ModelError, match=r"'x' cannot be carried over to a new row: .* hold them in a pm\.Data container"
    ):
        bk.classify(infer(shifted), {"x": [1.0]})
    with pytest.raises(OptionError, match=r"method is 'best'; it must be one of auto, exact, estimated"):
        bk.classify(chain, {}, method="best")


@pytest.mark.parametrize(
    ("module", "data", "options", "message"),
    [
        (
            CLASSIFIER,
            {"x": [[1.0], [2.0]], "label": ["a", "a"]},
            {},
            r"column 'label' has one label only, 'a'; .*a,ano",
        ),
        (
            CLASSIFIER,
            {"x": [[1.0], [2.0]], "label": ["a", "b"]},
            {"classes": "a,c"},
            r"column 'label', row 2: 'b' is none of the declared labels a, c; correct it, or declare it in classes",
        ),
        (
            CLASSIFIER,
            {"x": [[1.0]], "label": ["a"]},
            {"classes": "a,a"},
            r"option classes is 'a,a'; write each label o",
        ),
        (
            CLASSIFIER,
            {"x": [[1.0]], "label": ["a"]},
            {"classes": "a,"},
            r"option classes is 'a,'; write each label once",
        ),
        (
            CLASSIFIER,
            {"x": np.ones((2, 3)), "label": ["a", "b"]},
            {"degrees_of_freedom": 2.0},
            r"option degrees_of_freedom is 2.*above 2, the number of features less one",
        ),
        (CLASSIFIER, {"x": [[1.0], [np.nan]], "label": ["a", "b"]}, {}, r"column '0', row 2: the value is missing"),
        (NAIVE, {"label": ["a", "b"]}, {}, r"the model needs features: name the columns of at least one of x \(real\)"),
        (
            NAIVE,
            {"label": ["a", "b"], "binary": [[0], [2]]},
            {},
            r"column '0', row 2: 2 is not 0 or 1; this model expl",
        ),
        (NAIVE, {"label": ["a", "b"], "counts": [[0], [0.5]]}, {}, r"column '0', row 2: 0\.5 is not a whole number"),
        (MARKOV, {"state": ["a", "b"]}, {}, r"the model needs emissions: name the columns of at least one of y"),
        (
            MARKOV,
            {"state": ["a", "b"], "symbols": ["u", "v"]},
            {"symbols": "u,w"},
            r"column 'symbols', row 2: 'v' is none of the declared labels u, w; correct it, or declare it in symbols",
        ),
    ],
)
def test_data_that_the_models_cannot_explain_are_refused(
    module: Any, data: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BayeskitError, match=message):
        module.build(dataset(**data), **options)


def test_declared_levels_of_a_table_are_known_without_rows() -> None:
    species = pd.Categorical(["a", "b", "a"], categories=["b", "a", "c"])
    data = prepare(pd.DataFrame({"x": [1.0, 2.0, 3.0], "label": species}), CLASSIFIER.VARIABLES)
    model = CLASSIFIER.build(data)
    assert model.coords["class"] == ("b", "a", "c")
    assert model["class_probability"].eval(mode=small_mode()).shape == (3,)


def test_names_of_classes_may_hold_a_slash() -> None:
    model = CLASSIFIER.build(dataset(x=[[1.0], [2.0], [0.0]], label=["a/b", "c", "c"]), covariance="separate")
    post = infer(model)
    assert bk.classify(post, {"x": [[1.0]]}).attrs["label"] == "exact"
    with pytest.raises(DataError, match=r"the labels 'a/b' and 'a_b' differ by a slash only; rename one"):
        CLASSIFIER.build(dataset(x=[[1.0], [2.0]], label=["a/b", "a_b"]), covariance="separate")


def test_the_command_line_declares_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "leaves.csv").write_text("length,width,kind\n1,2,oak\n2,1,ash\n3,3,oak\n")
    arguments = ["--data", str(tmp_path / "leaves.csv"), "--columns", "x=length+width,label=kind"]
    arguments += ["--set", "covariance=tied_diagonal"]
    assert main(["infer", "gaussian_classifier", *arguments, "--set", "classes=oak,ash,elm"]) == 0
    assert "exact" in capsys.readouterr().out
    assert main(["infer", "gaussian_classifier", *arguments, "--set", "classes=oak,elm"]) == 2
    assert "column 'kind', row 2: 'ash' is none of the declared labels oak, elm" in capsys.readouterr().err


def test_a_class_without_parameters_has_one_density_for_all_draws() -> None:
    """No tail can be fitted to draws that are all the same: the other class has the error."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 60) > 0
    x = rng.normal(1.5 * label, 1.2)
    with pm.Model() as model:
        mean = pm.Normal("mean", 1.0, 1.0)
        pm.Normal("x", mean * pm.Bernoulli("c", 0.4, observed=label), 1.2, observed=x)
    post = bk.infer(model, draws=400, random_seed=1, progressbar=False)
    found = bk.classify(post, {"x": np.array([0.0, 1.0, 5.0])}, method="estimated")
    exact = bk.classify(post, {"x": np.array([0.0, 1.0, 5.0])})
    assert exact.attrs["label"] == "exact" and found.attrs["label"] == "estimated"
    assert np.isfinite(found["error"]).all()
    assert np.all(np.abs(found["probability"] - exact["probability"]) < 5 * found["error"])
