"""Gaussian blocks with more variables than data: the N × N side, against N(m, S) written out densely."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from scipy import special, stats

import bayeskit as bk
from bayeskit.elimination.check_points import typical_points
from bayeskit.elimination.collapsed_density import Collapsed, collapsed_density
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.recovery import Recovery
from bayeskit.gaussian.observation_space import DataSide
from bayeskit.gaussian.observation_space_draws import DataSideConditional
from bayeskit.gaussian.single_design_draws import SingleDesignConditional
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import lightly
from bayeskit.graphs.rewriting import inline
from bayeskit.model.forward_sampling import over_draws
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.unconstrained import Unconstrained

N, D = 20, 70
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, D))
Y = X[:, :4] @ np.array([2.0, -1.0, 1.0, 0.5]) + 0.5 * RNG.normal(size=N)
GROUP = np.arange(D) % 3
HALF = np.arange(N) // (N // 2)
ERRORS = np.exp(RNG.normal(size=N))
Point = dict[str, Any]
Moments = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model, and the mean and covariance of its data given what remains."""

    name: str
    build: Callable[[], pm.Model]
    moments: Callable[[Point], Moments]
    diagonal: bool = False
    y: np.ndarray = field(default_factory=lambda: Y)

    def __str__(self) -> str:
        return self.name


def ridge(size: int = D, rows: int = N) -> pm.Model:
    with pm.Model() as model:
        s, t = pm.HalfNormal("s", 1.0), pm.HalfNormal("t", 1.0)
        pm.Normal("y", X[:rows, :size] @ pm.Normal("w", 0.0, t, shape=size), s, observed=Y[:rows])
    return model


def intercept() -> pm.Model:
    with pm.Model() as model:
        s, t = pm.HalfNormal("s", 1.0), pm.HalfNormal("t", 1.0)
        w = pm.Normal("w", 0.5, t, shape=D)
        pm.Normal("y", pm.Normal("a", 3.0, 50.0) + X @ w, s, observed=Y)
    return model


def relevance() -> pm.Model:
    with pm.Model() as model:
        s, t = pm.HalfNormal("s", 1.0), pm.HalfCauchy("t", 1.0, shape=D)
        pm.Normal("y", pt.dot(X, pm.Normal("w", 0.0, t, shape=D)), s, observed=Y)
    return model


def grouped() -> pm.Model:
    with pm.Model() as model:
        s, t = pm.HalfNormal("s", 1.0, shape=2), pm.Gamma("t", 2.0, 1.0, shape=3)
        w = pm.Normal("w", 0.0, tau=t[GROUP], shape=D)
        pm.Normal("y", X @ w, s[HALF], observed=Y)
    return model


def two_terms() -> pm.Model:
    with pm.Model() as model:
        s, r, t = pm.HalfNormal("s", 1.0), pm.HalfNormal("r", 1.0), pm.HalfNormal("t", 1.0)
        w = pm.Normal("w", 0.0, t, shape=D)
        pm.Normal("y", X[HALF == 0] @ w, s, observed=Y[HALF == 0])
        pm.Normal("z", 2.0 * (X[HALF == 1] @ w), r, observed=2.0 * Y[HALF == 1])
    return model


def non_centred() -> pm.Model:
    with pm.Model() as model:
        s, t = pm.HalfNormal("s", 1.0), pm.HalfNormal("t", 1.0)
        z = pm.Normal("z", 0.0, 1.0, shape=D)
        pm.Deterministic("w", t * z)
        pm.Normal("y", pm.Normal("a", 3.0, 50.0) + X @ (t * z), s, observed=Y)
    return model


def hierarchy() -> pm.Model:
    with pm.Model() as model:
        s, t = pm.HalfNormal("s", 1.0), pm.HalfNormal("t", 1.0)
        w = pm.Normal("w", pm.Normal("mu", 1.0, 2.0), t, shape=D)
        pm.Normal("y", X @ w, s, observed=Y)
    return model


def moving_mean() -> pm.Model:
    with pm.Model() as model:
        s, t, m = pm.HalfNormal("s", 1.0), pm.HalfNormal("t", 1.0), pm.HalfNormal("m", 1.0)
        pm.Normal("y", X @ pm.Normal("w", m, t, shape=D), s, observed=Y)
    return model


