"""Names for what many functions take and give."""

from __future__ import annotations

from typing import Any

__all__ = ["Graph"]

Graph = Any  # a PyTensor variable: type checkers do not know its arithmetic
