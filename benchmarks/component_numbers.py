"""How many components, how many states? Log evidences by bridge sampling, over all labellings, on real data.

Run as ``python benchmarks/component_numbers.py``; some seconds a row, a minute or two in all. Three tables: Gaussian
mixtures of the petals of irises; a mixture in one dimension written twice, with its means in any order and with PyMC's
``ordered`` transform, which must agree; hidden Markov models of the yearly number of great earthquakes. A row without a
number says why.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pymc as pm
from pymc.distributions.transforms import ordered

import bayeskit as bk
from bayeskit.datasets import example_data, load_example
from bayeskit.models import load_model

DRAWS = 4000


def show(name: str, model: pm.Model) -> None:
    """One row, as soon as it is there."""
    post = bk.infer(model, draws=DRAWS, random_seed=1, progressbar=False)
    evidence = post.log_evidence
    print(
        f"{name:>24} {evidence.value:>12.3f} {evidence.error:>8.2g} {evidence.label:>10} {post.seconds:>8.1f}  "
        f"{evidence.convention or evidence.reason}",
        flush=True,
    )


def mixtures() -> Iterator[tuple[str, pm.Model]]:
    """Of the petals of irises, in two dimensions."""
    module = load_model("gaussian_mixture")
    data = example_data(module.EXAMPLE, module.VARIABLES)
    for components in range(1, 5):
        yield f"{components} components", module.build(data, components=components)


def one_dimension(components: int, *, in_order: bool) -> pm.Model:
    """A mixture of Normals with one sd, of the lengths of the petals, in two spellings."""
    y = load_example("iris")["petal_length"].to_numpy()
    start = np.quantile(y, (np.arange(components) + 0.5) / components)
    restriction = {"transform": ordered} if in_order else {}
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(components))
        mean = pm.Normal("mean", 4.0, 2.0, shape=components, initval=start, **restriction)
        sd = pm.HalfNormal("sd", 1.0)
        z = pm.Categorical("z", weights, shape=len(y))
        pm.Normal("y", mean[z], sd, observed=y)
    return model


def hidden_markov_models() -> Iterator[tuple[str, pm.Model]]:
    """Of the yearly number of great earthquakes."""
    module = load_model("hidden_markov")
    data = example_data(module.EXAMPLE, module.VARIABLES)
    for states in range(2, 5):
        yield f"{states} states", module.build(data, states=states, emissions="poisson")


def main() -> None:
    """Print the tables."""
    head = f"{'':>24} {'log evidence':>12} {'error':>8} {'label':>10} {'seconds':>8}"
    print(f"Gaussian mixtures of the petals of irises\n{head}")
    for name, model in mixtures():
        show(name, model)
    print(f"\nThe lengths of the petals, two spellings\n{head}")
    for components in (2, 3, 4):
        show(f"{components}, any order", one_dimension(components, in_order=False))
        show(f"{components}, ordered", one_dimension(components, in_order=True))
    print(f"\nHidden Markov models of great earthquakes, Poisson emissions\n{head}")
    for name, model in hidden_markov_models():
        show(name, model)


if __name__ == "__main__":
    main()
