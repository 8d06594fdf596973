"""Closed forms written a second time, from the textbook, at 40 digits: what the tests hold the engine against.

Nothing here imports bayeskit or PyMC. Each function returns an :class:`Answer`: the log evidence and, for every latent
variable, the exact posterior mean and standard deviation. Answers of independent blocks add.

A likelihood enters the one-parameter families through its sufficient statistics and ``log_base``, the part that does
not depend on the parameter, so that one formula serves every data distribution:

- :func:`beta`: base · pˢ (1 − p)ᶠ;
- :func:`gamma`: base · λᵏ exp(−λ t);
- :func:`inverse_gamma`: base · v⁻ᵏ exp(−t / v);
- :func:`dirichlet`: base · ∏ pᵢ^nᵢ;
- :func:`von_mises`: base · exp(a cos φ + b sin φ).

Linear-Gaussian graphs are built by :class:`GaussianGraph`, in which every variable is an affine function of one long
vector of independent standard normals; the joint covariance is then C Cᵀ and conditioning is one dense solve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import ArrayLike, NDArray

mp.dps = 40

Moments = Mapping[str, tuple[NDArray[Any], NDArray[Any]]]


@dataclass(frozen=True)
class Answer:
    """An exact answer.

    Attributes
    ----------
    log_evidence : mpf
        log p(y), in nats.
    moments : mapping of str to (mean, sd)
        Posterior mean and standard deviation of every latent variable, with its shape.
    joint : tuple of (names, mean, covariance), optional
        The joint posterior of a Gaussian block, the variables raveled and laid end to end.
    """

    log_evidence: Any
    moments: Moments
    joint: tuple[tuple[str, ...], NDArray[Any], NDArray[Any]] | None = None

    def __add__(self, other: Answer) -> Answer:
        """The answer of two independent blocks."""
        return Answer(self.log_evidence + other.log_evidence, {**self.moments, **other.moments})

    def shift(self, log_factor: Any) -> Answer:
        """The same posterior with the likelihood multiplied by exp(log_factor)."""
        return Answer(self.log_evidence + log_factor, self.moments, self.joint)


def exact(values: ArrayLike) -> NDArray[Any]:
    """An object array of mpf: every float64 enters with the value it has, not with the value it was typed as."""
    array = np.asarray(values)
    if array.dtype == object:
        return array
    return np.array([mpf(x.item()) for x in array.ravel()], dtype=object).reshape(array.shape)


def to_float(values: Any) -> NDArray[Any]:
    """Round an mpf array to float64."""
    return np.asarray(values, dtype=object).astype(float)


def elementwise(function: Callable[..., Any], *arrays: Any) -> NDArray[Any]:
    """Apply a function of mpf to broadcast arrays."""
    columns = np.broadcast_arrays(*[exact(a) for a in arrays])
    flat = [function(*row) for row in zip(*[c.ravel() for c in columns], strict=True)]
    return np.array(flat, dtype=object).reshape(columns[0].shape)


def total(values: Any) -> Any:
    """Sum of all elements; mpf sums carry 40 digits, so a million rows lose nothing."""
    return mp.fsum(exact(values).ravel().tolist())


def log_factorial(n: ArrayLike) -> Any:
    """Σ log n!"""
    return total(elementwise(lambda k: mp.loggamma(k + 1), n))


def log_choose(n: ArrayLike, k: ArrayLike) -> Any:
    """Σ log C(n, k), for real n."""
    return total(elementwise(lambda a, b: mp.loggamma(a + 1) - mp.loggamma(b + 1) - mp.loggamma(a - b + 1), n, k))


def sum_log(values: ArrayLike) -> Any:
    """Σ log x"""
    return total(elementwise(mp.log, values))


def group_sum(values: ArrayLike, index: ArrayLike, groups: int) -> NDArray[Any]:
    """Σ over the rows of each group."""
    values, index = exact(values), np.asarray(index)
    return np.array([total(values[index == g]) for g in range(groups)], dtype=object)


def stack(name: str, answers: Sequence[Answer]) -> Answer:
    """Independent answers about the elements of one vector variable."""
    names = answers[0].moments
    moments = {
        n: (np.stack([a.moments[n][0] for a in answers]), np.stack([a.moments[n][1] for a in answers])) for n in names
    }
    if name not in moments:
        raise KeyError(name)
    return Answer(reduce(add, (a.log_evidence for a in answers)), moments)


# --- one-parameter families --------------------------------------------------------------------------------------


def beta(name: str, a: ArrayLike, b: ArrayLike, successes: ArrayLike, failures: ArrayLike, log_base: Any = 0) -> Answer:
    """p ~ Beta(a, b) and p(y | p) = base · p^successes (1 − p)^failures."""
    a, b, successes, failures = exact(a), exact(b), exact(successes), exact(failures)

    def log_beta(x: Any, y: Any) -> Any:
        return mp.loggamma(x) + mp.loggamma(y) - mp.loggamma(x + y)

    log_z = total(elementwise(lambda p, q, s, f: log_beta(p + s, q + f) - log_beta(p, q), a, b, successes, failures))
    a, b = a + successes, b + failures
    mean = elementwise(lambda p, q: p / (p + q), a, b)
    sd = elementwise(lambda p, q: mp.sqrt(p * q / (p + q + 1)) / (p + q), a, b)
    return Answer(log_z + log_base, {name: (to_float(mean), to_float(sd))})


def gamma(
    name: str, shape: ArrayLike, rate: ArrayLike, count: ArrayLike, exposure: ArrayLike, log_base: Any = 0
) -> Answer:
    """λ ~ Gamma(shape, rate) and p(y | λ) = base · λ^count exp(−λ · exposure)."""

    def log_z(a: Any, b: Any, k: Any, t: Any) -> Any:
        return a * mp.log(b) - mp.loggamma(a) + mp.loggamma(a + k) - (a + k) * mp.log(b + t)

    value = total(elementwise(log_z, shape, rate, count, exposure))
    mean = elementwise(lambda a, b, k, t: (a + k) / (b + t), shape, rate, count, exposure)
    sd = elementwise(lambda a, b, k, t: mp.sqrt(a + k) / (b + t), shape, rate, count, exposure)
    return Answer(value + log_base, {name: (to_float(mean), to_float(sd))})


def inverse_gamma(
    name: str, shape: ArrayLike, scale: ArrayLike, count: ArrayLike, amount: ArrayLike, log_base: Any = 0
) -> Answer:
    """v ~ InverseGamma(shape, scale) and p(y | v) = base · v^−count exp(−amount / v), shape + count > 2."""

    def log_z(a: Any, b: Any, k: Any, t: Any) -> Any:
        return a * mp.log(b) - mp.loggamma(a) + mp.loggamma(a + k) - (a + k) * mp.log(b + t)

    value = total(elementwise(log_z, shape, scale, count, amount))
    mean = elementwise(lambda a, b, k, t: (b + t) / (a + k - 1), shape, scale, count, amount)
    sd = elementwise(lambda a, b, k, t: (b + t) / ((a + k - 1) * mp.sqrt(a + k - 2)), shape, scale, count, amount)
    return Answer(value + log_base, {name: (to_float(mean), to_float(sd))})


def von_mises(
    name: str, prior: tuple[ArrayLike, ArrayLike], data: tuple[ArrayLike, ArrayLike], log_base: Any = 0
) -> Answer:
    """φ on (−π, π), p(φ) ∝ exp(a cos φ + b sin φ), and p(y | φ) = base · exp(a′ cos φ + b′ sin φ).

    Moments from the Fourier series p(φ) = (1 + 2 Σ ρₖ cos k(φ − μ)) / 2π, ρₖ = Iₖ(κ) / I₀(κ).
    """

    def both(a: Any, b: Any) -> tuple[Any, Any]:
        kappa, mu = mp.hypot(a, b), mp.atan2(b, a)
        none = mp.besseli(0, kappa)
        mean, square, k = mpf(0), mp.pi**2 / 3, 1
        while (rho := mp.besseli(k, kappa) / none) > mpf(10) ** -35:
            mean -= 2 * rho * (-1) ** k * mp.sin(k * mu) / k
            square += 4 * rho * (-1) ** k * mp.cos(k * mu) / k**2
            k += 1
        return mean, mp.sqrt(square - mean**2)

    def log_z(a: Any, b: Any, s: Any, t: Any) -> Any:
        return mp.log(mp.besseli(0, mp.hypot(a + s, b + t))) - mp.log(mp.besseli(0, mp.hypot(a, b)))

    (a, b), (s, t) = map(exact, prior), map(exact, data)
    mean, sd = np.frompyfunc(both, 2, 2)(a + s, b + t)
    return Answer(total(elementwise(log_z, a, b, s, t)) + log_base, {name: (to_float(mean), to_float(sd))})


def dirichlet(name: str, alpha: ArrayLike, counts: ArrayLike, log_base: Any = 0) -> Answer:
    """Rows p ~ Dirichlet(alpha) and p(y | p) = base · ∏ p^counts; the last axis is the simplex."""
    prior, counts = np.broadcast_arrays(exact(alpha), exact(counts))
    posterior = prior + counts

    def log_normaliser(row: NDArray[Any]) -> Any:
        return mp.fsum(mp.loggamma(x) for x in row) - mp.loggamma(mp.fsum(row))

    width = prior.shape[-1]
    rows = zip(posterior.reshape(-1, width), prior.reshape(-1, width), strict=True)
    log_z = mp.fsum(log_normaliser(after) - log_normaliser(before) for after, before in rows)
    size = posterior.sum(axis=-1, keepdims=True)
    mean = posterior / size
    sd = elementwise(lambda m, n: mp.sqrt(m * (1 - m) / (n + 1)), mean, size)
    return Answer(log_z + log_base, {name: (to_float(mean), to_float(sd))})


def finite(name: str, values: ArrayLike, prior: ArrayLike, log_likelihood: ArrayLike) -> Answer:
    """A table of hypotheses: P(z = valuesᵢ) = priorᵢ."""
    values, prior = exact(values), exact(prior)
    weights = prior * elementwise(mp.exp, log_likelihood)
    evidence = total(weights)
    posterior = weights / evidence
    mean = total(posterior * values)
    return Answer(
        mp.log(evidence), {name: (to_float(mean), to_float(mp.sqrt(total(posterior * (values - mean) ** 2))))}
    )


def normal_logp(y: ArrayLike, mean: ArrayLike, sd: ArrayLike) -> Any:
    """Σ log N(y; mean, sd²)"""
    return total(
        elementwise(lambda x, m, s: -((x - m) ** 2) / (2 * s * s) - mp.log(s) - mp.log(2 * mp.pi) / 2, y, mean, sd)
    )


# --- dense linear algebra on mpf ---------------------------------------------------------------------------------


def cholesky(matrix: NDArray[Any]) -> NDArray[Any]:
    """Lower Cholesky factor of an object array; fails on a matrix that is not positive definite."""
    size = len(matrix)
    lower = np.full((size, size), mpf(0), dtype=object)
    for j in range(size):
        pivot = matrix[j, j] - lower[j, :j] @ lower[j, :j] if j else matrix[j, j]
        if pivot <= 0:
            raise ValueError("not positive definite")
        lower[j, j] = mp.sqrt(pivot)
        if j + 1 < size:
            below = matrix[j + 1 :, j] - (lower[j + 1 :, :j] @ lower[j, :j] if j else 0)
            lower[j + 1 :, j] = below / lower[j, j]
    return lower


def solve_lower(lower: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """L⁻¹ b by forward substitution."""
    result = np.array(right, dtype=object)
    for i in range(len(lower)):
        if i:
            result[i] = result[i] - lower[i, :i] @ result[:i]
        result[i] = result[i] / lower[i, i]
    return result


def inverse(matrix: ArrayLike) -> NDArray[Any]:
    """Inverse of a symmetric positive definite matrix."""
    lower = cholesky(exact(matrix))
    root = solve_lower(lower, exact(np.eye(len(lower))))
    return root.T @ root


def log_det(matrix: ArrayLike) -> Any:
    """log |A| of a symmetric positive definite matrix."""
    return 2 * mp.fsum(mp.log(x) for x in np.diagonal(cholesky(exact(matrix))))


# --- linear-Gaussian graphs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Affine:
    """constant + coefficients · ε, with ε standard normal; coefficients has one trailing axis for ε."""

    constant: NDArray[Any]
    coefficients: NDArray[Any]

    def padded(self, width: int) -> NDArray[Any]:
        """The coefficients, with zeros for the normals that were drawn later."""
        missing = width - self.coefficients.shape[-1]
        return np.concatenate(
            [self.coefficients, np.full((*self.coefficients.shape[:-1], missing), mpf(0), dtype=object)], axis=-1
        )

    def __add__(self, other: Any) -> Affine:
        if not isinstance(other, Affine):
            constant = self.constant + exact(other)
            return Affine(
                constant, np.broadcast_to(self.coefficients, (*np.shape(constant), self.coefficients.shape[-1]))
            )
        width = max(self.coefficients.shape[-1], other.coefficients.shape[-1])
        constant = self.constant + other.constant
        shape = (*np.shape(constant), width)
        left, right = (np.broadcast_to(_lift(a, np.ndim(constant), width), shape) for a in (self, other))
        return Affine(np.asarray(constant, dtype=object), left + right)

    __radd__ = __add__

    def __mul__(self, other: ArrayLike) -> Affine:
        factor = exact(other)
        constant = np.asarray(self.constant * factor, dtype=object)
        lifted = _lift(self, constant.ndim, self.coefficients.shape[-1])
        return Affine(constant, lifted * factor[..., None])

    __rmul__ = __mul__

    def __neg__(self) -> Affine:
        return self * -1.0

    def __sub__(self, other: Any) -> Affine:
        return self + -other

    def __getitem__(self, index: Any) -> Affine:
        index = index if isinstance(index, tuple) else (index,)
        constant = np.asarray(self.constant[index], dtype=object)
        return Affine(constant, self.coefficients[(*index, ..., slice(None))])

    def __rmatmul__(self, left: ArrayLike) -> Affine:
        left = exact(left)
        return Affine(
            np.asarray(np.tensordot(left, self.constant, axes=1), dtype=object),
            np.tensordot(left, self.coefficients, axes=1),
        )

    # numpy must not take `matrix @ affine` or `array + affine` apart element by element
    __array_ufunc__ = None


def _lift(affine: Affine, ndim: int, width: int) -> NDArray[Any]:
    """Coefficients with leading axes added so that they broadcast as the constants do."""
    padded = affine.padded(width)
    return padded.reshape((1,) * (ndim - np.ndim(affine.constant)) + padded.shape)


@dataclass
class GaussianGraph:
    """A linear-Gaussian model, written node by node.

    Attributes
    ----------
    latents : dict of str to Affine
    observed : list of (Affine, data)
    width : int
        Standard normals used so far.
    """

    latents: dict[str, Affine] = field(default_factory=dict)
    observed: list[tuple[Affine, NDArray[Any]]] = field(default_factory=list)
    width: int = 0

    def _noisy(self, mean: Any, noise: NDArray[Any], shape: tuple[int, ...]) -> Affine:
        """mean + noise · ε with fresh ε; noise is a (size, size) matrix."""
        size = int(np.prod(shape))
        block = np.full((size, self.width + size), mpf(0), dtype=object)
        block[:, self.width :] = noise
        self.width += size
        fresh = Affine(np.full(shape, mpf(0), dtype=object), block.reshape((*shape, self.width)))
        return fresh + mean

    def normal(self, name: str, mean: Any, sd: ArrayLike, shape: tuple[int, ...] = ()) -> Affine:
        """A latent variable with independent elements."""
        scales = np.broadcast_to(exact(sd), shape).ravel()
        self.latents[name] = self._noisy(mean, _diagonal(scales), shape)
        return self.latents[name]

    def mvnormal(self, name: str, mean: Any, cov: ArrayLike) -> Affine:
        """A latent vector with a covariance matrix."""
        lower = cholesky(exact(cov))
        self.latents[name] = self._noisy(mean, lower, (len(lower),))
        return self.latents[name]

    def observe(self, mean: Affine, sd: ArrayLike, data: ArrayLike) -> None:
        """Independent Gaussian data; NaN marks a value that was not seen and is left out."""
        shape = np.shape(data)
        scales = np.broadcast_to(exact(sd), shape).ravel()
        node = self._noisy(mean, _diagonal(scales), shape)
        seen = ~np.isnan(np.asarray(data, dtype=float))
        self.observed.append((node[seen], exact(np.asarray(data)[seen])))

    def observe_mv(self, mean: Affine, cov: ArrayLike, data: ArrayLike) -> None:
        """Rows of a multivariate Gaussian; data is a vector or a matrix of rows, mean broadcasts over rows."""
        lower, values = cholesky(exact(cov)), exact(data)
        rows = int(np.prod(values.shape[:-1]))
        noise = np.full((values.size, values.size), mpf(0), dtype=object)
        for i in range(rows):
            at = slice(i * len(lower), (i + 1) * len(lower))
            noise[at, at] = lower
        self.observed.append((self._noisy(mean, noise, values.shape), values))

    def _dense(self) -> tuple[Any, ...]:
        names = tuple(self.latents)
        coefficients = [self.latents[n].padded(self.width).reshape(-1, self.width) for n in names]
        theta = np.concatenate(coefficients)
        prior_mean = np.concatenate([np.ravel(self.latents[n].constant) for n in names])
        design = np.concatenate([a.padded(self.width).reshape(-1, self.width) for a, _ in self.observed])
        residual = np.concatenate([np.ravel(y) - np.ravel(a.constant) for a, y in self.observed])
        lower = cholesky(design @ design.T)
        white = solve_lower(lower, residual)
        gain = solve_lower(lower, design @ theta.T)
        mean = prior_mean + gain.T @ white
        cov = theta @ theta.T - gain.T @ gain
        log_det = 2 * mp.fsum(mp.log(x) for x in np.diagonal(lower))
        return names, mean, cov, log_det, white @ white, len(residual)

    def _moments(self, names: tuple[str, ...], mean: Any, variance: Any) -> dict[str, tuple[Any, Any]]:
        moments, start = {}, 0
        for name in names:
            shape = np.shape(self.latents[name].constant)
            at = slice(start, start + int(np.prod(shape)))
            sd = elementwise(mp.sqrt, variance[at])
            moments[name] = (to_float(mean[at]).reshape(shape), to_float(sd).reshape(shape))
            start = at.stop
        return moments

    def answer(self) -> Answer:
        """Known variances: log N(y; m, S) and the Gaussian posterior."""
        names, mean, cov, log_det, distance, rows = self._dense()
        log_z = -(rows * mp.log(2 * mp.pi) + log_det + distance) / 2
        moments = self._moments(names, mean, np.diagonal(cov))
        return Answer(log_z, moments, (names, to_float(mean), to_float(cov)))

    def answer_scaled(self, name: str, shape: float, scale: float, *, precision: bool = False) -> Answer:
        """Every variance of the graph multiplied by v ~ InverseGamma(shape, scale), or by 1/τ, τ ~ Gamma(shape, scale).

        The data are then multivariate Student-t with 2·shape degrees of freedom.
        """
        names, mean, cov, log_det, distance, rows = self._dense()
        a, b = mpf(shape), mpf(scale)
        a_n, b_n = a + mpf(rows) / 2, b + distance / 2
        log_z = a * mp.log(b) - a_n * mp.log(b_n) + mp.loggamma(a_n) - mp.loggamma(a)
        log_z -= (rows * mp.log(2 * mp.pi) + log_det) / 2
        moments = self._moments(names, mean, np.diagonal(cov) * b_n / (a_n - 1))
        own = (b_n / (a_n - 1), b_n / ((a_n - 1) * mp.sqrt(a_n - 2)))
        if precision:
            own = (a_n / b_n, mp.sqrt(a_n) / b_n)
        return Answer(log_z, {**moments, name: (to_float(own[0]), to_float(own[1]))})


def _diagonal(values: NDArray[Any]) -> NDArray[Any]:
    matrix = np.full((len(values), len(values)), mpf(0), dtype=object)
    np.fill_diagonal(matrix, values)
    return matrix


def line_statistics(x: ArrayLike, y: ArrayLike) -> tuple[Any, ...]:
    """n, Σx, Σx², Σy, Σxy, Σy² of a long table, without rounding in the sums."""
    x, y = exact(x), exact(y)
    return len(x), total(x), total(x * x), total(y), total(x * y), total(y * y)


def regression_from_sums(
    name: str, gram: Any, cross: Any, square: Any, rows: int, prior_sd: float, noise_sd: float
) -> Answer:
    """w ~ N(0, prior_sd² I), y ~ N(X w, noise_sd² I), from XᵀX, Xᵀy and yᵀy: for long tables."""
    gram, cross = exact(gram), exact(cross)
    s2, p2, size = mpf(noise_sd) ** 2, mpf(prior_sd) ** 2, len(cross)
    precision = gram / s2 + exact(np.eye(size)) / p2
    cov = inverse(precision)
    mean = cov @ (cross / s2)
    quadratic = square / s2 - mean @ precision @ mean
    log_z = -(rows * mp.log(2 * mp.pi * s2) + size * mp.log(p2) + log_det(precision) + quadratic) / 2
    sd = elementwise(mp.sqrt, np.diagonal(cov))
    return Answer(log_z, {name: (to_float(mean), to_float(sd))})


# --- Wishart -----------------------------------------------------------------------------------------------------


def _log_wishart_normaliser(nu: Any, scale: NDArray[Any]) -> Any:
    """log ∫ |W|^((ν − D − 1)/2) exp(−½ tr V⁻¹ W) dW"""
    size = len(scale)
    log_gamma = mpf(size * (size - 1)) / 4 * mp.log(mp.pi)
    log_gamma += mp.fsum(mp.loggamma((nu - j) / mpf(2)) for j in range(size))
    return nu * size / mpf(2) * mp.log(2) + nu / mpf(2) * log_det(scale) + log_gamma


def _wishart_moments(nu: Any, scale: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    diagonal = np.diagonal(scale)
    variance = nu * (scale * scale + np.outer(diagonal, diagonal))
    return to_float(nu * scale), to_float(elementwise(mp.sqrt, variance))


def wishart(name: str, nu: float, scale: ArrayLike, rows: ArrayLike, mean: ArrayLike) -> Answer:
    """W ~ Wishart(ν, V), rows of y ~ N(mean, W⁻¹): posterior Wishart(ν + n, (V⁻¹ + Σ r rᵀ)⁻¹)."""
    rows = exact(rows) - exact(mean)
    prior = exact(scale)
    posterior = inverse(inverse(prior) + rows.T @ rows)
    nu, n = mpf(nu), len(rows)
    log_z = _log_wishart_normaliser(nu + n, posterior) - _log_wishart_normaliser(nu, prior)
    log_z -= mpf(rows.size) / 2 * mp.log(2 * mp.pi)
    return Answer(log_z, {name: _wishart_moments(nu + n, posterior)})


def normal_wishart(
    mean_name: str, name: str, nu: float, scale: ArrayLike, prior_mean: ArrayLike, kappa: float, rows: ArrayLike
) -> Answer:
    """μ | W ~ N(m, (κ W)⁻¹), W ~ Wishart(ν, V), rows of y ~ N(μ, W⁻¹)."""
    rows, m, prior, k, nu = exact(rows), exact(prior_mean), exact(scale), mpf(kappa), mpf(nu)
    n, size = rows.shape
    average = rows.sum(axis=0) / n
    centred = rows - average
    shift = average - m
    posterior = inverse(inverse(prior) + centred.T @ centred + k * n / (k + n) * np.outer(shift, shift))
    log_z = _log_wishart_normaliser(nu + n, posterior) - _log_wishart_normaliser(nu, prior)
    log_z += size / mpf(2) * mp.log(k / (k + n)) - mpf(n * size) / 2 * mp.log(2 * mp.pi)
    # μ is multivariate t with ν_n − D + 1 degrees of freedom; its covariance is V_n⁻¹ / ((κ_n)(ν_n − D − 1))
    variance = np.diagonal(inverse(posterior)) / ((k + n) * (nu + n - size - 1))
    mean = (k * m + n * average) / (k + n)
    return Answer(
        log_z,
        {
            mean_name: (to_float(mean), to_float(elementwise(mp.sqrt, variance))),
            name: _wishart_moments(nu + n, posterior),
        },
    )
