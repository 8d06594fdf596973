"""What is known about a model before a number is computed: its densities, its plan, and what the plan rests on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bayeskit.families import ConjugateFamily
from bayeskit.finite.sum_out import Summed
from bayeskit.gaussian.block import GaussianBlock
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.support import Support
from bayeskit.results.records import Plan

__all__ = ["Analysis", "Scale"]


@dataclass(frozen=True, eq=False)
class Scale:
    """A variable integrated out by its conjugate family, and the Gaussian block that it scales, if any.

    Attributes
    ----------
    name : str
    family : ConjugateFamily
    block : GaussianBlock or None
    kappa : int
        The precision of the block is proportional to φ^kappa.
    group : numpy.ndarray or None
        For each entry of the stacked block, the flat index of the entry of φ that scales it.
    multiple : numpy.ndarray or None
        K of Λ(W) = K ⊗ W.
    """

    name: str
    family: ConjugateFamily
    block: GaussianBlock | None = None
    kappa: int = 0
    group: np.ndarray | None = None
    multiple: np.ndarray | None = None

    def governed(self, shape: tuple[int, ...]) -> np.ndarray:
        """How many numbers (for a matrix, vectors) of the block each entry of φ governs, for φ of a shape."""
        if self.multiple is not None:
            return np.asarray(len(self.multiple))
        return np.bincount(np.asarray(self.group), minlength=int(np.prod(shape, dtype=int))).reshape(shape)


@dataclass(frozen=True, eq=False)
class Analysis:
    """Everything that :func:`bayeskit.inference.ladder` needs to know about a model before it computes a number.

    Attributes
    ----------
    joint : LogJoint
    shapes : dict of str to tuple of int
    plan : Plan
    blocks : tuple of GaussianBlock
    scales : tuple of Scale
    ancestral : tuple of str
        Variables that nothing depends on, drawn forward from their own distribution.
    finite : tuple of str
        Finite discrete variables, enumerated; everything else is conditional on them.
    values : dict of str to numpy.ndarray
        The values of the finite variables.
    supports : dict of str to Support
        Of every latent variable.
    summed : tuple of Summed
        Finite variables that were summed out of ``joint``, in that order; everything else was planned without them.
    whole : LogJoint or None
        The density of the model as written, where ``joint`` is one with variables summed out.
    """

    joint: LogJoint
    shapes: dict[str, tuple[int, ...]]
    plan: Plan
    blocks: tuple[GaussianBlock, ...] = ()
    scales: tuple[Scale, ...] = ()
    ancestral: tuple[str, ...] = ()
    finite: tuple[str, ...] = ()
    values: dict[str, np.ndarray] = field(default_factory=dict)
    supports: dict[str, Support] = field(default_factory=dict)
    summed: tuple[Summed, ...] = ()
    whole: LogJoint | None = None

    @property
    def original(self) -> LogJoint:
        """The density of the model as written."""
        return self.joint if self.whole is None else self.whole
