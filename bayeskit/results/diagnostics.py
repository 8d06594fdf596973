r"""Whether the chains of a sampler have converged: what ArviZ computes of them, and the thresholds, stated once.

Of chains that have, R-hat is one but for chance, which adds about :math:`(F - 1) / 2n` to it, n the length of a half
chain and F a ratio of two variances. What is asked for is what is usual from 1,000 draws a chain on, R-hat of at most
1.01 and 100 effective draws a chain; of shorter ones less, in proportion: 1.04 and 25 for 250 draws a chain.

Sources: Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021), "Rank-normalization, folding, and localization: an
improved R-hat", Bayesian Analysis 16; Betancourt (2016), "Diagnosing suboptimal cotangent disintegrations in
Hamiltonian Monte Carlo", arXiv:1604.00695.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.results.marginals import scalar_labels

__all__ = [
    "DIVERGENT",
    "ESTIMABLE_ESS",
    "ESTIMABLE_R_HAT",
    "MOST_R_HAT",
    "Diagnostics",
    "convergence_table",
    "diagnostics_of",
    "doubts_of",
    "problems_of",
]

MOST_R_HAT, LEAST_ESS = 1.01, 100  # the latter a chain
SAME = 1e-12  # relative spread of draws below which they are the same number
LENGTH = 1000  # the draws a chain from which on they hold
LEAST_E_BFMI = 0.3
# Share of divergent transitions up to which they may be single steps that went too far: a link that is an exponential
# gives one in 4,000 in most runs, anywhere in the posterior. Where the chains mix badly as well, each counts.
ISOLATED = 0.001
MOST_AT_FULL_DEPTH = 0.05  # of the draws
TAILS = (0.05, 0.95)
# Draws from which a number with its own standard error can still be had: right ones with 400 effective draws keep to
# an R-hat of 1.01 only six times in ten.
ESTIMABLE_R_HAT, ESTIMABLE_ESS = 1.05, 100.0
DIVERGENT = 0.01  # share of divergent transitions beyond which they say nothing of the evidence


@dataclass(frozen=True)
class Diagnostics:
    """How well the chains of a sampler mixed, by the scalar that did worst.

    Attributes
    ----------
    chains, draws : int
        How many chains, and how many draws each.
    max_r_hat, max_r_hat_of : float, str
        The largest rank-normalised split R-hat, and the scalar that has it; infinite where the chains do not move. NaN
        for one chain, which cannot be held against another, and for fewer than four draws a chain.
    min_ess_bulk, min_ess_bulk_of, min_ess_tail, min_ess_tail_of : float, str
        The fewest effective draws for the bulk and for the 5 % and 95 % quantiles, and the scalars that have them.
    divergences : int
        Number of divergent transitions after tuning; zero too where ``divergences_recorded`` is False.
    min_e_bfmi : float
        The least energy fraction of missing information of a chain; NaN where the sampler says nothing of energy.
    draws_at_max_tree_depth : int
    unvisited : str
        A mode that no chain visited, or a tail that hardly one reached, where one was found after sampling.
    divergences_recorded : bool
        Whether the draws say which transitions diverged: those of Metropolis, or without statistics, do not.
    relabelled : Diagnostics or None
        The same of the draws as :func:`bayeskit.relabel` gives them, where those of exchangeable components had
        exchanged labels and do worse.
    """

    chains: int
    draws: int
    max_r_hat: float
    max_r_hat_of: str
    min_ess_bulk: float
    min_ess_bulk_of: str
    min_ess_tail: float
    min_ess_tail_of: str
    divergences: int = 0
    min_e_bfmi: float = math.nan
    draws_at_max_tree_depth: int = 0
    unvisited: str = ""
    relabelled: Diagnostics | None = None
    divergences_recorded: bool = True

    @property
    def converged(self) -> bool:
        """Whether there is nothing to warn of, and the draws are many enough to tell."""
        few = min(self.min_ess_bulk, self.min_ess_tail) < LEAST_ESS * self.chains
        return not (self.problems or few or self.max_r_hat > MOST_R_HAT)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the draws and what to do, a sentence each."""
        if self.relabelled is None:
            return (*self.mixing, *self._transitions)
        exchanged = (
            f"the chains exchanged the labels of components ({self._r_hat}): means and intervals of single components "
            "say nothing; summarise bk.relabel(posterior), or give the components an order"
        )
        if found := self.relabelled.mixing:
            return (exchanged, *(f"under one labelling, {problem}" for problem in found), *self._transitions)
        return (exchanged, *self._transitions)

    @property
    def _r_hat(self) -> str:
        # On one line, whatever a label holds: the first line is quoted elsewhere.
        return f"R-hat {self.max_r_hat:.3f} for {' '.join(self.max_r_hat_of.split())}"

    @property
    def mixing(self) -> list[str]:
        """What is wrong with how the chains mixed, whatever their transitions."""
        result = []
        share = min(1.0, self.draws / LENGTH)
        if math.isnan(self.max_r_hat):
            few = "one chain" if self.chains == 1 else f"{self.draws} draws a chain"
            result.append(f"{few} cannot show whether the sampler converged: ask for four chains of 1,000 draws")
        elif math.isinf(self.max_r_hat):
            # No parameterization helps where no step is ever taken.
            stuck = f"the chains do not move ({self._r_hat}: all draws of a chain are the same, or not finite)"
            return [f"{stuck}: look at the density at their start, give them another (initvals), or more tune"]
        elif self.max_r_hat > 1 + (MOST_R_HAT - 1) / share:
            result.append(f"the chains disagree ({self._r_hat}): reparameterize the model, or raise tune and draws")
        size, name = min((self.min_ess_bulk, self.min_ess_bulk_of), (self.min_ess_tail, self.min_ess_tail_of))
        total = self.chains * self.draws
        if size < share * LEAST_ESS * self.chains:
            worth = f"{total:,} draws are worth {size:.0f} independent ones for {name}"
            result.append(f"{worth}: raise draws, or reparameterize")
        return result

    @property
    def _transitions(self) -> list[str]:
        result = []
        total = self.chains * self.draws
        if self.divergences > ISOLATED * total or (self.divergences and self.mixing):
            what = "transition diverged" if self.divergences == 1 else "transitions diverged"
            advice = "raise target_accept (0.99), or reparameterize, a centred hierarchy as mu + tau z"
            result.append(f"{self.divergences} {what}, so that a part of the posterior may be missing: {advice}")
        if self.min_e_bfmi < LEAST_E_BFMI:
            energy = f"the energy mixes badly (E-BFMI {self.min_e_bfmi:.2f})"
            result.append(f"{energy}: reparameterize heavy tails or scales")
        if (share := self.draws_at_max_tree_depth / total) > MOST_AT_FULL_DEPTH:
            result.append(f"{share:.0%} of the draws reached the maximum tree depth: raise maxdepth, or reparameterize")
        return [*result, self.unvisited] if self.unvisited else result

    def __str__(self) -> str:
        effective = f"ESS bulk {self.min_ess_bulk:.0f}, tail {self.min_ess_tail:.0f}"
        divergences = f"{self.divergences} divergence{'' if self.divergences == 1 else 's'}"
        divergences = divergences if self.divergences_recorded else "divergences not recorded"
        verdict = "NOT CONVERGED" if self.problems else "converged" if self.converged else "too short to tell"
        chains = f"{self.chains} chain{'s' * (self.chains != 1)} of {self.draws:,} draw{'s' * (self.draws != 1)}"
        lines = [f"{verdict}: {chains}, {self._r_hat}, {effective}, {divergences}"]
        return "\n".join([*lines, *(f"warning: {problem}" for problem in self.problems)])


