"""The notebooks run as they stand, and what they show is what they would show today."""

from __future__ import annotations

import re
from pathlib import Path

import forked_kernel
import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# Rounding errors differ from machine to machine.
ROUNDING = re.compile(r"\d(\.\d+)?e-\d+")


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def stored_and_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[nbformat.NotebookNode, nbformat.NotebookNode]:
    """A notebook as stored, and executed anew in an empty folder."""
    folder = tmp_path_factory.mktemp("project") / "notebooks"
    folder.mkdir()
    stored = nbformat.read(request.param, as_version=4)
    fresh = nbformat.read(request.param, as_version=4)
    client = NotebookClient(fresh, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(Path(__file__).parent))  # of `warm_process`
        patched.setattr("jupyter_client.provisioning.local_provisioner.launch_kernel", forked_kernel.launch)
        client.execute()
    return stored, fresh


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


def test_outputs_are_stored_and_still_right(
    stored_and_run: tuple[nbformat.NotebookNode, nbformat.NotebookNode],
) -> None:
    stored, fresh = stored_and_run
    for before, after in zip(stored.cells, fresh.cells, strict=True):
        if before.cell_type == "code" and "varies" not in before.metadata.get("tags", []):
            assert text_of(before) == text_of(after), before.source


def test_outputs_are_quiet(stored_and_run: tuple[nbformat.NotebookNode, nbformat.NotebookNode]) -> None:
    """No errors, no warnings, no progress bars, no paths of the machine they ran on."""
    for notebook in stored_and_run:
        for output in (o for cell in notebook.cells for o in cell.get("outputs", [])):
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output.text
    for output in (o for cell in stored_and_run[0].cells for o in cell.get("outputs", [])):
        assert not re.search(r"(/home/|/root/|/Users/|/tmp/|[A-Z]:\\)", str(output.get("text", "")))


def test_pictures_are_stored(stored_and_run: tuple[nbformat.NotebookNode, nbformat.NotebookNode]) -> None:
    assert sum("image/png" in o.get("data", {}) for c in stored_and_run[0].cells for o in c.get("outputs", [])) >= 2


def text_of(cell: nbformat.NotebookNode) -> str:
    """What a cell printed and showed as text; pictures and their addresses in memory aside."""
    parts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            parts.append(output.text)
        elif "image/png" not in output.get("data", {}):
            parts.append(output.data.get("text/plain", ""))
    # A stream may come in any number of pieces.
    return ROUNDING.sub("(rounding)", "".join(parts))
