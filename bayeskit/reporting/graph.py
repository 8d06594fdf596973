"""The generative graph of a PyMC model, laid out in layers and drawn.

Structure comes from :class:`pymc.model_graph.ModelGraph`. A node's layer is the length of the longest path to it from a
node without parents; within a layer, nodes are ordered by the mean position of their neighbours in the layer above
(Sugiyama's barycentre rule). An edge that skips layers is led through a free place in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pymc as pm
from pymc.model_graph import ModelGraph, get_node_type

from bayeskit.reporting.formulas import distribution_name, variable_sizes
from bayeskit.reporting.records import BLUE, INK, MUTED, Picture, to_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MAX_NODES", "Node", "Structure", "draw_structure", "read_structure"]

MAX_NODES = 40
MAX_WIDTH = 8.6  # inches of one layer; a wider one is broken into several
CHARACTER, PADDING, GAP, HEIGHT, STEP, PLACE = 0.085, 0.42, 0.28, 0.62, 1.0, 0.2  # inches

ROLES = {
    "FREE_RV": "free",
    "OBSERVED_RV": "observed",
    "DETERMINISTIC": "deterministic",
    "DATA": "data",
    "POTENTIAL": "potential",
}


@dataclass(frozen=True)
class Node:
    """A variable: its name, its role, what it is (a distribution's name) and its dims."""

    name: str
    role: str
    kind: str
    dims: str


@dataclass(frozen=True)
class Structure:
    """Nodes and edges (parent, child) of a model; ``hidden`` counts nodes left out of a large one."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[str, str], ...]
    hidden: int = 0


def read_structure(model: pm.Model, *, max_nodes: int = MAX_NODES) -> Structure:
    """Read nodes and edges from a model.

    Data containers that hold only observed values are left out: the observed variable stands for them. Of a model with
    more than ``max_nodes`` variables the first ones, in the order the user wrote them, are kept.
    """
    graph = ModelGraph(model)
    parents = graph.make_compute_graph()
    sizes = variable_sizes(model)
    used = {parent for above in parents.values() for parent in above}
    observed_values = {
        name
        for name, above in parents.items()
        if model[name] in model.data_vars and above and name not in used - set(above)
    }
    names = [n for n in parents if n not in observed_values]
    kept = names[:max_nodes]
    nodes = []
    for name in kept:
        role = ROLES[get_node_type(name, model).name]
        kind = distribution_name(model[name]) if role in {"free", "observed"} else role.capitalize()
        nodes.append(Node(name, role, kind, " × ".join(f"{d} ({n})" if d else str(n) for d, n in sizes[name])))
    edges = [
        (parent, child)
        for child in kept
        for parent in sorted(parents[child])
        if parent in kept and not (model[child] in model.data_vars and model[parent] in model.observed_RVs)
    ]
    return Structure(tuple(nodes), tuple(edges), len(names) - len(kept))


def layers_of(structure: Structure) -> list[list[str]]:
    """Names by layer: the longest path from a root, and data one layer above what uses it first."""
    above: dict[str, list[str]] = {n.name: [] for n in structure.nodes}
    below: dict[str, list[str]] = {n.name: [] for n in structure.nodes}
    for parent, child in structure.edges:
        above[child].append(parent)
        below[parent].append(child)
    depth: dict[str, int] = {}

    def visit(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max((visit(p) for p in above[name]), default=-1)
        return depth[name]

    for node in structure.nodes:
        visit(node.name)
    for node in structure.nodes:  # a root sits just above its nearest child, which keeps edges short
        if not above[node.name] and below[node.name]:
            depth[node.name] = min(depth[c] for c in below[node.name]) - 1
    rows: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for node in structure.nodes:
        rows[depth[node.name]].append(node.name)
    widths = {n.name: _width(n) for n in structure.nodes}
    return [part for row in rows for part in _broken(row, widths)]


def draw_structure(structure: Structure, alt: str) -> Picture:
    """Draw a structure: observed nodes shaded, Deterministics boxes, data rounded boxes, dims below the name."""
    import matplotlib.pyplot as plt

    nodes = {n.name: n for n in structure.nodes}
    rows, chains = _with_places(layers_of(structure), structure.edges)
    widths = {name: _width(nodes[name]) if name in nodes else PLACE for row in rows for name in row}
    positions = _positions(rows, chains, widths)
    left = min(x - widths[n] / 2 for n, (x, _) in positions.items()) - 0.1
    right = max(x + widths[n] / 2 for n, (x, _) in positions.items()) + 0.1
    height = STEP * (len(rows) - 1) + HEIGHT + 0.2
    figure = plt.figure(figsize=(right - left, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(left, right)
    axes.set_ylim(-(height - HEIGHT / 2 - 0.1), HEIGHT / 2 + 0.1)
    axes.axis("off")
    for chain in chains:
        _draw_edge(axes, [positions[n] for n in chain], nodes[chain[-1]], widths[chain[-1]])
    for name, node in nodes.items():
        _draw_node(axes, node, positions[name], widths[name])
    return to_picture(figure, alt=alt)


def _width(node: Node) -> float:
    return max(len(node.name) * CHARACTER * 1.15, len(_second_line(node)) * CHARACTER * 0.85) + PADDING


def _second_line(node: Node) -> str:
    return f"{node.kind} · {node.dims}" if node.dims else node.kind


def _broken(row: Sequence[str], widths: dict[str, float]) -> list[list[str]]:
    """A row in parts no wider than the page."""
    parts: list[list[str]] = [[]]
    total = 0.0
    for name in row:
        if parts[-1] and total + widths[name] > MAX_WIDTH:
            parts.append([])
            total = 0.0
        parts[-1].append(name)
        total += widths[name] + GAP
    return parts


def _with_places(
    rows: list[list[str]], edges: Sequence[tuple[str, str]]
) -> tuple[list[list[str]], list[tuple[str, ...]]]:
    """Rows with a place for every edge that passes through, and each edge as the chain of places it passes."""
    rows = [list(row) for row in rows]
    level = {name: i for i, row in enumerate(rows) for name in row}
    chains = []
    for parent, child in edges:
        start, stop = level[parent], level[child]
        step = 1 if stop > start else -1  # breaking a wide layer can put a parent on the lower part of its layer
        places = [f"\0{parent}\0{child}\0{i}" for i in range(start + step, stop, step)]
        for i, place in zip(range(start + step, stop, step), places, strict=True):
            rows[i].append(place)
        chains.append((parent, *places, child))
    return rows, chains


def _positions(
    rows: list[list[str]], chains: Sequence[tuple[str, ...]], widths: dict[str, float]
) -> dict[str, tuple[float, float]]:
    """Coordinates by barycentre sweeps, down then up; a deterministic order breaks ties."""
    links: dict[str, list[str]] = {name: [] for row in rows for name in row}
    for chain in chains:
        for a, b in pairwise(chain):
            links[a].append(b)
            links[b].append(a)
    x: dict[str, float] = {}
    for row in rows:
        _place(row, widths, x, dict.fromkeys(row, 0.0))
    for sweep in range(8):
        ordered = rows if sweep % 2 == 0 else rows[::-1]
        seen: set[str] = set()
        for row in ordered:
            wanted = {}
            for name in row:
                near = [x[m] for m in links[name] if m in seen] or [x[name]]
                wanted[name] = sum(near) / len(near)
            row.sort(key=lambda n: wanted[n])
            _place(row, widths, x, wanted)
            seen.update(row)
    return {name: (x[name], -STEP * i) for i, row in enumerate(rows) for name in row}


def _place(row: Sequence[str], widths: dict[str, float], x: dict[str, float], wanted: dict[str, float]) -> None:
    """Put a row down from left to right without overlap, centred on where its nodes want to be."""
    cursor, placed = 0.0, []
    for name in row:
        placed.append(cursor + widths[name] / 2)
        cursor += widths[name] + GAP
    shift = sum(wanted[n] - p for n, p in zip(row, placed, strict=True)) / max(len(row), 1)
    for name, p in zip(row, placed, strict=True):
        x[name] = p + shift


def _draw_node(axes: Axes, node: Node, at: tuple[float, float], width: float) -> None:
    from matplotlib.patches import Ellipse, FancyBboxPatch, Patch

    x, y = at
    face = {"observed": "#c9dbe8", "data": "#eef0f2", "potential": "#f6e7d8"}.get(node.role, "white")
    style: dict[str, Any] = {
        "facecolor": face,
        "edgecolor": BLUE if node.role in {"free", "observed"} else MUTED,
        "linewidth": 1.2,
    }
    patch: Patch
    if node.role in {"free", "observed"}:
        patch = Ellipse((x, y), width, HEIGHT, **style)
    else:
        rounding = 0.12 if node.role == "data" else 0.001
        box = f"round,pad=0,rounding_size={rounding}"
        patch = FancyBboxPatch((x - width / 2, y - HEIGHT / 2), width, HEIGHT, boxstyle=box, **style)
    axes.add_patch(patch)
    axes.text(x, y + 0.09, node.name, ha="center", va="center", fontsize=10, color=INK, weight="bold", parse_math=False)
    axes.text(x, y - 0.12, _second_line(node), ha="center", va="center", fontsize=7.5, color=INK, parse_math=False)


def _draw_edge(axes: Axes, points: Sequence[tuple[float, float]], child: Node, width: float) -> None:
    """A smooth line through the places of an edge, ending at the border of the child."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    (x0, y0), (x1, y1) = points[-2], points[-1]
    dx, dy = x0 - x1, y0 - y1
    if child.role in {"free", "observed"}:
        reach = 1 / max(((2 * dx / width) ** 2 + (2 * dy / HEIGHT) ** 2) ** 0.5, 1e-9)
    else:
        reach = min(width / 2 / abs(dx) if dx else float("inf"), HEIGHT / 2 / abs(dy) if dy else float("inf"))
    end = (x1 + dx * (reach + 0.02), y1 + dy * (reach + 0.02))
    vertices: list[tuple[float, float]] = [points[0]]
    codes = [Path.MOVETO]
    for x, y in points[1:-1]:  # vertical through each place, so that the line clears the nodes beside it
        x0, y0 = vertices[-1]
        side = HEIGHT / 2 if y0 > y else -HEIGHT / 2
        bend = (y0 + y + side) / 2
        vertices += [(x0, bend), (x, bend), (x, y + side), (x, y - side)]
        codes += [Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO]
    vertices.append(end)
    codes.append(Path.LINETO)
    axes.add_patch(
        FancyArrowPatch(
            path=Path(vertices, codes), arrowstyle="-|>", mutation_scale=11, color=MUTED, linewidth=1, zorder=0
        )
    )
