"""The search for closed forms in a density as it stands: in which order, and why not.

The order is the one that keeps closed forms alive: real variables in which the log density is jointly quadratic first,
as one Gaussian block for each connected part; then scales and precisions, probabilities and rates, each by a proof that
its score is linear in a conjugate family's basis (:mod:`bayeskit.elimination.conjugacy`), children before parents; then
variables that nothing else depends on, whose density integrates to one; then a table of finite discrete variables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import toposort

from bayeskit.elimination.analysis import Analysis, Scale
from bayeskit.elimination.conjugacy import Proofs
from bayeskit.elimination.symbolic_functions import in_words
from bayeskit.elimination.symbols import NotProved
from bayeskit.families import families_for, support_kinds
from bayeskit.gaussian.block import GaussianBlock
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.polynomial_degree import degrees
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.support import support_of
from bayeskit.results.records import Plan, Refusal, Step

__all__ = ["COUPLED", "Search", "sentence"]

TABLE_LIMIT = 4096  # hypotheses in a table of finite variables
COUPLED = (
    "Let each entry of the data depend on one entry of it, as in mu[z]; make it a pymc_extras.DiscreteMarkovChain; or "
    "make it smaller."
)


class Search:
    """The state of one search for a plan; not part of any result.

    With ``ancestral_first`` real leaves are drawn forward, instead of being made part of a Gaussian block; whether a
    search without it passed any over is ``passed_over``. With ``largest_first`` the longest variables join such a block
    first, instead of the last; ``scales_first`` are integrated out before it. What is ``known`` of the model is not
    asked again.
    """

    def __init__(
        self,
        joint: LogJoint,
        known: Analysis | None = None,
        *,
        ancestral_first: bool = False,
        largest_first: bool = False,
        scales_first: Collection[str] = (),
    ) -> None:
        self.joint = joint
        self.ancestral_first, self.largest_first, self.scales_first = ancestral_first, largest_first, scales_first
        self.passed_over = False
        self.shapes = known.shapes if known else joint.shapes()
        variables = [] if known else joint.model.free_RVs
        self.supports = (
            known.supports
            if known
            else {rv.name: support_of(joint.model, rv, shared=rv.name in joint.shared) for rv in variables}
        )
        self.proofs = Proofs(joint, self.shapes, self.supports)
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

    def in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names in the order of the model."""
        wanted = set(names)
        return tuple(n for n in self.joint.names if n in wanted)

    def integrate_out(self, names: Collection[str], family: str, given: Iterable[str] = (), note: str = "") -> None:
        """Take variables off those left, and make a step of it."""
        self.left = {n: None for n in self.left if n not in names}
        self.steps.append(Step(tuple(names), family, self.in_order(given), note))

    # -- the search --------------------------------------------------------------------------------------------------
    def run(self) -> Analysis:
        # A real leaf may belong to a Gaussian block, which gives it a closed-form marginal; another leaf never does.
        self.eliminate_ancestral(with_parents=True, real=self.ancestral_first)
        self.eliminate_scales([n for n in self.left if n in self.scales_first])
        self.eliminate_gaussian()
        self.eliminate_scales(self.left)
        self.eliminate_ancestral()
        finite = self.finite_table()
        for name in self.left:
            self.refuse(name, "it has no closed form given the other variables.", "Sample it.")
        if self.left:
            self.put_back_matrices()
        remaining = tuple(self.left)
        notes: tuple[str, ...] = ()
        if self.joint.loose_potentials:
            notes = (
                f"the Potential {', '.join(self.joint.loose_potentials)} has no normaliser: the log evidence is "
                "that of the joint density as written and cannot be compared with another model's",
            )
        refusals = tuple(self.refusals[n] for n in remaining)
        plan = Plan(tuple(self.steps), remaining, method="", refusals=refusals, notes=notes)
        values = {n: v for n in finite if (v := self.supports[n].values) is not None}
        found = tuple(self.blocks), tuple(self.scales), tuple(self.ancestral)
        return Analysis(self.joint, self.shapes, plan, *found, finite, values, self.supports)

    def put_back_matrices(self) -> None:
        """A Wishart matrix has no closed form as a graph in other variables that remain."""
        others = ", ".join(self.left)
        for scale in [s for s in self.scales if s.family.log_density_graph is None]:
            self.scales.remove(scale)
            self.steps = [s for s in self.steps if s.variables != (scale.name,)]
            self.left = {n: None for n in self.joint.names if n == scale.name or n in self.left}
            self.refuse(scale.name, f"{others} remains, and a Wishart matrix is integrated out last.", "Fix the rest.")

    # -- Gaussian blocks ---------------------------------------------------------------------------------------------
    def eliminate_gaussian(self) -> None:
        chosen: list[str] = []
        order = list(reversed(self.left))
        if self.largest_first:
            order.sort(key=lambda n: -int(np.prod(self.shapes[n], dtype=int)))
        for name in order:
            if self.supports[name].kind != "real":
                continue
            if (other := self.blocked.get(name)) is not None:
                reason = f"once {other} is integrated out, its log density is no longer quadratic."
                self.refuse(name, reason, f"That leaves fewer numbers than {other} would be.")
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
            self.blocks.append(GaussianBlock(self.joint, part, self.shapes, tuple(self.active)))
            self.integrate_out(part, "normal", self.neighbours(set(part)))

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
    def eliminate_scales(self, names: Iterable[str]) -> None:
        for name in reversed(list(names)):
            support = self.supports[name]
            if support.kind in ("real", "finite"):
                continue
            if support.kind == "other":
                self.refuse(name, support.why + ".", support.advice)
                continue
            if (other := self.blocked.get(name)) is not None:
                reason = f"once {other} is integrated out, its log density is no longer of a conjugate family."
                self.refuse(name, reason, "Fix it, or give the two variables a joint conjugate prior.")
                continue
            try:
                scale = self.prove(name)
            except NotProved as error:
                advice = error.advice or " ".join(f.advice for f in families_for(support.kind))
                self.refuse(name, sentence(str(error)), advice)
                continue
            self.scales.append(scale)
            inside = {name, *(scale.block.names if scale.block else ())}
            around = self.neighbours(inside) - set(self.ancestral)
            # Probabilities of categories are left to chains, whose sums are linear in their length and a table is not.
            if scale.block is None and scale.family.support.name != "simplex":
                others = [n for n in around if self.supports[n].kind in support_kinds()]
                around -= {n for n in others if self.proofs.apart(name, n, self.factors_of(name))}
            self.integrate_out([name], scale.family.name, around)
            self.blocked.update(dict.fromkeys((n for n in around if n in self.left), name))

    def prove(self, name: str) -> Scale:
        blocks = [b for b in self.blocks if name in self.neighbours(set(b.names))]
        block = blocks[0] if blocks else None
        if len(blocks) > 1:
            merged = self.in_order(n for b in blocks for n in b.names)
            block = GaussianBlock(self.joint, merged, self.shapes, tuple(self.active))
        names = set(block.names) if block else set()
        if rivals := [s.name for s in self.scales if s.block and names & set(s.block.names)]:
            raise NotProved(f"{', '.join(self.in_order(names))} is scaled by {rivals[0]} as well")
        scale = self.proofs.scale(name, self.factors_of(name), block)
        if len(blocks) > 1 and block is not None:
            first = self.blocks.index(blocks[0])
            self.blocks = [b for b in self.blocks if b not in blocks]
            self.blocks.insert(first, block)
        return scale

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
                if with_parents and not latent_parents:
                    continue
                if self.supports[name].kind == "real" and not real:
                    self.passed_over = True
                    continue
                del self.active[name]
                self.refusals.pop(name, None)
                self.ancestral.append(name)
                note = "no data depend on it; its density integrates to one"
                self.integrate_out([name], "ancestral", latent_parents, note)
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
        self.integrate_out(names, "categorical", note=f"a table of {rows} hypotheses")
        return names


def sentence(text: str) -> str:
    """With a full stop."""
    return text if text.endswith(".") else text + "."


def _blame(graph: Variable, degree: Mapping[Variable, float], factor: str, name: str, joint: LogJoint) -> str:
    """Where a factor stops being quadratic, in words."""
    for node in toposort([graph]):
        if degree.get(node.outputs[0], 0) <= 2 or any(degree.get(i, 0) > 2 for i in node.inputs):
            continue
        label = in_words(core_op(node))
        label = label if " " in label else f"`{label}`"
        if factor == name:
            return f"its own log density is not quadratic (it goes through {label}): its prior is not Normal."
        return f"it enters the log density of {factor!r} through {label}, which is not quadratic in it."
    return f"the log density of {factor!r} is not quadratic in it."
