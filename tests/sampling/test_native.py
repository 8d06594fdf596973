"""The machine code that nutpie samples: density, gradient and draws against PyTensor's own evaluation of the model."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.initial_point import make_initial_point_fn
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.raise_op import Assert
from scipy import stats

import bayeskit as bk
from bayeskit.datasets import example_data
from bayeskit.elimination.plan import analyse
from bayeskit.graphs.compile import compile_small, small_mode
from bayeskit.graphs.environment import lightly
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.models import MODELS, load_model
from bayeskit.sampling.codegen.generated import load_functions
from bayeskit.sampling.codegen.loops import program
from bayeskit.sampling.codegen.scalar_expressions import PATTERNS
from bayeskit.sampling.codegen.workspace import NoLoops
from bayeskit.sampling.native import compile_for_nutpie, compiled_loops, density_graphs, objective_of

RNG = np.random.default_rng(0)
DESIGN = RNG.normal(size=(12, 3))
Y = DESIGN @ [1.0, -2.0, 0.5] + RNG.normal(size=12)


def regression() -> pm.Model:
    with pm.Model(coords={"column": list("abc")}) as model:
        x = pm.Data("x", DESIGN)
        weights = pm.Normal("weights", 0, 2, dims="column")
        sigma = pm.HalfNormal("sigma", 1)
        share = pm.Dirichlet("share", np.ones(3), dims="column")
        pm.Deterministic("doubled", 2 * weights, dims="column")
        pm.Normal("y", x @ (weights * share), sigma, observed=Y)
    return model


@pytest.mark.slow
def test_the_compiled_density_stands_in_for_the_graph() -> None:
    model = regression()
    with lightly():
        objective, space = objective_of(compiled_loops(model, set())), Unconstrained(model)
        points = 0.5 * np.random.default_rng(1).normal(size=(3, space.size))
        for point in points:
            for found, expected in zip(objective(point), space.value_and_gradient(point), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-9)
        compiled = Unconstrained(model, 1, objective)
        np.testing.assert_allclose(compiled.log_density(points), space.log_density(points), rtol=1e-9)
    value, gradient = objective(np.full(space.size, 1e4))
    assert value == -np.inf and np.isnan(gradient).all()


def collapsed() -> pm.Model:
    with pm.Model() as model:
        tau = pm.HalfCauchy("tau", 5)
        sigma = pm.HalfNormal("sigma", 1, shape=4)
        theta = pm.Normal("theta", 0, tau, shape=12)
        z = pm.Categorical("z", np.full(4, 0.25), shape=12)
        pm.Normal("y", Y, sigma[z], observed=Y[::-1])
        pm.Normal("v", theta, 1.0, observed=Y)
    return bk.collapse(model)


def relevance() -> pm.Model:
    """Twenty-five coefficients with a scale each, ten rows: on the side of the data."""
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        noise, scale = pm.HalfNormal("noise", 0.5), pm.HalfNormal("scale", 1.0, shape=25)
        weights = pm.Normal("weights", 0.0, scale, shape=25)
        pm.Normal("y", rng.normal(size=(10, 25)) @ weights, noise, observed=rng.normal(size=10))
    return bk.collapse(model)


@pytest.mark.slow
@pytest.mark.parametrize("build", [regression, collapsed, relevance], ids=lambda b: b.__name__)
def test_density_gradient_and_draws_are_those_of_the_model(build: Callable[[], pm.Model]) -> None:
    model = build()
    compiled = compiled_loops(model, set())
    names = [v.name for v in model.value_vars]
    start = model.initial_point(0)
    size = sum(np.size(start[n]) for n in names)
    assert compiled.n_dim == size
    void, length = ctypes.c_void_p, ctypes.c_uint64
    density: Any = ctypes.CFUNCTYPE(ctypes.c_int64, length, void, void, void, void)(compiled.compiled_logp_func.address)
    expand: Any = ctypes.CFUNCTYPE(ctypes.c_int64, length, length, void, void, void)(
        compiled.compiled_expand_func.address
    )
    value = model.compile_logp(mode=small_mode())
    slope = model.compile_dlogp(mode=small_mode())
    drawn = model.compile_fn(model.unobserved_value_vars, mode=small_mode(), point_fn=True)
    data = compiled.user_data.ctypes.data
    for seed in range(3):
        x = np.random.default_rng(seed).normal(scale=0.5, size=size)
        point, at = {}, 0
        for name in names:
            shape = np.shape(start[name])
            point[name] = x[at : at + int(np.prod(shape))].reshape(shape)
            at += int(np.prod(shape))
        found, gradient = np.zeros(1), np.zeros(size)
        assert density(size, x.ctypes.data, gradient.ctypes.data, found.ctypes.data, data) == 0
        assert found[0] == pytest.approx(float(value(point)), rel=1e-10)
        np.testing.assert_allclose(gradient, slope(point), rtol=1e-8, atol=1e-10)
        out = np.zeros(compiled.n_expanded)
        assert expand(size, out.size, x.ctypes.data, out.ctypes.data, data) == 0
        expected = dict(zip([v.name for v in model.unobserved_value_vars], drawn(point), strict=True))
        assert sorted(out) == pytest.approx(sorted(np.concatenate([np.ravel(v) for v in expected.values()])), rel=1e-10)


def value_at(compiled: Any, x: np.ndarray) -> tuple[int, float]:
    void, length = ctypes.c_void_p, ctypes.c_uint64
    density: Any = ctypes.CFUNCTYPE(ctypes.c_int64, length, void, void, void, void)(compiled.compiled_logp_func.address)
    value, gradient = np.zeros(1), np.zeros(x.size)
    failed = density(x.size, *(a.ctypes.data for a in (x, gradient, value, compiled.user_data)))
    return failed, float(value[0])


def one_mean(y: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.0, 1.0), 1.0, observed=y)
    return model


def test_other_data_of_the_same_shape_find_it_compiled() -> None:
    first, second = (compiled_loops(one_mean(y), set()) for y in (np.array([0.0, 1.0]), np.array([5.0, 3.0])))
    assert first.compiled_logp_func is second.compiled_logp_func
    x = np.array([0.3])
    for compiled, y in ((first, [0.0, 1.0]), (second, [5.0, 3.0])):
        expected = stats.norm.logpdf(0.3) + stats.norm.logpdf(y, 0.3).sum()
        assert value_at(compiled, x) == (0, pytest.approx(expected, rel=1e-14))


def test_where_the_density_is_not_defined_it_says_so() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Potential("bounded", pt.switch(x > 1.0, -np.inf, 0.0) + pt.log(x + 2.0))
        pm.Potential("checked", Assert("x may not be large")(0.0 * x, pt.le(x, 0.5)))
    compiled = compiled_loops(model, set())
    assert value_at(compiled, np.array([0.2]))[0] == 0
    assert [value_at(compiled, np.array([at]))[0] for at in (1.5, -3.0, 0.7)] == [1, 4, 1]


def test_what_has_no_loop_is_left_to_nutpie(monkeypatch: pytest.MonkeyPatch) -> None:
    left = []
    monkeypatch.setattr("nutpie.compile_pymc_model", lambda model, **options: left.append(model))
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=3)
        pm.Potential("largest", x[pt.argmax(x)])
    with pytest.raises(NoLoops, match="index"):
        compiled_loops(model, set())
    compile_for_nutpie(model, set())
    assert left == [model]


def test_loops_that_give_something_else_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were an expression wrong, the model would be left to nutpie."""
    monkeypatch.setitem(PATTERNS, "Sqr", "{0} * {0} * 1.00001")
    with pytest.raises(NoLoops, match="do not give what the graph gives"):
        compiled_loops(one_mean(np.array([1.0, 2.0])), set())


