"""All reference posteriors, in a fixed order: :func:`reference_posteriors`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from bayeskit.arguments import checked
from bayeskit.errors import OptionError
from bayeskit.validation.references.chains import CHAINS
from bayeskit.validation.references.conjugate import CONJUGATE
from bayeskit.validation.references.constrained import CONSTRAINED
from bayeskit.validation.references.correlation import CORRELATION
from bayeskit.validation.references.curves import CURVES
from bayeskit.validation.references.discrete import DISCRETE
from bayeskit.validation.references.funnels import FUNNELS
from bayeskit.validation.references.heavy_tails import HEAVY_TAILS
from bayeskit.validation.references.hierarchies import HIERARCHIES
from bayeskit.validation.references.high_dimension import HIGH_DIMENSION
from bayeskit.validation.references.mixtures import MIXTURES
from bayeskit.validation.references.reference_posterior import ReferencePosterior
from bayeskit.validation.references.scales import SCALES

__all__ = ["REFERENCES", "reference_posteriors"]

REFERENCES: tuple[ReferencePosterior, ...] = (
    *CONJUGATE,
    *SCALES,
    *CORRELATION,
    *HEAVY_TAILS,
    *FUNNELS,
    *CURVES,
    *MIXTURES,
    *CONSTRAINED,
    *HIERARCHIES,
    *CHAINS,
    *HIGH_DIMENSION,
    *DISCRETE,
)


@checked
def reference_posteriors(
    names: Sequence[str] | None = None, groups: Sequence[str] | None = None
) -> tuple[ReferencePosterior, ...]:
    """Models whose posterior is known exactly or to quadrature, for samplers to be tried on.

    Parameters
    ----------
    names, groups : sequence of str, optional
        Those of these names and those of these groups; all by default.

    Returns
    -------
    tuple of ReferencePosterior
        In a fixed order, whatever the order of the names. Each has ``build()``, a fresh ``pymc.Model``; ``posterior``,
        the answer of :func:`bayeskit.infer` with closed-form marginals, 10,000 independent draws and the log evidence;
        and ``summary()``.

    Raises
    ------
    OptionError
        If there is no reference of a name, or no group.

    Notes
    -----
    A reference costs nothing until its answer is asked for: 20 to 500 ms, once a process.

    Examples
    --------
    >>> import bayeskit as bk
    >>> (coin,) = bk.reference_posteriors(["coin"])
    >>> coin.about
    'A Beta posterior: seven heads in ten tosses.'
    """
    if names is None and groups is None:
        return REFERENCES
    known = {"names": [r.name for r in REFERENCES], "groups": list(dict.fromkeys(r.group for r in REFERENCES))}
    for what, asked in (("names", names or ()), ("groups", groups or ())):
        if unknown := [name for name in asked if name not in known[what]]:
            near = get_close_matches(unknown[0], known[what], 3) or known[what][:3]
            advice = f"there are {', '.join(near)} and others, which `bayeskit reference list` shows"
            raise OptionError(f"{what}: there is no {unknown[0]!r}; {advice}")
    return tuple(r for r in REFERENCES if r.name in (names or ()) or r.group in (groups or ()))
