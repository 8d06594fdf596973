"""Models beyond conjugacy against answers that owe nothing to the package: evidence, moments, and their stated errors.

Run as ``python benchmarks/bench_beyond_conjugacy.py``: every model once, some minutes. The answers are those of dense
quadrature or of a million points of importance sampling (:mod:`beyond_references`) over log densities written by hand.
The bars: an estimate is within four standard errors, a number of quadrature within its bound; means and sds within four
Monte Carlo errors, or where they come from quadrature within 1e-4 posterior sds, as near as its
marginals are held to.

``--seeds N`` infers those that are estimated N times and prints mean and variance of z = (estimate - reference) /
error, and the largest, for the evidence and over the means of all scalars. ``--only NAME ...`` takes these models.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Sequence
from functools import cache

import arviz as az
import numpy as np
from bars import Row, of_z, show
from beyond_groups import GROUPS
from beyond_references import Case, Reference, reference
from beyond_regressions import REGRESSIONS
from beyond_sequences import SEQUENCES
from beyond_survival import OTHERS

import bayeskit as bk

MODELS = {write.__name__: write for write in (*REGRESSIONS, *GROUPS, *SEQUENCES, *OTHERS)}
WITHIN = 4.0  # standard errors
CLOSE = 1e-4  # posterior sds
LONGEST = 5.0  # seconds of an answer that is asked for again


@cache
def known(name: str) -> tuple[Case, Reference]:
    case = MODELS[name]()
    return case, reference(case)


def inferred(name: str, seed: int) -> bk.Posterior:
    return bk.infer(known(name)[0].model, random_seed=seed, progressbar=False)


def off_evidence(post: bk.Posterior, truth: Reference) -> tuple[float, float]:
    """The difference of the log evidence in errors, and how many of them it may be."""
    found = post.log_evidence
    if found.label == "estimated":
        return (found.value - truth.log_evidence) / math.hypot(found.error, truth.error), WITHIN
    return (found.value - truth.log_evidence) / (found.error + truth.error), 1.0


def off_moments(post: bk.Posterior, truth: Reference) -> dict[str, float]:
    """Differences of means and sds in errors, by scalar; of the sd after the name and ``(sd)``."""
    table, known = post.summary(), {n: m for n, m in truth.moments.items() if not n.startswith("_")}
    names = {label.partition("[")[0] for label in known}
    of_sd = az.mcse(post.tree["posterior"].to_dataset()[sorted(names)], method="sd")
    found = {}
    for label, (mean, mean_error, sd, sd_error) in known.items():
        row, (name, _, place) = table.loc[label], label.partition("[")
        sampled = row["mcse_mean"] > 0
        entry = np.ravel(of_sd[name].to_numpy())[int(place.rstrip("]") or 0)]
        errors = (row["mcse_mean"], entry) if sampled else (CLOSE * sd / WITHIN,) * 2
        found[label] = (row["mean"] - mean) / math.hypot(errors[0], mean_error)
        found[f"{label} (sd)"] = (row["sd"] - sd) / math.hypot(errors[1], sd_error)
    return {label: z for label, z in found.items() if math.isfinite(z)}


def once(name: str, seed: int = 1) -> Row:
    """One answer to one model."""
    started = time.perf_counter()
    truth = known(name)[1]
    taken = time.perf_counter() - started
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        post = inferred(name, seed)
    off, most = off_evidence(post, truth)
    moments = off_moments(post, truth)
    worst = max(moments, key=lambda label: abs(moments[label]))
    values = {
        "by": post.method,
        "reference": f"{truth.log_evidence:.6f}",
        "its error": f"{truth.error:.0e}",
        "from": truth.how,
        "found": f"{post.log_evidence.value:.6f}",
        "error": f"{post.log_evidence.error:.0e}",
        "off, in errors": f"{off:+.2f}",
        "moments": f"{moments[worst]:+.1f} {worst}",
        "s": f"{post.seconds:.1f}",
        "reference s": f"{taken:.0f}",
        "warned": "; ".join(dict.fromkeys(str(w.message).partition("\n")[0][:80] for w in told)),
    }
    return Row(name, values, "evidence and moments", abs(off) <= most and abs(moments[worst]) <= WITHIN)


def over_seeds(name: str, seeds: int) -> list[Row]:
    """z-scores of the evidence, and of the means of all scalars together, where they are estimated."""
    truth, first = known(name)[1], inferred(name, 1)
    if first.log_evidence.label != "estimated" or first.seconds > LONGEST:
        return []
    evidence, moments, methods = [], [], set()
    for seed in range(1, seeds + 1):
        post = inferred(name, seed)
        methods.add(post.method)
        evidence.append(off_evidence(post, truth)[0])
        moments.append([z for label, z in off_moments(post, truth).items() if "(sd)" not in label])
    by = ", ".join(sorted(methods))
    rows = [of_z(f"{name}: evidence", np.array(evidence)), of_z(f"{name}: means", np.ravel(moments))]
    return [Row(row.name, {"by": by, **row.values}, row.bar, row.holds) for row in rows]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS), metavar="NAME")
    given = parser.parse_args(arguments)
    held = []
    for name in given.only:
        rows = over_seeds(name, given.seeds) if given.seeds else [once(name)]
        held += [show("Beyond conjugacy", rows)] if rows else []
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
