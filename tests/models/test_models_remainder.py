"""Models of the catalogue whose posterior is not exact throughout: graphs against SciPy and scikit-learn, options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import bayeskit as bk
from bayeskit.catalogue.kernels import Kernel, KernelProduct, KernelSum, build_kernel, parse_kernel
from bayeskit.datasets import example_data
from bayeskit.errors import OptionError
from bayeskit.graphs.compile import compile_small
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.models import load_model

RNG = np.random.default_rng(11)


def example_model(name: str, **options: Any) -> pm.Model:
    module = load_model(name)
    return module.build(example_data(module.EXAMPLE, module.VARIABLES), **{**module.EXAMPLE.options, **options})


def data(**variables: Any) -> xr.Dataset:
    dims = {"x": ("row", "feature"), "y": ("row", "column")}
    arrays = {n: np.asarray(v, dtype=float) for n, v in variables.items()}
    return xr.Dataset({n: (dims.get(n, ("row",))[: a.ndim], a) for n, a in arrays.items()})


# --- kernel strings ---------------------------------------------------------------------------------------------------


def test_kernel_strings_have_the_usual_precedence() -> None:
    tree = parse_kernel("periodic(period=1.5) * expquad + linear * (matern32 + constant)")
    assert tree == KernelSum(
        (
            KernelProduct((Kernel("periodic", (("period", 1.5),)), Kernel("expquad"))),
            KernelProduct((Kernel("linear"), KernelSum((Kernel("matern32"), Kernel("constant"))))),
        )
    )


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("expquad +", 10),
        ("expquad expquad", 9),
        ("rbf", 1),
        ("(expquad", 9),
        ("expquad(width=2)", 9),
        ("expquad(lengthscale=x)", 21),
        ("expquad(lengthscale=-1)", 21),
        ("expquad & linear", 9),
        ("periodic(period=1, period=2)", 20),
    ],
)
def test_a_kernel_that_does_not_parse_points_at_the_place(text: str, column: int) -> None:
    with pytest.raises(OptionError, match=f"at column {column}:") as error:
        parse_kernel(text)
    assert str(error.value).endswith(f"{text[: column - 1]}>>>{text[column - 1 :]}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("expquad(lengthscale=0.7)", sk.RBF(0.7)),
        ("matern12(lengthscale=0.7)", sk.Matern(0.7, nu=0.5)),
        ("matern32(lengthscale=0.7)", sk.Matern(0.7, nu=1.5)),
        ("matern52(lengthscale=0.7)", sk.Matern(0.7, nu=2.5)),
        ("ratquad(lengthscale=0.7, mixture=1.3)", sk.RationalQuadratic(0.7, 1.3)),
        ("linear(centre=0)", sk.DotProduct(1e-9)),
        ("polynomial(centre=0, offset=2, degree=2)", sk.DotProduct(2**0.5) ** 2),
        ("expquad(lengthscale=0.7) * linear(centre=0)", sk.RBF(0.7) * sk.DotProduct(1e-9)),
    ],
)
def test_kernels_are_those_of_scikit_learn(text: str, expected: Any) -> None:
    x = RNG.normal(size=(6, 1))
    with pm.Model() as model:
        graph = build_kernel(parse_kernel(text), 1)(x)
    matrix = compile_small([model["amplitude"]], graph)(1.0)
    assert matrix == pytest.approx(expected(x), rel=1e-6, abs=1e-8)


def test_periodic_kernel() -> None:
    x = RNG.normal(size=(6, 1))
    with pm.Model() as model:
        graph = build_kernel(parse_kernel("periodic(period=1.2, lengthscale=0.8)"), 1)(x)
    matrix = compile_small([model["amplitude"]], graph)(1.0)
    assert matrix == pytest.approx(np.exp(-0.5 * (np.sin(np.pi * (x - x.T) / 1.2) / 0.8) ** 2), rel=1e-9)


def test_every_term_has_an_amplitude_and_names_are_unique() -> None:
    with pm.Model() as model:
        build_kernel(parse_kernel("expquad + expquad * linear"), 1)
    assert [rv.name for rv in model.free_RVs] == ["amplitude", "lengthscale", "amplitude_2", "lengthscale_2", "centre"]


# --- Gaussian process regression --------------------------------------------------------------------------------------


def test_process_against_scikit_learn() -> None:
    """Log likelihood, and mean and covariance of the function at new inputs, at fixed hyperparameters."""
    x, y = np.sort(RNG.uniform(0, 5, 12))[:, None], RNG.normal(size=12)
    model = load_model("gaussian_process").build(data(x=x, y=y), standardise=False, points=7)
    joint = LogJoint.from_model(model)
    new = model["x_new"].get_value()
    kernel = sk.ConstantKernel(1.3**2, "fixed") * sk.RBF(0.9, "fixed")
    reference = GaussianProcessRegressor(kernel, alpha=0.4**2, optimizer=None).fit(x, y)
    mean, covariance = reference.predict(new, return_cov=True)
    point = {"amplitude": 1.3, "lengthscale": 0.9, "noise": 0.4}
    value = {v: np.asarray({**point}.get(n, 0.0)) for n, v in joint.values.items() if n in point}
    likelihood = compile_small(list(value), joint.factors["y"].sum())(*value.values())
    assert likelihood == pytest.approx(reference.log_marginal_likelihood_value_, rel=1e-8)
    parameters = [p for p in model["f_new"].owner.inputs if getattr(p.type, "ndim", 0) in (1, 2)]
    rvs = [model[n] for n in point]
    found = compile_small(rvs, parameters)(*point.values())
    means = next(f for f in found if f.shape == (7,) and f.dtype.kind == "f")
    covariances = next(f for f in found if f.shape == (7, 7))
    assert means == pytest.approx(mean, abs=1e-8)
    assert covariances == pytest.approx(covariance, abs=1e-8)


def test_process_of_many_points_against_scikit_learn() -> None:
    """The collapsed log likelihood and its gradient, against scikit-learn's."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 10, 300))[:, None]
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=300)
    with pm.Model() as model:
        amplitude, length, noise = (pm.HalfNormal(name) for name in ("amplitude", "length", "noise"))
        process = pm.gp.Marginal(cov_func=amplitude**2 * pm.gp.cov.ExpQuad(1, length))
        process.marginal_likelihood("y", x, y, sigma=noise, jitter=0.0)
    space = Unconstrained(bk.collapse(model))
    at = np.log([1.3, 0.9, 0.2])
    value, gradient = space.value_and_gradient(at)
    kernel = sk.ConstantKernel(1.3**2) * sk.RBF(0.9) + sk.WhiteKernel(0.2**2)
    reference = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(x, y)
    expected, slopes = reference.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    # Theirs is without the prior, and in the logs of variances.
    prior = stats.halfnorm.logpdf(np.exp(at)).sum() + at.sum()
    assert value - prior == pytest.approx(expected, rel=1e-9)
    assert gradient + np.exp(2 * at) - 1 == pytest.approx(slopes * [2, 1, 2], rel=1e-6)


