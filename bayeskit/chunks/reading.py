"""A model that a builder makes of some rows, read for what it adds to a sum over rows and for what it does not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV
from pymc.exceptions import ImputationWarning
from pymc.logprob.utils import ParameterValueError
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random.op import RandomVariable

from bayeskit.chunks.labels import KnownLabels, latent_labels
from bayeskit.chunks.rows import ChunkRows
from bayeskit.errors import BayeskitError, CertificateError, DataError, ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.fingerprint import fingerprint
from bayeskit.graphs.interpreter import evaluator
from bayeskit.graphs.rewriting import substitute
from bayeskit.model.derivation import Derivations
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.summed_likelihood import SummedRows
from bayeskit.model.transforms import Natural
from bayeskit.row_sums.reduced_graph import log_density
from bayeskit.row_sums.separation import separate
from bayeskit.row_sums.statistics import RowStatistic, merged, reduced_terms
from bayeskit.row_sums.terms import NotAdditive
from bayeskit.terminal import let_alarms_through

__all__ = ["Reading", "Statistics", "read_rows"]

type Statistics = dict[str, RowStatistic]

TOLERANCE = 1e-9  # of the log density of a sum of statistics, relative to that of its rows
POINTS = 2


@dataclass(frozen=True, eq=False)
class Reading:
    """What a builder made of some rows."""

    rows: ChunkRows
    joint: LogJoint
    weight: float = 1.0  # of what was read

    @property
    def model(self) -> pm.Model:
        return self.joint.model

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self.joint.shapes()

    @cached_property
    def labels(self) -> dict[str, pd.Index]:
        return latent_labels(self.model)

    @cached_property
    def latents(self) -> dict[str, Any]:
        """Stand-ins for the free variables, of known shapes."""
        return {n: pt.TensorType(v.type.dtype, self.shapes[n])(n) for n, v in self.joint.values.items()}

    @cached_property
    def observed(self) -> dict[str, Any]:
        """The log density of each observed variable, of these stand-ins."""
        names = [str(rv.name) for rv in self.model.observed_RVs]
        places = {self.joint.values[n]: v for n, v in self.latents.items()}
        return dict(zip(names, substitute([self.joint.factors[n] for n in names], places), strict=True))

    @cached_property
    def known_rows(self) -> dict[str, SummedRows]:
        """The observed values, as far as they are to be known later."""
        found = {}
        for rv in self.model.observed_RVs:
            value: Any = self.model.rvs_to_values[rv]
            values = np.asarray(value.data if isinstance(value, Constant) else evaluator([], [value])()[0])
            if self.weight != 1 and values.ndim and len(values) == 2:
                values = values[:1]  # a row that was read twice
            known = isinstance(rv.owner.op, RandomVariable) and not isinstance(rv.owner.op, CustomDistRV)
            discrete = True if values.dtype.kind in "biu" else False if known else None
            found[str(rv.name)] = SummedRows.of(values, discrete)
        return found

    @cached_property
    def unobserved(self) -> dict[str, str]:
        """Of priors, Potentials and Deterministics a text each, by which they are the same or not for other rows."""
        names = {v: n for n, v in self.joint.values.items()}
        own = {n: g for n, g in self.joint.factors.items() if n not in self.observed}
        return {n: fingerprint(g, names) for n, g in (own | self.joint.deterministics).items()}

    def statistics(self, labels: KnownLabels) -> Statistics:
        """The sums of these rows, whose labels are all known; NotAdditive where a variable has none."""
        pack = labels.packing(self.model, self.shapes).pack
        self._require_labels()
        found: Statistics = {}
        for name, graph in self.observed.items():
            try:
                with np.errstate(all="ignore"):  # what is not finite is refused below
                    value, conditions = separate(graph, self.latents)
                    own = reduced_terms(value, conditions, self.latents, pack)
            except NotAdditive as error:
                raise _not_additive(name, str(error)) from error
            except (DataError, ModelError) as error:
                faults = self.rows.faults()
                raise DataError(f"{self.rows.name}: {error}{faults and f'; {faults}'}") from error
            for sign, statistic in own.items():
                if not statistic.is_finite or (statistic.has_infinite_keys and self.rows.faults()):
                    raise self._impossible(name)
                found[sign] = merged(found[sign], statistic) if sign in found else statistic
        return found if self.weight == 1 else {sign: s.scaled(self.weight) for sign, s in found.items()}

    def fixed(self, statistics: Statistics, labels: KnownLabels) -> dict[str, tuple[Any, ...]]:
        """What each variable has to have in common in all chunks, given how the statistics read it."""
        packing = labels.packing(self.model, self.shapes)
        whole = {n for s in statistics.values() for n in s.recipe.whole if not s.is_condition}
        return {n: packing.fixed(n, n in whole) for n in self.latents}

    def require_equal(self, statistics: Statistics, labels: KnownLabels, seed: int = 0) -> None:
        """A CertificateError unless the sums have the log density of the rows that they are of, at random points."""
        density = log_density(statistics, self.latents, labels.packing(self.model, self.shapes).unpack)
        written = self.weight * pt.add(*[pt.sum(g) for g in self.observed.values()], pt.constant(0.0))
        sizes = pt.add(*[pt.sum(pt.abs(g)) for g in self.observed.values()], pt.constant(1.0))
        both = compile_small(list(self.latents.values()), [density, written, sizes])
        own, theirs, size = 0.0, 0.0, 1.0  # where the density is none at a point
        for point in self.points(seed):
            with np.errstate(all="ignore"), suppress(ParameterValueError, np.linalg.LinAlgError):
                own, theirs, size = both(*[np.asarray(point[n], v.type.dtype) for n, v in self.latents.items()])
            apart = abs(own - theirs)
            if np.isfinite(theirs) and not apart <= TOLERANCE * size:
                what = f"the log density of {', '.join(self.observed)} and that of its sums over rows"
                raise CertificateError(f"{what} differ by {apart:.1e}: give the model its rows at once")

    def points(self, seed: int) -> list[dict[str, np.ndarray]]:
        """Values of the free variables, those that are real at random."""
        model, rng = self.model, np.random.default_rng(seed)
        real = [str(rv.name) for rv in model.free_RVs if rv.dtype.startswith("float")]
        others = {
            str(rv.name): np.asarray(model.initial_point(0)[model.rvs_to_values[rv].name])
            for rv in model.free_RVs
            if rv.name not in real
        }
        if not real:
            return [others]
        natural = Natural(model, real)
        return [others | natural.at(natural.start + rng.normal(scale=0.5, size=natural.size)) for _ in range(POINTS)]

    def _require_labels(self) -> None:
        """A DataError where values are missing and places are negative: of a label that is missing, pandas makes -1."""
        places = [v.data for v in graph_inputs(self.observed.values()) if isinstance(v, Constant)]
        negative = any(np.asarray(p).dtype.kind == "i" and np.size(p) > 1 and np.min(p) < 0 for p in places)
        if negative and (faults := self.rows.faults()):
            raise DataError(f"{self.rows.name} may lack a label: {faults}; leave such rows out")

    def _impossible(self, name: str) -> DataError:
        why = f"some of {name!r} are no values that its distribution can have, or are no numbers"
        return DataError(f"{self.rows.name} has no density: {self.rows.faults() or why}")


def read_rows(
    build: Callable[[Any], pm.Model], rows: ChunkRows, known: Derivations | None = None, *, twice: bool = True
) -> Reading:
    """The model of some rows; an error names them where it cannot be built, or has values missing.

    A single row is read ``twice`` and counted by half: in arrays of one entry, data cannot be told from constants.
    ``known`` is what was derived of other rows.
    """
    alone = twice and len(rows) == 1
    if pm.Model.get_context(error_if_none=False) is not None:
        raise ModelError(
            "this is called inside a `with pm.Model()` block, and what build makes would be a part of that model: call "
            "it outside"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImputationWarning)  # missing values are refused below
            model = build((rows.take([0, 0]) if alone else rows).own_copy())
    except Exception as error:
        let_alarms_through(error)
        text = str(error).splitlines()[0] if str(error) else ""
        faults = rows.faults()
        kind = type(error) if isinstance(error, BayeskitError) else ModelError
        said = text if isinstance(error, BayeskitError) else f"{type(error).__name__}: {text}"
        raise kind(f"no model can be built of {rows.name}: {said}{faults and f'; {faults}'}") from error
    if not isinstance(model, pm.Model):
        raise ModelError(f"build has to return a pymc.Model, and returned {type(model).__name__} for {rows.name}")
    for rv in (*model.observed_RVs, *model.free_RVs):
        if type(rv.owner.op).__name__ == "PartialObservedRV" or str(rv.name).endswith("_unobserved"):
            raise DataError(f"{rows.name} has missing values: {rows.faults() or rv.name}; leave such rows out")
    if not model.observed_RVs:
        raise ModelError(f"the model of {rows.name} has no observed variable, so that its rows add nothing")
    return Reading(rows, LogJoint.from_model(model, as_they_are=True, known=known), 0.5 if alone else 1.0)


def _not_additive(name: str, why: str) -> NotAdditive:
    return NotAdditive(
        f"{name!r} does not add up over rows: {why}; give the model its rows at once, bk.infer(build(data))"
    )
