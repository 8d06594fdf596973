"""One reference posterior: a plain PyMC model, and its known answer.

The answer is :func:`bayeskit.infer`'s, by ``exact`` or ``quadrature`` alone: closed-form marginals with their mean, sd,
quantiles and distribution function, independent draws, and the log evidence with its error. It is made once a process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from inspect import getdoc

import numpy as np
import pandas as pd
import pymc as pm

from bayeskit.errors import InferenceError
from bayeskit.graphs.environment import silently
from bayeskit.inference.ladder import explain, infer
from bayeskit.results.marginals import Marginal, scalar_labels
from bayeskit.results.records import Posterior
from bayeskit.results.tree import stacked_draws

__all__ = ["PROBABILITIES", "ReferencePosterior", "references_of"]

DRAWS = 10_000
SEED = 20_260_101
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class ReferencePosterior:
    """A model whose posterior is known.

    Attributes
    ----------
    name : str
    about : str
        What it is and what is hard about it, in a sentence.
    group : str
        ``conjugate``, ``scales``, ``funnels``, …
    build : callable
        Makes the ``pymc.Model``, anew at every call.
    solved : callable, optional
        Makes another writing of the same model, from which the answer is taken; where ``build`` has another
        parametrisation, its Deterministics are the free variables of this one.
    """

    name: str
    about: str
    group: str
    build: Callable[[], pm.Model]
    solved: Callable[[], pm.Model] | None = None

    @property
    def discrete(self) -> bool:
        """Whether the model has discrete free variables, which samplers that follow gradients cannot move."""
        return _has_discrete(self)

    @property
    def posterior(self) -> Posterior:
        """The known answer, with 10,000 independent draws; the same object whenever it is asked for."""
        return _answered(self)

    def summary(self) -> pd.DataFrame:
        """Mean, sd and quantiles of every scalar of the free variables.

        Returns
        -------
        pandas.DataFrame
            One row a scalar, named as ArviZ names it, with columns ``mean``, ``sd``, ``q5``, ``q25``, ``q50``, ``q75``,
            ``q95`` and ``label``: ``exact``, ``quadrature``, or for the entries of a Wishart matrix ``exact moments,
            estimated quantiles``, from the independent draws. A moment that does not exist is infinite or NaN.
        """
        posterior = self.posterior
        draws = posterior.tree["posterior"].to_dataset()
        arrays = stacked_draws(draws, [str(rv.name) for rv in posterior.model.free_RVs])
        tables = [_summary_of(posterior.marginals[n], scalar_labels(draws, n), of) for n, of in arrays.items()]
        return pd.concat(tables)

    def __str__(self) -> str:
        return self.name


def references_of(
    group: str, *builders: Callable[[], pm.Model], solved: Callable[[], pm.Model] | None = None
) -> tuple[ReferencePosterior, ...]:
    """References named as the functions that build them, each about what its docstring says."""
    return tuple(
        ReferencePosterior(build.__name__.strip("_"), getdoc(build) or "", group, build, solved) for build in builders
    )


@cache
def _has_discrete(reference: ReferencePosterior) -> bool:
    return bool(reference.build().discrete_value_vars)


@cache
def _answered(reference: ReferencePosterior) -> Posterior:
    model = (reference.solved or reference.build)()
    method = explain(model).method
    if method not in ("exact", "quadrature"):
        raise InferenceError(f"the reference {reference.name!r} has no exact answer and none by quadrature")
    return infer(model, method=method, draws=DRAWS, random_seed=SEED, progressbar=False)


def _summary_of(marginal: Marginal, labels: list[str], draws: np.ndarray) -> pd.DataFrame:
    with silently():  # SciPy divides by zero on the way to a moment that does not exist
        moments = {"mean": marginal.dist.mean(), "sd": np.sqrt(marginal.dist.var())}
    if marginal.elementwise:
        quantiles, label = [marginal.dist.ppf(p) for p in PROBABILITIES], marginal.label
    else:
        quantiles, label = np.quantile(draws, PROBABILITIES, axis=0), f"{marginal.label} moments, estimated quantiles"
    columns = moments | {f"q{100 * p:g}": q for p, q in zip(PROBABILITIES, quantiles, strict=True)}
    flat = {name: np.broadcast_to(np.ravel(value), len(labels)) for name, value in columns.items()}
    return pd.DataFrame(flat | {"label": label}, index=labels)
