r"""The whitening of softened Matérn processes by a Cholesky factorisation of their matrix, and its adjoint.

A softened process has the covariance :math:`c\,k_\nu(\sqrt{(\lambda d)^2 + h^2})` at a distance d, as PyMC computes it.
With :math:`P = \Phi(L^\top \bar L)`, of which Φ takes the lower triangle with half of its diagonal, the adjoint of the
matrix is :math:`½ L^{-\top} (P + P^\top) L^{-1}` (Murray 2016). As :math:`\bar L` is
:math:`-\operatorname{tril} \bar y z^\top + \operatorname{diag} \bar r` and :math:`L^\top \bar y = \bar z`, P takes no
product of matrices: :math:`P = \Phi(\operatorname{diag}(L) \bar r - \bar z z^\top)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

__all__ = ["dense_adjoint", "dense_whitened", "shape_at"]

ROUNDING = 1e-15  # of a pivot, over the entry of the diagonal that it is left of: none of its digits may be right

Process = tuple[int, float, float, float]  # its order, variance, rate and softening
Evaluated = tuple[Process, np.ndarray, np.ndarray]  # with softened distances, and covariances of variance one


def shape_at(order: int, u: np.ndarray) -> np.ndarray:
    """The covariance of variance one at the distance u, times the rate."""
    if order == 0:
        return np.ones_like(u)
    decay: np.ndarray = np.exp(-u)
    return decay if order == 1 else decay * (1.0 + u if order == 2 else 1.0 + u + u * u / 3.0)


def dense_whitened(
    x: np.ndarray,
    y: np.ndarray,
    d: np.ndarray,
    orders: np.ndarray,
    variances: np.ndarray,
    rates: np.ndarray,
    softening: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """z = L⁻¹y and diag L; neither is a number where the covariance is not positive definite."""
    factor = _factor(d, _parts(x, _processes(orders, variances, rates, softening)))
    if factor is None:
        return np.full(len(y), np.nan), np.full(len(y), np.nan)
    return solve_triangular(factor, y, lower=True, check_finite=False), np.diag(factor).copy()


def dense_adjoint(
    x: np.ndarray,
    y: np.ndarray,
    d: np.ndarray,
    orders: np.ndarray,
    variances: np.ndarray,
    rates: np.ndarray,
    softening: np.ndarray,
    to_z: np.ndarray,
    to_root: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Adjoints of y, d, variances and rates, from those of z and diag L; not numbers where these are not."""
    parts = list(_parts(x, _processes(orders, variances, rates, softening)))
    factor = _factor(d, parts)
    if factor is None:
        return tuple(np.full(len(v), np.nan) for v in (y, d, variances, rates))  # type: ignore[return-value]
    z = solve_triangular(factor, y, lower=True, check_finite=False)
    to_y = solve_triangular(factor, to_z, lower=True, trans="T", check_finite=False)
    product = -np.tril(np.outer(to_z, z), -1)
    product += product.T
    np.einsum("ii->i", product)[:] = np.diag(factor) * to_root - to_z * z
    half = solve_triangular(factor, product, lower=True, trans="T", overwrite_b=True, check_finite=False)
    to_matrix = 0.5 * solve_triangular(factor, half.T, lower=True, trans="T", overwrite_b=True, check_finite=False)
    slopes = [_slopes(x, *part, to_matrix) for part in parts]
    to_variances, to_rates = np.array(slopes).reshape(-1, 2).T.copy()
    return to_y, np.diag(to_matrix).copy(), to_variances, to_rates


def _processes(*columns: np.ndarray) -> list[Process]:
    return [(int(o), float(c), float(r), float(h)) for o, c, r, h in zip(*columns, strict=True)]


def _parts(x: np.ndarray, processes: Iterable[Process]) -> Iterator[Evaluated]:
    gaps = x[:, None] - x
    for process in processes:
        order, _, rate, softening = process
        u = rate * gaps
        u *= u
        u += softening**2
        np.sqrt(u, out=u)
        yield process, u, shape_at(order, u)


def _factor(d: np.ndarray, parts: Iterable[Evaluated]) -> np.ndarray | None:
    matrix = np.diag(d)
    for (_, variance, _, _), _, shape in parts:
        matrix += variance * shape
    if not np.all(np.isfinite(matrix)):
        return None
    diagonal = np.diag(matrix).copy()
    try:
        factor: np.ndarray = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    return factor if np.all(np.diag(factor) ** 2 > ROUNDING * diagonal) else None


def _slopes(
    x: np.ndarray, process: Process, u: np.ndarray, shape: np.ndarray, to_matrix: np.ndarray
) -> tuple[float, float]:
    """Adjoints of the variance and of the rate of a process, from that of the matrix."""
    order, variance, rate, _ = process
    to_shape = to_matrix * shape
    if order == 0:
        return float(np.sum(to_shape)), 0.0
    # −k′(u) / u, over k; and du/dλ = λ d² / u.
    if order == 1:
        ratio = np.divide(1.0, u, out=np.zeros_like(u), where=u > 0.0)
    else:
        ratio = 1.0 / (1.0 + u) if order == 2 else (1.0 + u) / (3.0 + 3.0 * u + u * u)
    to_rate = -variance * rate * float(np.sum(to_shape * ratio * (x[:, None] - x) ** 2))
    return float(np.sum(to_shape)), to_rate