@pytest.mark.slow
def test_process_is_integrated_over_its_hyperparameters() -> None:
    model = example_model("gaussian_process")
    plan = bk.explain(model)
    assert plan.remaining == ("amplitude", "lengthscale", "noise")
    assert {s.family for s in plan.eliminated} == {"ancestral"}


@pytest.mark.slow
def test_process_predicts_at_new_inputs() -> None:
    """Mean and variance of the function and of observations there, by dense algebra over amplitudes and noises."""
    x, x_new = np.linspace(0, 3, 8)[:, None], np.array([[0.5], [1.7], [4.5]])
    y = np.sin(x[:, 0]) + 0.2 * np.random.default_rng(8).normal(size=8)
    options: dict[str, Any] = {"kernel": "expquad(lengthscale=1)", "standardise": False, "noise_scale": 0.5}
    post = bk.infer(
        load_model("gaussian_process").build(data(x=x, y=y), **options, points=12),
        draws=400,
        random_seed=1,
        progressbar=False,
    )
    assert post.method == "quadrature"
    assert post.tree["posterior"]["f_new"].shape == (4, 100, 12)
    new = post.predict({"x_new": x_new}, var_names=["f_new", "y_new"], random_seed=2)

    nodes, weights = np.polynomial.legendre.leggauss(60)
    a, s = (v.ravel()[:, None, None] for v in np.meshgrid(3 * (nodes + 1), 1.5 * (nodes + 1)))  # to six sd of the prior
    own, cross = np.exp(-0.5 * (x - x.T) ** 2), np.exp(-0.5 * (x - x_new.T) ** 2)
    covariance = a**2 * own + s**2 * np.eye(8)
    gain = np.linalg.solve(covariance, a**2 * cross).mT
    log = -0.5 * (y @ np.linalg.solve(covariance, y[:, None])[..., 0].T + np.linalg.slogdet(covariance)[1])
    log += (stats.halfnorm.logpdf(a) + stats.halfnorm.logpdf(s, scale=0.5)).ravel()
    share = np.outer(weights, weights).ravel() * np.exp(log - log.max())
    share /= share.sum()
    means = gain @ y
    mean, within = share @ means, a[:, 0] ** 2 * (1 - np.sum(gain * cross.T, axis=2))
    for name, noise in (("f_new", 0.0), ("y_new", s[:, 0] ** 2)):
        variance = share @ (within + noise + (means - mean) ** 2)
        away = new[name].to_numpy().reshape(400, 3) - mean
        assert np.all(np.abs(away.mean(axis=0)) < 4.5 * np.sqrt(variance / 400))
        assert np.all(np.abs((away**2).mean(axis=0) - variance) < 4.5 * (away**2).std(axis=0) / np.sqrt(400))


