"""log p(y | η) of a posterior by quadrature, as a function of the numbers η of its priors: sums over nodes that it has.

The nodes of the posterior serve numbers nearby (:mod:`bayeskit.quadrature.shared_nodes`); where they do not reach far
or are not close enough, which their own sum shows, an integral with other numbers is made, whose nodes serve further
ones. Between two numbers at which the sum was compared with an integral of its own it is believed. Close to the numbers
that a model was written with it needs no comparison: what it sums is proved for all of them, and the modes are those of
the posterior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from bayeskit.comparison.density_of_priors import DensityOfPriors
from bayeskit.elimination.analysis import Analysis
from bayeskit.graphs.environment import lightly, on_one_thread, silently
from bayeskit.inference.ladder import answer
from bayeskit.inference.quadrature import collapsed_integral
from bayeskit.marginal_likelihood.conventions import audit, stated
from bayeskit.model.prior_constants import PriorConstant
from bayeskit.model.snapshot import restored
from bayeskit.quadrature.counted_density import NotIntegrable
from bayeskit.quadrature.shared_nodes import SharedNodes
from bayeskit.results.log_evidence import LogEvidence
from bayeskit.results.records import Posterior
from bayeskit.types import Draws

__all__ = ["EvidenceOnNodes", "agree"]

ACCEPTABLE = 1e-6  # nats that a sum over nodes may be off
OF_THREE = 1e-5  # over three numbers and far from those as written, where an integral of its own may be off as much
CLOSE = 10.0  # times the error of the posterior that it may be off, and of its nodes before others are tried
AGREE = 1e-8  # relative, by which two ways to one number may differ beside their errors
SAME = 1e-9  # relative, by which two ways to one place may differ
SETS = 12  # of nodes for one number, at most


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of an integral with some value of a number."""

    nodes: SharedNodes
    x: Draws  # the remaining variables at them, as PyMC moves them
    value: np.ndarray
    terms: np.ndarray  # of the density that the number enters, with that value


@dataclass(frozen=True, eq=False)
class EvidenceOnNodes:
    """Sums over nodes, and whole answers where they do not serve."""

    post: Posterior
    density: DensityOfPriors
    moved: Callable[[PriorConstant, np.ndarray], Analysis]  # the model with another value of a number
    nearby: bool  # whether only values close to those as written are asked for
    _nodes: dict[str, list[_Nodes]] = field(default_factory=dict)
    # The least and the largest value of a number that were compared, and the largest error of the whole answers.
    _seen: dict[str, tuple[np.ndarray, np.ndarray, float]] = field(default_factory=dict)
    _refused: set[str] = field(default_factory=set)

    def __call__(self, constant: PriorConstant, value: np.ndarray) -> LogEvidence:
        name, value = constant.name, np.asarray(value, dtype=float)
        quick = self._quick(constant, value)
        least, most, error = self._seen.get(name, (constant.value, constant.value, 0.0))
        if quick is not None and (self.nearby or (np.all(least <= value) and np.all(value <= most))):
            return replace(quick, error=max(quick.error, error))
        analysis = self.moved(constant, value)
        found = answer(analysis, "quadrature").log_evidence
        if quick is not None and not agree(quick, found):
            self._refused.add(name)
        if self._serves(name):
            self._seen[name] = np.minimum(least, value), np.maximum(most, value), max(error, found.error)
            self._add(analysis, constant, value)
        return found

    def _serves(self, name: str) -> bool:
        return name in self.density.variables and name not in self._refused

    def _add(self, analysis: Analysis, constant: PriorConstant, value: np.ndarray) -> None:
        """The nodes of an integral with some value of a number."""
        known = self._nodes.setdefault(constant.name, [])
        if len(known) == SETS:
            return
        with (
            suppress(NotIntegrable, ArithmeticError, ValueError),
            lightly(),
            on_one_thread(),
            silently(),
            restored(analysis.snapshot),
        ):
            made, result = collapsed_integral(analysis)
            nodes = SharedNodes.of(result)
            x = made.space.layout.split(nodes.points)
            beside = self.density.places({constant.name: value}, x), made.space.backward(nodes.points)
            if not all(np.allclose(beside[0][n], beside[1][n], rtol=SAME, atol=0.0, equal_nan=True) for n in x):
                raise ValueError("the density is another function of what is integrated over")
            terms = self.density.terms(constant.name, {constant.name: value}, x)
            known.append(_Nodes(nodes, x, value, terms))

    def _quick(self, constant: PriorConstant, value: np.ndarray) -> LogEvidence | None:
        name = constant.name
        if not self._serves(name):
            return None
        best, off = math.nan, math.inf
        try:
            if name not in self._nodes:
                self._add(self.post.analysis, constant, constant.value)
            for held in sorted(self._nodes[name], key=lambda held: float(np.abs(held.value - value).max())):
                with on_one_thread(), silently():
                    ratio = self.density.terms(name, {name: value}, held.x) - held.terms
                    found, error = held.nodes.reweighted(ratio)
                if error < off:
                    best, off = found, error
                if error <= CLOSE * held.nodes.error:
                    break
        except (ArithmeticError, ValueError):  # a matrix that is none of a covariance, say
            return None
        acceptable = OF_THREE if held.nodes.lattice.k == 3 and not self.nearby else ACCEPTABLE
        if not off <= max(acceptable, CLOSE * self.post.log_evidence.error):
            return None
        certificate = max(self.post.certificate, self.density.certificate)
        # What a prior integrates to may change with the numbers.
        audited = audit(self.post.analysis)
        audited = audit(self.moved(constant, value)) if audited.masses else audited
        return stated(LogEvidence(best, off + certificate, "quadrature"), (), audited)


def agree(a: LogEvidence, b: LogEvidence) -> bool:
    """Whether two ways to one number differ by no more than their errors, and rounding."""
    return abs(a.value - b.value) <= a.error + b.error + AGREE * (1 + abs(b.value))
