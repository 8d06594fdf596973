"""What comes back of a comparison of models: its table, the priors that it rests on, and the posteriors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from bayeskit.arguments import checked
from bayeskit.errors import ModelError
from bayeskit.results.records import Posterior

__all__ = ["COLUMNS", "Comparison"]

# The columns of a comparison in their order, and how their numbers are written.
COLUMNS = {
    "log_evidence": "{:.3f}",
    "error": "{:.1e}",
    "label": "{}",
    "log_bayes_factor": "{:.3f}",
    "log_bayes_factor_error": "{:.1e}",
    "posterior_probability": "{:.4f}",
    "posterior_probability_error": "{:.1e}",
    "prior_probability": "{:.4f}",
    "elpd_loo": "{:.2f}",
    "se_loo": "{:.2f}",
    "high_pareto_k": "{:.0f}",
}


@dataclass(frozen=True)
class Comparison:
    """Models of the same data, the best first.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a model, sorted by evidence: ``log_evidence``, ``error``, ``label``, ``log_bayes_factor`` (relative to
        the first row, so zero or below) and ``log_bayes_factor_error``, ``posterior_probability`` and
        ``posterior_probability_error`` (to first order), ``prior_probability``, ``elpd_loo``, ``se_loo`` and
        ``high_pareto_k`` (number of observations whose LOO term is not reliable); the last three are NaN where LOO was
        not computed. Errors come from the ``error`` column: standard errors add up in squares, bounds as they are.
    priors : mapping of str to tuple of str
        Each model's priors, as PyMC writes them.
    notes : tuple of str
        Why LOO is missing or unreliable, and what else a reader must know.
    posteriors : mapping of str to Posterior
        Of each model, by its name, in the order in which they were given.
    """

    table: pd.DataFrame
    priors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    posteriors: Mapping[str, Posterior] = field(repr=False, default_factory=dict)

    @checked
    def log_bayes_factor(self, a: str, b: str) -> float:
        """log p(y | a) − log p(y | b), in nats: above zero where the data favour ``a``.

        Raises
        ------
        ModelError
            If a name is not among the compared models.
        """
        for name in (a, b):
            if name not in self.table.index:
                raise ModelError(f"no model {name!r} in this comparison; it has {', '.join(self.table.index)}")
        return float(self.table.at[a, "log_evidence"] - self.table.at[b, "log_evidence"])

    def __str__(self) -> str:
        text = self.table.to_string(na_rep="–", formatters={name: form.format for name, form in COLUMNS.items()})
        lines = [text, "", "priors (the evidence depends on them):"]
        for name in self.table.index:
            lines += [f"  {name}:", *(f"    {prior}" for prior in self.priors.get(name, ()))]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])
