"""``Posterior.save`` and ``load``: a posterior as a netCDF file or a zarr store, which ArviZ opens as any other.

The groups of its tree are written as they are; evidence, plan and versions are attributes, for who reads them with
other tools. The group ``bayeskit`` holds what is read back: closed forms by their parameters, and what a comparison
and a report say of the model. The model itself is code, and is not in the file.
"""

from __future__ import annotations

import io
import os
import zlib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayeskit.arguments import checked
from bayeskit.comparison.evidence_table import priors_of
from bayeskit.comparison.leave_one_out import leave_one_out
from bayeskit.comparison.same_data import observed_values
from bayeskit.elimination.plan import analyse
from bayeskit.errors import DataError, ModelError, OptionError
from bayeskit.graphs.environment import lightly
from bayeskit.model.snapshot import Snapshot, WrittenModel, on_its_data, written_down
from bayeskit.reporting.evidence_sections import package_versions
from bayeskit.reporting.files import check_writable, replacing
from bayeskit.reporting.formulas import describe_variables
from bayeskit.reporting.graph import read_structure
from bayeskit.reporting.plain_data import packed, unpacked
from bayeskit.results.log_densities import log_densities
from bayeskit.results.records import Posterior
from bayeskit.terminal import let_alarms_through
from bayeskit.validation.predictive_checks.data_kinds import category_labels, distributions_of

__all__ = ["load", "save"]

FORMAT = 1
POSTERIOR = "the posterior"
ENGINES = {".nc": "h5netcdf", ".zarr": "zarr"}
LONGEST = 10_000  # characters of an attribute: HDF5 has room for 64 kB
KNOWN_BY = 4  # draws at which a model is known by its densities
HELD = ("plan", "log_evidence", "method", "certificate", "random_seed", "seconds", "account", "diagnostics")


@on_its_data
def save(post: Posterior, path: str | os.PathLike[str]) -> Path:
    """Write a posterior to a file; see :meth:`bayeskit.results.records.Posterior.save`."""
    target, engine = _place(path)
    if "posterior" not in post.tree.children:
        raise ModelError("there are no draws to save; infer with draws=4000")
    check_writable(target, POSTERIOR)  # before anything is computed
    groups = {name: node.to_dataset() for name, node in post.tree.children.items()}
    kinds = {name: {str(n): v.dtype.str for n, v in data.variables.items()} for name, data in groups.items()}
    record = {name: getattr(post, name) for name in HELD} | {"marginals": dict(post.marginals)}
    record |= {"model": WrittenModel(post.model.name, _answers(post)), "groups": kinds}
    record["checksums"] = {name: _checksum(data, kinds[name]) for name, data in groups.items()}
    groups["bayeskit"] = xr.Dataset({"record": ("byte", packed(record))}, attrs={"format": FORMAT})
    evidence, texts = post.log_evidence, {"plan": post.plan, "diagnostics": post.diagnostics, "seed": post.random_seed}
    attributes = {"log_evidence": evidence.value, "log_evidence_error": evidence.error, "label": evidence.label}
    attributes |= {"method": post.method, "certificate": post.certificate}
    attributes |= {name: str(text)[:LONGEST] for name, text in texts.items() if text is not None}
    attributes |= {f"{package}_version": version for package, version in package_versions(post).items()}
    _write(xr.DataTree.from_dict({"/": xr.Dataset(attrs=attributes), **groups}), target, engine)
    return target


def _write(tree: xr.DataTree, target: Path, engine: str) -> None:
    with replacing(target, POSTERIOR) as temporary:
        try:
            if engine == "zarr":
                _write_zarr(tree, temporary)
            else:
                content = io.BytesIO()  # not the file itself: a full disk would end HDF5 with all of Python
                tree.to_netcdf(content, engine="h5netcdf")
                temporary.write_bytes(content.getvalue())
        except (NotImplementedError, TypeError, ValueError) as error:
            raise OptionError(f"cannot write {POSTERIOR} {target}: {error}") from error


def _write_zarr(tree: xr.DataTree, folder: Path) -> None:
    """A store as its files, from memory: zarr's threads go on writing while what Ctrl-C left is taken away."""
    from zarr.storage import MemoryStore

    files: dict[str, Any] = {}
    tree.to_zarr(MemoryStore(files), zarr_format=2)  # the third has no texts
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.to_bytes())


