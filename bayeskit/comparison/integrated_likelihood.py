r"""The likelihood of observations that have a parameter each, which is integrated out of it.

.. math:: p(y_g \mid \phi) = \int p(y_g \mid b_g, \phi) \, p(b_g \mid \phi) \, db_g

Draws of :math:`b_g` have seen :math:`y_g`, and where it is all that tells of them they lie far from where they would be
without it: weights :math:`1 / p(y_g \mid b_g, \phi)` have no use. Of the entries of one variable that are independent
given the rest, the integrals are taken at each draw of φ, by one rule over one number.

Source: Vehtari, Mononen, Tolvanen, Sivula, Winther (2016), "Bayesian leave-one-out cross-validation approximations for
Gaussian latent variable models", Journal of Machine Learning Research 17.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import numpy as np
import pymc as pm
import xarray as xr
from pymc.backends.arviz import find_observations

from bayeskit.elimination.analysis import Analysis
from bayeskit.finite.axis_dependence import EntriesMixed
from bayeskit.graphs.environment import lightly
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.support import support_of
from bayeskit.plates.entry_rows import EntryRows
from bayeskit.plates.integrate_out import NotAPlate, integrate_out
from bayeskit.plates.plate import Plate
from bayeskit.results.tree import stacked_draws

__all__ = ["integrated_log_likelihood"]

MOST = 40_000_000  # numbers that the integrals at all draws take


def integrated_log_likelihood(
    model: pm.Model, draws: xr.Dataset, members: Mapping[str, np.ndarray] | None, analysis: Analysis | None = None
) -> np.ndarray | None:
    """Log densities of shape (chains, draws, observations); None where no variable can be integrated out of them.

    ``members`` are as of :func:`bayeskit.comparison.leave_one_out.loo_from_draws`, ``analysis`` is that of the model
    where it is known.
    """
    values = find_observations(model)
    if len(values) != 1 or model.potentials or all(rv.ndim == 0 for rv in model.free_RVs):
        return None
    ((observed, value),) = values.items()
    numbers = np.arange(np.size(value)).reshape(np.shape(value)) if members is None else members[observed]
    lengths = draws.sizes["chain"], draws.sizes["draw"]
    find = partial(_plates, model, observed, analysis)
    for plate in find() if analysis is None else analysis.remembered_of(model, "plates of observations", find):
        entry = _entry_of(plate.terms.rows[-1], numbers)
        if entry is None or plate.weight * lengths[0] * lengths[1] > MOST:
            continue
        at = stacked_draws(draws, plate.given)
        integrals = plate.log_integrals([np.asarray(at[n], dtype=float) for n in plate.given], lengths[0] * lengths[1])
        found = integrals.reshape(*lengths, -1)[..., entry]
        return found if np.all(np.isfinite(found)) else None
    return None


def _plates(model: pm.Model, observed: str, analysis: Analysis | None) -> list[Plate]:
    """The variables that nothing but these data depend on, and these entry by entry: the rows of the data come last."""
    found = []
    with lightly():
        joint = LogJoint.from_model(model) if analysis is None else analysis.original
        for name in joint.names:
            if model[name].ndim == 0 or {f for f in joint.factors if name in joint.scopes[f]} != {name, observed}:
                continue
            with suppress(EntriesMixed, NotAPlate):
                found.append(integrate_out(joint, name, joint.shapes(), support_of(model, model[name]))[1])
    return found


def _entry_of(rows: EntryRows, numbers: np.ndarray) -> np.ndarray | None:
    """Of each observation the one entry whose data it is; None where an entry has several, or one has several entries.

    ``numbers`` are those of the observations that the entries of the observed variable belong to.
    """
    kept = [n for axis, n in enumerate(numbers.shape) if axis not in rows.added]
    if np.prod(kept, dtype=int) != rows.entries.size:
        return None
    along = [1 if axis in rows.added else n for axis, n in enumerate(numbers.shape)]
    pairs = np.stack([numbers.ravel(), np.broadcast_to(rows.entries.reshape(along), numbers.shape).ravel()])
    observations, entries = np.unique(pairs, axis=1)
    several = np.unique(observations).size < observations.size or np.unique(entries).size < entries.size
    return None if several else entries
