r"""Nested sampling by dynesty, on the unit cube.

Every prior is pushed through its inverse distribution function, :math:`\phi_j = F_j^{-1}(u_j \mid \phi_{<j})`, in the
order of the graph, so that :math:`Z = \int_{[0,1]^k} L(\phi(u)) \, du`. Points of the lowest likelihood are replaced
one by one by points of a higher one, and the volume left shrinks by a known factor a step (Skilling 2006):

.. math:: Z \approx \sum_i L_i \, (X_{i-1} - X_i), \qquad X_i = e^{-i/n}.

No draws are used, nor symmetries: the cube holds every mode and every labelling. The standard error is the scatter of
log Z when the volumes :math:`X_i` of the run are drawn anew from their distribution.

**Refusals.** A prior without an inverse distribution function (a Dirichlet, a multivariate Normal, an improper one),
by its name; more than a few dozen numbers, in which the volumes cannot be sampled in reasonable time; a run that did
not end within its evaluations; dynesty missing (``pip install bayeskit[nested]``).

**Cost.** Thousands to hundreds of thousands of evaluations, one at a time.

Sources: Skilling (2006), Bayesian Analysis 1, 833-860; Speagle (2020), Monthly Notices of the Royal Astronomical
Society 493, 3132-3158.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import on_one_thread, silently
from bayeskit.graphs.rewriting import inline, widen, without_checks
from bayeskit.marginal_likelihood.estimators import Target, refused
from bayeskit.model.support import has_own_transform
from bayeskit.model.unconstrained import Unconstrained, count_evaluations
from bayeskit.results.records import LogEvidence
from bayeskit.types import Graph

__all__ = ["estimate", "obstacle"]

STREAM = 0x4E57
LARGEST = 30  # numbers
MOST = 1_000_000  # evaluations
SHARE, FEWEST = 8, 250  # one live point for so many of the points asked for; at least
VOLUMES = 100  # times that the random volumes are drawn anew, for the standard error
FLOOR = -1e300  # log likelihood where there is none
END = 1e-12  # of the unit interval, within which an inverse distribution function is infinite


def obstacle(target: Target) -> str:
    """dynesty is missing, or a prior has no inverse distribution function."""
    if find_spec("dynesty") is None:
        return "nested sampling needs dynesty: pip install 'bayeskit[nested]'"
    if target.space.size > LARGEST:
        return f"nested sampling is for {LARGEST} numbers at most, not {target.space.size}"
    try:
        _natural(target.space, pt.vector("u"))
    except _NoInverse as error:
        return str(error)
    return ""


def estimate(target: Target) -> LogEvidence:
    """By dynesty's static sampler."""
    from dynesty import NestedSampler
    from dynesty.utils import jitter_run

    log_likelihood = _on_the_cube(target.space)
    seed = np.random.default_rng([target.random_seed, STREAM])
    live = max(FEWEST, target.points // SHARE)
    with on_one_thread(), silently(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = NestedSampler(log_likelihood, lambda u: u, target.space.size, nlive=live, rstate=seed)
        sampler.run_nested(maxcall=MOST, print_progress=False)
    results = sampler.results
    calls = int(np.sum(results["ncall"]))
    value = float(results["logz"][-1])
    if calls >= MOST:
        return refused(f"after {MOST:,} evaluations it had not ended")
    if not (math.isfinite(value) and value > FLOOR / 2):
        return refused("the likelihood is zero wherever the prior was looked at")
    # dynesty's own error, by the information in the likelihood, is half as large again as the scatter of runs.
    again = [float(jitter_run(results, rstate=seed)["logz"][-1]) for _ in range(VOLUMES)]
    return LogEvidence(value + target.log_mass, float(np.std(again, ddof=1)), "estimated")


class _NoInverse(Exception):
    """A prior that the cube cannot be pushed through; the message names it."""


def _natural(space: Unconstrained, cube: Graph) -> dict[Any, Graph]:
    """Every free variable as a function of the cube, in the order of the graph."""
    made: dict[Any, Graph] = {}
    start = 0
    for rv in _in_order(space):
        shape = space.layout.shapes[str(rv.name)]
        size = math.prod(shape)
        entries = pt.clip(cube[start : start + size].reshape(shape), END, 1 - END)
        start += size
        if not has_own_transform(space.model, rv):
            raise _NoInverse(f"a transform of {rv.name} may restrict its prior, which the cube knows nothing of")
        try:
            if rv.owner.op.ndim_supp:
                raise NotImplementedError
            inverse = pm.icdf(rv, entries)
        except NotImplementedError:
            kind = type(rv.owner.op).__name__.removesuffix("RV")
            raise _NoInverse(f"the prior of {rv.name} ({kind}) has no inverse distribution function") from None
        made[rv] = graph_replace([inverse], made, strict=False)[0] if made else inverse
    return made


def _in_order(space: Unconstrained) -> list[Any]:
    """The free variables, parents first."""
    depth = {rv: sum(other in ancestors([rv]) for other in space.rvs) for rv in space.rvs}
    return sorted(space.rvs, key=lambda rv: depth[rv])


def _on_the_cube(space: Unconstrained) -> Callable[[np.ndarray], float]:
    """log L at a point of the cube."""
    cube = pt.vector("u")
    natural = _natural(space, cube)
    moved: dict[Any, Graph] = {}
    for rv, value in natural.items():
        transform = space.transform(str(rv.name))
        parents = graph_replace(list(rv.owner.inputs), natural, strict=False) if transform is not None else []
        moved[space.model.rvs_to_values[rv]] = pt.as_tensor(
            value if transform is None else transform.forward(value, *parents)
        )
    likelihood: Any = space.model.datalogp
    graph = graph_replace(widen([likelihood]), moved, strict=False)[0]
    function = compile_small([cube], without_checks(inline(widen([graph]))))

    def log_likelihood(u: np.ndarray) -> float:
        count_evaluations(1)
        (value,) = function(np.asarray(u, dtype=float))
        return float(value) if np.isfinite(value) else FLOOR

    return log_likelihood