def two_factors() -> pm.Model:
    """Each coefficient counts twice, with a factor of its own each time."""
    with pm.Model() as model:
        s, t = pm.HalfNormal("s", 1.0), pm.HalfNormal("t", 1.0)
        w = pm.Normal("w", 0.0, 1.0, shape=D)
        pm.Normal("y", X @ w + t * (np.abs(X) @ w), s, observed=Y)
    return model


def known_errors() -> pm.Model:
    """Standard errors that are known up to a common factor, as in a meta-analysis."""
    with pm.Model() as model:
        s, t = pm.HalfNormal("s", 1.0), pm.HalfNormal("t", 1.0)
        w = pm.Normal("w", pm.Normal("mu", 1.0, 2.0), t, shape=D)
        pm.Normal("y", X @ w, s * ERRORS, observed=Y)
    return model


def covariance(point: Point, prior: Any, design: np.ndarray = X) -> np.ndarray:
    noise = np.broadcast_to(point["s"], N) if np.ndim(point["s"]) == 0 else point["s"][HALF]
    return np.asarray(np.diag(noise**2) + (design * prior) @ design.T)


ZERO, ONE = np.zeros(N), np.ones((N, N))
CASES = [
    Case("ridge", ridge, lambda p: (ZERO, covariance(p, p["t"] ** 2)), True),
    Case("intercept", intercept, lambda p: (3.0 + X.sum(axis=1) / 2, covariance(p, p["t"] ** 2) + 2500 * ONE), True),
    Case("relevance", relevance, lambda p: (ZERO, covariance(p, p["t"] ** 2))),
    Case("grouped", grouped, lambda p: (ZERO, covariance(p, 1 / p["t"][GROUP]))),
    Case(
        "two terms",
        two_terms,
        lambda p: (
            ZERO,
            np.diag(np.where(HALF == 0, p["s"], p["r"])) ** 2
            + p["t"] ** 2 * (X @ X.T) * np.outer(1.0 + HALF, 1.0 + HALF),
        ),
        y=Y * (1.0 + HALF),
    ),
    Case("non-centred", non_centred, lambda p: (ZERO + 3.0, covariance(p, p["t"] ** 2) + 2500 * ONE), True),
    Case(
        "hierarchy",
        hierarchy,
        lambda p: (X.sum(axis=1), covariance(p, p["t"] ** 2) + 4 * np.outer(X.sum(axis=1), X.sum(axis=1))),
        True,
    ),
    Case("moving mean", moving_mean, lambda p: (p["m"] * X.sum(axis=1), covariance(p, p["t"] ** 2)), True),
    Case(
        "known errors",
        known_errors,
        lambda p: (
            X.sum(axis=1),
            np.diag((p["s"] * ERRORS) ** 2) + p["t"] ** 2 * X @ X.T + 4 * np.outer(X.sum(axis=1), X.sum(axis=1)),
        ),
        True,
    ),
    Case("two factors", two_factors, lambda p: (ZERO, covariance(p, 1.0, X + p["t"] * np.abs(X)))),
]
SCALES = (1e-8, 1e-3, 0.3, 1e3)


@cache
def collapsed_of(name: str) -> Collapsed:
    with lightly():
        return collapsed_density(analyse(next(c for c in CASES if c.name == name).build()))


def side_of(collapsed: Collapsed) -> DataSide:
    (form,) = [f for _, f in collapsed.blocks]
    assert form.side is not None
    return form.side


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@cache
def likelihood_of(name: str) -> Callable[[Point], float]:
    collapsed = collapsed_of(name)
    function = compile_small(collapsed.inputs, inline([collapsed.likelihood])[0])
    return lambda point: float(function(*[np.asarray(point[n], dtype=float) for n in collapsed.remaining]))


def points_of(collapsed: Collapsed) -> list[Point]:
    """Random points, then all pairs of extreme scales."""
    points = typical_points(collapsed.analysis, 3, random_seed=5)
    shapes = {n: collapsed.analysis.shapes[n] for n in collapsed.remaining}
    for s in SCALES:
        for t in SCALES:
            spread = np.exp(np.random.default_rng(1).normal(size=D))
            points.append({n: (t if n == "t" else s) * np.resize(spread, shape) for n, shape in shapes.items()})
    return points


