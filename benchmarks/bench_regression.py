"""Conjugate regression on 10⁶ rows and 50 columns: posterior and evidence, against the least work that gives them.

That least work is NumPy's XᵀX, Xᵀy, yᵀy and a Cholesky solve. scikit-learn's BayesianRidge (which estimates its two
scales instead of integrating one out) is shown beside it. Bars: at most 3 times NumPy, peak memory under 3 copies of X.
Each runs in a process of its own, so that one's memory is not another's.

The model is built before the clock starts, as X is for NumPy. Peak memory is the growth of the process's resident set
from before X exists to its peak, in units of X; the first copy is X itself.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bars import Row, show

ROWS, COLUMNS = 1_000_000, 50
MOST_RATIO = 3.0
MOST_COPIES = 3.0
METHODS = ("numpy", "infer", "scikit-learn")


def peak_bytes() -> int:
    """Peak resident set of this process; Linux counts in KiB, macOS in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def resident_bytes() -> int:
    """Resident set of this process now; where the system does not tell, its peak so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return peak_bytes()
    return pages * resource.getpagesize()


def make_data(rows: int, columns: int) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(1)
    # Filled in place: no temporary copy of X that would hide a copy made later.
    X = rng.standard_normal((rows, columns))
    y = X @ rng.standard_normal(columns) + rng.standard_normal(rows)
    return X, y


def numpy_posterior(X: Any, y: Any) -> float:
    """The log evidence of the same model from XᵀX, Xᵀy and yᵀy alone."""
    import numpy as np
    from scipy import linalg, special

    n, d = X.shape
    gram, moment, square = X.T @ X, X.T @ y, y @ y
    precision = np.eye(d) + gram
    factor = linalg.cho_factor(precision, lower=True)
    mean = linalg.cho_solve(factor, moment)
    shape, scale = 2.0 + n / 2, 1.0 + (square - moment @ mean) / 2
    return float(
        -n / 2 * np.log(2 * np.pi)
        - np.log(np.diag(factor[0])).sum()
        + 2.0 * np.log(1.0)
        - shape * np.log(scale)
        + special.gammaln(shape)
        - special.gammaln(2.0)
    )


def build(X: Any, y: Any) -> Any:
    """Weights N(0, σ²), variance σ² ~ InverseGamma(2, 1)."""
    import pymc as pm

    with pm.Model() as model:
        variance = pm.InverseGamma("variance", alpha=2.0, beta=1.0)
        sd = variance**0.5
        weights = pm.Normal("weights", 0.0, sd, shape=X.shape[1])
        pm.Normal("y", X @ weights, sd, observed=y)
    return model


def measure(method: str, rows: int, columns: int, repeats: int) -> dict[str, float]:
    """Median seconds, peak memory in copies of X, and the log evidence; run in a process of its own."""
    if method == "infer":
        import bayeskit as bk

        # Imports, which are not counted, are done by a small model of the same kind.
        bk.infer(build(*make_data(10, 2)), draws=4, random_seed=0, progressbar=False)
    elif method == "scikit-learn":
        from sklearn.linear_model import BayesianRidge
    else:
        from scipy import linalg, special  # noqa: F401
    baseline = resident_bytes()
    X, y = make_data(rows, columns)
    times, evidence = [], float("nan")
    for _ in range(repeats):
        if method == "infer":
            model = build(X, y)
            start = time.perf_counter()
            evidence = float(bk.infer(model, draws=4000, random_seed=1, progressbar=False).log_evidence)
        elif method == "numpy":
            start = time.perf_counter()
            evidence = numpy_posterior(X, y)
        else:
            start = time.perf_counter()
            BayesianRidge(fit_intercept=False, compute_score=True).fit(X, y)
        times.append(time.perf_counter() - start)
    copies = (peak_bytes() - baseline) / X.nbytes
    return {"seconds": statistics.median(times), "copies": copies, "log_evidence": evidence}


def run(rows: int = ROWS, columns: int = COLUMNS, repeats: int = 3) -> list[Row]:
    results = {}
    for method in METHODS:
        command = [sys.executable, __file__, "--method", method, "--rows", str(rows), "--columns", str(columns)]
        done = subprocess.run([*command, "--repeats", str(repeats)], capture_output=True, text=True, check=True)
        results[method] = json.loads(done.stdout.splitlines()[-1])
    base = results["numpy"]["seconds"]
    table = []
    for method, result in results.items():
        ours = method == "infer"
        ratio = result["seconds"] / base
        table.append(
            Row(
                method,
                {
                    "s": f"{result['seconds']:.3f}",
                    "ratio to numpy": f"{ratio:.2f}",
                    "peak memory, copies of X": f"{result['copies']:.2f}",
                    "log evidence": f"{result['log_evidence']:.6f}" if method != "scikit-learn" else "",
                },
                f"<= {MOST_RATIO:g} times, < {MOST_COPIES:g} copies" if ours else "",
                ratio <= MOST_RATIO and result["copies"] < MOST_COPIES if ours else None,
            )
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=METHODS, help="measure one method in this process and print JSON")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--columns", type=int, default=COLUMNS)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.method:
        print(json.dumps(measure(options.method, options.rows, options.columns, options.repeats)))
    else:
        title = f"Conjugate regression, {options.rows:,} rows and {options.columns} columns"
        show(title, run(options.rows, options.columns, options.repeats))


if __name__ == "__main__":
    main()
