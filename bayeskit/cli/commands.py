"""The commands of the command line, one function each: arguments in, exit code out."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayeskit.cli.rendering import frame_records, plan_record, posterior_record, print_frame, print_json, print_table
from bayeskit.cli.specification import BuiltModel, build_model
from bayeskit.errors import OptionError
from bayeskit.terminal import is_terminal

if TYPE_CHECKING:
    from bayeskit.results.records import Posterior

__all__ = ["CHECK_FAILED", "COMMANDS", "DONE"]

DONE, CHECK_FAILED = 0, 1


def _models(arguments: argparse.Namespace) -> int:
    from bayeskit.catalogue.options import model_options
    from bayeskit.models import MODELS, load_model

    names = (arguments.model,) if arguments.model else MODELS
    records = []
    for name in names:
        module = load_model(name)
        records.append(
            {
                "name": name,
                "description": (module.__doc__ or "").strip().splitlines()[0],
                "variables": [
                    {"name": key, "dims": v.dims, "kind": v.kind, "required": v.required, "doc": v.doc}
                    for key, v in module.VARIABLES.items()
                ],
                "options": [
                    {"name": o.name, "allowed": o.allowed, "default": o.default, "doc": o.doc}
                    for o in model_options(module.build).values()
                ],
                "example": {
                    "dataset": module.EXAMPLE.dataset,
                    "columns": module.EXAMPLE.columns,
                    "options": module.EXAMPLE.options,
                },
            }
        )
    if arguments.json:
        print_json({"models": records})
        return DONE
    for record in records:
        print(f"{record['name']}: {record['description']}\n")
        print_table(
            ["data", "dims", "kind", "meaning"],
            ([v["name"], " × ".join(v["dims"]), v["kind"], v["doc"]] for v in record["variables"]),
        )
        print()
        print_table(
            ["option", "default", "allowed", "meaning"],
            ([o["name"], str(o["default"]).lower(), o["allowed"], o["doc"]] for o in record["options"]),
        )
        print(f"\nexample: {record['example']['dataset']}\n")
    return DONE


def _explain(arguments: argparse.Namespace) -> int:
    import bayeskit as bk

    built = _build(arguments)
    plan = bk.explain(built.model)
    if arguments.json:
        print_json({**_source(built), "plan": plan_record(plan)})
    else:
        print(f"{_heading(built)}\n")
        print(plan)
    return DONE


def _infer(arguments: argparse.Namespace) -> int:
    import bayeskit as bk
    from bayeskit.reporting.html import check_writable

    if arguments.report:
        check_writable(arguments.report)
    built, posterior = _posterior(arguments)
    written = None
    if arguments.report:
        written = bk.report(posterior, arguments.report, title=built.name, about=[_heading(built)])
    if arguments.json:
        print_json({**_source(built), **posterior_record(posterior), "report": written})
        return DONE
    print(f"{_heading(built)}\n")
    print(f"{posterior.plan}\n")
    print_frame(posterior.summary(), index="variable")
    print(f"\nlog evidence: {posterior.log_evidence}")
    if not math.isnan(posterior.certificate):
        print(f"certificate: {posterior.certificate:.1e} nats")
    print(f"{arguments.draws} draws, seed {posterior.random_seed}, {posterior.seconds:.2f} s")
    if written:
        print(f"report: {written}")
    return DONE


def _compare(arguments: argparse.Namespace) -> int:
    import bayeskit as bk

    repeated = [text for text in arguments.model if arguments.model.count(text) > 1]
    if repeated:
        raise OptionError(f"model {repeated[0]!r} is compared with itself; name each model once")
    prior_odds = _prior_odds(arguments.prior_odds, arguments.model)
    columns = _columns(arguments)
    built = [
        build_model(text, data=arguments.data, columns=columns, settings=arguments.set) for text in arguments.model
    ]
    comparison = bk.compare({b.name: b.model for b in built}, prior_odds=prior_odds, random_seed=arguments.seed)
    if arguments.json:
        print_json(
            {
                "models": [_source(b) for b in built],
                "comparison": frame_records(comparison.table, index="model"),
                "priors": comparison.priors,
                "notes": comparison.notes,
            }
        )
    else:
        print(*map(_heading, built), "", comparison, sep="\n")
    return DONE


def _validate(arguments: argparse.Namespace) -> int:
    import bayeskit as bk

    built = _build(arguments)
    validation = bk.validate(
        built.model, draws=arguments.draws, random_seed=arguments.seed, progressbar=_progressbar(arguments)
    )
    if arguments.json:
        print_json(
            {
                **_source(built),
                "passed": validation.passed,
                "failures": validation.failures,
                "certificate": validation.certificate,
                "method": validation.method,
                "comparisons": validation.comparisons,
                "alpha": validation.alpha,
                "divergences": validation.divergences,
                "seed": validation.random_seed,
                "seconds": validation.seconds,
                "table": frame_records(validation.table, index="variable"),
            }
        )
    else:
        print(f"{_heading(built)}\n")
        print(validation)
    return DONE if validation.passed else CHECK_FAILED


def _report(arguments: argparse.Namespace) -> int:
    import bayeskit as bk
    from bayeskit.reporting.html import check_writable

    path = arguments.output or Path("reports") / f"{Path(arguments.model.partition(':')[0]).stem}.html"
    check_writable(path)
    built, posterior = _posterior(arguments)
    validation = None
    if arguments.validate:
        validation = bk.validate(
            built.model,
            draws=arguments.draws,
            random_seed=posterior.random_seed,
            progressbar=_progressbar(arguments),
        )
    written = bk.report(posterior, path, validation=validation, title=built.name, about=[_heading(built)])
    if arguments.json:
        print_json({**_source(built), **posterior_record(posterior), "report": written})
    else:
        print(written)
    return DONE


def _demo(arguments: argparse.Namespace) -> int:
    from bayeskit.cli import demo

    seed = {} if arguments.seed is None else {"random_seed": arguments.seed}
    return demo.run(arguments.output, progressbar=is_terminal(), **seed)


def _build(arguments: argparse.Namespace) -> BuiltModel:
    columns = _columns(arguments)
    return build_model(arguments.model, data=arguments.data, columns=columns, settings=arguments.set)


def _columns(arguments: argparse.Namespace) -> dict[str, str | tuple[str, ...]]:
    from bayeskit.datasets import parse_columns

    return parse_columns(",".join(arguments.columns)) if arguments.columns else {}


def _posterior(arguments: argparse.Namespace) -> tuple[BuiltModel, Posterior]:
    import bayeskit as bk

    built = _build(arguments)
    posterior = bk.infer(
        built.model,
        method=arguments.method,
        draws=arguments.draws,
        random_seed=arguments.seed,
        progressbar=_progressbar(arguments),
    )
    return built, posterior


def _progressbar(arguments: argparse.Namespace) -> bool:
    return is_terminal() and not arguments.json


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


def _source(built: BuiltModel) -> dict[str, Any]:
    return {"model": built.name, "data": built.data, "options": built.options}


def _heading(built: BuiltModel) -> str:
    options = ", ".join(f"{name}={value}" for name, value in built.options.items())
    return f"{built.name}: {built.data}{f' ({options})' if options else ''}"


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "models": _models,
    "explain": _explain,
    "infer": _infer,
    "compare": _compare,
    "validate": _validate,
    "report": _report,
    "demo": _demo,
}
