"""What a page is about: a posterior, and what was given with it. Its sections share what they read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
import xarray as xr
from pymc.distributions.multivariate import MvNormalRV
from pytensor.graph.traversal import ancestors

from bayeskit.comparison.comparison import Comparison
from bayeskit.graphs.nodes import core_op
from bayeskit.model.forward_sampling import draws_together, prior_points
from bayeskit.model.snapshot import WrittenModel
from bayeskit.reporting.formulas import VariableText, describe_variables
from bayeskit.reporting.records import Section
from bayeskit.results.log_densities import with_log_densities
from bayeskit.results.records import Posterior
from bayeskit.results.tree import observed_data
from bayeskit.validation import Validation

__all__ = ["PANEL_VARIABLE", "Subject", "data_in_words", "is_series", "label_variables", "listed"]

PRIOR_DRAWS, FEW_PRIOR_DRAWS = 4000, 500  # made together, and one by one
DENSITIES, MOST_OBSERVATIONS = 4000, 2000  # draws that have log densities, and of how many observations
DENSITIES_OF_MATRICES, LARGE_MATRIX = 1000, 32  # where each takes a covariance matrix of so many rows
PANEL_VARIABLE = 9  # a variable with more elements has no panel for each
LABELS = ("categorical", "markov_chain")  # steps of the plan whose variables are labels
SERIES = "pymc.distributions.timeseries"
KEPT_GROUPS = ("posterior", "log_likelihood", "log_prior")


@dataclass(frozen=True)
class Subject:
    """A posterior and what is said beside it."""

    post: Posterior
    validation: Validation | None = None
    comparison: Comparison | None = None
    about: Sequence[str] = ()
    further: tuple[Section, ...] = field(default=())  # of what else was asked

    @cached_property
    def variables(self) -> tuple[VariableText, ...]:
        """The model's variables in words."""
        return describe_variables(self.post.model)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Of every scalar."""
        return self.post.summary()

    @cached_property
    def prior(self) -> Mapping[str, np.ndarray] | str:
        """Draws of the free variables from the prior, first axis the draws; or why there are none.

        Without the labels of many rows, and predictions at many places.
        """
        model, seed = self.post.model, self.post.random_seed or 0
        if self.written:
            return "the posterior was loaded without its model"
        try:
            without = self.many_labels | self.many_predictions
            drawn = draws_together(model, PRIOR_DRAWS, seed, aligned=True, without=without)
            if drawn is None:
                points = list(prior_points(model, FEW_PRIOR_DRAWS, seed, without))
                drawn = {name: np.stack([point[name] for point in points]) for name in points[0]} if points else {}
        except (ArithmeticError, NotImplementedError, TypeError, ValueError, RuntimeError) as error:
            return f"its prior cannot be drawn from ({str(error).partition(chr(10))[0]})"
        return drawn

    @cached_property
    def many_labels(self) -> frozenset[str]:
        """Variables of many labels, of components or of states: their intervals say nothing.

        Those of a chain would be drawn from its prior one by one.
        """
        return frozenset(self._many(label_variables(self.post)))

    @cached_property
    def many_predictions(self) -> frozenset[str]:
        """Variables of many entries that no data depend on, as a process has at new inputs: nothing is learned of them.

        To draw them from the prior takes a matrix for each draw.
        """
        model = self.post.model
        data = [*model.observed_RVs, *model.potentials]
        above = {str(v.name) for v in ancestors(data)}
        return frozenset(self._many({str(rv.name) for rv in model.free_RVs} - above) if data else ())

    def _many(self, names: set[str]) -> set[str]:
        """Those of many entries that no other variable depends on but these."""
        draws = self.post.tree["posterior"].to_dataset()
        number = draws.sizes["chain"] * draws.sizes["draw"]
        many = {n for n in names if n in draws and draws[n].size > PANEL_VARIABLE * number}
        above = {str(rv.name): {str(v.name) for v in ancestors([rv]) if v is not rv} for rv in self.post.model.free_RVs}
        while needed := {n for n in many if any(n in up for name, up in above.items() if name not in many)}:
            many -= needed
        return many

    @cached_property
    def densities(self) -> xr.DataTree | str:
        """Some draws with the log likelihood of each observation and the log prior; or why there are none."""
        post = self.post
        if self.written:
            return "the posterior was loaded without its model"
        size = sum(math.prod(values.shape) for values in observed_data(post.tree).data_vars.values())
        if size > MOST_OBSERVATIONS:
            return f"there are {size:,} observations, and a page has time for {MOST_OBSERVATIONS:,}"
        tree = post.tree
        wanted = DENSITIES_OF_MATRICES if _has_large_matrices(post) else DENSITIES
        step = max(1, tree["posterior"].sizes["draw"] * tree["posterior"].sizes["chain"] // wanted)
        groups = [name for name in KEPT_GROUPS if name in tree.children]
        few = {name: tree[name].to_dataset().isel(draw=slice(None, None, step)) for name in groups}
        try:
            joint = None if post.analysis is None else post.analysis.original
            return with_log_densities(post.model, xr.DataTree.from_dict(few), joint)
        except (ArithmeticError, NotImplementedError, TypeError, ValueError, RuntimeError) as error:
            return str(error).partition("\n")[0]

    @property
    def written(self) -> bool:
        """Whether the posterior was loaded without its model."""
        return isinstance(self.post.model, WrittenModel)

    def names(self, role: str) -> list[str]:
        """Of the variables of a role."""
        return [v.name for v in self.variables if v.role == role]


def label_variables(post: Posterior) -> set[str]:
    """The variables whose values are labels, of components or of states."""
    return {name for step in post.plan.eliminated if step.family in LABELS for name in step.variables}


def is_series(post: Posterior, name: str) -> bool:
    """Whether a variable is a free one whose prior is a random walk or another process in time."""
    written = isinstance(post.model, WrittenModel)
    return not written and any(rv.name == name and type(rv.owner.op).__module__ == SERIES for rv in post.model.free_RVs)


def data_in_words(post: Posterior) -> list[str]:
    """Each observed variable with its lengths, and the names of its dims where it has names."""
    found = []
    for name, values in observed_data(post.tree).data_vars.items():
        own = f"{name}_dim_"  # of dims that nobody named
        lengths = [f"{n:,}" if str(d).startswith(own) else f"{d}: {n}" for d, n in values.sizes.items()]
        unit = " values" if len(lengths) == 1 and ":" not in lengths[0] else ""
        found.append(f"{name} ({' × '.join(lengths)}{unit})" if lengths else f"{name} (one value)")
    return found


def listed(words: Iterable[str]) -> str:
    """Words with commas, and an "and" before the last."""
    *first, last = [*words] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def _has_large_matrices(post: Posterior) -> bool:
    """Whether a log density factorises a large covariance matrix for each draw, as that of a Gaussian process does."""
    groups = [post.tree["posterior"].to_dataset(), observed_data(post.tree)]
    rows = {str(n): v.shape[-1] for group in groups for n, v in group.data_vars.items() if v.ndim}
    normals = [rv for rv in post.model.basic_RVs if isinstance(core_op(rv.owner), MvNormalRV)]
    return any(rows.get(str(rv.name), 0) >= LARGE_MATRIX for rv in normals)
