"""Which predictors: against the closed forms of each submodel, integrated by SciPy where there is a scale left."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, special, stats

import bayeskit as bk

# Chatterjee and Price (1977), Regression Analysis by Example: rating, complaints, privileges, learning, raises,
# critical, advance, in 30 departments.
ATTITUDE = """
43 51 30 39 61 92 45  63 64 51 54 63 73 47  71 70 68 69 76 86 48  61 63 45 47 54 84 35  81 78 56 66 71 83 47
43 55 49 44 54 49 34  58 67 42 56 66 68 35  71 75 50 55 70 66 41  72 82 72 67 71 83 31  67 61 45 47 62 80 41
64 53 53 58 58 67 34  67 60 47 39 59 74 41  69 62 57 42 55 63 25  68 83 83 45 59 77 35  77 77 54 72 79 77 46
81 90 50 72 60 54 36  74 85 64 69 79 79 63  65 60 65 75 55 80 60  65 70 46 57 75 85 46  50 58 68 54 64 78 52
50 40 33 34 43 64 33  64 61 52 62 66 80 41  53 66 52 50 63 80 37  40 37 42 58 50 57 49  63 54 42 48 66 75 33
66 77 66 63 88 76 72  78 75 58 74 80 78 49  48 57 44 45 51 83 38  85 85 71 71 77 74 55  82 82 39 59 64 78 39
"""
NAMES = ["complaints", "privileges", "learning", "raises", "critical", "advance"]
# Hald's cement (Woods, Steinour and Starke, 1932): four components, and the heat that evolves.
HALD = np.array(
    [
        [7, 26, 6, 60, 78.5], [1, 29, 15, 52, 74.3], [11, 56, 8, 20, 104.3], [11, 31, 8, 47, 87.6],
        [7, 52, 6, 33, 95.9], [11, 55, 9, 22, 109.2], [3, 71, 17, 6, 102.7], [1, 31, 22, 44, 72.5],
        [2, 54, 18, 22, 93.1], [21, 47, 4, 26, 115.9], [1, 40, 23, 34, 83.8], [11, 66, 9, 12, 113.3],
        [10, 68, 8, 12, 109.4],
    ]
)  # fmt: skip
HEAT, CEMENT = HALD[:, 4], HALD[:, :4]


def attitude() -> tuple[np.ndarray, np.ndarray]:
    table = np.array(ATTITUDE.split(), float).reshape(30, 7)
    return table[:, 0], table[:, 1:] - table[:, 1:].mean(axis=0)


def toy(size: int = 4, rows: int = 25, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, size)) + rng.normal(size=(rows, 1))
    return 1.0 + x @ (0.7 * (np.arange(size) % 2)) + rng.normal(size=rows), x


def subsets(size: int) -> list[list[int]]:
    """In the order of their numbers."""
    return [[j for j in range(size) if k >> j & 1] for k in range(1 << size)]


def every(selection: bk.Selection, labels: list[Any]) -> np.ndarray:
    """The log evidences of all submodels, in that order."""
    rows = {tuple(sorted(map(labels.index, r.predictors))): r.log_evidence for r in selection.models.itertuples()}
    return np.array([rows[tuple(s)] for s in subsets(len(labels))])


def inclusion(log_joint: np.ndarray, size: int) -> np.ndarray:
    weights = special.softmax(log_joint)
    marks = np.array([[j in s for j in range(size)] for s in subsets(size)])
    return np.asarray(weights @ marks)


def g_prior(y: np.ndarray, x: np.ndarray, scale: Callable[[], Any]) -> pm.Model:
    """Zellner's prior with a prior of g, and Jeffreys' of the variance."""
    with pm.Model(coords={"predictor": NAMES[: x.shape[1]]}) as model:
        intercept, variance = pm.Flat("intercept"), pm.HalfFlat("variance")
        pm.Potential("jeffreys", -pm.math.log(variance))
        data = pm.Data("x", x)
        covariance = scale() * variance * np.linalg.inv(x.T @ x)
        w = pm.MvNormal("w", np.zeros(x.shape[1]), covariance, dims="predictor")
        pm.Normal("y", intercept + data @ w, pm.math.sqrt(variance), observed=y, shape=data.shape[0])
    return model


def zellner_siow(y: np.ndarray, x: np.ndarray, r: float = 1.0) -> pm.Model:
    return g_prior(y, x, lambda: pm.InverseGamma("g", 0.5, len(y) * r**2 / 2))


def under_g(y: np.ndarray, x: np.ndarray, g: float) -> float:
    """log ∫∫ N(y; a 1 + X w, σ²) N(w; 0, g σ² (XᵀX)⁻¹) σ⁻² da dσ², by generalised least squares of y on 1."""
    n = len(y)
    ones, hat = np.ones(n), x @ np.linalg.solve(x.T @ x, x.T)
    inverse = np.eye(n) - g / (1 + g) * hat  # of I + g X (XᵀX)⁻¹ Xᵀ, whose determinant is (1 + g)^k
    weight = ones @ inverse @ ones
    rest = y - ones @ inverse @ y / weight
    square, k = rest @ inverse @ rest, (n - 1) / 2
    logs = -k * math.log(2 * math.pi) - 0.5 * x.shape[1] * math.log1p(g) - 0.5 * math.log(weight)
    return float(logs + special.gammaln(k) - k * math.log(square / 2))


def integral(density: Callable[[float], float], low: float, high: float, shift: float) -> float:
    """log ∫ exp(density)."""
    points = list(np.linspace(low, high, 40)[1:-1])
    options: dict[str, Any] = {"epsabs": 0.0, "epsrel": 1e-12, "limit": 2000, "points": points}
    return shift + math.log(integrate.quad(lambda u: math.exp(density(u) - shift), low, high, **options)[0])


@cache
def of_attitude() -> bk.Selection:
    return bk.select(zellner_siow(*attitude(), math.sqrt(2) / 4), "w", inclusion_prior="uniform", top=64)


def test_the_example_of_the_bayesfactor_package() -> None:
    best = of_attitude().models
    # regressionBF(rating ~ ., data = attitude), against the intercept only
    assert best.predictors[0] == ("complaints",)
    assert best.predictors[1] == ("complaints", "learning")
    assert np.allclose(np.exp(best.log_bayes_factor_null[:2]), [417938.6, 207272], rtol=3e-6, atol=0)
    assert of_attitude().label == "quadrature"
    assert of_attitude().median_probability_model == ("complaints",)
    assert "one arbitrary constant" in of_attitude().notes[0]


def test_zellner_and_siow_by_the_formula_of_liang_et_al() -> None:
    y, x = attitude()
    n, r = len(y), math.sqrt(2) / 4
    half = n * r**2 / 2  # g ~ InverseGamma(1/2, half)
    total = float(np.sum((y - y.mean()) ** 2))
    expected = []
    for s in subsets(6):
        left = y - y.mean() - x[:, s] @ np.linalg.lstsq(x[:, s], y - y.mean(), rcond=None)[0]
        unexplained = float(left @ left) / total

        def density(u: float, k: int = len(s), rest: float = unexplained) -> float:
            one, other = (max(v, 0.0) + math.log1p(math.exp(-abs(v))) for v in (u, u + math.log(rest)))
            log_prior = 0.5 * math.log(half / math.pi) - 0.5 * u - half * math.exp(-u)
            return float(log_prior + (n - 1 - k) / 2 * one - (n - 1) / 2 * other)

        expected.append(integral(density, -8, 70, density(1.0)))
    found = of_attitude()
    values = every(found, NAMES)
    assert np.allclose(values - values[0], np.array(expected) - expected[0], rtol=0, atol=1e-9)
    assert np.allclose(found.inclusion["probability"], inclusion(np.array(expected), 6), rtol=0, atol=1e-9)
    assert found.error < 1e-9
    explained = found.models.set_index("predictors")["r2"]
    assert np.isclose(explained[("complaints",)], np.corrcoef(y, x[:, 0])[0, 1] ** 2, rtol=1e-12, atol=0)


@pytest.mark.slow
def test_a_hyper_g_prior_and_predictors_that_are_not_centred() -> None:
    y, x = HEAT, CEMENT[:, :3]
    # p(g) = (a − 2)/2 (1 + g)^(−a/2) with a = 3
    model = g_prior(y, x, lambda: pm.Pareto("above", 0.5, 1.0) - 1.0)
    found = bk.select(model, "w", inclusion_prior="uniform", top=8)
    expected = []
    for s in subsets(3):
        part = x[:, s]

        def density(u: float, part: np.ndarray = part) -> float:
            return under_g(y, part, math.exp(u)) + math.log(0.5) - 1.5 * math.log1p(math.exp(u)) + u

        expected.append(integral(density, -35, 60, density(2.0)))
    assert np.allclose(every(found, NAMES[:3]), expected, rtol=0, atol=1e-9)


def test_a_share_so_close_to_one_that_numbers_do_not_tell_it_apart_is_refused() -> None:
    def scale() -> Any:
        shrinkage = pm.Beta("shrinkage", 1.0, 0.5)
        return shrinkage / (1 - shrinkage)

    with pytest.raises(bk.BayeskitError, match=r"'shrinkage' .* close to 1"):
        bk.select(g_prior(HEAT, CEMENT[:, :3], scale), "w")


def conjugate(y: np.ndarray, x: np.ndarray, marks: Callable[[int], Any] | None = None) -> pm.Model:
    size = x.shape[1]
    with pm.Model(coords={"predictor": list("abcdefgh")[:size]}) as model:
        variance = pm.InverseGamma("variance", 3.0, 2.0)
        sd, data = pm.math.sqrt(variance), pm.Data("x", x)
        intercept = pm.Normal("intercept", 0.5, 5 * sd)
        w = pm.Normal("w", 0.0, np.arange(1.0, size + 1) * sd, dims="predictor")
        kept = w if marks is None else w * marks(size)
        pm.Normal("y", intercept + data @ kept, sd, observed=y, shape=data.shape[0])
    return model


def of_subsets(y: np.ndarray, x: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of each submodel of it log p(y) as a t density; and mean and second moment of y at new rows, and of (1, w)."""
    n, size = x.shape
    logs, means, seconds, coefficients, squares = [], [], [], [], []
    for s in subsets(size):
        design = np.column_stack([np.ones(n), x[:, s]])
        prior = np.diag([25.0, *(np.arange(1.0, size + 1)[s] ** 2)])
        location, shape = np.full(n, 0.5), np.eye(n) + design @ prior @ design.T
        logs.append(stats.multivariate_t(location, 2.0 / 3.0 * shape, df=6).logpdf(y))
        covariance = np.linalg.inv(np.linalg.inv(prior) + design.T @ design)
        m0 = np.array([0.5, *np.zeros(len(s))])
        mean = covariance @ (np.linalg.solve(prior, m0) + design.T @ y)
        rate = 2.0 + 0.5 * (y - location) @ np.linalg.solve(shape, y - location)
        variance = rate / (3.0 + n / 2 - 1)
        places = [0, *(j + 1 for j in s)]
        whole, square = np.zeros(size + 1), np.zeros((size + 1, size + 1))
        whole[places] = mean
        square[np.ix_(places, places)] = variance * covariance + np.outer(mean, mean)
        at = np.column_stack([np.ones(len(new)), new])
        coefficients.append(whole)
        squares.append(np.diag(square))
        means.append(at @ whole)
        seconds.append(np.einsum("ij,jk,ik->i", at, square, at) + variance)
    return tuple(map(np.array, (logs, means, seconds, coefficients, squares)))


