"""EM over chunks against textbook EM of all rows in NumPy, and against EM of the model of all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pymc_extras as pmx
import pytest
from scipy import special, stats

import bayeskit as bk
from bayeskit.point_estimates import em_chunks
from bayeskit.point_estimates.moment_sums import MomentSums, compensated

RNG = np.random.default_rng(8)
STATE = RNG.integers(2, size=60)
NUMBERS = RNG.normal(np.array([-3.0, 2.0])[STATE], np.array([0.5, 1.5])[STATE])
START = {"w": [0.4, 0.6], "mu": [-1.0, 1.0], "v": [1.0, 2.0]}
QUIET: dict[str, Any] = {"random_seed": 1, "progressbar": False}
ROWS = [NUMBERS[:20], NUMBERS[20:40], NUMBERS[40:]]


def normals(y: Any, extra: Callable[[], Any] = lambda: None) -> pm.Model:
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        mu = pm.Normal("mu", 0.0, 10.0, shape=2)
        v = pm.InverseGamma("v", 2.0, 1.0, shape=2)
        z = pm.Categorical("z", w, shape=len(y))
        pm.Normal("y", mu[z], pm.math.sqrt(v[z]), observed=y)
        extra()
    return model


def textbook(y: np.ndarray, iterations: int) -> tuple[list[float], dict[str, np.ndarray]]:
    w, mu, v = (np.array(START[n]) for n in ("w", "mu", "v"))
    trace = []
    for _ in range(iterations):
        terms = np.log(w) + stats.norm.logpdf(y[:, None], mu, np.sqrt(v))
        trace.append(float(np.sum(special.logsumexp(terms, axis=1))))
        r = special.softmax(terms, axis=1)
        n = r.sum(axis=0)
        w, mu = n / len(y), mu + r.T @ (y - 0) / n - mu
        v = np.sum(r * (y[:, None] - mu) ** 2, axis=0) / n
    return trace, {"w": w, "mu": mu, "v": v}


@pytest.mark.slow
def test_a_mixture_of_normals_is_that_of_textbook_em_on_all_rows() -> None:
    chunks = (NUMBERS[a:b] for a, b in ((0, 17), (17, 18), (18, 60)))  # a generator, with a chunk of one row
    found = bk.em(normals, chunks=chunks, start=START, max_iterations=6, tolerance=0.0, **QUIET)
    trace, _ = textbook(NUMBERS, 7)
    np.testing.assert_allclose(found.trace, trace, rtol=1e-12)
    _, point = textbook(NUMBERS, 6)
    for name, value in point.items():
        np.testing.assert_allclose(found.point[name], value, rtol=1e-10)
    assert found.log_likelihood == found.trace[-1]
    # Of the rows of a chunk, or new ones, the probabilities are asked for.
    assert not found.probabilities
    w, mu, v = (found.point[n] for n in START)
    expected = special.softmax(np.log(w) + stats.norm.logpdf(np.array([[-1.0], [0.5]]), mu, np.sqrt(v)), axis=1)
    np.testing.assert_allclose(found.probabilities_of(normals(np.array([-1.0, 0.5])))["z"], expected, rtol=1e-10)
    with pytest.raises(bk.BayeskitError, match="the maximum is one in"):
        found.probabilities_of(counts(np.array([1, 2])))


def regressions(rows: Any) -> pm.Model:
    x, y = rows["x"], rows["y"]
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        b = pm.Normal("b", 0.0, 10.0, shape=(2, 3))
        z = pm.Categorical("z", w, shape=len(y))
        pm.Normal("y", (b[z] * x).sum(-1), pm.HalfNormal("sd", 2.0), observed=y)
        pm.Poisson("seen", pm.Gamma("rate", 2.0, 1.0), observed=rows["seen"])  # which z has no part in
    return model


def counts(y: Any) -> pm.Model:
    with pm.Model() as model:
        z = pm.Categorical("z", pm.Dirichlet("w", np.ones(2)), shape=len(y))
        pm.Poisson("y", pm.Gamma("rate", 2.0, 1.0, shape=2)[z], observed=y)
    return model


def sequences(y: Any) -> pm.Model:
    with pm.Model() as model:
        moves = pm.Dirichlet("moves", np.ones(2), shape=(2, 2))
        mu = pm.Normal("mu", 0.0, 5.0, shape=2, initval=[-1.0, 1.0])
        first = pm.Categorical.dist(p=[0.5, 0.5])
        z = pmx.DiscreteMarkovChain("z", P=moves, init_dist=first, shape=np.shape(y))
        pm.Normal("y", mu[z], 1.0, observed=y)
    return model


def indicators(y: Any) -> pm.Model:
    with pm.Model() as model:
        z = pm.Categorical("z", pm.Dirichlet("w", np.ones(2)), shape=len(y))
        s = pm.Bernoulli("s", pm.Beta("q", 2.0, 2.0, shape=2)[z], shape=len(y))
        pm.Normal("y", pm.Normal("mu", 0.0, 5.0, shape=(2, 2))[z, s], 1.0, observed=y)
    return model


DUMMY = np.repeat([0.0, 1.0], 30)  # the same in all rows of the first chunk
COLUMNS = np.column_stack([np.ones(60), RNG.normal(size=60), DUMMY])
CASES: dict[str, tuple[Any, Any]] = {
    "regressions": (
        regressions,
        {"x": COLUMNS, "y": (np.array([[1, 2, 0], [-1, -2, 3]])[STATE] * COLUMNS).sum(1), "seen": RNG.poisson(2, 60)},
    ),
    "counts": (counts, RNG.poisson(np.array([1, 8])[STATE])),
    "sequences": (sequences, RNG.normal(np.array([-1, 1])[np.cumsum(RNG.random((4, 20)) < 0.1, axis=1) % 2])),
    "nested": (indicators, NUMBERS),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_chunks_give_what_all_rows_at_once_give(name: str) -> None:
    build, data = CASES[name]
    objective = "likelihood" if name == "counts" else "posterior"
    cuts = [0, 2, 4] if name == "sequences" else [0, 25, 60]
    chunks = [{k: v[a:b] for k, v in data.items()} if isinstance(data, dict) else data[a:b] for a, b in pairwise(cuts)]
    options = {"objective": objective, "starts": 1, "max_iterations": 4, **QUIET}
    expected, found = bk.em(build(data), **options), bk.em(build, chunks=chunks, **options)
    np.testing.assert_allclose(found.trace, expected.trace, rtol=1e-10)
    assert found.blocks == expected.blocks
    for n, value in expected.point.items():
        np.testing.assert_allclose(found.point[n], value, rtol=1e-8, atol=1e-12)
    assert found.log_posterior == pytest.approx(expected.log_posterior, rel=1e-10)


@pytest.mark.slow
def test_files_beyond_what_is_held_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(rows: Any) -> pm.Model:
        return normals(rows["y"].to_numpy())

    for k, part in enumerate(ROWS[:2]):
        pd.DataFrame({"y": part}).to_parquet(tmp_path / f"{k}.parquet")
    point = {n: np.array(v) for n, v in START.items()}
    monkeypatch.setattr(em_chunks, "HELD", 200)  # bytes: one of the two
    problem = em_chunks.chunked_problem(build, str(tmp_path), dim=None, objective="likelihood")
    assert isinstance(problem.read, em_chunks.PiecesHere)
    assert [len(part.steps) for part in problem.read.parts] == [1, 0]
    first, again = problem.expectation(point), problem.expectation(point)
    assert first.log_likelihood == again.log_likelihood
    assert first.log_likelihood == pytest.approx(textbook(NUMBERS[:40], 1)[0][0], rel=1e-12)
    pd.DataFrame({"y": ROWS[2]}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(bk.BayeskitError, match=r"1\.parquet was changed"):
        problem.expectation(point)


@pytest.mark.slow
def test_a_generator_may_fill_one_table_over_and_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(em_chunks, "HELD", 0)  # bytes: all are read again

    def one_buffer() -> Iterator[np.ndarray]:
        buffer = np.empty(20)
        for part in ROWS[:2]:
            buffer[:] = part
            yield buffer

    found = bk.em(normals, chunks=one_buffer(), start=START, max_iterations=2, tolerance=0.0, **QUIET)
    np.testing.assert_allclose(found.trace, textbook(NUMBERS[:40], 3)[0], rtol=1e-12)


@pytest.mark.slow
def test_a_run_that_was_cut_off_goes_on_to_the_same_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"chunks": ROWS[:2], "start": START, "tolerance": 0.0, **QUIET}
    expected = bk.em(normals, max_iterations=5, **options)
    kept = {"checkpoint": tmp_path / "steps", **options}
    bk.em(normals, max_iterations=2, **kept)
    lines = kept["checkpoint"].read_text()
    kept["checkpoint"].write_text(lines[:-30])  # the last one was cut off
    made = []
    original = em_chunks.PiecesHere.expectations
    monkeypatch.setattr(
        em_chunks.PiecesHere, "expectations", lambda self, point: (made.append(point), original(self, point))[1]
    )
    found = bk.em(normals, max_iterations=5, **kept)
    assert len(made) == 4  # of six, two were there
    for name, value in expected.point.items():
        np.testing.assert_array_equal(found.point[name], value)
    np.testing.assert_array_equal(found.trace, expected.trace)
    assert found.log_posterior == expected.log_posterior
    with pytest.raises(bk.BayeskitError, match="with another data"):
        bk.em(normals, **kept | {"chunks": ROWS[:1]})
    with pytest.raises(bk.BayeskitError, match="with another objective"):
        bk.em(normals, objective="posterior", **kept)
    with pytest.raises(bk.BayeskitError, match="checkpoint: it is for chunks, em"):
        bk.em(normals(NUMBERS), checkpoint=tmp_path / "other")


def standardised(y: Any) -> pm.Model:
    return normals((y - np.mean(y)) / np.std(y))


def drawn_to_the_mean(y: Any) -> pm.Model:
    with pm.Model() as model:
        z = pm.Categorical("z", pm.Dirichlet("w", np.ones(2)), shape=len(y))
        pm.Normal("y", pm.Normal("mu", float(np.mean(y)), 10.0, shape=2)[z], 1.0, observed=y)
    return model


def with_potential(y: Any) -> pm.Model:
    return normals(y, extra=lambda: pm.Potential("pull", -(pm.modelcontext(None)["mu"][0] ** 2)))


def pt_square() -> Any:
    return -(pm.modelcontext(None)["mu"][0] ** 2)


def with_fixed_data(y: Any) -> pm.Model:
    return normals(y, extra=lambda: pm.Normal("x", pm.modelcontext(None)["mu"][0], 1.0, observed=[1.0, 2.0]))


def logistic(y: Any) -> pm.Model:
    with pm.Model() as model:
        z = pm.Categorical("z", pm.Dirichlet("w", np.ones(2)), shape=len(y))
        pm.Logistic("y", pm.Normal("mu", 0.0, 10.0, shape=2)[z], 1.0, observed=y)
    return model


def unreduced_beside(y: Any) -> pm.Model:
    pair = np.column_stack([y, y**2])
    return normals(y, extra=lambda: pm.Normal("x", pm.modelcontext(None)["mu"], 1.0, observed=pair))


def own_effects(y: Any) -> pm.Model:
    with pm.Model() as model:
        z = pm.Categorical("z", pm.Dirichlet("w", np.ones(2)), shape=len(y))
        u = pm.Normal("u", 0.0, 1.0, shape=len(y))
        pm.Normal("y", pm.Normal("mu", 0.0, 10.0, shape=2)[z] + u, 1.0, observed=y)
    return model


def of_groups(indicator: bool) -> Callable[[Any], pm.Model]:
    def build(rows: Any) -> pm.Model:
        groups, code = np.unique(rows["group"], return_inverse=True)
        with pm.Model(coords={"group": groups}) as model:
            w = pm.Dirichlet("w", np.ones(2))
            z = pm.Categorical("z", w, **({"dims": "group"} if indicator else {"shape": len(code)}))
            u = 0.0 if indicator else pm.Normal("u", 0.0, 1.0, dims="group")[code]
            mean = pm.Normal("mu", 0.0, 10.0, shape=2)[z[code] if indicator else z] + u
            pm.Normal("y", mean, 1.0, observed=rows["y"])
        return model

    return build


GROUPED = [{"y": y, "group": np.repeat([f"{k}", f"{k}b"], 10)} for k, y in enumerate(ROWS)]
SHARED = [{"y": y, "group": np.repeat(["a", "b"], 10)} for y in ROWS]
MISSING = [ROWS[0], np.where(np.arange(20) == 5, np.nan, ROWS[1])]
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "a standardised column": (standardised, ROWS, "does not add up over rows: what it has of chunk 1 depends"),
    "a prior of the data": (drawn_to_the_mean, ROWS, "the prior of 'mu' is another one with more rows"),
    "a Potential": (with_potential, ROWS, "Potential 'pull'"),
    "data that all chunks have": (with_fixed_data, ROWS, "does not add up"),
    "an indicator of a group": (of_groups(True), SHARED, "does not add up"),
    "labels of the chunk": (of_groups(False), GROUPED, "'group' has other labels in chunk 1"),
    "a variable for each row": (own_effects, ROWS, "'u' has the shape"),
    "no sums over rows": (logistic, ROWS, "is no function of sums over rows"),
    "a table beside, of which a chunk comes twice": (unreduced_beside, [ROWS[0], ROWS[0]], "no function of sums"),
    "a chain along the rows": (sequences, ROWS, "the chain 'z' runs along the rows of chunk 1"),
    "a missing value": (normals, MISSING, "chunk 2 has missing values: column 'values' .* in row 5"),
    "an empty chunk": (normals, [ROWS[0], ROWS[1][:0]], "chunk 2 is empty"),
    "no chunk": (normals, [], "there are no chunks"),
    "a column less": (lambda rows: normals(rows["y"]), [SHARED[0], {"y": ROWS[1]}], "chunk 2 has no column 'group'"),
    "a model": (normals(NUMBERS), ROWS, "give the function that builds the model"),
    "a function alone": (normals, None, "model is a function"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_sum_over_rows_is_refused_by_name(name: str) -> None:
    build, chunks, said = REFUSED[name]
    with pytest.raises(bk.BayeskitError, match=said) as error:
        bk.em(build, chunks=chunks, starts=1, **QUIET)
    assert "\n" not in str(error.value)


def test_moments_of_chunks_about_their_own_means_are_those_of_all_rows() -> None:
    y, r = RNG.normal(size=(3, 50)) + 1e6, RNG.uniform(size=50)

    def sums(rows: slice) -> MomentSums:
        centre = np.average(y[:, rows], axis=1, weights=r[rows])
        away = y[:, rows] - centre[:, None]
        total = float(np.sum(r[rows]))
        second = ((r[rows] * away) @ away.T).ravel()
        return MomentSums(total, centre, (np.concatenate([[total], away @ r[rows], second]),))

    whole, found = sums(slice(None)), MomentSums.added([sums(slice(0, 7)), sums(slice(7, 8)), sums(slice(8, None))])
    np.testing.assert_allclose(found.centre, whole.centre, rtol=1e-15)
    np.testing.assert_allclose(found.groups[0], whole.groups[0], rtol=1e-9, atol=1e-7)
    assert compensated([np.array(v) for v in (1.0, 1e100, 1.0, -1e100)]) == 2.0
