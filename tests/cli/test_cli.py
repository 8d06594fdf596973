"""The command line: what a person gets for good input, and the one line for bad input."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, special, stats

from bayeskit import cli, errors

BINOMIAL = "successes,trials\n1,10\n4,12\n0,9\n"
LINE = "y,x\n1.0,0.0\n2.1,1.0\n2.9,2.0\n4.2,3.0\n"
RAISES = "import pymc as pm\n\n\ndef build(data):\n    rate = 1 / 0\n    return rate\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


Run = Callable[..., tuple[int, str, str]]


def infer(name: str, *more: str) -> tuple[str, ...]:
    return ("infer", name, "--data", "table.csv", "--report", "out/page.html", *more)


def compare(*more: str) -> tuple[str, ...]:
    return ("compare", "beta_binomial", "beta_binomial:alpha=2", "--data", "table.csv", *more)


# (arguments, the table, words that the message must have: what is wrong, and where)
BAD_INPUT = {
    "missing file": (infer("beta_binomial", "--data", "nowhere.csv"), BINOMIAL, ["nowhere.csv"]),
    "not a table": (infer("beta_binomial"), b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00", ["table.csv"]),
    "unknown format": (infer("beta_binomial", "--data", "table.docx"), BINOMIAL, ["table.docx", ".csv"]),
    "an empty file": (infer("beta_binomial"), "", ["table.csv"]),
    "a folder": (infer("beta_binomial", "--data", "."), BINOMIAL, ["."]),
    "missing column": (infer("beta_binomial"), "successes,n\n1,10\n", ["trials", "successes, n"]),
    "named column missing": (infer("beta_binomial", "--columns", "trials=n"), BINOMIAL, ["'n'"]),
    "one column for two": (infer("beta_binomial", "--columns", "trials=successes+trials"), BINOMIAL, ["trials"]),
    "unknown variable": (infer("beta_binomial", "--columns", "weight=trials"), BINOMIAL, ["weight"]),
    "malformed columns": (infer("beta_binomial", "--columns", "trials"), BINOMIAL, ["trials", "variable=column"]),
    "variable named twice": (infer("normal", "--columns", "y=x", "--columns", "y=y"), LINE, ["y", "twice"]),
    "ragged row": (infer("beta_binomial"), "successes,trials\n1,10\n2,12,7\n", ["table.csv", "3"]),
    "text": (infer("linear_regression"), LINE.replace("2.9", "tall"), ["'y'", "row 3", "'tall'"]),
    "not a number": (infer("linear_regression"), LINE.replace("2.0", ""), ["'x'", "row 3"]),
    "infinity": (infer("linear_regression"), LINE.replace("2.0", "inf"), ["'x'", "row 3", "infinite"]),
    "negative count": (infer("beta_binomial"), BINOMIAL.replace("4,12", "-4,12"), ["successes", "row 2", "negative"]),
    "fraction of a count": (infer("beta_binomial"), BINOMIAL.replace("4,12", "4.5,12"), ["successes", "row 2", "4.5"]),
    "successes above trials": (infer("beta_binomial"), BINOMIAL.replace("4,12", "13,12"), ["row 2", "13", "12"]),
    "no rows": (infer("beta_binomial"), "successes,trials\n", ["row"]),
    "unknown model": (infer("beta_binomal"), BINOMIAL, ["beta_binomal", "beta_binomial"]),
    "unknown option": (infer("beta_binomial", "--set", "gamma=1"), BINOMIAL, ["gamma", "alpha"]),
    "option out of range": (infer("beta_binomial", "--set", "alpha=-1"), BINOMIAL, ["alpha", "above 0"]),
    "option of another type": (infer("beta_binomial", "--set", "alpha=few"), BINOMIAL, ["alpha", "few"]),
    "option not of the choices": (infer("linear_regression", "--set", "basis=cubic"), LINE, ["basis", "polynomial"]),
    "option without a value": (infer("beta_binomial", "--set", "alpha"), BINOMIAL, ["alpha", "name=value"]),
    "option in the specification": (infer("beta_binomial:alpha=0"), BINOMIAL, ["alpha", "above 0"]),
    "columns without data": (("infer", "normal", "--columns", "y=x"), LINE, ["--data"]),
    "model file missing": (infer("missing.py"), LINE, ["missing.py"]),
    "model file raises": (infer("raises.py"), LINE, ["raises.py, line 5", "ZeroDivisionError"]),
    "model file is not Python": (infer("table.py"), LINE, ["table.py, line 1", "SyntaxError"]),
    "model file stops": (infer("stops.py"), LINE, ["stops.py, line 1", "SystemExit"]),
    "model file without a model": (infer("empty.py"), LINE, ["empty.py", "build(data)", "model"]),
    "model file with another thing": (infer("number.py"), LINE, ["number.py", "float"]),
    "data for a finished model": (infer("finished.py"), LINE, ["finished.py", "--data"]),
    "option of a finished model": (("infer", "finished.py", "--set", "a=1"), LINE, ["finished.py", "'a'"]),
    "no example": (("infer", "raises.py"), LINE, ["raises.py", "--data"]),
    "output in a file": (infer("beta_binomial", "--report", "table.csv/page.html"), BINOMIAL, ["table.csv"]),
    "output is a folder": (infer("beta_binomial", "--report", "."), BINOMIAL, ["folder"]),
    "output is a device": (infer("beta_binomial", "--report", "/dev/full"), BINOMIAL, ["/dev/full", "no regular file"]),
    "output over the data": (infer("beta_binomial", "--report", "table.csv"), BINOMIAL, ["report table.csv", "read"]),
    "output over the model": (infer("raises.py", "--report", "raises.py"), LINE, ["report raises.py", "read"]),
    "text that build reads": (infer("reads.py"), LINE.replace("2.9", "tall"), ["'y'", "row 3", "'tall'"]),
    "column by another name": (infer("reads.py"), LINE.replace("y", "why"), ["'y'", "--columns y=COLUMN"]),
    "output folder of report": (("report", "normal", "--output", "table.csv/page.html"), LINE, ["table.csv"]),
    "output folder of demo": (("demo", "--output", "table.csv"), LINE, ["table.csv"]),
    "draws": (infer("beta_binomial", "--draws", "0"), BINOMIAL, ["--draws", "'0'"]),
    "seed": (infer("beta_binomial", "--seed", "-1"), BINOMIAL, ["--seed", "'-1'"]),
    "method": (infer("beta_binomial", "--method", "guess"), BINOMIAL, ["--method", "guess"]),
    "compared with itself": (("compare", "normal", "normal"), LINE, ["normal", "itself"]),
    "prior odds": (("compare", "normal", "linear_regression", "--prior-odds", "1:2:3"), LINE, ["1:2:3", "2 numbers"]),
    "prior odds of zero": (("compare", "normal", "linear_regression", "--prior-odds", "1:0"), LINE, ["1:0", "above"]),
    "curve of no parameter": (compare("--robustness", "0.1:1:5"), BINOMIAL, ["0.1:1:5", "PARAMETER=FROM:TO:N"]),
    "curve of one value": (compare("--robustness", "p.alpha=1:2:1"), BINOMIAL, ["p.alpha=1:2:1", "N from 2"]),
    "curve that goes down": (compare("--robustness", "p.alpha=2:1:5"), BINOMIAL, ["p.alpha=2:1:5", "FROM below TO"]),
    "curve of another parameter": (compare("--robustness", "p.nu=1:2:5"), BINOMIAL, ["'p.nu'", "alpha"]),
    "picture of another kind": (compare("--plot", "a.gif"), BINOMIAL, ["a.gif", ".png, .svg, .pdf"]),
    "picture in a file": (compare("--plot", "table.csv/a.png"), BINOMIAL, ["picture table.csv"]),
    "page over the data": (compare("--report", "table.csv"), BINOMIAL, ["report table.csv", "read"]),
    "models of other data": (("compare", "normal", "beta_binomial"), LINE, ["same"]),
    "unknown command": (("guess",), LINE, ["guess", "infer"]),
    "no command": ((), LINE, ["--help"]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "table", "words"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_one_line_and_leaves_nothing(
    run: Run, folder: Path, arguments: tuple[str, ...], table: str | bytes, words: list[str]
) -> None:
    files = {
        "table.csv": table,
        "table.docx": table,
        "table.py": "no python here",
        "raises.py": RAISES,
        "reads.py": "def build(data):\n    return data['y']\n",
        "stops.py": "raise SystemExit(3)\n",
        "empty.py": "x = 1\n",
        "number.py": "def build():\n    return 1.5\n" if "--data" not in arguments else "model = 1.5\n",
        "finished.py": "import pymc as pm\nwith pm.Model() as model:\n    pm.Normal('y', observed=[1.0])\n",
    }
    if "number.py" in arguments:
        arguments = ("infer", "number.py")
    for name, text in files.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("bayeskit: error: ")
    assert err.count("\n") == 1 and err.endswith("\n")
    assert "Traceback" not in err
    for word in words:
        assert word in err
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*")} == set(files)


@pytest.mark.slow
def test_bad_input_of_the_program_itself(folder: Path) -> None:
    """A table that is missing is said before the model is run, which would import PyMC for seconds."""
    (folder / "raises.py").write_text(RAISES)
    command = [sys.executable, "-m", "bayeskit.cli", "infer", "raises.py", "--data", "none.csv"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("bayeskit: error: there is no file none.csv")


def test_help_needs_no_pymc() -> None:
    code = (
        "import sys; from bayeskit import cli\n"
        "try:\n    cli.main(['--help'])\n"
        "except SystemExit as stop:\n    assert not stop.code\n"
        "assert not {'pymc', 'numpy', 'rich'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "infer" in done.stdout


def test_models_lists_the_catalogue(run: Run) -> None:
    from bayeskit.models import MODELS

    code, out, err = run("models", "--json")
    assert (code, err) == (0, "")
    records = json.loads(out)["models"]
    assert tuple(record["name"] for record in records) == MODELS
    options = {o["name"]: o for o in records[MODELS.index("beta_binomial")]["options"]}
    assert options["alpha"]["default"] == 1.0
    assert "above 0" in options["alpha"]["allowed"]
    assert all(o["doc"] for record in records for o in record["options"])
    code, out, err = run("models")
    assert (code, err) == (0, "")
    for record in records:
        assert record["name"] in out
        assert record["description"] in out
    code, out, _ = run("models", "normal")
    assert code == 0
    assert "linear_regression" not in out
    _, out, _ = run("models", "structural_time_series")
    rows = {line.split()[0]: line for line in out.splitlines() if line.startswith(("x ", "y "))}
    assert "real, optional" in rows["x"] and "optional" not in rows["y"]


def log_beta_binomial(successes: list[int], trials: list[int], alpha: float, beta: float) -> float:
    """Evidence of a pooled Beta–Binomial model, from its textbook form."""
    y, n = np.array(successes), np.array(trials)
    log_choose = special.gammaln(n + 1) - special.gammaln(y + 1) - special.gammaln(n - y + 1)
    return float(log_choose.sum() + special.betaln(alpha + y.sum(), beta + (n - y).sum()) - special.betaln(alpha, beta))


def test_infer_on_a_table_gives_the_closed_form(run: Run, folder: Path) -> None:
    (folder / "table.csv").write_text("tumours,rats,note\n1,10,a\n4,12,b\n0,9,c\n")
    code, out, err = run(
        *("infer", "beta_binomial", "--data", "table.csv", "--columns", "successes=tumours,trials=rats"),
        *("--set", "alpha=2", "--draws", "400", "--seed", "1", "--json"),
    )
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record["options"] == {"alpha": 2.0}
    assert record["log_evidence"]["label"] == "exact"
    expected = log_beta_binomial([1, 4, 0], [10, 12, 9], 2.0, 1.0)
    assert math.isclose(record["log_evidence"]["value"], expected, rel_tol=1e-10)
    (row,) = record["summary"]
    assert row["variable"] == "theta"
    assert math.isclose(row["mean"], 7 / 34, rel_tol=1e-9)
    assert record["seed"] == 1
    assert record["report"] is None


def test_infer_prints_tables_and_the_same_seed_prints_the_same(run: Run, folder: Path) -> None:
    (folder / "table.csv").write_text(BINOMIAL)
    arguments = ("infer", "beta_binomial", "--data", "table.csv", "--draws", "400", "--seed", "3")
    code, first, err = run(*arguments)
    assert (code, err) == (0, "")
    for word in ("method: exact", "theta", "log evidence", "certificate", "400 draws, seed 3"):
        assert word in first
    _, second, _ = run(*arguments)
    assert first.rpartition(",")[0] == second.rpartition(",")[0]


@pytest.mark.parametrize(
    ("table", "options"),
    [
        ("y,x\n1.0,2.0\n", []),
        ("y,x\n1.0,2.0\n1.5,2.0\n2.0,2.0\n", []),
        ("y,a,b\n1.0,2.0,4.0\n1.5,3.0,6.0\n2.5,4.0,8.0\n", ["--columns", "y=y,x=a+b"]),
    ],
    ids=["a single row", "a constant column", "collinear columns"],
)
def test_thin_data_are_answered(run: Run, folder: Path, table: str, options: list[str]) -> None:
    (folder / "table.csv").write_text(table)
    code, out, err = run("infer", "linear_regression", "--data", "table.csv", "--draws", "40", "--json", *options)
    assert (code, err) == (0, "")
    assert json.loads(out)["log_evidence"]["label"] == "exact"


def test_a_report_is_written_where_asked(run: Run, folder: Path) -> None:
    (folder / "table.csv").write_text(BINOMIAL)
    code, out, err = run(*infer("beta_binomial", "--draws", "400", "--seed", "1"))
    assert (code, err) == (0, "")
    assert "out/page.html" in out
    assert sorted(path.name for path in folder.rglob("*.html")) == ["page.html"]
    assert "</html>" in (folder / "out" / "page.html").read_text()


@pytest.mark.slow
def test_a_report_of_an_example_goes_to_reports(run: Run, folder: Path) -> None:
    code, out, err = run("report", "normal", "--draws", "400", "--seed", "1")
    assert (code, out, err) == (0, "reports/normal.html\n", "")
    assert (folder / "reports" / "normal.html").exists()


ONE_SCALE = """import pymc as pm

