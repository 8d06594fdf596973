r"""A mixture whose means PyMC's ``ordered`` transform keeps in order, as the mixture with its means in any order.

The two have the same evidence: under the ordered prior, normalised, each point has K! times the density that it has
under the other, and the labellings of the other are K!. But where two means come close, the logarithm of their distance
goes to minus infinity: on the scale of the ordered model the posterior has long tails that no proposal has, and an
estimate is low as long as none of its draws lies there. Without the order nothing is special about equal means. Draws
in order are draws of one labelling, which is all that :mod:`bayeskit.marginal_likelihood.bridge` asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import Ordered
from pymc.logprob.transforms import ChainedTransform
from pymc.util import get_transformed_name

from bayeskit.graphs.compile import compile_small
from bayeskit.marginal_likelihood.permutations import Exchangeable

__all__ = ["covers", "in_any_order"]


def in_any_order(
    model: pm.Model, names: Iterable[str], unconstrained: Mapping[str, np.ndarray]
) -> tuple[pm.Model, dict[str, np.ndarray]] | None:
    """The model without the ``ordered`` transform of some variables, and the draws on its unconstrained scale.

    Parameters
    ----------
    model : pymc.Model
        Its free variables are continuous.
    names : iterable of str
        Variables that ``ordered`` restricts, alone or after an increasing transform of each entry.
    unconstrained : mapping of str to array (chain, draw, ...)
        Draws of the model's value variables.

    Returns
    -------
    model, draws
        None where a variable has more than one axis: each of its rows would have an order of its own.
    """
    transforms, values, draws = dict(model.rvs_to_transforms), dict(model.rvs_to_values), dict(unconstrained)
    for name in names:
        rv = model[name]
        whole = transforms[rv]
        first, last = whole.transform_list if isinstance(whole, ChainedTransform) else (None, whole)
        if rv.type.ndim != 1 or not isinstance(last, Ordered):
            return None
        transforms[rv], before = first, draws.pop(str(values[rv].name))
        values[rv] = values[rv].type(name=name if first is None else get_transformed_name(name, first))
        ordered = pt.matrix("ordered")
        increasing = compile_small([ordered], last.backward(ordered))(before.reshape(-1, before.shape[-1]))
        draws[str(values[rv].name)] = np.reshape(increasing, before.shape)
    # The same variables under other transforms. PyMC's own function for that refuses models with initial values.
    free = object.__new__(type(model))
    of_values = {value: rv for rv, value in values.items()}
    vars(free).update(vars(model), rvs_to_transforms=transforms, rvs_to_values=values, values_to_rvs=of_values)
    return free, draws


def covers(groups: Iterable[Exchangeable], names: Iterable[str]) -> bool:
    """Whether the entries of each variable are components that are all exchangeable."""
    along = {name for g in groups if g.complete for name in g.axes}
    return set(names) <= along
