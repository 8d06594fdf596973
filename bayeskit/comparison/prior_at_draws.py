r"""The log density of the priors at draws of a posterior, as a function of the numbers that they are written with.

.. math::
    \frac{p(y \mid \eta')}{p(y \mid \eta)} =
    E\!\left[\frac{p(\theta \mid \eta')}{p(\theta \mid \eta)} \;\middle|\; y, \eta\right],
    \qquad
    \frac{\partial \log p(y \mid \eta)}{\partial \eta} =
    E\!\left[\frac{\partial \log p(\theta \mid \eta)}{\partial \eta} \;\middle|\; y, \eta\right].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.logprob.utils import ParameterValueError
from pytensor.graph.traversal import graph_inputs

from bayeskit.errors import ModelError
from bayeskit.graphs.environment import lightly
from bayeskit.marginal_likelihood.prior_mass import PriorMass, prior_mass
from bayeskit.model.data_slots import with_constants
from bayeskit.model.forward_sampling import over_draws
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.prior_constants import prior_constant, with_containers, with_values
from bayeskit.results.records import Posterior
from bayeskit.results.tree import stacked_draws

__all__ = ["PriorAtDraws"]

FEW = 50  # draws at which it is seen whether a number may have a value


@dataclass(frozen=True, eq=False)
class PriorAtDraws:
    """What of the log joint density some numbers enter, at draws of a posterior."""

    model: pm.Model  # with the posterior's data
    draws: xr.Dataset
    _terms: dict[str, Callable[[np.ndarray, int], np.ndarray]] = field(default_factory=dict)

    @classmethod
    def of(cls, post: Posterior) -> PriorAtDraws:
        """A posterior's; its model has the data of the posterior now."""
        if "posterior" not in post.tree.children:
            raise ModelError("there are no draws to see the priors at; infer with draws=4000")
        return cls(with_constants(post.model), post.tree["posterior"].to_dataset())

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of chains and of draws of each."""
        return self.draws.sizes["chain"], self.draws.sizes["draw"]

    def log_density(self, name: str, value: np.ndarray) -> np.ndarray:
        """The terms of the log joint density that a number enters, at the draws, with another value.

        Priors are normalised where a transform restricts them, too. A ParameterValueError if the number may not have
        that value; not a number where what a prior integrates to is not known.
        """
        return self._as_written(name, value, math.prod(self.shape)) - self._log_mass(name, value)

    def _as_written(self, name: str, value: np.ndarray, number: int) -> np.ndarray:
        """PyMC's density, which need not be normalised, at the first draws."""
        if name not in self._terms:
            with lightly():
                self._terms[name] = self._terms_of(name)
        return self._terms[name](np.asarray(value, dtype=float), number)

    @cached_property
    def _masses(self) -> dict[str, PriorMass]:
        return _masses_of(self.model)

    def _log_mass(self, name: str, value: np.ndarray) -> float:
        """What priors that a number enters and that are not normalised by their distribution integrate to."""
        constant = prior_constant(self.model, name) if self._masses else None
        own = {place.partition(".")[0] for place in constant.places} & {*self._masses} if constant is not None else ()
        if not own:
            return 0.0
        moved = _masses_of(with_values(self.model, {name: value}))
        return math.nan if any(moved[n].reason for n in own) else sum(moved[n].log_mass for n in own)

    def _terms_of(self, name: str) -> Callable[[np.ndarray, int], np.ndarray]:
        try:
            joint = LogJoint.from_model(with_containers(self.model, [name]))
        except ModelError:  # PyMC has the density for a number that is known only
            return self._anew(name)
        slot: Any = joint.model[name]
        affected = [g for g in joint.factors.values() if slot in graph_inputs([g])]
        evaluate, draws = _over(joint, affected), stacked_draws(self.draws, joint.names)

        def terms(value: np.ndarray, number: int) -> np.ndarray:
            slot.set_value(value.astype(slot.type.dtype))
            return evaluate(draws, number)

        return terms

    def _anew(self, name: str) -> Callable[[np.ndarray, int], np.ndarray]:
        def terms(value: np.ndarray, number: int) -> np.ndarray:
            joint = LogJoint.from_model(with_values(self.model, {name: value}))
            return _over(joint, list(joint.factors.values()))(stacked_draws(self.draws, joint.names), number)

        return terms

    def why_not(self, name: str, value: np.ndarray) -> str:
        """Why a number may not have a value; empty where it may."""
        if not np.all(np.isfinite(value)):
            return "it must be finite"
        try:
            with np.errstate(all="ignore"):
                found = self._as_written(name, value, min(FEW, math.prod(self.shape)))
        except (ParameterValueError, ValueError, np.linalg.LinAlgError) as error:
            return str(error).splitlines()[0]
        return "its prior has no density there" if np.all(np.isnan(found)) else ""

    def is_scale(self, name: str, value: np.ndarray) -> bool:
        """Whether a number is above zero and may be a thousand times larger or smaller, but not below zero."""
        if not np.all(value > 0) or not self.why_not(name, -value):
            return False
        return not any(self.why_not(name, value * by) for by in (1e-3, 1e3))


def _masses_of(model: pm.Model) -> dict[str, PriorMass]:
    joint = LogJoint.from_model(model)
    found = {name: prior_mass(joint, name) for name in joint.names}
    return {name: mass for name, mass in found.items() if mass is not None}


def _over(joint: LogJoint, factors: list[Any]) -> Callable[[dict[str, np.ndarray], int], np.ndarray]:
    evaluate = over_draws([pt.add(*[pt.sum(g) for g in factors], 0.0)], joint.values)
    return lambda draws, number: np.asarray(evaluate({n: v[:number] for n, v in draws.items()}, number)[0], float)