class Raising(Op):
    """Refuses numbers above two."""

    def make_node(self, x: Any) -> Apply:  # type: ignore[override]
        return Apply(self, [x], [pt.dscalar()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        if inputs[0] > 2:
            raise ValueError("too large")
        output_storage[0][0] = np.asarray(-(inputs[0] ** 2))

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        return [-2.0 * inputs[0] * cotangents[0]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Numba will use object mode:UserWarning")
def test_a_called_function_that_raises_is_a_density_of_zero() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Potential("p", Raising()(x))
    compiled = compiled_loops(model, set())
    assert value_at(compiled, np.array([1.0])) == (0, pytest.approx(stats.norm.logpdf(1.0) - 1.0))
    with pytest.raises(SystemError):  # as ctypes sees it; a sampler sees what is returned
        value_at(compiled, np.array([3.0]))


@pytest.mark.slow
@pytest.mark.parametrize("others", [(pt.trunc, pt.round_half_to_even), (pt.floor, pt.ceil)])
def test_models_that_differ_in_a_function_called_differ(others: tuple[Any, Any]) -> None:
    for function in others:
        with pm.Model() as model:
            x = pm.Normal("x", 0.0, 1.0)
            pm.Potential("p", -((x - function(x)) ** 2))
        at = pt.dscalar()
        expected = compile_small([at], -((at - function(at)) ** 2))(np.array(0.8)) + stats.norm.logpdf(0.8)
        assert value_at(compiled_loops(model, set()), np.array([0.8])) == (0, pytest.approx(float(expected)))


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["alloc", "arange", "repeat"])
def test_shapes_that_depend_on_values_are_refused_or_noticed(shape: str) -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=3)
        number = pt.sum(x > 3.0) + 2
        of = {
            "alloc": lambda: pt.sum(pt.alloc(x[0], number)),
            "arange": lambda: pt.sum(pt.exp(-pt.arange(number) * x[0] ** 2)),
            "repeat": lambda: pt.sum(pt.repeat(x, number)),
        }
        pm.Potential("p", of[shape]())
    if shape == "repeat":
        with pytest.raises(NoLoops, match="Int_div"):
            compiled_loops(model, set())
        return
    compiled = compiled_loops(model, set())
    value = compile_small(model.value_vars, model.logp())
    for x_at in (np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.2, 4.0])):
        failed, found = value_at(compiled, x_at)
        assert failed or found == pytest.approx(float(value(x_at)))
    assert not value_at(compiled, np.zeros(3))[0]


