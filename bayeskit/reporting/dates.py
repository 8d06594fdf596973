"""Dates as a page writes them: those without a time of day have none, whatever wrote them."""

from __future__ import annotations

import re

__all__ = ["plain_dates"]

# ArviZ writes 2024-03-01T00:00:00.000000, pandas 2024-03-01 00:00:00, NumPy nine zeros.
MIDNIGHT = re.compile(r"(?<![\d-])(\d{4}-\d\d-\d\d)[T ]00:00:00(?:\.0+)?(?![\d.:])")


def plain_dates(text: str) -> str:
    """A text whose dates at midnight are days: ``level[2024-03-01]``."""
    return MIDNIGHT.sub(r"\1", text)
