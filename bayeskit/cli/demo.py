"""The catalogue on its real data: infer, judge NUTS against the closed form, write a page for each model and an index.

:func:`run` is what ``make demo`` and ``bayeskit demo`` call.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import xarray as xr

from bayeskit.cli.rendering import print_table
from bayeskit.comparison.comparison import Comparison
from bayeskit.comparison.evidence_table import compare
from bayeskit.datasets import describe_example, example_data
from bayeskit.graphs.environment import available_cpus, on_one_thread
from bayeskit.graphs.processes import in_processes
from bayeskit.inference.ladder import infer
from bayeskit.models import MODELS, load_model
from bayeskit.reporting import report
from bayeskit.reporting.files import REPORT, check_writable
from bayeskit.reporting.html import page, table_markup, write_page
from bayeskit.reporting.records import Link, Table
from bayeskit.results.records import LogEvidence, Posterior
from bayeskit.sampling.nuts import sample_nuts
from bayeskit.validation import Validation, judge, validate
from bayeskit.validation.bartlett import bartlett

__all__ = ["Outcome", "run", "run_model"]

DRAWS = 4000
MOST_WORKERS = 4  # the longest model takes as long as a quarter of the catalogue
# Variants of a model that its page compares by evidence, by the option that they differ in.
COMPARED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "linear_regression": ("degree", (1, 2, 3)),
    "gaussian_classifier": ("covariance", ("separate", "tied", "diagonal", "tied_diagonal", "spherical")),
}
COLUMNS = ("model", "data", "method", "log evidence", "certificate", "NUTS")


@dataclass(frozen=True)
class Outcome:
    """One model of the catalogue on its data."""

    model: str
    data: str
    method: str
    log_evidence: LogEvidence
    certificate: float  # in nats
    agreement: str  # "pass" or "fail", with the largest z-score; what was sampled if not the model as written
    passed: bool
    page: str  # file name of its report


def run(output: Path, *, random_seed: int = 20260101, progressbar: bool = True, workers: int | None = None) -> int:
    """Run the whole catalogue and write its pages to a folder: 0 if every sampler agrees with its closed form, else 1.

    The numbers do not depend on the number of processes, which is that of the cores, four at most. With one, everything
    is done in this process; with more, a script that calls this function has to do so under
    ``if __name__ == "__main__":``, as always with :mod:`multiprocessing`. About three minutes on two cores, nearly all
    of it for compiling and running NUTS.
    """
    from rich.console import Console
    from rich.progress import track

    check_writable(output / "index.html", REPORT)
    shown = progressbar and sys.stderr.isatty()
    # The catalogue goes from simple to large: the last come first, lest one process be left alone with a long one.
    one = partial(run_model, output=output, random_seed=random_seed)
    finished = in_processes(one, MODELS[::-1], workers or min(available_cpus(), MOST_WORKERS))
    steps = track(finished, "catalogue", len(MODELS), console=Console(stderr=True), transient=True, disable=not shown)
    outcomes = sorted((outcome for _, outcome in steps), key=lambda outcome: MODELS.index(outcome.model))
    rows = [
        (o.model, o.data, o.method, _evidence(o.log_evidence), _certificate(o.certificate), o.agreement)
        for o in outcomes
    ]
    print_table(COLUMNS, rows, right=("log evidence", "certificate"))
    index = write_page(output / "index.html", _index(outcomes, random_seed))
    print(f"\nreports: {index.as_posix()}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


@on_one_thread()  # the last digits of linear algebra depend on the number of threads, and so does where a chain goes
def run_model(name: str, output: Path, *, random_seed: int) -> Outcome:
    """Run one model of the catalogue on its example and write its page to a folder."""
    module = load_model(name)
    data = example_data(module.EXAMPLE, module.VARIABLES)
    post = infer(module.build(data, **module.EXAMPLE.options), draws=DRAWS, random_seed=random_seed, progressbar=False)
    validation = None
    if post.method == "nuts":
        agreement, passed = _convergence(post)
    elif post.log_evidence.label == "estimated":
        agreement, passed = _weights(post), True  # independent draws: what was not to be trusted was left to NUTS
    else:
        validation, sampled = _validate(post, module, data, random_seed)
        agreement, passed = _agreement(validation, sampled), validation.passed
    comparison = _compare_variants(name, module, random_seed) if name in COMPARED else None
    about = describe_example(module.EXAMPLE.dataset)
    words: dict[str, Any] = {"about": (f"Data: {about['title']}.", f"Source: {about['source']}.")}
    words["title"] = f"{name.replace('_', ' ').capitalize()}: {module.EXAMPLE.dataset.replace('_', ' ')}"
    target = report(post, output / f"{name}.html", validation=validation, comparison=comparison, **words)
    found = post.method, post.log_evidence, post.certificate
    return Outcome(name, module.EXAMPLE.dataset, *found, agreement, passed, target.name)


def _validate(post: Posterior, module: ModuleType, data: xr.Dataset, random_seed: int) -> tuple[Validation, str]:
    """NUTS against the closed form, on a spelling of the model that NUTS can sample.

    It cannot propose in a Wishart's matrix: nearly every step of a free matrix is not symmetric positive definite. In
    Bartlett's decomposition the same prior has a real vector and positive numbers for parameters. Nor can it enter the
    narrow neck of effects whose sd goes to zero: of six seeds, three were judged wrong with up to two hundred
    divergences in the varying slopes as written, and none where they are written mu + tau z. In the levels of a series
    as written it mixes too slowly to judge anything (R-hat 1.05), and among the new values of a smooth process, whose
    covariance is all but singular, it takes minutes a hundred draws: it samples what remains of such models.
    """
    wishart = [rv for rv in post.model.free_RVs if type(rv.owner.op).__name__ == "WishartRV"]
    if wishart:
        sampled = bartlett(post.model, str(wishart[0].name))
        method, said = "NUTS on the Bartlett decomposition of the Wishart prior", ", Bartlett decomposition"
    elif "centred" in inspect.signature(module.build).parameters and module.EXAMPLE.options.get("centred", True):
        sampled = module.build(data, **{**module.EXAMPLE.options, "centred": False})
        method, said = "NUTS on the non-centred model", ", non-centred"
    elif post.method == "quadrature" and any(
        type(rv.owner.op).__name__ in ("RandomWalkRV", "MvNormalRV") for rv in post.model.free_RVs
    ):
        collapsed = infer(post.model, method="nuts", draws=DRAWS, random_seed=random_seed, progressbar=False)
        said = "NUTS on the collapsed model"
        return judge(post, collapsed.tree, random_seed=random_seed, method=said), ", collapsed"
    else:
        return validate(post.model, draws=DRAWS, random_seed=random_seed, progressbar=False, exact=post), ""
    draws = sample_nuts(sampled, draws=DRAWS, random_seed=random_seed)
    return judge(post, draws, random_seed=random_seed, method=method), said


def _compare_variants(name: str, module: ModuleType, random_seed: int) -> Comparison:
    """A model and its variants on the same data: polynomials of rising degree, or several covariances."""
    option, values = COMPARED[name]
    data = example_data(module.EXAMPLE, module.VARIABLES)
    models = {f"{option} {value}": module.build(data, **{**module.EXAMPLE.options, option: value}) for value in values}
    # Some covariances give a row one density, others a product over its features: their LOO is not of the same parts.
    return compare(models, loo=option != "covariance", random_seed=random_seed)


def _convergence(post: Posterior) -> tuple[str, bool]:
    """How NUTS on the collapsed model mixed, and whether well: what is recovered given its draws is exact."""
    found = post.diagnostics
    assert found is not None
    facts = f"R-hat {found.max_r_hat:.3f}, {found.divergences} divergences"
    return f"no closed form; NUTS on the collapsed model: {facts}", not found.problems


def _weights(post: Posterior) -> str:
    """How even the weights are that independent draws were made with."""
    facts = post.tree["posterior"].attrs
    share = f"{facts['effective_share']:.0%} of {facts['importance_points']:,} points effective"
    return f"no closed form; importance sampling: {share}, Pareto k {facts['pareto_k']:.2f}"


def _agreement(validation: Validation, sampled: str) -> str:
    largest = np.nanmax(np.abs(validation.table[["z_mean", "z_sd"]].to_numpy(dtype=float)))
    verdict = "pass" if validation.passed else "fail"
    return f"{verdict} (largest |z| {largest:.2f}, {validation.comparisons} tests{sampled})"


def _evidence(evidence: LogEvidence) -> str:
    """Its value; with the standard error where it is estimated, as that is seen in the digits shown."""
    if np.isnan(evidence.value):
        return "–"
    if evidence.label == "estimated":
        return f"{evidence.value:.3f} ± {evidence.error:.1g}"
    return f"{evidence.value:.6f}"


def _certificate(spread: float) -> str:
    """The spread in nats; of a latent Gaussian there is none, where nothing is integrated out in closed form."""
    return "–" if np.isnan(spread) else f"{spread:.1e}"


def _index(outcomes: list[Outcome], random_seed: int) -> str:
    rows = tuple(
        (Link(o.model, o.page), o.data, o.method, _evidence(o.log_evidence), o.certificate, o.agreement)
        for o in outcomes
    )
    lead = f"Every model of the catalogue on its real data; random seed {random_seed}."
    return page("The bayeskit catalogue", table_markup(Table(COLUMNS, rows, digits=10)), lead=lead)
