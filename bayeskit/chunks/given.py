"""What to infer from: a model, or a function that builds one of each chunk."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import pymc as pm

from bayeskit.errors import ModelError, OptionError

__all__ = ["given_model"]


def given_model(
    given: Any,
    chunks: Any,
    dim: str | None = None,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
    progressbar: bool = False,
) -> Any:
    """What to infer from: what was given, or with ``chunks`` the model of all their rows, which ``given`` builds."""
    if chunks is None:
        for name, option in (("client", client), ("checkpoint", checkpoint)):
            if option is not None:
                raise OptionError(f"{name}: it is for chunks, infer(build, chunks=..., {name}=...)")
        if callable(given) and not isinstance(given, pm.Model):
            raise ModelError("model is a function: give it the data, infer(build(data)), or their chunks, chunks=...")
        return given
    if isinstance(given, pm.Model) or not callable(given):
        raise OptionError("with chunks=, give the function that builds the model of one: infer(build, chunks=...)")
    from bayeskit.chunks.sum_of_chunks import sum_of_chunks  # a fifteenth of a second, of the few who need it

    path = None if checkpoint is None else Path(checkpoint)
    found = sum_of_chunks(given, chunks, dim=dim, client=client, checkpoint=path, progressbar=progressbar)
    return found.model()
