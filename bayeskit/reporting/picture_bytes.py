"""Pictures in few bytes, of which nothing is seen: SVG without what Matplotlib writes for readers of its source, PNG
with a palette, and both as addresses that stand in a page.
"""

from __future__ import annotations

import base64
import io
import re
from collections import Counter

from PIL import Image

__all__ = ["SHEET", "SVG", "address_of", "compact_png", "compact_svg"]

SVG = "image/svg+xml"
SHEET = b"stroke-linecap: butt}"  # the end of what Matplotlib writes into its style sheet
PALETTE = 256  # colours of a PNG; letters on paper and points over each other need fewer

PREAMBLE = re.compile(rb"<\?xml[^>]*\?>|<!DOCTYPE[^>]*>|<!--.*?-->|<metadata>.*?</metadata>", re.DOTALL)
BETWEEN, BEFORE_END = re.compile(rb">\s+<"), re.compile(rb"\s+/>")
OUTLINE = re.compile(rb' d="[^"]*"')
PLACE = re.compile(rb' (?:x|y|width|height)="[^"]*"|translate\([^)]*\)')
DIGITS, ZEROS = re.compile(rb"(\.\d\d)\d+"), re.compile(rb"(\.\d*?)0+(?=[^\d.])")
SPACES, AFTER_COMMAND, BEFORE_COMMAND = re.compile(rb"\s+"), re.compile(rb"([A-Za-z]) "), re.compile(rb" ([A-Za-z])")
STYLE, NAME, REFERENCE = re.compile(rb' style="([^"]*)"'), re.compile(rb' id="([^"]*)"'), re.compile(rb"#([\w.-]+)")
EMPTY = re.compile(rb"<(g|defs)(?: [^>]*)?></\1>|<(g|defs)(?: [^>]*)?/>")
QUOTED = re.compile(r'="([^"\']*)"')


def compact_svg(svg: bytes, *, last: bool = False) -> bytes:
    """With outlines and places to a hundredth of a point, and no white space between elements.

    ``last`` leaves out the names that nothing refers to, and says styles that return once, in the style sheet.
    """
    svg = BEFORE_END.sub(b"/>", BETWEEN.sub(b"><", PREAMBLE.sub(b"", svg))).strip()
    svg = PLACE.sub(lambda place: _shorter(place[0]), OUTLINE.sub(lambda outline: _path(outline[0]), svg))
    return _said_once(svg) if last else svg


def _path(outline: bytes) -> bytes:
    text = SPACES.sub(b" ", _shorter(outline)[4:-1]).strip()
    return b' d="%b"' % BEFORE_COMMAND.sub(rb"\1", AFTER_COMMAND.sub(rb"\1", text))


def _shorter(text: bytes) -> bytes:
    """Numbers to a hundredth, without zeros at the end."""
    return ZEROS.sub(_whole, DIGITS.sub(rb"\1", text))


def _whole(digits: re.Match[bytes]) -> bytes:
    return b"" if digits[1] == b"." else digits[1]


def _said_once(svg: bytes) -> bytes:
    known = set(REFERENCE.findall(svg))
    svg = NAME.sub(lambda name: name[0] if name[1] in known else b"", svg)
    while (fewer := EMPTY.sub(b"", svg)) != svg:
        svg = fewer
    if svg.count(SHEET) != 1:
        return svg
    often = [style for style, number in Counter(STYLE.findall(svg)).most_common() if number > 1 and style]
    classes = {style: b"s%d" % k for k, style in enumerate(often)}
    svg = STYLE.sub(lambda style: b' class="%b"' % classes[style[1]] if style[1] in classes else style[0], svg)
    rules = b"".join(b".%b{%b}" % (name, style) for style, name in classes.items())
    return svg.replace(SHEET, SHEET + rules)


def compact_png(png: bytes) -> bytes:
    """The same picture in as many colours as are told apart in it."""
    buffer = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(PALETTE, dither=Image.Dither.NONE).save(
        buffer, "png", optimize=True
    )
    return buffer.getvalue()


def address_of(data: bytes, media_type: str) -> str:
    """A picture as an address, to stand between double quotes: an SVG as text, which is a quarter shorter."""
    if media_type != SVG:
        return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"
    text = QUOTED.sub(r"='\1'", data.decode("utf-8"))
    for sign, written in (("%", "%25"), ("#", "%23"), ("&", "&amp;"), ('"', "&quot;")):
        text = text.replace(sign, written)
    return f"data:{media_type},{text}"
