"""Every error a user can cause.

They all derive from :class:`BayeskitError`, which is a ``ValueError``, so that one ``except`` clause, or the command
line, can turn any of them into one readable line: what was wrong, where, and what to do.
"""

from collections.abc import Mapping
from typing import Any

__all__ = [
    "BayeskitError",
    "CertificateError",
    "DataError",
    "InferenceError",
    "ModelError",
    "OptionError",
    "UnanswerableError",
]


class BayeskitError(ValueError):
    """Something a user can mend; the message says what, where and how, in one line."""

    heavy_tails: bool = False  # whether a method gave up over tails that it could not follow
    named_modes: tuple[Mapping[str, Any], ...] = ()  # that a method could not integrate over

    def __init__(self, message: object) -> None:
        super().__init__(" ".join(str(message).splitlines()))  # names of files may have several


class DataError(BayeskitError):
    """A table that cannot be read, or values a model cannot explain."""


class ModelError(BayeskitError):
    """A model that cannot be built or read, or that has no answer of the kind asked for."""


class OptionError(BayeskitError):
    """An option that is unknown, of the wrong type, or out of range."""


class InferenceError(BayeskitError):
    """A computed answer that failed its own proof; never returned, always raised."""


class CertificateError(InferenceError):
    """A closed form that disagrees with the model's own density; no method that uses it may answer."""


class UnanswerableError(InferenceError):
    """A posterior that no other method would do better at: it is improper, or the data are impossible."""