@cache
def of_toy() -> tuple[bk.Selection, tuple[np.ndarray, ...], np.ndarray]:
    y, x = toy()
    new = np.random.default_rng(5).normal(size=(3, 4))
    return bk.select(conjugate(y, x), "w", top=16), of_subsets(y, x, new), new


def test_a_conjugate_regression_is_exact_and_averages_over_all() -> None:
    found, (logs, means, seconds, coefficients, squares), new = of_toy()
    assert found.label == "exact"
    assert found.notes == ()
    assert np.allclose(every(found, list("abcd")), logs, rtol=0, atol=1e-9)
    sizes = np.array([len(s) for s in subsets(4)])
    joint = logs - np.log(special.binom(4, sizes)) - math.log(5)
    weights = special.softmax(joint)
    assert np.isclose(found.log_evidence.value, special.logsumexp(joint), rtol=0, atol=1e-9)
    assert found.error < 1e-9
    assert np.allclose(found.inclusion["probability"], inclusion(joint, 4), rtol=0, atol=1e-12)
    odds = special.logit(inclusion(joint, 4))
    assert np.allclose(found.inclusion["log_bayes_factor"], odds, rtol=0, atol=1e-9)
    table = found.coefficients.loc[["intercept", *"abcd"]]
    mean = weights @ coefficients
    assert np.allclose(table["mean"], mean, rtol=0, atol=1e-11)
    assert np.allclose(table["sd"], np.sqrt(weights @ squares - mean**2), rtol=0, atol=1e-10)
    ahead = found.predict({"x": new})
    assert np.allclose(ahead["mean"], weights @ means, rtol=0, atol=1e-10)
    assert np.allclose(ahead["sd"], np.sqrt(weights @ seconds - (weights @ means) ** 2), rtol=0, atol=1e-10)
    assert len(found.predict()) == 25