def relative_error_of_dense(sigma: np.ndarray) -> float:
    """What the dense formula itself loses: it forms the covariance, whose condition squares that of the design."""
    scale = np.sqrt(np.diag(sigma))
    return float(np.linalg.cond(sigma / np.outer(scale, scale)) * 1e-15)


@pytest.mark.slow
def test_density_is_the_dense_one(case: Case) -> None:
    collapsed = collapsed_of(case.name)
    assert side_of(collapsed).diagonal is case.diagonal
    checked = 0
    for point in points_of(collapsed):
        mean, sigma = case.moments(point)
        loss = relative_error_of_dense(sigma)
        if loss > 1e-7:
            continue
        expected = stats.multivariate_normal(mean, sigma, allow_singular=False).logpdf(case.y)
        assert likelihood_of(case.name)(point) == pytest.approx(expected, rel=max(1e-9, loss), abs=1e-9)
        checked += 1
    assert checked >= 12


@pytest.mark.parametrize("name", ["ridge", "intercept", "non-centred"])
def test_extreme_scales_against_sixty_digits(name: str) -> None:
    """Where the covariance has condition 1e20 and more, the density keeps its digits; a dense formula has none."""
    with mpmath.workdps(60):
        design = mpmath.matrix(X.tolist())
        gram, one = design * design.T, mpmath.ones(N, 1)
        for s, t in ((1e-8, 1e-8), (1e-8, 0.3), (1e-3, 1e-8), (1e-8, 1e3), (1e3, 1e-8)):
            sigma = mpmath.eye(N) * mpmath.mpf(s) ** 2 + gram * mpmath.mpf(t) ** 2
            residual = mpmath.matrix(Y.tolist())
            if name != "ridge":
                sigma += 2500 * one * one.T
                residual -= 3 * one
            if name == "intercept":
                residual -= design * mpmath.ones(D, 1) / 2
            factor = mpmath.cholesky(sigma)
            square = (residual.T * mpmath.lu_solve(sigma, residual))[0]
            logs = mpmath.fsum(mpmath.log(factor[k, k]) for k in range(N))
            expected = float(-logs - square / 2 - N * mpmath.log(2 * mpmath.pi) / 2)
            point = {"s": np.array(s), "t": np.array(t)}
            assert likelihood_of(name)(point) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_gradient_against_differences(case: Case) -> None:
    space = Unconstrained(bk.collapse(case.build()))
    for seed in (1, 2):
        point = space.start + 0.5 * np.random.default_rng(seed).normal(size=space.size)
        value, gradient = space.value_and_gradient(point)
        assert value == pytest.approx(space.log_density(point)[0], rel=1e-12)
        step = 1e-4
        sides = np.concatenate([point + k * step * np.eye(space.size) for k in (-2, -1, 1, 2)])
        f = space.log_density(sides).reshape(4, -1)
        differences = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)
        assert gradient == pytest.approx(differences, rel=1e-6, abs=1e-6 * max(1.0, np.abs(gradient).max()))


