"""Proofs that a variable has a conjugate family: its score is linear, and the Gaussian block that it scales goes along.

A scale survives the elimination of a Gaussian block only if the block's whole precision is proportional to a power of
it: with θ | φ ~ N(m, Λ₀⁻¹ φ^(−κ)) everywhere, integrating θ out multiplies the density by φ^(−κD/2), which stays in
the family. This is the normal-inverse-gamma (and Normal–Wishart) condition; a prior that is not scaled by φ breaks
it. Once Λ is proved linear in φ^κ (or in W), what is left to find out is which entries of θ each φ_j governs, or that
Λ(W) = K ⊗ W. Both are identities of linear maps and rational functions, so they hold everywhere if they hold at one
random point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import sympy
from pytensor.graph.basic import Variable

from bayeskit.elimination.analysis import Scale
from bayeskit.elimination.generic_element import GenericElements
from bayeskit.elimination.linear_score import has_linear_score
from bayeskit.elimination.symbols import Element, NotProved, Symbols
from bayeskit.elimination.wishart_form import is_wishart_form
from bayeskit.families import ConjugateFamily, families_for, support_kinds
from bayeskit.families.support_kinds import POSITIVE_DEFINITE
from bayeskit.gaussian.block import GaussianBlock
from bayeskit.graphs.compile import compile_small
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.support import Support

__all__ = ["Proofs"]

TOLERANCE = 1e-9  # relative, within which two precision matrices are the same


@dataclass(frozen=True, eq=False)
class Proofs:
    """The density that proofs are about."""

    joint: LogJoint
    shapes: Mapping[str, tuple[int, ...]]
    supports: Mapping[str, Support]
    _truths: dict[Variable, tuple[bool, bool]] = field(default_factory=dict, repr=False)
    _walks: dict[tuple[str, str], GenericElements] = field(default_factory=dict, repr=False)

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
        """Whether a condition holds in all its entries at the reference point, and whether in none."""
        if var not in self._truths:
            function = compile_small(list(self.joint.values.values()), var)

            def ask() -> tuple[bool, bool]:
                value = function(*self.reference.values())
                return bool(np.all(value)), not bool(np.any(value))

            self._truths[var] = self.joint.ask(var, ask)
        return self._truths[var]

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
        return Scale(name, family, block, 1, multiple=_wishart_multiple(block, name, self.reference))

    def family(self, name: str, factors: Sequence[str], block: GaussianBlock | None) -> Scale:
        elements: dict[str, tuple[Symbols, Element]] = {}
        for factor in factors:
            graph = self.joint.factors[factor]
            try:
                generic = self.walked(name, factor)
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
                return Scale(name, family, block, kappa, _groups(block, name, kappa, self.reference))
            except NotProved as error:
                failure = error if str(failure).startswith("it is in no") or "not scaled" in str(error) else failure
        raise failure

    def walked(self, name: str, factor: str) -> GenericElements:
        """The elements of a factor for a variable; NotProved where there are none."""
        if (name, factor) not in self._walks:
            support = support_kinds()[self.supports[name].kind]
            generic = GenericElements(self.joint.values[name], support, self.joint.dependence, self.truth)
            generic.of(self.joint.factors[factor])
            self._walks[name, factor] = generic
        return self._walks[name, factor]

    def apart(self, name: str, other: str, factors: Sequence[str]) -> bool:
        """Whether all of these factors are products of a function of one variable and a function of the other."""
        try:
            return all(
                self.walked(name, f).apart(self.joint.factors[f], self.walked(other, f))
                for f in factors
                if other in self.joint.scopes[f]
            )
        except NotProved:
            return False

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
        if unscaled := [f for f in block.factors if not _scaled(elements.get(f), inside, kappa)]:
            raise NotProved(_unscaled(block, unscaled[0], name), _rescaling(block, unscaled, name, kappa))
        return kappa


def _scaled(found: tuple[Symbols, Element] | None, inside: set[Variable], kappa: int) -> bool:
    """Whether what depends on the block in a factor is φ^κ times something free of φ."""
    if found is None:
        return False
    symbols, element = found
    for option in element.options:
        for term in sympy.Add.make_args(sympy.expand(option)):
            if not any(symbols.origin.get(s, frozenset()) & inside for s in term.free_symbols):
                continue
            views = [s for s in term.free_symbols if symbols.is_view(s)]
            if len(views) != 1 or not symbols.free_of_views(sympy.powsimp(term / views[0] ** kappa)):
                return False
    return True


def _unscaled(block: GaussianBlock, factor: str, name: str) -> str:
    names = ", ".join(block.names)
    return (
        f"the density of {factor!r} depends on {names} in a way that is not scaled by {name}, so integrating "
        f"{names} out leaves no conjugate density"
    )


def _rescaling(block: GaussianBlock, unscaled: Sequence[str], name: str, kappa: int) -> str:
    """What makes a scale conjugate that only priors stand in the way of; nothing where the noise of some data does."""
    if not {*unscaled} <= {*block.names}:
        return ""
    unit = f"{name}**{-kappa / 2:g}"  # of the sd, where the precision is scaled by φ^kappa
    one = "A prior" if len(unscaled) == 1 else "Priors"
    return f"{one} of {', '.join(unscaled)} in units of it would be conjugate: write the sd as s * {unit}."


def _groups(block: GaussianBlock, name: str, kappa: int, point: Mapping[str, Any]) -> np.ndarray:
    """For each entry of the stacked block, the flat index of the entry of φ that scales its precision by φ^kappa.

    NotProved if an entry of θ is governed by several entries of φ, or two governed by different ones are coupled.
    """
    shape = np.shape(point[name])
    count = int(np.prod(shape, dtype=int))
    size = sum(int(np.prod(s, dtype=int)) for s in (block.shapes[n] for n in block.names))
    if count == 1:
        return np.zeros(size, dtype=int)
    # Distinct ratios tell the entries of φ apart; 0.6…1.9 keeps the matrix well scaled.
    ratio = np.random.default_rng(0).permutation(np.linspace(0.6, 1.9, count) + 1e-3 / (1 + np.arange(count)))
    base, _ = block.quadratic(point)
    other, _ = block.quadratic({**point, name: np.asarray(point[name]) * ratio.reshape(shape)})
    base, other = (m.toarray() if hasattr(m, "toarray") else m for m in (base, other))
    change = np.diag(other) / np.diag(base)
    wanted = ratio**kappa
    index = np.argmin(np.abs(change[:, None] - wanted), axis=1)
    expected = base * wanted[index][:, None]
    scale = np.sqrt(np.outer(np.diag(base), np.diag(base)))
    if any(np.any(np.abs(expected - matrix) > TOLERANCE * scale) for matrix in (other, expected.T)):
        names = ", ".join(block.names)
        why = f"its entries share entries of {names}, whose precision is then not scaled by a single one of them"
        raise NotProved(why)
    return index


def _wishart_multiple(block: GaussianBlock, name: str, point: Mapping[str, Any]) -> np.ndarray:
    """The matrix K of Λ(W) = K ⊗ W, for a block of K.shape[0] vectors that share the precision matrix W.

    NotProved if the precision of the block is not of this form, or its mean depends on W.
    """
    generator = np.random.default_rng(0)
    size = np.shape(point[name])[0]
    names = ", ".join(block.names)
    failure = NotProved(f"the precision of {names} is not a multiple of it; its prior needs tau = kappa * {name}")
    means, multiples = [], []
    for _ in range(2):
        matrix = POSITIVE_DEFINITE.typical((size, size), generator)
        precision, linear = block.quadratic({**point, name: matrix})
        if len(linear) % size:
            raise failure
        count = len(linear) // size
        precision = precision.toarray() if hasattr(precision, "toarray") else precision
        tensor = precision.reshape(count, size, count, size)
        multiple = np.einsum("aibj,ij->ab", tensor, np.linalg.inv(matrix)) / size
        if np.max(np.abs(tensor - np.einsum("ab,ij->aibj", multiple, matrix))) > TOLERANCE * np.max(np.abs(tensor)):
            raise failure
        means.append(np.linalg.solve(precision, linear))
        multiples.append(multiple)
    spread = 1.0 / np.sqrt(np.max(np.abs(multiples[0])))
    moved = np.max(np.abs(means[0] - means[1])) > 1e-7 * (spread + np.max(np.abs(means[0])))
    if moved or np.max(np.abs(multiples[0] - multiples[1])) > TOLERANCE * np.max(np.abs(multiples[0])):
        raise failure
    return multiples[0]