@pytest.mark.parametrize(
    ("rule", "log_prior"),
    [
        ("uniform", lambda k: np.zeros_like(k, dtype=float)),
        (0.2, lambda k: k * math.log(0.2) + (4 - k) * math.log(0.8)),
        ([1, 2, 3, 2, 1], lambda k: np.log(np.array([1, 2, 3, 2, 1])[k] / special.binom(4, k))),
    ],
)
def test_priors_over_submodels(rule: Any, log_prior: Callable[[np.ndarray], np.ndarray]) -> None:
    y, x = toy()
    sizes = np.array([len(s) for s in subsets(4)])
    found = bk.select(conjugate(y, x), "w", inclusion_prior=rule)
    expected = inclusion(of_toy()[1][0] + log_prior(sizes), 4)
    assert np.allclose(found.inclusion["probability"], expected, rtol=0, atol=1e-12)
    assert np.allclose(found.inclusion["prior_probability"], inclusion(log_prior(sizes), 4), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_indicators_bring_their_own_prior() -> None:
    y, x = toy()
    logs, sizes = of_toy()[1][0], np.array([len(s) for s in subsets(4)])
    chances = np.array([0.1, 0.5, 0.7, 0.4])
    found = bk.select(conjugate(y, x, lambda size: pm.Bernoulli("z", chances, shape=size)), "w")
    odds = np.array([special.logit(chances)[s].sum() for s in subsets(4)])
    assert np.allclose(found.inclusion["probability"], inclusion(logs + odds, 4), rtol=0, atol=1e-12)
    assert np.allclose(found.inclusion["prior_probability"], chances, rtol=0, atol=1e-12)
    mixed = bk.select(conjugate(y, x, lambda size: pm.Bernoulli("z", pm.Beta("pi", 2.0, 3.0), shape=size)), "w")
    log_prior = stats.betabinom(4, 2.0, 3.0).logpmf(sizes) - np.log(special.binom(4, sizes))
    assert np.allclose(mixed.inclusion["probability"], inclusion(logs + log_prior, 4), rtol=0, atol=1e-10)
    assert np.isclose(mixed.log_evidence.value, special.logsumexp(logs + log_prior), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_a_scale_that_has_no_closed_form_goes_on_a_grid() -> None:
    y, x = toy(3, 12)
    with pm.Model() as model:
        sd = pm.HalfNormal("sd", 2.0)
        intercept = pm.Normal("intercept", 0.0, 3.0)
        w = pm.Normal("w", 0.0, [1.0, 2.0, 0.5], shape=3)
        pm.Normal("y", intercept + pm.math.dot(x, w), sd, observed=y)
    found = bk.select(model, "w", top=8, inclusion_prior="uniform")
    assert found.label == "quadrature"
    expected = []
    for s in subsets(3):
        part = 9.0 + (x[:, s] * np.array([1.0, 4.0, 0.25])[s]) @ x[:, s].T

        def density(u: float, part: np.ndarray = part) -> float:
            sd = math.exp(u)
            root = np.linalg.cholesky(part + sd**2 * np.eye(12))
            normal = (
                -np.log(np.diag(root)).sum() - 0.5 * np.sum(np.linalg.solve(root, y) ** 2) - 6 * math.log(2 * math.pi)
            )
            return float(normal + 0.5 * math.log(2 / math.pi) - math.log(2.0) - sd**2 / 8 + u)

        expected.append(integral(density, -7, 4, density(0.0)))
    assert np.allclose(every(found, [0, 1, 2]), expected, rtol=0, atol=1e-9)


def saturated(size: int, prior: Callable[[], Any]) -> tuple[pm.Model, np.ndarray, np.ndarray]:
    """As many predictors as observations, and an sd of the noise that has a prior of its own."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(size, size))
    y = 2 * x[:, 0] + 0.1 * rng.normal(size=size)
    with pm.Model() as model:
        sigma = prior()
        pm.Normal("y", x @ pm.Normal("w", 0.0, 1.0, shape=size), sigma, observed=y)
    return model, x, y


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 4])
def test_predictors_that_fit_without_noise_leave_no_rounding_in_the_integral(size: int) -> None:
    model, x, y = saturated(size, lambda: pm.Gamma("sigma", 3.0, 1.0))
    found = bk.select(model, "w", top=1 << size, random_seed=1)
    expected = []
    for chosen in subsets(size):
        values, vectors = np.linalg.eigh(x[:, chosen] @ x[:, chosen].T)
        values[: size - len(chosen)] = 0.0
        squares = (vectors.T @ y) ** 2

        def joint(u: float, values: np.ndarray = values, squares: np.ndarray = squares) -> float:
            variances = math.exp(2 * u) + values
            log_p = -0.5 * np.sum(np.log(2 * np.pi * variances) + squares / variances)
            return math.exp(log_p + 2 * u - math.exp(u) - math.log(2.0) + u)  # the density of Gamma(3, 1) at exp(u)

        pieces = [integrate.quad(joint, a, b, epsabs=0, epsrel=1e-10, limit=300)[0] for a, b in ((-20, -4), (-4, 4))]
        expected.append(math.log(sum(pieces)))
    assert np.all(np.abs(every(found, list(range(size))) - expected) < 1e-8)
    assert 0 < found.log_evidence.error < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior",
    [
        lambda: pm.HalfNormal("sigma", 1.0),
        lambda: pm.Uniform("sigma", 0.0, 3.0),
        lambda: pm.Gamma("sigma", 2.0, 1.0),
    ],
)
@pytest.mark.parametrize("size", [3, 4])
def test_noise_whose_prior_has_mass_near_zero_is_refused_where_it_is_rounding(
    prior: Callable[[], Any], size: int
) -> None:
    model, _, _ = saturated(size, prior)
    with pytest.raises(
        bk.BayeskitError, match=r"singular to rounding.*as many predictors.*InverseGamma of a variance$"
    ):
        bk.select(model, "w", random_seed=1)


@pytest.mark.slow
def test_narrow_posteriors_far_from_each_other_are_both_met_by_the_grid() -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=2000)
    y = 2 * x + rng.normal(size=2000)
    with pm.Model() as model:
        sd = pm.HalfNormal("sd", 2.0)
        pm.Normal("y", pm.math.dot(x[:, None], pm.Normal("w", 0.0, 1.0, shape=1)), sd, observed=y)
    found = every(bk.select(model, "w"), [0])
    squares, cross, total = x @ x, x @ y, y @ y
    expected = []
    for inside in (0.0, 1.0):

        def density(u: float, inside: float = inside) -> float:
            sd = math.exp(u)
            logs = -2000 * u - 0.5 * inside * math.log1p(squares / sd**2)
            rest = total - inside * cross**2 / (sd**2 + squares)
            normal = logs - 0.5 * rest / sd**2 - 1000 * math.log(2 * math.pi)
            return normal + 0.5 * math.log(2 / math.pi) - math.log(2.0) - sd**2 / 8 + u

        at = 0.5 * math.log((total - inside * cross**2 / squares) / 2000)
        expected.append(integral(density, at - 0.3, at + 0.3, density(at)))
    assert np.allclose(found, expected, rtol=0, atol=1e-8)


def by_sigma(data: tuple[np.ndarray, np.ndarray], kind: str) -> pm.Model:
    """Jeffreys' prior of the variance, in other words."""
    y, x = data
    with pm.Model() as model:
        if kind == "sd":
            sd = pm.HalfFlat("sd")
            pm.Potential("jeffreys", -pm.math.log(sd))
        elif kind == "log sd":
            sd = pm.math.exp(pm.Flat("log_sd"))
        else:
            precision = pm.HalfFlat("precision")
            pm.Potential("jeffreys", -pm.math.log(precision))
            sd = precision**-0.5
        w = pm.Normal("w", 0.0, 1.5 * sd, shape=x.shape[1])
        pm.Normal("y", pm.Flat("intercept") + pm.math.dot(x, w), sd, observed=y)
    return model


@pytest.mark.parametrize("kind", ["sd", "log sd", "precision"])
def test_the_variance_may_be_written_in_any_way(kind: str) -> None:
    y, x = toy(2, 10)
    found = bk.select(by_sigma((y, x), kind), "w", top=4)
    assert found.label == "exact"
    expected = []
    for s in subsets(2):
        v = np.eye(10) + 2.25 * x[:, s] @ x[:, s].T
        weight = np.linalg.inv(v)
        mean = weight.sum(axis=0) @ y / weight.sum()
        square = (y - mean) @ weight @ (y - mean)
        expected.append(-0.5 * np.linalg.slogdet(v)[1] - 0.5 * math.log(weight.sum()) - 4.5 * math.log(square))
    values = every(found, [0, 1])
    assert np.allclose(values - values[0], np.array(expected) - expected[0], rtol=0, atol=1e-9)


def refused(w: Callable[[], Any], *, likelihood: str = "normal", x: Any = None, indicators: bool = False) -> pm.Model:
    y, design = toy(3, 12)
    design = design if x is None else x(design)
    with pm.Model() as model:
        coefficients = w()
        if indicators:
            coefficients = coefficients + 0.1 * pm.Bernoulli("z", 0.5, shape=3)
        mean = pm.math.dot(design, coefficients)
        if likelihood == "logistic":
            pm.Bernoulli("y", logit_p=mean, observed=y > 1)
        elif likelihood == "groups":
            pm.Normal("y", mean, pm.InverseGamma("spread", 2, 2, shape=2)[np.arange(12) % 2], observed=y)
        else:
            pm.Normal("y", mean, 1.0, observed=y)
    return model


def _two_scales() -> Any:
    return pm.Normal("w", 0.0, pm.HalfNormal("one") + pm.HalfNormal("two"), shape=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: refused(lambda: pm.Normal("w", shape=3), likelihood="logistic"), "'y' is not quadratic .*compare"),
        (lambda: refused(lambda: pm.Laplace("w", 0, 1, shape=3)), "prior is not Normal"),
        (lambda: refused(lambda: pm.Flat("w", shape=3)), "prior of 'w' is improper"),
        (lambda: refused(lambda: pm.Normal("w", 1.0, 1.0, shape=3)), "not centred at zero"),
        (lambda: refused(lambda: pm.Normal("w", pm.Normal("m"), 1.0, shape=3)), "'w' depends on 'm'"),
        (lambda: refused(lambda: pm.Normal("w", 0, pm.HalfFlat("t"), shape=3)), "'t' .*improper"),
        (lambda: refused(lambda: pm.Normal("w", 0, pm.HalfNormal("t", shape=3))), "'t' has the shape"),
        (lambda: refused(_two_scales), "one, two remain"),
        (lambda: refused(lambda: pm.Normal("w", shape=3), likelihood="groups"), "'spread' has the shape"),
        (lambda: refused(lambda: pm.Deterministic("w", pm.Normal("raw", shape=3))), "'w' is a Deterministic"),
        (lambda: refused(lambda: pm.Normal("w") + np.zeros(3)), "takes a vector"),
        (lambda: refused(lambda: pm.Normal("w", shape=3), indicators=True), "otherwise than by z \\* w"),
    ],
)  # fmt: skip
def test_what_is_no_choice_of_predictors_is_refused_by_name(model: Callable[[], pm.Model], words: str) -> None:
    with pytest.raises(bk.BayeskitError, match=words):
        bk.select(model(), "w")


