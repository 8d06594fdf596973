r"""Bayes factors of orders and intervals by the encompassing prior: from one posterior, without fitting them.

A hypothesis H that cuts the parameters' space by inequalities has the prior of the encompassing model, restricted to
where they hold, so that

.. math::
    \frac{p(y \mid H)}{p(y)} = \frac{P(H \mid y)}{P(H)}, \qquad
    \log B_{H \bar H} = \log \frac{P(H \mid y)}{1 - P(H \mid y)} - \log \frac{P(H)}{1 - P(H)}.

Sources: Klugkist and Hoijtink (2007), "The Bayes factor for inequality and about equality constrained models",
Computational Statistics & Data Analysis 51; Morey and Wagenmakers (2014), "Simple relation between Bayesian
order-restricted and point-null hypothesis tests", Statistics & Probability Letters 92.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pymc as pm

from bayeskit.arguments import RandomSeed, checked, whole_seed
from bayeskit.comparison.chances import PosteriorMeasure, PriorMeasure, Region, standard_error
from bayeskit.comparison.given_models import posterior_of
from bayeskit.comparison.hypothesis_text import read
from bayeskit.comparison.point_density import difference_of
from bayeskit.comparison.rectangle import Chance
from bayeskit.comparison.scalars import Scalars
from bayeskit.errors import InferenceError, ModelError
from bayeskit.graphs.environment import silently
from bayeskit.marginal_likelihood.relabelling import over_all_labellings
from bayeskit.model.snapshot import on_its_data
from bayeskit.results.diagnostics import doubts_of
from bayeskit.results.drawn_results import TabledResult
from bayeskit.results.log_evidence import LogEvidence, decimals_of, labelled
from bayeskit.results.records import Posterior

__all__ = ["OrderHypothesis", "hypothesis"]

ENCOMPASSING = "encompassing"
FEW = 25  # draws on one side of a hypothesis, with which its error is hardly known
SHOWN = 1e-5  # relative error of a probability, above which it is shown with it, and with fewer digits
WHOLE = 3.0  # −log 0.05: of n draws none is seen of a probability of 3/n one time in twenty


@dataclass(frozen=True, repr=False)
class OrderHypothesis(TabledResult):
    """The Bayes factor of a hypothesis of inequalities.

    Attributes
    ----------
    hypothesis, against : str
        What is compared with what.
    log_bayes_factor : float
        In nats: above zero where the data favour the hypothesis.
    error : float
        Of it: rounding, a bound, or a standard error, as the label says.
    label : {"exact", "quadrature", "estimated"}
    prior_probability, prior_error : float
        Of the hypothesis in the encompassing model.
    posterior_probability, posterior_error : float
    notes : tuple of str
    """

    TABLES: ClassVar[tuple[str, ...]] = ()

    hypothesis: str
    against: str
    log_bayes_factor: float
    error: float
    label: str
    prior_probability: float
    prior_error: float
    posterior_probability: float
    posterior_error: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        factor = labelled(self.log_bayes_factor, self.label, self.error, 6)
        lines = [
            f"log Bayes factor of {self.hypothesis} against {self.against}: {factor}",
            f"probability of it: prior {_to_its_error(self.prior_probability, self.prior_error)}, "
            f"posterior {_to_its_error(self.posterior_probability, self.posterior_error)}",
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def _to_its_error(probability: float, error: float) -> str:
    """Six digits, or those that the error leaves a meaning to, with it."""
    if not SHOWN * probability < error < math.inf:
        return f"{probability:.6g}"
    return f"{probability:.{decimals_of(error)}f} (error {error:.1e})"


@checked
def hypothesis(
    posterior: pm.Model | Posterior, hypothesis: str, *, against: str | None = None, random_seed: RandomSeed = None
) -> OrderHypothesis:
    r"""The Bayes factor of a hypothesis of inequalities, by the encompassing prior.

    .. math:: \log B = \log \frac{P(H \mid y)}{P(A \mid y)} - \log \frac{P(H)}{P(A)}

    Parameters
    ----------
    posterior : Posterior or pymc.Model
        Of the encompassing model, which has no inequalities; a model is inferred first.
    hypothesis : str
        :math:`H`: comparisons of sums of parameters, by the names that the summary has, joined by ``and``:
        ``"delta > 0"``, ``"mu[a] < mu[b] < mu[c]"``, ``"-0.1 < delta < 0.1"`` (a region of practical equivalence).
    against : str, optional
        :math:`A`: another such hypothesis, or ``"encompassing"`` for the model without inequalities. By default the
        complement of ``hypothesis``.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Of draws from the prior, and of integrals over more than two dimensions.

    Returns
    -------
    OrderHypothesis
        Exact or by quadrature where distribution functions are known (intervals of one number, sums in a Gaussian
        block, differences of two independent numbers, orders of exchangeable ones); else from draws, with its error.

    Raises
    ------
    OptionError
        If the text is no such hypothesis.
    ModelError
        If it names what is not in the posterior; if its prior probability is zero, or its prior is improper.
    InferenceError
        If no draw, or every draw, is in it: the bound of the Bayes factor that follows is said.

    Examples
    --------
    >>> import bayeskit as bk, pymc as pm
    >>> with pm.Model() as coin:
    ...     p = pm.Beta("p", 1, 1)
    ...     _ = pm.Binomial("heads", 10, p, observed=9)
    >>> print(round(bk.infer(coin).hypothesis("p > 0.5").log_bayes_factor, 3))
    5.134
    """
    seed = whole_seed(random_seed)
    return _asked(posterior_of(posterior, seed), hypothesis, against, seed)


@on_its_data
def _asked(posterior: Posterior, hypothesis: str, against: str | None, seed: int) -> OrderHypothesis:
    posterior = over_all_labellings(posterior)
    scalars = Scalars(posterior)
    region = _region(scalars, hypothesis)
    other = None if against in (None, ENCOMPASSING) else _region(scalars, str(against))
    regions = [region] if other is None else [region, other]
    prior, after = PriorMeasure(scalars, regions, seed), PosteriorMeasure(scalars, seed)
    notes: list[str] = []
    (before, prior_chance), (now, chance) = (
        _Side(which, measure, region, other, against == ENCOMPASSING).log_odds(notes)
        for which, measure in (("prior", prior), ("posterior", after))
    )
    found = difference_of(now, before)
    notes += doubts_of(posterior)
    said = {None: "its complement", ENCOMPASSING: "the encompassing model"}.get(against, str(against))
    numbers = (prior_chance.inside, prior_chance.inside_error, chance.inside, chance.inside_error)
    return OrderHypothesis(hypothesis, said, found.value, found.error, found.label, *numbers, tuple(notes))


def _region(scalars: Scalars, text: str) -> Region:
    relations = read(text, scalars.variables)
    places = {}
    for name in {n for relation in relations for n in relation.excess.terms}:
        variable, found = scalars.find(name)
        if len(found) != 1:
            labels = scalars.labels(variable)
            raise ModelError(f"{name!r} has {len(found)} numbers: name one of them, {labels[0]!r} for example")
        places[name] = variable, found[0]
    known = ", ".join(scalars.variables)
    if not places:
        raise ModelError(f"the hypothesis {text!r} names no parameter; the posterior has {known}")
    if any(not relation.excess.terms for relation in relations):
        raise ModelError(
            f"a comparison of the hypothesis {text!r} names no parameter, or one that cancels: leave it out, or name "
            f"one; the posterior has {known}"
        )
    return Region(text, tuple(relations), places)


@dataclass(frozen=True)
class _Side:
    """A prior or a posterior, and what is compared in it."""

    which: str
    measure: PriorMeasure | PosteriorMeasure
    region: Region
    other: Region | None
    encompassing: bool

    def log_odds(self, notes: list[str]) -> tuple[LogEvidence, Chance]:
        """log P(H) − log P(A), and P(H)."""
        with silently():  # a bound of 1e300 is squared
            chance = self.measure.closed(self.region)
            other = None if self.other is None else self.measure.closed(self.other)
        if chance is not None and (self.other is None or other is not None):
            return self._of_chances(chance, other), chance
        return self._of_draws(notes)

    def _of_chances(self, chance: Chance, other: Chance | None) -> LogEvidence:
        inside = self._log(self.region.text, chance.inside, chance.inside_error, chance.label)
        if self.encompassing:
            return inside
        if other is None:
            contrary = f"the complement of {self.region.text}"
            outside = self._log(contrary, chance.outside, chance.outside_error, chance.label)
            # The error of a probability is that of its complement, with another sign.
            return LogEvidence(inside.value - outside.value, inside.error + outside.error, chance.label)
        assert self.other is not None
        return difference_of(inside, self._log(self.other.text, other.inside, other.inside_error, other.label))

    def _log(self, text: str, probability: float, error: float, label: str) -> LogEvidence:
        if probability <= error:
            small = self.which == "posterior"  # the data exclude nothing altogether that the prior allows
            nothing = "below the smallest number that can be told from zero" if small else "zero"
            size = nothing if probability == 0 else f"{probability:.1e}, which is rounding"
            advice = "; ask for against='encompassing'" if small and text != self.region.text and not self.other else ""
            raise ModelError(f"the {self.which} probability of {text} is {size}, so there is no Bayes factor{advice}")
        return LogEvidence(math.log(probability), error / probability, label)

    def _of_draws(self, notes: list[str]) -> tuple[LogEvidence, Chance]:
        inside = self.measure.draws(self.region)
        other = 1 - inside if self.other is None else self.measure.draws(self.other)
        other = np.ones_like(inside) if self.encompassing else other
        share, contrary = float(inside.mean()), float(other.mean())
        self._require_both(inside, other)
        influence = inside / share - other / contrary
        error = standard_error(influence, self.measure.chains)
        own = standard_error(inside, self.measure.chains)
        effective = inside.size if not own else share * (1 - share) / own**2
        fewest = min(share, 1 - share, contrary) * effective
        if fewest < FEW:
            notes.append(
                f"the {self.which} probability rests on {fewest:.0f} effective draws: ask infer for more draws"
            )
        value = math.log(share) - math.log(contrary)
        return LogEvidence(value, error, "estimated"), Chance(share, 1 - share, own, own, "estimated")

    def _require_both(self, inside: np.ndarray, other: np.ndarray) -> None:
        """Refuse probabilities of which no draw was seen; what they are below is said."""
        complement = f"the complement of {self.region.text}"
        names = self.region.text, complement if self.other is None else self.other.text
        for text, seen in zip(names, (inside, other), strict=True):
            if seen.any():
                continue
            bound = f"none of {seen.size:,} draws is in {text}"
            bound = f"{bound}: its {self.which} probability is below {WHOLE / seen.size:.1g}"
            if self.which == "prior":
                raise ModelError(f"{bound}, if it is not zero; there is no Bayes factor of what the prior excludes")
            side = "below" if seen is inside else "above"
            limit = math.log(WHOLE / seen.size) * (1 if seen is inside else -1)
            advice = "ask infer for more draws, or against='encompassing'"
            raise InferenceError(f"{bound}, so that its log odds are {side} about {limit:.1f}; {advice}")
