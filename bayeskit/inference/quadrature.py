"""Quadrature over what remains, one to three real numbers, given which everything else has a closed form.

Where entries are integrated one by one given what remains, that may be four numbers, to 1e-4.

The integral of the collapsed density comes with an error bound, draws from it are independent, and the eliminated
variables come back exactly from their conditional distribution. The certificate is part of the error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.certificate import certify_collapsed
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.elimination.recovery import Recovery
from bayeskit.errors import UnanswerableError
from bayeskit.graphs.compile import has_loops
from bayeskit.graphs.environment import lightly, on_one_thread, silently
from bayeskit.graphs.operation_costs import operations_counted
from bayeskit.inference.cost import seconds_of_evaluation, seconds_of_sampling
from bayeskit.inference.methods import Request
from bayeskit.inference.quadrature_marginals import quadrature_marginals, transforms_of
from bayeskit.inference.quadrature_probes import named_points, peaks_of_components, prior_probes
from bayeskit.inference.remaining import obstacle_to
from bayeskit.inference.smooth_entries import require_smooth_entries
from bayeskit.marginal_likelihood.conventions import stated
from bayeskit.marginal_likelihood.exchangeable import exchangeable_in
from bayeskit.model.data_slots import sealed_in, unsealed
from bayeskit.model.forward_sampling import deterministics
from bayeskit.model.left_out import bound_of_left_out, bound_of_sums
from bayeskit.model.shorter_model import is_long
from bayeskit.model.support import is_improper
from bayeskit.model.unconstrained import Unconstrained, calls_of
from bayeskit.quadrature.change_of_variable import OntoInterval
from bayeskit.quadrature.integrate import NotIntegrable, Quadrature, integrate
from bayeskit.results.records import LogEvidence, Posterior
from bayeskit.results.tree import build_tree
from bayeskit.types import ArrayFunction

__all__ = ["Integrand", "answer", "collapsed_integral", "obstacle", "too_dear"]

NUMBERS, SHARED = 3, 4  # real numbers that are integrated over, at most; and where entries are integrated given them
FEWEST = 4  # draws at which the certificate is evaluated where none are asked for
TOLERANCE = {1: 1e-8, 2: 1e-8, 3: 1e-6, 4: 8e-5}  # nats, by number of dimensions
ACCEPTABLE = {1: 1e-6, 2: 1e-5, 3: 1e-5, 4: 2e-4}  # where the budget runs out
# Where entries are integrated about a number that is not zero: an sd of 1e-14 about 1 is not told from rounding, and
# with it no tail of 14 more orders of magnitude can be followed.
COARSER = 1e-6
CALL = 30  # numbers that handling one matrix by itself counts for
MOST = {1: 500_000, 2: 1_000_000, 3: 2_000_000, 4: 400_000}  # evaluations, however little each takes
LEAST = {1: 3_000, 2: 10_000, 3: 200_000, 4: 60_000}  # evaluations that an integral takes
FEWER = 50_000  # evaluations that importance sampling takes
ENTRYWISE = {1: 1_500, 2: 20_000, 3: 130_000, 4: 50_000}  # the same, of shared numbers: those of the entries are gone
LONGEST, AT_ONCE = 10.0, 256  # seconds in which entries are integrated, and points between two looks at their cost
NODE = 5e-6  # seconds that the rule itself takes for an evaluation


def obstacle(analysis: Analysis) -> str:
    """Nothing remains, or more than three real numbers do; four, where entries are integrated given them."""
    if analysis.plates:
        return obstacle_to("quadrature", analysis, SHARED, "one to four")
    return obstacle_to("quadrature", analysis, NUMBERS, "one to three")


@dataclass(frozen=True, eq=False)
class Integrand:
    """The collapsed density of a model, made once for all data that it can be made without."""

    space: Unconstrained
    recovery: Recovery
    transforms: dict[str, OntoInterval]
    work: int  # numbers that an evaluation computes with
    sampled: int  # and one of the density that NUTS would sample, where no entries are integrated one by one

    @classmethod
    def of(cls, analysis: Analysis) -> Integrand:
        """Everything that may read data is made here, but for draws from the prior: its parameters may be data."""
        collapsed = collapsed_density(analysis)
        space = Unconstrained(collapsed_model(collapsed, open_circles=True), collapsed.weight, held=collapsed.held)
        work = space.weight + CALL * calls_of(collapsed.likelihood)
        with unsealed(sealed_in(space.model.free_RVs)):
            _ = space.initial  # where a search starts need not be told by the data that it is for
        sampled = work - sum(plate.weight - plate.terms.length for plate in analysis.plates)
        return cls(space, Recovery(collapsed), transforms_of(space, analysis.shapes), work, sampled)


def _budget(space: Unconstrained, work: int, sampled: int, seconds: float, among: int, patience: float) -> int:
    """Evaluations, of so many seconds, that take no longer than sampling; NotIntegrable where these are too few.

    With ``patience``, so many times as long.
    """
    kind = min(max(space.size, 1), SHARED)
    seconds += NODE
    # Importance sampling takes far fewer evaluations than an integral over three numbers: of several blocks, such an
    # integral has the share of a sampler's start only. Eight of 300,000 evaluations each take as long as sampling all.
    gradients = among == 1 or LEAST[kind] < FEWER
    counted = patience * seconds_of_sampling(seconds, space.size, sampled if gradients else 0, among) / seconds
    budget = int(min(MOST[kind], counted))
    least = ENTRYWISE[kind] if sampled < work else LEAST[kind]
    if budget < least:
        raise NotIntegrable(f"over {space.size} real numbers it would take longer than sampling")
    return budget


def _within_time(log_density: ArrayFunction, longest: float) -> ArrayFunction:
    """A density that is given up once it has taken so many seconds, as counted, which is longer than sampling does.

    What an evaluation takes is counted at the start; far from there integrals over entries take many times as long.
    """
    taken = 0.0

    def evaluate(points: np.ndarray) -> np.ndarray:
        nonlocal taken
        values = []
        for some in np.array_split(points, max(1, len(points) // AT_ONCE)):
            with operations_counted() as costs:
                values.append(log_density(some))
            taken += 1e-9 * costs.nanoseconds
            if taken > longest:
                raise NotIntegrable("the integrals over single entries take longer than sampling")
        return np.concatenate(values)

    return evaluate


def too_dear(analysis: Analysis) -> str:
    """That the integral would take longer than sampling, by the cost of an evaluation near the start; else empty."""
    made = _integrand(analysis)
    if has_loops([made.space.graph]):
        return ""  # a few points may take seconds
    try:
        _budget(made.space, made.work, made.sampled, _seconds(analysis, made), 1, 1.0)
    except NotIntegrable as error:
        return str(error)
    return ""


def _integrand(analysis: Analysis) -> Integrand:
    made: Integrand
    if analysis.snapshot is not None and _rows_recur(analysis):
        # A density that is made without reading its data goes through all rows at each point.
        made = analysis.remembered_of(analysis.original.model, "integrand of rows", lambda: Integrand.of(analysis))
    else:
        made = analysis.remembered_unread("integrand", lambda: Integrand.of(analysis))
    return made


def _rows_recur(analysis: Analysis) -> bool:
    """Whether they do in the first data of a model, by which it goes for all others."""
    if not is_long(analysis.joint):
        return False
    recur: bool = analysis.remembered("rows recur", lambda: collapsed_density(analysis).rows_recur)
    return recur


def _seconds(analysis: Analysis, made: Integrand) -> float:
    """Of an evaluation."""
    seconds: float = analysis.remembered("seconds", lambda: seconds_of_evaluation(made.space))
    return seconds


def collapsed_integral(analysis: Analysis, among: int = 1, patience: float = 1.0) -> tuple[Integrand, Quadrature]:
    """The collapsed density of a model, and its integral; NotIntegrable where it has none that can be bounded.

    Of one ``among`` several independent blocks, each has its share of what takes as long as sampling; with
    ``patience``, so many times as long.
    """
    found: tuple[Integrand, Quadrature] = analysis.remembered_of(
        analysis.original.model, "integral", lambda: _collapsed_integral(analysis, among, patience)
    )
    return found


def _collapsed_integral(analysis: Analysis, among: int, patience: float) -> tuple[Integrand, Quadrature]:
    if reason := obstacle(analysis):  # of a posterior that was answered block by block, say
        raise NotIntegrable(reason)
    made = _integrand(analysis)
    space, seconds = made.space, _seconds(analysis, made)
    if analysis.plates:
        require_smooth_entries(analysis, made.space, made.recovery)
    numbers = min(max(space.size, 1), SHARED)
    tolerance = max(COARSER, TOLERANCE[numbers]) if analysis.plates else TOLERANCE[numbers]
    goals = {"tolerance": tolerance, "acceptable": ACCEPTABLE[numbers]}
    budget = _budget(space, made.work, made.sampled, seconds, among, patience)
    with silently():  # draws from the prior, at which other modes are looked for
        probes = analysis.remembered_unread("probes", lambda: prior_probes(space))
    # The values of data are read here: what is made above holds for all of them.
    probes = np.concatenate([probes, named_points(space, analysis.joint, made.transforms)])
    probes = np.concatenate([probes, peaks_of_components(space, analysis, probes)])
    density = _within_time(space.log_density, LONGEST * patience) if analysis.plates else space.log_density
    try:
        with silently():
            return made, integrate(density, space.start, probes=probes, budget=budget, **goals)
    except NotIntegrable as error:
        if error.modes is not None:
            parts = zip(space.variables, space.slices.values(), strict=True)
            error.named_modes = ({str(v.name): error.modes[:, places] for v, places in parts},)
        if names := [str(rv.name) for rv in analysis.original.model.free_RVs if is_improper(rv)]:
            of = f"the prior of {', '.join(names)} is improper, and so the posterior may be: it needs a proper one"
            error.args = (f"{error}; {of}",)
            if analysis.original.shared:  # an evidence was asked for, and draws show no tail that has no end
                raise UnanswerableError(str(error)) from error
        raise


def answer(request: Request) -> Posterior:
    """The posterior and log evidence by quadrature over what remains."""
    model, analysis, random_seed = request.model, request.analysis, request.random_seed
    with lightly(), on_one_thread():
        made, result = collapsed_integral(analysis, request.among, request.patience)
        space, recovery = made.space, made.recovery
        rng = np.random.default_rng(random_seed)
        points = result.draw(rng, request.draws or FEWEST)
        values = recovery.draw(space.backward(points), rng)
        certificate = certify_collapsed(recovery, values, random_seed)
        values |= deterministics(analysis.original, values)
        marginals = quadrature_marginals(request, recovery, space, made.transforms, result)
        error = result.error + certificate + bound_of_left_out(space, points) + bound_of_sums(request.model, values)
        evidence = LogEvidence(result.log_integral, error, "quadrature")
        groups = [g for g in exchangeable_in(space, points, random_seed=random_seed) if g.complete]
        evidence = stated(evidence, groups, request.audit)
    return request.posterior(evidence, build_tree(model, values, request.draws), certificate, marginals)
