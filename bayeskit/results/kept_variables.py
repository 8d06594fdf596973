"""Variables that keep their draws at new data though their own prior has these data in it: what they were is not known.

Values of a Gaussian process at places X are the plainest case. Given new places, PyMC would keep the values at the old
ones (with an ``ImplicitFreezeWarning``), or turn the white noise of the old values by the new covariance: of three
new places that were held to kriging, one was off by 0.7, by two standard deviations of the noise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors

from bayeskit.errors import DataError

__all__ = ["without_a_value_of_old"]

ROTATED = "_rotated_"  # what PyMC calls the white noise that the values of a Gaussian process are made of


def without_a_value_of_old(model: pm.Model, values: Mapping[str, np.ndarray], kept: Collection[str]) -> list[str]:
    """Variables with draws that depend on a container which other values are given for: they are drawn anew.

    Given the others they are, as long as no data depend on them. A DataError if some do: what these said of the old
    values is no draw of the new.
    """
    old = {name: model[name].get_value(borrow=True) for name in values}
    changed = {model[name]: name for name, value in values.items() if not np.array_equal(old[name], value)}
    if not changed:
        return []
    read = {*ancestors([*model.observed_RVs, *model.potentials])}
    anew = []
    for name in kept:
        made = name.removesuffix(ROTATED)
        seen = model[made if made in model.named_vars else name]
        found = [changed[v] for v in ancestors([seen]) if v in changed]
        if found and model[name] in read:
            raise DataError(
                f"{made} was inferred with other values of {found[0]} than the new ones, which it depends on: its "
                f"draws are not those of {made} at these. For a Gaussian process, have the model hold the new places "
                f"from the start: gp.conditional('{made}_new', X_new), and ask for var_names=['{made}_new']"
            )
        if found:
            anew.append(name)
    return anew
