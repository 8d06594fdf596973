"""A model whose rows recur, and one of the same density that reads each of them once."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayeskit as bk
from bayeskit.elimination.plan import analyse
from bayeskit.inference import nuts
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.shorter_model import shorter_model

N = 4_000
RNG = np.random.default_rng(4)
ROW, COLUMN = RNG.integers(0, 5, N), RNG.integers(0, 4, N)
COUNTS = RNG.poisson(np.exp(0.3 * ROW - 0.2 * COLUMN))
REAL = RNG.normal(size=N)


def crossed(*, moved: bool = False) -> pm.Model:
    """Counts of rows and columns, both of which vary; with a covariate that differs everywhere, if ``moved``."""
    with pm.Model(coords={"row": list("abcde")}) as model:
        sd = pm.HalfNormal("sd")
        row, column = pm.Normal("of_row", 0.0, sd, dims="row"), pm.Normal("of_column", 0.0, 1.0, shape=4)
        eta = row[ROW] + column[COLUMN] + (pm.Normal("slope") * REAL if moved else 0.0)
        pm.Deterministic("total", row.sum())
        pm.Poisson("y", pm.math.exp(eta), observed=COUNTS)
        pm.Normal("z", pm.Normal("mean"), 2.0, observed=REAL)
    return model


def points(joint: LogJoint) -> list[dict[str, np.ndarray]]:
    rng, shapes = np.random.default_rng(5), joint.shapes()
    return [{n: np.abs(rng.normal(scale=0.5, size=shapes[n])) for n in joint.values} for _ in range(4)]


def test_its_density_is_the_same() -> None:
    joint = LogJoint.from_model(crossed())
    several = points(joint)
    shorter = shorter_model(joint, joint.shapes(), several[0])
    assert shorter is not None
    assert [rv.name for rv in shorter.free_RVs] == [rv.name for rv in joint.model.free_RVs]
    assert not shorter.observed_RVs
    other = LogJoint.from_model(shorter)
    for point in several:
        assert other.logp(point) == pytest.approx(joint.logp(point), rel=1e-12)
        truth = stats.poisson.logpmf(COUNTS, np.exp(point["of_row"][ROW] + point["of_column"][COLUMN])).sum()
        truth += stats.norm.logpdf(REAL, point["mean"], 2.0).sum() + stats.norm.logpdf(point["mean"])
        truth += stats.halfnorm.logpdf(point["sd"]) + stats.norm.logpdf(point["of_column"]).sum()
        truth += stats.norm.logpdf(point["of_row"], 0.0, point["sd"]).sum()
        assert other.logp(point) == pytest.approx(truth, rel=1e-11)


def test_what_differs_keeps_its_rows() -> None:
    joint = LogJoint.from_model(crossed(moved=True))
    shorter = shorter_model(joint, joint.shapes(), points(joint)[0])
    assert shorter is not None  # of z, which is Normal, a mean and a scatter are enough
    assert [rv.name for rv in shorter.observed_RVs] == ["y"]


def test_a_model_without_rows_that_recur_has_none() -> None:
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(pm.Normal("a") + pm.Normal("b") * REAL), observed=COUNTS)
    joint = LogJoint.from_model(model)
    assert shorter_model(joint, joint.shapes(), points(joint)[0]) is None


def test_nuts_reads_each_row_once() -> None:
    """Of effects that cross, nothing has a closed form; the model as written is sampled where no rows recur."""
    assert nuts.obstacle(analyse(crossed())) == ""
    with pm.Model() as different:
        pm.Poisson("y", pm.math.exp(pm.Normal("a") + pm.Normal("b") * REAL), observed=COUNTS)
    assert "as written" in nuts.obstacle(analyse(different))


@pytest.mark.slow
def test_draws_by_nuts_are_of_the_model_as_written() -> None:
    model = crossed()
    post = bk.infer(model, method="nuts", random_seed=1, progressbar=False)
    assert {"of_row", "of_column", "sd", "mean", "total"} <= set(post.tree["posterior"])
    assert list(post.tree["posterior"]["row"].to_numpy()) == list("abcde")
    integrated = bk.infer(model, method="importance", random_seed=1, progressbar=False)
    one, other = post.summary(), integrated.summary()
    for name in ("of_row[a]", "of_column[0]", "sd", "mean"):
        error = np.hypot(one.loc[name, "mcse_mean"], other.loc[name, "mcse_mean"])
        assert abs(one.loc[name, "mean"] - other.loc[name, "mean"]) < 4.5 * error
    by_bridge, by_weights = post.log_evidence, integrated.log_evidence
    assert abs(by_bridge.value - by_weights.value) < 4.5 * np.hypot(by_bridge.error, by_weights.error)
