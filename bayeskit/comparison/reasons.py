"""What went wrong, in words for one who asked something to which a method of inference is no argument."""

from __future__ import annotations

import re

__all__ = ["without_other_methods"]

OTHER = re.compile(r"[;,] (?:use|try another) method=[^;]*?(?:, and please report the model|(?=;)|$)")


def without_other_methods(error: Exception) -> str:
    """What an error says, without the advice of ``bayeskit.infer`` to take another method of it."""
    return OTHER.sub("", str(error))
