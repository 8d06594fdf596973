r"""Expectation–maximisation of any model whose finite variables can be summed out, read from its graph.

.. math:: \phi_{t+1} = \arg\max_\phi \; \mathrm{E}\bigl[\log p(y, z \mid \phi) \bigm| y, \phi_t\bigr]

The objective, log p(y | φ) or log p(y, φ), never falls (Dempster, Laird and Rubin 1977); every step is checked. The E
step is in :mod:`bayeskit.point_estimates.complete_data`, the M step in :mod:`bayeskit.point_estimates.m_step`, the
iteration in :mod:`bayeskit.point_estimates.em_problem`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Annotated, Any, Literal

import numpy as np
import pymc as pm
import xarray as xr

from bayeskit.arguments import Count, RandomSeed, Range, checked, whole_seed
from bayeskit.errors import InferenceError, ModelError, OptionError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import lightly, silently
from bayeskit.point_estimates.complete_data import CompleteData, complete_data, marginal_probabilities
from bayeskit.point_estimates.em_problem import Iteration, Problem, Run
from bayeskit.point_estimates.m_step import Degenerate
from bayeskit.results.tree import dims_of
from bayeskit.terminal import quiet, watched
from bayeskit.types import Point

__all__ = ["EMResult", "em"]

SAME = 1e-8  # relative difference of the objective up to which two starts reached one maximum


@dataclass(frozen=True, eq=False)
class EMResult:
    """A maximum found by expectation–maximisation.

    Attributes
    ----------
    point : dict of str to array
        φ̂, every continuous variable on its own support.
    log_likelihood : float
        log p(y | φ̂), with the finite variables summed out.
    log_posterior : float
        log p(y, φ̂), the posterior density but for its normaliser; in the parameters as the model has them, without the
        Jacobian of a transform.
    objective : {"likelihood", "posterior"}
    trace : numpy.ndarray
        The objective at the start and after each iteration; never decreasing.
    iterations : int
    converged : bool
    probabilities : xarray.Dataset
        For each finite variable p(z = k | y, φ̂), with a dim ``<name>_state`` after its own: the responsibilities of a
        mixture, the smoothed probabilities of a chain. Empty with ``chunks``, whose rows need not fit in memory; ask
        :meth:`probabilities_of` for those of a chunk.
    starts : numpy.ndarray
        The objective that each start reached, NaN where it was degenerate.
    blocks : tuple of str
        How each variable is maximised in the M step.
    notes : tuple of str
    """

    point: dict[str, np.ndarray]
    log_likelihood: float
    log_posterior: float
    objective: str
    trace: np.ndarray
    iterations: int
    converged: bool
    probabilities: xr.Dataset
    starts: np.ndarray
    blocks: tuple[str, ...]
    notes: tuple[str, ...]

    @checked
    def probabilities_of(self, model: pm.Model) -> xr.Dataset:
        r"""The probabilities of the states in other rows: of a chunk, or of rows that were not there before.

        .. math:: p(z_n = k \mid y, \hat\phi)

        Parameters
        ----------
        model : pymc.Model
            With the variables of the model that was maximised, and the rows in question.

        Returns
        -------
        xarray.Dataset
            As ``probabilities``.

        Raises
        ------
        ModelError
            If it has other variables, or no finite one.
        """
        with lightly():
            data = complete_data(model)
            shapes = {n: s for n, s in data.joint.shapes().items() if n in data.values}
            if shapes != {n: np.shape(v) for n, v in self.point.items()}:
                said = ", ".join(f"{n} {s}" for n, s in shapes.items())
                own = ", ".join(f"{n} {np.shape(v)}" for n, v in self.point.items())
                raise ModelError(f"the model has the variables {said}, and the maximum is one in {own}")
            return _probabilities(data, self.point)

    def __str__(self) -> str:
        what = "maximum likelihood" if self.objective == "likelihood" else "maximum of the posterior density"
        state = "converged" if self.converged else "NOT converged"
        good = self.starts[np.isfinite(self.starts)]
        best = int(np.sum(good > np.max(good) - 1e-6 * (1 + abs(float(np.max(good))))))
        lines = [f"EM: {what}, {state} after {self.iterations} iterations"]
        with np.printoptions(precision=6, suppress=True, threshold=24, linewidth=100):
            for name, value in self.point.items():
                shown = str(np.asarray(value)).replace("\n", "\n" + " " * (len(name) + 4))
                lines.append(f"  {name}: {shown}")
        lines.append(f"log likelihood {self.log_likelihood:.6f}, log posterior density {self.log_posterior:.6f}")
        reached = f"{best} of {len(self.starts)} starts reached this objective"
        lines.append(reached if len(self.starts) > 1 else "from one start: others may reach a higher objective")
        lines += [f"M step: {b}" for b in self.blocks]
        lines += [f"note: {n}" for n in self.notes]
        return "\n".join(lines)


@checked
def em(
    model: pm.Model | Callable[[Any], pm.Model],
    *,
    chunks: Any = None,
    dim: str | None = None,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
    objective: Literal["likelihood", "posterior"] = "likelihood",
    starts: Count = 10,
    max_iterations: Count = 1000,
    tolerance: Annotated[float, Range(0)] = 1e-9,
    start: Mapping[str, Any] | None = None,
    random_seed: RandomSeed = None,
    progressbar: bool = True,
) -> EMResult:
    r"""Maximise the likelihood or the posterior density by expectation–maximisation.

    The finite variables z are summed out, and every continuous variable :math:`\phi` is moved to the maximum of

    .. math:: Q(\phi) = \mathrm{E}\bigl[\log p(y, z \mid \phi) \bigm| y, \phi_t\bigr] \;(+ \log p(\phi)),

    block by block: in closed form where the score of Q has the form of a conjugate family, otherwise by L-BFGS-B.
    Starts are dropped whose likelihood grows without bound, and those with a state that no entry is in.

    Parameters
    ----------
    model : pymc.Model
        Its finite variables can be summed out. With ``chunks`` a function that builds the model of one.
    chunks, dim, client, checkpoint
        Rows as of :func:`bayeskit.infer`, with finite variables of their own; whose workers have the E steps; a file of
        these, to go on from. 0.4 GB of columns stay in memory (of each worker); files beyond are read each time.
    objective : {"likelihood", "posterior"}
        With ``likelihood`` the priors of the continuous variables play no part; ``posterior`` is the mode of the
        density of the variables as the model has them (no Jacobian of a transform).
    starts, max_iterations : int
        How many starts, of which the best is returned, and iterations of each.
    tolerance : float
        Of what is still to be gained (Aitken; Böhning et al. 1994), relative to one plus the size of the objective.
    start : mapping of str to array, optional
        A single start: values on their own supports; those left out are taken from the model's initial point.
    random_seed, progressbar
        Of the starts, an int, a sequence of int or a numpy.random.Generator; a bool.

    Returns
    -------
    EMResult

    Raises
    ------
    ModelError, DataError
        If a finite variable cannot be summed out, another is in no likelihood, or ``chunks`` are bad or do not add up.
    OptionError, InferenceError
        If an option or ``start`` does not fit; if every start is degenerate, or the objective falls.
    """
    rng = np.random.default_rng(whole_seed(random_seed))
    with lightly(), quiet():
        of_chunks = {"dim": dim, "client": client, "checkpoint": checkpoint}
        problem = _problem(model, chunks, of_chunks, objective, progressbar)
        first = problem.completed(start) if start is not None else None
        return _best(problem, 1 if first else starts, first, rng, max_iterations, tolerance, progressbar)


def _problem(model: Any, chunks: Any, options: dict[str, Any], objective: str, progressbar: bool) -> Iteration:
    if chunks is not None:
        from bayeskit.point_estimates.em_chunks import chunked_problem  # of the few who need it

        return chunked_problem(model, chunks, objective=objective, progressbar=progressbar, **options)
    for name, given in options.items():
        if given is not None:
            raise OptionError(f"{name}: it is for chunks, em(build, chunks=..., {name}=...)")
    if not isinstance(model, pm.Model):
        raise ModelError("model is a function: give it the data, em(build(data)), or their chunks, chunks=...")
    return Problem(model, objective)


def _best(
    problem: Iteration,
    starts: int,
    first: Point | None,
    rng: np.random.Generator,
    limit: int,
    tolerance: float,
    bar: bool,
) -> EMResult:
    """The best of all starts."""
    runs: list[Run | None] = []
    reasons: dict[str, None] = {}  # in order, each once
    for number in watched(range(starts), "EM starts", bar):
        run = None
        try:
            begun = first or problem.started(number, rng)
            with problem.going_on():
                run = problem.climb(begun, limit, tolerance)
            problem.require_states(run)
        except Degenerate as error:
            run, reasons[str(error)] = None, None
        runs.append(run)
    good = [r for r in runs if r is not None]
    if not good:
        advice = "a prior whose density vanishes there (InverseGamma or Gamma for a scale)"
        if not problem.with_prior:
            advice = f"objective='posterior' with {advice}"
        where = f"every start is degenerate, without a maximum, in {'; '.join(reasons)}"
        raise InferenceError(f"{where}: use {advice}, fewer states, or other starts")
    highest = max(r.value for r in good)
    # Starts that reach one maximum under different labels differ by rounding: the first of them is as good.
    best = next(r for r in good if r.value >= highest - SAME * (1 + abs(highest)))
    notes = [f"{len(runs) - len(good)} degenerate starts dropped: {'; '.join(reasons)}"] if reasons else []
    if not best.converged:
        notes.append(f"not converged after {limit} iterations: raise max_iterations")
    return EMResult(
        point={n: np.asarray(v) for n, v in best.point.items()},
        log_likelihood=best.last.log_likelihood,
        log_posterior=best.last.log_likelihood + best.last.log_prior,
        objective="posterior" if problem.with_prior else "likelihood",
        trace=best.trace,
        iterations=len(best.trace) - 1,
        converged=best.converged,
        probabilities=_probabilities(problem.data, best.point) if problem.has_rows else xr.Dataset(),
        starts=np.array([np.nan if r is None else r.value for r in runs]),
        blocks=problem.m_step.described,
        notes=tuple(notes),
    )


def _probabilities(data: CompleteData, point: Point) -> xr.Dataset:
    """p(z = k | y, φ) of every finite variable."""
    function = compile_small(list(data.values.values()), marginal_probabilities(data))
    with silently():
        found = function(*[point[n] for n in data.values])
    model, arrays = data.joint.model, {}
    for step, table in zip(data.finite, found, strict=True):
        states = np.unique(step.values)
        each = table if step.kind == "chain" else np.moveaxis(table, 0, -1)
        if step.kind == "joint":
            each = np.stack([np.tensordot(table, step.values == k, axes=1) for k in states], axis=-1)
        dims = list(dims_of(model, step.name, len(step.shape)))
        coords = {d: list(model.coords[d]) for d in dims if model.coords.get(d) is not None}
        dims.append(f"{step.name}_state")
        arrays[step.name] = xr.DataArray(each, dims=dims, coords={**coords, dims[-1]: states})
    return xr.Dataset({n: arrays[n] for n in reversed(arrays)})