@checked
def load(path: str | os.PathLike[str], *, model: pm.Model | None = None) -> Posterior:
    """Read a posterior that was saved. A file is read as data: nothing in it is run.

    Parameters
    ----------
    path : path-like
        What :meth:`Posterior.save <bayeskit.results.records.Posterior.save>` wrote.
    model : pymc.Model, optional
        The model, with the data that it was fitted to. Without it the summary, the draws, the evidence, the marginals,
        comparisons and most of a report are there; a query that needs it says so.

    Raises
    ------
    DataError, OptionError
        If there is no such file, it is damaged, of another kind or of a later version; if the model is another.
    """
    target, engine = _place(path)
    try:
        if not target.exists():
            raise DataError(f"there is no file {target}")
        with xr.open_datatree(target, engine=engine) as opened:
            groups = {str(name): node.to_dataset().load() for name, node in opened.children.items()}
            attributes = opened.attrs
        if groups["bayeskit"].attrs["format"] > FORMAT:
            version = attributes["bayeskit_version"]
            raise DataError(f"{target} was saved by a later bayeskit ({version}): upgrade this one")
        record = unpacked(groups["bayeskit"]["record"].to_numpy())
        for later in ("category_labels", "distributions_of"):  # which earlier versions did not write
            record["model"].answers.setdefault(later, {})
        kinds, checksums = record.pop("groups"), record.pop("checksums")
        groups = {name: _as_saved(groups[name], of) for name, of in kinds.items()}
        if changed := [name for name, data in groups.items() if _checksum(data, kinds[name]) != checksums[name]]:
            raise ValueError(f"{', '.join(changed)} is not as it was saved")
    except DataError:
        raise
    except Exception as error:  # whatever readers make of a file that is not theirs
        let_alarms_through(error)
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise DataError(f"{target} is damaged, or no posterior that bayeskit saved ({why})") from error
    tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs=attributes), **groups})
    post = Posterior(tree=tree, analysis=record["model"], **record)
    return post if model is None else _with_model(post, model)


def _place(path: str | os.PathLike[str]) -> tuple[Path, str]:
    target = Path(path)
    if (engine := ENGINES.get(target.suffix)) is None:
        raise OptionError(f"{target} must end in .nc, for a netCDF file, or in .zarr, for a zarr store")
    if find_spec(engine) is None:
        raise OptionError(f"{target} needs the package {engine}: pip install {engine}")
    return target, engine


def _as_saved(data: xr.Dataset, kinds: dict[str, str]) -> xr.Dataset:
    """The variables in their order, and dates in their units, which neither kind of file keeps."""
    data = xr.Dataset({n: data[n] for n in kinds if n in data.data_vars}, data.coords, data.attrs)
    return data.assign({n: data[n].astype(kind) for n, kind in kinds.items() if np.dtype(kind).kind in "Mm"})


def _checksum(data: xr.Dataset, kinds: dict[str, str]) -> int:
    """Of all numbers of a group; of not-a-number there are many, which a file does not tell apart."""
    result = 0
    for name in (n for n, kind in kinds.items() if np.dtype(kind).kind in "biuf"):
        result = zlib.crc32(np.ascontiguousarray(np.where(np.isnan(data[name]), np.nan, data[name])), result)
    return result


def _answers(post: Posterior) -> dict[str, Any]:
    """What a comparison and a report say of the model, by the names of the functions that say it."""
    variables = describe_variables(post.model)
    answers: dict[str, Any] = {"observed_values": observed_values(post), "_densities": _densities(post)}
    answers |= {"describe_variables": variables, "read_structure": read_structure(post.model, variables)}
    answers |= {"priors_of": priors_of(post), "leave_one_out": leave_one_out(post)}
    return answers | {"category_labels": category_labels(post.model), "distributions_of": distributions_of(post.model)}


@written_down
def _densities(post: Posterior) -> dict[str, np.ndarray]:
    """Of each variable, its log density at the first draws."""
    few = post.tree["posterior"].to_dataset().isel(chain=[0], draw=slice(KNOWN_BY))
    entries = [values for group in log_densities(post.model, few).values() for values in group.data_vars.items()]
    return {str(name): v.sum([d for d in v.dims if d != "draw"]).to_numpy() for name, v in entries}


def _with_model(post: Posterior, model: pm.Model) -> Posterior:
    """With its model again, which is known by its variables and their densities at the first draws."""
    known, names = _densities(post), [str(rv.name) for rv in model.basic_RVs]
    if {*names} != {*known}:
        raise DataError(f"the model has the variables {', '.join(names)}; the posterior is of {', '.join(known)}")
    with lightly():
        snapshot = Snapshot.of(model, borrow=False)
        whole = replace(post, model=model, analysis=replace(analyse(model), snapshot=snapshot), snapshot=snapshot)
    found = _densities(whole)
    if other := [n for n in names if not np.allclose(found[n], known[n], rtol=1e-6, atol=1e-6, equal_nan=True)]:
        have = "has" if len(other) == 1 else "have"
        raise DataError(
            f"the model is another than the posterior's: {', '.join(other)} {have} another density, or data"
        )
    before, now = observed_values(post), observed_values(whole)
    if other := [n for n in before if not np.array_equal(before[n][1], now[n][1], equal_nan=True)]:
        raise DataError(f"the values of {', '.join(other)} are others than the posterior's, or in another order")
    return whole
