"""Every public function, with wrong values of one argument at a time: an answer or a BayeskitError in one line.

The functions are those that the packages offer, and the methods of what these give back; one that has no row in
``rows`` fails the first test, as does an argument that a row leaves out.
"""

from __future__ import annotations

import datetime
import inspect
import tempfile
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, scalar_dtypes

import bayeskit as bk
from bayeskit import datasets, models, validation
from bayeskit.catalogue.options import model_options
from bayeskit.elimination.analysis import Analysis
from bayeskit.queries.state_answers import States
from bayeskit.results.marginals import Marginal

PACKAGES: tuple[ModuleType, ...] = (bk, datasets, models, validation)
# What the functions give back and is asked further, beside what the packages name.
ANSWERS = (Analysis, Marginal, States)
BUILT = models.load_model("linear_regression")
COLUMNS = {"y": "pressure", "x": "temperature"}
OF_CHAINS = {f"States.{name}" for name in ("filter", "predict", "smooth", "viterbi")}  # refused of a mixture
FEWER = 10  # where an answer takes long
SEEDED = {"random_seed": 1, "progressbar": False}


def line() -> pm.Model:
    with pm.Model(coords={"row": [0, 1, 2, 3]}) as model:
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Normal("y", slope * pm.Data("x", [1.0, 2.0, 3.0, 4.0], dims="row"), 1.0, observed=[1.1, 1.9, 3.2, 3.9])
    return model


def counts() -> pm.Model:
    with pm.Model() as model:
        pm.Poisson("n", pm.math.exp(pm.Normal("r", shape=2)), observed=[2, 2])
    return model


def regression() -> pm.Model:
    with pm.Model() as model:
        w = pm.Normal("w", 0.0, 1.0, shape=2)
        pm.Normal("y", pm.math.dot(pm.Data("x", np.eye(3)[:, :2]), w), 1.0, observed=[1.1, 0.2, 0.1])
    return model


def mixture() -> pm.Model:
    with pm.Model() as model:
        z = pm.Bernoulli("z", 0.5, shape=4)
        pm.Normal("y", pm.Normal("mu", 0.0, 3.0, shape=2)[z], 1.0, observed=[-2.0, -1.5, 2.0, 2.2])
    return model


def tosses(values: Any) -> pm.Model:
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("rate", 1.0, 1.0), observed=values)
    return model


def classes() -> pm.Model:
    with pm.Model() as model:
        c = pm.Categorical("c", pm.Dirichlet("p", [1.0, 1.0]), observed=[0, 0, 1, 1])
        pm.Normal("x", pm.Normal("mu", 0.0, 2.0, shape=2)[c], 1.0, observed=[-1.0, -1.2, 1.0, 1.4])
    return model


@dataclass(frozen=True)
class Row:
    """A function with arguments that are right; how often one of them is replaced."""

    function: Callable[..., Any]
    right: dict[str, Any]
    examples: int = 40


