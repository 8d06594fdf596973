"""Methods that failed, in words: for the plan of one that answered, or for the person who asked."""

from __future__ import annotations

from bayeskit.errors import BayeskitError, InferenceError
from bayeskit.inference.methods import Method, Request, method_names
from bayeskit.quadrature.counted_density import NotIntegrable

__all__ = ["no_answer", "said_of_failure"]


def no_answer(failures: dict[Method, Exception], at_fault: str, request: Request) -> BayeskitError:
    """The last failure, in words for the person who asked, with data at fault; the earlier ones are its notes."""
    *earlier, (last, error) = failures.items()
    others = ", ".join(repr(name) for name in method_names() if name != last.name)
    unknown = f"try another method= (one of {others}), and please report the model"
    remedy = last.remedy or ("check the data and the priors" if at_fault else unknown)
    result = error if isinstance(error, BayeskitError) and not last.remedy and not at_fault else None
    if result is None:
        result = InferenceError(f"no answer by {last.name}{at_fault}: {said_of_failure(error)}; {remedy}")
        result.__cause__ = error
    result.heavy_tails, result.named_modes = request.heavy_tails, request.modes
    for rung, failure in earlier:
        result.add_note(f"{rung.title} was tried before: {said_of_failure(failure)}")
    return result


def said_of_failure(error: Exception) -> str:
    """The first line of what went wrong, with its type where the words were not written for people."""
    line = next(iter(str(error).strip().splitlines()), "")
    for_people = line and isinstance(error, BayeskitError | NotIntegrable)
    return line if for_people else f"{type(error).__name__}: {line}".removesuffix(": ")
