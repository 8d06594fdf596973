"""How many principal components? Log evidence of probabilistic PCA by bridge sampling, on data with three.

Run as ``python benchmarks/ppca_dimensions.py``; one to several minutes a row. A row without a number says why.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

import bayeskit as bk
from bayeskit.models import load_model

ROWS, COLUMNS, COMPONENTS, NOISE = 300, 8, 3, 0.5


def simulated(random_seed: int = 1) -> xr.Dataset:
    """Rows whose covariance is W Wᵀ + noise, W of rank three."""
    rng = np.random.default_rng(random_seed)
    loadings = rng.normal(size=(COLUMNS, COMPONENTS))
    y = rng.normal(size=(ROWS, COMPONENTS)) @ loadings.T + NOISE * rng.normal(size=(ROWS, COLUMNS))
    return xr.Dataset({"y": (("row", "column"), y)})


def main() -> None:
    """Print the table, a row as soon as it is there."""
    data = simulated()
    build = load_model("probabilistic_pca").build
    print(f"{ROWS} rows, {COLUMNS} columns, {COMPONENTS} components simulated")
    print(f"{'components':>10} {'log evidence':>14} {'error':>8} {'seconds':>8}", flush=True)
    for components in range(1, 6):
        # The noise was simulated with one sd for all columns; standardising would give each its own.
        model = build(data, components=components, standardise=False)
        post = bk.infer(model, draws=2000, random_seed=1, progressbar=False)
        evidence = post.log_evidence
        print(
            f"{components:>10} {evidence.value:>14.2f} {evidence.error:>8.2g} {post.seconds:>8.1f}  {evidence.reason}",
            flush=True,
        )


if __name__ == "__main__":
    main()
