"""How a Gaussian block is integrated out at any φ, and drawn given φ: an ordered list, the first that applies.

Each has the three operations of a factorised precision (:mod:`bayeskit.gaussian.factorisation`): the integral as a
graph in φ, with gradient, and draws and moments at many φ of

    δ | φ, y ~ Normal(Λ⁻¹η, Λ⁻¹),   θ = θ₀ + δ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import sparse

from bayeskit.gaussian.banded_layout import Layout, Lookup, layout
from bayeskit.gaussian.factorisation import NotPositiveDefinite, Precision, factorise_entries
from bayeskit.gaussian.integral import (
    constant_of,
    diagonal_integral,
    plates_integral,
    solved_integral,
    whitened_integral,
)
from bayeskit.gaussian.observation_space_draws import DataSideConditional, stacks
from bayeskit.gaussian.observation_space_integral import data_side_integral
from bayeskit.gaussian.quadratic_form import QuadraticForm, ScaledForm
from bayeskit.gaussian.single_design_draws import SingleDesignConditional
from bayeskit.graphs.batched_linalg import solve_triangular
from bayeskit.types import Graph

__all__ = ["STRATEGIES", "Conditional", "Strategy", "strategy_of"]

ILL_CONDITIONED = 1e6  # from which on other coordinates are worth more than a band
STRIP = 512  # columns solved for at a time

Arrays = Sequence[np.ndarray]  # the values of ``graphs``, first axis the values of φ


@dataclass(frozen=True, eq=False)
class DenseConditional:
    """Λ dense, for many φ at once; given the root of the prior, only I + R⁻ᵀPR⁻¹ is factorised."""

    form: QuadraticForm

    @property
    def graphs(self) -> list[Graph]:
        """What of the block depends on φ."""
        return [self.form.values] if self.form.root is None else [self.form.values, self.form.root]

    @property
    def entries(self) -> int:
        """How many numbers the moments at one φ take."""
        return self.form.size**2

    def draw(self, arrays: Arrays, rng: np.random.Generator) -> np.ndarray:
        """One draw of θ for each φ."""
        result = rng.standard_normal((len(arrays[0]), self.form.size))
        for rows, some in stacks(arrays, self.form.size**2):
            mean, half, _ = self._solved(some)
            result[rows] = mean + (np.swapaxes(half, -1, -2) @ result[rows][..., None])[..., 0]
        return self.form.origin + result

    def moments(self, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of θ for each φ."""
        mean, sd = (np.empty((len(arrays[0]), self.form.size)) for _ in range(2))
        for rows, some in stacks(arrays, self.form.size**2):
            centre, half, _ = self._solved(some)
            mean[rows] = self.form.origin + centre
            sd[rows] = np.sqrt(np.sum(half**2, axis=-2))
        return mean, sd

    def log_density(self, arrays: Arrays, theta: np.ndarray) -> float:
        """log p(θ | φ, y) at the first φ."""
        mean, _, (factor, whitener, log_determinant) = self._solved([a[:1] for a in arrays])
        white = np.swapaxes(factor[0], -1, -2) @ (whitener[0] @ (theta - self.form.origin - mean[0]))
        return float(log_determinant[0] - 0.5 * (np.sum(white**2) + self.form.size * np.log(2 * np.pi)))

    @cached_property
    def lookup(self) -> Lookup:
        """Where the entries of T stand among its values."""
        return Lookup(self.form.size + 1, self.form.rows, self.form.columns)

    def _solved(self, arrays: Arrays) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """For each φ: δ̂; H with HᵀH the covariance of δ; and L, W and log |LᵀW| with |LᵀW(δ − δ̂)|² its square.

        With a root of the prior, W = R and L is the factor of I + R⁻ᵀPR⁻¹; without one W scales Λ to unit diagonal.
        """
        size = self.form.size
        padded = np.concatenate([arrays[0], np.zeros((len(arrays[0]), 1))], axis=1)
        precision = -padded[:, self.lookup(*np.indices((size, size)))]
        linear = padded[:, self.lookup(np.arange(size), np.full(size, size))][..., None]
        if self.form.root is None:
            scale = np.sqrt(np.diagonal(precision, axis1=1, axis2=2))[:, :, None]
            whitener, inverse, centre = scale * np.eye(size), np.eye(size) / scale, np.zeros_like(linear)
            inner = precision / scale / np.swapaxes(scale, 1, 2)
            log_scale = np.sum(np.log(scale), axis=(1, 2))
        else:
            whitener = arrays[1][:, :, :size]
            largest = np.max(np.abs(whitener), axis=2, keepdims=True, initial=0.0)
            eye = np.broadcast_to(np.eye(size), whitener.shape)
            right = np.concatenate([eye, arrays[1][:, :, size:]], axis=2) / largest
            solved = np.linalg.solve(whitener / largest, right)
            inverse, centre = solved[:, :, :size], -solved[:, :, size:]
            inner = np.eye(size) + np.swapaxes(inverse, 1, 2) @ precision @ inverse
            log_scale = np.linalg.slogdet(whitener / largest)[1] + np.sum(np.log(largest), axis=(1, 2))
        factor = np.linalg.cholesky(inner)
        half = solve_triangular(factor, np.swapaxes(inverse, 1, 2), lower=True, vectors=False)
        mean = centre + np.swapaxes(half, 1, 2) @ (half @ (linear - precision @ centre))
        log_determinant = np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1) + log_scale
        return mean[..., 0], half, (factor, whitener, log_determinant)


