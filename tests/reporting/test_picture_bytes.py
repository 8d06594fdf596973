"""Pictures in few bytes are the same pictures."""

from __future__ import annotations

import io
import re
from html import unescape
from urllib.parse import unquote
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from bayeskit.reporting.picture_bytes import SVG, address_of, compact_png, compact_svg
from bayeskit.reporting.records import styled

NUMBER = re.compile(r"-?\d*\.?\d+(?:e-?\d+)?")


def figure() -> Figure:
    """Lines, marks, a clipped image, turned and hostile letters, a hatch."""
    drawn, axes = plt.subplots()
    x = np.linspace(-1e-7, 1000.05, 300)
    axes.plot(x, np.sin(x), label="a 'line' & \"more\" <b> 100 % #1")
    axes.scatter(x, np.cos(x), c=x)
    axes.fill_between(x[:9], 0.0, 1.0, hatch="//")
    axes.imshow(np.eye(3), extent=(0, 100, 0, 1), aspect="auto")
    axes.set_ylabel("turned")
    axes.legend()
    return drawn


def written(kind: str) -> bytes:
    buffer = io.BytesIO()
    with styled():
        figure().savefig(buffer, format=kind)
    return buffer.getvalue()


def shapes(svg: bytes) -> list[tuple[str, list[float], list[str]]]:
    """Of everything that is drawn its kind, its numbers, and its style, said there or in the sheet."""
    root = ElementTree.fromstring(svg)
    sheet = dict(re.findall(r"\.(s\d+)\{([^}]*)\}", "".join(root.itertext())))
    found = []
    for one in root.iter():
        kind = one.tag.partition("}")[2]
        numbers = [one.get(name, "") for name in ("d", "x", "y", "width", "height", "transform")]
        style = one.get("style") or sheet.get(one.get("class", ""), "")
        if kind in ("path", "use", "rect", "image"):
            found.append((kind, [float(n) for text in numbers for n in NUMBER.findall(text)], style.split("; ")))
    return found


def test_an_svg_keeps_every_shape_its_place_and_its_style() -> None:
    svg = written("svg")
    small = compact_svg(compact_svg(svg), last=True)
    assert len(small) < 0.85 * len(svg)
    before, after = shapes(svg), shapes(small)
    assert [(kind, style) for kind, _, style in before] == [(kind, style) for kind, _, style in after]
    for (_, exact, _), (_, rounded, _) in zip(before, after, strict=True):
        np.testing.assert_allclose(rounded, exact, rtol=0, atol=0.01)
    assert compact_svg(small, last=True) == small


def test_an_address_is_the_picture_again() -> None:
    small = compact_svg(written("svg"), last=True)
    address = address_of(small, SVG)
    assert '"' not in address and "#" not in address
    again = unquote(unescape(address).removeprefix(f"data:{SVG},")).encode()
    assert ElementTree.canonicalize(again) == ElementTree.canonicalize(small)
    assert address_of(b"\x00", "image/png") == "data:image/png;base64,AA=="


def test_a_png_has_the_same_colours_to_the_eye() -> None:
    png = written("png")
    small = compact_png(png)
    assert len(small) < len(png)
    one, other = (np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int) for data in (png, small))
    assert one.shape == other.shape
    assert np.abs(one - other).mean() < 1.0