@cache
def rows() -> dict[str, Row]:
    """A row for every public function, by its name."""
    folder = Path(tempfile.mkdtemp())
    a_line, a_count, a_mixture, a_class = line(), counts(), mixture(), classes()
    post, of_mixture, of_class = (bk.infer(m, draws=100, **SEEDED) for m in (a_line, a_mixture, a_class))
    sampled = bk.infer(a_line, method="nuts", draws=400, sampler={"tune": 200}, **SEEDED)
    other, estimate = bk.infer(a_count, draws=100, **SEEDED), bk.map_estimate(a_count, random_seed=1)
    post.save(folder / "line.nc")
    (folder / "table.csv").write_text("x,y\n1,2\n3,4\n")
    compared, judged = bk.compare([post, sampled], random_seed=1), validation.judge(post, sampled.tree, random_seed=1)
    data, table = datasets.example_data(BUILT.EXAMPLE, BUILT.VARIABLES), datasets.load_example("forbes")
    judging = {"draws": sampled.tree, "var_names": ["slope"], "alpha": 1e-9, "min_ess": 1.0, "max_rhat": 5.0}
    judging |= {"random_seed": 1}
    of_chunks = {"chunks": None, "dim": None, "client": None, "checkpoint": None}
    inferring = {"model": a_line, "method": "exact", "draws": 4, "sampler": None, **of_chunks, **SEEDED}
    stream, more = bk.Stream(tosses), bk.Stream(tosses)
    for one in (stream, more):
        one.update(np.array([1, 0, 1]))
    reporting = {"post": post, "path": folder / "a.html", "validation": judged, "comparison": compared, "title": "t"}
    mixing = {"model": a_mixture, "start": {"mu": [-1.0, 1.0]}, "starts": 1, "max_iterations": 2, "tolerance": 1e-3}
    folding = {"method": "grouped", "folds": 2, "groups": [0, 1, 0, 1], "initial": None, "joint": True}
    folding |= {"observations": None, "client": None, "checkpoint": None}
    repeating = {"method": "exact", "datasets": 2, "draws": 4, "quantities": None, "generator": None, "alpha": 0.01}
    repeating |= {"processes": 1, "client": None, "checkpoint": folder / "run.jsonl"}
    trying = {"draws": 4, "chains": 1, "tune": 1, "level": 0.01, "processes": 1, "client": None}
    trying |= {"checkpoint": folder / "trial.jsonl"}
    trying |= {"time_limit": 60.0}
    tried = bk.trial("exact", references=["coin"], **{**trying, **SEEDED, "checkpoint": None})
    arriving = {"blocks": 2, "order": [3, 2, 1, 0], "observations": "entry"}
    states_of = bk.states(of_mixture)
    at_work = {"client": None, "checkpoint": None, "random_seed": 1}
    selecting = {"model": regression(), "name": "w", "inclusion_prior": "uniform", "top": 2, "method": "auto"}
    selecting |= {"draws": 2000, **at_work}
    options = {name: option.default for name, option in model_options(BUILT.build).items()}
    found = [
        Row(bk.infer, inferring),
        Row(bk.combine, {"posteriors": [post], "method": "exact", "draws": 4, **SEEDED}, FEWER),
        Row(stream.update, {"chunk": np.array([1, 0]), "id": None}, FEWER),
        Row(stream.discount, {"factor": 1.0}, FEWER),
        Row(stream.infer, {"method": "exact", "draws": 4, **SEEDED}, FEWER),
        Row(stream.predict, {"data": np.array([0, 0]), "draws": 4, "random_seed": 1}, FEWER),
        Row(stream.save, {"path": folder / "a.stream"}, FEWER),
        Row(stream.joined_by, {"other": more}, FEWER),
        Row(bk.evidence, {"model": post, "estimators": ["exact", "laplace"], "draws": 100, **SEEDED}, FEWER),
        Row(bk.explain, {"model": a_line}),
        Row(bk.collapse, {"model": a_count}),
        Row(
            bk.posterior_check,
            {"posterior": post, "model": None, "var_names": None, "alpha": 0.05, "random_seed": 1},
            FEWER,
        ),
        Row(bk.prior_check, {"model": a_line, "draws": 20, "plausible": {"y": (-9, 9)}, "random_seed": 1}, FEWER),
        Row(bk.recover, {"model": a_count, "draws": other.tree, "random_seed": 1}),
        Row(bk.classify, {"post": of_class, "new_data": {"x": [0.0]}, "label": "c", "method": "estimated", "draws": 2}),
        Row(
            bk.compare,
            {"models": [post, sampled], "prior_odds": None, "shared": (), "loo": False, "random_seed": 1}
            | {"progressbar": False, "client": None, "checkpoint": None},
        ),
        Row(bk.cross_validate, {"models": post, "shared": (), **folding, **SEEDED}, FEWER),
        Row(
            bk.em,
            {
                **mixing,
                "chunks": None,
                "dim": None,
                "client": None,
                "checkpoint": None,
                "objective": "likelihood",
                **SEEDED,
            },
            FEWER,
        ),
        Row(bk.em(**mixing, **SEEDED).probabilities_of, {"model": a_mixture}, FEWER),
        Row(bk.information_criteria, {"models": a_line, "shared": (), "observations": None, "random_seed": 1}, FEWER),
        Row(bk.load, {"path": folder / "line.nc", "model": a_line}),
        Row(bk.map_estimate, {"model": a_count, **of_chunks, "random_seed": 1}, FEWER),
        Row(bk.maximize_evidence, {"model": a_count, **of_chunks, "random_seed": 1}, FEWER),
        Row(bk.relabel, {"draws": other, "model": a_count, "labels": (), "groups": None}),
        Row(bk.report, {**reporting, "model": None, "results": (), "sections": ["verdict"], "about": ["x"]}, FEWER),
        Row(
            bk.report_section,
            {"post": post, "name": "priors", "model": None, "validation": None, "comparison": None},
            FEWER,
        ),
        Row(bk.report_index, {"folder": folder, "title": "t"}, FEWER),
        Row(bk.sequential, {"models": post, "shared": (), **arriving, **SEEDED}, FEWER),
        Row(bk.hypothesis, {"posterior": post, "hypothesis": "slope > 1", "against": "slope < 0", "random_seed": 1}),
        Row(bk.savage_dickey, {"posterior": post, "var_names": "slope", "at": 0.5, "random_seed": 1}),
        Row(bk.select, selecting),
        Row(bk.select(**selecting).predict, {"data": {"x": np.eye(2)}}),
        Row(bk.states, {"source": of_mixture, "variable": "z", "at": {"mu": [-1.0, 1.0]}, "draws": 2}),
        Row(bk.reference_posteriors, {"names": ["coin"], "groups": ["chains"]}),
        Row(bk.reference_posteriors(["coin"])[0].summary, {}),
        Row(bk.calibrate, {"model": a_line, **repeating, **SEEDED}, FEWER),
        Row(tried.record, {}),
        Row(tried.report, {"path": folder / "trial.html"}, FEWER),
        Row(tried.to_json, {}),
        Row(bk.trial, {"sampler": "exact", "references": ["coin"], **trying, **SEEDED}, FEWER),
        Row(bk.validate, {"model": a_line, "draws": 4, "exact": post, **SEEDED}, FEWER),
        Row(validation.judge, {"exact": post, **judging, "method": "", "divergences": 1, "seconds": 1.0}),
        Row(validation.assert_matches_exact, {"model": a_line, **judging}, FEWER),
        Row(validation.one_step_ahead, {"models": [a_line]}),
        Row(datasets.check_data, {"data": data, "variables": BUILT.VARIABLES}),
        Row(datasets.describe_example, {"name": "forbes"}),
        Row(datasets.load_example, {"name": "forbes"}),
        Row(datasets.example_data, {"example": BUILT.EXAMPLE, "variables": BUILT.VARIABLES}),
        Row(datasets.list_examples, {}),
        Row(datasets.load_table, {"path": folder / "table.csv"}),
        Row(datasets.parse_columns, {"text": "y=a"}),
        Row(datasets.prepare, {"table": table, "variables": BUILT.VARIABLES, "columns": COLUMNS}),
        Row(models.load_model, {"name": "normal"}),
        Row(BUILT.build, {"data": data, **options}),
        Row(datasets.Variable, {f.name: f.default for f in fields(datasets.Variable)}),
        Row(datasets.Example, {"dataset": "forbes", "columns": COLUMNS, "options": {}}),
        Row(bk.robustness, {"models": [post], "parameter": "slope.sigma", "grid": [1.0, 2.0], **at_work}, FEWER),
        Row(bk.sensitivity, {"source": compared, "between": ["model 1", "model 2"], **at_work}, FEWER),
        Row(compared.robustness, {"parameter": "slope.sigma", "grid": [1.0, 2.0]}, FEWER),
        Row(compared.sensitivity, {"a": "model 1", "b": "model 2"}),
        Row(post.sensitivity, {}),
        Row(post.marginal, {"name": "slope"}),
        Row(post.predict, {"data": {"x": [1.0]}, "coords": None, "var_names": ["y"], **SEEDED}),
        Row(post.posterior_predictive, {"random_seed": 1}),
        Row(post.prior_predictive, {"draws": 2, "random_seed": 1}),
        Row(post.with_log_likelihood, {}),
        Row(post.summary, {"var_names": "slope", "filter_vars": "like", "ci_prob": 0.9}),
        Row(post.hypothesis, {"hypothesis": "slope > 1", "against": "encompassing", "random_seed": 1}),
        Row(post.savage_dickey, {"var_names": "slope", "at": 0.5, "random_seed": 1}),
        Row(post.save, {"path": folder / "b.nc"}),
        Row(estimate.draw, {"number": 2, "random_seed": 1}),
        Row(compared.log_bayes_factor, {"a": "model 1", "b": "model 2"}),
        Row(
            compared.average, {"quantity": "slope", "weights": "evidence", "draws": 2, "missing": 0.0, "random_seed": 1}
        ),
        Row(compared.inclusion, {"terms": {"a": ["model 1"]}, "matched": False}),
        Row(compared.plot, {"kind": "evidence", "backend": "none"}),
        Row(compared.predict, {"new_data": {"x": [1.0]}, "weights": "evidence", "draws": 2, "random_seed": 1}, FEWER),
        Row(compared.words, {}),
        Row(post.analysis.with_data, {"data": {"x": [1.0, 2.0, 3.0, 5.0]}}, FEWER),
        *(Row(getattr(post.marginal("slope"), name), {}) for name in ("mean", "var", "std")),
        Row(post.marginal("slope").ppf, {"q": 0.5}),
        Row(post.marginal("slope").interval, {"confidence": 0.9}),
        Row(states_of.next_observation, {"steps": 1, "random_seed": 1}, FEWER),
        Row(states_of.predict, {"steps": 1}),
        *(Row(getattr(states_of, n), {}) for n in ("filter", "log_likelihood", "occupancy", "responsibilities")),
        *(Row(getattr(states_of, n), {}) for n in ("smooth", "viterbi")),
    ]
    return {row.function.__qualname__: row for row in found}


