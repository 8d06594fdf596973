"""The arguments of the command line; what they ask for is in :mod:`bayeskit.cli.commands`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn

from bayeskit import __version__
from bayeskit.errors import OptionError
from bayeskit.inference.methods import method_names
from bayeskit.sampling.named_samplers import sampler_names

__all__ = ["parser"]

EXAMPLES = """examples:
  bayeskit models
  bayeskit explain linear_regression
  bayeskit infer linear_regression --data trees.csv --columns y=strength,x=density --set degree=2 --report trees.html
  bayeskit compare linear_regression linear_regression:degree=2 --data trees.csv --columns y=strength,x=density
  bayeskit infer my_model.py --json

A MODEL is a name that `bayeskit models` lists, or a Python file that defines build(data, ...) or model; parameters
of build that have a default are its options, and `bayeskit models FILE` lists them. Options may follow a MODEL as
MODEL:option=value,option=value. Without --data, the model's own example is used."""


class _Parser(argparse.ArgumentParser):
    """argparse, with its errors said in the one line in which every error is said."""

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"{message}; see {self.prog} --help")


def parser() -> argparse.ArgumentParser:
    """The parser of ``bayeskit``; it raises :class:`OptionError` where argparse would print and exit."""
    whole = _Parser(
        prog="bayeskit",
        description="Exact posteriors and log evidence of PyMC models, wherever a closed form exists.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"bayeskit {__version__}")
    commands = whole.add_subparsers(metavar="COMMAND", required=True, dest="command")

    shared = _shared()

    def command(name: str, summary: str, *flags: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=summary, description=summary)
        for flag in flags:
            added.add_argument(flag, **shared[flag])
        return added

    table = ("--data", "--columns", "--set")
    answer = ("--draws", "--seed", "--method", "--tune", "--chains", "--target-accept", "--json")
    models = command("models", "list the catalogue: models, the data they need, their options", "--json")
    models.add_argument("model", nargs="?", metavar="MODEL", help="show this model only; a name, or a Python file")
    explained = "say what would be integrated out, in which order, and why not the rest"
    command("explain", explained, "model", *table, "--json")
    infer = command("infer", "the posterior and the log evidence", "model", *table, *answer)
    infer.add_argument("--report", type=Path, metavar="HTML", help="write a report to this file")
    compare = command("compare", "compare models of the same data by their evidence", *table, "--seed", "--json")
    compare.add_argument("model", nargs="+", **shared["model"])
    compare.add_argument("--prior-odds", metavar="A:B:...", help="prior odds of the models, in order, such as 1:1:2")
    _add_comparisons(compare)
    judged = "judge NUTS against the closed form; exit code 1 if they disagree"
    command("validate", judged, "model", *table, "--draws", "--seed", "--json")
    _add_trial(
        command("trial", "samplers against posteriors that are known; exit code 1 if one is not right", "--json")
    )
    report = command("report", "write one self-contained HTML page", "model", *table, *answer)
    report.add_argument("--validate", action="store_true", help="show NUTS beside the closed form")
    report.add_argument("--output", type=Path, metavar="HTML", help="the file (default: reports/MODEL.html)")
    _add_references(command("reference", "models whose posterior is known: list them, write them to files"))
    index = command("index", "write an index of the reports in a folder, with what to distrust in each")
    index.add_argument("folder", type=Path, metavar="FOLDER", help="where the reports are")
    index.add_argument("--title", default="Reports", help="default: Reports")
    demo = command("demo", "run the catalogue on its real data and write a page for each model", "--seed")
    demo.add_argument("--output", type=Path, default=Path("reports"), metavar="FOLDER", help="default: reports")
    return whole


def _add_trial(tried: argparse.ArgumentParser) -> None:
    """The arguments of a trial, whose draws are those of each chain."""
    known = f"{', '.join(sampler_names())}, or module:function, a function of (model, seed)"
    tried.add_argument("sampler", nargs="+", metavar="SAMPLER", help=known.replace("%", "%%"))
    named = "names or groups of reference posteriors, with commas; all by default"
    tried.add_argument("--references", metavar="NAME,...", help=named)
    for flag, default, what in (("draws", 1000, "of each chain"), ("chains", 4, "chains"), ("tune", 1000, "warm-up")):
        said = f"{what}; default: {default}"
        tried.add_argument(f"--{flag}", type=_positive_integer, default=default, metavar="N", help=said)
    tried.add_argument("--seed", type=_seed, metavar="N", help="the same seed gives the same draws")
    level = "probability that a right sampler is called wrong on any reference; default: 0.01"
    tried.add_argument("--level", type=float, default=0.01, metavar="P", help=level)
    limit = "seconds of processor time for a sampler on a reference; none by default"
    tried.add_argument("--time-limit", type=float, metavar="SECONDS", help=limit)
    tried.add_argument("--processes", type=_positive_integer, default=1, metavar="N", help="side by side; default: 1")
    tried.add_argument("--checkpoint", type=Path, metavar="FILE", help="write each result to it, and go on from it")
    tried.add_argument("--out", type=Path, metavar="HTML", help="write a page of all of this")


def _add_comparisons(compare: argparse.ArgumentParser) -> None:
    """What a comparison may be asked beside its table."""
    curve = "log Bayes factors over N values of a number of a prior, as slope.sigma=0.1:10:50; may be repeated"
    compare.add_argument("--robustness", action="append", default=[], metavar="PARAMETER=FROM:TO:N", help=curve)
    compare.add_argument("--sequential", action="store_true", help="log Bayes factors after each block of the data")
    estimators = "each log evidence by several estimators, and whether they agree"
    compare.add_argument("--estimators", action="store_true", help=estimators)
    compare.add_argument("--plot", type=Path, metavar="FILE", help="draw the comparison to a .png, .svg or .pdf file")
    compare.add_argument("--report", type=Path, metavar="HTML", help="write a page of all of this")


def _add_references(reference: argparse.ArgumentParser) -> None:
    """What may be done with reference posteriors."""
    actions = reference.add_subparsers(metavar="ACTION", required=True, dest="action")
    lists = "list them by name and group; their answers are not computed"
    exports = "write them as netCDF and in the JSON of posteriordb: data, exact summaries, evidence, independent draws"
    for name, summary in (("list", lists), ("export", exports)):
        action = actions.add_parser(name, help=summary, description=summary)
        action.add_argument("names", nargs="*", metavar="NAME", help="of these names; by default all")
        action.add_argument(
            "--group", action="append", default=[], help="of this group, such as funnels; may be repeated"
        )
    actions.choices["list"].add_argument("--json", action="store_true", help="print one JSON object")
    actions.choices["export"].add_argument(
        "--to", type=Path, required=True, metavar="FOLDER", help="is made if missing"
    )


def _shared() -> dict[str, dict[str, Any]]:
    """The arguments that several commands have."""
    columns = "columns of the model's variables, where names differ; several columns: x=first+second; models that are "
    columns += "compared take those of their own variables"
    option = "an option of the model; may be repeated"
    return {
        "model": {"metavar": "MODEL", "help": "a catalogue name or a Python file"},
        "--data": {"metavar": "FILE", "help": "CSV, Parquet or netCDF; by default, the model's example"},
        "--columns": {"action": "append", "default": [], "metavar": "VARIABLE=COLUMN,...", "help": columns},
        "--set": {"action": "append", "default": [], "metavar": "OPTION=VALUE", "help": option},
        "--draws": {
            "type": _positive_integer,
            "default": 4000,
            "metavar": "N",
            "help": "in all chains together; default: 4000",
        },
        "--seed": {"type": _seed, "metavar": "N", "help": "the same seed gives the same draws"},
        "--method": {"choices": method_names(), "default": "auto", "help": "default: auto"},
        "--tune": {"type": _positive_integer, "metavar": "N", "help": "warm-up steps of each chain of NUTS"},
        "--chains": {"type": _positive_integer, "metavar": "N", "help": "of NUTS, which share the draws; default: 4"},
        "--target-accept": {"type": float, "metavar": "P", "help": "share of proposals that NUTS accepts"},
        "--json": {"action": "store_true", "help": "print one JSON object"},
    }


def _positive_integer(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def _seed(text: str) -> int:
    if not (text.isdecimal() and int(text) < 2**32):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 4294967295")
    return int(text)
