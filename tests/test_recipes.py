"""The recipes of CONTRIBUTING.md, run to the letter on a copy of the library: what they add is answered everywhere.

Each block of the page that names a file in its first line is either a new file or a change of one, written as a diff.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

pytestmark = pytest.mark.slow("one process answers all")

ROOT = Path(__file__).resolve().parents[1]
Y = [0.3, -1.2, 0.8, 2.0, -0.1]
SCRIPT = """
import json, math, sys
import pymc as pm
import bayeskit as bk
from bayeskit.cli import main
from bayeskit.datasets import example_data
from bayeskit.models import load_model

def seen(model, name, **options):
    plan, posterior = bk.explain(model), bk.infer(model, random_seed=1, **options)
    bk.report(posterior, f"{name}.html")
    return {
        "plan": str(plan), "method": posterior.method, "value": float(posterior.log_evidence),
        "error": posterior.log_evidence.error, "label": posterior.log_evidence.label,
        "mean": {v: float(row["mean"]) for v, row in posterior.summary().iterrows()},
    }

with pm.Model() as root_of_precision:
    s = pm.HalfNormal("s", 2.0)
    pm.Normal("y", 0.0, 1 / s, observed=OBSERVED)
with pm.Model() as logistic:
    w = pm.Normal("w", 0.0, 1.0)
    pm.Bernoulli("y", logit_p=w * pm.math.stack([-1.0, 0.5, 2.0]), observed=[0, 1, 1])
recipe = load_model("event_rate")
events = recipe.build(example_data(recipe.EXAMPLE, recipe.VARIABLES))
answers = {
    "family": seen(root_of_precision, "family"),
    "model": seen(events, "model"),
}
from bayeskit.inference import methods
ladder, methods.METHODS = methods.METHODS, methods.METHODS[-1:]
answers["method"] = seen(logistic, "method")
methods.METHODS = ladder
from bayeskit.marginal_likelihood import estimators
answers["estimator"] = seen(logistic, "estimator", method="nuts", draws=2000, progressbar=False)
estimators.ESTIMATORS = estimators.ESTIMATORS[1:]
answers["without"] = seen(logistic, "without", method="nuts", draws=2000, progressbar=False)
commands = {
    "family": ["infer", "family.py", "--report", "family_command.html", "--json"],
    "method": ["infer", "method.py", "--method", "prior_sampling", "--report", "method_command.html", "--json"],
    "estimator": ["infer", "method.py", "--method", "nuts", "--report", "estimator_command.html", "--json"],
    "model": ["infer", "event_rate", "--report", "model_command.html", "--json"],
}
codes = {name: main([*command, "--seed", "1"]) for name, command in commands.items()}
print("ANSWERS " + json.dumps({"answers": answers, "codes": codes}))
"""


def blocks() -> list[tuple[str, str, str]]:
    """Kind (python or diff), file and text of each block that names a file."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    found = re.findall(r"^( *)```(python|diff)\n(.*?)^\1```", page, flags=re.M | re.S)
    named = []
    for _, kind, indented in found:
        first, _, text = textwrap.dedent(indented).partition("\n")
        if first.startswith("# "):
            named.append((kind, first.removeprefix("# "), text))
    return named