@pytest.mark.slow
def test_collapsed_plus_conditional_is_the_joint(case: Case) -> None:
    """log p(y, φ) + log p(θ | φ, y) = log p(y, θ, φ), with PyMC's own density on the right, at draws and elsewhere."""
    collapsed = collapsed_of(case.name)
    recovery = Recovery(collapsed)
    joint = LogJoint.from_model(collapsed.analysis.joint.model)
    prior = compile_small(
        collapsed.inputs, inline([pt.add(*[pt.sum(collapsed.analysis.joint.factors[n]) for n in collapsed.priors])])[0]
    )
    for k, point in enumerate(typical_points(collapsed.analysis, 4, random_seed=17)):
        if k == 3:
            point |= {"s": point["s"] * 1e-5}
        remaining = {n: point[n] for n in collapsed.remaining}
        drawn = recovery.draw({n: v[None] for n, v in remaining.items()}, np.random.default_rng(k))
        for full in ({n: v[0] for n, v in drawn.items()}, point):
            parts = likelihood_of(case.name)(remaining) + recovery.log_density(full)
            parts += float(prior(*remaining.values()))
            assert parts == pytest.approx(joint.logp(full), rel=1e-9, abs=1e-7 if k == 3 else 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ridge", "hierarchy", "relevance", "moving mean"])
def test_moments_and_draws_are_those_of_the_textbook(name: str) -> None:
    collapsed = collapsed_of(name)
    side = side_of(collapsed)
    point = typical_points(collapsed.analysis, 1, random_seed=9)[0]
    remaining = {n: point[n] for n in collapsed.remaining}
    variance = np.broadcast_to(remaining["t"] ** 2, D)
    start = {"hierarchy": 1.0, "moving mean": float(remaining.get("m", 0.0))}.get(name, 0.0)
    prior = np.diag(variance) + (4.0 if name == "hierarchy" else 0.0)
    gain = prior @ X.T @ np.linalg.inv(X @ prior @ X.T + remaining["s"] ** 2 * np.eye(N))
    mean, after = start + gain @ (Y - start * X.sum(axis=1)), prior - gain @ X @ prior
    recovery = Recovery(collapsed)
    frozen = recovery.marginals({n: v[None] for n, v in remaining.items()})["w"]
    assert frozen.mean()[0] == pytest.approx(mean, rel=1e-9, abs=1e-9)
    assert frozen.std()[0] == pytest.approx(np.sqrt(np.diag(after)), rel=1e-9)
    number = 20_000
    repeated = {n: np.broadcast_to(v, (number, *v.shape)) for n, v in remaining.items()}
    draws = recovery.draw(repeated, np.random.default_rng(1))["w"]
    assert draws.mean(axis=0) == pytest.approx(mean, abs=5 * np.sqrt(np.diag(after).max() / number))
    scale = np.sqrt(np.outer(np.diag(after), np.diag(after)))
    assert np.abs(np.cov(draws.T) - after).max() < 6 * scale.max() / np.sqrt(number)
    assert side.size == D + (name == "hierarchy")


def test_a_vague_intercept_keeps_its_posterior_sd() -> None:
    """Its prior variance is 10¹⁶ times its posterior variance: one minus the share explained would be rounding."""
    with pm.Model() as model:
        s, t = pm.HalfNormal("s", 1.0), pm.HalfNormal("t", 1.0)
        a, w = pm.Normal("a", 0.0, 1e7), pm.Normal("w", 0.0, t, shape=D)
        pm.Normal("y", a + X @ w, s, observed=Y + 1e5)
    recovery = Recovery(collapsed_density(analyse(model)))
    frozen = recovery.marginals({"s": np.array([0.5]), "t": np.array([0.1])})["a"]
    sigma = 0.25 * np.eye(N) + 0.01 * X @ X.T
    precision = np.sum(np.linalg.inv(sigma)) + 1e-14
    assert frozen.std()[0] == pytest.approx(precision**-0.5, rel=1e-7)
    mean = np.sum(np.linalg.solve(sigma, Y + 1e5)) / precision
    assert frozen.mean()[0] == pytest.approx(mean, abs=1e-4 * precision**-0.5)


def test_posterior_sds_by_both_formulas() -> None:
    collapsed = collapsed_of("hierarchy")
    side = side_of(collapsed)
    conditional = DataSideConditional(side)
    at = {"s": np.array([1e-4, 0.5]), "t": np.array([0.3, 2.0])}
    arrays = over_draws(inline(conditional.graphs), collapsed.analysis.joint.values, unknown=collapsed.analysis.shapes)(
        at, 2
    )
    _, sd = conditional.moments(arrays)
    given = conditional.whitened(arrays)
    matrix = np.stack([given.basis.lifted(u) for u in given.matrix])
    root = np.concatenate([matrix, np.broadcast_to(np.eye(side.size), (2, side.size, side.size))], axis=1)
    covariance = np.linalg.inv(np.swapaxes(root, 1, 2) @ root)
    back = side.inverse.toarray() * given.spread[:, None, :]
    assert sd**2 == pytest.approx(np.diagonal(back @ covariance @ np.swapaxes(back, 1, 2), axis1=1, axis2=2), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1e-9, 1e-5, 0.3])
