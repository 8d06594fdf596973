"""What every variable of a model is, for a page: its role, its distribution or formula, its dims."""

from __future__ import annotations

from dataclasses import dataclass

import pymc as pm

from bayeskit.model.snapshot import written_down
from bayeskit.model.variable_sizes import variable_sizes, written_axes
from bayeskit.model.written_priors import written_distribution, written_expression

__all__ = ["VariableText", "describe_variables"]


@dataclass(frozen=True)
class VariableText:
    """A variable in words: its name, its role, its distribution or formula, and its dims with their lengths."""

    name: str
    role: str
    text: str
    dims: str

    @property
    def random(self) -> bool:
        """Whether it has a distribution."""
        return self.role in ("free", "observed")

    @property
    def kind(self) -> str:
        """What it is: the name of its distribution, or its role."""
        return self.text.partition("(")[0] if self.random else self.role.capitalize()


@written_down
def describe_variables(model: pm.Model) -> tuple[VariableText, ...]:
    """Every variable of a model in the order of a reader: data, priors, Deterministics, likelihood, Potentials."""
    named, sizes = set(model.named_vars.values()), _sizes(model)
    rows = [(v, "data", "data") for v in model.data_vars]
    rows += [(v, "free", written_distribution(v, named, whole=True)) for v in model.free_RVs]
    rows += [(v, "deterministic", written_expression(v, named - {v})) for v in model.deterministics]
    rows += [(v, "observed", written_distribution(v, named)) for v in model.observed_RVs]
    rows += [(v, "potential", written_expression(v, named - {v})) for v in model.potentials]
    return tuple(VariableText(str(v.name), role, text, sizes[str(v.name)]) for v, role, text in rows)


def _sizes(model: pm.Model) -> dict[str, str]:
    """The dims of every named variable with their lengths; of a dim without a name, its length."""
    found = variable_sizes(model, list(model.named_vars.values()))
    return {name: written_axes(axes) for name, axes in found.items()}
