"""What PyMC derived once holds for other data of the same types, and for nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.sparse
import pytest
from scipy import sparse

from bayeskit.model.derivation import MOST, Derivations
from bayeskit.model.log_joint import LogJoint

ROWS = np.random.default_rng(1).normal(size=(7, 3))
OTHERS = np.random.default_rng(2).normal(size=(7, 3)) * 3.0
AT = {"variance": np.array(1.3), "weights": np.array([0.4, -2.0])}


def regression(rows: np.ndarray, scale: float = 2.0, family: Any = pm.Normal, name: str = "y") -> pm.Model:
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 1.0)
        weights = pm.Normal("weights", 0.0, scale, shape=2)
        mean = pm.Deterministic("mean", rows[:, :2] @ weights)
        family(name, mean, pm.math.sqrt(variance), observed=rows[:, 2])
    return model


def read(model: pm.Model, known: Derivations) -> LogJoint:
    return LogJoint.from_model(model, as_they_are=True, known=known)


def test_other_numbers_are_not_derived_again_and_have_their_own_density() -> None:
    known = Derivations()
    first, second = read(regression(ROWS), known), read(regression(OTHERS), known)
    assert len(known.known) == 1
    assert first.values == second.values
    for joint, rows in ((first, ROWS), (second, OTHERS)):
        alone = LogJoint.from_model(regression(rows))
        assert joint.logp(AT) == pytest.approx(alone.logp(AT), rel=1e-13)
    assert first.logp(AT) != pytest.approx(second.logp(AT))


CONTAINER = np.array([1.0, 2.0])


def in_a_container(rows: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        scale = pm.Data("scale", rows[0, :2])
        weights = pm.Normal("weights", 0.0, pm.math.abs(scale), shape=2)
        pm.Normal("y", rows[:, :2] @ weights, 1.0, observed=rows[:, 2])
    return model


def with_own_density(power: float) -> Callable[[np.ndarray], pm.Model]:
    def build(rows: np.ndarray) -> pm.Model:
        def density(value: Any, mean: Any) -> Any:
            return -(pm.math.abs(value - mean) ** power)

        with pm.Model() as model:
            weights = pm.Normal("weights", 0.0, 1.0, shape=2)
            pm.CustomDist("y", rows[:, :2] @ weights, logp=density, observed=rows[:, 2])
        return model

    return build


def with_a_potential(rows: np.ndarray) -> pm.Model:
    model = regression(rows)
    with model:
        pm.Potential("pull", -pm.math.sum((model["weights"] - rows[0, :2] * 10.0) ** 2))
    return model


def grid(shape: tuple[int, int]) -> pm.Model:
    """Of which the lengths are a vector, as large a constant as a column."""
    with pm.Model() as model:
        weights = pm.Normal("weights", 0.0, 1.0, shape=shape)
        pm.Normal("y", weights[[0, 1, 1], [1, 0, 1]], 1.0, observed=ROWS[:3, 2])
    return model


def with_a_sparse_potential(rows: np.ndarray) -> pm.Model:
    model = regression(rows)
    with model:
        pull = pytensor.sparse.dot(sparse.csr_matrix(rows[:, :2]), model["weights"][:, None])
        pm.Potential("pull", -pm.math.sum(pull**2))
    return model


NEAR_MISSES = {
    "a sparse Potential of data": (lambda: with_a_sparse_potential(ROWS), lambda: with_a_sparse_potential(OTHERS)),
    "other lengths": (lambda: grid((2, 3)), lambda: grid((3, 2))),
    "another prior": (lambda: regression(ROWS), lambda: regression(OTHERS, scale=3.0)),
    "another family": (lambda: regression(ROWS), lambda: regression(OTHERS, family=pm.Laplace)),
    "other rows": (lambda: regression(ROWS), lambda: regression(OTHERS[:5])),
    "single precision": (lambda: regression(ROWS), lambda: regression(OTHERS.astype("float32"))),
    "a container": (lambda: in_a_container(ROWS), lambda: in_a_container(OTHERS)),
    "one's own density": (lambda: with_own_density(1.0)(ROWS), lambda: with_own_density(1.5)(OTHERS)),
    "a Potential of data": (lambda: with_a_potential(ROWS), lambda: with_a_potential(OTHERS)),
    "another name": (lambda: regression(ROWS), lambda: regression(OTHERS, name="z")),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", NEAR_MISSES)
def test_what_is_another_model_is_derived_anew(case: str) -> None:
    one, two = NEAR_MISSES[case]
    known = Derivations()
    read(one(), known)
    joint, alone = read(two(), known), LogJoint.from_model(two())
    at = {n: AT[n] for n in joint.names}
    if case == "other lengths":
        at["weights"] = np.arange(6.0).reshape(3, 2)
    assert {n: v.type for n, v in joint.values.items()} == {n: v.type for n, v in alone.values.items()}
    assert joint.logp(at) == pytest.approx(alone.logp(at), rel=1e-13)
    assert joint.factors.keys() == alone.factors.keys()


def test_few_are_kept_and_none_is_sent_to_another_process() -> None:
    known = Derivations()
    for rows in range(2, 2 + MOST + 3):
        read(regression(np.resize(ROWS, (rows, 3))), known)
    assert len(known.known) == MOST
    assert not pickle.loads(pickle.dumps(known)).known
