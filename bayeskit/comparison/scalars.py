"""The numbers of a posterior by the names that its summary gives them, as sums of entries of its free variables."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import numpy as np

from bayeskit.errors import ModelError
from bayeskit.graphs.polynomial_degree import degrees
from bayeskit.model.conditioning import LinearForm
from bayeskit.model.forward_sampling import over_draws
from bayeskit.results.marginals import scalar_labels
from bayeskit.results.records import Posterior

__all__ = ["Scalars", "tidy"]

MANY = 10_000_000  # coefficients of a Deterministic, above which they are not looked for
SHOWN = 8  # labels in a message


def tidy(name: str) -> str:
    """A name without quotation marks and blanks around the labels: ``m["a", 1]`` is ``m[a, 1]``."""
    variable, bracket, rest = name.strip().partition("[")
    if not bracket or not rest.rstrip().endswith("]"):
        return name.strip()
    labels = [part.strip().strip("\"'") for part in rest.rstrip()[:-1].split(",")]
    return f"{variable.strip()}[{', '.join(labels)}]"


class Scalars:
    """Free variables and Deterministics of a posterior, number by number."""

    def __init__(self, post: Posterior) -> None:
        self.post, self.joint = post, post.analysis.original
        self.draws = post.tree["posterior"].to_dataset()
        self.shapes = post.analysis.shapes
        self._labels: dict[str, list[str]] = {}
        self._forms: dict[str, list[LinearForm] | None] = {}

    @cached_property
    def variables(self) -> list[str]:
        """The names that may be asked for."""
        return [str(n) for n in self.draws.data_vars if n in self.shapes or n in self.joint.deterministics]

    def labels(self, variable: str) -> list[str]:
        """Of each number of a variable."""
        if variable not in self._labels:
            self._labels[variable] = scalar_labels(self.draws, variable)
        return self._labels[variable]

    def find(self, name: str) -> tuple[str, list[int]]:
        """The variable of a name, and which of its numbers are meant; a ModelError that says what there is."""
        if name in self.variables:
            return name, list(range(len(self.labels(name))))
        wanted, variable = tidy(name), name.partition("[")[0].strip()
        if variable not in self.variables:
            observed = [str(rv.name) for rv in self.post.model.observed_RVs]
            if variable in observed:
                raise ModelError(f"{variable!r} is observed, and has no posterior")
            raise ModelError(f"no variable {variable!r} in the posterior; it has {', '.join(self.variables)}")
        places = [k for k, label in enumerate(self.labels(variable)) if re.sub(r",\s*", ", ", label) == wanted]
        if not places:
            known = self.labels(variable)
            more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
            raise ModelError(f"{variable!r} has no entry {wanted!r}; it has {', '.join(known[:SHOWN])}{more}")
        return variable, places

    def form(self, variable: str, place: int) -> LinearForm | None:
        """One number as a sum of entries of free variables; None where it is no such sum."""
        if variable in self.shapes:
            return LinearForm({(variable, place): 1.0})
        if variable not in self._forms:
            self._forms[variable] = self._affine(variable)
        forms = self._forms[variable]
        return None if forms is None else forms[place]

    def _affine(self, variable: str) -> list[LinearForm] | None:
        """A Deterministic, where it is affine in real variables: its values at zero and at unit vectors."""
        graph, values = self.joint.deterministics[variable], self.joint.values
        known = self.joint.dependence.get(graph, frozenset())
        names = [n for n, v in values.items() if v in known]
        real = all(values[n].type.dtype.startswith("float") for n in names)
        if not real or degrees([graph], {values[n]: 1.0 for n in names}).get(graph, 0.0) > 1:
            return None
        sizes = [int(np.prod(self.shapes[n], dtype=int)) for n in names]
        outputs = len(self.labels(variable))
        if (sum(sizes) + 1) * outputs > MANY:
            return None
        points = np.concatenate([np.zeros((1, sum(sizes))), np.eye(sum(sizes))])
        pieces = np.split(points, np.cumsum(sizes)[:-1], axis=1)
        given = {n: p.reshape(len(points), *self.shapes[n]) for n, p in zip(names, pieces, strict=True)}
        (found,) = over_draws([graph], {n: values[n] for n in names})(given, len(points))
        found = found.reshape(len(points), outputs)
        entries = [(n, k) for n, size in zip(names, sizes, strict=True) for k in range(size)]
        slopes = found[1:] - found[0]
        return [
            LinearForm({e: float(c) for e, c in zip(entries, slopes[:, i], strict=True) if c}, float(found[0, i]))
            for i in range(outputs)
        ]

    def values(self, variable: str, place: int, draws: Any = None) -> np.ndarray:
        """Draws of one number, of shape (chain, draw), or of those given, first axis the draws."""
        if draws is None:
            found = self.draws[variable].transpose("chain", "draw", ...).to_numpy()
            return found.reshape(*found.shape[:2], -1)[..., place]
        return np.asarray(draws[variable]).reshape(len(draws[variable]), -1)[:, place]
