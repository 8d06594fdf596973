r"""What a Toeplitz matrix K has of its inverse without making it: K⁻¹y, and the sums along the diagonals of K⁻¹.

With x the first column of K⁻¹ and the triangular Toeplitz matrices of Gohberg and Semencul,

.. math::

   x_0 K^{-1} = L(x) L(x)^\top - L(\tilde x) L(\tilde x)^\top, \qquad \tilde x = (0, x_{n-1}, …, x_1),

of which a product with a vector takes four Fourier transforms, and the sums along diagonals two correlations:

.. math::

   \sum_i (K^{-1})_{i, i+k} = \tfrac{1}{x_0} \sum_l (n - k - 2 l)\, x_l x_{l+k}.

What Levinson's recursion gives is refined by that product until it is as good as what a dense factor gives. Where that
does not come to rest, K being singular to all but a few digits, a small K is factorised, and of a large one there are
no numbers.

Source: I. Gohberg and A. Semencul (1972); G. Golub and C. Van Loan, Matrix computations, section 4.7.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.linalg import LinAlgError, cho_factor, cho_solve, matmul_toeplitz, toeplitz

from bayeskit.graphs.toeplitz.recursions import levinson

__all__ = ["correlation", "solved_with_sums"]

DENSE = 2000  # rows up to which a doubtful matrix is made
ROUNDS = 3
SETTLED = 1e-4  # relative correction, of which the next one would be less than the square


def correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Σ_l a_l b_{l+k} for each k from 0."""
    size = next_fast_len(2 * len(a), real=True)
    found: np.ndarray = irfft(np.conj(rfft(a, size)) * rfft(b, size), size)[: len(a)]
    return found


def solved_with_sums(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """K⁻¹y, and the sums along the diagonals of K⁻¹ from the main one on, of K with the first column t."""
    sides = np.column_stack([y, np.zeros_like(y)])
    sides[0, 1] = 1.0
    found = np.column_stack(levinson(t, y))
    with np.errstate(all="ignore"):
        for _ in range(ROUNDS):
            if not np.all(np.isfinite(found)):
                break
            change = _times_inverse(found[:, 1], sides - matmul_toeplitz(t, found))
            found += change
            if all(_relative(change[:, k], found[:, k]) < SETTLED for k in (0, 1)):
                return found[:, 0].copy(), _sums(found[:, 1])
    return _by_the_matrix(t, y)


def _relative(change: np.ndarray, whole: np.ndarray) -> float:
    """How large a change is; nothing where there is nothing."""
    size = float(np.linalg.norm(whole))
    return float(np.linalg.norm(change)) / size if size > 0.0 else 0.0


def _times_inverse(x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """K⁻¹v, of the columns of v, by the first column of K⁻¹."""
    zeros = np.zeros_like(x)
    other = np.concatenate([[0.0], x[:0:-1]])
    parts = []
    for c in (x, other):
        row = zeros.copy()
        row[0] = c[0]
        parts.append(matmul_toeplitz((c, row), matmul_toeplitz((row, c), v)))
    found: np.ndarray = (parts[0] - parts[1]) / x[0]
    return found


def _sums(x: np.ndarray) -> np.ndarray:
    places = np.arange(len(x), dtype=np.float64)
    found: np.ndarray = ((len(x) - places) * correlation(x, x) - 2.0 * correlation(places * x, x)) / x[0]
    return found


def _by_the_matrix(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n = len(t)
    none = np.full(n, np.nan)
    if n > DENSE or not np.all(np.isfinite(t)):
        return none, none
    try:
        factor = cho_factor(toeplitz(t), lower=True)
    except LinAlgError:
        return none, none
    inverse = cho_solve(factor, np.eye(n))
    return cho_solve(factor, y), np.array([np.trace(inverse, k) for k in range(n)])