@pytest.mark.slow
@pytest.mark.parametrize("x", [[[1.0]], [[1.0], [1.0], [2.0]]])
def test_process_of_one_point_and_of_equal_inputs(x: list[list[float]]) -> None:
    model = load_model("gaussian_process").build(data(x=x, y=np.arange(len(x))), points=3)
    space = Unconstrained(bk.collapse(model))
    assert np.isfinite(space.log_density(space.start)[0])


# --- hierarchical Normal and regression with unknown scales -----------------------------------------------------------


def test_eight_schools_in_both_spellings() -> None:
    centred, other = (
        bk.infer(example_model("hierarchical_normal", centred=c), draws=40, random_seed=1, progressbar=False)
        for c in (True, False)
    )
    assert float(centred.log_evidence) == pytest.approx(float(other.log_evidence), abs=1e-8)
    assert centred.method == other.method == "quadrature"
    assert float(centred.marginal("mu").mean()) == pytest.approx(float(other.marginal("mu").mean()), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "remaining"),
    [
        ({"noise": "half_normal"}, ("noise_sd",)),
        ({"noise": "half_cauchy", "noise_scale": 2.0}, ("noise_sd",)),
        ({"noise": "exponential", "shrinkage": "ridge"}, ("noise_sd", "weight_scale")),
        ({"noise": "known", "shrinkage": "relevance", "degree": 3}, ("weight_scale",)),
        ({"shrinkage": "ridge"}, ("weight_scale",)),
    ],
)
def test_regression_leaves_its_scales(options: dict[str, Any], remaining: tuple[str, ...]) -> None:
    model = example_model("linear_regression", **options)
    plan = bk.explain(model)
    assert set(remaining) <= set(plan.remaining)
    assert not {"weights", "intercept"} & set(plan.remaining)
    assert plan.method == "quadrature"


def test_regression_with_unknown_noise_against_the_marginal_likelihood() -> None:
    x, y = RNG.normal(size=(10, 1)), RNG.normal(size=10)
    build = load_model("linear_regression").build
    model = build(data(x=x, y=y), noise="half_normal", noise_scale=2.0, intercept=False, standardise=False)
    space = Unconstrained(bk.collapse(model))
    expected = stats.multivariate_normal(cov=1.5**2 * np.eye(10) + 100 * x @ x.T).logpdf(y)
    expected += stats.halfnorm(scale=2).logpdf(1.5) + np.log(1.5)
    assert space.log_density(np.array([np.log(1.5)]))[0] == pytest.approx(expected, rel=1e-9)


def test_scales_that_nothing_would_use_are_refused() -> None:
    with pytest.raises(OptionError, match="noise_scale"):
        example_model("linear_regression", noise_scale=2.0)
