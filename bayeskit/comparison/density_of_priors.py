r"""The collapsed density of a model as a function of the numbers η that its priors are written with, too.

.. math:: L(\phi, \eta) = \log \int p(y, \theta, \phi \mid \eta) \, d\theta

The numbers are variables of the model, of a density that is one, and what has a closed form given φ is integrated out
for all of their values at once. The certificate holds it to PyMC's own density, with numbers that are moved. Only the
terms of L that a number enters are evaluated for it: often the prior of one variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions import transforms
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
from bayeskit.terminal import let_alarms_through
from bayeskit.types import Draws

__all__ = ["DensityOfPriors"]

AT_ONCE = 20_000_000  # numbers held
CERTIFIED, MOVED = 4, 0.1  # draws, and the share by which the numbers are moved at them


@dataclass(frozen=True, eq=False)
class DensityOfPriors:
    """L, its terms compiled as they are asked for."""

    collapsed: Collapsed
    variables: Mapping[str, str]  # that stand for the numbers, by the numbers' names
    written: Draws  # the numbers, by these variables
    certificate: float
    centres: Mapping[str, float]  # means of priors that are numbers, by their variables
    _compiled: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, post: Posterior, constants: Sequence[PriorConstant]) -> DensityOfPriors | None:
        """Of a posterior's model with its data; None where the numbers as variables make another plan, or no proof.

        Numbers that move an end of a remaining variable's support move its values, too: its place on the line is held.
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
                means = {place.removesuffix(".mu"): c.value for place, c in own.items() if place.endswith(".mu")}
                centres = {name: float(value) for name, value in means.items() if np.ndim(value) == 0}
                found = cls(collapsed, variables, written, _certificate(post, collapsed, written), centres)
                _ = found._natural  # compiled, if it can be
        except Exception as error:  # whatever it is, there is another way, which is slower
            let_alarms_through(error)
            return None
        return found

    def terms(self, name: str | None, numbers: Mapping[str, np.ndarray], x: Draws) -> np.ndarray:
        """The terms of the density on the line that a number enters, with some numbers changed; all, without a name.

        ``x`` are values of the remaining variables as PyMC moves them, first axis these.
        """
        values, rows = self._values(numbers, x), len(next(iter(x.values())))
        step, total = max(1, AT_ONCE // self.collapsed.weight), np.zeros(rows)
        for start in range(0, rows, step):
            part = {n: v[start : start + step] for n, v in values.items()}
            place, jacobian = self._at(part)
            number = len(jacobian)
            if moves := name is None or self.variables[name] in self._in_transforms:
                total[start : start + step] += jacobian
            for function in self._functions(None if moves else name):
                total[start : start + step] += function(place, number)[0]
        return total

    def places(self, numbers: Mapping[str, np.ndarray], x: Draws) -> Draws:
        """The remaining variables where PyMC's values of them are ``x``."""
        place, _ = self._at(self._values(numbers, x))
        return {n: place[n] for n in x}

    def _values(self, numbers: Mapping[str, np.ndarray], x: Draws) -> Draws:
        rows = len(next(iter(x.values())))
        now = self.written | {self.variables[n]: v for n, v in numbers.items()}
        return x | {v: np.broadcast_to(number, (rows, *np.shape(number))) for v, number in now.items()}

    def _at(self, values: Draws) -> tuple[Draws, np.ndarray]:
        *place, jacobian = self._natural(values, len(next(iter(values.values()))))
        return dict(zip(self.collapsed.remaining, place, strict=True)), jacobian

    def _functions(self, name: str | None) -> list[Any]:
        joint = self.collapsed.analysis.joint
        variable = None if name is None else joint.values[self.variables[name]]
        found = []
        for k, graph in enumerate(self._graphs):
            if variable is None or variable in ancestors([graph]):
                if k not in self._compiled:
                    plain = diagonals_as_choices(without_checks(inline(widen([graph])))[0])
                    self._compiled[k] = over_draws([plain], {n: joint.values[n] for n in self.collapsed.remaining})
                found.append(self._compiled[k])
        return found

    @cached_property
    def _natural(self) -> Any:
        """The values of what remains, and the log Jacobian, from the values that PyMC moves."""
        model = self.collapsed.analysis.original.model
        rvs = [model[n] for n in self.collapsed.remaining]
        for rv in rvs:  # as in the collapsed model that is integrated
            if isinstance(model.rvs_to_transforms.get(rv), transforms.CircularTransform):
                model.rvs_to_transforms[rv] = transforms.Interval(-np.pi, np.pi)
        moved = {rv: model.rvs_to_transforms.get(rv) for rv in rvs}
        slopes = [t.log_jac_det(model.rvs_to_values[rv], *rv.owner.inputs) for rv, t in moved.items() if t is not None]
        with lightly():
            graphs = model.replace_rvs_by_values([*rvs, pt.add(*map(pt.sum, slopes), 0.0)])
            plain = without_checks(inline(widen(list(graphs))))
            return over_draws(plain, {str(rv.name): model.rvs_to_values[rv] for rv in rvs})

    @cached_property
    def _in_transforms(self) -> set[str]:
        """The numbers that the transforms of remaining variables depend on."""
        model, found = self.collapsed.analysis.original.model, set[str]()
        free = {rv: str(rv.name) for rv in model.free_RVs}
        for rv in [model[n] for n in self.collapsed.remaining]:
            if (transform := model.rvs_to_transforms.get(rv)) is not None:
                moved = transform.backward(model.rvs_to_values[rv], *rv.owner.inputs)
                found |= {free[v] for v in ancestors([moved]) if v in free}
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
