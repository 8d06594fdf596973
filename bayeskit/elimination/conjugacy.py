"""Proofs that a variable has a conjugate family: its score is linear, and the Gaussian block that it scales goes along.

A scale survives the elimination of a Gaussian block only if the block's whole precision is proportional to a power of
it: with θ | φ ~ N(m, Λ₀⁻¹ φ^(−κ)) everywhere, integrating θ out multiplies the density by φ^(−κD/2), which stays in
the family. This is the normal-inverse-gamma (and Normal–Wishart) condition; a prior that is not scaled by φ breaks
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sympy
from pytensor.graph.basic import Variable

from bayeskit.elimination.analysis import Scale
from bayeskit.elimination.generic_element import GenericElements
from bayeskit.elimination.linear_score import has_linear_score
from bayeskit.elimination.scaling import groups, wishart_multiple
from bayeskit.elimination.symbols import Element, NotProved, Symbols
from bayeskit.elimination.wishart_form import is_wishart_form
from bayeskit.families import ConjugateFamily, families_for, support_kinds
from bayeskit.gaussian.block import GaussianBlock
from bayeskit.graphs.compile import compile_small
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.support import Support

__all__ = ["Proofs"]


@dataclass(frozen=True, eq=False)
class Proofs:
    """The density that proofs are about."""

    joint: LogJoint
    shapes: Mapping[str, tuple[int, ...]]
    supports: Mapping[str, Support]

    @cached_property
    def reference(self) -> dict[str, np.ndarray]:
        """A point inside the support, at which conditions are evaluated that are constant over it."""
        point = {}
        for name in self.joint.names:
            support, shape, dtype = self.supports[name], self.shapes[name], self.joint.values[name].type.dtype
            known = support_kinds().get(support.kind)
            value: np.ndarray = np.zeros(shape) if known is None else known.start(shape)
            if support.kind == "finite" and support.values is not None:
                value = np.full(shape, support.values[0])
            point[name] = np.asarray(value, dtype=dtype)
        return point

    def truth(self, var: Variable) -> tuple[bool, bool]:
        function = compile_small(list(self.joint.values.values()), var)

        def ask() -> tuple[bool, bool]:
            value = function(*self.reference.values())
            return bool(np.all(value)), not bool(np.any(value))

        return self.joint.ask(var, ask)

    def scale(self, name: str, factors: Sequence[str], block: GaussianBlock | None) -> Scale:
        """The family of a variable, given the factors that it has a part in and the block that it may scale.

        NotProved gives the reason in words that follow the name of the variable.
        """
        families = families_for(self.supports[name].kind)
        matrix = [f for f in families if f.solve is not None]
        return self.matrix(name, matrix[0], factors, block) if matrix else self.family(name, factors, block)

    def matrix(self, name: str, family: ConjugateFamily, factors: Sequence[str], block: GaussianBlock | None) -> Scale:
        if len(self.shapes[name]) != 2:
            raise NotProved("it is a stack of matrices; give each matrix a variable of its own")
        for factor in factors:
            is_wishart_form(self.joint.factors[factor], self.joint.values[name])
        if block is None:
            return Scale(name, family)
        for factor in block.factors:
            if name not in self.joint.scopes[factor]:
                raise NotProved(_unscaled(block, factor, name))
        return Scale(name, family, block, 1, multiple=wishart_multiple(block, name, self.reference))

    def family(self, name: str, factors: Sequence[str], block: GaussianBlock | None) -> Scale:
        variable = self.joint.values[name]
        elements: dict[str, tuple[Symbols, Element]] = {}
        support = support_kinds()[self.supports[name].kind]
        for factor in factors:
            graph = self.joint.factors[factor]
            generic = GenericElements(variable, support, self.joint.dependence, self.truth)
            try:
                elements[factor] = generic.symbols, generic.of(graph)
                self.require_checks(name, generic.unsettled_checks(graph))
            except NotProved as error:
                raise NotProved(f"in the log density of {factor!r}, {error}") from error
        failure = NotProved("it is in no family of its support")
        for family in families_for(self.supports[name].kind):
            try:
                for factor, (symbols, element) in elements.items():
                    if not has_linear_score(symbols, element, family):
                        raise NotProved(f"the log density of {factor!r} is not that of a {family.label} variable in it")
                if block is None:
                    return Scale(name, family)
                kappa = self.homogeneous(name, family, block, elements)
                return Scale(name, family, block, kappa, groups(block, name, kappa, self.reference))
            except NotProved as error:
                failure = error if str(failure).startswith("it is in no") or "not scaled" in str(error) else failure
        raise failure

    def require_checks(self, name: str, conditions: list[Variable]) -> None:
        """Hold the parameter checks that algebra could not settle against points all over the support of a variable."""
        if not conditions:
            return
        function = compile_small(list(self.joint.values.values()), conditions)
        for value in support_kinds()[self.supports[name].kind].edges(self.shapes[name]):
            with np.errstate(all="ignore"):
                holds = function(*{**self.reference, name: value}.values())
            if not all(np.all(h) for h in holds):
                raise NotProved("a parameter leaves its allowed range inside the support")

    def homogeneous(
        self, name: str, family: ConjugateFamily, block: GaussianBlock, elements: Mapping[str, tuple[Symbols, Element]]
    ) -> int:
        """Prove that φ^κ times something free of φ is all that depends on the Gaussian block."""
        if family.gaussian is None:
            raise NotProved(f"it enters the distribution of {', '.join(block.names)} but is no scale of it")
        kappa = family.gaussian.power
        inside = {self.joint.values[n] for n in block.names}
        for factor in block.factors:
            if factor not in elements:
                raise NotProved(_unscaled(block, factor, name))
            symbols, element = elements[factor]
            for option in element.options:
                for term in sympy.Add.make_args(sympy.expand(option)):
                    if not any(symbols.origin.get(s, frozenset()) & inside for s in term.free_symbols):
                        continue
                    views = [s for s in term.free_symbols if symbols.is_view(s)]
                    if len(views) != 1 or not symbols.free_of_views(sympy.powsimp(term / views[0] ** kappa)):
                        raise NotProved(_unscaled(block, factor, name))
        return kappa


def _unscaled(block: GaussianBlock, factor: str, name: str) -> str:
    names = ", ".join(block.names)
    return (
        f"the density of {factor!r} depends on {names} in a way that is not scaled by {name}, so integrating "
        f"{names} out leaves no conjugate density"
    )