@pytest.mark.slow
def test_threads_may_compile_the_same_model_at_once() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.StudentT("mu", 3.0, mu=0.0, sigma=1.0), 1.0, observed=np.arange(7.0))
    with ThreadPoolExecutor(4) as pool:
        source = "\n\ntime.sleep(0.1)\n\n\ndef density():\n    return 1\n"
        modules = list(pool.map(lambda _: load_functions("import time" + source, {}), range(8)))
    assert len({id(m) for m in modules}) == 1
    assert value_at(compiled_loops(model, set()), np.zeros(1))[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        lambda: pm.StudentT("y", 3.0, mu=pm.Normal("m"), sigma=1.0, observed=[0.5, 1.0]),
        lambda: pm.SkewNormal("y", mu=pm.Normal("m"), sigma=1.0, alpha=2.0, observed=[0.5, 1.0]),
        lambda: pm.HurdleNegativeBinomial("y", 0.7, 3.0, pm.Exponential("n", 1.0), observed=[0, 2, 3]),
        lambda: pm.Censored("y", pm.Normal.dist(pm.Normal("m"), 1.0), lower=-1.0, upper=1.0, observed=[0.5, 1.0]),
        lambda: pm.Potential("p", pm.logcdf(pm.StudentT.dist(3.0, mu=pm.Normal("m"), sigma=1.0), 0.5)),
    ],
    ids=["student", "skew", "hurdle", "censored", "cumulative"],
)
def test_there_are_loops_for_common_likelihoods(build: Callable[[], Any]) -> None:
    with pm.Model() as model:
        build()
    start = model.initial_point(0)
    point = [np.asarray(start[v.name], dtype=float) for v in model.value_vars]
    assert program("density", model.value_vars, density_graphs(model, model.value_vars), point).functions


AGAIN = """
import numpy as np, pymc as pm
import bayeskit as bk
from pytensor.link.numba import cache
from bayeskit.sampling.codegen.generated import _kept
from bayeskit.sampling.native import compiled_loops

def numbers():
    with pm.Model() as process:
        noise = pm.HalfNormal("noise")
        pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, 1.0)).marginal_likelihood(
            "y", np.arange(220.0)[:, None], np.ones(220), sigma=noise)
    with pm.Model() as plain:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=np.ones(3))
    found = []
    for model in (bk.collapse(process), plain):
        compiled = compiled_loops(model, set())
        found += [compiled.n_dim, getattr(compiled.compiled_logp_func, "cache_hits", 0)]
    return found
"""


@pytest.mark.slow
def test_another_process_finds_what_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code that calls Python back holds addresses of its process: kept, it ended the next one."""
    flags = ",".join(filter(None, [os.environ.get("PYTENSOR_FLAGS"), f"base_compiledir={tmp_path}", "cxx="]))
    space: dict[str, Any] = {}
    exec(AGAIN, space)
    # This process writes to where the next one will look, and has not yet compiled the same for another test.
    monkeypatch.setattr(space["cache"], "NUMBA_CACHE_PATH", tmp_path / "numba")
    (tmp_path / "numba").mkdir()
    space["_kept"].cache_clear()
    assert space["numbers"]() == [1, 0, 1, 0]
    space["_kept"].cache_clear()  # nor does another test find what is kept elsewhere
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AGAIN + "print(*numbers())"],
        env={**os.environ, "PYTENSOR_FLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["1", "0", "1", "1"]


# The labels of a binomial mixture are discrete, and its exact answer is not sampled.
@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in MODELS if n != "binomial_mixture"])
def test_there_are_loops_for_the_catalogue(name: str) -> None:
    module = load_model(name)
    model = module.build(example_data(module.EXAMPLE, module.VARIABLES), **module.EXAMPLE.options)
    with lightly():
        analysis = analyse(model)
    # By which method it is answered, explain would say after it has priced them all: loops are there for what remains.
    model = bk.collapse(analysis) if analysis.plan.remaining else model
    start = model.initial_point(0)
    point = [np.asarray(start[v.name], dtype=float) for v in model.value_vars]
    assert program("density", model.value_vars, density_graphs(model, model.value_vars), point).functions


def test_nothing_is_compiled_by_a_c_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyMC's starting points would take g++ seconds, for one evaluation each."""
    from pytensor.link.c.op import COp

    def refuse(*arguments: Any) -> None:
        raise AssertionError("compiled as C")

    monkeypatch.setattr(COp, "make_c_thunk", refuse)
    model = regression()
    assert Unconstrained(model).start.shape == (6,)
    with lightly():
        start = make_initial_point_fn(model=model, jitter_rvs=set(model.free_RVs))
    assert set(start(1)) == {v.name for v in model.value_vars}
