"""What to infer from: a model, or a function that builds one of each chunk."""

from __future__ import annotations

from typing import Any

import pymc as pm

from bayeskit.errors import ModelError, OptionError

__all__ = ["given_model"]


def given_model(given: Any, chunks: Any, dim: str | None = None, progressbar: bool = False) -> Any:
    """What to infer from: what was given, or with ``chunks`` the model of all their rows, which ``given`` builds."""
    if chunks is None:
        if callable(given) and not isinstance(given, pm.Model):
            raise ModelError("model is a function: give it the data, infer(build(data)), or their chunks, chunks=...")
        return given
    if isinstance(given, pm.Model) or not callable(given):
        raise OptionError("with chunks=, give the function that builds the model of one: infer(build, chunks=...)")
    from bayeskit.chunks.sums import sum_of_chunks  # a fifteenth of a second, of the few who need it

    return sum_of_chunks(given, chunks, dim=dim, progressbar=progressbar).model()
