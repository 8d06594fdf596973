"""Posteriors of rows that were added up, some of which may count less than once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pymc as pm

from bayeskit.inference.ladder import infer
from bayeskit.model.summed_likelihood import is_discounted
from bayeskit.results.log_evidence import with_convention
from bayeskit.results.records import Posterior

__all__ = ["POWER", "infer_summed"]

POWER = "the integral of a power of the likelihood: discounted rows count less"


def infer_summed(model: pm.Model, **options: Any) -> Posterior:
    """As :func:`bayeskit.infer`; the log evidence of discounted rows says what it is."""
    post = infer(model, **options)
    return replace(post, log_evidence=with_convention(post.log_evidence, POWER)) if is_discounted(model) else post
