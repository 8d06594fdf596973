"""``bayeskit compare``: the table, and what is asked beside it: curves over priors and over data, other estimators."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayeskit.cli.rendering import frame_records, print_json
from bayeskit.cli.sources import about_model, columns_of, heading_of, require_free, source_of
from bayeskit.cli.specification import build_models
from bayeskit.errors import OptionError
from bayeskit.terminal import is_terminal

if TYPE_CHECKING:
    from bayeskit.comparison.comparison import Comparison

__all__ = ["compare_models"]

PICTURE = "the picture"
FORMATS = ("png", "svg", "pdf")
DPI = 150
MOST_VALUES = 1000  # of a curve


@dataclass(frozen=True)
class PriorCurve:
    """A number of a prior, and the values that it is to have."""

    parameter: str
    low: float
    high: float
    number: int

    def values(self) -> Any:
        """Evenly spaced: by their logarithms where all are above zero."""
        import numpy as np

        return (np.geomspace if self.low > 0 else np.linspace)(self.low, self.high, self.number)


def compare_models(arguments: argparse.Namespace) -> None:
    """Compare models, write what is to be written, and print the rest."""
    import bayeskit as bk
    from bayeskit.reporting.files import REPORT

    repeated = [text for text in arguments.model if arguments.model.count(text) > 1]
    if repeated:
        raise OptionError(f"model {repeated[0]!r} is compared with itself; name each model once")
    prior_odds = _prior_odds(arguments.prior_odds, arguments.model)
    curves = [_curve(text) for text in arguments.robustness]
    read = (arguments.data, *arguments.model)
    if arguments.plot and arguments.plot.suffix.lower().removeprefix(".") not in FORMATS:
        raise OptionError(f"--plot {arguments.plot} must end in .{', .'.join(FORMATS)}")
    require_free(arguments.plot, PICTURE, read)
    require_free(arguments.report, REPORT, read)
    columns = columns_of(arguments.columns)
    built = build_models(arguments.model, data=arguments.data, columns=columns, settings=arguments.set)
    comparison = bk.compare({b.name: b.model for b in built}, prior_odds=prior_odds, random_seed=arguments.seed)
    asked = _asked(comparison, curves, arguments)
    if arguments.plot:
        _write_picture(comparison, arguments.plot)
    if arguments.report:
        about = [line for b in built for line in about_model(b)]
        titles = {_title(kind, model, result): result for kind, model, result in asked}
        bk.report(comparison, arguments.report, results=titles, about=about)
    if arguments.json:
        facts = {"comparison": frame_records(comparison.table, index="model"), "priors": comparison.priors}
        written = {"plot": arguments.plot, "report": arguments.report}
        records = {kind: [_record(model, result) for k, model, result in asked if k == kind] for kind, *_ in asked}
        print_json({"models": [source_of(b) for b in built], **facts, "notes": comparison.notes, **records, **written})
        return
    print(*map(heading_of, built), "", comparison, sep="\n")
    for kind, model, result in asked:
        print(f"\n{kind}{model and f' of {model}'}:\n{result}")
    for what, path in (("picture", arguments.plot), ("report", arguments.report)):
        if path:
            print(f"\n{what}: {path.as_posix()}")


def _asked(
    comparison: Comparison, curves: Sequence[PriorCurve], arguments: argparse.Namespace
) -> list[tuple[str, str, Any]]:
    """What is asked beside the table: the option that asked for it, the model where it is of one, and the answer."""
    import bayeskit as bk

    posteriors = dict(comparison.posteriors)
    options = {"random_seed": arguments.seed, "progressbar": is_terminal() and not arguments.json}
    found: list[tuple[str, str, Any]] = []
    for curve in curves:
        values = curve.values()
        found.append(("robustness", "", bk.robustness(posteriors, curve.parameter, values, random_seed=arguments.seed)))
    if arguments.sequential:
        found.append(("sequential", "", bk.sequential(comparison, **options)))
    if arguments.estimators:
        found += [("estimators", name, bk.evidence(posterior, **options)) for name, posterior in posteriors.items()]
    return found


def _title(kind: str, model: str, result: Any) -> str:
    if kind == "robustness":
        return "Robustness to {}, {:g} to {:g}".format(result.parameter, *result.table["value"].agg(["min", "max"]))
    return f"Log evidence of {model} by several estimators" if model else "As the data arrived"


def _record(model: str, result: Any) -> dict[str, Any]:
    """The model that a result is of, where it is of one, its table row by row, and what else it says."""
    index = result.table.index.name
    rows = frame_records(result.table, index=index) if index else result.table.to_dict("records")
    facts = {name: getattr(result, name) for name in ("parameter", "chosen", "verdict") if hasattr(result, name)}
    return {**({"model": model} if model else {}), **facts, "table": rows, "notes": result.notes}


def _write_picture(comparison: Comparison, path: Path) -> None:
    """The picture whole, or the file that was there."""
    import matplotlib.pyplot as plt

    from bayeskit.reporting.files import replacing

    drawn = comparison.plot(backend="matplotlib")
    with replacing(path, PICTURE) as temporary:
        drawn.savefig(temporary, format=path.suffix.lower().removeprefix("."), dpi=DPI)
    plt.close(drawn.viz["figure"].item())


def _curve(text: str) -> PriorCurve:
    """``slope.sigma=0.1:10:50`` as the parameter, the ends and the number of values."""
    parameter, sign, rest = text.rpartition("=")
    parts = rest.split(":")
    example = "write for example slope.sigma=0.1:10:50"
    try:
        low, high, number = float(parts[0]), float(parts[1]), int(parts[2])
        if len(parts) > 3 or not (sign and parameter):
            raise ValueError
    except (IndexError, ValueError):
        raise OptionError(f"--robustness {text!r} is no PARAMETER=FROM:TO:N; {example}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high and 2 <= number <= MOST_VALUES):
        limits = f"FROM below TO, and N from 2 to {MOST_VALUES:,}"
        raise OptionError(f"--robustness {text!r} needs {limits}; {example}")
    return PriorCurve(parameter, low, high, number)


def _prior_odds(text: str | None, models: Sequence[str]) -> dict[str, float] | None:
    if text is None:
        return None
    try:
        odds = [float(part) for part in text.split(":")]
    except ValueError:
        raise OptionError(f"--prior-odds {text!r} are not numbers; write for example 1:1:2") from None
    if len(odds) != len(models) or not all(0 < value < math.inf for value in odds):
        raise OptionError(f"--prior-odds {text!r} must be {len(models)} numbers above zero, one a model, such as 1:2")
    return dict(zip(models, odds, strict=True))
