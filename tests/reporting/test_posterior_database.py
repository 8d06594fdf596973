"""References as files: what posteriordb's readers expect, and the numbers that SciPy gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode
from scipy import stats

import bayeskit as bk
from bayeskit.errors import OptionError
from bayeskit.reporting.model_source import script_of
from bayeskit.reporting.posterior_database import export_reference

PLAIN = Mode(linker="py", optimizer=None)  # compiled code would take longer to make than to run
NAMES = ("coin", "student_of_two_degrees", "precision_of_pairs", "shares_of_rows")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "new"
    for reference in bk.reference_posteriors(NAMES):
        export_reference(reference, folder)
    return folder


def read(path: Path) -> Any:
    if path.suffix == ".zip":
        with ZipFile(path) as archive:
            return json.loads(archive.read(path.stem))
    return json.loads(path.read_text())


def summary(folder: Path, name: str, statistic: str) -> dict[str, Any]:
    return read(folder / "reference_posteriors" / "summary_statistics" / statistic / statistic / f"{name}.json")


@pytest.mark.slow
def test_every_file_is_where_posteriordb_has_it(exported: Path) -> None:
    for name in NAMES:
        entry = read(exported / "posteriors" / f"{name}.json")
        assert {"name", "model_name", "data_name", "reference_posterior_name", "dimensions", "keywords"} <= set(entry)
        model = read(exported / "models" / "info" / f"{entry['model_name']}.info.json")
        assert (exported / model["model_implementations"]["pymc"]["model_code"]).exists()
        data = read(exported / "data" / "info" / f"{entry['data_name']}.info.json")
        assert read(exported / f"{data['data_file']}.zip")
        info = read(exported / "reference_posteriors" / "draws" / "info" / f"{name}.info.json")
        chains = read(exported / "reference_posteriors" / "draws" / "draws" / f"{name}.json.zip")
        assert [len(values) for chain in chains for values in chain.values()] == [2500] * 4 * len(chains[0])
        assert info["diagnostics"]["diagnostic_information"]["names"] == list(chains[0])
        assert info["inference"]["method"] == "analytical"
    assert not list(exported.rglob("*.part"))
    assert entry["dimensions"] == {"share": 6}


def test_numbers_of_a_beta_are_those_of_scipy(exported: Path) -> None:
    """Beta(2, 3) and seven of ten: Beta(9, 6), and a beta-binomial evidence."""
    exact = stats.beta(9, 6)
    assert summary(exported, "coin", "mean_value")["mean_value"] == pytest.approx([exact.mean()])
    assert summary(exported, "coin", "mean_squared_value")["mean_squared_value"] == pytest.approx([exact.moment(2)])
    assert summary(exported, "coin", "standard_deviation")["standard_deviation"] == pytest.approx([exact.std()])
    quantiles = summary(exported, "coin", "quantiles")
    assert np.ravel(quantiles["quantiles"]) == pytest.approx(exact.ppf(quantiles["probabilities"]))
    evidence = read(exported / "posteriors" / "coin.json")["log_evidence"]
    assert evidence["value"] == pytest.approx(stats.betabinom(10, 2, 3).logpmf(7), abs=1e-12)
    assert evidence["label"] == "exact"
    draws = read(exported / "reference_posteriors" / "draws" / "draws" / "coin.json.zip")
    assert stats.kstest(np.concatenate([chain["chance"] for chain in draws]), exact.cdf).pvalue > 1e-3
    assert read(exported / "data" / "data" / "coin.json.zip") == {"heads": 7}


def test_moments_that_do_not_exist_are_null_and_estimates_say_so(exported: Path) -> None:
    deviations = summary(exported, "student_of_two_degrees", "standard_deviation")
    assert dict(zip(deviations["names"], deviations["standard_deviation"], strict=True)) == {
        "variance": None,
        "mean": None,
    }
    matrix = summary(exported, "precision_of_pairs", "quantiles")
    assert matrix["names"] == ["precision[1,1]", "precision[1,2]", "precision[2,1]", "precision[2,2]"]
    assert set(matrix["label"]) == {"exact moments, estimated quantiles"}
    assert read(exported / "posteriors" / "precision_of_pairs.json")["dimensions"] == {"precision": 3}


def test_the_netcdf_file_is_the_posterior(exported: Path) -> None:
    (reference,) = bk.reference_posteriors(["shares_of_rows"])
    again = bk.load(exported / "netcdf" / "shares_of_rows.nc")
    assert float(again.log_evidence) == float(reference.posterior.log_evidence)
    assert again.tree["posterior"].equals(reference.posterior.tree["posterior"])
    np.testing.assert_array_equal(again.marginal("share").mean(), reference.posterior.marginal("share").mean())


def test_the_same_reference_gives_the_same_files(exported: Path, tmp_path: Path) -> None:
    export_reference(*bk.reference_posteriors(["coin"]), tmp_path)
    for path in (p for p in tmp_path.rglob("*coin*") if p.suffix != ".nc"):
        assert path.read_bytes() == (exported / path.relative_to(tmp_path)).read_bytes()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="cannot write"):
        export_reference(*bk.reference_posteriors(["coin"]), tmp_path / "file")
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]


@pytest.mark.parametrize("name", ["funnel_of_5", "eight_schools_centred", "precision_of_pairs"])
def test_the_code_that_is_exported_builds_the_model(name: str) -> None:
    """With what it needs of its module: a function, an array, another function, the annotated name."""
    (reference,) = bk.reference_posteriors([name])
    names: dict[str, Any] = {}
    exec(compile(script_of(reference.build), name, "exec"), names)
    one, other = names["model"], reference.build()
    assert isinstance(one, pm.Model)
    point = one.initial_point(random_seed=1)
    assert one.compile_logp(mode=PLAIN)(point) == other.compile_logp(mode=PLAIN)(point)
    assert "references_of" not in script_of(reference.build)
