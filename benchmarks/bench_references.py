"""Is every reference posterior answered, exactly or by quadrature, with closed-form marginals of all that it judges?

The bar of each group: every log evidence with an error below 1e-6, every certificate below 1e-6, and quantiles of every
scalar that are not estimated, but for the entries of a Wishart matrix. With ``--to FOLDER`` all are exported there.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from bars import Row, show

LARGEST_ERROR = 1e-6


def run(folder: Path | None = None) -> list[Row]:
    import bayeskit as bk
    from bayeskit.reporting.posterior_database import export_reference

    rows, found = [], bk.reference_posteriors()
    for group in dict.fromkeys(reference.group for reference in found):
        members = [reference for reference in found if reference.group == group]
        started = time.process_time()
        answers = [reference.posterior for reference in members]
        labels = {label for reference in members for label in reference.summary()["label"]}
        seconds = time.process_time() - started
        exact = sum(answer.method == "exact" for answer in answers)
        error = max(max(answer.log_evidence.error, answer.certificate) for answer in answers)
        estimated = {label for label in labels if "estimated" in label and group != "constrained"}
        values = {"exact": f"{exact}", "quadrature": f"{len(members) - exact}", "error": f"{error:.0e}"}
        values |= {"scalars": f"{sum(len(reference.summary()) for reference in members)}", "s": f"{seconds:.1f}"}
        rows.append(Row(group, values, f"{LARGEST_ERROR:g}", error < LARGEST_ERROR and not estimated))
        for reference in members if folder else ():
            export_reference(reference, folder)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, metavar="FOLDER")
    show("Reference posteriors, all of them", run(parser.parse_args().to))


if __name__ == "__main__":
    main()
