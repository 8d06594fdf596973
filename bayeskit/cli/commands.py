"""The commands of the command line, one function each: arguments in, exit code out."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayeskit.cli.rendering import frame_records, posterior_record, print_frame, print_json, print_table
from bayeskit.cli.sources import about_model, columns_of, introduced, require_free, source_of
from bayeskit.cli.specification import BuiltModel, build_model, load_module, split_specification
from bayeskit.errors import OptionError
from bayeskit.terminal import is_terminal

if TYPE_CHECKING:
    from bayeskit.results.records import Posterior

__all__ = ["CHECK_FAILED", "COMMANDS", "DONE"]

DONE, CHECK_FAILED = 0, 1


def _models(arguments: argparse.Namespace) -> int:
    from bayeskit.catalogue.options import model_options, no_options
    from bayeskit.models import MODELS

    if arguments.model and (set_here := split_specification(arguments.model)[1]):
        raise OptionError(f"`bayeskit models` lists options and sets none; leave out {', '.join(set_here)}")
    records: list[dict[str, Any]] = []
    for name in (arguments.model,) if arguments.model else MODELS:
        module, _ = load_module(name)
        build, example = getattr(module, "build", None), getattr(module, "EXAMPLE", None)
        known = model_options(build).values() if callable(build) else ()
        records.append(
            {
                "name": name,
                "description": (module.__doc__ or "").strip().partition("\n")[0],
                "variables": [{"name": key, **asdict(v)} for key, v in getattr(module, "VARIABLES", {}).items()],
                "options": [{key: getattr(o, key) for key in ("name", "allowed", "default", "doc")} for o in known],
                "no_options": no_options(build) if callable(build) else {},
                "example": asdict(example) if example else None,
            }
        )
    if arguments.json:
        print_json({"models": records})
        return DONE
    for record in records:
        print(": ".join(filter(None, (record["name"], record["description"]))) + "\n")
        variables = [
            [v["name"], " × ".join(v["dims"]), v["kind"] + ", optional" * (not v["required"]), v["doc"]]
            for v in record["variables"]
        ]
        options = [[o["name"], str(o["default"]).lower(), o["allowed"], o["doc"]] for o in record["options"]]
        print_table(["data", "dims", "kind", "meaning"], variables)
        print()
        print_table(["option", "default", "allowed", "meaning"], options)
        for name, why in record["no_options"].items():
            print(f"\n{name} is no option: {why}")
        print(f"\nexample: {record['example']['dataset'] if record['example'] else 'none'}\n")
    return DONE


def _explain(arguments: argparse.Namespace) -> int:
    import bayeskit as bk

    built = _build(arguments, arguments.model)
    plan = bk.explain(built.model)
    if arguments.json:
        print_json({**source_of(built), "plan": asdict(plan)})
    else:
        print("\n".join(introduced(built)), end="\n\n")
        print(plan)
    return DONE


def _infer(arguments: argparse.Namespace) -> int:
    built, posterior, written = _answered(arguments, arguments.report)
    if arguments.json:
        return DONE
    print("\n".join(introduced(built)), end="\n\n")
    print(f"{posterior.plan}\n")
    print_frame(posterior.summary(), index="variable")
    print(f"\nlog evidence: {posterior.log_evidence}")
    if not math.isnan(posterior.certificate):
        print(f"certificate: {posterior.certificate:.1e} nats")
    if posterior.diagnostics is not None:
        print(posterior.diagnostics)
    print(f"{arguments.draws} draws, seed {posterior.random_seed}, {posterior.seconds:.2f} s")
    if written:
        print(f"report: {written}")
    return DONE


def _compare(arguments: argparse.Namespace) -> int:
    from bayeskit.cli.comparing import compare_models

    compare_models(arguments)
    return DONE


def _validate(arguments: argparse.Namespace) -> int:
    import bayeskit as bk

    built = _build(arguments, arguments.model)
    validation = bk.validate(built.model, random_seed=arguments.seed, **_sampling(arguments))
    if arguments.json:
        facts = ("passed", "failures", "certificate", "method", "comparisons", "alpha", "divergences", "seconds")
        table = frame_records(validation.table, index="variable")
        record = {fact: getattr(validation, fact) for fact in facts}
        print_json({**source_of(built), **record, "seed": validation.random_seed, "table": table})
    else:
        print("\n".join(introduced(built)), end="\n\n")
        print(validation)
    return DONE if validation.passed else CHECK_FAILED


def _trial(arguments: argparse.Namespace) -> int:
    import bayeskit as bk
    from bayeskit.reporting.files import REPORT

    require_free(arguments.out, REPORT, ())
    options = ("draws", "chains", "tune", "level", "time_limit", "processes", "checkpoint")
    found = bk.trial(
        arguments.sampler,
        references=arguments.references and arguments.references.split(","),
        random_seed=arguments.seed,
        progressbar=is_terminal() and not arguments.json,
        **{name: getattr(arguments, name) for name in options},
    )
    written = found.report(arguments.out) if arguments.out else None
    if arguments.json:
        print_json({**found.record(), "report": written})
    else:
        print(found)
        if written:
            print(f"report: {written.as_posix()}")
    return DONE if (found.scores["verdict"] == "right").all() else CHECK_FAILED


def _report(arguments: argparse.Namespace) -> int:
    path = arguments.output or Path("reports") / f"{Path(arguments.model.partition(':')[0]).stem}.html"
    _, _, written = _answered(arguments, path, validate=arguments.validate)
    if not arguments.json:
        print(written)
    return DONE


def _reference(arguments: argparse.Namespace) -> int:
    from bayeskit.cli.references import export_references, list_references

    (list_references if arguments.action == "list" else export_references)(arguments)
    return DONE


def _index(arguments: argparse.Namespace) -> int:
    import bayeskit as bk

    print(bk.report_index(arguments.folder, title=arguments.title))
    return DONE


def _demo(arguments: argparse.Namespace) -> int:
    from bayeskit.cli import demo

    seed = {} if arguments.seed is None else {"random_seed": arguments.seed}
    return demo.run(arguments.output, progressbar=is_terminal(), **seed)


def _build(arguments: argparse.Namespace, specification: str) -> BuiltModel:
    return build_model(
        specification, data=arguments.data, columns=columns_of(arguments.columns), settings=arguments.set
    )


def _answered(
    arguments: argparse.Namespace, path: Path | None, *, validate: bool = False
) -> tuple[BuiltModel, Posterior, Path | None]:
    """The posterior, printed if it is to be JSON, and its report, which must be possible before all else."""
    import bayeskit as bk

    if path is not None:
        from bayeskit.reporting.files import REPORT

        require_free(path, REPORT, (arguments.data, arguments.model))
    built, sampling = _build(arguments, arguments.model), _sampling(arguments)
    given = {name: getattr(arguments, name) for name in ("tune", "chains", "target_accept")}
    options = {name: value for name, value in given.items() if value is not None}
    post = bk.infer(built.model, method=arguments.method, random_seed=arguments.seed, sampler=options, **sampling)
    judged = bk.validate(built.model, random_seed=post.random_seed, **sampling) if validate else None
    written = bk.report(post, path, validation=judged, title=built.name, about=about_model(built)) if path else None
    if arguments.json:
        print_json({**source_of(built), **posterior_record(post), "report": written})
    return built, post, written


def _sampling(arguments: argparse.Namespace) -> dict[str, Any]:
    return {"draws": arguments.draws, "progressbar": is_terminal() and not arguments.json}


_ALL = (_models, _explain, _infer, _compare, _validate, _trial, _report, _index, _reference, _demo)
COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {command.__name__[1:]: command for command in _ALL}