def test_posterior_sds_where_next_to_nothing_is_left_of_a_variance(noise: float) -> None:
    """Against sixty digits: a variable that one row knows alone, an intercept of a vague prior, and all others."""
    design = np.random.default_rng(3).normal(size=(6, 30))
    design[:, 4], design[2] = 0.0, 0.0
    design[2, 4] = 1.3
    with pm.Model() as model:
        t, a = pm.HalfNormal("t"), pm.Normal("a", 0.0, 1e7)
        b = pm.Normal("b", 0.0, t, shape=30)
        pm.Normal("y", a + design @ b, noise, observed=np.arange(6.0))
    with lightly():
        collapsed = collapsed_density(analyse(model))
    side, joint = side_of(collapsed), collapsed.analysis.joint
    assert len(DataSideConditional(side).basis.inside) == 1
    sds = []
    for conditional in (DataSideConditional(side), SingleDesignConditional(side)):
        at = over_draws(inline(conditional.graphs), joint.values, unknown=collapsed.analysis.shapes)
        sds.append(conditional.moments(at({"t": np.array([0.7])}, 1))[1][0])
    with mpmath.workdps(60):
        columns = mpmath.matrix(np.column_stack([np.ones(6), design]).tolist())
        precision = columns.T * columns / mpmath.mpf(noise) ** 2
        for k in range(31):
            precision[k, k] += mpmath.mpf(1e7 if k == 0 else 0.7) ** -2
        covariance = precision**-1
        expected = [float(mpmath.sqrt(covariance[k, k])) for k in range(31)]
    for sd in sds:
        np.testing.assert_allclose(sd, expected, rtol=1e-5)


def by_singular_values(rows: int, size: int, scale: Callable[[np.ndarray], np.ndarray]) -> float:
    """log p(y) of the regression by the trapezoid rule, in log s alone (t = 1) or in log s and log t."""
    values, vectors = np.linalg.eigh(X[:rows, :size] @ X[:rows, :size].T)
    square = (vectors.T @ Y[:rows]) ** 2
    step = 0.06
    s, t = np.exp(np.arange(-30, 3, step)), scale(np.arange(-30, 3, step))
    variance = s[:, None, None] ** 2 + t[None, :, None] ** 2 * values
    density = -0.5 * np.sum(np.log(2 * np.pi * variance) + square / variance, axis=-1)
    density += (stats.halfnorm.logpdf(s) + np.log(s * step))[:, None]
    if len(t) > 1:
        density += stats.halfnorm.logpdf(t) + np.log(t * step)
    return float(special.logsumexp(density))


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "size"), [(20, 70), (12, 30), (20, 21)])
def test_quadrature_over_the_noise_alone(rows: int, size: int) -> None:
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1.0)
        pm.Normal("y", X[:rows, :size] @ pm.Normal("w", 0.0, 1.0, shape=size), s, observed=Y[:rows])
    post = bk.infer(model, method="quadrature", draws=100, random_seed=1)
    expected = by_singular_values(rows, size, lambda t: np.ones(1))
    assert abs(post.log_evidence.value - expected) <= post.log_evidence.error + 1e-9
    assert post.certificate < 1e-9
    assert post.marginal("w").mean().shape == (size,)


@pytest.mark.slow
def test_quadrature_over_noise_and_prior_scale() -> None:
    post = bk.infer(ridge(), method="quadrature", draws=100, random_seed=1)
    assert abs(post.log_evidence.value - by_singular_values(N, D, np.exp)) <= post.log_evidence.error + 1e-8
    assert post.certificate < 1e-9


def test_many_coefficients_cost_no_more_than_the_rows() -> None:
    """No constant of the collapsed density has as many entries as the design."""
    design = np.random.default_rng(0).normal(size=(N, 3_000))
    with pm.Model() as model:
        s, t = pm.HalfNormal("s", 1.0), pm.HalfNormal("t", 1.0)
        w = pm.Normal("w", 0.0, t, shape=3_000)
        pm.Normal("y", pm.Normal("a") + design @ w, s, observed=Y)
    graph = inline([collapsed_density(analyse(model)).likelihood])
    assert max(np.size(v.data) for v in graph_inputs(graph) if isinstance(v, Constant)) <= 2 * N**2


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_a_variance_integrated_out_afterwards(shared: bool) -> None:
    """Given t the data are multivariate t: the score of v is a derivative of the block's integral."""
    classes = np.zeros(D, dtype=int) if shared else GROUP
    with pm.Model() as model:
        v, t = pm.InverseGamma("v", 3.0, 2.0), pm.HalfNormal("t", 1.0, shape=int(classes.max()) + 1)
        w = pm.Normal("w", 0.0, t[classes] * pt.sqrt(v), shape=D)
        pm.Normal("y", X @ w, pt.sqrt(v), observed=Y)
    space = Unconstrained(bk.collapse(model))
    for point in (np.zeros(space.size), np.linspace(-1.0, 0.5, space.size)):

        def expected(x: np.ndarray) -> float:
            t = np.exp(x)
            scale = 2 / 3 * (np.eye(N) + (X * t[classes] ** 2) @ X.T)
            likelihood = stats.multivariate_t(np.zeros(N), scale, df=6).logpdf(Y)
            return float(likelihood + stats.halfnorm.logpdf(t).sum() + x.sum())

        value, gradient = space.value_and_gradient(point)
        assert value == pytest.approx(expected(point), rel=1e-11)
        differences = [(expected(point + 1e-5 * d) - expected(point - 1e-5 * d)) / 2e-5 for d in np.eye(space.size)]
        assert gradient == pytest.approx(differences, rel=1e-6)


