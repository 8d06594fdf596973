"""A text by which a model is known again in another run: its distributions, its data and what it computes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.transforms import _default_transform
from pytensor.graph.basic import Constant

from bayeskit.graphs.fingerprint import digest_of_text, fingerprints, known_variable
from bayeskit.graphs.identity import digest_of
from bayeskit.graphs.interpreter import evaluator

__all__ = ["mark_of"]


def mark_of(model: pm.Model) -> str:
    """Of all random variables, Potentials and Deterministics, of observed values, data, dims and coords.

    Everything that an answer may show is in it; an :class:`~bayeskit.errors.OptionError` where an operation of a
    user's holds something that nothing tells from another.
    """
    parts = {**{v.name: v for v in [*model.basic_RVs, *model.potentials, *model.deterministics]}}
    texts = dict(zip(parts, fingerprints(list(parts.values()), {}), strict=True))
    values = {str(rv.name): digest_of(_value(model.rvs_to_values[rv])) for rv in model.observed_RVs}
    # What a variable is sampled in, and where samplers start, is no part of an answer; which ones there are, is.
    # But a transform that is not the distribution's own may leave out a part of what the variable can be.
    names = {str(rv.name): _restriction(model, rv) for rv in model.free_RVs}
    coords = digest_of({str(k): list(v) for k, v in sorted(model.coords.items()) if v is not None})
    dims = {k: tuple(map(str, v)) for k, v in model.named_vars_to_dims.items()}
    return digest_of_text(
        repr((sorted(texts.items()), sorted(values.items()), sorted(names.items()), coords, sorted(dims.items())))
    )


def _restriction(model: pm.Model, rv: Any) -> str:
    """The transform of a variable that has another one than its distribution gives it; empty if it has not."""
    transform: Any = model.rvs_to_transforms.get(rv)
    if transform is None:
        return ""
    own, default = (digest_of(t, known_variable) for t in (transform, _default_transform(rv.owner.op, rv)))
    return "" if own == default else own


def _value(value: Any) -> np.ndarray:
    return np.asarray(value.data if isinstance(value, Constant) else evaluator([], [value])()[0])
