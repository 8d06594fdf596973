"""What expectation–maximisation found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

__all__ = ["EMResult"]


@dataclass(frozen=True, eq=False)
class EMResult:
    """A maximum found by expectation–maximisation.

    Attributes
    ----------
    point : dict of str to array
        φ̂, every continuous variable on its own support.
    log_likelihood : float
        log p(y | φ̂), with the finite variables summed out.
    log_posterior : float
        log p(y, φ̂), the posterior density but for its normaliser; in the parameters as the model has them, without the
        Jacobian of a transform.
    objective : {"likelihood", "posterior"}
    trace : numpy.ndarray
        The objective at the start and after each iteration; never decreasing.
    iterations : int
    converged : bool
    probabilities : xarray.Dataset
        For each finite variable p(z = k | y, φ̂), with a dim ``<name>_state`` after its own: the responsibilities of a
        mixture, the smoothed probabilities of a chain.
    starts : numpy.ndarray
        The objective that each start reached, NaN where it was degenerate.
    blocks : tuple of str
        How each variable is maximised in the M step.
    notes : tuple of str
    """

    point: dict[str, np.ndarray]
    log_likelihood: float
    log_posterior: float
    objective: str
    trace: np.ndarray
    iterations: int
    converged: bool
    probabilities: xr.Dataset
    starts: np.ndarray
    blocks: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        what = "maximum likelihood" if self.objective == "likelihood" else "maximum of the posterior density"
        state = "converged" if self.converged else "NOT converged"
        good = self.starts[np.isfinite(self.starts)]
        best = int(np.sum(good > np.max(good) - 1e-6 * (1 + abs(float(np.max(good))))))
        lines = [f"EM: {what}, {state} after {self.iterations} iterations"]
        with np.printoptions(precision=6, suppress=True, threshold=24, linewidth=100):
            for name, value in self.point.items():
                shown = str(np.asarray(value)).replace("\n", "\n" + " " * (len(name) + 4))
                lines.append(f"  {name}: {shown}")
        lines.append(f"log likelihood {self.log_likelihood:.6f}, log posterior density {self.log_posterior:.6f}")
        if len(self.starts) > 1:
            lines.append(f"{best} of {len(self.starts)} starts reached this objective")
        lines += [f"M step: {b}" for b in self.blocks]
        lines += [f"note: {n}" for n in self.notes]
        return "\n".join(lines)
