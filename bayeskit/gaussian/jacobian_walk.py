"""Jacobians of affine nodes: their separable forms where nothing but θ varies, one term whose factor is 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayeskit.gaussian.jacobians import Jacobian
from bayeskit.gaussian.separable_forms import Form, NotSeparable
from bayeskit.gaussian.separator import MIXED, Separator, Targets
from bayeskit.types import Graph

__all__ = ["jacobians"]


class _Jacobians(Separator):
    """Forms of one term at most: everything but θ is a number, and offsets are left out."""

    def __init__(self, targets: Targets, degree: Mapping[Graph, float], value_of: Callable[[Graph], Any]) -> None:
        super().__init__(targets, (), value_of, np.shape)
        self.degree = degree

    def as_form(self, value: Any) -> Form:
        return value if isinstance(value, Form) else Form(np.shape(value), ())

    def opaque(self, var: Graph) -> Any:
        return MIXED

    def constant(self, var: Graph) -> Any:
        try:
            return super().constant(var)
        except KeyError:
            return MIXED

    def transfer(self, out: Graph, values: list[Any]) -> Any:
        # The shape of θ may enter what is constant in θ: zeros_like(θ), θ⁰.
        return super().transfer(out, values) if self.degree.get(out, 0) else self.constant(out)


def jacobians(
    outputs: list[Graph], targets: Targets, degree: Mapping[Graph, float], value_of: Callable[[Graph], Any]
) -> dict[Graph, Jacobian]:
    """Jacobians of affine nodes in ``targets``, given the ``degree`` of every node in them.

    ``value_of`` gives the value of a node of degree zero, or a KeyError for one that no affine node has as its input.
    An operation without a rule above some node is a NotImplementedError.
    """
    walk = _Jacobians(targets, degree, value_of)
    walk.walk(outputs)
    result = {}
    for out in outputs:
        try:
            form = walk.form(out)
        except NotSeparable as error:
            raise NotImplementedError(
                f"no Jacobian rule for {out.owner.op}, or for what it is computed from"
            ) from error
        result[out] = form.terms[0].jacobian if form.terms else Jacobian(form.shape, {})
    return result
