r"""The collapsed density of a model as a function of the numbers η that its priors are written with, too.

.. math:: L(\phi, \eta) = \log \int p(y, \theta, \phi \mid \eta) \, d\theta

The numbers are variables of the model, of a density that is one, and what has a closed form given φ is integrated out
for all of their values at once. The certificate holds it to PyMC's own density, with numbers that are moved. Only the
terms of L that a number enters are evaluated for it: often the prior of one variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors

from bayeskit.elimination.certificate import certify_collapsed
from bayeskit.elimination.collapsed_density import Collapsed, collapsed_density
from bayeskit.elimination.recovery import Recovery
from bayeskit.graphs.diagonal_matrices import diagonals_as_choices
from bayeskit.graphs.environment import lightly, on_one_thread, silently
from bayeskit.graphs.rewriting import inline, widen, without_checks
from bayeskit.model.data_slots import with_constants
from bayeskit.model.forward_sampling import over_draws
from bayeskit.model.prior_constants import PriorConstant, prior_constants, with_variables
from bayeskit.results.records import Posterior
from bayeskit.results.tree import stacked_draws
from bayeskit.types import Draws

__all__ = ["DensityOfPriors"]

AT_ONCE = 20_000_000  # numbers held
CERTIFIED, MOVED = 4, 0.1  # draws, and the share by which the numbers are moved at them


@dataclass(frozen=True, eq=False)
class DensityOfPriors:
    """L, its terms compiled as they are asked for."""

    collapsed: Collapsed
    variables: Mapping[str, str]  # that stand for the numbers, by the numbers' names
    written: Draws  # the numbers, by these variables; of those that are no part, too
    certificate: float
    _compiled: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, post: Posterior, constants: Sequence[PriorConstant]) -> DensityOfPriors | None:
        """Of a posterior's model with its data; None where the numbers as variables make another plan, or no proof.

        Numbers that move what a remaining variable is transformed from, such as the ends of its support, are no part.
        """
        model = with_constants(post.model, containers=False)
        own = {place: constant for constant in prior_constants(model).values() for place in constant.places}
        same = {c.name: n for c in constants if (n := own.get(c.places[0])) is not None and n.places == c.places}
        variables = {name: n.name for name, n in same.items()}
        if not variables:
            return None
        written = {n.name: np.asarray(n.value, dtype=float) for n in same.values()}
        try:
            with lightly(), on_one_thread(), silently():
                analysis = post.analysis.analyse(with_variables(model, variables.values()))
                if {*analysis.plan.remaining} != {*post.analysis.plan.remaining, *variables.values()}:
                    return None
                collapsed = collapsed_density(analysis)
                certificate = _certificate(post, collapsed, written)
        except Exception:  # whatever it is, there is another way, which is slower
            return None
        fixed = _in_transforms(collapsed, post.analysis.plan.remaining)
        moving = {n: v for n, v in variables.items() if v not in fixed}
        return cls(collapsed, moving, written, certificate)

    def terms(self, name: str, numbers: Mapping[str, np.ndarray], phi: Draws) -> np.ndarray:
        """The terms of L that a number enters, with some numbers changed, at values of φ, first axis these."""
        rows = len(next(iter(phi.values())))
        now = self.written | {self.variables[n]: v for n, v in numbers.items()}
        values = {v: np.broadcast_to(number, (rows, *np.shape(number))) for v, number in now.items()}
        step, total = max(1, AT_ONCE // self.collapsed.weight), np.zeros(rows)
        for function in self._functions(name):
            for start in range(0, rows, step):
                part = {n: v[start : start + step] for n, v in (phi | values).items()}
                total[start : start + step] += function(part, len(next(iter(part.values()))))[0]
        return total

    def _functions(self, name: str) -> list[Any]:
        joint = self.collapsed.analysis.joint
        variable = joint.values[self.variables[name]]
        found = []
        for k, graph in enumerate(self._graphs):
            if variable in ancestors([graph]):
                if k not in self._compiled:
                    plain = diagonals_as_choices(without_checks(inline(widen([graph])))[0])
                    self._compiled[k] = over_draws([plain], {n: joint.values[n] for n in self.collapsed.remaining})
                found.append(self._compiled[k])
        return found

    @cached_property
    def _graphs(self) -> list[Any]:
        factors = self.collapsed.analysis.joint.factors
        return [self.collapsed.likelihood, *(pt.sum(factors[n]) for n in self.collapsed.priors)]


def _certificate(post: Posterior, collapsed: Collapsed, numbers: Mapping[str, np.ndarray]) -> float:
    """The largest spread of L at draws of the posterior at which all numbers are moved a little."""
    rng = np.random.default_rng(post.random_seed)
    phi = stacked_draws(post.tree["posterior"], post.analysis.plan.remaining)
    points = {n: v[:CERTIFIED] for n, v in phi.items()}
    for name, value in numbers.items():
        by = rng.uniform(-MOVED, MOVED, size=(CERTIFIED, *value.shape))
        points[name] = np.where(value == 0, by, value * (1 + by))
    recovery = Recovery(collapsed)
    return certify_collapsed(recovery, recovery.draw(points, rng), post.random_seed or 0)


def _in_transforms(collapsed: Collapsed, remaining: Iterable[str]) -> set[str]:
    """The numbers that the transforms of remaining variables depend on."""
    model, found = collapsed.analysis.original.model, set[str]()
    free = {rv: str(rv.name) for rv in model.free_RVs}
    for rv in [model[n] for n in remaining]:
        if (transform := model.rvs_to_transforms.get(rv)) is not None:
            moved = transform.backward(model.rvs_to_values[rv], *rv.owner.inputs)
            found |= {free[v] for v in ancestors([moved]) if v in free}
    return found
