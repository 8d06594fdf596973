r"""Expectation–maximisation of any model whose finite variables can be summed out, read from its graph.

.. math:: \phi_{t+1} = \arg\max_\phi \; \mathrm{E}\bigl[\log p(y, z \mid \phi) \bigm| y, \phi_t\bigr]

The objective, log p(y | φ) or log p(y, φ), never falls (Dempster, Laird and Rubin 1977); every step is checked. The E
step is in :mod:`bayeskit.complete_data`, the M step in :mod:`bayeskit.m_step`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr
from pymc.logprob.utils import ParameterValueError

from bayeskit.compiling import compile_small, lightly, silently
from bayeskit.complete_data import CompleteData, complete_data, marginal_probabilities
from bayeskit.em_starts import start_weights
from bayeskit.errors import InferenceError, ModelError, OptionError
from bayeskit.expected import Expected, Point, expected_log_density
from bayeskit.forward import prior_points
from bayeskit.m_step import Degenerate, MStep, m_step
from bayeskit.natural import Natural
from bayeskit.terminal import is_terminal, quiet

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["EMResult", "em"]

ROUNDING = 1e-10  # relative fall of the objective that is rounding
SETTLE = 2  # M steps with the probabilities of a start: the blocks depend on each other
EMPTY = 1e-3  # expected entries in a state, below which it is empty


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
        mixture, the smoothed probabilities of a chain.
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
        if len(self.starts) > 1:
            lines.append(f"{best} of {len(self.starts)} starts reached this objective")
        lines += [f"M step: {b}" for b in self.blocks]
        lines += [f"note: {n}" for n in self.notes]
        return "\n".join(lines)


def em(
    model: pm.Model,
    *,
    objective: Literal["likelihood", "posterior"] = "likelihood",
    starts: int = 10,
    max_iterations: int = 1000,
    tolerance: float = 1e-9,
    start: Mapping[str, Any] | None = None,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> EMResult:
    r"""Maximise the likelihood or the posterior density by expectation–maximisation.

    The finite variables z (allocations of a mixture, states of a hidden Markov model) are summed out, and every
    continuous variable :math:`\phi` is moved to the maximum of

    .. math:: Q(\phi) = \mathrm{E}\bigl[\log p(y, z \mid \phi) \bigm| y, \phi_t\bigr] \;(+ \log p(\phi)),

    block by block: in closed form where the score of Q has the form of a conjugate family, otherwise by L-BFGS-B.

    Parameters
    ----------
    model : pymc.Model
        With finite variables that can be summed out: independent entries, ``DiscreteMarkovChain``, nested ones.
    objective : {"likelihood", "posterior"}
        Maximum likelihood, where the priors of the continuous variables play no part; or the mode of the posterior
        density of the variables as the model has them (no Jacobian of a transform).
    starts : int
        How many starts: from k-means clusters of what was observed beside each finite entry and from clusters around
        random rows, or, where there is no such thing, prior draws. The best is returned.
    max_iterations : int
        For each start.
    tolerance : float
        An iteration is the last where what is still to be gained, estimated from the last two gains as of a geometric
        series (Aitken; Böhning et al. 1994), is below this times one plus the size of the objective. Zero: no gain at
        all.
    start : mapping of str to array, optional
        A single start: values of variables on their own supports. Those left out are taken from the model's initial
        point.
    random_seed : int, optional
        Of the starts.
    progressbar : bool
        Show one where somebody watches and there are several starts.

    Returns
    -------
    EMResult

    Raises
    ------
    ModelError
        If there is no finite variable to sum out, a discrete variable remains, or a variable is in no likelihood.
    OptionError
        If an option is out of range or ``start`` does not fit.
    InferenceError
        If every start is degenerate, or the objective falls by more than rounding.

    Notes
    -----
    A likelihood that grows without bound, as where a component of a mixture closes in on one point, has no maximum: such
    starts are dropped, and so are those with a state that no entry is in. An iteration costs one evaluation of the terms
    of the sums; where the density of the rows is Normal, multivariate Normal, Poisson, Binomial or the like, the M step
    needs their weighted moments only. The convergence is linear.
    """
    _require_options(objective, starts, max_iterations, tolerance)
    with lightly(), quiet():
        problem = _Problem(model, objective)
        rng = np.random.default_rng(random_seed)
        first = None if start is None else problem.completed(start)
        return problem.best(1 if start is not None else starts, first, rng, max_iterations, tolerance, progressbar)


def _require_options(objective: str, starts: int, max_iterations: int, tolerance: float) -> None:
    if objective not in ("likelihood", "posterior"):
        raise OptionError(f"objective is {objective!r}; it must be 'likelihood' or 'posterior'")
    for name, value in {"starts": starts, "max_iterations": max_iterations}.items():
        if value < 1:
            raise OptionError(f"{name} is {value}; it must be at least 1")
    if not 0 <= tolerance < np.inf:
        raise OptionError(f"tolerance is {tolerance}; it must be a number, zero or more")


@dataclass(frozen=True, eq=False)
class _Run:
    point: Point
    trace: np.ndarray
    converged: bool
    weights: list[np.ndarray]
    log_likelihood: float
    log_prior: float

    @property
    def value(self) -> float:
        return float(self.trace[-1])


class _Problem:
    """A model compiled for expectation–maximisation."""

    def __init__(self, model: pm.Model, objective: str) -> None:
        self.model, self.with_prior = model, objective == "posterior"
        self.objective = objective
        self.data: CompleteData = complete_data(model)
        if not self.with_prior:
            self._require_likelihood()
        self.expected: Expected = expected_log_density(self.data, with_prior=self.with_prior)
        self.values = self.data.values

    def _require_likelihood(self) -> None:
        data = self.data
        if data.absorbed:
            raise ModelError(
                f"the density of {', '.join(data.absorbed)} depends on a finite variable: it is no parameter with a "
                "likelihood of its own; use objective='posterior'"
            )
        seen = set().union(*[s for f, s in data.joint.scopes.items() if f not in data.values])
        unseen = [n for n in data.values if n not in seen]
        if unseen:
            raise ModelError(
                f"{', '.join(unseen)} is in the prior of other variables only, so that it has no likelihood; fix it, or "
                "use objective='posterior'"
            )

    @cached_property
    def _e_step(self) -> Any:
        weights = [g for s in self.data.sums for g in s.posterior]
        outputs = [self.data.log_likelihood, self.data.log_prior, *weights, *self.expected.inner]
        return compile_small(list(self.values.values()), outputs)

    def e_step(self, point: Point) -> tuple[float, float, list[np.ndarray], list[np.ndarray]]:
        """log p(y | φ), log p(φ), the weights and the inner weights."""
        try:
            with silently():
                likelihood, prior, *rest = self._e_step(*[point[n] for n in self.values])
        except (ParameterValueError, np.linalg.LinAlgError):
            return -np.inf, -np.inf, [], []
        number = sum(len(s.weights) for s in self.data.sums)
        return float(likelihood), float(prior), rest[:number], rest[number:]

    @cached_property
    def initial(self) -> Point:
        """PyMC's initial point, on the supports."""
        natural = Natural(self.model, list(self.values))
        return natural.backward(natural.start)

    @cached_property
    def m_step(self) -> MStep:
        rng = np.random.default_rng(0)
        _, _, weights, inner = self.e_step(self.initial)
        if not weights:
            raise InferenceError("the density cannot be evaluated at the model's initial point; give an initval")
        # All positive, and no two alike: a form that holds for these holds for any.
        weights = [_mixed(w, rng) for w in weights]
        inner = [_mixed(w, rng) for w in inner]
        return m_step(self.expected, self.model, self.expected.statistics(weights, inner), 0)

    def completed(self, start: Mapping[str, Any]) -> Point:
        """A start given by the user, with the initial point for what it leaves out."""
        unknown = [n for n in start if n not in self.values]
        if unknown:
            raise OptionError(f"start has {unknown[0]!r}, which is none of {', '.join(self.values)}")
        point = dict(self.initial)
        for name, value in start.items():
            held = np.asarray(value, dtype=float)
            if held.shape != np.shape(point[name]):
                raise OptionError(f"start[{name!r}] has shape {held.shape} instead of {np.shape(point[name])}")
            point[name] = held
        return point

    def started(self, number: int, rng: np.random.Generator) -> Point:
        """The point of a start: the M step of clusters of the data, or a draw from the prior."""
        weights = start_weights(self.data, number, rng)
        if weights is None:
            try:
                drawn = next(iter(prior_points(self.model, 1, int(rng.integers(2**31)))))
                return {n: np.asarray(drawn[n], dtype=float) for n in self.values}
            except NotImplementedError:
                natural = self.m_step.natural
                return natural.backward(natural.start + rng.normal(scale=0.5, size=natural.size))
        point = self.initial
        inner = self.e_step(point)[3]
        statistics = self.expected.statistics(weights, inner)
        for _ in range(SETTLE):
            point = self.m_step.update(point, statistics)
        return point

    def climb(self, point: Point, max_iterations: int, tolerance: float) -> _Run:
        """Iterations from one start.

        Raises
        ------
        Degenerate
        """
        trace: list[float] = []
        run: _Run | None = None
        reference: Point | None = None
        while True:
            likelihood, prior, weights, inner = self.e_step(point)
            value = likelihood + prior if self.with_prior else likelihood
            if not np.isfinite(value):
                raise Degenerate("the objective, which is not finite")
            if run is not None and value < trace[-1]:
                if value < trace[-1] - ROUNDING * (1 + abs(value)):
                    raise InferenceError(
                        f"the objective fell from {trace[-1]:.10g} to {value:.10g} in iteration {len(trace)}: an M step "
                        "was not one; please report the model"
                    )
                return replace(run, converged=True)
            trace.append(value)
            run = _Run(point, np.array(trace), _settled(trace, tolerance), weights, likelihood, prior)
            if run.converged or len(trace) > max_iterations:
                return run
            point = self.m_step.update(point, self.expected.statistics(weights, inner))
            if not self.with_prior:
                reference = point if reference is None else reference
                self.m_step.require_spread(point, reference)

    def empty_state(self, run: _Run) -> str | None:
        """A state that next to no entry is in, in words."""
        first = 0
        for s in self.data.sums:
            step, each = s.summed, run.weights[first]
            first += len(s.weights)
            entries = int(np.prod(step.shape, dtype=int))
            if step.kind == "joint" or entries < 2 * len(step.values):
                continue
            states = 0 if step.kind == "independent" else each.ndim - 1
            counts = np.sum(each, axis=tuple(i for i in range(each.ndim) if i != states))
            if np.any(counts < EMPTY):
                return f"state {step.values[int(np.argmin(counts))]} of {step.name}, which is empty"
        return None

    def best(
        self, starts: int, first: Point | None, rng: np.random.Generator, limit: int, tolerance: float, bar: bool
    ) -> EMResult:
        """The best of all starts."""
        runs: list[_Run | None] = []
        reasons: list[str] = []
        for number in _watched(starts, bar):
            run = None
            try:
                run = self.climb(first if first is not None else self.started(number, rng), limit, tolerance)
                empty = None if self.with_prior else self.empty_state(run)
                if empty:
                    raise Degenerate(empty)
            except Degenerate as error:
                run = None
                reasons.append(str(error))
            runs.append(run)
        good = [r for r in runs if r is not None]
        if not good:
            raise InferenceError(
                f"every start is degenerate, without a maximum, in {'; '.join(dict.fromkeys(reasons))}: use a prior with "
                "objective='posterior', fewer states, or other starts"
            )
        run = max(good, key=lambda r: r.value)
        notes = []
        if reasons:
            notes.append(f"{len(reasons)} degenerate starts dropped: {'; '.join(dict.fromkeys(reasons))}")
        if not run.converged:
            notes.append(f"not converged after {limit} iterations: raise max_iterations")
        return EMResult(
            point={n: np.asarray(v) for n, v in run.point.items()},
            log_likelihood=run.log_likelihood,
            log_posterior=run.log_likelihood + run.log_prior,
            objective=self.objective,
            trace=run.trace,
            iterations=len(run.trace) - 1,
            converged=run.converged,
            probabilities=self.probabilities(run.point),
            starts=np.array([np.nan if r is None else r.value for r in runs]),
            blocks=self.m_step.described,
            notes=tuple(notes),
        )

    def probabilities(self, point: Point) -> xr.Dataset:
        """p(z = k | y, φ) of every finite variable."""
        function = compile_small(list(self.values.values()), marginal_probabilities(self.data))
        with silently():
            found = function(*[point[n] for n in self.values])
        model, arrays = self.model, {}
        for step, table in zip(self.data.finite, found, strict=True):
            states = np.unique(step.values)
            if step.kind == "independent":
                each = np.moveaxis(table, 0, -1)
            elif step.kind == "chain":
                each = table
            else:
                each = np.stack([np.tensordot(table, step.values == k, axes=1) for k in states], axis=-1)
            named = model.named_vars_to_dims.get(step.name) or [None] * len(step.shape)
            dims = [str(d) if d is not None else f"{step.name}_dim_{i}" for i, d in enumerate(named)]
            coords = {d: list(model.coords[d]) for d in dims if model.coords.get(d) is not None}
            dims.append(f"{step.name}_state")
            arrays[step.name] = xr.DataArray(each, dims=dims, coords={**coords, dims[-1]: states})
        return xr.Dataset({n: arrays[n] for n in reversed(arrays)})


def _mixed(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return 0.5 * values + rng.uniform(0.2, 0.8, size=np.shape(values))


def _settled(trace: list[float], tolerance: float) -> bool:
    """Whether what is left to be gained is below the tolerance, if gains go on as the last two."""
    if len(trace) < 3:
        return False
    before, last = trace[-2] - trace[-3], trace[-1] - trace[-2]
    if last <= 0:
        return True
    left = last * last / (before - last) if before > last else np.inf
    return bool(max(left, last) <= tolerance * (1 + abs(trace[-1])))


def _watched(starts: int, bar: bool) -> Iterable[int]:
    if not bar or starts < 2 or not is_terminal():
        return range(starts)
    from rich.progress import track

    return track(range(starts), description="EM starts", transient=True)
