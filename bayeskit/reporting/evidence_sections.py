"""The log evidence with its certificate, a sampler beside the closed form, and what reproduces a page."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from importlib import import_module

from bayeskit.arguments import seed_of
from bayeskit.comparison.comparable_models import carried_shared
from bayeskit.comparison.comparison import Comparison
from bayeskit.reporting.given_draws import METHOD
from bayeskit.reporting.records import MAX_ROWS, Section, Table, frame_table
from bayeskit.reporting.subject import Subject, listed
from bayeskit.results.records import Posterior

__all__ = [
    "comparison_versions_section",
    "evidence_section",
    "package_versions",
    "validation_section",
    "versions_section",
]

GIVEN = "Given as posteriors, with seeds of their own, which the table of how each evidence was found has: {}."
PACKAGES = ("pymc", "pytensor", "arviz", "numpy", "scipy", "xarray")
ERRORS = {
    "exact": "It is exact; the error given is that of rounding.",
    "quadrature": "It comes from quadrature; the error given is a bound.",
    "estimated": "It is estimated; the error given is a Monte Carlo standard error.",
}


def evidence_section(subject: Subject) -> Section:
    """The number, its error, and the proof."""
    post = subject.post
    evidence, title = post.log_evidence, "Evidence and certificate"
    if math.isnan(evidence.value):
        return Section("evidence", title, (f"Log evidence: {evidence}.",))
    rows = ((evidence.value, evidence.error, evidence.label),)
    table = Table(("log evidence (nats)", "error", "label"), rows, digits=10)
    meaning = "The log evidence is the log probability of the data under the model, parameters integrated out."
    paragraphs = [f"{meaning} {ERRORS[evidence.label]}"]
    if evidence.convention:
        paragraphs.append(f"It is {evidence.convention}.")
    if post.plan.eliminated and not math.isnan(post.certificate):
        given = ", given what has no closed form" if post.plan.remaining else ""
        paragraphs.append(
            f"The certificate{given}: by Bayes' rule log p(y, θ) − log p(θ | y) is the same number, the log evidence, "
            "at every θ. Over posterior and prior draws, with PyMC's own log density, it varied by at most "
            f"{post.certificate:.1e} nats."
        )
    return Section("evidence", title, tuple(paragraphs), tables=(table,))


def validation_section(subject: Subject) -> Section | None:
    """A sampler against the closed form, where that was asked."""
    if (validation := subject.validation) is None:
        return None
    verdict = "agree" if validation.passed else "do NOT agree"
    facts = [f"{validation.comparisons} tests at family-wise level {validation.alpha:g}"]
    if validation.divergences is not None:
        facts.append(f"{validation.divergences} divergences")
    paragraphs = [f"Draws by {validation.method} {verdict} with the closed form ({'; '.join(facts)})."]
    paragraphs += [f"Failed: {failure}" for failure in validation.failures[:20]]
    table = validation.table
    if len(table) > MAX_ROWS:
        table = table.iloc[(table["verdict"] == "agrees").to_numpy().argsort(kind="stable")]
    caption = "z-scores of mean and standard deviation in Monte Carlo standard errors, and the ECDF test"
    tables = (frame_table(table, "variable", caption),)
    return Section("validation", "A sampler against the closed form", (*paragraphs, *validation.notes), tables=tables)


def versions_section(subject: Subject) -> Section:
    """The code, the seed, the time, and the versions of what the posterior was made with."""
    post = subject.post
    seed = "none was given" if post.random_seed is None else str(post.random_seed)
    draws = post.tree["posterior"].to_dataset()
    said = [f"Random seed: {seed}."]
    if post.method == METHOD:
        version = draws.attrs.get("inference_library_version", "")
        code = "bk.report(tree, path, model=model)"
        said = [
            f"The draws were given. Sampler: {draws.attrs.get('inference_library', 'not named')} {version}".rstrip()
        ]
    else:
        number = draws.sizes.get("chain", 1) * draws.sizes.get("draw", 1)
        code = f'bk.infer(model, method="{post.method}", draws={number}, random_seed={post.random_seed})'
    return _reproduction(said, code, post.seconds, post)


def comparison_versions_section(comparison: Comparison) -> Section:
    """The same of models that were compared: of all, and not of the best alone."""
    table, posteriors = comparison.table, comparison.posteriors
    seed, options = comparison.random_seed, []
    if table["prior_probability"].nunique() > 1:
        odds = table["prior_probability"] / table["prior_probability"].min()
        options.append(f"prior_odds={ {str(name): float(f'{value:.9g}') for name, value in odds.items()} }")
    if shared := carried_shared(posteriors):
        options.append(f"shared={shared}")
    if table["elpd_loo"].isna().all():
        options.append("loo=False")
    options.append(f"random_seed={seed}")
    given = [name for name, post in posteriors.items() if seed is None or post.random_seed != seed_of(seed, name)]
    said = [GIVEN.format(listed(given))] if given else []
    seconds = sum(post.seconds for post in posteriors.values())
    best = posteriors[str(table.index[0])]
    return _reproduction(said, f"bk.compare(models, {', '.join(options)})", seconds, best)


def _reproduction(said: Sequence[str], code: str, seconds: float, post: Posterior) -> Section:
    table = Table(("package", "version"), tuple(package_versions(post).items()))
    time = () if math.isnan(seconds) else (f"Time: {_time(seconds)}.",)
    return Section("versions", "To reproduce this", (*said, *time), code, (table,))


def _time(seconds: float) -> str:
    """Rounded so far that two runs are the same in all likelihood."""
    if seconds < 60:
        return "less than ten seconds" if seconds < 10 else "less than a minute"
    return f"about {math.ceil(seconds / 60)} minutes"


def package_versions(post: Posterior) -> dict[str, str]:
    """What the posterior was made with: of one from a file, what it says."""
    # Ours also from a checkout that is not installed.
    own = {"python": platform.python_version(), "bayeskit": str(import_module("bayeskit").__version__)}
    known = own | {package: str(import_module(package).__version__) for package in PACKAGES}
    return {package: post.tree.attrs.get(f"{package}_version", text) for package, text in known.items()}
