"""Exact draws of the eliminated variables given what remains, and their conditional log density.

Last eliminated first: score families' variables from their own distribution, then Gaussian blocks

    δ | φ, y ~ Normal(Λ⁻¹η, Λ⁻¹),   θ = θ₀ + δ,

solved in the layout of :mod:`bayeskit.gaussian.integral` or, with more variables than data, on the side of the data
(:mod:`bayeskit.gaussian.observation_space_draws`), then variables drawn forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, stats

from bayeskit.elimination.ancestral import draw_ancestral
from bayeskit.elimination.collapsed_density import Collapsed
from bayeskit.elimination.states_of_plan import state_recovery
from bayeskit.gaussian.banded_layout import Layout, Lookup, layout
from bayeskit.gaussian.block import GaussianBlock
from bayeskit.gaussian.factorisation import Precision, factorise_entries
from bayeskit.gaussian.observation_space_draws import side_draws, side_graphs, side_log_density, side_moments
from bayeskit.gaussian.quadratic_form import QuadraticForm
from bayeskit.graphs.rewriting import inline
from bayeskit.model.forward_sampling import over_draws
from bayeskit.types import Graph

__all__ = ["Recovery"]

BATCH = 4_000_000  # numbers in a stack of matrices solved at once
MARGINALS_LIMIT = 100_000_000  # numbers in all such stacks

Draws = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Recovery:
    """The conditional distribution of everything eliminated given what remains."""

    collapsed: Collapsed

    def draw(self, remaining: Mapping[str, np.ndarray], rng: np.random.Generator, *, leaves: bool = True) -> Draws:
        """One draw of every variable for each draw of the remaining ones.

        Parameters
        ----------
        remaining : mapping of str to array
            Draws of φ on its own support, first axis the draws.
        rng : numpy.random.Generator
        leaves : bool
            Whether the variables that nothing depends on, and finite ones that were summed out, are drawn too.
        """
        values: Draws = {n: np.asarray(v) for n, v in remaining.items()}
        number = len(next(iter(values.values())))
        for position in reversed(range(len(self.collapsed.scales))):
            solved = self.collapsed.scales[position]
            parameters = self._parameters(position, values)
            values[solved.scale.name] = solved.scale.family.draw(parameters, rng, 1)[0]
        for position, (block, form) in enumerate(self.collapsed.blocks):
            if form.side is not None:
                values |= _split(block, side_draws(form.side, self._results(position, values), rng))
                continue
            table, root = self._values(position, values)
            noise = rng.standard_normal((number, form.size))
            values |= _split(block, _draws(form, table, root, noise, self.layouts[position]))
        if leaves:
            for name, states in state_recovery(self.collapsed.analysis).items():
                values[name] = states.draw(values, number, rng)
            values |= draw_ancestral(self.collapsed.analysis, values, rng, number)
        return {n: values[n] for n in self.collapsed.analysis.original.names if n in values}

    def log_density(self, point: Mapping[str, np.ndarray]) -> float:
        """log p(eliminated | remaining, y) at one point, without the variables drawn forward."""
        one = {n: np.asarray(v)[None] for n, v in point.items()}
        total = 0.0
        for position, solved in enumerate(self.collapsed.scales):
            parameters = {k: v[0] for k, v in self._parameters(position, one).items()}
            total += float(np.sum(solved.scale.family.log_density(parameters, np.asarray(point[solved.scale.name]))))
        for position, (block, form) in enumerate(self.collapsed.blocks):
            theta = np.concatenate([np.ravel(point[n]) for n in block.names])
            if form.side is not None:
                total += side_log_density(form.side, self._results(position, one), theta)
                continue
            table, root = self._values(position, one)
            total += _log_density(form, table, root, theta - form.origin, self.layouts[position])
        return total

    def marginals(self, remaining: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """For each variable with a closed-form marginal given φ, its frozen distribution, first axis the values of φ.

        A Gaussian block that a score family scales has none here, nor has a block too large for a stack of matrices.
        """
        values: Draws = {n: np.asarray(v) for n, v in remaining.items()}
        number = len(next(iter(values.values())))
        found: dict[str, Any] = {}
        scaled = {s.scale.name for s in self.collapsed.scales}
        for position, solved in enumerate(self.collapsed.scales):
            found[solved.scale.name] = solved.scale.family.frozen(self._parameters(position, values))
        for position, (block, form) in enumerate(self.collapsed.blocks):
            outside = set().union(*[self.collapsed.analysis.joint.scopes[f] for f in block.factors])
            entries = form.size * (form.size if form.side is None else form.side.rows)
            if outside & scaled or number * entries > MARGINALS_LIMIT:
                continue
            if form.side is not None:
                mean, sd = side_moments(form.side, self._results(position, values))
            else:
                mean, sd = _dense_moments(form, *self._values(position, values))
            means, sds = _split(block, mean), _split(block, sd)
            found |= {n: stats.norm(means[n], sds[n]) for n in block.names}
        return found

    @cached_property
    def layouts(self) -> list[Layout]:
        return [layout(form.size, form.rows, form.columns) for _, form in self.collapsed.blocks]

    @cached_property
    def _functions(self) -> tuple[list[Any], list[Any]]:
        inputs, shapes = self.collapsed.analysis.joint.values, self.collapsed.analysis.shapes
        scales = [list(s.parameters.values()) for s in self.collapsed.scales]
        blocks = [_graphs(form) for _, form in self.collapsed.blocks]
        together = [
            [over_draws(inline(graphs), inputs, unknown=shapes) for graphs in part] for part in (scales, blocks)
        ]
        return together[0], together[1]

    def _parameters(self, position: int, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        results = self._functions[0][position](values, len(next(iter(values.values()))))
        return dict(zip(self.collapsed.scales[position].parameters, results, strict=True))

    def _values(self, position: int, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray | None]:
        """The entries of T and, where there is one, the root of the prior, for each draw."""
        table, *root = self._results(position, values)
        return table, root[0] if root else None

    def _results(self, position: int, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """What of a block depends on φ, for each draw."""
        results: list[np.ndarray] = self._functions[1][position](values, len(next(iter(values.values()))))
        return results


def _split(block: GaussianBlock, stacked: np.ndarray) -> Draws:
    result, start = {}, 0
    for name in block.names:
        stop = start + int(np.prod(block.shapes[name], dtype=int))
        result[name] = stacked[:, start:stop].reshape(len(stacked), *block.shapes[name])
        start = stop
    return result


def _graphs(form: QuadraticForm) -> list[Graph]:
    if form.side is not None:
        return side_graphs(form.side)
    return [form.values] if form.root is None else [form.values, form.root]


def _draws(
    form: QuadraticForm, table: np.ndarray, root: np.ndarray | None, noise: np.ndarray, plan: Layout
) -> np.ndarray:
    result = np.empty_like(noise)
    if root is None and len(plan.inner):
        solve = _Conditional(form, plan)
        for k in range(len(noise)):
            precision, linear = solve(table[k])
            result[k] = precision.solve(linear) + precision.colour(noise[k])
        return form.origin + result
    for rows in _stacks(form, len(table)):
        mean, half, _ = _dense(form, table[rows], None if root is None else root[rows])
        result[rows] = mean + (np.swapaxes(half, -1, -2) @ noise[rows][..., None])[..., 0]
    return form.origin + result


def _stacks(form: QuadraticForm, number: int) -> list[slice]:
    step = max(1, BATCH // max(form.size, 1) ** 2)
    return [slice(start, start + step) for start in range(0, number, step)]


def _dense_moments(form: QuadraticForm, table: np.ndarray, root: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    mean, sd = np.empty((len(table), form.size)), np.empty((len(table), form.size))
    for rows in _stacks(form, len(table)):
        centre, half, _ = _dense(form, table[rows], None if root is None else root[rows])
        mean[rows] = form.origin + centre
        sd[rows] = np.sqrt(np.sum(half**2, axis=-2))
    return mean, sd


def _log_density(
    form: QuadraticForm, table: np.ndarray, root: np.ndarray | None, deviation: np.ndarray, plan: Layout
) -> float:
    """log p(δ) of one draw."""
    constant = -0.5 * form.size * np.log(2 * np.pi)
    if root is None and len(plan.inner):
        precision, linear = _Conditional(form, plan)(table[0])
        return precision.log_density(deviation - precision.solve(linear))
    mean, _, (factor, whitener, log_determinant) = _dense(form, table, root)
    white = np.swapaxes(factor[0], -1, -2) @ (whitener[0] @ (deviation - mean[0]))
    return float(constant + log_determinant[0] - 0.5 * np.sum(white**2))


def _dense(
    form: QuadraticForm, table: np.ndarray, root: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each row of values: δ̂; H with HᵀH the covariance of δ; and L, W and log |LᵀW| with |LᵀW(δ − δ̂)|² its square.

    With a root of the prior, W = R and L is the factor of I + R⁻ᵀPR⁻¹; without one W scales Λ to unit diagonal.
    """
    size = form.size
    lookup = Lookup(form.size + 1, form.rows, form.columns)
    padded = np.concatenate([table, np.zeros((len(table), 1))], axis=1)
    i, j = np.indices((size, size))
    precision = -padded[:, lookup(i.ravel(), j.ravel())].reshape(-1, size, size)
    linear = padded[:, lookup(np.arange(size), np.full(size, size))][..., None]
    if root is None:
        whitener = np.sqrt(np.diagonal(precision, axis1=1, axis2=2))[:, :, None] * np.eye(size)
        inverse = np.swapaxes(whitener, 1, 2) / np.swapaxes(whitener, 1, 2).sum(axis=1)[:, None, :] ** 2
        centre = np.zeros_like(linear)
        inner = np.swapaxes(inverse, 1, 2) @ precision @ inverse
        log_scale = np.sum(np.log(np.diagonal(whitener, axis1=1, axis2=2)), axis=1)
    else:
        whitener = root[:, :, :size]
        largest = np.max(np.abs(whitener), axis=2, keepdims=True)
        eye = np.broadcast_to(np.eye(size), whitener.shape)
        solved = np.linalg.solve(
            whitener / largest, np.concatenate([eye / largest, root[:, :, size:] / largest], axis=2)
        )
        inverse, centre = solved[:, :, :size], -solved[:, :, size:]
        inner = np.eye(size) + np.swapaxes(inverse, 1, 2) @ precision @ inverse
        log_scale = np.linalg.slogdet(whitener / largest)[1] + np.sum(np.log(largest), axis=(1, 2))
    factor = np.linalg.cholesky(inner)
    half = linalg.solve_triangular(factor, np.swapaxes(inverse, 1, 2), lower=True)
    mean = centre + np.swapaxes(half, 1, 2) @ (half @ (linear - precision @ centre))
    log_determinant = np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1) + log_scale
    return mean[..., 0], half, (factor, whitener, log_determinant)


class _Conditional:
    """Λ factorised as a band, bordered or not, and η, from the entries of T at one φ."""

    def __init__(self, form: QuadraticForm, plan: Layout) -> None:
        lookup = Lookup(form.size + 1, form.rows, form.columns)
        self.plan, self.places = plan, plan.places(lookup)
        self.linear = lookup(np.arange(form.size), np.full(form.size, form.size))

    def __call__(self, entries: np.ndarray) -> tuple[Precision, np.ndarray]:
        return factorise_entries(-entries, self.plan, self.places), np.append(entries, 0.0)[self.linear]
