"""The posterior of a model given any subset of its observations, from weights of one and zero."""

from __future__ import annotations

import math

import numpy as np

from bayeskit.comparison.reasons import without_other_methods
from bayeskit.comparison.shared_priors import inferred_shared
from bayeskit.elimination.plan import analyse
from bayeskit.errors import BayeskitError, CertificateError, InferenceError, ModelError
from bayeskit.graphs.environment import lightly
from bayeskit.inference.ladder import answer
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.observations import Observations, observations_of
from bayeskit.model.separate_observations import require_separate
from bayeskit.model.snapshot import WrittenModel, restored
from bayeskit.model.weighted_likelihood import weighted_likelihood
from bayeskit.results.records import Posterior
from bayeskit.terminal import warnings_of

__all__ = ["DRAWS", "NoSubsetAnswer", "SubsetPosteriors"]

DRAWS = 4000  # for what is estimated from draws
POINTS, ROUNDING = 5, 1e-9  # draws at which two densities are compared, and what they may differ by, relatively


class NoSubsetAnswer(InferenceError):
    """A method that answered for all observations does not for some of them, for a ``reason``."""

    def __init__(self, whose: str, reason: str) -> None:
        super().__init__(f"{whose}, {reason}")
        self.whose, self.reason = whose, reason

    def __reduce__(self) -> tuple[type[NoSubsetAnswer], tuple[str, str]]:  # it may come from another process
        return type(self), (self.whose, self.reason)


class SubsetPosteriors:
    """Posteriors of a model given subsets of its observations."""

    def __init__(self, name: str, posterior: Posterior, unit: str | None, random_seed: int) -> None:
        if isinstance(posterior.model, WrittenModel):
            raise ModelError(f"{name}: it was loaded without its model: bayeskit.load(path, model=model)")
        self.name = name
        self.posterior = posterior
        self.given_as = name, posterior, unit, random_seed
        self.shared = inferred_shared(posterior)
        self._seed = random_seed
        with restored(posterior.snapshot), lightly():
            self._weighted = weighted_likelihood(posterior.model)
            self.observations: Observations = observations_of(posterior.model, self._weighted.shapes, unit)
            require_separate(posterior.model, self.observations)
            self._analysis = analyse(self._weighted.model, shared=self.shared)

    def __len__(self) -> int:
        return len(self.observations)

    def given(self, kept: np.ndarray, draws: int = DRAWS, method: str = "", run: int = 0) -> Posterior:
        """The posterior given the observations of which ``kept`` is true; sampled where nothing else answers.

        Each ``run`` has random numbers of its own: of the same ones, draws of similar posteriors would err together.
        """
        method = method or ("nuts" if self.posterior.method == "nuts" else "auto")
        counted = self.observations.weights(kept)
        for series in self._weighted.series:
            if np.any(np.diff(counted[series]) > 0):
                raise ModelError(
                    f"{self.name}: an observation of {series!r} depends on those before it, so that they come first: "
                    "use method='leave_future_out', one at a time or joint, or bayeskit.sequential in their order"
                )
        weights = self._weighted.data(counted)
        given = f"{self.name}: given {int(kept.sum())} of {len(self)} observations"
        if self.shared and not kept.any():
            names = ", ".join(self.shared)
            raise NoSubsetAnswer(given, f"the prior of {names} is improper, so that there is no density of them yet")
        try:
            with warnings_of(self.name):
                found = answer(self._analysis.with_data(weights), method, draws, self._seed_of(run))
        except BayeskitError as error:
            raise NoSubsetAnswer(given, without_other_methods(error)) from error
        if self.shared and not math.isfinite(found.log_evidence.value):  # draws do not show what is improper
            raise NoSubsetAnswer(given, f"its log evidence is {found.log_evidence}")
        return found

    def _seed_of(self, run: int) -> int:
        return int(np.random.SeedSequence([self._seed, run]).generate_state(1)[0]) if run else self._seed

    def require_same_density(self) -> None:
        """Refuse a weighted model that, with every weight one, has another density than the model at some draw."""
        draws = self.posterior.tree["posterior"].to_dataset().stack(sample=("chain", "draw"))
        with restored(self.posterior.snapshot), lightly():
            joints = [LogJoint.from_model(m) for m in (self.posterior.model, self._weighted.model)]
            for k in np.linspace(0, draws.sizes["sample"] - 1, POINTS).astype(int):
                point = {n: draws[n].isel(sample=k).to_numpy() for n in joints[0].names}
                whole, weighted = (joint.logp(point) for joint in joints)
                if not abs(whole - weighted) <= ROUNDING * max(1.0, abs(whole)):
                    raise CertificateError(
                        f"{self.name}: with every observation counted once, the weighted model has the log density "
                        f"{weighted:.10g} where the model has {whole:.10g}; please report the model"
                    )