def test_replicated_rows() -> None:
    """A design of half rank: as the noise vanishes, what replicates differ by has nothing else to explain it."""
    design = np.repeat(X[:10], 2, axis=0)
    with pm.Model() as model:
        s, t = pm.HalfNormal("s", 1.0), pm.HalfNormal("t", 1.0, shape=3)
        pm.Normal("y", design @ pm.Normal("w", 0.0, t[GROUP], shape=D), s, observed=Y)
    space = Unconstrained(bk.collapse(model))
    for log_s in (1.0, -3.0, -10.0, -18.0):
        s = np.exp(log_s)
        x = np.array([log_s, 0.0, 0.0, 0.0])
        sums = stats.multivariate_normal(np.zeros(10), s**2 * np.eye(10) + 2 * X[:10] @ X[:10].T)
        differ, agree = (Y[1::2] - Y[::2]) / np.sqrt(2), (Y[1::2] + Y[::2]) / np.sqrt(2)
        expected = stats.norm(0.0, s).logpdf(differ).sum() + sums.logpdf(agree)
        expected += stats.halfnorm.logpdf(np.exp(x)).sum() + log_s
        assert space.log_density(x)[0] == pytest.approx(expected, rel=1e-9)


def _more_rows() -> pm.Model:
    """Than weights, with two noises."""
    with pm.Model() as model:
        s, t = pm.HalfNormal("s", 1.0, shape=2), pm.HalfNormal("t", 1.0)
        pm.Normal("y", X[:, :19] @ pm.Normal("w", 0.0, t, shape=19), s[HALF], observed=Y)
    return model


def _plate() -> pm.Model:
    with pm.Model() as model:
        t, s = pm.HalfNormal("t", 1.0), pm.HalfNormal("s", 1.0)
        pm.Normal("y", pm.Normal("w", pm.Normal("mu"), t, shape=100)[::2], s, observed=np.resize(Y, 50))
    return model


def _walk() -> pm.Model:
    with pm.Model() as model:
        t, s = pm.HalfNormal("t", 1.0), pm.HalfNormal("s", 1.0)
        walk = pm.GaussianRandomWalk("w", sigma=t, init_dist=pm.Normal.dist(0, 1), steps=99)
        pm.Normal("y", walk[::3], s, observed=np.resize(Y, 34))
    return model


def _mixed_prior() -> pm.Model:
    """The prior mean is another variable of the block times what remains: its root is not a scale times a constant."""
    with pm.Model() as model:
        m, s = pm.HalfNormal("m", 1.0), pm.HalfNormal("s", 1.0)
        w = pm.Normal("w", m * pm.Normal("mu"), 1.0, shape=30)
        pm.Normal("y", X[:, :30] @ w, s, observed=Y)
    return model


def _rising_potential() -> pm.Model:
    model = ridge(size=30)
    with model:
        pm.Potential("p", 0.1 * pt.sum(model["w"][:3] ** 2))
    return model


def _mixing_design() -> pm.Model:
    with pm.Model() as model:
        length, s = pm.HalfNormal("length", 1.0), pm.HalfNormal("s", 1.0)
        root = pt.exp(-(np.subtract.outer(np.arange(20.0), np.arange(30.0)) ** 2) / length)
        pm.Normal("y", root @ pm.Normal("z", shape=30), s, observed=Y)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("build", [_more_rows, _plate, _walk, _mixed_prior, _rising_potential, _mixing_design])
def test_near_misses_are_solved_as_before(build: Callable[[], pm.Model]) -> None:
    collapsed = collapsed_density(analyse(build()))
    assert [form.side for _, form in collapsed.blocks] == [None]
