"""Options of the sampler by name, checked before anything is computed: those of PyMC, and those of nutpie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayeskit.arguments import SAMPLER_OPTIONS, is_a, plain, shown
from bayeskit.errors import OptionError

__all__ = ["checked_options", "sampler_defaults"]

STARTS = ("jitter+adapt_diag", "adapt_diag")
ADAPTATIONS = ("diag", "draw_diag", "low_rank")
# nutpie's names of what is said otherwise.
OURS = ("num_tune", "num_draws", "num_chains", "seed", "store_unconstrained")


def sampler_defaults() -> dict[str, Any]:
    """What is not said: 1,000 steps of warm-up for each of four chains, 90 % of the proposals to be accepted.

    Chains start at PyMC's initial points, with ``init="jitter+adapt_diag"`` jittered where the model has no
    ``initval``, with ``"adapt_diag"`` nowhere.
    """
    return {"tune": 1000, "chains": 4, "target_accept": 0.9, "init": STARTS[0]}


def checked_options(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options as they were given, each of them known and in its range; OptionError names the first that is not."""
    options = dict(given or {})
    for name, value in options.items():
        options[name] = value = plain(value)
        if name in ("tune", "chains", "cores"):
            good = is_a(value, int) and value >= 1
            must = "a whole number of at least 1"
        elif name == "target_accept":
            good = is_a(value, float) and 0 < value < 1
            must = "a number between 0 and 1"
        elif name in ("init", "adaptation"):
            known = STARTS if name == "init" else ADAPTATIONS
            good, must = isinstance(value, str) and value in known, f"one of {', '.join(map(repr, known))}"
        else:
            good, must = _known_to_nutpie(name, value, options.get("adaptation"))
        if not good:
            raise OptionError(f"sampler: {name} is {shown(value)}; it must be {must}")
    return options


def _known_to_nutpie(name: str, value: Any, adaptation: str | None) -> tuple[bool, str]:
    """Whether nutpie takes this value, and what its words are where it does not; OptionError for an unknown name."""
    from nutpie import _lib

    settings = _lib.PyNutsSettings.LowRank(0) if adaptation == "low_rank" else _lib.PyNutsSettings.Diag(0)
    try:
        if name in OURS or not isinstance(name, str):
            raise AttributeError
        settings.update({name: value})
    except AttributeError:
        known = ", ".join(SAMPLER_OPTIONS)
        raise OptionError(
            f"sampler has no option {name!r}: there are {known}, and nutpie's, such as maxdepth; the number of draws "
            "and the seed are arguments of their own"
        ) from None
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        return False, f"as nutpie takes it ({error})"
    return True, ""
