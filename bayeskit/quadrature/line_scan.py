"""Every mode of a density of one variable, sought along the whole line.

The density is evaluated on a grid: equal steps in arsinh of the distance from a first mode, the probes and points
between them, equal steps over three times the range of the probes, and growing ones beyond. Wherever the values on it
have a top, points are put in around it until the density falls by less than half a nat to either side: a basin that
holds two modes shows both on the way. What is left is said: ``unseen`` is the widest gap of the grid within the range
of the probes, and a mode much narrower than that, which no probe hit and which does not show in the density around it
either (the likelihood of a normal error does, a component of a mixture does not), is not seen.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import special

from bayeskit.quadrature.counted_density import CountedDensity, NotIntegrable, safe
from bayeskit.quadrature.low_bumps import low_bumps
from bayeskit.quadrature.mode_search import Landscape, first_peak, widths

__all__ = ["bumps_on_lines", "lines_through", "survey_line"]

STEP, FARTHEST = 0.025, 13.5  # of arsinh of the distance from the first mode, in its widths: 3e5 of them
EVEN = (500, 6_000)  # equal steps over the range of the probes and as much on either side, by what an evaluation costs
SHARE = 100  # of the budget, what these take
BEYOND = np.geomspace(1.0, 30.0, 60)  # farther out, in units of the range
RESOLVED = 0.5  # nats by which the density falls from a top to the points beside it
LEAST_FALL = 0.01  # nats from which a width is read
ROUNDS, INSERTED = 14, 6  # of insertions, and points inserted between two at once
NOTHING = 700.0  # nats below the first mode that count as zero
VALLEY = 1e-3  # nats below the lower of two tops, at least, that make them two modes
MOST = 300  # modes
NEAR_BY = 64  # points beside a top that are looked at first
THROUGH, ALIKE = 4, 0.5  # modes of several variables that lines go through, and widths between tops that are one
BULK, OUTERMOST = 0.005, 1e-10  # shares of the mass on either side that are beyond the reach of the rest


def survey_line(f: CountedDensity, start: np.ndarray, probes: np.ndarray, cut: float) -> Landscape:
    """The modes of a density on the line, as far as the grid sees them."""
    first = first_peak(f, start, probes)
    width = float(np.sqrt(widths(f, *first)[0, 0]))
    x = _grid(f, float(first[0][0]), width, np.append(probes[np.isfinite(probes[:, 0]), 0], start[0]))
    value = safe(_without_overflow(f, x, float(first[0][0]), first[1]))
    for _ in range(ROUNDS):
        tops = _tops(value)
        fall, hope = _beside(x, value, tops)
        tops = tops[(hope > value.max() - cut) & (fall > RESOLVED)]
        # Far out, rounding has tops at every distance: a kernel at a million times the length scale of its prior.
        tops = tops[np.argsort(-value[tops], kind="stable")[:MOST]]
        # Two tops of one basin may lie on either side of the points next to the one that shows.
        near = (tops[:, None] + np.arange(-2, 2)).ravel()
        near = np.unique(near[(near >= 0) & (near < len(x) - 1)])
        near = near[np.diff(x)[near] > 1e-13 * (np.abs(x[near]) + width)]
        if not len(near):
            break
        share = np.arange(1, INSERTED + 1) / (INSERTED + 1)
        new = (x[near, None] + np.diff(x)[near, None] * share).ravel()
        order = np.argsort(np.concatenate([x, new]), kind="stable")
        x, value = np.concatenate([x, new])[order], np.concatenate([value, safe(f(new[:, None]))])[order]
    return _with_low_bumps(_landscape(f, x, value, first, width, cut, probes), probes)


def lines_through(land: Landscape, probes: np.ndarray) -> tuple[Landscape, ...]:
    """For each variable, the modes on lines along its axis through the highest modes, without repetition.

    Their reach is that of nearly all of their mass, which a spike need not hold.
    """
    if land.modes.shape[1] == 1:
        return (replace(land, reach=land.outermost),)
    found = []
    for axis in range(land.modes.shape[1]):
        surveyed = (survey_line(f, mode, line, land.cut) for f, mode, line in _lines(land, probes, axis, THROUGH))
        lines = [line for line in surveyed if len(line.modes)]
        if not lines:  # a box has no smooth maximum
            return ()
        modes, own = lines[0].modes[:, 0], lines[0].own_widths
        for line in lines[1:]:
            new = _unlike(modes, own, line.modes[:, 0], line.own_widths)
            modes, own = np.append(modes, line.modes[new, 0]), np.append(own, line.own_widths[new])
        outermost = max(line.outermost for line in lines)
        found.append(replace(lines[0], modes=modes[:, None], own_widths=own, reach=outermost))
    return tuple(found)


def bumps_on_lines(land: Landscape, probes: np.ndarray) -> bool:
    """Whether a line along an axis through the highest mode of several variables has narrow bumps upon it."""
    deviations = np.sqrt(np.diag(land.covariance))
    lines = [_lines(land, probes, axis, 1)[0] for axis in range(land.modes.shape[1])]
    return any(
        len(low_bumps(f, line[:, 0], float(land.heights[0]), deviation)[0])
        for (f, _, line), deviation in zip(lines, deviations, strict=True)
    )


type _Line = tuple[CountedDensity, np.ndarray, np.ndarray]  # the density on it, a mode of several variables, and probes


def _lines(land: Landscape, probes: np.ndarray, axis: int, number: int) -> list[_Line]:
    f, at = land.density, np.arange(land.modes.shape[1]) == axis

    def through(mode: np.ndarray) -> _Line:
        return CountedDensity(lambda x: f(np.where(at, x, mode)), f.budget), mode[at], probes[:, at]

    return [through(mode) for mode in land.modes[:number]]


def _unlike(places: np.ndarray, widths: np.ndarray, x: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Mask of the tops at x that are none of those at some places, of about the same widths."""
    near = np.abs(places - x[:, None]) < ALIKE * np.minimum(widths, sd[:, None])
    return ~np.any(near & (np.abs(np.log(widths / sd[:, None])) < 1), axis=1)


