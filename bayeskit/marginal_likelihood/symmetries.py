r"""Everything under which a density does not change: labels exchanged, signs changed, and what these make together.

Draws of one mode account for the others once the maps between them are known. Not all of them count: what the chains
visited alike is in the draws already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from arviz_stats.base import array_stats
from pymc.distributions.transforms import Ordered
from pymc.logprob.transforms import ChainedTransform
from pymc.util import get_transformed_name

from bayeskit.graphs.compile import compile_small
from bayeskit.marginal_likelihood.exchangeable import exchangeable_in
from bayeskit.marginal_likelihood.one_labelling import moved
from bayeskit.marginal_likelihood.permutations import (
    LABELLINGS,
    Exchangeable,
    Matrix,
    convention,
    labellings,
    number_of_labellings,
    random_labelling,
)
from bayeskit.marginal_likelihood.prior_mass import PriorMass
from bayeskit.marginal_likelihood.proposal import Refused
from bayeskit.marginal_likelihood.reflections import reflections
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.results.diagnostics import MOST_R_HAT

__all__ = ["Symmetric", "flat", "symmetries_of"]

APART = 1.2  # R-hat between draws and their mirror images that chance does not give, nor a slow chain
COPIES = 20  # labellings that it is judged by


def _in_any_order(
    model: pm.Model, names: Iterable[str], unconstrained: Mapping[str, np.ndarray]
) -> tuple[pm.Model, dict[str, np.ndarray]] | None:
    """The model without the ``ordered`` transform of some variables, and the draws on its unconstrained scale.

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


@dataclass(frozen=True, eq=False)
class Symmetric:
    """A density, draws from it, and the maps that leave it as it is."""

    space: Unconstrained
    draws: np.ndarray  # of shape (chain, draw, k)
    groups: tuple[Exchangeable, ...]  # components whose labellings are summed over
    maps: list[Matrix]  # the whole group, the identity first
    mirrored: tuple[str, ...]  # the variables of the mirror images in it
    apart: tuple[str, ...]  # of those the ones that the chains went to and fro between seldom or never
    added: float  # log K! of an order taken away, which the log integral has more than that of PyMC's own density

    @property
    def only_labels(self) -> bool:
        """Whether every map is a labelling."""
        return len(self.maps) == number_of_labellings(self.groups)


def symmetries_of(
    space: Unconstrained,
    draws: np.ndarray,
    orderings: Mapping[str, PriorMass],
    unconstrained: Mapping[str, np.ndarray],
    random_seed: int,
) -> Symmetric:
    """The symmetries of a density from which draws were made; refused if they are too many to sum over.

    ``unconstrained`` has the same draws by value variable. The order of a mixture's components is taken away.
    """
    added = 0.0
    groups: Sequence[Exchangeable] = exchangeable_in(space, draws, random_seed=random_seed)
    if orderings and (freed := _in_any_order(space.model, orderings, unconstrained)) is not None:
        other = Unconstrained(freed[0], space.weight)
        reordered = flat(other, freed[1])
        components = exchangeable_in(other, reordered, random_seed=random_seed)
        if set(orderings) <= {name for g in components if g.complete for name in g.axes}:
            space, draws, groups = other, reordered, components
            added = -sum(o.log_mass for o in orderings.values())
    groups = _to_sum_over(space, groups, draws, random_seed)
    if number_of_labellings(groups) > LABELLINGS:
        raise Refused(
            f"the integral is {convention(groups)}, too many to sum over (at most {LABELLINGS}), and the chains "
            "did not visit them alike; give the components an order"
        )
    found = reflections(space, draws, random_seed=random_seed)
    images = [(image, names) for image, names in found if not _alike(draws, _all_moved(draws, image))]
    mirrored = tuple(names for _, names in images)
    apart = tuple(names for image, names in images if not _alike(draws, _all_moved(draws, image), APART))
    maps = labellings(space, groups, [image for image, _ in images])
    if len(maps) > LABELLINGS:
        raise Refused(
            f"the density has more than {LABELLINGS} mirror images, too many to sum over: exchanges or changes of "
            f"sign of {'; '.join(mirrored)}"
        )
    return Symmetric(space, draws, groups, maps, mirrored, apart, added)


def flat(space: Unconstrained, unconstrained: Mapping[str, np.ndarray]) -> np.ndarray:
    """Draws by value variable as one array of shape (chain, draw, k)."""
    parts = (unconstrained[v.name] for v in space.variables)
    return np.concatenate([np.reshape(p, (*p.shape[:2], -1)) for p in parts], axis=-1)


def _to_sum_over(
    space: Unconstrained, groups: Sequence[Exchangeable], draws: np.ndarray, random_seed: int
) -> tuple[Exchangeable, ...]:
    """The groups whose labellings count: all, but those that the chains visited alike and that no model means.

    Two schools with the same data are exchangeable, and so are many independent variables: their posterior has one
    mode, the same under every labelling, and nothing need be done or said.
    """
    rng = np.random.default_rng([random_seed, COPIES])
    counted = [g for g in groups if g.complete or not _visited_alike(space, g, draws, rng)]
    while number_of_labellings(counted) > LABELLINGS:
        alike = [g for g in counted if _visited_alike(space, g, draws, rng)]
        if not alike:
            break
        counted.remove(max(alike, key=lambda g: len(g.labels)))
    return tuple(counted)


def _visited_alike(space: Unconstrained, group: Exchangeable, draws: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether each chain is spread over all labellings as its relabelled copy is."""
    which = rng.integers(COPIES, size=draws.shape[:2])
    return _alike(draws, moved(draws, [random_labelling(space, group, rng) for _ in range(COPIES)], which))


def _all_moved(draws: np.ndarray, image: Matrix) -> np.ndarray:
    return moved(draws, [image], np.zeros(draws.shape[:2], dtype=np.intp))


def _alike(draws: np.ndarray, copies: np.ndarray, most: float = MOST_R_HAT) -> bool:
    """Whether each chain is spread over the same places as its copy, by the R-hat between them."""
    both = np.concatenate([draws, copies])
    changed = np.flatnonzero(np.any(copies != draws, axis=(0, 1)))
    return all(float(array_stats.rhat(both[..., k])) <= most for k in changed)
