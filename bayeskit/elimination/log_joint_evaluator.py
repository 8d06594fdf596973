"""The log joint density at a point and its gradient in the scales, compiled once a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.utils import ParameterValueError
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import toposort

from bayeskit.elimination.analysis import Analysis, Scale
from bayeskit.families.base import Parameters
from bayeskit.gaussian.block import latent_values
from bayeskit.graphs.chunked_sums import RowFunction, compile_rows
from bayeskit.graphs.compile import compile_small, vectorised
from bayeskit.graphs.extended_precision import compile_extended, compile_rounding
from bayeskit.graphs.gradient import gradient as gradient_of
from bayeskit.graphs.gradient import without_log_of_zero
from bayeskit.graphs.rewriting import depends_on
from bayeskit.model.log_joint import LogJoint
from bayeskit.types import Point

__all__ = ["Evaluator", "Point"]

ROUNDED = np.finfo(float).eps
EXTENDED_LIMIT = 100_000  # numbers in the data up to which the log density is evaluated in extended precision


class Evaluator:
    """Compiled once a model: log p(y, θ) over the active factors, and its gradient in the scales."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        joint = analysis.joint
        self.inputs = list(joint.values.values())
        active = [f for f in joint.factors if f not in analysis.ancestral]
        self.total = vectorised(pt.add(*[pt.sum(joint.factors[f]) for f in active], pt.constant(0.0)))
        self._rounding: Callable[..., float] | None = None

    def _arguments(self, point: Mapping[str, Any]) -> list[np.ndarray]:
        return latent_values(self.analysis.joint, point, self.analysis.shapes)

    @cached_property
    def _by_rows(self) -> RowFunction | None:
        large = self.analysis.joint.data_size > EXTENDED_LIMIT
        return compile_rows(self.inputs, [self.total]) if large else None

    @cached_property
    def _log_joint(self) -> Any:
        if self.analysis.joint.data_size <= EXTENDED_LIMIT:
            return compile_extended(self.inputs, self.total)
        by_rows = self._by_rows
        return compile_small(self.inputs, self.total) if by_rows is None else lambda *arguments: by_rows(*arguments)[0]

    def log_joint(self, point: Mapping[str, Any]) -> Any:
        """log p(y, θ) without the factors of variables that are drawn forward, in extended precision for small data.

        With many rows the log evidence is large itself, so that double precision is enough relative to it.
        """
        try:
            with np.errstate(all="ignore"):
                return self._log_joint(*self._arguments(point))
        except (ParameterValueError, np.linalg.LinAlgError):
            return -np.inf

    def log_joints(self, points: Sequence[Mapping[str, Any]]) -> list[Any]:
        """log p(y, θ) at each of several points; of many rows, each is read once for all of them."""
        if points and self._by_rows is not None:
            with np.errstate(all="ignore"), suppress(ParameterValueError, np.linalg.LinAlgError):
                return [value for (value,) in self._by_rows.at([self._arguments(point) for point in points])]
        return [self.log_joint(point) for point in points]

    def rounding(self, log_evidence: Any, point: Point, parameters: Mapping[str, Parameters]) -> float:
        """How far log p(y) = log p(y, θ) − log p(θ | y) at a point may be off, of which the certificate shows a part.

        Terms that cancel and are the same at every θ, log Γ of a count of a million, are rounded alike everywhere.
        ``parameters`` are those of the posterior of each scale.
        """
        if (size := self.analysis.joint.data_size) > EXTENDED_LIMIT:
            return float(ROUNDED * (size + abs(log_evidence)))
        if not self.analysis.original.names:
            # PyMC computes with constants when it derives a density: a covariance is rounded before it is seen.
            return compile_rounding([], LogJoint.from_model(self.analysis.original.model, fold=1).total)(log_evidence)
        known = [s for s in self.analysis.scales if s.family.log_density_graph is not None]
        value, densities, given = log_evidence, [], [v for s in known for v in parameters[s.name].values()]
        if self.analysis.blocks or len(known) < len(self.analysis.scales):
            value = self.log_joint(point)
            value -= sum(np.sum(s.family.log_density(parameters[s.name], point[s.name])) for s in known)
        if self._rounding is None:
            symbols = [pt.TensorType("float64", np.shape(v))() for v in given]
            unused = iter(symbols)
            for s in known:
                assert s.family.log_density_graph is not None
                named = {k: next(unused) for k in parameters[s.name]}
                densities.append(pt.sum(s.family.log_density_graph(named, self.analysis.joint.values[s.name])))
            self._rounding = compile_rounding([*self.inputs, *symbols], self.total - pt.add(*densities, 0.0))
        return self._rounding(value, *self._arguments(point), *given) + ROUNDED * float(abs(value - log_evidence))

    @property
    def differentiated(self) -> list[Scale]:
        """The scales that the gradient is taken in."""
        return [s for s in self.analysis.scales if s.family.from_values is None]

    @cached_property
    def _gradient(self) -> tuple[Any, Any]:
        """Two functions: everything that does not depend on the scales, and from it and them the gradients."""
        scales = [self.analysis.joint.values[s.name] for s in self.differentiated]
        total = without_log_of_zero(self.total, depends_on([self.total], self.inputs))
        gradient = gradient_of(total, scales)
        by_rows = compile_rows(self.inputs, gradient)
        if by_rows is not None:
            # Residuals are computed again at every anchor, in the cache, rather than written to memory and held.
            return (lambda *arguments: []), by_rows.at
        # The residuals y − Xθ̂ need not be computed again at every anchor.
        cut = _frontier(gradient, depends_on(gradient, self.inputs), set(scales))
        function = compile_small([*self.inputs, *cut], gradient)
        return compile_small(self.inputs, cut), lambda several: [function(*arguments) for arguments in several]

    def gradients_at(self, point: Mapping[str, Any]) -> Callable[[Sequence[Point]], list[Point]]:
        """∂/∂φ log p(y, θ) at each of several scales φ, all else held at ``point``."""
        fixed, function = self._gradient
        with np.errstate(all="ignore"):
            unchanged = fixed(*self._arguments(point))

        def gradients(several: Sequence[Point]) -> list[Point]:
            with np.errstate(all="ignore"):
                found = function([[*self._arguments({**point, **scales}), *unchanged] for scales in several])
            names = [s.name for s in self.differentiated]
            return [dict(zip(names, map(np.asarray, values), strict=True)) for values in found]

        return gradients


def _frontier(graphs: list[Variable], dependence: Mapping[Variable, Any], moving: set[Variable]) -> list[Variable]:
    """The computed nodes that depend on latent variables but not on the moving ones, and feed a node that does."""
    frontier: dict[Variable, None] = {}
    for node in toposort(graphs):
        if any(dependence.get(i, frozenset()) & moving for i in node.inputs):
            fixed = [i for i in node.inputs if (d := dependence.get(i)) and not d & moving]
            frontier.update((i, None) for i in fixed if i.owner is not None)
    return list(frontier)
