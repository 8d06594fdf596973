r"""The whitening of softened Matérn processes: by the filter where that is exact enough, by a matrix where it is not.

PyMC computes a distance as :math:`\sqrt{u^2 + h^2}`, so that covariances at distance zero are less than the variance,
and between near places less than those of a Matérn process. The filter has what that takes off at distance zero: of a
process of order one as something negative that a place shares with no other, of smoother ones, which lose as much
between near places, as a smaller variance. What it leaves out is bounded for the values at hand
(:mod:`bayeskit.graphs.matern.left_out`), a bound that is some ten times what it bounds. Where that is more than
:data:`TOLERANCE` and there are at most :data:`ROWS` observations, z and diag L are those of the matrix
(:mod:`bayeskit.graphs.matern.dense`), and so are their adjoints. What is left out elsewhere is stated with the evidence
(:func:`bound_of_softened`).

Functions of Python, which numba compiles within a graph, and those of numba that they call.
"""

from __future__ import annotations

import numba
import numpy as np

from bayeskit.graphs.matern import adjoint, dense, one_process, passes, state, transitions
from bayeskit.graphs.matern import left_out as left_out_file
from bayeskit.graphs.matern.adjoint import whitening_adjoint
from bayeskit.graphs.matern.dense import dense_adjoint, dense_whitened
from bayeskit.graphs.matern.left_out import left_out
from bayeskit.graphs.matern.passes import whitened
from bayeskit.graphs.matern.state import copied
from bayeskit.graphs.numba_functions import as_written

__all__ = ["CALLED", "ROWS", "bound_of_softened", "softened_adjoint", "softened_whitening", "whitened_each"]

ROWS = 2000  # observations up to which a matrix is made
# In a log density. With 1e-8, what a matrix of 300 rough places would change by 1e-7 took seventeen times as long.
TOLERANCE = 1e-2
CALLED = tuple(str(m.__file__) for m in (adjoint, dense, left_out_file, one_process, passes, state, transitions))
VECTOR = numba.float64[::1]


def softened_whitening(x, y, d, orders, variances, rates, softening):  # type: ignore[no-untyped-def]
    """z and diag L of observations y at x, in ascending order, with noise of variances d.

    Neither is a number where the covariance is not positive definite.
    """
    shared, scaled = for_filter(orders, variances, softening)
    z, root = whitened(x, y, d, shared, orders, scaled, rates)
    if asks_for_matrix(x, d, shared, orders, variances, rates, softening, z, root):
        with numba.objmode(z=VECTOR, root=VECTOR):
            z, root = dense_whitened(x, y, d, orders, variances, rates, softening)
    return z, root


def whitened_each(x, y, d, orders, variances, rates, softening):  # type: ignore[no-untyped-def]
    """As :func:`softened_whitening` of rows of x, y, d, variances and rates; what has one row is the same for all."""
    given = x, y, d, variances, rates
    rows = max(map(len, given)) if all(map(len, given)) else 0
    z, root, asking = np.empty((rows, y.shape[1])), np.empty((rows, y.shape[1])), np.zeros(rows)
    _filtered_each(x, y, d, orders, variances, rates, softening, z, root, asking)
    for k in np.flatnonzero(asking):
        one_x, one_y, one_d, variance, rate = (a[min(k, len(a) - 1)] for a in given)
        z[k], root[k] = dense_whitened(one_x, one_y, one_d, orders, variance, rate, softening)
    return z, root


@as_written(*CALLED)
def _filtered_each(x, y, d, orders, variances, rates, softening, z, root, asking):  # type: ignore[no-untyped-def]
    for k in range(len(z)):
        one_x, one_y, one_d = x[min(k, len(x) - 1)], y[min(k, len(y) - 1)], d[min(k, len(d) - 1)]
        variance, rate = variances[min(k, len(variances) - 1)], rates[min(k, len(rates) - 1)]
        shared, scaled = for_filter(orders, variance, softening)
        one_z, one_root = whitened(one_x, one_y, one_d, shared, orders, scaled, rate)
        if asks_for_matrix(one_x, one_d, shared, orders, variance, rate, softening, one_z, one_root):
            asking[k] = 1.0
        copied(one_z, z[k])
        copied(one_root, root[k])


