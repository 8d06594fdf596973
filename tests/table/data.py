"""The data of the table, made once with a fixed seed, and the sums of them that closed forms need.

The numbers matter only in that they are ordinary.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from mpmath import mp
from oracles import elementwise, exact, log_factorial, total

_RNG = np.random.default_rng(20260)
FLIPS = np.array([1, 0, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1])
GROUP = np.array([0, 0, 1, 2, 2, 2, 1, 0, 2, 1, 0, 2])
GROUPS = ["north", "south", "west"]
TRIALS = np.array([5, 9, 3, 7, 6, 12, 4, 8, 10, 2, 11, 1])
SUCCESSES = np.array([2, 3, 3, 0, 4, 7, 1, 5, 10, 1, 3, 0])
WAITS = np.array([1, 4, 2, 2, 9, 1, 3, 5, 1, 1, 2, 6])
COUNTS = np.array([3, 0, 5, 2, 7, 1, 4, 4, 0, 12, 6, 2])
EXPOSURE = np.array([0.5, 1.25, 2.0, 1.1, 3.7, 0.3, 1.9, 2.2, 0.8, 4.1, 2.6, 1.4])
POSITIVE = _RNG.gamma(2.0, 1.5, size=12)
REAL = _RNG.normal(1.5, 2.0, size=12)
X = _RNG.normal(size=(12, 3))
KINDS = np.array([0, 2, 1, 1, 0, 2, 2, 2, 1, 0, 2, 2])
MULTI = np.array([[3, 1, 6], [0, 4, 2], [5, 5, 1]])
ROWS = _RNG.multivariate_normal([1.0, -0.5], [[1.0, 0.4], [0.4, 0.7]], size=9)
COV2 = np.array([[1.3, 0.4], [0.4, 0.9]])
COV3 = np.array([[2.0, 0.3, -0.2], [0.3, 1.0, 0.1], [-0.2, 0.1, 0.5]])
GAPS = np.where(np.arange(12) % 5 == 2, np.nan, REAL)
WIDE = _RNG.normal(size=(6, 20))
TIMES = np.linspace(0.0, 1.0, 10)
SERIES = np.cumsum(_RNG.normal(size=10))
LOOKUP = np.array([-2.0, 0.5, 1.0, 3.0])
MILLION = 1_000_000


def outcomes(flips: Any) -> tuple[int, int]:
    """Successes and failures."""
    return int(np.sum(flips)), int(np.size(flips) - np.sum(flips))


@cache
def million_flips() -> np.ndarray:
    return (np.random.default_rng(1).random(MILLION) < 0.3).astype(int)


@cache
def million_counts() -> np.ndarray:
    return np.random.default_rng(2).poisson(2.5, MILLION)


@cache
def million_line() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=MILLION)
    return x, 1.0 + 0.5 * x + rng.normal(size=MILLION)


def grid(values: Any, count: int = 3) -> list[int]:
    """Σ of the values in each group of :data:`GROUP`, as integers."""
    return [int(np.sum(np.asarray(values)[g == GROUP])) for g in range(count)]


def million_line_sums() -> tuple[np.ndarray, np.ndarray, float]:
    """XᵀX, Xᵀy and yᵀy of the million rows, summed without rounding."""
    x, y = million_line()
    off = math.fsum(x)
    gram = np.array([[float(MILLION), off], [off, math.fsum(x * x)]])
    return gram, np.array([math.fsum(y), math.fsum(x * y)]), math.fsum(y * y)


def kernel(length: float = 0.3) -> np.ndarray:
    """1.5² exp(−½ (Δt / length)²) at :data:`TIMES`, with the jitter that pm.gp.Latent adds by default."""
    distance = np.subtract.outer(TIMES, TIMES)
    return 1.5**2 * np.exp(-0.5 * (distance / length) ** 2) + 1e-6 * np.eye(len(TIMES))


def poisson_base(counts: Any, exposure: Any = 1.0) -> Any:
    """log ∏ exposure^count / count!"""
    return total(exact(counts) * elementwise(mp.log, exposure)) - log_factorial(counts)


def half_squares(y: Any, mean: Any = 0.0) -> Any:
    """½ Σ (y − mean)²"""
    return total((exact(y) - exact(mean)) ** 2) / 2


def half_log_2pi(n: int) -> Any:
    """½ n log 2π"""
    return n * mp.log(2 * mp.pi) / 2
