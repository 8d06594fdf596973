"""The source of a function that builds a model, as a script: the imports of its module, and what it uses of it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["script_of"]


def script_of(build: Callable[[], Any]) -> str:
    """A script that leaves the model in the variable ``model``; of the module it has what ``build`` uses."""
    source = inspect.getsource(inspect.getmodule(build) or build)
    statements = ast.parse(source).body
    needed, found = {build.__name__}, set[str]()
    while needed - found:
        found |= needed
        for statement in statements:
            if _binds(statement) & found and not isinstance(statement, ast.ImportFrom | ast.Import):
                needed |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    imports = [s for s in statements if isinstance(s, ast.ImportFrom | ast.Import) and _binds(s) & needed]
    others = [s for s in statements if not isinstance(s, ast.ImportFrom | ast.Import) and _binds(s) & needed]
    parts = ["\n".join(_text(s, source) for s in imports), *(_text(s, source) for s in others)]
    return "\n\n\n".join([*parts, f"model = {build.__name__}()\n"])


def _binds(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module gives a meaning."""
    if isinstance(statement, ast.ImportFrom | ast.Import):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _text(statement: ast.stmt, source: str) -> str:
    return ast.get_source_segment(source, statement) or ""