def convergence_table(draws: xr.Dataset, names: Iterable[str]) -> pd.DataFrame:
    """``r_hat``, ``ess_bulk`` and ``ess_tail`` of every scalar of some variables."""
    from arviz_stats.base import array_stats  # with half of SciPy, which exact answers can do without

    tables = []
    axes = {"chain_axis": 0, "draw_axis": 1}
    for name in names:
        values = draws[name].transpose("chain", "draw", ...).to_numpy()
        values = values.astype(float).reshape(*values.shape[:2], -1)
        with np.errstate(all="ignore"):  # chains that do not move
            r_hat = np.array(array_stats.rhat(values, **axes))
            bulk = array_stats.ess(values, method="bulk", **axes)
            tail = array_stats.ess(values, method="tail", prob=TAILS, **axes)
        if values.shape[0] > 1 and values.shape[1] > 3:
            # A count may be the same in all draws, and the ones of a correlation matrix and the zeros of a factor are;
            # another real number is only where the sampler is stuck.
            still = np.ptp(values, axis=(0, 1)) <= SAME * np.abs(values).max(axis=(0, 1))
            of_matrix = ~still.all() & np.isin(np.round(values[0, 0], 9), (0, 1))
            r_hat[np.isnan(r_hat)] = math.inf
            r_hat[still & (of_matrix | (draws[name].dtype.kind in "biu"))] = 1.0
        columns = {"r_hat": r_hat, "ess_bulk": bulk, "ess_tail": tail}
        tables.append(pd.DataFrame(columns, index=scalar_labels(draws, name)))
    return pd.concat(tables) if tables else pd.DataFrame(columns=["r_hat", "ess_bulk", "ess_tail"], dtype=float)


def diagnostics_of(tree: xr.DataTree, names: Iterable[str], unvisited: str = "") -> Diagnostics:
    """The diagnostics of a sampler's draws of the variables that it moved."""
    from arviz_stats.base import array_stats

    draws = tree["posterior"].to_dataset()
    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree.children else xr.Dataset()
    table = convergence_table(draws, names)
    worst: list[Any] = []
    for column, sign in (("r_hat", -1.0), ("ess_bulk", 1.0), ("ess_tail", 1.0)):
        values = sign * table[column].to_numpy(dtype=float)
        place = int(np.argmin(np.where(np.isnan(values), np.inf, values)))
        worst += [float(table[column].iloc[place]), str(table.index[place])]
    energy = stats["energy"].transpose("chain", "draw", ...).to_numpy() if "energy" in stats else np.zeros((1, 0))
    with np.errstate(all="ignore"):
        e_bfmi = array_stats.bfmi(energy, chain_axis=0, draw_axis=1) if energy.shape[1] > 3 else math.nan
    diverging, deepest = (int(stats[n].sum()) if n in stats else 0 for n in ("diverging", "reached_max_treedepth"))
    lengths = draws.sizes["chain"], draws.sizes["draw"]
    found: list[Any] = [*lengths, *worst, diverging, float(np.min(e_bfmi)), deepest, unvisited]
    return replace(Diagnostics(*found), divergences_recorded="diverging" in stats)


def problems_of(posterior: Any) -> tuple[str, ...]:
    """What is wrong with the draws of a posterior; nothing where they are no chains."""
    return () if posterior.diagnostics is None else tuple(posterior.diagnostics.problems)


def doubts_of(posterior: Any, whose: str = "the draws") -> list[str]:
    """The same in sentences, for the notes of a result that rests on the draws."""
    return [f"{whose} are not to be relied on: {problem}" for problem in problems_of(posterior)]
