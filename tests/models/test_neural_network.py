"""A network with one hidden layer: its graph against SciPy, its evidence against a grid over one hidden unit."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import special, stats

import bayeskit as bk
from bayeskit.datasets import prepare
from bayeskit.model.log_joint import LogJoint
from bayeskit.models import load_model

NETWORK = load_model("neural_network")
RNG = np.random.default_rng(6)
X = RNG.normal(size=(12, 2))
Y = 3.0 + 2.0 * np.tanh(1.5 * X[:, 0]) + 0.5 * RNG.normal(size=12)
OPTIONS: dict[str, Any] = {
    "standardise": False,
    "weight_scale": 1.2,
    "threshold_scale": 0.8,
    "output_scale": 2.0,
    "intercept_mean": 2.5,
    "intercept_scale": 1.5,
    "noise_scale": 0.7,
}


def dataset(columns: int) -> xr.Dataset:
    names = tuple(f"x{k}" for k in range(columns))
    table = pd.DataFrame(X[:, :columns], columns=names).assign(y=Y)
    return prepare(table, NETWORK.VARIABLES, {"y": "y", "x": names})


def network(columns: int, units: int, **options: Any) -> pm.Model:
    model: pm.Model = NETWORK.build(dataset(columns), units=units, **(OPTIONS | options))
    return model


def log_joint(point: dict[str, np.ndarray], x: np.ndarray, units: int) -> float:
    hidden = np.tanh(x @ point["input_weights"] + point["thresholds"])
    mean = point["intercept"] + hidden @ point["output_weights"]
    total = stats.norm(mean, point["sigma"]).logpdf(Y).sum() + stats.norm(2.5, 1.5).logpdf(point["intercept"])
    total += stats.norm(0, 1.2).logpdf(point["input_weights"]).sum()
    total += stats.norm(0, 0.8).logpdf(point["thresholds"]).sum()
    total += stats.norm(0, 2.0 / math.sqrt(units)).logpdf(point["output_weights"]).sum()
    return float(total + stats.halfnorm(0, 0.7).logpdf(point["sigma"]))


def some_point(columns: int, units: int) -> dict[str, np.ndarray]:
    sizes = {"input_weights": (columns, units), "thresholds": units, "output_weights": units, "intercept": ()}
    return {name: RNG.normal(size=size) for name, size in sizes.items()} | {"sigma": np.array(0.6)}


@pytest.mark.parametrize(("columns", "units"), [(1, 1), (2, 3)])
def test_log_joint_against_scipy(columns: int, units: int) -> None:
    point = some_point(columns, units)
    expected = log_joint(point, X[:, :columns], units)
    assert LogJoint.from_model(network(columns, units)).logp(point) == pytest.approx(expected, rel=1e-12)


def test_standardised_features_and_priors_in_units_of_the_response() -> None:
    point = some_point(2, 2)
    one = LogJoint.from_model(NETWORK.build(dataset(2), units=2)).logp(point)
    scaled = dataset(2)
    scaled["x"] = 7.0 + 3.0 * scaled["x"]
    scaled["y"] = 10.0 * scaled["y"]
    stretched = {n: 10.0 * v if n in ("output_weights", "intercept", "sigma") else v for n, v in point.items()}
    other = LogJoint.from_model(NETWORK.build(scaled, units=2)).logp(stretched)
    assert other == pytest.approx(one - (12 + 2 + 1 + 1) * math.log(10.0), rel=1e-10)


def collapsed(x: np.ndarray, w: np.ndarray, c: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """log p(y | w, c, σ) of networks with one feature and one unit, intercept and output weight integrated out."""
    hidden = np.tanh(c[:, None] + w[:, None] * x)
    design = np.stack([np.full(hidden.shape, 1.5), 2.0 * hidden], axis=2) / sigma[:, None, None]
    off = (Y - 2.5) / sigma[:, None]
    inner = np.eye(2) + np.einsum("kni,knj->kij", design, design)
    right = np.einsum("kni,kn->ki", design, off)
    fitted = np.einsum("ki,ki->k", right, np.linalg.solve(inner, right[..., None])[..., 0])
    square = (off**2).sum(axis=1) - fitted
    return np.asarray(
        -0.5 * square
        - len(x) * np.log(sigma)
        - 0.5 * len(x) * math.log(2 * math.pi)
        - 0.5 * np.linalg.slogdet(inner)[1]
    )


@pytest.fixture(scope="module")
def one_unit() -> bk.Posterior:
    return bk.infer(network(1, 1), method="importance", random_seed=1)


@pytest.mark.slow
def test_evidence_of_one_unit_against_a_grid(one_unit: bk.Posterior) -> None:
    axes = np.linspace(-6.5, 6.5, 53), np.linspace(-4.5, 4.5, 43), np.linspace(-3.0, 1.5, 24)
    w, c, log_sigma = (a.ravel() for a in np.meshgrid(*axes, indexing="ij"))
    log_f = collapsed(X[:, 0], w, c, np.exp(log_sigma)) + stats.norm(0, 1.2).logpdf(w) + stats.norm(0, 0.8).logpdf(c)
    log_f += stats.halfnorm(0, 0.7).logpdf(np.exp(log_sigma)) + log_sigma
    expected = special.logsumexp(log_f) + sum(math.log(a[1] - a[0]) for a in axes)
    evidence = one_unit.log_evidence
    assert abs(evidence.value - expected) < 4 * evidence.error < 0.02
    assert evidence.convention == "over the mirror images of input_weights, thresholds"
    draws = one_unit.tree["posterior"]["sigma"].to_numpy().ravel()
    mean = special.softmax(log_f) @ np.exp(log_sigma)
    assert abs(draws.mean() - mean) < 4 * draws.std() / math.sqrt(draws.size)


def test_weights_change_their_signs_together(one_unit: bk.Posterior) -> None:
    """Half of the draws have either, and the curve does not know."""
    draws = one_unit.tree["posterior"].to_dataset().stack(sample=("chain", "draw"))
    weight, output = draws["input_weights"][0, 0].to_numpy(), draws["output_weights"][0].to_numpy()
    rises = weight * output
    assert np.mean(weight > 0) == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(weight.size))
    assert np.mean(rises > 0) > 0.99
    assert any("each of 2 signs of input_weights, thresholds" in note for note in one_unit.plan.notes)


def test_units_that_change_places_and_signs_leave_the_density_as_it_is() -> None:
    joint, point = LogJoint.from_model(network(2, 3)), some_point(2, 3)
    values = set()
    for order in itertools.permutations(range(3)):
        for signs in itertools.product([-1.0, 1.0], repeat=3):
            moved = {n: v if n in ("intercept", "sigma") else v[..., list(order)] * signs for n, v in point.items()}
            values.add(round(joint.logp(moved), 9))
    assert len(values) == 1


def test_the_plan_integrates_the_output_layer() -> None:
    plan = bk.explain(network(2, 2))
    assert plan.eliminated[0].variables == ("output_weights", "intercept")
    assert set(plan.remaining) == {"input_weights", "thresholds", "sigma"}