@pytest.mark.parametrize("rule", ["some", 0.0, 1.5, [1.0, 2.0], [1, -1, 1, 1], object()])
def test_a_prior_that_is_none_is_refused(rule: Any) -> None:
    with pytest.raises(bk.BayeskitError, match=r"inclusion_prior is .* 4 positive weights"):
        bk.select(refused(lambda: pm.Normal("w", shape=3)), "w", inclusion_prior=rule)


def test_predictors_that_give_each_other_are_refused_where_the_prior_does_not_tell_them_apart() -> None:
    y, x = toy(3, 12)
    with pm.Model() as model:
        w = pm.MvNormal("w", np.zeros(3), tau=1e-18 * np.eye(3))
        pm.Normal("y", pm.math.dot(np.column_stack([x[:, :2], x[:, 0] + x[:, 1]]), w), 1.0, observed=y)
    with pytest.raises(bk.BayeskitError, match="collinear"):
        bk.select(model, "w")


def test_a_support_that_a_transform_cuts_is_refused() -> None:
    y, x = toy(2, 12)
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0.0, 3.0, transform=pm.distributions.transforms.log)
        pm.Normal("y", intercept + pm.math.dot(x, pm.Normal("w", 0.0, 1.0, shape=2)), 1.0, observed=y)
    with pytest.raises(bk.BayeskitError, match="transform of 'intercept' may restrict"):
        bk.select(model, "w")


