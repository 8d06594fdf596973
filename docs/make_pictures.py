"""Draw the picture of the README from a real run: ``python docs/make_pictures.py``.

Left, the catalogue's linear regression on Forbes' data with its bands; right, the closed-form marginal of the slope
over the histogram of NUTS draws of the same model.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import bayeskit as bk
from bayeskit.datasets import example_data
from bayeskit.models import load_model
from bayeskit.reporting.curve import draw_curve, fitted_curve
from bayeskit.reporting.records import BLUE, ORANGE, styled

SEED = 20260101
TARGET = Path(__file__).parent / "regression.png"


def main() -> None:
    """Infer, validate, draw and write ``docs/regression.png``."""
    linear_regression = load_model("linear_regression")
    data = example_data(linear_regression.EXAMPLE, linear_regression.VARIABLES)
    model = linear_regression.build(data, **linear_regression.EXAMPLE.options)
    post = bk.infer(model, random_seed=SEED, progressbar=False)
    validation = bk.validate(model, random_seed=SEED, progressbar=False)
    curve = fitted_curve(post)
    assert curve is not None
    assert validation.draws is not None
    slope = post.marginal("weights")
    sampled = validation.draws["posterior"]["weights"].to_numpy().ravel()
    with styled():
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained", width_ratios=(3, 2))
        draw_curve(left, curve)
        left.set_xlabel("boiling point of water (°F)")
        left.set_ylabel("pressure (inches of mercury)")
        right.hist(sampled, bins=40, density=True, color=ORANGE, alpha=0.45, label=f"NUTS, {sampled.size:,} draws")
        x = np.linspace(sampled.min(), sampled.max(), 300)
        right.plot(x, np.asarray(slope.dist.pdf(x)).ravel(), color=BLUE, linewidth=2, label="closed form (Student-t)")
        right.set_xlabel("slope (inches of mercury per standard deviation)")
        right.set_yticks([])
        right.spines["left"].set_visible(False)
        right.set_ylim(top=1.22 * right.get_ylim()[1])
        right.legend(loc="upper left")
        figure.savefig(TARGET, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main()