with pm.Model() as model:
    pm.Normal("y", pm.Normal("mean"), pm.HalfNormal("sigma"), observed=[0.3, -0.2, 1.1])
"""


def test_every_method_of_the_ladder_can_be_forced(run: Run, folder: Path) -> None:
    (folder / "scale.py").write_text(ONE_SCALE)
    code, out, err = run("infer", "scale.py", "--method", "quadrature", "--draws", "40", "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record["method"] == record["plan"]["method"] == record["log_evidence"]["label"] == "quadrature"
    # ∫ N(y; 0, σ² I + 1 1') 2 N(σ; 0, 1) dσ over σ > 0, with SciPy.
    y = np.array([0.3, -0.2, 1.1])

    def density(sigma: float) -> float:
        covariance = sigma**2 * np.eye(3) + 1
        return float(2 * stats.norm.pdf(sigma) * stats.multivariate_normal.pdf(y, cov=covariance))

    expected, _ = integrate.quad(density, 0, 10, epsabs=0, epsrel=1e-10)
    assert math.isclose(record["log_evidence"]["value"], math.log(expected), abs_tol=1e-7)
    code, _, err = run("infer", "scale.py", "--method", "exact")
    assert code == 2 and "no exact answer" in err and "sigma" in err
    code, _, err = run("infer", "normal", "--method", "quadrature")
    assert code == 2 and "method='exact'" in err


def test_explain_names_the_family(run: Run) -> None:
    code, out, err = run("explain", "gamma_poisson", "--json")
    assert (code, err) == (0, "")
    plan = json.loads(out)["plan"]
    assert plan["method"] == "exact"
    assert plan["remaining"] == []
    assert run("explain", "gamma_poisson")[1].count("gamma") >= 1


@pytest.mark.slow
def test_compare_weighs_specifications(run: Run, folder: Path) -> None:
    (folder / "table.csv").write_text(BINOMIAL)
    flat, informed = "beta_binomial", "beta_binomial:alpha=2,beta=5"
    arguments = ("compare", flat, informed, "--data", "table.csv", "--prior-odds", "1:3", "--sequential")
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    rows = {row["model"]: row for row in record["comparison"]}
    data = ([1, 4, 0], [10, 12, 9])
    evidence = {flat: log_beta_binomial(*data, 1.0, 1.0), informed: log_beta_binomial(*data, 2.0, 5.0)}
    for name, value in evidence.items():
        assert math.isclose(rows[name]["log_evidence"], value, rel_tol=1e-10)
    odds = 3 * math.exp(evidence[informed] - evidence[flat])
    assert math.isclose(rows[informed]["posterior_probability"], odds / (1 + odds), rel_tol=1e-9)
    assert informed in run(*arguments[:-1])[1]
    last = record["sequential"][0]["table"][-1]
    assert last["model"] == informed
    assert math.isclose(last["posterior_probability"], odds / (1 + odds), rel_tol=1e-9)


@pytest.mark.slow
def test_compare_answers_what_is_asked_beside_its_table(run: Run, folder: Path) -> None:
    (folder / "table.csv").write_text(BINOMIAL)
    flat, informed = "beta_binomial", "beta_binomial:alpha=2,beta=5"
    asked = (
        "--robustness",
        "theta.alpha=1:4:3",
        "--sequential",
        "--estimators",
        "--seed",
        "1",
        "--plot",
        "new/all.svg",
    )
    code, out, err = run("compare", flat, informed, "--data", "table.csv", *asked, "--report", "all.html", "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    (curve,) = record["robustness"]
    assert curve["parameter"] == "theta.alpha" and set(curve["chosen"]) == {flat, informed}
    data = ([1, 4, 0], [10, 12, 9])
    for row in curve["table"]:  # both models have the parameter, and keep their own beta
        beta = 1.0 if row["model"] == flat else 5.0
        assert math.isclose(row["log_evidence"], log_beta_binomial(*data, row["value"], beta), rel_tol=1e-9)
    assert sorted({row["value"] for row in curve["table"]}) == pytest.approx([1.0, 2.0, 4.0])
    (arrived,) = record["sequential"]
    last = {row["model"]: row["log_evidence"] for row in arrived["table"] if row["observations"] == 3}
    evidences = {row["model"]: row["log_evidence"] for row in record["comparison"]}
    assert last == pytest.approx(evidences, rel=1e-9)
    assert [opinion["model"] for opinion in record["estimators"]] == [flat, informed]
    assert all(opinion["verdict"] == "agree" for opinion in record["estimators"])
    assert record["plot"] == "new/all.svg" and "<svg" in (folder / "new" / "all.svg").read_text()
    page = (folder / "all.html").read_text(encoding="utf-8")
    assert "Robustness to theta.alpha, 1 to 4" in page and "As the data arrived" in page
    assert f"Log evidence of {informed} by several estimators" in page


@pytest.mark.slow
def test_validate_judges_nuts_by_the_closed_form(run: Run) -> None:
    code, out, err = run("validate", "gamma_poisson", "--seed", "1", "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record["passed"] is True
    assert record["failures"] == []


def test_validate_exits_with_one_where_they_disagree(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    import bayeskit
    from bayeskit.validation import Validation

    failed = Validation(False, pd.DataFrame({"verdict": ["mean"]}, index=["theta"]), ("theta: mean",))
    monkeypatch.setattr(bayeskit, "validate", lambda *_, **__: failed)
    code, out, _ = run("validate", "gamma_poisson", "--json")
    assert code == 1
    assert json.loads(out)["failures"] == ["theta: mean"]


def test_demo_runs_the_catalogue_into_a_folder(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bayeskit.cli import demo

    calls = []
    monkeypatch.setattr(demo, "run", lambda output, **options: calls.append((output, options)) or 1)
    assert run("demo", "--output", "pages", "--seed", "5") == (1, "", "")
    assert run("demo") == (1, "", "")
    assert calls == [
        (Path("pages"), {"random_seed": 5, "progressbar": False}),
        (Path("reports"), {"progressbar": False}),
    ]


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (errors.DataError("column 'y',\n row 3: no"), 2, "bayeskit: error: column 'y', row 3: no\n"),
        (errors.UnanswerableError("y[0] is -1"), 2, "bayeskit: error: y[0] is -1\n"),
        (errors.InferenceError("the certificate failed"), 1, "bayeskit: error: the certificate failed\n"),
        (KeyboardInterrupt(), 130, "bayeskit: interrupted\n"),
    ],
)
def test_exit_codes(run: Run, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int, line: str) -> None:
    def fail(_: object) -> int:
        raise raised

    monkeypatch.setitem(cli.COMMANDS, "models", fail)
    assert run("models") == (code, "", line)


def test_an_interrupt_is_one_line_and_leaves_nothing(run: Run, folder: Path) -> None:
    """Of a file that catches it, where the command is running it; every command runs in the same way."""
    catches = "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt:\n    pass\n"
    (folder / "mine.py").write_text(catches)
    for command in ("models mine.py", "explain mine.py", "infer mine.py --report out/page.html", "report mine.py"):
        assert run(*command.split()) == (130, "", "bayeskit: interrupted\n")
    assert [path.name for path in folder.iterdir()] == ["mine.py"]


@pytest.mark.slow
def test_numbers_that_overflow_are_one_line(run: Run, folder: Path) -> None:
    (folder / "table.csv").write_text("y\n1e308\n1e308\n-1e308\n1\n")
    code, out, err = run(*infer("normal"))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("bayeskit: error: ") and "y[0] is 1e+308" in err
    assert [path.name for path in folder.iterdir()] == ["table.csv"]


@pytest.mark.slow
def test_an_output_that_is_full_is_one_line() -> None:
    command = [sys.executable, "-m", "bayeskit.cli", "models", "normal"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("bayeskit: error: ") and done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


@pytest.mark.slow
def test_a_reader_that_stops_early_is_no_error() -> None:
    command = [sys.executable, "-m", "bayeskit.cli", "models"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", 0)


MODEL_FILES = {
    "build with variables": (
        "import pymc as pm\n"
        "from bayeskit.datasets import Variable\n"
        "VARIABLES = {'y': Variable(kind='count')}\n"
        "def build(data, *, rate: float = 1.0):\n"
        "    with pm.Model() as model:\n"
        "        theta = pm.Gamma('theta', 2.0, rate)\n"
        "        pm.Poisson('y', theta, observed=data['y'].to_numpy())\n"
        "    return model\n"
    ),
    "build without variables": (
        "import pymc as pm\n"
        "def build(data, *, rate: float = 1.0):\n"
        "    with pm.Model() as model:\n"
        "        theta = pm.Gamma('theta', 2.0, rate)\n"
        "        pm.Poisson('y', theta, observed=data['y'].to_numpy())\n"
        "    return model\n"
    ),
    "build without data": (
        "import pymc as pm\n"
        "from beside import COUNTS\n"
        "def build(*, rate: float = 1.0):\n"
        "    with pm.Model() as model:\n"
        "        theta = pm.Gamma('theta', 2.0, rate)\n"
        "        pm.Poisson('y', theta, observed=COUNTS)\n"
        "    return model\n"
    ),
    "a function": (
        "import pymc as pm\n"
        "def model():\n"
        "    with pm.Model() as built:\n"
        "        theta = pm.Gamma('theta', 2.0, 3.0)\n"
        "        pm.Poisson('y', theta, observed=[3, 1, 4])\n"
        "    return built\n"
    ),
    "a model": (
        "import pymc as pm\n"
        "with pm.Model() as model:\n"
        "    theta = pm.Gamma('theta', 2.0, 3.0)\n"
        "    pm.Poisson('y', theta, observed=[3, 1, 4])\n"
    ),
}


@pytest.mark.parametrize(("kind", "source"), MODEL_FILES.items(), ids=MODEL_FILES)
def test_a_model_may_be_a_file(run: Run, folder: Path, kind: str, source: str) -> None:
    (folder / "mine.py").write_text(source)
    (folder / "beside.py").write_text("COUNTS = [3, 1, 4]\n")
    (folder / "table.csv").write_text("y\n3\n1\n4\n")
    more = ["--set", "rate=3"] if kind.startswith("build") else []
    more += ["--data", "table.csv"] if kind in ("build with variables", "build without variables") else []
    code, out, err = run("infer", "mine.py", "--draws", "40", "--json", *more)
    assert (code, err) == (0, "")
    # theta | y ~ Gamma(2 + 8, 3 + 3)
    (row,) = json.loads(out)["summary"]
    assert math.isclose(row["mean"], 10 / 6, rel_tol=1e-9)


def test_infinite_and_missing_numbers_are_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    from bayeskit.cli.rendering import print_json

    print_json({"a": np.float64("nan"), "b": (math.inf, np.int64(3)), "c": np.array([1.0, math.nan]), "d": Path("x/y")})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 3], "c": [1.0, None], "d": "x/y"}


def test_a_table_in_a_pipe_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    from bayeskit.cli.rendering import print_table

    print_table(["name", "value"], [["[a] " + "long " * 60, 1.23456789], ["b", None]], right=["value"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("[a] long") and lines[1].endswith("1.23457")


POSITIONAL = '''"""Counts with one rate.

