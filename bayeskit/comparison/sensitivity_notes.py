"""What is said beside the derivatives of a log evidence: what was moved, what was not, and what has no normaliser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bayeskit.model.prior_constants import PriorConstant, prior_matrices
from bayeskit.model.summed_likelihood import is_summed
from bayeskit.model.support import is_improper
from bayeskit.results.diagnostics import doubts_of
from bayeskit.results.records import Posterior

__all__ = ["said_before", "said_of_constants", "said_once"]


def said_before(post: Posterior, constants: list[PriorConstant], most: int) -> Iterator[str]:
    """Which numbers are one, which move together (arrays of more than ``most`` entries), and which are not moved."""
    for constant in constants:
        if len(constant.places) > 1:
            yield f"{constant.name} is one number in {', '.join(constant.places)}"
        if constant.value.size > most:
            yield f"{constant.name} has {constant.value.size} entries, which are moved together"
    if matrices := prior_matrices(post.model):
        are, their = ("is a matrix", "its") if len(matrices) == 1 else ("are matrices", "their")
        yield f"{', '.join(matrices)} {are}: {their} entries are not moved"
    yield from doubts_of(post)


def said_of_constants(post: Posterior) -> Iterator[str]:
    """What makes a log evidence one but for a constant, which cancels in a Bayes factor."""
    if improper := [str(rv.name) for rv in post.model.free_RVs if is_improper(rv)]:
        names = ", ".join(improper)
        yield f"the prior of {names} is improper: log p(y) has a constant that nobody knows, its changes have not"
    if potentials := [str(p.name) for p in post.model.potentials if not is_summed(p.name)]:
        names = ", ".join(potentials)
        yield f"the Potential {names} has no normaliser: changes are those of the joint density's integral as written"


def said_once(notes: Iterable[tuple[str, str]]) -> list[str]:
    """Notes about several things, those that are alike with all their names before them."""
    about: dict[str, list[str]] = {}
    for name, note in notes:
        about.setdefault(note, []).append(name)
    return [f"{', '.join(dict.fromkeys(names))}: {note}" for note, names in about.items()]
