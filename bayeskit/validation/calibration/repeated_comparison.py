r"""Comparison repeated: a model is drawn, data from it, and where it lies among the posterior model probabilities.

.. math:: m^\ast \sim \mathrm{Uniform}, \quad y \sim p(y \mid m^\ast), \qquad
          u = \sum_{m < m^\ast} p(m \mid y) + V p(m^\ast \mid y), \quad V \sim \mathrm{Uniform}(0, 1)

is uniform if the probabilities are right: a model that is given 0.9 is the true one nine times in ten.

Source: Schad, Nicenboim, Bürkner, Betancourt and Vasishth (2022), "Workflow techniques for the robust use of Bayes
factors", Psychological Methods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import softmax

from bayeskit.elimination.plan import analyse
from bayeskit.errors import InferenceError, ModelError, OptionError
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.inference.ladder import answer, explain
from bayeskit.model.data_slots import DataSlot
from bayeskit.validation.calibration.experiment import MODEL, Experiment, Repetition, answered, drawn_numbers, streams
from bayeskit.validation.calibration.simulated_data import observed_slots, simulator

__all__ = ["RepeatedComparison"]

SAMPLED = 2000  # draws of a sampler, for an evidence by bridge sampling


class RepeatedComparison:
    """Models with everything compiled that their data sets share."""

    def __init__(self, experiment: Experiment) -> None:
        models = experiment.model
        assert isinstance(models, Mapping)
        _require_models(models, experiment)
        self.of = experiment
        self.notes: list[str] = []
        self.of_chains: list[str] = []
        self.models: Mapping[str, pm.Model] = models
        with on_one_thread(), lightly():
            self.analyses = {name: analyse(model) for name, model in models.items()}
            samples = experiment.method == "nuts" or any(explain(a).method == "nuts" for a in self.analyses.values())
            slots = {name: observed_slots(model) for name, model in models.items()}
            _require_one_shape(slots)
            self.data_names = {name: {n: str(s.name) for n, s in of.items()} for name, of in slots.items()}
            self.simulators = {name: simulator(analysis) for name, analysis in self.analyses.items()}
        self.draws = experiment.draws or (SAMPLED if samples else 0)

    def fingerprint(self) -> dict[str, Any]:
        """What tells this experiment from another: its options, the models, and a data set of each."""
        rng = streams(self.of.random_seed, 0)[0]
        first = {name: drawn_numbers(draw(np.random.default_rng(rng))) for name, draw in self.simulators.items()}
        return {"seed": self.of.random_seed, "method": self.of.method, "draws": self.of.draws, "first data set": first}

    def repetition(self, dataset: int) -> Repetition:
        """The data set of this number."""
        return answered(dataset, lambda: self._found(dataset))

    def _found(self, dataset: int) -> Repetition:
        own = streams(self.of.random_seed, dataset)
        data_rng, rank_rng = map(np.random.default_rng, own[:2])
        seed = int(own[3].generate_state(1)[0])
        names = list(self.analyses)
        true = int(data_rng.integers(len(names)))
        data = self.simulators[names[true]](data_rng).data
        evidences, methods = [], []
        for name, analysis in self.analyses.items():
            post = answer(
                analysis.with_data({self.data_names[name][n]: v for n, v in data.items()}),
                str(self.of.method),
                self.draws,
                seed,
            )
            if math.isnan(post.log_evidence.value):
                raise InferenceError(f"{name} has no log evidence: {post.log_evidence.reason}")
            evidences.append(post.log_evidence.value)
            methods.append(post.method)
        probabilities = softmax(evidences)
        u = probabilities[:true].sum() + rank_rng.random() * probabilities[true]
        exact = () if "nuts" in methods else (MODEL,)
        method, shares = " and ".join(dict.fromkeys(methods)), tuple(map(float, probabilities))
        return Repetition(dataset, {MODEL: float(u)}, exact, method, probabilities=shares)


def _require_models(models: Mapping[str, pm.Model], experiment: Experiment) -> None:
    if len(models) < 2:
        raise OptionError("there are no two models to compare: give two or more by name, {'line': m1, 'curve': m2}")
    given = {"quantities": experiment.quantities, "generator": experiment.generator}
    if callable(experiment.method) or any(given.values()):
        what = "a method that is a function" if callable(experiment.method) else next(n for n, v in given.items() if v)
        raise OptionError(f"{what} is for one model; of several, the posterior model probabilities are calibrated")
    first, *others = (sorted(str(rv.name) for rv in m.observed_RVs) for m in models.values())
    for name, observed in zip(list(models)[1:], others, strict=True):
        if observed != first:
            raise ModelError(f"{name} observes {', '.join(observed)}, and the first model {', '.join(first)}")


def _require_one_shape(slots: Mapping[str, Mapping[str, DataSlot]]) -> None:
    shapes = {name: {n: s.get_value(borrow=True).shape for n, s in of.items()} for name, of in slots.items()}
    (first, expected), *others = shapes.items()
    for name, of in others:
        if differing := [n for n in expected if of[n] != expected[n]]:
            n = differing[0]
            raise ModelError(f"{name} observes {n} of shape {of[n]}, and {first} of shape {expected[n]}")
