"""Whether the prior of the labels that were seen stays as it was where others come, which is what a forecast rests on.

The score of a chunk is the ratio of two integrals, with the labels before it and with those after it. It is the density
of a forecast where the first prior is the marginal of the second one: of effects of groups, one for each, it is; with
Beta(K, 1) for each of K groups it is not, nor of a random walk over days, one of which comes between others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pymc.logprob.utils import ParameterValueError

from bayeskit.chunks.labels import latent_dims
from bayeskit.chunks.reading import Reading
from bayeskit.graphs.compile import compile_small

__all__ = ["prior_that_changed"]

CLOSE = 1e-9


def prior_that_changed(few: Reading, more: Reading) -> str:
    """Why the prior of a model is not the marginal of that with more labels, as far as can be seen; empty if it is.

    Entries have to have each a density of their own that does not depend on the new ones, or be steps of a random walk
    that goes on.
    """
    places = {n: _places(few, more, n) for n, shape in few.shapes.items() if more.shapes.get(n) != shape}
    walks = {n for n, kept in places.items() if _goes_on(few, n, kept)}
    own = [n for n in few.joint.factors if n not in few.observed and n not in walks]
    for name in places.keys() & {*own}:
        joint = enumerate(places[name][few.joint.factors[name].type.ndim :], few.joint.factors[name].type.ndim)
        if any(len(kept) < more.shapes[name][axis] for axis, kept in joint):
            return f"the entries of {name!r} have one distribution together"
    point, grown = _at_a_point(few), _at_a_point(more)
    for name, value in point.items():
        at = np.ix_(*places[name]) if name in places else ...
        grown[name] = np.resize(value, more.shapes[name]).astype(value.dtype)
        grown[name][at] = value
    try:
        before, after = _factors(few, point, own), _factors(more, grown, own)
    except (ParameterValueError, np.linalg.LinAlgError) as error:
        return f"the priors cannot be compared ({error})"
    for name in own:
        one, two = before[name], after[name]
        if name in places:
            two = two[np.ix_(*places[name][: one.ndim])]
        if np.shape(one) != np.shape(two) or not np.allclose(one, two, rtol=CLOSE, atol=CLOSE, equal_nan=True):
            return f"{name!r} has another density, for the labels seen before, where there are others"
    return ""


def _at_a_point(reading: Reading) -> dict[str, np.ndarray]:
    return {n: np.asarray(v) for n, v in reading.points(1)[0].items()}


def _factors(reading: Reading, point: dict[str, Any], names: list[str]) -> dict[str, np.ndarray]:
    """Log densities by name, entry by entry."""
    values = reading.joint.values
    function = compile_small(list(values.values()), [reading.joint.factors[n] for n in names])
    with np.errstate(all="ignore"):
        found = function(*[np.asarray(point[n], v.type.dtype) for n, v in values.items()])
    return {n: np.asarray(f) for n, f in zip(names, found, strict=True)}


def _places(few: Reading, more: Reading, name: str) -> list[np.ndarray]:
    """Where the entries of a variable are in that with more labels, axis by axis."""
    dims = latent_dims(few.model)[name]
    return [
        np.arange(n) if d is None else more.labels[d].get_indexer(few.labels[d])
        for d, n in zip(dims, few.shapes[name], strict=True)
    ]


def _goes_on(few: Reading, name: str, kept: list[np.ndarray]) -> bool:
    """Whether a variable is a random walk, and the entries that it had are the first."""
    walk = type(few.model[name].owner.op).__name__ == "RandomWalkRV"
    return walk and all(np.array_equal(p, np.arange(len(p))) for p in kept)
