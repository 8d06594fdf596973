"""Pictures in the reader's light or dark mode: each colour of an SVG becomes a variable of its style sheet.

In dark mode a colour keeps its hue, and its lightness is mirrored, so that ink on paper stays as far from it:
white becomes the page's dark grey, and black nearly white.
"""

from __future__ import annotations

import colorsys
import re

from bayeskit.reporting.picture_bytes import SHEET

__all__ = ["with_modes"]

COLOUR = re.compile(rb": (#[0-9a-f]{6})(?=[;\"])")
PAPER, DARKEST, LIGHTEST = b"#15191e", 0.1, 0.93  # the page's, and lightness of white and of black, mirrored
MOST = 400  # colours of a picture; one of more is a photograph


def with_modes(svg: bytes) -> bytes:
    """The same picture with a style sheet of both modes; as it is where it has too many colours, or no style sheet."""
    colours = sorted({bytes(c) for c in COLOUR.findall(svg)})
    if not colours or len(colours) > MOST or svg.count(SHEET) != 1:
        return svg
    light = b"".join(b"--%b:%b;" % (_name(c), c) for c in colours)
    dark = b"".join(b"--%b:%b;" % (_name(c), _mirrored(c)) for c in colours)
    # Matplotlib leaves out the colour of what is filled with black, and draws some marks as an image.
    rest = b"svg{fill:%b}image{filter:invert(1) hue-rotate(180deg)}" % _mirrored(b"#000000")
    sheet = b"\n:root{%b}\n@media (prefers-color-scheme: dark){:root{%b}%b}" % (light, dark, rest)
    named = COLOUR.sub(lambda found: b": var(--%b)" % _name(found[1]), svg)
    return named.replace(SHEET, SHEET + sheet)


def _name(colour: bytes) -> bytes:
    return b"c" + colour[1:]


def _mirrored(colour: bytes) -> bytes:
    if colour == b"#ffffff":
        return PAPER
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    lightness = DARKEST + (LIGHTEST - DARKEST) * (1 - lightness)
    values = colorsys.hls_to_rgb(hue, lightness, saturation)
    return b"#%02x%02x%02x" % tuple(round(255 * value) for value in values)
