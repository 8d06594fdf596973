"""The repository itself: layers, packaging, what an import costs, and what must not be in a file."""

from __future__ import annotations

import ast
import fnmatch
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# Imports go up in this tuple, never down: a package imports only from itself and from those before it.
LAYERS = (
    "errors",
    "arguments",
    "types",
    "terminal",
    "graphs",
    "jobs",
    "row_sums",
    "families",
    "model",
    "results",
    "gaussian",
    "finite",
    "plates",
    "elimination",
    "chunks",
    "latent",
    "quadrature",
    "sampling",
    "marginal_likelihood",
    "point_estimates",
    "inference",
    "queries",
    "comparison",
    "validation",
    "datasets",
    "catalogue",
    "models",
    "reporting",
    "streams",
    "cli",
)
# These call the library as a user does, through its public names.
CALLERS = ("cli",)
# A model is the generative graph only.
MODELS_MAY_IMPORT = {"errors", "datasets", "catalogue", "models"}


@cache
def modules() -> dict[Path, str]:
    """Every module of the package, and the layer it belongs to."""
    package = ROOT / "bayeskit"
    layers = {path: path.relative_to(package).parts[0].removesuffix(".py") for path in sorted(package.rglob("*.py"))}
    layers = {path: layer for path, layer in layers.items() if layer != "__init__"}
    return layers | dict.fromkeys(sorted((ROOT / "models").rglob("*.py")), "models")


def imported_layers(path: Path, layer: str) -> Iterator[str]:
    """Layers that a module imports, wherever in its code; ``bayeskit`` for the package's public names."""
    known = set(modules().values())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            names = [f"bayeskit.{layer}"]
        elif isinstance(node, ast.ImportFrom):
            submodules = node.module == "bayeskit"
            names = [f"bayeskit.{alias.name}" for alias in node.names] if submodules else [str(node.module)]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "bayeskit":
                target = rest.partition(".")[0]
                yield target if target in known else "bayeskit"


@pytest.mark.parametrize(("path", "layer"), modules().items(), ids=lambda value: getattr(value, "stem", value))
def test_imports_go_one_way(path: Path, layer: str) -> None:
    assert layer in LAYERS, f"{path.relative_to(ROOT)} is in no layer: say in LAYERS where it belongs"
    for target in imported_layers(path, layer):
        if target == "bayeskit":
            assert layer in CALLERS, f"{path.relative_to(ROOT)} imports the public names: import the module it needs"
        else:
            assert LAYERS.index(target) <= LAYERS.index(layer), f"{path.relative_to(ROOT)} imports {target}"
            assert layer != "models" or target in MODELS_MAY_IMPORT, f"{path.relative_to(ROOT)} imports {target}"


def test_importing_the_package_and_its_command_line_imports_nothing_heavy() -> None:
    code = "import sys, bayeskit, bayeskit.cli; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "bayeskit" in loaded
    heavy = {"arviz", "matplotlib", "numba", "numpy", "pandas", "pymc", "pytensor", "rich", "scipy", "sympy", "xarray"}
    assert not heavy & set(loaded)


def test_every_package_is_listed_for_installation() -> None:
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "bayeskit").rglob("__init__.py")}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found | {"bayeskit.models"}


def test_every_file_of_a_package_that_is_not_code_is_installed() -> None:
    globs = PROJECT["tool"]["setuptools"]["package-data"]
    missing = []
    for path in (ROOT / "bayeskit").rglob("*"):
        if path.is_dir() or path.suffix == ".py" or "__pycache__" in path.parts:
            continue
        owner = next(parent for parent in path.parents if (parent / "__init__.py").exists())
        patterns = globs.get(".".join(owner.relative_to(ROOT).parts), [])
        if not any(fnmatch.fnmatch(path.relative_to(owner).as_posix(), pattern) for pattern in patterns):
            missing.append(path.relative_to(ROOT).as_posix())
    assert not missing


def test_the_installed_package_has_its_data_and_its_models() -> None:
    assert any(entry.name.endswith(".csv") for entry in (resources.files("bayeskit.datasets") / "tables").iterdir())
    models = {entry.name.removesuffix(".py") for entry in resources.files("bayeskit.models").iterdir()}
    from bayeskit.models import MODELS

    assert set(MODELS) == {name for name in models if not name.startswith("__")}


def test_constraints_are_exact_versions_of_everything_the_project_asks_for() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line) for line in lines)
    extras = PROJECT["project"]["optional-dependencies"].values()
    asked = [*PROJECT["project"]["dependencies"], *(name for extra in extras for name in extra)]
    pinned = {normalised(line.partition("==")[0]) for line in lines}
    assert {normalised(re.split(r"[^A-Za-z0-9._-]", name)[0]) for name in asked} <= pinned


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def written_files() -> list[Path]:
    """Files that people write, as opposed to what tools leave beside them."""
    folders = ("bayeskit", "models", "tests", "benchmarks", "docs", "notebooks", ".ci")
    inside = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    top = [path for path in ROOT.iterdir() if path.is_file()]
    kept = [ROOT / "reports" / name for name in ("README.md", "example.html", "samplers.html")]
    ignored = {"__pycache__", ".ipynb_checkpoints", ".git"}  # .git is a file in a second working tree
    return [path for path in [*top, *inside, *kept] if path.exists() and not ignored & set(path.parts)]


def test_no_file_holds_a_path_of_one_machine() -> None:
    absolute = re.compile(rb"(?<![\w.:/])/(root|work|home|Users|tmp)/\w")
    found = [path.relative_to(ROOT).as_posix() for path in written_files() if absolute.search(path.read_bytes())]
    assert not found


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="what is kept is known to git")
def test_no_link_is_kept() -> None:
    """One to an environment of this machine leads nowhere on another, and checks of what is in files pass it over."""
    kept = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line for line in kept.splitlines() if line.startswith("120000")] == []


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "Makefile", ".ci/run"])
def test_installation_asks_no_particular_server(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"\w+://|index-url|find-links|trusted-host", text)


def python_blocks(name: str) -> list[str]:
    text = (ROOT / name).read_text()
    return [textwrap.dedent(block) for _, block in re.findall(r"^( *)```python\n(.*?)^\1```", text, flags=re.M | re.S)]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_python_example_in_a_document_is_python(name: str) -> None:
    blocks = python_blocks(name)
    assert blocks
    for block in blocks:
        ast.parse(block, filename=name)


def test_the_model_that_the_guide_shows_can_be_built() -> None:
    import pymc as pm

    from bayeskit.catalogue.options import model_options
    from bayeskit.datasets import example_data

    (block,) = [text for text in python_blocks("CONTRIBUTING.md") if text.startswith("# models/")]
    module: dict[str, Any] = {}
    exec(compile(block, "CONTRIBUTING.md", "exec"), module)
    assert isinstance(module["build"](example_data(module["EXAMPLE"], module["VARIABLES"]), shape=2.0), pm.Model)
    assert all(option.doc for option in model_options(module["build"]).values())


def test_make_says_in_one_line_that_no_python_is_new_enough(tmp_path: Path) -> None:
    target = tmp_path / "venv"
    command = [
        "make",
        "--no-print-directory",
        "-C",
        str(ROOT),
        f"{target}/.installed",
        f"VENV={target}",
        "PYTHON=false",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert len(said) == 1
    assert said[0].startswith("bayeskit: error: no Python 3.12 or newer")
    assert not target.exists()


def test_the_licence_and_the_version_are_stated_once() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    from bayeskit import __version__

    assert re.search(rf"^## {re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
