"""Trials of samplers: how often the right one is called wrong, and the scoreboard of all that come with PyMC.

Run as ``python benchmarks/bench_trial.py``: 100 trials of independent draws of the closed forms, over every reference.
A quarter of an hour; with ``--out FILE`` what is done is kept there, and a run that was cut off goes on. ``--groups``
takes some of the references, with commas. ``--scoreboard PAGE`` writes the page of samplers instead, an hour or two in
one process, fewer with ``--processes N``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from zlib import crc32

import numpy as np
from bars import Row, show

import bayeskit as bk
from bayeskit.jobs.checkpoint import add_line, appending, finished
from bayeskit.results.tree import stacked_draws
from bayeskit.validation.trials.outcomes import SamplerOutcome, judged_draws
from bayeskit.validation.trials.scoreboard import trial_of

RUNS, LEVEL, SEED = 100, 0.01, 20_261_123
CHAINS, DRAWS = 4, 1000
LIMIT = 120.0  # seconds of processor time; NUTS needs 12 at most
ASKED = {"draws": DRAWS, "chains": CHAINS, "tune": 0, "random_seed": SEED}
SAMPLERS = ("exact", "nuts", "nutpie", "metropolis", "slice", "demetropolisz", "smc", "advi", "laplace")


def outcomes_on(reference: bk.ReferencePosterior) -> list[SamplerOutcome]:
    """Of every run; the draws of all of them are independent, and so of those that the reference has."""
    post = reference.posterior
    names = [str(rv.name) for rv in post.model.free_RVs]
    # A seed of its own: of one seed, two references of one family would have the same draws but for location and scale.
    seed = [SEED, crc32(reference.name.encode())]
    more = bk.infer(post.model, method=post.method, draws=RUNS * CHAINS * DRAWS, random_seed=seed, progressbar=False)
    held = more.tree["posterior"].to_dataset()
    draws = stacked_draws(held, names)
    found = []
    for run in range(RUNS):
        part = slice(run * CHAINS * DRAWS, (run + 1) * CHAINS * DRAWS)
        own = {name: values[part].reshape(CHAINS, DRAWS, *values.shape[1:]) for name, values in draws.items()}
        blank = SamplerOutcome(f"run {run}", reference.name, reference.group, "drawn")
        found.append(judged_draws(blank, reference, own, run))
    return found


def alarms(groups: list[str] | None, path: Path) -> list[Row]:
    """Trials of a hundred in which the right sampler was not right."""
    header = {"runs": RUNS, "seed": SEED}
    known = [SamplerOutcome.read(row) for row in finished(path, header)]
    references = bk.reference_posteriors(groups=groups)
    with appending(path, header) as file:
        for reference in references:
            if sum(outcome.reference == reference.name for outcome in known) < RUNS:
                known = [outcome for outcome in known if outcome.reference != reference.name]
                for outcome in outcomes_on(reference):
                    add_line(file, outcome.written())
                    known.append(outcome)
                print(reference.name, flush=True)
    chosen = {reference.name for reference in references}
    trials = [
        trial_of([o for o in known if o.sampler == f"run {run}" and o.reference in chosen], LEVEL, ASKED)
        for run in range(RUNS)
    ]
    wrong = [trial for trial in trials if not trial.passed]
    for trial in wrong:
        print(*trial.failures, sep="\n")
    z = np.array([trial.scores["z_sd_pooled"].iloc[0] for trial in trials])
    scalars = trials[0].scalars.shape[0]
    shown = {"references": f"{len(references)}", "scalars": f"{scalars}", "not right": f"{len(wrong)} of {RUNS}"}
    shown["z of all sds"] = f"{z.mean():+.2f} ± {z.std():.2f}"
    return [Row("exact independent draws", shown, "1 of 100", len(wrong) <= 1)]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--groups")
    asked.add_argument("--out", type=Path, default=Path("trials.jsonl"))
    asked.add_argument("--scoreboard", type=Path)
    asked.add_argument("--processes", type=int, default=1)
    given = asked.parse_args()
    groups = given.groups and given.groups.split(",")
    if given.scoreboard:
        options = {"checkpoint": given.out, "time_limit": LIMIT, "processes": given.processes, "random_seed": 1}
        trial = bk.trial(SAMPLERS, references=groups or None, **options)
        print(trial, trial.report(given.scoreboard), sep="\n")
        return
    show("False alarms of a trial", alarms(groups, given.out))


if __name__ == "__main__":
    main()
