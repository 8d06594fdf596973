r"""Maximum likelihood of a linear-Gaussian factor model: where the models of latent components start from.

Rows are :math:`\mathrm{Normal}(\mu, W W^\top + \Psi)` with :math:`\Psi = \sigma^2 I` (probabilistic PCA) or any
diagonal (factor analysis). Missing entries are completed by expectation: EM over the entries that are missing, with the
maximisation over :math:`W` and :math:`\Psi` from the completed covariance. Complete data take one step, which for
probabilistic PCA is the closed form of Tipping and Bishop (1999).
"""

from __future__ import annotations

import numpy as np

__all__ = ["fit_factors"]

FLOOR = 1e-3  # least noise variance, as a share of the column's own: at zero the likelihood has no maximum
STEPS, TOLERANCE = 100, 1e-5  # of EM over missing entries: a start need not be sharp
NOISE_STEPS, NOISE_TOLERANCE = 2000, 1e-8  # of the noise of each column, given the covariance


def fit_factors(y: np.ndarray, components: int, *, shared: bool) -> tuple[np.ndarray, np.ndarray]:
    r"""The loadings and noise sds of greatest likelihood.

    Parameters
    ----------
    y : ndarray of shape (rows, columns)
        Missing entries are NaN. A column that is missing throughout gets no loadings, and the noise variance 1.
    components : int
        K, below the number of columns.
    shared : bool
        Whether all columns have one noise variance.

    Returns
    -------
    loadings : ndarray of shape (columns, K)
        Up to rotation.
    noise_sd : ndarray of shape (columns,)

    Notes
    -----
    With :math:`V_n` the covariance of :math:`z_n` given the observed entries of row n, a missing entry has the mean
    :math:`\mu_p + w_p^\top E z_n` and, with another, the covariance :math:`w_p^\top V_n w_q + \delta_{pq} \psi_p`.
    A step costs O(N P² K).
    """
    observed = ~np.isnan(y)
    known = observed.any(axis=0)
    mean = np.where(known, np.where(observed, y, 0.0).sum(axis=0) / observed.sum(axis=0).clip(1), 0.0)
    filled = np.where(observed, y - mean, 0.0)
    variance = np.where(known, (filled**2).sum(axis=0) / observed.sum(axis=0).clip(1), 1.0)
    floor = FLOOR * np.where(variance > 0, variance, 1.0)
    if observed.all():
        return _maximise(filled.T @ filled / len(y), components, shared, floor, variance / 2)
    y = np.where(observed, y, 0.0)
    # Missing entries at their column's mean and variance: the correlations come out too small, never inconsistent.
    covariance = filled.T @ filled / len(y) + np.diag(variance * (1 - observed.mean(axis=0)))
    loadings, sd = _maximise(covariance, components, shared, floor, variance / 2)
    for _ in range(STEPS):
        before = loadings @ loadings.T + np.diag(sd**2)
        mean, covariance = _completed(y, observed, mean, loadings, sd**2)
        loadings, sd = _maximise(covariance, components, shared, floor, sd**2, steps=10)
        change = np.abs(loadings @ loadings.T + np.diag(sd**2) - before)
        if np.max(change / np.sqrt(np.outer(variance + floor, variance + floor))) < TOLERANCE:
            break
    return loadings, sd


def _completed(
    y: np.ndarray, observed: np.ndarray, mean: np.ndarray, loadings: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the rows, with the missing entries replaced by their conditional distribution."""
    weighted = loadings / noise[:, None]
    inner = np.eye(loadings.shape[1]) + np.einsum("np,pk,pl->nkl", observed, weighted, loadings, optimize=True)
    covariance = np.linalg.inv(inner)
    z = np.einsum("nkl,nl->nk", covariance, np.where(observed, y - mean, 0.0) @ weighted)
    filled = np.where(observed, y, mean + z @ loadings.T)
    mean = filled.mean(axis=0)
    # Σ_n (w_p V_n w_q) over the rows in which p and q are both missing, as the product of one matrix with itself.
    half = np.einsum("np,pk,nkl->pnl", ~observed, loadings, np.linalg.cholesky(covariance), optimize=True)
    half = half.reshape(len(mean), -1)
    residual = filled - mean
    total = residual.T @ residual + half @ half.T + np.diag(noise * (~observed).sum(axis=0))
    return mean, total / len(y)


def _maximise(
    covariance: np.ndarray,
    components: int,
    shared: bool,
    floor: np.ndarray,
    noise: np.ndarray,
    steps: int = NOISE_STEPS,
) -> tuple[np.ndarray, np.ndarray]:
    """W and noise sds that maximise the likelihood of rows with this covariance (divided by N)."""
    if shared:
        values, vectors = _largest(covariance)
        sigma = max(float(np.mean(values[components:])), float(floor.min()))
        scales = np.sqrt(np.maximum(values[:components] - sigma, 0.0))
        return vectors[:, :components] * scales, np.full(len(covariance), np.sqrt(sigma))
    noise = np.maximum(noise, floor)
    loadings = np.zeros((len(covariance), components))
    for _ in range(steps):
        # Given Ψ, W is in closed form in units of the noise; given W, Ψ is what W leaves of each variance.
        root = np.sqrt(noise)
        values, vectors = _largest(covariance / np.outer(root, root))
        loadings = root[:, None] * vectors[:, :components] * np.sqrt(np.maximum(values[:components] - 1.0, 0.0))
        before, noise = noise, np.maximum(np.diag(covariance) - np.sum(loadings**2, axis=1), floor)
        if np.max(np.abs(noise / before - 1.0)) < NOISE_TOLERANCE:
            break
    return loadings, np.sqrt(noise)


def _largest(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues in descending order, and their vectors as columns."""
    values, vectors = np.linalg.eigh(covariance)
    return values[::-1], vectors[:, ::-1]