def apply(copy: Path, kind: str, name: str, text: str) -> None:
    path = copy / name.replace("models/", "bayeskit/models/") if name.startswith("models/") else copy / name
    if kind == "python":
        assert not path.exists(), f"{name} exists already"
        path.write_text(text)
        return
    lines = text.splitlines()
    before = "\n".join(line[1:] for line in lines if line[0] != "+")
    after = "\n".join(line[1:] for line in lines if line[0] != "-")
    source = path.read_text()
    assert source.count(before + "\n") == 1, f"in {name}, what the page changes is not there once: {before}"
    path.write_text(source.replace(before + "\n", after + "\n"))


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a copy of the library with all four recipes applied answers, in a process of its own."""
    folder = tmp_path_factory.mktemp("recipes")
    # With what is compiled already, which holds for the files that no recipe changes.
    shutil.copytree(ROOT / "bayeskit", folder / "bayeskit")
    shutil.copytree(ROOT / "models", folder / "bayeskit" / "models")
    for block in blocks():
        apply(folder, *block)
    data = {"family.py": f"s = pm.HalfNormal('s', 2.0)\n    pm.Normal('y', 0.0, 1 / s, observed={Y})"}
    data["method.py"] = (
        "w = pm.Normal('w', 0.0, 1.0)\n"
        "    pm.Bernoulli('y', logit_p=w * np.array([-1.0, 0.5, 2.0]), observed=[0, 1, 1])"
    )
    for name, body in data.items():
        (folder / name).write_text(f"import numpy as np\nimport pymc as pm\n\nwith pm.Model() as model:\n    {body}\n")
    (folder / "ask.py").write_text(SCRIPT.replace("OBSERVED", str(Y)))
    environment = {**os.environ, "PYTHONPATH": str(folder), "MPLBACKEND": "Agg", "PYTENSOR_FLAGS": "cxx="}
    done = subprocess.run([sys.executable, "ask.py"], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.rpartition("ANSWERS ")[2])
    result["pages"] = {path.stem: path.read_text().replace("\u2212", "-") for path in folder.glob("*.html")}
    result["printed"] = done.stdout
    return result


def test_each_recipe_has_a_new_file_and_a_change_of_one() -> None:
    kinds = [kind for kind, _, _ in blocks()]
    assert kinds.count("python") == 4
    assert kinds.count("diff") >= 4


def test_a_family_is_answered(answered: dict[str, Any]) -> None:
    answer = answered["answers"]["family"]
    density = lambda s: stats.halfnorm(scale=2.0).pdf(s) * np.prod(stats.norm(0, 1 / s).pdf(Y))  # noqa: E731
    evidence = integrate.quad(density, 0, 30, epsabs=1e-14)[0]
    mean = integrate.quad(lambda s: s * density(s), 0, 30, epsabs=1e-14)[0] / evidence
    assert answer["method"] == "exact"
    assert "s: nakagami" in answer["plan"]
    assert answer["value"] == pytest.approx(np.log(evidence), abs=1e-9)
    assert answer["mean"]["s"] == pytest.approx(mean, rel=1e-8)


def test_a_method_and_an_estimator_are_answered(answered: dict[str, Any]) -> None:
    def density(w: float) -> float:
        p = special.expit(w * np.array([-1.0, 0.5, 2.0]))
        return float(stats.norm.pdf(w) * (1 - p[0]) * p[1] * p[2])

    truth = np.log(integrate.quad(density, -12, 12, epsabs=1e-14)[0])
    method, estimator, without = (answered["answers"][name] for name in ("method", "estimator", "without"))
    assert method["method"] == "prior_sampling"
    assert "from the prior will be weighted" in method["plan"]
    for answer in (method, estimator):
        assert answer["label"] == "estimated"
        assert abs(answer["value"] - truth) < 4 * answer["error"] < 0.1  # wrong for one seed in 16,000
    assert estimator["value"] != without["value"]


def test_a_model_is_answered(answered: dict[str, Any]) -> None:
    assert answered["answers"]["model"]["method"] == "exact"


@pytest.mark.parametrize("name", ["family", "method", "estimator", "model"])
def test_the_command_line_and_the_report_know_it(answered: dict[str, Any], name: str) -> None:
    assert answered["codes"][name] == 0
    value = answered["answers"][name]["value"]
    assert re.search(rf"{re.escape(f'{value:.2f}'[:-1])}\d*", answered["pages"][name])
    assert f"{name}_command" in answered["pages"]


def test_the_report_names_the_method_and_the_family(answered: dict[str, Any]) -> None:
    assert "weighted by the likelihood and drawn anew" in answered["pages"]["method"]
    assert "nakagami" in answered["pages"]["family"].lower()
