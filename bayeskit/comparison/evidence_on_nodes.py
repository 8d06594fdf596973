"""log p(y | η) of a posterior by quadrature, as a function of the numbers η of its priors: sums over nodes that it has.

The nodes of the posterior serve numbers nearby (:mod:`bayeskit.quadrature.shared_nodes`); where they do not reach far
or are not close enough, which their own sum shows, they are moved as the prior moves
(:mod:`bayeskit.comparison.nodes_along_a_prior`), or an integral with other numbers is made, whose nodes serve further
ones. Between two numbers at which the sum was compared with an integral of its own it is believed. Close to the numbers
that a model was written with it needs no comparison: what it sums is proved for all of them, and the modes are those of
the posterior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from bayeskit.comparison.density_of_priors import DensityOfPriors
from bayeskit.comparison.nodes_along_a_prior import nodes_along
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

__all__ = ["PROOF", "EvidenceOnNodes", "agree"]

PROOF = 0  # seed of the points of a proof: what an evidence may be off is the same wherever it is found
ACCEPTABLE = 1e-6  # nats that a sum over nodes may be off
OF_THREE = 1e-4  # over three numbers and far from those as written: an integral may be off a tenth as much, and is dear
CLOSE = 10.0  # times the error of the posterior that it may be off, and of its nodes before others are tried
AGREE = 1e-8  # relative, by which two ways to one number may differ beside their errors
SAME = 1e-9  # relative, by which two ways to one place may differ
SETS = 12  # of nodes for one number, at most
FEW, LOOKED_AT = 2, 9  # of them, which are moved along with a prior; nodes that say how the prior moves


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of an integral with some value of a number."""

    nodes: SharedNodes
    x: Draws  # the remaining variables at them, as PyMC moves them
    value: np.ndarray
    terms: np.ndarray  # of the density that the number enters, with that value
    constant: PriorConstant
    density: DensityOfPriors

    def as_they_are(self, value: np.ndarray) -> tuple[float, float]:
        """log p(y) with another value of the number, and what it may be off."""
        name = self.constant.name
        return self.nodes.reweighted(self.density.terms(name, {name: value}, self.x) - self.terms)

    def along(self, value: np.ndarray) -> _Nodes | None:
        """Nodes for another value of the number that went along with the prior; None where there is no way for them."""
        model, name = self.density.collapsed.analysis.original.model, self.constant.name
        ways = list(nodes_along(model, self.constant, self.value, value, self.x, self.density.centres))
        if not ways:
            return None
        some = np.linspace(0, len(self.terms) - 1, LOOKED_AT).astype(int)

        def change(way: tuple[Draws, float]) -> float:
            """Of the prior's density, which is none where the nodes moved as it did."""
            now = self.density.terms(name, {name: value}, {n: v[some] for n, v in way[0].items()})
            return float(np.nan_to_num(np.abs(now + way[1] - self.terms[some]), nan=np.inf).max())

        x, volume = min(ways, key=change)
        nodes = self.nodes.with_ratio(self.density.terms(None, {name: value}, x) + volume - self._all_terms)
        terms = self.density.terms(name, {name: value}, x)
        return None if nodes is None else replace(self, nodes=nodes, x=x, value=value, terms=terms)

    @cached_property
    def _all_terms(self) -> np.ndarray:
        return self.density.terms(None, {self.constant.name: self.value}, self.x)


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
        found = answer(analysis, "quadrature", random_seed=PROOF).log_evidence
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
            known.append(_Nodes(nodes, x, value, terms, constant, self.density))

    def _quick(self, constant: PriorConstant, value: np.ndarray) -> LogEvidence | None:
        name = constant.name
        if not self._serves(name):
            return None
        best = math.nan, math.inf
        try:
            if name not in self._nodes:
                self._add(self.post.analysis, constant, constant.value)
            nearest = sorted(self._nodes[name], key=lambda held: float(np.abs(held.value - value).max()))
            rough = OF_THREE if nearest and nearest[0].nodes.lattice.k == 3 and not self.nearby else ACCEPTABLE
            acceptable = max(rough, CLOSE * self.post.log_evidence.error)
            with on_one_thread(), silently():
                for held in nearest:
                    best = min(best, held.as_they_are(value), key=_error)
                    if _error(best) <= CLOSE * held.nodes.error:
                        break
                if not (_error(best) <= acceptable or self.nearby):
                    moved = (held.along(value) for held in nearest[:FEW])
                    for found in (held for held in moved if held is not None and held.nodes.error <= acceptable):
                        best = found.nodes.log_integral, found.nodes.error
                        self._nodes[name].append(found)
                        break
        except (ArithmeticError, ValueError):  # a matrix that is none of a covariance, say
            return None
        if not _error(best) <= acceptable:
            return None
        certificate = max(self.post.certificate, self.density.certificate)
        # What a prior integrates to may change with the numbers.
        audited = audit(self.post.analysis)
        audited = audit(self.moved(constant, value)) if audited.masses else audited
        return stated(LogEvidence(best[0], best[1] + certificate, "quadrature"), (), audited)


def _error(found: tuple[float, float]) -> float:
    return found[1]


def agree(a: LogEvidence, b: LogEvidence) -> bool:
    """Whether two ways to one number differ by no more than their errors, and rounding."""
    return abs(a.value - b.value) <= a.error + b.error + AGREE * (1 + abs(b.value))