def public() -> list[str]:
    """The names of the functions that the packages offer, and of the methods of what these give back."""
    offered = [getattr(package, name) for package in PACKAGES for name in package.__all__]
    found = {f.__qualname__ for f in offered if inspect.isfunction(f)} | {"build", "Example", "Variable"}
    for kind in {*(c for c in offered if inspect.isclass(c) and c.__module__.startswith("bayeskit")), *ANSWERS}:
        found |= {f.__qualname__ for n, f in vars(kind).items() if inspect.isfunction(f) and not n.startswith("_")}
    return sorted(name for name in found if not name.startswith("Analysis.remembered"))


def test_every_argument_of_every_public_function_has_a_right_value() -> None:
    assert public() == sorted(rows())
    for row in rows().values():
        assert set(inspect.signature(row.function).parameters) == set(row.right), row.function
        of_chains = row.function.__qualname__ in OF_CHAINS
        with pytest.raises(bk.BayeskitError, match="is not a Markov chain") if of_chains else nullcontext():
            row.function(**row.right)


class Foreign:
    """Something of the user's own."""


@cache
def things() -> list[Any]:
    """Values of every type that is an argument somewhere, and of others."""
    with Path(__file__).open() as closed, pm.Model() as no_data:
        pm.Normal("a")
    right = [value for row in rows().values() for value in row.right.values()]
    numbers = [0, -1, 3, 10**30, 10**400, 0.0, 0.5, -1.5, 1e308, np.nan, np.inf, 1j, True, np.int64(2)]
    texts = ["", "x", "y", "no such", "a\nb", "a\nb.nc", "\0.nc", "ü" * 300 + ".nc", "/", "/dev/full", "/proc/a.csv"]
    shaped = [np.array(1), np.zeros((2, 3)), np.array(["a", "b"]), np.array([None]), np.ma.masked_array([1.0], [True])]
    frames: list[Any] = [pd.DataFrame(), pd.DataFrame({"x": ["a", "b"]}), pd.Series([1.0]), xr.Dataset(), xr.DataTree()]
    draws = [np.zeros((1, 30, 3)), np.full((2, 30), np.nan), np.full((2, 30), "a"), np.zeros((0, 30)), np.ones((1, 30))]
    for name, values in product(("r", "mu", "slope"), draws):
        frames += [xr.Dataset({name: (("chain", "draw", "k")[: values.ndim], values)}), {name: values}]
    others = [None, object(), Foreign, len, lambda: 1, slice(3), ..., ValueError("x"), b"x", Decimal(1), Fraction(1, 2)]
    others += [datetime.date(2020, 1, 1), Path("/"), Path(__file__), iter([1]), range(3), {1}, {None: 1}, {1: 2}]
    others += [np.random.default_rng(1), np.random.SeedSequence(1), pm.Model(), no_data, closed, bk, Foreign()]
    return [*right, *numbers, *texts, *shaped, *frames, *others, [None], [[1], "x"]]


def wrong_values() -> st.SearchStrategy[Any]:
    """Those things, and numbers, texts, arrays, lists and mappings of any content."""
    names = st.sampled_from(["x", "y", "mu", "slope", "r", "row", "a", "model 1", "tune", "maxdepth", "z"])
    plain = st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=5) | names
    shaped = arrays(scalar_dtypes(), array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    made = plain | shaped | st.lists(plain | st.lists(st.floats(), max_size=4), max_size=4)
    return st.sampled_from(things()) | made | st.dictionaries(names, made, max_size=2)


@pytest.mark.parametrize("name", public())
def test_a_wrong_argument_is_answered_or_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    row = rows()[name]

    @settings(max_examples=row.examples)
    @given(argument=st.sampled_from([*row.right]), value=wrong_values())
    def refused(argument: str, value: Any) -> None:
        try:
            with warnings.catch_warnings(action="ignore"):
                row.function(**{**row.right, argument: value})
        except bk.BayeskitError as error:
            assert str(error).strip() and len(str(error).splitlines()) == 1
        except AssertionError:
            assert name == "assert_matches_exact"

    if row.right:
        refused()
