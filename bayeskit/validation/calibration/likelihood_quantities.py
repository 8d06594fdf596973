r"""Three quantities of all parameters together, which see errors that each parameter alone does not show.

.. math:: \log p(\theta), \qquad \log p(y \mid \theta), \qquad \log p(\tilde y \mid \theta), \quad
          \tilde y \sim p(\cdot \mid \theta)

The first gathers what is wrong with every entry of a vector. The second is that of the data that a posterior was given:
a sampler that ignores some of the data may be well calibrated in every parameter, and is not in it. The third is that
of new data ỹ of the same shapes: with a known variance that is wrong, the posterior of the mean may be nearly right,
but what it predicts is not like new data of the truth.

Source: Modrák, Moon, Kim, Bürkner, Huurre, Faltejsková, Gelman and Vehtari (2025), "Simulation-based calibration
checking for Bayesian computation: the choice of test quantities shapes sensitivity", Bayesian Analysis 20.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace

from bayeskit.graphs.compile import compile_stacked
from bayeskit.graphs.environment import lightly, silently
from bayeskit.graphs.rewriting import without_checks
from bayeskit.model.data_slots import with_slots
from bayeskit.model.forward_sampling import sampler_given
from bayeskit.model.log_joint import LogJoint

__all__ = ["LIKELIHOOD", "NEW_DATA", "PRIOR", "log_densities_of", "new_data_of"]

PRIOR, LIKELIHOOD, NEW_DATA = "log prior", "log likelihood", "log likelihood of new data"

type _Arrays = Mapping[str, np.ndarray]


def log_densities_of(
    model: pm.Model, data_names: Mapping[str, str]
) -> Callable[[_Arrays, _Arrays], tuple[np.ndarray, np.ndarray]]:
    """A function of stacked draws of the free variables, and of data for each draw: log p(θ) and log p(y | θ) of each.

    ``data_names`` are those of the containers, or slots, that the observed variables have their data from.

    A NotImplementedError where the graphs cannot be evaluated at many draws at once.
    """
    try:
        with lightly():
            copy, slots = with_slots(model)
            joint = LogJoint.from_model(copy)
            names = [str(rv.name) for rv in copy.observed_RVs]
            inputs: dict[Any, Any] = {
                slots[of]: pt.TensorType(slots[of].type.dtype, slots[of].type.shape)(n) for n, of in data_names.items()
            }
            totals = [_total(joint, of) for of in (joint.names, names)]
            totals = graph_replace(totals, inputs, strict=False)
            free = {n: joint.values[n] for n in joint.names}
            function = compile_stacked([*free.values(), *inputs.values()], totals)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise NotImplementedError(str(error).partition("\n")[0]) from error

    def at(draws: _Arrays, data: _Arrays) -> tuple[np.ndarray, np.ndarray]:
        points = [np.asarray(draws[n], dtype=v.type.dtype) for n, v in free.items()]
        observed = [np.asarray(data[str(v.name)], dtype=v.type.dtype) for v in inputs.values()]
        with silently():
            prior, likelihood = function(*points, *observed)
        number = len(observed[0])
        return np.broadcast_to(prior, number).astype(float), np.broadcast_to(likelihood, number).astype(float)

    return at


def _total(joint: LogJoint, names: Sequence[str]) -> Any:
    factors: Any = without_checks([joint.factors[n] for n in names])
    return sum((factor.sum() for factor in factors), pt.as_tensor(0.0))


def new_data_of(model: pm.Model) -> Callable[[_Arrays, np.random.Generator], dict[str, np.ndarray]]:
    """A function of stacked draws of the free variables: data drawn given each of them."""
    with lightly():
        draw = sampler_given(
            model, [str(rv.name) for rv in model.observed_RVs], [str(rv.name) for rv in model.free_RVs]
        )

    def drawn(draws: _Arrays, rng: np.random.Generator) -> dict[str, np.ndarray]:
        with silently():
            return draw(draws, rng, len(next(iter(draws.values()))))

    return drawn
