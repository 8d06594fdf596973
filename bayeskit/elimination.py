"""Variable elimination: which latent variables integrate out in closed form, in which order, and why not.

The order is the one that keeps closed forms alive: real variables in which the log density is jointly quadratic first,
as one Gaussian block for each connected part; then scales and precisions, probabilities and rates, each by a proof that
its score is linear in a conjugate family's basis (:mod:`bayeskit.score`), children before parents; then variables that
nothing else depends on, whose density integrates to one; then a table of finite discrete variables. Where that is too
long or its rows have no closed form, finite variables are summed out first, one by one (:mod:`bayeskit.summation`), and
the search starts anew on what is left.

A scale survives the elimination of a Gaussian block only if the block's whole precision is proportional to a power of
it: with θ | φ ~ N(m, Λ₀⁻¹ φ^(−κ)) everywhere, integrating θ out multiplies the density by φ^(−κD/2), which stays in
the family. This is the normal-inverse-gamma (and Normal–Wishart) condition; a prior that is not scaled by φ breaks
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import sympy
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import toposort

from bayeskit.compiling import compile_small
from bayeskit.degrees import core_op, degrees
from bayeskit.density import LogJoint
from bayeskit.families import ScoreFamily, families_for, wishart
from bayeskit.gaussian import GaussianBlock
from bayeskit.results import Plan, Refusal, Step
from bayeskit.scaling import groups, wishart_multiple
from bayeskit.score import Element, NotProved, Walker, linear_score
from bayeskit.summation import Summed, TooLarge, sum_out
from bayeskit.support import Support, support_of

__all__ = ["Analysis", "Scale", "analyse"]

TABLE_LIMIT = 4096  # hypotheses in a table of finite variables
QUADRATURE_LIMIT = 3  # real numbers
COUPLED = (
    "Let each entry of the data depend on one entry of it, as in mu[z]; make it a pymc_extras.DiscreteMarkovChain; or "
    "make it smaller."
)
KAPPA = {"inverse_gamma": -1, "gamma": 1}  # the power of φ that a Gaussian precision may carry


@dataclass(frozen=True, eq=False)
class Scale:
    """A variable integrated out by a score family, and the Gaussian block that it scales, if any.

    Attributes
    ----------
    name : str
    family : ScoreFamily or None
        None for a Wishart matrix.
    block : GaussianBlock or None
    kappa : int
        The precision of the block is proportional to φ^kappa.
    group : numpy.ndarray or None
        For each entry of the stacked block, the flat index of the entry of φ that scales it.
    multiple : numpy.ndarray or None
        K of Λ(W) = K ⊗ W.
    """

    name: str
    family: ScoreFamily | None
    block: GaussianBlock | None = None
    kappa: int = 0
    group: np.ndarray | None = None
    multiple: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Analysis:
    """Everything that :func:`bayeskit.infer` needs to know about a model before it computes a number.

    Attributes
    ----------
    joint : LogJoint
    shapes : dict of str to tuple of int
    plan : Plan
    blocks : tuple of GaussianBlock
    scales : tuple of Scale
    ancestral : tuple of str
        Variables that nothing depends on, drawn forward from their own distribution.
    finite : tuple of str
        Finite discrete variables, enumerated; everything else is conditional on them.
    values : dict of str to numpy.ndarray
        The values of the finite variables.
    supports : dict of str to Support
        Of every latent variable.
    summed : tuple of Summed
        Finite variables that were summed out of ``joint``, in that order; everything else was planned without them.
    whole : LogJoint or None
        The density of the model as written, where ``joint`` is one with variables summed out.
    """

    joint: LogJoint
    shapes: dict[str, tuple[int, ...]]
    plan: Plan
    blocks: tuple[GaussianBlock, ...] = ()
    scales: tuple[Scale, ...] = ()
    ancestral: tuple[str, ...] = ()
    finite: tuple[str, ...] = ()
    values: dict[str, np.ndarray] = field(default_factory=dict)
    supports: dict[str, Support] = field(default_factory=dict)
    summed: tuple[Summed, ...] = ()
    whole: LogJoint | None = None

    @property
    def original(self) -> LogJoint:
        """The density of the model as written."""
        return self.joint if self.whole is None else self.whole


def analyse(model: pm.Model, *, sums: bool = False) -> Analysis:
    """Find the plan for a model; computes no posterior.

    Parameters
    ----------
    model : pymc.Model
    sums : bool, default False
        Sum finite variables out even where a table of their values has a closed form in each row.

    Raises
    ------
    bayeskit.errors.ModelError
        If the model cannot be read.
    """
    joint = LogJoint.from_model(model)
    plain = _search(joint)
    finite = [n for n in joint.names if n not in plain.ancestral and plain.supports[n].kind == "finite"]
    if plain.plan.method != "exact" or sums:
        return _with_sums(joint, finite, plain) if finite else plain
    if all(plain.shapes[n] == () for n in finite):
        return plain
    # A table of all allocations has their joint probabilities only; sums that need none have those of each entry.
    return min(plain, _with_sums(joint, finite, plain), key=lambda a: (a.plan.method != "exact", a is plain))


def _search(joint: LogJoint) -> Analysis:
    leaves_last = _Search(joint).run()
    if leaves_last.plan.method == "exact":
        return leaves_last
    # A leaf may also be drawn forward instead of joining a block; try that before giving up.
    leaves_first = _Search(joint, ancestral_first=True).run()
    # Where something remains, a leaf in a block would be integrated out anew at every value of it.
    return min(leaves_first, leaves_last, key=lambda a: len(a.plan.remaining))


def _with_sums(joint: LogJoint, finite: list[str], plain: Analysis) -> Analysis:
    """Sum finite variables out, children before parents, and plan the rest without them."""
    first = _Search(joint, ancestral_first=True)
    first.eliminate_ancestral()
    left = joint.without(first.ancestral)
    summed: list[Summed] = []
    refusals: dict[str, Refusal] = {}
    rows = 1
    for name in reversed(finite):
        if name in first.ancestral:
            continue
        values = plain.supports[name].values
        if values is None:
            continue
        try:
            left, step = sum_out(left, name, values, plain.shapes[name], rows)
        except TooLarge as error:
            refusals[name] = Refusal(name, _sentence(f"it cannot be summed out: {error}"), COUPLED)
            continue
        rows *= len(step.values) if step.kind == "joint" else 1
        summed.append(step)
    found = _search(left) if summed else plain
    plan = replace(
        found.plan,
        eliminated=(
            *(first.steps if summed else ()),
            *(_step(s, joint.without(first.ancestral)) for s in summed),
            *found.plan.eliminated,
        ),
        refusals=tuple(refusals.get(r.variable, _inside(r, left, summed)) for r in found.plan.refusals),
    )
    if not summed:
        return replace(plain, plan=plan)
    return replace(
        found,
        plan=plan,
        shapes=plain.shapes,
        supports=plain.supports,
        ancestral=(*first.ancestral, *found.ancestral),
        summed=tuple(summed),
        whole=joint,
    )


def _inside(refusal: Refusal, joint: LogJoint, summed: list[Summed]) -> Refusal:
    """Why a variable under a sum has no closed form, in the words of the model."""
    sums = [s.name for s in summed if refusal.variable in joint.scopes.get(s.factor, frozenset())]
    if not sums:
        return refusal
    names = ", ".join(sums)
    return replace(
        refusal,
        reason=f"its log density is a sum over {names}: as many terms as {names} has values, of no one family.",
        advice=f"Sample it; or observe {names}, and it may have a closed form.",
    )


def _step(summed: Summed, joint: LogJoint) -> Step:
    states, entries = len(summed.values), int(np.prod(summed.shape, dtype=int))
    around = set().union(*[s for s in joint.scopes.values() if summed.name in s]) - {summed.name}
    given = tuple(n for n in joint.names if n in around)
    if summed.kind == "chain":
        return Step((summed.name,), "markov_chain", given, f"{states} states, {entries:,} steps, summed out")
    if summed.kind == "joint":
        return Step((summed.name,), "categorical", given, f"{states:,} joint values, enumerated and summed out")
    each = f", for each of {entries:,} entries" if entries > 1 else ""
    return Step((summed.name,), "categorical", given, f"{states} values{each}, summed out")


class _Search:
    """The state of one search for a plan; not part of any result."""

    def __init__(self, joint: LogJoint, *, ancestral_first: bool = False) -> None:
        self.joint = joint
        self.ancestral_first = ancestral_first
        self.shapes = joint.shapes()
        rvs = {rv.name: rv for rv in joint.model.free_RVs}
        self.supports: dict[str, Support] = {n: support_of(joint.model, rv) for n, rv in rvs.items()}
        self.left = dict.fromkeys(joint.names)
        self.active = dict.fromkeys(joint.factors)
        self.refusals: dict[str, Refusal] = {}
        self.steps: list[Step] = []
        self.blocks: list[GaussianBlock] = []
        self.scales: list[Scale] = []
        self.ancestral: list[str] = []
        self.blocked: dict[str, str] = {}

    # -- bookkeeping -------------------------------------------------------------------------------------------------
    def factors_of(self, name: str) -> list[str]:
        return [f for f in self.active if name in self.joint.scopes[f]]

    def neighbours(self, names: set[str]) -> set[str]:
        touched = [self.joint.scopes[f] for f in self.active if self.joint.scopes[f] & names]
        return set().union(*touched) - names

    def refuse(self, name: str, reason: str, advice: str) -> None:
        self.refusals.setdefault(name, Refusal(name, reason, advice))

    @cached_property
    def reference(self) -> dict[str, np.ndarray]:
        """A point inside the support, at which conditions are evaluated that are constant over it."""
        point = {}
        for name in self.joint.names:
            support, shape, dtype = self.supports[name], self.shapes[name], self.joint.values[name].type.dtype
            value: np.ndarray = np.full(shape, {"positive": 1.0, "unit": 0.5}.get(support.kind, 0.0))
            if support.kind == "simplex":
                value = np.full(shape, 1.0 / shape[-1])
            if support.kind == "positive_definite":
                value = np.broadcast_to(np.eye(shape[-1]), shape)
            if support.kind == "finite" and support.values is not None:
                value = np.full(shape, support.values[0])
            point[name] = np.asarray(value, dtype=dtype)
        return point

    def truth(self, var: Variable) -> tuple[bool, bool]:
        value = compile_small(list(self.joint.values.values()), var)(*self.reference.values())
        return bool(np.all(value)), not bool(np.any(value))

    # -- the search --------------------------------------------------------------------------------------------------
    def run(self) -> Analysis:
        # A real leaf may belong to a Gaussian block, which gives it a closed-form marginal; another leaf never does.
        self.eliminate_ancestral(with_parents=True, real=self.ancestral_first)
        self.eliminate_gaussian()
        self.eliminate_scales()
        self.eliminate_ancestral()
        finite = self.finite_table()
        for name in self.left:
            self.refuse(name, "it has no closed form given the other variables.", "Sample it.")
        if self.left:
            self.put_back_matrices()
        remaining = tuple(self.left)
        method = self.method()
        notes: tuple[str, ...] = ()
        if self.joint.potentials:
            notes = (
                f"the Potential {', '.join(self.joint.potentials)} has no normaliser: the log evidence is "
                "that of the joint density as written and cannot be compared with another model's",
            )
        plan = Plan(
            eliminated=tuple(self.steps),
            remaining=remaining,
            method=method,
            refusals=tuple(self.refusals[n] for n in remaining),
            notes=notes,
        )
        values = {n: v for n in finite if (v := self.supports[n].values) is not None}
        return Analysis(
            self.joint,
            self.shapes,
            plan,
            tuple(self.blocks),
            tuple(self.scales),
            tuple(self.ancestral),
            finite,
            values,
            self.supports,
        )

    def method(self) -> str:
        """The first method of the ladder that may answer."""
        if not self.left:
            return "exact"
        if any(not self.joint.values[n].type.dtype.startswith("float") for n in self.left):
            return "nuts"
        return "quadrature" if sum(self.free_numbers(n) for n in self.left) <= QUADRATURE_LIMIT else "nuts"

    def free_numbers(self, name: str) -> int:
        """How many real numbers PyMC moves for a variable."""
        shape = self.shapes[name]
        size = int(np.prod(shape, dtype=int))
        return size - size // shape[-1] if self.supports[name].kind == "simplex" and size else size

    def put_back_matrices(self) -> None:
        """A Wishart matrix has no closed form as a graph in other variables that remain."""
        others = ", ".join(self.left)
        for scale in [s for s in self.scales if s.family is None]:
            self.scales.remove(scale)
            self.steps = [s for s in self.steps if s.variables != (scale.name,)]
            self.left = {n: None for n in self.joint.names if n == scale.name or n in self.left}
            self.refuse(scale.name, f"{others} remains, and a Wishart matrix is integrated out last.", "Fix the rest.")

    # -- Gaussian blocks ---------------------------------------------------------------------------------------------
    def eliminate_gaussian(self) -> None:
        chosen: list[str] = []
        for name in reversed(list(self.left)):
            if self.supports[name].kind != "real":
                continue
            trial = [*chosen, name]
            culprit = self.not_quadratic(name, trial)
            if culprit is None:
                chosen = trial
            else:
                self.refuse(
                    name,
                    culprit,
                    "A Normal or MvNormal prior is conjugate where the variable enters the means of Normal, "
                    "MvNormal or LogNormal variables linearly and their (co)variances not at all.",
                )
        chosen = [n for n in self.left if n in chosen]
        for part in self.components(chosen):
            block = GaussianBlock(self.joint, part, self.shapes, tuple(self.active))
            self.blocks.append(block)
            for name in part:
                del self.left[name]
            given = tuple(n for n in self.joint.names if n in self.neighbours(set(part)))
            self.steps.append(Step(part, "normal", given))

    def components(self, names: list[str]) -> list[tuple[str, ...]]:
        """The connected parts of a set of variables, two being connected where a factor has both."""
        parts: list[set[str]] = []
        for name in names:
            touching = [p for p in parts if any(self.joint.scopes[f] & p for f in self.factors_of(name))]
            parts = [p for p in parts if p not in touching] + [set().union({name}, *touching)]
        return sorted((tuple(n for n in names if n in p) for p in parts), key=lambda p: names.index(p[0]))

    def not_quadratic(self, name: str, trial: list[str]) -> str | None:
        """Why some factor is not quadratic in the trial set, or None if all are."""
        targets = {self.joint.values[n]: 1.0 for n in trial}
        for factor in self.factors_of(name):
            graph = self.joint.factors[factor]
            degree = degrees([graph], targets)
            if degree.get(graph, 0) > 2:
                return _blame(graph, degree, factor, name, self.joint)
        return None

    # -- score families ----------------------------------------------------------------------------------------------
    def eliminate_scales(self) -> None:
        for name in reversed(list(self.left)):
            support = self.supports[name]
            if support.kind in ("real", "finite"):
                continue
            if support.kind == "other":
                self.refuse(name, support.why + ".", support.advice)
                continue
            if name in self.blocked:
                self.refuse(
                    name,
                    f"once {self.blocked[name]} is integrated out, its log density is no longer of a conjugate family.",
                    "Fix it, or give the two variables a joint conjugate prior.",
                )
                continue
            try:
                scale = self.prove(name)
            except NotProved as error:
                self.refuse(name, _sentence(str(error)), self.advice(name))
                continue
            self.scales.append(scale)
            del self.left[name]
            family = "wishart" if scale.family is None else scale.family.name
            inside = {name, *(scale.block.names if scale.block else ())}
            around = {n for n in self.neighbours(inside) if n not in self.ancestral}
            given = tuple(n for n in self.joint.names if n in around)
            self.steps.append(Step((name,), family, given))
            self.blocked.update(dict.fromkeys((n for n in around if n in self.left), name))

    def advice(self, name: str) -> str:
        kind = self.supports[name].kind
        if kind == "positive_definite":
            return wishart.ADVICE
        return " ".join(f.advice for f in families_for(kind))

    def prove(self, name: str) -> Scale:
        blocks = [b for b in self.blocks if self.neighbours(set(b.names)) & {name}]
        if len(blocks) > 1:
            merged = tuple(n for n in self.joint.names if any(n in b.names for b in blocks))
            block: GaussianBlock | None = GaussianBlock(self.joint, merged, self.shapes, tuple(self.active))
        else:
            block = blocks[0] if blocks else None
        if block is not None:
            rivals = [s.name for s in self.scales if s.block is not None and set(s.block.names) & set(block.names)]
            if rivals:
                raise NotProved(f"{', '.join(block.names)} is scaled by {rivals[0]} as well")
        scale = (
            self.prove_wishart(name, block)
            if self.supports[name].kind == "positive_definite"
            else self.prove_family(name, block)
        )
        if len(blocks) > 1 and block is not None:
            first = self.blocks.index(blocks[0])
            self.blocks = [b for b in self.blocks if b not in blocks]
            self.blocks.insert(first, block)
        return scale

    def prove_wishart(self, name: str, block: GaussianBlock | None) -> Scale:
        if len(self.shapes[name]) != 2:
            raise NotProved("it is a stack of matrices; give each matrix a variable of its own")
        for factor in self.factors_of(name):
            wishart.is_wishart_form(self.joint.factors[factor], self.joint.values[name])
        if block is None:
            return Scale(name, None)
        for factor in block.factors:
            if name not in self.joint.scopes[factor]:
                raise NotProved(_unscaled(block, factor, name))
        return Scale(name, None, block, multiple=wishart_multiple(block, name, self.reference))

    def prove_family(self, name: str, block: GaussianBlock | None) -> Scale:
        variable = self.joint.values[name]
        elements: dict[str, tuple[Walker, Element]] = {}
        for factor in self.factors_of(name):
            walker = Walker(
                variable, self.supports[name].kind in ("unit", "simplex"), self.joint.dependence, self.truth
            )
            try:
                elements[factor] = walker, walker.walk(self.joint.factors[factor])
                self.require_checks(name, walker.unsettled_checks(self.joint.factors[factor]))
            except NotProved as error:
                raise NotProved(f"in the log density of {factor!r}, {error}") from error
        failure = NotProved("it is in no family of its support")
        for family in families_for(self.supports[name].kind):
            try:
                for factor, (walker, element) in elements.items():
                    try:
                        linear_score(walker, element, family.symbolic_weight, family.order)
                    except NotProved as error:
                        raise NotProved(
                            f"the log density of {factor!r} is not that of "
                            f"a {family.name.replace('_', ' ')} variable in it"
                        ) from error
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
        for value in _points(self.supports[name].kind, self.shapes[name]):
            with np.errstate(all="ignore"):
                holds = function(*{**self.reference, name: value}.values())
            if not all(np.all(h) for h in holds):
                raise NotProved("a parameter leaves its allowed range inside the support")

    def homogeneous(
        self, name: str, family: ScoreFamily, block: GaussianBlock, elements: Mapping[str, tuple[Walker, Element]]
    ) -> int:
        """Prove that φ^κ times something free of φ is all that depends on the Gaussian block."""
        kappa = KAPPA.get(family.name)
        if kappa is None:
            raise NotProved(f"it enters the distribution of {', '.join(block.names)} but is no scale of it")
        inside = {self.joint.values[n] for n in block.names}
        for factor in block.factors:
            if factor not in elements:
                raise NotProved(_unscaled(block, factor, name))
            walker, element = elements[factor]
            for option in element.options:
                for term in sympy.Add.make_args(sympy.expand(option)):
                    if not any(walker.origin.get(s, frozenset()) & inside for s in term.free_symbols):
                        continue
                    views = [s for s in term.free_symbols if walker.is_view(s)]
                    if len(views) != 1 or not walker.free_of_views(sympy.powsimp(term / views[0] ** kappa)):
                        raise NotProved(_unscaled(block, factor, name))
        return kappa

    # -- variables that nothing depends on ---------------------------------------------------------------------------
    def eliminate_ancestral(self, *, with_parents: bool = False, real: bool = True) -> None:
        found = True
        while found:
            found = False
            for name in reversed(list(self.left)):
                # A variable whose own density is under a sum has no factor of its own.
                if self.factors_of(name) != [name] or not self.supports[name].normalised:
                    continue
                latent_parents = self.joint.scopes[name] - {name}
                if (with_parents and not latent_parents) or (self.supports[name].kind == "real" and not real):
                    continue
                del self.left[name], self.active[name]
                self.refusals.pop(name, None)
                self.ancestral.append(name)
                given = tuple(n for n in self.joint.names if n in latent_parents)
                self.steps.append(
                    Step((name,), "ancestral", given, "no data depend on it; its density integrates to one")
                )
                found = True

    # -- finite tables -----------------------------------------------------------------------------------------------
    def finite_table(self) -> tuple[str, ...]:
        names = tuple(n for n in self.left if self.supports[n].kind == "finite")
        if not names:
            return ()
        rows = 1
        for name in names:
            values = self.supports[name].values
            if values is None:
                rows = 0
                self.refuse(name, "its values are not known beforehand.", "Give its distribution a constant size.")
                continue
            rows *= len(values) ** int(np.prod(self.shapes[name], dtype=int))
            self.refuse(name, "a table of its values is too long, or has no closed form in each row.", COUPLED)
        # Where this is refused, finite variables are summed out one by one instead.
        if not 0 < rows <= TABLE_LIMIT or len(names) < len(self.left):
            return ()
        for name in names:
            del self.left[name]
        self.steps.append(Step(names, "categorical", (), f"a table of {rows} hypotheses"))
        return names


def _points(kind: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Points all over a support, near its edges too."""
    if kind == "simplex":
        return list(np.random.default_rng(0).dirichlet(np.full(shape[-1], 0.3), size=(40, *shape[:-1])))
    if kind == "unit":
        edges = 10.0 ** np.arange(-12.0, 0.0)
        return [np.full(shape, v) for v in np.concatenate([edges, np.linspace(0.05, 0.95, 37), 1 - edges])]
    return [np.full(shape, v) for v in 10.0 ** np.arange(-12.0, 12.5, 0.5)]


def _unscaled(block: GaussianBlock, factor: str, name: str) -> str:
    names = ", ".join(block.names)
    return (
        f"the density of {factor!r} depends on {names} in a way that is not scaled by {name}, so integrating "
        f"{names} out leaves no conjugate density"
    )


def _sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."


def _blame(graph: Variable, degree: Mapping[Variable, float], factor: str, name: str, joint: LogJoint) -> str:
    """Where a factor stops being quadratic, in words."""
    own = factor == name
    for node in toposort([graph]):
        if degree.get(node.outputs[0], 0) <= 2 or any(degree.get(i, 0) > 2 for i in node.inputs):
            continue
        op: Any = core_op(node)
        label = str(getattr(op, "scalar_op", op)).split("{")[0].lower()
        if own:
            return f"its own log density is not quadratic (it goes through `{label}`): its prior is not Normal."
        return f"it enters the log density of {factor!r} through `{label}`, which is not quadratic in it."
    return f"the log density of {factor!r} is not quadratic in it."
