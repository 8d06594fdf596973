"""The generative graph of a PyMC model, laid out in layers and drawn.

Structure comes from :class:`pymc.model_graph.ModelGraph`. A node's layer is the length of the longest path to it from a
node without parents; within a layer, nodes are ordered by the mean position of their neighbours in the layer above
(Sugiyama's barycentre rule). An edge that skips layers is led through a free place in each of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse, FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path
from pymc.model_graph import ModelGraph

from bayeskit.model.snapshot import written_down
from bayeskit.reporting.formulas import VariableText
from bayeskit.reporting.records import BLUE, INK, MUTED, Picture, to_picture

__all__ = ["MAX_NODES", "Structure", "draw_structure", "read_structure"]

MAX_NODES = 40
MAX_WIDTH = 8.6  # inches of one layer; a wider one is broken into several
CHARACTER, PADDING, GAP, HEIGHT, STEP, PLACE = 0.085, 0.42, 0.28, 0.62, 1.0, 0.2  # inches
FACES = {"observed": "#c9dbe8", "data": "#eef0f2", "potential": "#f6e7d8"}


@dataclass(frozen=True)
class Structure:
    """Variables and edges (parent, child) of a model; ``hidden`` counts those left out of a large one."""

    nodes: tuple[VariableText, ...]
    edges: tuple[tuple[str, str], ...]
    hidden: int = 0


@written_down
def read_structure(model: pm.Model, variables: Sequence[VariableText], *, max_nodes: int = MAX_NODES) -> Structure:
    """Read the edges between the variables of a model, which :func:`describe_variables` describes.

    Data containers that hold only observed values are left out: the observed variable stands for them. Of a model with
    more than ``max_nodes`` variables the first ones, in the order the user wrote them, are kept.
    """
    described = {v.name: v for v in variables}
    parents = ModelGraph(model).make_compute_graph()
    used = {parent for above in parents.values() for parent in above}
    names = [
        name
        for name, above in parents.items()
        if not (described[name].role == "data" and above and name not in used - set(above))
    ]
    kept = names[:max_nodes]
    edges = [
        (parent, child)
        for child in kept
        for parent in sorted(parents[child])
        if parent in kept and (described[child].role, described[parent].role) != ("data", "observed")
    ]
    return Structure(tuple(described[name] for name in kept), tuple(edges), len(names) - len(kept))


def layers_of(structure: Structure) -> list[list[str]]:
    """Names by layer: the longest path from a root, and data one layer above what uses it first."""
    names = [n.name for n in structure.nodes]
    above = {name: [parent for parent, child in structure.edges if child == name] for name in names}
    depth: dict[str, int] = {}
    for name in TopologicalSorter(above).static_order():
        depth[name] = 1 + max((depth[parent] for parent in above[name]), default=-1)
    for name in names:  # a root sits just above its nearest child, which keeps edges short
        if not above[name]:
            depth[name] = min((depth[c] for p, c in structure.edges if p == name), default=1) - 1
    rows = [[name for name in names if depth[name] == k] for k in range(max(depth.values(), default=0) + 1)]
    widths = {n.name: _width(n) for n in structure.nodes}
    return [part for row in rows for part in _broken(row, widths)]


def draw_structure(structure: Structure, alt: str) -> Picture:
    """Draw a structure: observed nodes shaded, Deterministics boxes, data rounded boxes, dims below the name."""
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


def _width(node: VariableText) -> float:
    return max(len(node.name) * CHARACTER * 1.15, len(_second_line(node)) * CHARACTER * 0.85) + PADDING


def _second_line(node: VariableText) -> str:
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
        places = {i: f"\0{parent}\0{child}\0{i}" for i in range(start + step, stop, step)}
        for i, place in places.items():
            rows[i].append(place)
        chains.append((parent, *places.values(), child))
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
    width = np.array([widths[name] for name in row])
    placed = np.cumsum(width + GAP) - GAP - width / 2
    shift = np.mean(np.array([wanted[name] for name in row]) - placed)
    x.update(zip(row, (placed + shift).tolist(), strict=True))


def _draw_node(axes: Axes, node: VariableText, at: tuple[float, float], width: float) -> None:
    x, y = at
    face, edge = FACES.get(node.role, "white"), BLUE if node.random else MUTED
    style: dict[str, Any] = {"facecolor": face, "edgecolor": edge, "linewidth": 1.2}
    if node.random:
        axes.add_patch(Ellipse(at, width, HEIGHT, **style))
    else:
        box = f"round,pad=0,rounding_size={0.12 if node.role == 'data' else 0.001}"
        axes.add_patch(FancyBboxPatch((x - width / 2, y - HEIGHT / 2), width, HEIGHT, boxstyle=box, **style))
    axes.text(x, y + 0.09, node.name, ha="center", va="center", fontsize=10, color=INK, weight="bold")
    axes.text(x, y - 0.12, _second_line(node), ha="center", va="center", fontsize=7.5, color=INK)


def _draw_edge(axes: Axes, points: Sequence[tuple[float, float]], child: VariableText, width: float) -> None:
    """A smooth line through the places of an edge, ending at the border of the child."""
    (x0, y0), (x1, y1) = points[-2:]
    dx, dy = 2 * (x0 - x1) / width, 2 * (y0 - y1) / HEIGHT  # in half widths and heights of the child
    reach = 1 / max(math.hypot(dx, dy) if child.random else max(abs(dx), abs(dy)), 1e-9) + 0.02
    vertices, codes = [points[0]], [Path.MOVETO]
    for x, y in points[1:-1]:  # vertical through each place, so that the line clears the nodes beside it
        before, above = vertices[-1]
        side = HEIGHT / 2 if above > y else -HEIGHT / 2
        bend = (above + y + side) / 2
        vertices += [(before, bend), (x, bend), (x, y + side), (x, y - side)]
        codes += [Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO]
    vertices.append((x1 + (x0 - x1) * reach, y1 + (y0 - y1) * reach))
    style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 11, "color": MUTED, "linewidth": 1, "zorder": 0}
    axes.add_patch(FancyArrowPatch(path=Path(vertices, [*codes, Path.LINETO]), **style))