More on it.
"""
import pymc as pm
def build(data, rate: float = 1.0, shape=2.0, prior=None):
    """Build it.

    Parameters
    ----------
    rate
        Of the prior.
    """
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("theta", shape, rate), observed=data["y"].to_numpy().astype(int))
    return model
'''


def test_a_column_that_is_not_used_is_in_nobodys_way(run: Run, folder: Path) -> None:
    (folder / "mine.py").write_text(POSITIONAL)
    (folder / "table.csv").write_text("y,note,day,gap\n3,a,2020-01-01,1\n1,b,2020-01-02,\n4,c,2020-01-03,inf\n")
    code, out, err = run("infer", "mine.py", "--data", "table.csv", "--draws", "40", "--set", "rate=3", "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record["options"] == {"rate": 3.0}
    assert math.isclose(record["summary"][0]["mean"], 10 / 6, rel_tol=1e-9)


def test_a_model_file_is_listed_as_the_catalogue_is(run: Run, folder: Path) -> None:
    (folder / "mine.py").write_text(POSITIONAL)
    code, out, err = run("models", "mine.py", "--json")
    assert (code, err) == (0, "")
    (record,) = json.loads(out)["models"]
    assert (record["name"], record["description"]) == ("mine.py", "Counts with one rate.")
    assert (record["variables"], record["example"]) == ([], None)
    assert [(o["name"], o["default"], o["doc"]) for o in record["options"]] == [
        ("rate", 1, "Of the prior."),
        ("shape", 2, ""),
    ]
    code, out, err = run("models", "mine.py")
    assert (code, err) == (0, "")
    assert "mine.py: Counts with one rate." in out and "a finite number" in out
    (folder / "plain.py").write_text(ONE_SCALE)
    assert run("models", "plain.py")[0] == 0


def test_a_model_file_is_named_once(run: Run, folder: Path) -> None:
    (folder / "plain.py").write_text(ONE_SCALE)
    for path in ("plain.py", "./plain.py"):
        code, out, err = run("explain", path)
        assert (code, err) == (0, "")
        assert out.splitlines()[0] == path
