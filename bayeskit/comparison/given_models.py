"""The models that a comparison is given: each by its name, inferred where it is no posterior yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm

from bayeskit.arguments import seed_of
from bayeskit.comparison.comparison import Comparison
from bayeskit.elimination.analysis import Analysis
from bayeskit.errors import BayeskitError, ModelError
from bayeskit.graphs.fingerprint import digest
from bayeskit.inference.ladder import infer
from bayeskit.jobs.work import Work
from bayeskit.model.mark import mark_of
from bayeskit.model.snapshot import restored
from bayeskit.results.records import Posterior
from bayeskit.terminal import warnings_of

__all__ = [
    "Models",
    "OneOrSeveral",
    "inferred",
    "inferred_models",
    "marks_of",
    "named_models",
    "one_or_several",
    "posterior_of",
]

type Models = Mapping[str, pm.Model | Posterior] | Sequence[pm.Model | Posterior]
type OneOrSeveral = Models | Comparison | pm.Model | Posterior


def named_models(models: Any) -> dict[str, pm.Model | Posterior]:
    """Models by name: as given, else by the names that they have, else ``model 1``, ``model 2``."""
    if isinstance(models, Comparison):
        return dict(models.posteriors)
    if isinstance(models, Mapping):
        return {str(name): model for name, model in models.items()}
    if not isinstance(models, list | tuple):
        advice = "give two or more models by name, {'line': m1, 'curve': m2}"
        raise ModelError(f"models is a {type(models).__name__}; {advice}")
    numbered = [f"model {k}" for k in range(1, len(models) + 1)]
    own = [getattr(getattr(m, "model", m), "name", "") or number for m, number in zip(models, numbered, strict=True)]
    return dict(zip(own if len({*own}) == len(own) else numbered, models, strict=True))


def one_or_several(models: Any) -> dict[str, pm.Model | Posterior]:
    """Models by name; one alone, by the name ``model``."""
    given = {"model": models} if isinstance(models, pm.Model | Posterior) else named_models(models)
    if not given:
        raise ModelError("there are no models; give one, or several by name")
    return given


def posterior_of(given: pm.Model | Posterior, random_seed: int) -> Posterior:
    """A posterior as it is; that of a model."""
    return given if isinstance(given, Posterior) else infer(given, random_seed=random_seed, progressbar=False)


def inferred(name: str, model: pm.Model | Analysis, random_seed: int) -> Posterior:
    """The posterior of one of several models; what is said of it names the model."""
    try:
        with warnings_of(name):
            return infer(model, random_seed=seed_of(random_seed, name), progressbar=False)
    except BayeskitError as error:
        error.args = (f"{name}: {error}",)
        raise


def inferred_models(
    models: Mapping[str, pm.Model | Analysis | Posterior], random_seed: int, work: Work
) -> dict[str, Posterior]:
    """The posterior of each model, side by side where there are workers; those that are there already as they are."""
    jobs = {_mark(n, m, work): (n, m) for n, m in models.items() if not isinstance(m, Posterior)}
    found = work.results(_inferring, random_seed, jobs, "models")
    new = dict(zip((name for name, _ in jobs.values()), found, strict=True))
    return {n: m if isinstance(m, Posterior) else new[n] for n, m in models.items()}


def _mark(name: str, model: pm.Model | Analysis, work: Work) -> str:
    if work.checkpoint is None:
        return name
    if isinstance(model, Analysis):
        with restored(model.snapshot):
            return f"{name} {mark_of(model.original.model)}"
    return f"{name} {mark_of(model)}"


def _inferring(random_seed: int) -> Callable[[tuple[str, pm.Model | Analysis]], Posterior]:
    return lambda job: inferred(*job, random_seed)


def marks_of(models: Mapping[str, pm.Model | Posterior], checkpoint: Any) -> dict[str, str]:
    """By what a checkpoint knows models again, and posteriors with their evidences and draws; nothing without one."""
    return {} if checkpoint is None else {name: _mark_of_given(model) for name, model in models.items()}


def _mark_of_given(given: Any) -> str:
    if not isinstance(given, Posterior):
        return mark_of(given) if isinstance(given, pm.Model) else ""  # which is refused when it is to be inferred
    with restored(given.snapshot):
        mark = mark_of(given.model) if isinstance(given.model, pm.Model) else ""
    evidence = np.array([given.log_evidence.value, given.log_evidence.error])
    tree = given.tree["posterior"].to_dataset() if "posterior" in given.tree.children else {}
    return f"{mark} {given.method} {digest(evidence, *(np.asarray(tree[n]) for n in sorted(map(str, tree))))}"