def test_indicators_of_coefficients_that_depend_on_each_other_are_refused() -> None:
    y, x = toy(2, 12)
    with pm.Model() as model:
        w = pm.MvNormal("w", np.zeros(2), [[1.0, 0.5], [0.5, 1.0]])
        pm.Normal("y", pm.math.dot(x, w * pm.Bernoulli("z", 0.5, shape=2)), 1.0, observed=y)
    with pytest.raises(bk.BayeskitError, match="'w' are not independent"):
        bk.select(model, "w")


def test_a_potential_on_the_coefficients_is_said_to_be_likelihood() -> None:
    y, x = toy(2, 12)
    with pm.Model() as model:
        w = pm.Normal("w", 0.0, 1.0, shape=2)
        pm.Potential("weighted", 0.5 * pm.math.sum(pm.logp(pm.Normal.dist(pm.math.dot(x, w), 1.0), y)))
    found = bk.select(model, "w", top=4)
    assert found.notes == ("the Potential weighted depends on w: it is taken for a part of the likelihood",)
    expected = []
    for s in subsets(2):
        v = 2 * np.eye(12) + x[:, s] @ x[:, s].T  # a weight of one half is twice the variance, but for a constant
        expected.append(stats.multivariate_normal(np.zeros(12), v).logpdf(y))
    values = every(found, [0, 1])
    assert np.allclose(values - values[0], np.array(expected) - expected[0], rtol=0, atol=1e-10)
    with pytest.raises(bk.BayeskitError, match="one Normal variable"):
        found.predict()


