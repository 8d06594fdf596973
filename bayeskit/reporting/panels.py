"""A figure's SVG taken apart into its panels, and in colours that follow the reader's light or dark mode.

Matplotlib writes a group for each axes, ``axes_1``, ``axes_2``, and glyphs and clip paths where they are first used. A
panel is an SVG of its own: that group, what it refers to, and the box that the axes and their labels take.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.etree import ElementTree

from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["PicturePanel", "panels_of"]

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
POINTS = 72.0  # in an inch, the unit of Matplotlib's SVG; pages have 96 pixels in one
MARGIN = 2.0  # points around a panel
REFERENCE = re.compile(r"url\(#([^)]+)\)")


@dataclass(frozen=True)
class PicturePanel:
    """One panel of a picture, an SVG: its width in CSS pixels, and what it shows."""

    data: bytes = field(repr=False)
    width: int
    name: str


def panels_of(figure: Figure, svg: bytes) -> tuple[PicturePanel, ...]:
    """The panels of a figure that was written as this SVG, in their order and of one size; none of a single one."""
    axes = [one for one in figure.axes if one.get_visible()]
    if sum(map(_shows, axes)) < 2 or figure.legends or figure.get_suptitle():
        return ()
    boxes = [_box(one, figure) for one in axes]
    # Labels stand on the left and below: boxes of one size end at the same right and top.
    width, height = (max(box[k] for box, one in zip(boxes, axes, strict=True) if _shows(one)) for k in (2, 3))
    root = ElementTree.fromstring(svg)
    groups = {group.get("id", ""): group for group in root.iter(f"{{{SVG}}}g")}
    known = {one.get("id", ""): one for one in root.iter() if one.get("id")}
    style = root.find(f"{{{SVG}}}defs/{{{SVG}}}style")
    found = []
    for number, (one, box) in enumerate(zip(axes, boxes, strict=True), 1):
        if (group := groups.get(f"axes_{number}")) is None:
            return ()
        view = box[0] + box[2] - width, box[1], width, height
        name = one.get_title() or one.get_xlabel()
        if _shows(one):
            found.append(PicturePanel(_svg(group, known, style, view), round(width * 96 / POINTS), name))
    return tuple(found)


def _shows(axes: Axes) -> bool:
    """Whether there is something in it: the last places of a grid may be empty."""
    return bool(axes.axison or axes.texts or axes.has_data())


def _box(axes: Axes, figure: Figure) -> tuple[float, float, float, float]:
    """Left, top, width and height of axes with all their labels, in points, from the top."""
    box = axes.get_tightbbox() or axes.bbox
    scale = POINTS / figure.dpi
    x0, y1 = box.x0 * scale, figure.get_figheight() * POINTS - box.y1 * scale
    sizes = (box.width * scale + 2 * MARGIN, box.height * scale + 2 * MARGIN)
    return x0 - MARGIN, y1 - MARGIN, *sizes


def _svg(
    group: ElementTree.Element,
    known: dict[str, ElementTree.Element],
    style: ElementTree.Element | None,
    view: tuple[float, float, float, float],
) -> bytes:
    """A group with what it refers to, seen through a window."""
    inside = {one.get("id") for one in group.iter() if one.get("id")}
    wanted: dict[str, ElementTree.Element] = {}
    waiting = [group]
    while waiting:
        for name in _references(waiting.pop()):
            if name in known and name not in inside and name not in wanted:
                wanted[name] = known[name]
                waiting.append(known[name])
    box = " ".join(f"{number:.2f}" for number in view)
    root = ElementTree.Element(f"{{{SVG}}}svg", {"viewBox": box, "version": "1.1"})
    root.set("width", f"{view[2]:.2f}pt")
    root.set("height", f"{view[3]:.2f}pt")
    definitions = ElementTree.SubElement(root, f"{{{SVG}}}defs")
    definitions.extend([*([] if style is None else [style]), *wanted.values()])
    root.append(group)
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _references(element: ElementTree.Element) -> list[str]:
    """In their order, so that equal figures give equal bytes in every process."""
    found = []
    for one in element.iter():
        for name, value in one.attrib.items():
            if name == f"{{{XLINK}}}href" and value.startswith("#"):
                found.append(value[1:])
            found += REFERENCE.findall(value)
    return found
