"""Inference repeated: data drawn from the model, their posterior, and where the truth lies in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from arviz_base import dict_to_dataset
from pymc.backends.arviz import coords_and_dims_for_inferencedata

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.plan import analyse
from bayeskit.errors import DataError, ModelError, OptionError
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.graphs.identity import digest_of
from bayeskit.inference.ladder import explain, infer
from bayeskit.marginal_likelihood.relabelling import groups_without_order, over_all_labellings
from bayeskit.model.data_slots import with_constants
from bayeskit.model.forward_sampling import over_draws
from bayeskit.model.snapshot import restored
from bayeskit.model.written_data import without_predictions_from_data
from bayeskit.results.draws_outside_support import support_requirement
from bayeskit.results.marginals import scalar_labels
from bayeskit.results.tree import stacked_draws
from bayeskit.terminal import let_alarms_through
from bayeskit.validation.calibration.experiment import (
    Experiment,
    Quantity,
    Repetition,
    answered,
    drawn_numbers,
    streams,
)
from bayeskit.validation.calibration.likelihood_quantities import (
    LIKELIHOOD,
    NEW_DATA,
    PRIOR,
    log_densities_of,
    new_data_of,
)
from bayeskit.validation.calibration.new_observations import prediction_name, predictions
from bayeskit.validation.calibration.probability_transform import independent_draws, of_draws, of_marginal
from bayeskit.validation.calibration.simulated_data import Simulated, observed_slots, simulator
from bayeskit.validation.draws import as_arrays

__all__ = ["RepeatedInference"]

RANKED = 200  # draws that a truth is ranked among, where there are as many independent ones
SAMPLED = 1000  # draws of a sampler, to be thinned
ANY_LABELLING = (
    "the components of {} have no order: each draw of a chain is given one of their labellings at random, for the "
    "posterior has them all"
)
# Four chains on PPCA from the loadings of its own data agreed with each other in a mirrored mode of other data.
GIVEN_STARTS = (
    "chains start where the model puts {} (initval): starts that are computed from its own data may be far from the "
    "posterior of others; method=... can build the model anew from each data set"
)


class RepeatedInference:
    """A model with everything compiled that its data sets share."""

    def __init__(self, experiment: Experiment) -> None:
        self.of = experiment
        with on_one_thread(), lightly():
            self._prepare(experiment)

    def _prepare(self, experiment: Experiment) -> None:
        model, left_out = without_predictions_from_data(experiment.model)
        self.analysis: Analysis = analyse(model)
        own = experiment.generator is None
        source = self.analysis if own else analyse(experiment.generator)
        self.simulate = simulator(source)
        if not self.model.free_RVs:
            raise ModelError("the model has no free variable, so there is nothing to calibrate")
        self.names = _shared_names(self.analysis, source)
        self.data_names = {n: str(slot.name) for n, slot in observed_slots(self.model).items()}
        self.notes: list[str] = []
        if left_out:
            self.notes.append(
                f"left out were {', '.join(left_out)}: they are made of the observations of the model, and no data "
                "depend on them"
            )
        self.log_densities = self._log_densities(source)
        self.new_data = new_data_of(self.model)
        self.new_data_of_truth = self.new_data if own else new_data_of(source.original.model)
        joint = self.analysis.original
        ranked = {*joint.names, PRIOR, LIKELIHOOD, NEW_DATA, *map(prediction_name, self.data_names)}
        if taken := {*experiment.quantities} & ranked:
            raise OptionError(f"quantities: {min(taken)!r} is ranked already; give the quantity another name")
        self.deterministics = list(joint.deterministics) if experiment.quantities else []
        if self.deterministics:
            self.compute = over_draws(list(joint.deterministics.values()), joint.values)
        # Where quadrature gives up, for some data sets, a sampler answers: 200 draws are too few of one.
        planned = explain(self.analysis).method if experiment.method == "auto" else experiment.method
        self.number = experiment.draws or (RANKED if planned == "exact" else SAMPLED)
        if callable(experiment.method):
            self.require_within_support = support_requirement(self.model)
        self.of_chains: list[str] = []
        if planned != "exact":  # of any other method NUTS may have to answer for some data sets
            alike = {n for group in groups_without_order(self.model, self.analysis) for n in group.axes}
            named = ", ".join(name for name in self.names if name in alike)
            self.of_chains += [ANY_LABELLING.format(named)] if named else []
            given = self.model.rvs_to_initial_values
            started = ", ".join(str(rv.name) for rv in self.model.free_RVs if given.get(rv) is not None)
            self.of_chains += [GIVEN_STARTS.format(started)] if started else []

    @property
    def model(self) -> pm.Model:
        return self.analysis.original.model

    def _log_densities(self, source: Analysis) -> Any:
        if set(self.names) != {str(rv.name) for rv in self.model.free_RVs}:
            self.notes.append("the generator lacks variables of the model: no log density was ranked")
            return None
        try:
            return log_densities_of(self.model, self.data_names)
        except NotImplementedError as error:
            self.notes.append(f"log densities were not ranked, for they cannot be computed for many draws: {error}")
            return None

    def fingerprint(self) -> dict[str, Any]:
        """What tells this experiment from another: its options, the first data set, and the likelihood there."""
        first = self.simulate(np.random.default_rng(streams(self.of.random_seed, 0)[0]))
        numbers = drawn_numbers(first)
        if self.log_densities is not None:
            one = [{n: np.asarray(v)[None] for n, v in of.items()} for of in (first.parameters, first.data)]
            numbers["log densities"] = [float(f"{of[0]:.9g}") for of in self.log_densities(*one)]
        method = self.of.method if isinstance(self.of.method, str) else digest_of(self.of.method)
        options = {"seed": self.of.random_seed, "method": method, "draws": self.of.draws}
        quantities = {name: digest_of(quantity) for name, quantity in self.of.quantities.items()}
        return {**options, "quantities": quantities, "first data set": numbers}

    def repetition(self, dataset: int) -> Repetition:
        """The data set of this number."""
        own = streams(self.of.random_seed, dataset)
        data_rng, rank_rng, new_rng = map(np.random.default_rng, own[:3])
        seed = int(own[3].generate_state(1)[0])
        return answered(dataset, lambda: self._found(dataset, data_rng, rank_rng, new_rng, seed))

    def _found(self, dataset: int, data_rng: Any, rank_rng: Any, new_rng: Any, seed: int) -> Repetition:
        simulated = self.simulate(data_rng)
        truth = {n: simulated.parameters[n] for n in self.names}
        draws, marginals, method, rhat = self._posterior(simulated, seed)
        values: dict[str, float] = {}
        for name in self.names:
            template = self._dataset({name: truth[name]})
            exact = name in marginals
            of = of_marginal(marginals[name], truth[name], rank_rng) if exact else None
            u = of_draws(draws[name], truth[name], rank_rng) if of is None else of
            values |= dict(zip(scalar_labels(template, name), u.tolist(), strict=True))
        source = {n: np.asarray(v)[None] for n, v in simulated.parameters.items()}
        new = self.new_data(draws, new_rng), self.new_data_of_truth(source, new_rng)
        values |= self._of_likelihood(simulated, truth, draws, new, rank_rng)
        values |= self._of_quantities(truth, draws, rank_rng)
        values |= predictions(*new, new_rng, rank_rng)
        closed = tuple(n for n in self.names if n in marginals)
        ranked = None if len(closed) == len(self.names) else len(next(iter(draws.values())))
        return Repetition(dataset, values, closed, method, rhat, ranked=ranked)

    def _posterior(self, simulated: Simulated, seed: int) -> tuple[dict[str, np.ndarray], Any, str, float | None]:
        """Independent draws, closed-form marginals, the method and the largest R-hat."""
        analysis = self.analysis.with_data({self.data_names[n]: v for n, v in simulated.data.items()})
        free = [str(rv.name) for rv in self.model.free_RVs]
        if callable(self.of.method):
            with lightly(), restored(analysis.snapshot):
                model = with_constants(analysis.original.model)
            try:
                given = self.of.method(model, seed)
            except (Exception, SystemExit) as error:  # whatever a sampler of somebody else's raises
                let_alarms_through(error)
                raise DataError(f"the sampler raised {type(error).__name__}: {error}") from error
            template = self._dataset(simulated.parameters if self.of.generator is None else self._any_point())
            try:
                arrays = as_arrays(given, template, free)
            except DataError as error:
                raise OptionError(f"what the sampler gives is not draws of this model: {error}") from error
            self._require_draws(arrays)
            draws, rhat = independent_draws(arrays, self.of.draws or RANKED)
            return draws, {}, "the sampler", rhat
        post = infer(analysis, method=self.of.method, draws=self.number, random_seed=seed, progressbar=False)
        post = over_all_labellings(post)
        held = post.tree["posterior"].to_dataset()
        if post.method == "nuts":
            arrays = {n: held[n].transpose("chain", "draw", ...).to_numpy() for n in free}
            draws, rhat = independent_draws(arrays, self.of.draws or RANKED)
            return draws, {}, post.method, rhat
        marginals = {n: m for n in self.names if (m := post.marginals.get(n)) is not None and m.elementwise}
        independent = stacked_draws(held, free)
        step = 1 if self.of.draws else max(1, self.number // RANKED)
        return {n: v[::step] for n, v in independent.items()}, marginals, post.method, None

    def _require_draws(self, arrays: Mapping[str, np.ndarray]) -> None:
        """A DataError where any of a sampler's draws is no number, or outside of its support: also of those thinned."""
        whole = {name: array.reshape(-1, *array.shape[2:]) for name, array in arrays.items()}
        for name, draws in whole.items():
            if number := int(np.count_nonzero(~np.isfinite(draws).reshape(len(draws), -1).all(axis=1))):
                raise DataError(f"{number:,} of {len(draws):,} draws of {name!r} are not finite")
        self.require_within_support(whole)

    def _any_point(self) -> dict[str, np.ndarray]:
        return {n: np.zeros(shape) for n, shape in self.analysis.original.shapes().items()}

    def _dataset(self, point: Mapping[str, np.ndarray], draws: bool = False) -> xr.Dataset:
        """A point, or draws of it along the first axis, as a Dataset with the model's dims and coords."""
        coords, dims = coords_and_dims_for_inferencedata(self.model)
        arrays = {n: (v[None] if draws else np.asarray(v)[None, None]) for n, v in point.items()}
        return dict_to_dataset(arrays, coords=coords, dims=dims, skip_event_dims=True)

    def _of_likelihood(self, simulated: Simulated, truth: Any, draws: Any, new: Any, rank_rng: Any) -> dict[str, float]:
        if self.log_densities is None:
            return {}
        number = len(next(iter(draws.values())))
        one = {n: np.asarray(v)[None] for n, v in truth.items()}
        same = {n: np.broadcast_to(v, (number, *np.shape(v))) for n, v in simulated.data.items()}
        of_posterior = self.log_densities(draws, same)
        of_truth = self.log_densities(one, {n: v[:1] for n, v in same.items()})
        of_new, of_new_of_truth = (self.log_densities(*pair)[1] for pair in zip((draws, one), new, strict=True))
        pairs = {
            PRIOR: (of_posterior[0], of_truth[0]),
            LIKELIHOOD: (of_posterior[1], of_truth[1]),
            NEW_DATA: (of_new, of_new_of_truth),
        }
        return {name: float(of_draws(of, true[0], rank_rng)[0]) for name, (of, true) in pairs.items()}

    def _of_quantities(self, truth: Any, draws: Any, rank_rng: Any) -> dict[str, float]:
        if not self.of.quantities:
            return {}
        one = {n: np.asarray(v)[None] for n, v in truth.items()}
        both = [self._dataset(self._with_deterministics(points), draws=True) for points in (one, draws)]
        found: dict[str, float] = {}
        for name, quantity in self.of.quantities.items():
            of_truth, of = (_values(name, quantity, points) for points in both)
            u = of_draws(of, of_truth[0], rank_rng)
            labels = [name] if u.size == 1 else [f"{name}[{k}]" for k in range(u.size)]
            found |= dict(zip(labels, u.tolist(), strict=True))
        return found

    def _with_deterministics(self, points: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        number = len(next(iter(points.values())))
        computed = self.compute(points, number) if self.deterministics else []
        return {**points, **dict(zip(self.deterministics, computed, strict=True))}


def _values(name: str, quantity: Quantity, points: xr.Dataset) -> np.ndarray:
    """A quantity of the user's at draws, first axis the draws."""
    try:
        values = quantity(points)
    except Exception as error:  # whatever a function of somebody else's raises
        let_alarms_through(error)
        raise OptionError(f"the quantity {name!r} raised {type(error).__name__}: {error}") from error
    lacking = {"chain", "draw"} - set(getattr(values, "dims", ()))
    if lacking:
        raise OptionError(
            f"the quantity {name!r} lacks the dims chain and draw: it is a function of a Dataset of draws"
        )
    array = values.transpose("chain", "draw", ...).to_numpy().astype(float)
    return array.reshape(array.shape[1], *array.shape[2:])


def _shared_names(analysis: Analysis, source: Analysis) -> list[str]:
    """The free variables that are drawn and inferred; an error where the data have other names or shapes."""
    inferred, drawn = analysis.original, source.original
    shapes, own = drawn.shapes(), inferred.shapes()
    observed = [sorted(str(rv.name) for rv in joint.model.observed_RVs) for joint in (inferred, drawn)]
    if observed[0] != observed[1]:
        raise ModelError(f"the generator observes {', '.join(observed[1])}, and the model {', '.join(observed[0])}")
    names = [n for n in inferred.names if shapes.get(n) == own[n]]
    if not names:
        raise ModelError("the generator and the model share no free variable of one name and shape")
    return names
