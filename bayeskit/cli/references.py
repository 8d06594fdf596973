"""``bayeskit reference list | export``: the posteriors that are known, and their files for people outside PyMC."""

from __future__ import annotations

import argparse
from pathlib import Path

from bayeskit.cli.rendering import print_json, print_table
from bayeskit.terminal import is_terminal, watched

__all__ = ["export_references", "list_references"]


def list_references(arguments: argparse.Namespace) -> None:
    """Names, groups, and what each is about."""
    import bayeskit as bk

    found = bk.reference_posteriors(arguments.names or None, arguments.group or None)
    if arguments.json:
        print_json({"references": [{"name": r.name, "group": r.group, "about": r.about} for r in found]})
    else:
        print_table(["reference", "group", "about"], [(r.name, r.group, r.about) for r in found])


def export_references(arguments: argparse.Namespace) -> None:
    """Each as netCDF and in posteriordb's JSON; what is refused is refused before anything is computed."""
    import bayeskit as bk
    from bayeskit.reporting.files import check_writable
    from bayeskit.reporting.posterior_database import REFERENCE, export_reference

    found = bk.reference_posteriors(arguments.names or None, arguments.group or None)
    folder: Path = arguments.to
    for reference in found:
        check_writable(folder / "posteriors" / f"{reference.name}.json", REFERENCE)
    for reference in watched(found, "references", is_terminal()):
        export_reference(reference, folder)
    print(f"{len(found)} references: {folder.as_posix()}")