def softened_adjoint(x, y, d, orders, variances, rates, softening, to_z, to_root):  # type: ignore[no-untyped-def]
    """Adjoints of y, d, variances and rates, from those of z and diag L; not numbers where these are not."""
    shared, scaled = for_filter(orders, variances, softening)
    z, root = whitened(x, y, d, shared, orders, scaled, rates)
    if asks_for_matrix(x, d, shared, orders, variances, rates, softening, z, root):
        with numba.objmode(to_y=VECTOR, to_d=VECTOR, to_variances=VECTOR, to_rates=VECTOR):
            to_y, to_d, to_variances, to_rates = dense_adjoint(
                x, y, d, orders, variances, rates, softening, to_z, to_root
            )
        return to_y, to_d, to_variances, to_rates
    to_y, to_d, to_shared, to_variances, to_rates = whitening_adjoint(
        x, y, d, shared, orders, scaled, rates, to_z, to_root
    )
    add_what_is_lost(orders, softening, to_shared, to_variances)
    return to_y, to_d, to_variances, to_rates


def bound_of_softened(x, y, d, orders, variances, rates, softening):  # type: ignore[no-untyped-def]
    """A bound of what is left out of the log density that :func:`softened_whitening` gives; zero of a matrix."""
    shared, scaled = for_filter(orders, variances, softening)
    z, root = whitened(x, y, d, shared, orders, scaled, rates)
    if np.isnan(root[0]) or asks_for_matrix(x, d, shared, orders, variances, rates, softening, z, root):
        return 0.0
    off, rounding = left_out(x, d, shared, orders, variances, rates, softening, z, root, False)
    return off + rounding_of_filter(orders, rounding)


@as_written()
def add_what_is_lost(orders, softening, to_shared, to_variances):  # type: ignore[no-untyped-def]
    """Adjoints of variances from those of what :func:`for_filter` makes of them."""
    for k in range(len(orders)):
        lost = at_zero(orders[k], softening[k])
        to_variances[k] += lost * (to_shared if orders[k] == 1 else to_variances[k])


@as_written()
def _may_be_covariance(x, d):  # type: ignore[no-untyped-def]
    """Whether softening may make it one: not where noise is negative, or a place has several without any."""
    without = 0
    for t in range(len(x)):
        if t == 0 or x[t] != x[t - 1]:
            without = 0
        if not 0.0 <= d[t] < np.inf:
            return False
        without += 1 if d[t] == 0.0 else 0
        if without > 1:
            return False
    return True


@as_written(left_out_file.__file__)
def asks_for_matrix(x, d, shared, orders, variances, rates, softening, z, root):  # type: ignore[no-untyped-def]
    """Whether what the filter leaves out is more than a log density may be off, where a matrix may be made."""
    softened = 0.0
    for h in softening:
        softened = max(softened, h)
    if len(x) > ROWS or len(x) < 2 or (softened == 0.0 and not _are_several(orders)):
        return False
    if np.isnan(root[0]):
        return _may_be_covariance(x, d)
    for roughly in (True, False):  # mostly it is so little that a bound of the bound tells
        off, rounding = left_out(x, d, shared, orders, variances, rates, softening, z, root, roughly)
        if off + rounding_of_filter(orders, rounding) <= TOLERANCE + rounding:
            return False
    return True


@as_written()
def _are_several(orders):  # type: ignore[no-untyped-def]
    several = 0
    for order in orders:
        several += 1 if order > 0 else 0
    return several > 1


@as_written()
def rounding_of_filter(orders, rounding):  # type: ignore[no-untyped-def]
    """What the filter of a sum of processes is off by, from what a matrix is; of one process it is no more.

    Little noise tells the sum of smooth processes to far more digits than each of them, and the filter has their
    covariances: of two Matern52 with variances 10 a log density was off by 2 where a matrix has it to 3e-5. Ten times
    what was found of orders 1 to 3 with noise from 1e-5 to 0.1, which grows with the square.
    """
    return 10.0 * rounding + 3e9 * rounding * rounding if _are_several(orders) else 0.0


@as_written()
def for_filter(orders, variances, softening):  # type: ignore[no-untyped-def]
    """What observations at one place share, and the variances, so that those at distance zero are right."""
    shared, scaled = 0.0, np.empty(len(variances))
    for k in range(len(orders)):
        lost = variances[k] * at_zero(orders[k], softening[k])
        scaled[k] = variances[k] if orders[k] == 1 else variances[k] + lost
        shared += lost if orders[k] == 1 else 0.0
    return shared, scaled


@as_written()
def at_zero(order, h):  # type: ignore[no-untyped-def]
    """The covariance at distance zero less the variance, for variance one."""
    if order == 1:
        return np.expm1(-h)
    return -h * h * (0.5 - h / 3.0) if order == 2 else -h * h / 6.0
