"""The plugin of pytest as another package meets it: from an installed wheel, in a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import ZipFile

import pytest

import bayeskit as bk
from bayeskit.cli import pytest_plugin

ROOT = Path(__file__).resolve().parents[2]
SAMPLER = """
from scipy import stats

def sample(model, seed):
    return {"chance": stats.beta(9, 6).rvs(size=(4, 1000), random_state=seed)}
"""
TESTS = """
import bayeskit
from bayeskit.validation import assert_matches_exact

print("installed wheel:", bayeskit.__file__)

def test_right(reference_posterior, bayeskit_sampler):
    assert_matches_exact(reference_posterior, bayeskit_sampler(reference_posterior.build(), 1))

def test_wrong(reference_posterior, bayeskit_sampler):
    draws = bayeskit_sampler(reference_posterior.build(), 1)
    assert_matches_exact(reference_posterior, {"chance": 0.95 * draws["chance"]})

def test_of_another_model(reference_posterior):
    assert_matches_exact(reference_posterior, {"another": [[0.5] * 100]})
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of somebody else's with a sampler and its tests, and bayeskit's wheel installed beside it."""
    folder = tmp_path_factory.mktemp("package")
    source = folder / "source"
    for name in ("bayeskit", "models"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    code = "from setuptools import build_meta; build_meta.build_wheel('..')"  # an environment of uv's has no pip
    subprocess.run([sys.executable, "-c", code], cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    (folder / "my_sampler.py").write_text(SAMPLER)
    (folder / "test_my_sampler.py").write_text(TESTS)
    return folder


@pytest.mark.slow
def test_a_right_sampler_passes_and_a_wrong_one_fails(package: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": "installed", "PYTENSOR_FLAGS": "cxx=", "PYTEST_ADDOPTS": ""}
    options = ["--assert=plain", "--bayeskit-sampler=my_sampler:sample", "--bayeskit-references=coin", "-rA"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:zarr", *options, "-s"]
    done = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "PASSED test_my_sampler.py::test_right[coin]" in done.stdout
    assert "FAILED test_my_sampler.py::test_wrong[coin] - AssertionError" in done.stdout
    assert "FAILED chance: mean" in done.stdout
    assert "def assert_matches_exact" not in done.stdout
    assert "DataError: no draws of chance: the draws hold another" in done.stdout
    assert "def as_arrays" not in done.stdout
    assert f"installed wheel: {package / 'installed'}" in done.stdout


def test_the_plugin_imports_nothing_heavy() -> None:
    code = "import sys, bayeskit.cli.pytest_plugin; print(*{'numpy', 'pymc', 'scipy', 'rich'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


@dataclass
class Config:
    """What the plugin asks of pytest's configuration."""

    options: dict[str, str]
    stash: pytest.Stash = field(default_factory=pytest.Stash)

    def getoption(self, name: str) -> str | None:
        return self.options.get(name)


def configured(**options: str) -> Config:
    config = Config({f"--bayeskit-{name}": text for name, text in options.items()})
    pytest_plugin.pytest_configure(config)  # type: ignore[arg-type]
    return config


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sampler": "my_sampler"}, "no sampler 'my_sampler'"),
        ({"sampler": "nowhere:sample"}, "No module named 'nowhere'"),
        ({"sampler": "math:pi"}, "is no function of (model, seed)"),
        ({"references": "coins"}, "there is no 'coins'; there are coin"),
        ({"sampler": ""}, "no sampler ''"),  # of a variable of the shell that is not set: no test would run
        ({"references": ""}, "names none"),
        ({"references": " , "}, "names none"),
    ],
)
def test_an_option_that_is_wrong_is_one_line(options: dict[str, str], words: str) -> None:
    with pytest.raises(pytest.UsageError, match=re.escape(words)) as error:
        configured(**options)
    assert len(str(error.value).splitlines()) == 1


def test_references_are_chosen_by_name_and_group() -> None:
    chosen = configured(references="heavy tails, coin").stash[pytest_plugin.REFERENCES]
    assert {r.group for r in chosen[1:]} == {"heavy tails"} and chosen[0].name == "coin"
    assert configured(references="all").stash[pytest_plugin.REFERENCES] == bk.reference_posteriors()
    assert pytest_plugin.REFERENCES not in configured().stash
    assert pytest_plugin._references(None) == tuple(r for r in bk.reference_posteriors() if r.group != "discrete")
