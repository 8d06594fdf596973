"""Reference posteriors as files, for people outside PyMC: netCDF, and the JSON of posteriordb.

In a folder, for each reference: ``netcdf/NAME.nc`` as :meth:`Posterior.save` writes it, and, as the data base of
posteriordb has them, ``posteriors/NAME.json``, data, the model's code, independent draws and summary statistics. What
posteriordb has no place for stands beside: the log evidence with its error and its label, and quantiles. Numbers that
are not finite, moments that do not exist, are null. Every file is whole; ``posteriors/NAME.json``, by which readers
find a posterior, comes last.

Source: Magnusson, Torgander, Bürkner, Zhang, Carpenter, Vehtari (2025), "posteriordb: testing, benchmarking and
developing Bayesian inference algorithms", AISTATS.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np
import pandas as pd

from bayeskit.reporting.files import replacing
from bayeskit.reporting.model_source import script_of
from bayeskit.results.records import Posterior
from bayeskit.results.tree import stacked_draws
from bayeskit.validation.references.reference_posterior import PROBABILITIES, ReferencePosterior

__all__ = ["REFERENCE", "export_reference"]

REFERENCE = "the reference posterior"
ADDED = "2026-11-23"  # when the references were added to bayeskit: the same reference gives the same files
METHODS = {"exact": "analytical", "quadrature": "quadrature"}
SUMMARIES = "reference_posteriors/summary_statistics"


def export_reference(reference: ReferencePosterior, folder: Path) -> None:
    """Write the files of one reference; see the module for their places."""
    posterior, name, table = reference.posterior, reference.name, reference.summary()
    posterior.save(folder / "netcdf" / f"{name}.nc")
    added = {"added_by": f"bayeskit {import_module('bayeskit').__version__}", "added_date": ADDED}
    _write(folder / "models" / "pymc" / f"{name}.py", script_of(reference.build).encode())
    code = {"pymc": {"model_code": f"models/pymc/{name}.py"}}
    about = {"name": name, "keywords": [reference.group], "title": reference.about, "description": reference.about}
    _write_json(folder / "models" / "info" / f"{name}.info.json", {**about, "model_implementations": code, **added})
    data_file = {"data_file": f"data/data/{name}.json"}
    _write_json(folder / "data" / "info" / f"{name}.info.json", {**about, **data_file, **added})
    _write_zip(folder / "data" / "data" / f"{name}.json.zip", _data(posterior))
    draws = _draws(posterior)
    info = {"name": name, "inference": _inference(posterior), "diagnostics": _diagnostics(draws), **added}
    info |= {"checks_made": {"ndraws_is_10k": True, "nchains_is_gte_4": len(draws) >= 4}}
    info |= {"comments": "independent draws from the posterior; moments and quantiles are not computed from them"}
    _write_zip(folder / "reference_posteriors" / "draws" / "draws" / f"{name}.json.zip", draws)
    _write_json(folder / "reference_posteriors" / "draws" / "info" / f"{name}.info.json", info)
    for statistic, values in _statistics(table, list(draws[0])).items():
        _write_json(folder / SUMMARIES / statistic / statistic / f"{name}.json", values)
        _write_json(folder / SUMMARIES / statistic / "info" / f"{name}.info.json", info)
    evidence = posterior.log_evidence
    entry: dict[str, Any] = {"name": name, "model_name": name, "data_name": name, "reference_posterior_name": name}
    entry |= {"keywords": [reference.group], "dimensions": _dimensions(reference), **added}
    entry |= {"log_evidence": {"value": evidence.value, "error": evidence.error, "label": evidence.label}}
    _write_json(folder / "posteriors" / f"{name}.json", entry)


def _data(posterior: Posterior) -> dict[str, Any]:
    """What was observed, and what the model holds as ``pm.Data``; arrays by their rows."""
    groups = [posterior.tree[g] for g in ("observed_data", "constant_data") if g in posterior.tree.children]
    return {str(name): values.to_numpy().tolist() for group in groups for name, values in group.data_vars.items()}


def _draws(posterior: Posterior) -> list[dict[str, list[float]]]:
    """A mapping a chain, of the draws of each scalar by its name in Stan, ``theta[1]``."""
    whole = posterior.tree["posterior"].to_dataset()
    chains = [whole.isel(chain=[k]) for k in range(whole.sizes["chain"])]
    names = [str(rv.name) for rv in posterior.model.free_RVs]
    return [
        {
            label: values.reshape(len(values), -1)[:, k].tolist()
            for name, values in stacked_draws(chain, names).items()
            for k, label in enumerate(_names_in_stan(name, values.shape[1:]))
        }
        for chain in chains
    ]


def _names_in_stan(name: str, shape: tuple[int, ...]) -> list[str]:
    """Of each scalar, counted from one, in C order."""
    return [f"{name}[{','.join(str(i + 1) for i in index)}]" if shape else name for index in np.ndindex(shape)]


def _inference(posterior: Posterior) -> dict[str, Any]:
    return {"method": METHODS[posterior.method], "method_arguments": {"seed": posterior.random_seed}}


def _diagnostics(draws: list[dict[str, list[float]]]) -> dict[str, Any]:
    number = sum(len(next(iter(chain.values()))) for chain in draws)
    return {"diagnostic_information": {"names": list(draws[0])}, "ndraws": number, "nchains": len(draws)}


def _statistics(table: pd.DataFrame, names: list[str]) -> dict[str, dict[str, Any]]:
    """posteriordb's mean and mean square, sd and quantiles; without Monte Carlo error but where the label says so."""
    mean, sd = table["mean"].to_numpy(), table["sd"].to_numpy()
    columns = {"mean_value": mean, "mean_squared_value": mean**2 + sd**2, "standard_deviation": sd}
    found = {
        statistic: {"names": names, statistic: values.tolist(), "label": table["label"].tolist()}
        for statistic, values in columns.items()
    }
    for statistic, mcse in (("mean_value", "mcse_mean"), ("mean_squared_value", "mcse_mean_squared")):
        found[statistic][mcse] = [0.0] * len(names)
    quantiles = [table[f"q{100 * p:g}"].tolist() for p in PROBABILITIES]
    found["quantiles"] = {"names": names, "probabilities": list(PROBABILITIES), "quantiles": quantiles}
    found["quantiles"]["label"] = table["label"].tolist()
    return found


def _dimensions(reference: ReferencePosterior) -> dict[str, int]:
    """The real numbers that PyMC moves for each variable; of another writing, for all of them."""
    names = [str(rv.name) for rv in reference.posterior.model.free_RVs]
    model = reference.build()
    start = model.initial_point(random_seed=0)
    sizes = {str(rv.name): int(np.size(start[model.rvs_to_values[rv].name])) for rv in model.free_RVs}
    return sizes if reference.solved is None else dict.fromkeys(names, sum(sizes.values()))


def _write_json(path: Path, record: Mapping[str, Any]) -> None:
    _write(path, (_text(record, indent=2) + "\n").encode())


def _write_zip(path: Path, record: Any) -> None:
    content = io.BytesIO()
    with ZipFile(content, "w") as archive:  # of no date: the same numbers give the same bytes
        archive.writestr(ZipInfo(path.stem), _text(record), ZIP_DEFLATED)
    _write(path, content.getvalue())


def _write(path: Path, content: bytes) -> None:
    with replacing(path, REFERENCE) as temporary:
        temporary.write_bytes(content)


def _text(record: Any, indent: int | None = None) -> str:
    return json.dumps(_finite(record), ensure_ascii=False, allow_nan=False, indent=indent)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
