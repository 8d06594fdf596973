"""The house: files, classes and functions of a readable size, one meaning a name, and no circle of files.

``KNOWN`` lists what is not so yet. It may only shrink: an offender that is mended but still listed fails, too.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILE, CLASS, FUNCTION, MEDIAN, TOP = 300, 250, 60, 150, 8
# Functions that several modules define with one meaning each: what every model, and every method, has.
PROTOCOLS = {"answer", "build", "estimate", "obstacle", "too_dear"}

KNOWN: dict[str, set[str]] = {"files": set(), "classes": set(), "functions": set(), "names": set(), "circles": set()}


@cache
def sources() -> dict[str, ast.Module]:
    paths = sorted(path for folder in ("bayeskit", "models") for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in paths}


@cache
def nodes(path: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(sources()[path]))


def lines(path: str) -> int:
    return len((ROOT / path).read_text().splitlines())


def long_files() -> set[str]:
    return {path for path in sources() if lines(path) > FILE}


def longer_than(most: int, *kinds: type[ast.AST]) -> set[str]:
    """Classes or functions of more lines than that, docstring included and decorators not."""
    return {
        f"{path}:{node.name}"
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and isinstance(node, kinds)
        and (node.end_lineno or 0) - node.lineno + 1 > most
    }


def definitions(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The public functions, classes and type aliases of a module; and of an alias, what it stands for."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name, meaning = node.name, ""
        elif isinstance(node, ast.TypeAlias):
            name, meaning = node.name.id, ast.unparse(node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, meaning = node.targets[0].id, ast.unparse(node.value)
            if name.isupper() or not name[0].isupper():
                continue  # a number of the module's own
        else:
            continue
        if not name.startswith("_"):
            yield name, meaning


def names_of_several_meanings() -> set[str]:
    meanings: dict[str, set[str]] = defaultdict(set)
    for path, tree in sources().items():
        for name, meaning in definitions(tree):
            meanings[name].add(meaning or path)
    return {name for name, of in meanings.items() if len(of) > 1 and name not in PROTOCOLS}


def module_name(path: str) -> str:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name.replace("models", "bayeskit.models", 1) if name.startswith("models") else name


def imported(path: str, files: dict[str, str]) -> set[str]:
    """The files that a file imports, within functions too, but not for type checkers alone."""
    typing_only = {
        id(inner)
        for node in nodes(path)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    targets: set[str] = set()
    for node in nodes(path):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            targets.update(files[alias.name] for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom) and node.module in files:
            # From a package: its modules, and the package itself only for what is not one of them.
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            targets.update(files.get(name, files[node.module]) for name in inside)
    return targets - {path}


def circles() -> set[str]:
    """The files that lie on a circle of imports, each circle as one line."""
    files = {module_name(path): path for path in sources()}
    graph = {path: imported(path, files) for path in sources()}
    reach: dict[str, set[str]] = {}
    for path in graph:
        seen, todo = set(), [path]
        while todo:
            for target in graph[todo.pop()] - seen:
                seen.add(target)
                todo.append(target)
        reach[path] = seen
    return {" ".join(sorted(q for q in reach[path] if path in reach[q])) for path in graph if path in reach[path]}


@pytest.mark.parametrize("what", KNOWN)
def test_nothing_new_is_out_of_order_and_what_is_mended_is_no_longer_listed(what: str) -> None:
    offenders = {
        "files": long_files,
        "classes": lambda: longer_than(CLASS, ast.ClassDef),
        "functions": lambda: longer_than(FUNCTION, ast.FunctionDef, ast.AsyncFunctionDef),
        "names": names_of_several_meanings,
        "circles": circles,
    }[what]()
    assert offenders == KNOWN[what]


def test_the_median_file_is_short() -> None:
    sizes = sorted(lines(path) for path in sources())
    assert sizes[len(sizes) // 2] <= MEDIAN


def test_few_files_stand_beside_the_packages() -> None:
    assert len(list((ROOT / "bayeskit").glob("*.py"))) <= TOP
