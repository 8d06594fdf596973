"""A Gaussian process of 1,000 points: log evidence and its gradient, against the least work that gives the value alone.

That least work is one Cholesky factorisation of that size and one evaluation of the kernel (PyTensor's, compiled). The
gradient needs the inverse of the covariance besides, twice the work of the factorisation. scikit-learn's
``log_marginal_likelihood`` with gradient is shown beside it, and PyMC's own density of the model as it was written.
The bar is twice the least work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bars import Row, show

POINTS = 1_000
MOST_RATIO = 2.0
JUDGED = "collapsed, in NumPy"  # as quadrature and optimisation evaluate it; samplers take the compiled one
AT = np.log([1.3, 0.9, 0.2])


def median_time(function: Callable[[], Any], repeats: int = 15) -> float:
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def run(points: int = POINTS) -> list[Row]:
    import pymc as pm
    import pytensor
    import pytensor.tensor as pt
    from scipy import linalg
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process import kernels as sk

    import bayeskit as bk
    from bayeskit.model.unconstrained import Unconstrained

    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 10, points))[:, None]
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=points)
    with pm.Model() as model:
        amplitude, length, noise = (pm.HalfNormal(name) for name in ("amplitude", "length", "noise"))
        process = pm.gp.Marginal(cov_func=amplitude**2 * pm.gp.cov.ExpQuad(1, length))
        process.marginal_likelihood("y", x, y, sigma=noise, jitter=0.0)

    def density(of: Any) -> Callable[[], Any]:
        function = of.logp_dlogp_function(ravel_inputs=True)
        function.set_extra_values({})
        return lambda: function(AT)

    collapsed = bk.collapse(model)
    space = Unconstrained(collapsed)
    scale, width = pt.dscalar(), pt.dscalar()
    kernel = pytensor.function([scale, width], scale**2 * pm.gp.cov.ExpQuad(1, width)(x))
    covariance = kernel(1.3, 0.9) + 0.04 * np.eye(points)
    reference = GaussianProcessRegressor(
        sk.ConstantKernel(1.3**2) * sk.RBF(0.9) + sk.WhiteKernel(0.2**2), alpha=0.0, optimizer=None
    ).fit(x, y)
    theta = reference.kernel_.theta
    seconds = {
        "Cholesky factorisation": median_time(lambda: linalg.cholesky(covariance, lower=True)),
        "kernel": median_time(lambda: kernel(1.3, 0.9)),
        "collapsed, in NumPy": median_time(lambda: space.value_and_gradient(AT)),
        "collapsed, compiled": median_time(density(collapsed)),
        "model as written": median_time(density(model)),
        "scikit-learn": median_time(lambda: reference.log_marginal_likelihood(theta, eval_gradient=True)),
    }
    least = seconds["Cholesky factorisation"] + seconds["kernel"]
    return [
        Row(
            name,
            {"ms": f"{1e3 * value:.1f}", "ratio to factorisation and kernel": f"{value / least:.2f}"},
            f"<= {MOST_RATIO:g} times" if name == JUDGED else "",
            value <= MOST_RATIO * least if name == JUDGED else None,
        )
        for name, value in seconds.items()
    ]


def main() -> None:
    show(f"Gaussian process of {POINTS:,} points: log evidence and gradient", run())


if __name__ == "__main__":
    main()