@dataclass(frozen=True, eq=False)
class BandedConditional(DenseConditional):
    """Λ a band, bordered or not, factorised for each φ; the moments of a band of many diagonals as if it were dense."""

    @cached_property
    def layout(self) -> Layout:
        """Of Λ."""
        return layout(self.form.size, self.form.rows, self.form.columns)

    @cached_property
    def _places(self) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
        of_linear = self.lookup(np.arange(self.form.size), np.full(self.form.size, self.form.size))
        return self.layout.places(self.lookup), of_linear

    @property
    def entries(self) -> int:
        return self.form.size * (1 + len(self.layout.shared)) if self.layout.width == 1 else super().entries

    def _factorised(self, entries: np.ndarray) -> tuple[Precision, np.ndarray]:
        """Λ and η at one φ."""
        places, of_linear = self._places
        return factorise_entries(-entries, self.layout, places), np.append(entries, 0.0)[of_linear]

    def draw(self, arrays: Arrays, rng: np.random.Generator) -> np.ndarray:
        result = rng.standard_normal((len(arrays[0]), self.form.size))
        for k, (precision, linear) in enumerate(map(self._factorised, arrays[0])):
            result[k] = self.form.origin + precision.solve(linear) + precision.colour(result[k])
        return result

    def moments(self, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
        if self.layout.width > 1:
            return super().moments(arrays)
        mean, sd = np.empty((2, len(arrays[0]), self.form.size))
        for k, (precision, linear) in enumerate(map(self._factorised, arrays[0])):
            mean[k], sd[k] = self.form.origin + precision.solve(linear), np.sqrt(precision.variances)
        return mean, sd

    def log_density(self, arrays: Arrays, theta: np.ndarray) -> float:
        precision, linear = self._factorised(arrays[0][0])
        return precision.log_density(theta - self.form.origin - precision.solve(linear))


@dataclass(frozen=True, eq=False)
class ScaledConditional(BandedConditional):
    """As a band, but in the coordinates of a hierarchical prior at those φ where little is left of Λ in θ."""

    @property
    def _scaled(self) -> ScaledForm:
        assert self.form.scaled is not None
        return self.form.scaled

    @property
    def graphs(self) -> list[Graph]:
        return [self.form.values, self._scaled.form.values, self._scaled.prior.spread]

    @cached_property
    def _in_prior(self) -> BandedConditional:
        return BandedConditional(self._scaled.form)

    def _at(self, arrays: Arrays, k: int) -> _Normal:
        """θ given the φ of number k."""
        with suppress(NotPositiveDefinite):
            precision, linear = self._factorised(arrays[0][k])
            if precision.condition < ILL_CONDITIONED:
                return _Normal(precision, linear, self.form.origin)
        prior = self._scaled.prior
        precision, linear = self._in_prior._factorised(arrays[1][k])
        spread = arrays[2][k][prior.classes]
        return _Normal(precision, linear, prior.origin, sparse.csr_array(prior.inverse * spread), prior.root, spread)

    def draw(self, arrays: Arrays, rng: np.random.Generator) -> np.ndarray:
        noise = rng.standard_normal((len(arrays[0]), self.form.size))
        return np.array([self._at(arrays, k).coloured(z) for k, z in enumerate(noise)]).reshape(noise.shape)

    def moments(self, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
        normals = [self._at(arrays, k) for k in range(len(arrays[0]))]
        return np.array([n.mean for n in normals]), np.sqrt([n.variances for n in normals])

    def log_density(self, arrays: Arrays, theta: np.ndarray) -> float:
        return self._at(arrays, 0).log_density(theta)


@dataclass(frozen=True, eq=False)
class _Normal:
    """θ₀ + M w, with w Normal of precision Λ and linear part η; M = T⁻¹ diag(s), or one where there is none."""

    precision: Precision
    linear: np.ndarray
    origin: np.ndarray
    map: sparse.csr_array | None = None
    root: sparse.csr_array | None = None  # T
    spread: np.ndarray | None = None  # s

    @property
    def mean(self) -> np.ndarray:
        return self.coloured(np.zeros(len(self.linear)))

    def coloured(self, noise: np.ndarray) -> np.ndarray:
        """The θ of standard Normal noise."""
        w = self.precision.solve(self.linear) + self.precision.colour(noise)
        return np.asarray(self.origin + (w if self.map is None else self.map @ w))

    @property
    def variances(self) -> np.ndarray:
        if self.map is None:
            return self.precision.variances
        result, precision = np.empty(len(self.linear)), self.precision
        for start in range(0, len(result), STRIP):
            rows = self.map[start : start + STRIP].T.toarray() * precision.inverse_scale[:, None]
            result[start : start + STRIP] = np.sum(precision.factor.forward(rows[precision.order]) ** 2, axis=0)
        return result

    def log_density(self, theta: np.ndarray) -> float:
        """At θ."""
        w = theta - self.origin
        if self.root is None or self.spread is None:
            return self.precision.log_density(w - self.precision.solve(self.linear))
        w = self.root @ w / self.spread
        log_volume = np.sum(np.log(np.abs(self.root.diagonal()))) - np.sum(np.log(np.abs(self.spread)))
        return float(self.precision.log_density(w - self.precision.solve(self.linear)) + log_volume)


Conditional = SingleDesignConditional | DataSideConditional | DenseConditional


@dataclass(frozen=True)
class Strategy:
    """One way to solve a block."""

    name: str
    applies: Callable[[QuadraticForm], bool]  # whether a form has the structure
    integral: Callable[[QuadraticForm], Graph]  # the log integral of the density without its ``rest``, a graph in φ
    conditional: Callable[[QuadraticForm], Conditional]  # θ given φ
    at_mean: bool = False  # whether the density is rather taken at the mean of θ, where that is cheap


def _on_data_side(form: QuadraticForm) -> Conditional:
    assert form.side is not None
    return SingleDesignConditional(form.side) if form.side.diagonal else DataSideConditional(form.side)


def _banded(form: QuadraticForm) -> bool:
    return form.root is None and len(BandedConditional(form).layout.inner) > 0


def _solved(form: QuadraticForm) -> Conditional:
    """Draws do not gain from coordinates that are good for the integral only."""
    if not _banded(form):
        return DenseConditional(form)
    return BandedConditional(form) if form.scaled is None else ScaledConditional(form)


def _scaled_integral(form: QuadraticForm) -> Graph:
    """In the coordinates of the prior; where the data's constant is the larger one there, in those of θ."""
    assert form.scaled is not None
    scaled = form.scaled.form
    value: Any = strategy_of(scaled).integral(scaled) + form.scaled.prior.log_volume
    if form.scaled.alone:
        return value
    plain = replace(form, scaled=None)
    better = pt.abs(constant_of(scaled)) <= pt.abs(constant_of(plain))
    total: Graph = pt.switch(better, value, strategy_of(plain).integral(plain))
    return total


# With what an integral costs, for D entries of θ and N rows of data.
STRATEGIES = (
    Strategy("data side", lambda form: form.side is not None, data_side_integral, _on_data_side),  # N² and columns
    Strategy("simultaneous diagonal", lambda form: form.spectrum is not None, diagonal_integral, _solved),  # D
    Strategy("whitened", lambda form: form.root is not None, whitened_integral, DenseConditional),  # D³
    Strategy("scaled", lambda form: form.scaled is not None, _scaled_integral, _solved),  # once or twice what follows
    Strategy("plates", lambda form: form.plates is not None, plates_integral, _solved),
    Strategy(
        "banded", _banded, solved_integral, BandedConditional, at_mean=True
    ),  # D · (width + k)², with k shared by all
    Strategy("dense", lambda form: True, solved_integral, DenseConditional),  # D³/3
)


def strategy_of(form: QuadraticForm) -> Strategy:
    """The first strategy of the list that applies."""
    return next(s for s in STRATEGIES if s.applies(form))
