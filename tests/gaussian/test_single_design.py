"""Data of a Gaussian block that one matrix stands for, short and tall, against N(m, S) in sixty digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import pymc as pm
import pytest
from mpmath import mp
from scipy import stats

import bayeskit as bk
from bayeskit.elimination.collapsed_density import Collapsed, collapsed_density
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.recovery import Recovery
from bayeskit.gaussian.observation_space import DataSide
from bayeskit.gaussian.observation_space_draws import DataSideConditional
from bayeskit.gaussian.single_design_draws import SingleDesignConditional
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.rewriting import inline
from bayeskit.model.forward_sampling import over_draws
from bayeskit.model.unconstrained import Unconstrained

N, D = 24, 13
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, D))
COPIES = np.concatenate([X[:, :-1], X[:, :1] + X[:, 1:2]], axis=1)  # of lower rank
GROUP = np.arange(N) % D
Y = 2.0 + X[:, 0] - 0.5 * X[:, 1] + 0.7 * RNG.normal(size=N)
ERRORS = np.exp(0.5 * RNG.normal(size=N))
SCALES = ((1e-8, 1e-8), (1e-8, 0.3), (1e-3, 1e-8), (0.5, 0.7), (1e-8, 1e3), (1e3, 1e-8))


def scales() -> tuple[Any, Any]:
    return pm.HalfNormal("s", 1.0), pm.HalfNormal("t", 1.0)


def centred(y: np.ndarray, design: np.ndarray = X) -> None:
    s, t = scales()
    pm.Normal("y", pm.Normal("a", 3.0, 50.0) + design @ pm.Normal("w", 0.5, t, shape=D), s, observed=y)


def non_centred(y: np.ndarray) -> None:
    s, t = scales()
    w = 0.5 + t * pm.Normal("z", 0.0, 1.0, shape=D)
    pm.Normal("y", pm.Normal("a", 3.0, 50.0) + X @ w, s, observed=y)


def groups(y: np.ndarray) -> None:
    s, t = scales()
    pm.Normal("y", pm.Normal("w", pm.Normal("a", 3.0, 50.0), t, shape=D)[GROUP], s, observed=y)


def known_errors(y: np.ndarray) -> None:
    s, t = scales()
    pm.Normal("y", pm.Normal("a", 3.0, 50.0) + X @ pm.Normal("w", 0.5, t, shape=D), s * ERRORS, observed=y)


def no_intercept(y: np.ndarray) -> None:
    s, t = scales()
    pm.Normal("y", 3.0 + X @ pm.Normal("w", 0.5, t, shape=D), s, observed=y)


def walk(y: np.ndarray) -> None:
    s, t = scales()
    moves = pm.math.concatenate([[0.0], t * pm.Normal("z", 0.0, 1.0, shape=len(y) - 1)])
    pm.Normal("y", pm.Normal("a", 3.0, 50.0) + pm.math.cumsum(moves), s, observed=y)


@dataclass(frozen=True)
class Case:
    """With the mean 3 + m and the covariance s² E² + t² XXᵀ + v 11ᵀ of the data."""

    build: Callable[[np.ndarray], None]
    design: np.ndarray
    mean: np.ndarray
    errors: np.ndarray
    y: np.ndarray
    vague: float = 2500.0  # the prior variance of an intercept, zero where there is none

    def __str__(self) -> str:
        return self.build.__name__

    def density(self, s: float, t: float) -> float:
        """log p(y | s, t)."""
        with mp.workdps(60):
            design, rows = mpmath.matrix(self.design.tolist()), len(self.y)
            sigma = design * design.T * mp.mpf(t) ** 2 + self.vague * mpmath.ones(rows, rows)
            sigma += mpmath.diag([(mp.mpf(s) * e) ** 2 for e in self.errors.tolist()])
            residual = mpmath.matrix((self.y - 3.0).tolist()) - mpmath.matrix(self.mean.tolist())
            factor, z = mp.cholesky(sigma).tolist(), []
            for row, left in zip(factor, residual, strict=True):  # what the factor makes of the residual, row by row
                z.append((left - mp.fdot(zip(row, z, strict=False))) / row[len(z)])
            logs, square = mp.fsum(mp.log(row[k]) for k, row in enumerate(factor)), mp.fsum(z, squared=True)
            return float(-logs - square / 2 - rows * mp.log(2 * mp.pi) / 2)


HALF, NOTHING, ONES = X.sum(axis=1) / 2, np.zeros(N), np.ones(N)
SHORT = np.arange(16)
CASES = [
    Case(centred, X, HALF, ONES, Y),
    Case(non_centred, X, HALF, ONES, Y),
    Case(groups, np.eye(D)[GROUP], NOTHING, ONES, Y),
    Case(known_errors, X, HALF, ERRORS, Y),
    Case(no_intercept, X, HALF, ONES, Y, 0.0),
    Case(walk, np.tri(16)[:, 1:], NOTHING[SHORT], ONES[SHORT], Y[SHORT]),
]


def collapsed_of(build: Callable[[np.ndarray], None], y: np.ndarray) -> Collapsed:
    with pm.Model() as model:
        build(y)
    return collapsed_density(analyse(model))


def likelihood_of(collapsed: Collapsed) -> Callable[..., float]:
    function = compile_small(collapsed.inputs, inline([collapsed.likelihood])[0])
    return lambda **point: float(function(*[np.asarray(point[n], dtype=float) for n in collapsed.remaining]))


def side_of(collapsed: Collapsed) -> DataSide | None:
    ((_, form),) = collapsed.blocks
    return form.side


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_density_keeps_its_digits_at_any_scales(case: Case) -> None:
    collapsed = collapsed_of(case.build, case.y)
    side = side_of(collapsed)
    assert side is not None
    assert side.diagonal
    # With one row for what the weights, and the intercept, leave.
    assert side.rows == (16 if case.build is walk else D + 1 if case.build is no_intercept else D + 2)
    density = likelihood_of(collapsed)
    for s, t in SCALES:
        assert density(s=s, t=t) == pytest.approx(case.density(s, t), rel=1e-10), (s, t)


def test_a_design_of_lower_rank() -> None:
    collapsed = collapsed_of(lambda y: centred(y, COPIES), Y)
    density, case = likelihood_of(collapsed), Case(centred, COPIES, COPIES.sum(axis=1) / 2, ONES, Y)
    assert side_of(collapsed) is not None
    for s, t in SCALES:
        assert density(s=s, t=t) == pytest.approx(case.density(s, t), rel=1e-10), (s, t)


ALL_SCALES, LAST_LARGE = 10.0 ** np.linspace(-8, 8, D), 10.0 ** np.repeat([0, 12], [D - 4, 4])


@pytest.mark.slow
@pytest.mark.parametrize(
    "design",
    [X * ALL_SCALES, X * LAST_LARGE, 10.0 ** np.linspace(-4, 4, N)[:, None] * X],
    ids=["all scales", "the last ones large", "rows of all scales"],
)
def test_columns_and_rows_of_different_scales(design: np.ndarray) -> None:
    """Small singular values have their digits beside large ones, wherever these stand."""

    def build(y: np.ndarray) -> None:
        s, t = scales()
        pm.Normal("y", pm.Normal("a", 3.0, 50.0) + design @ pm.Normal("w", 0.0, t, shape=D), s, observed=y)

    density, case = likelihood_of(collapsed_of(build, Y)), Case(build, design, NOTHING, ONES, Y)
    for s, t in SCALES:
        assert density(s=s, t=t) == pytest.approx(case.density(s, t), rel=1e-8), (s, t)


def test_a_scale_that_is_zero_where_nothing_else_is_left_of_the_data() -> None:
    def build(y: np.ndarray) -> None:
        s, t = pm.HalfNormal("s", 1.0), pm.Normal("t", 0.0, 1.0)
        w = pm.Normal("w", 0.5, 1.0, shape=D)
        pm.Normal("y", pm.Normal("a", 0.0, 10.0) + t * (X @ w), s, observed=y)

    density = likelihood_of(collapsed_of(build, np.zeros(N)))
    for t in (0.0, -0.7):
        covariance = 0.25 * np.eye(N) + 100.0 + t**2 * X @ X.T
        expected = stats.multivariate_normal(t * X.sum(axis=1) / 2, covariance).logpdf(np.zeros(N))
        assert density(s=0.5, t=t) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("prior_sd", [1e6, 1e10])
def test_an_intercept_of_a_vague_prior(prior_sd: float) -> None:
    """Means given the scales have their digits, by which the evidence is proved."""
    with pm.Model() as model:
        level, scale = pm.Normal("a", 3.0, prior_sd), pm.HalfNormal("t", 1.0)
        pm.Normal("y", level + X @ pm.Normal("w", 0.5, scale, shape=D), 0.7, observed=Y)
    post = bk.infer(model, method="quadrature", draws=40, random_seed=1)
    assert post.log_evidence.error < 1e-9

    def density(t: float) -> float:
        """By the density of the rest, and how the intercept, of variance v, adds to its covariance."""
        sigma, residual, v = 0.49 * np.eye(N) + t**2 * X @ X.T, Y - 3.0 - HALF, prior_sd**2
        along, across = np.linalg.solve(sigma, ONES), 1.0 / v + ONES @ np.linalg.solve(sigma, ONES)
        rest = stats.multivariate_normal(np.zeros(N), sigma).logpdf(residual)
        return float(rest - np.log(v * across) / 2 + (along @ residual) ** 2 / (2 * across))

    # By the trapezoid rule in log t; below its end t has next to no mass, nor a bearing on the density.
    t = np.exp(np.arange(-8.0, 1.7, 0.1))
    values = [density(each) for each in t] + stats.halfnorm.logpdf(t) + np.log(t)
    below = density(t[0]) + np.log(stats.halfnorm.cdf(t[0] * np.exp(-0.05)))
    expected = np.logaddexp(np.logaddexp.reduce(values) + np.log(0.1), below)
    assert post.log_evidence.value == pytest.approx(expected, abs=1e-5)


def test_data_that_the_design_explains() -> None:
    """Nothing is left of the residual but rounding; with little noise that is all there is to tell its sd."""
    y = 2.0 + X @ np.linspace(-1.0, 1.0, D)
    density, case = likelihood_of(collapsed_of(centred, y)), Case(centred, X, HALF, ONES, y)
    for s, t in ((1e-5, 0.7), (0.5, 0.7)):
        assert density(s=s, t=t) == pytest.approx(case.density(s, t), rel=1e-9), (s, t)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[:5], ids=str)
def test_the_gradient_and_the_way_back(case: Case) -> None:
    """log p(y, φ) + log p(θ | φ, y) = log p(y, θ, φ), and the gradient against differences."""
    collapsed = collapsed_of(case.build, case.y)
    recovery, joint = Recovery(collapsed), collapsed.analysis.joint
    density = likelihood_of(collapsed)
    names = [n for n in joint.names if n not in ("s", "t")]
    for k, (s, t) in enumerate(SCALES[2:4]):
        at = {"s": np.array([s]), "t": np.array([t])}
        full = {n: v[0] for n, v in recovery.draw(at, np.random.default_rng(k)).items()}
        prior = stats.halfnorm.logpdf([s, t]).sum()
        parts = density(s=s, t=t) + recovery.log_density(full) + prior
        assert parts == pytest.approx(joint.logp(full), rel=1e-9)
        assert set(full) == {"s", "t", *names}
    with pm.Model() as model:
        case.build(case.y)
    space = Unconstrained(bk.collapse(model))
    point = space.start + 0.3
    value, gradient = space.value_and_gradient(point)
    assert value == pytest.approx(space.log_density(point)[0], rel=1e-12)
    step = 1e-5
    sides = space.log_density(np.concatenate([point + step * np.eye(2), point - step * np.eye(2)]))
    assert gradient == pytest.approx((sides[:2] - sides[2:]) / (2 * step), rel=1e-6, abs=1e-6)


def test_draws_of_tall_data_have_the_moments_of_the_textbook() -> None:
    collapsed = collapsed_of(centred, Y)
    s, t, number = 0.6, 0.4, 20_000
    design = np.column_stack([np.ones(N), X])
    prior = np.diag([2500.0, *[t**2] * D])
    after = np.linalg.inv(np.linalg.inv(prior) + design.T @ design / s**2)
    start = np.array([3.0, *[0.5] * D])
    mean = start + after @ design.T @ (Y - design @ start) / s**2
    drawn = Recovery(collapsed).draw({"s": np.full(number, s), "t": np.full(number, t)}, np.random.default_rng(1))
    found = np.column_stack([drawn["a"], drawn["w"]])
    sd = np.sqrt(np.diag(after))
    assert np.abs((found.mean(axis=0) - mean) / sd).max() < 4.5 / np.sqrt(number)
    assert np.abs((np.cov(found.T) - after) / np.outer(sd, sd)).max() < 6 / np.sqrt(number)
    frozen = Recovery(collapsed).marginals({"s": np.array([s]), "t": np.array([t])})
    assert frozen["w"].mean()[0] == pytest.approx(mean[1:], rel=1e-9)
    assert frozen["w"].std()[0] == pytest.approx(sd[1:], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_moments_are_those_by_a_factorisation_of_all(case: Case) -> None:
    collapsed = collapsed_of(case.build, case.y)
    side, joint = side_of(collapsed), collapsed.analysis.joint
    assert side is not None
    s, t = np.array(SCALES[2:4]).T
    moments = []
    for conditional in (SingleDesignConditional(side), DataSideConditional(side)):
        at = over_draws(inline(conditional.graphs), joint.values, unknown=collapsed.analysis.shapes)
        moments.append(conditional.moments(at({"s": s, "t": t}, 2)))
    for one, two in zip(*moments, strict=True):  # beside a vague intercept the second has lost digits
        np.testing.assert_allclose(one, two, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("s", "t"), SCALES)
def test_moments_have_all_digits_at_any_scales(s: float, t: float) -> None:
    collapsed = collapsed_of(non_centred, Y)
    ((block, _),) = collapsed.blocks
    recovery = Recovery(collapsed)
    found = recovery.conditionals[block].moments(recovery._at(block, {"s": np.array([s]), "t": np.array([t])}))
    mean, sd = ({n: np.ravel(v[0]) for n, v in block.theta.split(m).items()} for m in found)
    with mp.workdps(60):
        design = mpmath.matrix(np.column_stack([X, np.ones(N)]).tolist()) * mpmath.diag([*[mp.mpf(t)] * D, 1])
        precision = design.T * design / mp.mpf(s) ** 2 + mpmath.diag([*[1] * D, mp.mpf(1) / 2500])
        residual = mpmath.matrix((Y - 3.0).tolist()) - mpmath.matrix(X.tolist()) * mpmath.matrix([0.5] * D)
        expected = mp.lu_solve(precision, design.T * residual / mp.mpf(s) ** 2)
        covariance = precision**-1
        sds = [float(mp.sqrt(covariance[k, k])) for k in range(D + 1)]
        means = [float(expected[k]) for k in range(D)] + [float(expected[D] + 3)]
    np.testing.assert_allclose([*mean["z"], *mean["a"]], means, rtol=1e-9)
    np.testing.assert_allclose([*sd["z"], *sd["a"]], sds, rtol=1e-9)


def two_noises(y: np.ndarray) -> None:
    s, t = scales()
    noise = pm.math.stack([s, 2.0 * t])[np.arange(N) % 2]
    pm.Normal("y", pm.Normal("a", 3.0, 50.0) + X @ pm.Normal("w", 0.5, t, shape=D), noise, observed=y)


def a_column_twice(y: np.ndarray) -> None:
    s, t = scales()
    w = pm.Normal("w", 0.0, 1.0, shape=D)
    pm.Normal("y", pm.Normal("a", 3.0, 50.0) + X @ w + t * (np.abs(X) @ w), s, observed=y)


def mean_that_moves(y: np.ndarray) -> None:
    s, t = scales()
    pm.Normal("y", t * HALF + pm.Normal("a", 3.0, 50.0) + X @ pm.Normal("w", 0.0, t, shape=D), s, observed=y)


@pytest.mark.parametrize("build", [two_noises, a_column_twice, mean_that_moves])
def test_what_one_matrix_does_not_stand_for_is_not_made_short(build: Callable[[np.ndarray], None]) -> None:
    assert side_of(collapsed_of(build, Y)) is None