def test_a_selection_reads_well() -> None:
    text = str(of_attitude())
    for words in ("64 submodels of 64", "complaints, learning", "median probability model: complaints", "quadrature"):
        assert words in text


def test_the_bayes_factor_of_a_predictor_without_which_nothing_fits_is_finite() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3_000, 2))
    y = x @ [3.0, -2.0] + 0.01 * rng.normal(size=3_000)
    with pm.Model(coords={"p": ["one", "two"]}) as model:
        variance = pm.InverseGamma("variance", 2.0, 1.0)
        weights = pm.Normal("weights", 0.0, pm.math.sqrt(variance), dims="p")
        pm.Normal("y", x @ weights, pm.math.sqrt(variance), observed=y)
    table = bk.select(model, "weights", inclusion_prior="uniform").inclusion

    def log_evidence(columns: list[int]) -> float:
        own = x[:, columns]
        sign, log_determinant = np.linalg.slogdet(np.eye(len(columns)) + own.T @ own)
        inverse = y - own @ np.linalg.solve(np.eye(len(columns)) + own.T @ own, own.T @ y)
        shape, total = 2.0 + 1_500, 1.0 + y @ inverse / 2
        assert sign == 1
        return float(-0.5 * log_determinant - shape * np.log(total))

    each = {key: log_evidence(list(key)) for key in [(), (0,), (1,), (0, 1)]}
    for j, other in ((0, 1), (1, 0)):
        known = np.logaddexp(each[(j,)], each[(0, 1)]) - np.logaddexp(each[()], each[(other,)])
        assert known > 1_000
        assert table["log_bayes_factor"].iloc[j] == pytest.approx(known, rel=1e-9)