def _grid(f: CountedDensity, mode: float, width: float, known: np.ndarray) -> np.ndarray:
    steps = width * np.sinh(np.arange(STEP, FARTHEST, STEP))
    known = np.unique(known)
    between = (known[1:] + known[:-1]) / 2
    low, high = min(known[0], mode), max(known[-1], mode)
    span = max(high - low, width)
    even = np.linspace(low - span, high + span, int(np.clip(f.budget // SHARE, *EVEN)))
    parts = [[mode], mode - steps, mode + steps, known, between, even, low - span * BEYOND, high + span * BEYOND]
    return np.unique(np.concatenate(parts))


def _without_overflow(f: CountedDensity, x: np.ndarray, mode: float, height: float) -> np.ndarray:
    """The density on the grid; +inf where it had fallen to nothing on the way from the mode is overflow of its terms.

    With 700 rows and a noise of e^-300, sums of squares over its variance are 1e260 apart and then inf - inf. A density
    that is infinite in earnest rises on the way: that is left to be refused.
    """
    value = f.unchecked(x[:, None])
    for side in (-1, 1):
        outward = np.flatnonzero((x - mode) * side >= 0)[::side]
        infinite = value[outward] == np.inf
        nothing = np.isnan(value[outward]) | (value[outward] < height - NOTHING)
        before = np.maximum.accumulate(np.where(infinite, 0, np.arange(len(outward))))  # the last that is not infinite
        value[outward[infinite & nothing[before]]] = -np.inf
    if np.any(value == np.inf):
        f(x[value == np.inf, None])
    return value


def _tops(value: np.ndarray) -> np.ndarray:
    """Where the values are higher than on the left, and not lower than on the right."""
    with np.errstate(invalid="ignore"):
        rise = np.diff(value, prepend=-np.inf) > 0
        held = np.append(value[1:] <= value[:-1], True)
    return np.flatnonzero(rise & held & np.isfinite(value))


def _beside(x: np.ndarray, value: np.ndarray, tops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By how much the values fall from a top to the lower of its neighbours, and how high they may be between them.

    A concave function is nowhere above the straight line that carries its rise on the one side to the other.
    """
    sides = np.stack([np.maximum(tops - 1, 0), np.minimum(tops + 1, len(value) - 1)])
    fall, gap = value[tops] - value[sides], np.abs(x[tops] - x[sides])
    with np.errstate(all="ignore"):
        return fall.max(axis=0), value[tops] + np.fmax(*(fall / gap * gap[::-1]))


def _landscape(
    f: CountedDensity,
    x: np.ndarray,
    value: np.ndarray,
    first: tuple[np.ndarray, float, np.ndarray],
    width: float,
    cut: float,
    probes: np.ndarray,
) -> Landscape:
    """The tops that hold mass, the highest first."""
    tops = _distinct(value, _tops(value))
    own = np.array([_width(x, value, top) for top in tops])
    with np.errstate(divide="ignore"):  # a point that is left of a density with holes
        mass = value[tops] + np.log(own)
    keep = mass > mass.max() - cut
    if np.sum(keep) > MOST:
        raise NotIntegrable(f"the density has more than {MOST} modes")
    order = np.argsort(-value[tops[keep]], kind="stable")
    modes, heights, own = x[tops[keep]][order], value[tops[keep]][order], own[keep][order]
    curvatures = -1 / own**2
    if len(modes) == 1 and abs(modes[0] - first[0][0]) < width and abs(heights[0] - first[1]) < VALLEY:
        # The climb knows it better than the grid does.
        modes, heights, own, curvatures = first[0], np.array([first[1]]), np.array([width]), first[2][0]
    seen = x[(x >= probes.min()) & (x <= probes.max())] if len(probes) else x
    unseen = float(np.diff(seen).max(initial=0.0))
    hessians = tuple(c.reshape(1, 1) for c in curvatures)
    reach, outermost = (_reach(x, value, beyond) for beyond in (BULK, OUTERMOST))
    return Landscape(f, cut, modes[:, None], heights, np.diag(own[:1] ** 2), hessians, own, reach, outermost, unseen)


def _with_low_bumps(land: Landscape, probes: np.ndarray) -> Landscape:
    """With bumps that are no modes of the grid, so that lattices have their scale, too."""
    if not len(land.modes):  # a box has none
        return land
    known = probes[np.isfinite(probes[:, 0]), 0]
    place, height, sd = low_bumps(land.density, known, float(land.heights[0]), float(land.own_widths[0]))
    new = _unlike(land.modes[:, 0], land.own_widths, place, sd)
    place, height, sd = place[new], height[new], sd[new]
    return replace(
        land,
        modes=np.append(land.modes, place[:, None], axis=0),
        heights=np.append(land.heights, height),
        hessians=(*land.hessians, *(-1 / sd**2).reshape(-1, 1, 1)),
        own_widths=np.append(land.own_widths, sd),
    )


def _width(x: np.ndarray, value: np.ndarray, top: int) -> float:
    """The sd of a normal density that falls as this one does, by half a nat or so on either side of a top."""
    sides = []
    for step in (-1, 1):
        last = top + step * _first_below(value[top::step], value[top] - RESOLVED)
        at = np.array([last, last - step])
        fall = np.maximum(value[top] - value[at], LEAST_FALL)
        sides.append(np.min((np.abs(x[at] - x[top]) / np.sqrt(2 * fall))[at != top]))
    return float(np.mean(sides))


def _first_below(values: np.ndarray, level: float) -> int:
    """Where the values first are below a level, or their end: near by, of a rough density with thousands of tops."""
    seen = NEAR_BY
    while seen < len(values) and not np.any(values[:seen] < level):
        seen *= 4
    below = values[:seen] < level
    return int(np.argmax(below)) if np.any(below) else len(values) - 1


def _distinct(value: np.ndarray, tops: np.ndarray) -> np.ndarray:
    """Of tops with no valley between them, the highest."""
    kept: list[int] = []
    for top in tops:
        if kept and value[kept[-1] : top + 1].min() > min(value[kept[-1]], value[top]) - VALLEY:
            kept[-1] = max(kept[-1], int(top), key=lambda i: value[i])
        else:
            kept.append(int(top))
    return np.array(kept, dtype=int)


def _reach(x: np.ndarray, value: np.ndarray, beyond: float) -> float:
    """How far all but a share of the mass reaches on either side, as the sd of a normal density that reaches as far."""
    mass = np.exp(value - value.max())
    total = np.append(0.0, np.cumsum((mass[1:] + mass[:-1]) / 2 * np.diff(x)))
    low, high = np.interp((beyond, 1 - beyond), total / total[-1], x)
    return float(high - low) / (2 * special.ndtri(1 - beyond))
