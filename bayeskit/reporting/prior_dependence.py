"""What an answer owes to its priors: the gradient of the evidence, and how draws move when a prior is sharpened.

The second is power scaling, by :func:`arviz.psense_summary` over the priors that no other variable stands above: those
of hierarchical effects belong to the model. So do those of their standard scores, of a non-centred writing: the prior
of 400 scores to a power moves every answer, and priors of their mean and scale had been blamed for it. And so does that
of a random walk or another series, whose steps are as many as its data.

Source: Kallioinen, Paananen, Bürkner, Vehtari (2023), "Detecting and diagnosing prior and likelihood sensitivity with
power-scaling", Statistics and Computing 34.
"""

from __future__ import annotations

import logging
import math
import warnings
from typing import Any

import pandas as pd
import pymc as pm
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.tensor.math import Dot

from bayeskit.comparison.prior_sensitivity import sensitivity
from bayeskit.errors import BayeskitError
from bayeskit.graphs.environment import silently
from bayeskit.graphs.nodes import applies, core_op
from bayeskit.reporting.records import Section, frame_table
from bayeskit.reporting.subject import Subject, is_series, listed

__all__ = ["gradient_section", "prior_dependence_section"]

TITLE, GRADIENT_TITLE = "How much depends on the prior", "The evidence and its priors"
SCALARS, FEWEST = 60, 500  # that are power-scaled, and the draws it takes
NAMED = 3
THRESHOLD = 0.05  # ArviZ's
VARYING = 1e-9  # of a log prior over the draws, above which it is no rounding
SCALED = (
    "Power scaling: how far each posterior moves when the priors, or the likelihood, are made a little sharper. Above "
    f"{THRESHOLD} it depends on them."
)
GRADIENT = "The derivative of the log evidence in each number of the priors; elasticity: the change when it doubles."


def prior_dependence_section(subject: Subject) -> Section | None:
    """Power scaling of draws."""
    if not subject.names("free") or not subject.names("observed") or subject.written:
        return None
    scaled = _scaled(subject)
    if isinstance(scaled, str):
        return Section("sensitivity", TITLE, (f"{scaled}.",))
    moved = scaled[scaled["prior"] > THRESHOLD].sort_values("prior", ascending=False)
    doubts: tuple[str, ...] = ()
    if len(moved):
        names = [str(name) for name in moved.index]
        which = listed(names) if len(names) <= NAMED else f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
        doubts = (
            f"the answer depends on the prior for {which} (power-scaling sensitivity {moved['prior'].iloc[0]:g})",
        )
    table = frame_table(scaled, "parameter", "Power-scaling sensitivity")
    return Section("sensitivity", TITLE, (SCALED,), tables=(table,), doubts=doubts)


def gradient_section(subject: Subject) -> Section | None:
    """The gradient of the evidence, where there is one."""
    if subject.written or math.isnan(subject.post.log_evidence.value):
        return None
    try:
        found = sensitivity(subject.post)
    except BayeskitError as error:
        return Section("gradient", GRADIENT_TITLE, (f"There is no gradient: {error}.",))
    table = frame_table(found.table, "number", "The evidence and the numbers of the priors")
    return Section("gradient", GRADIENT_TITLE, (GRADIENT, *found.notes), tables=(table,))


def _scaled(subject: Subject) -> pd.DataFrame | str:
    """Sensitivity to the top priors and to the likelihood of each scalar; or why there is none."""
    import arviz as az

    if subject.post.diagnostics is not None and subject.post.diagnostics.problems:
        return "Power scaling needs draws that converged"
    if isinstance(subject.densities, str):
        return f"There is no power scaling: {subject.densities}"
    free = set(subject.post.model.free_RVs)
    above = {str(rv.name): free & set(ancestors([rv])) - {rv} for rv in free}
    draws, names, scalars = subject.densities["posterior"].to_dataset(), list[str](), 0
    if (number := draws.sizes["chain"] * draws.sizes["draw"]) < FEWEST:
        return f"There is no power scaling: {number:,} draws are too few, it takes {FEWEST}"
    for name in subject.names("free"):
        size = draws[name].size // number
        if draws[name].dtype.kind == "f" and scalars + size <= SCALARS:
            names.append(name)
            scalars += size
    above |= _standard_scores(subject.post.model)
    top = [name for name in subject.names("free") if not above[name] and name in subject.densities["log_prior"]]
    # A series with a known step is what the model says of how its entries hang together, as a hierarchy does.
    top = [name for name in top if not is_series(subject.post, name)]
    if not names or not top:
        return "There is no power scaling: no parameter of few entries has a prior of its own"
    prior = subject.densities["log_prior"].to_dataset()
    top = [name for name in top if float(prior[name].max() - prior[name].min()) > VARYING]
    if not top:
        return "There is no power scaling: the priors are uniform, to a power they are the same"
    logger = logging.getLogger("arviz_stats.psense")
    before, logger.disabled = logger.disabled, True
    try:
        with silently(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # what ArviZ has still to adapt to
            table = az.psense_summary(subject.densities, var_names=names, prior_var_names=top, threshold=THRESHOLD)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
        return f"There is no power scaling: {str(error).partition(chr(10))[0]}"
    finally:
        logger.disabled = before
    return table.drop(columns="diagnosis")


def _standard_scores(model: pm.Model) -> dict[str, set[Any]]:
    """Variables of several entries that are multiplied by others, which then stand above them: z of mu + tau * z."""
    free, found = set(model.free_RVs), dict[str, set[Any]]()
    for var in ancestors([*model.observed_RVs, *model.potentials, *model.deterministics]):
        node = var.owner
        if node is None or not (applies(node, ps.Mul) or isinstance(core_op(node), Dot)):
            continue
        factors = [free & set(ancestors([factor])) for factor in node.inputs]
        for k, factor in enumerate(factors):
            others = set().union(*factors[:k], *factors[k + 1 :]) - factor
            if len(factor) == 1 and others:
                (rv,) = factor
                if rv.type.ndim:
                    found.setdefault(str(rv.name), set()).update(others)
    return found
