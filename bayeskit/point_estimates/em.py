r"""Expectation–maximisation of any model whose finite variables can be summed out, read from its graph.

.. math:: \phi_{t+1} = \arg\max_\phi \; \mathrm{E}\bigl[\log p(y, z \mid \phi) \bigm| y, \phi_t\bigr]

The objective, log p(y | φ) or log p(y, φ), never falls (Dempster, Laird and Rubin 1977); every step is checked. The E
step is in :mod:`bayeskit.point_estimates.complete_data`, the M step in :mod:`bayeskit.point_estimates.m_step`, the
iteration in :mod:`bayeskit.point_estimates.em_problem`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeskit.errors import OptionError
from bayeskit.graphs.environment import lightly
from bayeskit.point_estimates.em_problem import Problem
from bayeskit.point_estimates.em_result import EMResult
from bayeskit.terminal import quiet

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["EMResult", "em"]


def em(
    model: pm.Model,
    *,
    objective: Literal["likelihood", "posterior"] = "likelihood",
    starts: int = 10,
    max_iterations: int = 1000,
    tolerance: float = 1e-9,
    start: Mapping[str, Any] | None = None,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> EMResult:
    r"""Maximise the likelihood or the posterior density by expectation–maximisation.

    The finite variables z are summed out, and every continuous variable :math:`\phi` is moved to the maximum of

    .. math:: Q(\phi) = \mathrm{E}\bigl[\log p(y, z \mid \phi) \bigm| y, \phi_t\bigr] \;(+ \log p(\phi)),

    block by block: in closed form where the score of Q has the form of a conjugate family, otherwise by L-BFGS-B.
    The likelihood may grow without bound (a component closes in on one point); such starts are dropped, and those with
    a state that no entry is in. The convergence is linear.

    Parameters
    ----------
    model : pymc.Model
        Its finite variables can be summed out: independent entries, ``DiscreteMarkovChain``, nested ones.
    objective : {"likelihood", "posterior"}
        With ``likelihood`` the priors of the continuous variables play no part; ``posterior`` is the mode of the
        density of the variables as the model has them (no Jacobian of a transform).
    starts : int
        How many starts, of which the best is returned; see :mod:`bayeskit.point_estimates.em_starts`.
    max_iterations : int
        For each start.
    tolerance : float
        An iteration is the last where what is still to be gained (Aitken; Böhning et al. 1994) is below this times
        one plus the size of the objective. Zero: no gain at all.
    start : mapping of str to array, optional
        A single start: values on their own supports; those left out are taken from the model's initial point.
    random_seed : int, optional
        Of the starts.
    progressbar : bool

    Returns
    -------
    EMResult

    Raises
    ------
    ModelError
        If there is no finite variable to sum out, a discrete variable remains, or a variable is in no likelihood.
    OptionError
        If an option is out of range or ``start`` does not fit.
    InferenceError
        If every start is degenerate, or the objective falls by more than rounding.
    """
    _require_options(objective, starts, max_iterations, tolerance)
    with lightly(), quiet():
        problem = Problem(model, objective)
        rng = np.random.default_rng(random_seed)
        first = None if start is None else problem.completed(start)
        return problem.best(1 if start is not None else starts, first, rng, max_iterations, tolerance, progressbar)


def _require_options(objective: str, starts: int, max_iterations: int, tolerance: float) -> None:
    if objective not in ("likelihood", "posterior"):
        raise OptionError(f"objective is {objective!r}; it must be 'likelihood' or 'posterior'")
    for name, value in {"starts": starts, "max_iterations": max_iterations}.items():
        if value < 1:
            raise OptionError(f"{name} is {value}; it must be at least 1")
    if not 0 <= tolerance < np.inf:
        raise OptionError(f"tolerance is {tolerance}; it must be a number, zero or more")
