"""Distribution functions that PyMC has wrong, and truncated and censored variables, whose densities are made of them.

PyMC 6.3 has √(xλ) for √(x/λ) and 2/(λμ) for 2λ/μ in that of the Wald distribution, which is right where λ = μ = 1: it
says 0.62 of P(x < 0.3) for μ = 1 and λ = 10, where it is 4·10⁻⁵ (SciPy's ``invgauss``).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import pymc as pm
from pymc.distributions.censored import CensoredRV
from pymc.distributions.continuous import WaldRV
from pymc.distributions.truncated import TruncatedRV
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from bayeskit.errors import UnanswerableError
from bayeskit.graphs.environment import lightly

__all__ = ["are_told_right", "require_right_distribution_functions"]

KNOWN = 4.13993e-05  # P(x < 0.3) for μ = 1 and λ = 10


def are_told_right(variables: Iterable[Variable]) -> bool:
    """Whether PyMC's distribution functions of what variables are made of are any."""
    ops = [v.owner.op for v in variables if v.owner is not None]
    ops += [op.base_rv_op for op in ops if isinstance(op, TruncatedRV)]
    return not any(isinstance(op, WaldRV) for op in ops) or _of_wald()


@cache
def _of_wald() -> bool:
    with lightly():
        told = pm.logcdf(pm.Wald.dist(1.0, 10.0), 0.3).eval({}, mode="FAST_COMPILE")
    return bool(np.isclose(np.exp(told), KNOWN, rtol=1e-3))


def require_right_distribution_functions(model: pm.Model) -> None:
    """An UnanswerableError where a variable is truncated or censored by a distribution function that is wrong."""
    every = set(model.basic_RVs)
    for rv in model.basic_RVs:
        made_of = [v for v in ancestors([rv], blockers=every - {rv}) if v.owner is not None and v not in every - {rv}]
        # Of a mixture its components may be truncated; of what is censored the density itself asks nothing else.
        is_censored = any(isinstance(v.owner.op, CensoredRV) for v in made_of)
        asked = [v for v in made_of if is_censored or isinstance(v.owner.op, TruncatedRV)]
        if not are_told_right(asked):
            raise UnanswerableError(
                f"{rv.name!r} is a truncated or censored Wald variable, of which PyMC {pm.__version__} has the "
                "distribution function wrong (P(x < 0.3) for mu=1 and lam=10 is 0.62 there, and 4e-5 in truth); "
                "write it as a pm.CustomDist with the logcdf of an inverse Gaussian variable"
            )
