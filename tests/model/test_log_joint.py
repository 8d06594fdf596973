"""The density that everything is proved from is PyMC's own: one law over every model with a known answer.

PyMC's side is ``model.compile_logp`` of the same model without transforms. As the model is written, PyMC's graph keeps
15.0 as a float32 and is off by 1e-8 for it; built again with PyTensor told to keep float64, it agrees to rounding.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytest
from cases import CASES
from pytensor.compile.mode import Mode

from bayeskit.errors import ModelError
from bayeskit.graphs.extended_precision import compile_extended
from bayeskit.model.log_joint import LogJoint

# The graph as PyMC made it, node by node, in Python: no rewrite that is not PyMC's own.
AS_IT_IS = Mode(linker="py", optimizer=None)
# A million rows are the same graph as their neighbours'.
BY_NAME = {case.name: case for case in CASES if "million rows" not in case.name}
every_case = pytest.mark.parametrize("name", BY_NAME)
POINTS = 3


def without_transforms(model: pm.Model) -> pm.Model:
    """The model, each of whose values is the variable itself."""
    for rv in model.free_RVs:
        value = rv.type(name=rv.name)
        old = model.rvs_to_values[rv]
        model.rvs_to_values[rv], model.rvs_to_transforms[rv] = value, None
        del model.values_to_rvs[old]
        model.values_to_rvs[value] = rv
    return model


def built(name: str, cast_policy: str) -> tuple[list[dict[str, np.ndarray]], list[float]]:
    """Draws from the prior and PyMC's own log joint density there."""
    with pytensor.config.change_flags(cast_policy=cast_policy):
        model = BY_NAME[name].build()
        draws = pm.draw(model.free_RVs, draws=POINTS, random_seed=20, mode=AS_IT_IS)
        points = [{rv.name: d[k] for rv, d in zip(model.free_RVs, draws, strict=True)} for k in range(POINTS)]
        log_density = without_transforms(model).compile_logp(jacobian=False, mode=AS_IT_IS)
        return points, [float(log_density(p)) for p in points]


def test_no_case_is_lost() -> None:
    assert len(BY_NAME) >= 149


@pytest.mark.slow
@every_case
def test_it_is_the_density_of_pymc(name: str) -> None:
    joint = LogJoint.from_model(BY_NAME[name].build())
    extended = compile_extended(list(joint.values.values()), joint.total)
    points, expected = built(name, "numpy+floatX")
    assert np.all(np.isfinite(expected))
    for point, value in zip(points, expected, strict=True):
        assert joint.logp(point) == pytest.approx(value, rel=1e-14)
        arguments = [np.asarray(point[n], dtype=v.type.dtype) for n, v in joint.values.items()]
        assert float(extended(*arguments)) == pytest.approx(value, rel=1e-12)


def test_shapes_of_flat_priors_with_dims() -> None:
    """Their lengths are known though they cannot be drawn."""
    with pm.Model(coords={"k": range(3)}) as model:
        weights = pm.Flat("weights", dims="k")
        pm.HalfFlat("scale", shape=model.dim_lengths["k"] + 1)
        pm.Normal("y", weights, 1.0, observed=np.zeros(3))
    assert LogJoint.from_model(model).shapes() == {"weights": (3,), "scale": (4,)}


def test_a_variable_that_cannot_be_drawn_is_named() -> None:
    """Its length is known from a dim, so it is drawn; those before it are not blamed."""
    with pm.Model(coords={"k": range(3)}) as model:
        pm.Flat("level")
        pm.Normal("fine", 0.0, 1.0, dims="k")
        effect = pm.Normal("effect", 0.0, -1.0, dims="k")
        pm.Normal("y", effect, 1.0, observed=np.zeros(3))
    with pytest.raises(
        ModelError, match=r"^'effect' has no shape, for it cannot be drawn: scale < 0; check the numbers"
    ):
        LogJoint.from_model(model).shapes()
