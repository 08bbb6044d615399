"""The marks of a trace as SVG: lines, points, bars, cells and pictures, each with its value as a title."""

import math
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from firstlight.pages.figures.axes import Area
from firstlight.pages.figures.style import scale_colour

DASHES = {"solid": "", "dash": "7 5", "dot": "2 4"}
CROSS = "#D55E00"  # the warning colour of the palette
REACH = 3.0  # radius of the unseen marks of a line without points, so that a pointer finds its values


def marks(trace: dict[str, Any], area: Area) -> Iterator[str]:
    """Draw one trace."""
    return _DRAWN[trace["type"]](trace, area)


def text(words: str, x: float, y: float, *, anchor: str, more: str = "") -> str:
    """Words at a place; `more` holds further attributes, already escaped."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str, opacity: float = 1.0) -> str:
    """A straight line."""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{escape(stroke)}" opacity="{opacity:g}"/>'


def _drawable(trace: dict[str, Any], area: Area) -> list[int]:
    """Numbers of the points that have a place on both axes."""
    return [i for i, (x, y) in enumerate(zip(trace["x"], trace["y"], strict=True)) if area.holds(x, y)]


def _scatter(trace: dict[str, Any], area: Area) -> Iterator[str]:
    shown = _drawable(trace, area)
    places = [area.place(trace["x"][i], trace["y"][i]) for i in shown]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    if "fill" in trace:
        yield f'<polygon points="{path}" fill="{escape(trace["fill"])}"/>'
        return
    if "lines" in trace["mode"]:
        pen = trace["line"]
        yield (
            f'<polyline points="{path}" fill="none" stroke="{escape(pen["colour"])}" '
            f'stroke-width="{0.8 * pen["width"]:g}" stroke-dasharray="{DASHES[pen.get("dash", "solid")]}" '
            f'opacity="{trace.get("opacity", 1):g}"/>'
        )
    if "range" in trace:
        yield from _ranges(trace, area)
    if "markers" in trace["mode"]:
        marker, radius = trace["marker"], 0.38 * trace["marker"]["size"]
        colour = escape(marker["colour"])
        paint = (
            f'fill="none" stroke="{colour}" stroke-width="1.4"' if marker.get("open") else f'fill="{colour}"'
        )
    else:
        radius, paint = REACH, 'fill="transparent"'
    yield f"<g {paint}>"
    for i, (x, y) in zip(shown, places, strict=True):
        number = f' data-point="{i}"' if area.is_numbered else ""
        title = escape(_said(trace, i), quote=False)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"{number}><title>{title}</title></circle>'
    yield "</g>"


def _said(trace: dict[str, Any], i: int) -> str:
    """What a reader sees at one point: series, value, place."""
    value, series = trace["y"][i], trace.get("name", "")
    if "text" not in trace:
        return f"{series}: {_number(value)} at {trace['x'][i]:g}"
    shown = _number(value)
    if ends := trace.get("range"):
        shown = _with_range(value, value - (ends["down"][i] or 0.0), value + (ends["up"][i] or 0.0))
    return f"{trace['text'][i]}, {series}: {shown}"


def _with_range(middle: float, low: float, high: float) -> str:
    return f"{_number(middle)} ({_number(low)} to {_number(high)})" if low < high else _number(middle)


def _number(value: float) -> str:
    """Counts in full, everything else with three digits.

    Examples
    --------
    >>> _number(2000.0), _number(0.12345)
    ('2,000', '0.123')
    """
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e12 else f"{value:.3g}"


def _ranges(trace: dict[str, Any], area: Area) -> Iterator[str]:
    """A line from the lowest to the highest value behind each point."""
    ends = trace["range"]
    if not ends["visible"]:
        return
    for x, y, up, down in zip(trace["x"], trace["y"], ends["up"], ends["down"], strict=True):
        if None in (y, up, down) or not (area.holds(x, y - down) and area.holds(x, y + up)):
            continue
        ends = (*area.place(x, y - down), *area.place(x, y + up))
        yield line(*ends, stroke=trace["marker"]["colour"])


def _bars(trace: dict[str, Any], area: Area) -> Iterator[str]:
    half = trace.get("width", 0.8) / 2
    base = trace.get("base") or [0.0] * len(trace["x"])
    yield f'<g fill="{escape(trace["marker"]["colour"])}">'
    for i, (x, tall, low) in enumerate(zip(trace["x"], trace["y"], base, strict=True)):
        if tall is None or low is None or not (area.holds(x, low) and area.holds(x, low + tall)):
            continue
        corners = area.place(x - half, low), area.place(x + half, low + tall)
        (left, right), (top, bottom) = (sorted(ends) for ends in zip(*corners, strict=True))
        size = f'width="{max(right - left, 1):.1f}" height="{max(bottom - top, 1):.1f}"'
        said = f"{trace['text'][i]}, {trace['name']}: {_with_range(*trace['said'][i])}"
        yield f'<rect x="{left:.1f}" y="{top:.1f}" {size}><title>{escape(said, quote=False)}</title></rect>'
    yield "</g>"


def _heatmap(trace: dict[str, Any], area: Area) -> Iterator[str]:
    colours = tuple(trace["colours"])
    low, high = trace["zmin"], trace["zmax"]
    wide, tall = area.width / len(trace["x"]), area.height / len(trace["y"])
    size = min(11.0, wide / 3.2)
    for i, row in enumerate(trace["z"]):
        for j, value in enumerate(row):
            if value is None or not math.isfinite(value):
                continue
            x, y = area.left + j * wide, area.top + i * tall
            colour = scale_colour((value - low) / ((high - low) or 1), colours)
            said = escape(f"{trace['y'][i]}, {trace['x'][j]}: {value:.3g}", quote=False)
            yield (
                f'<rect x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" width="{wide - 1:.1f}" height="{tall - 1:.1f}" '
                f'fill="{colour}"><title>{said}</title></rect>'
            )
            if trace["numbers"] and size >= 5:
                ink = f' font-size="{size:.1f}" fill="{"#000" if _is_light(colour) else "#fff"}"'
                # the cell below keeps the pointer: it holds the title
                ink += ' pointer-events="none"'
                yield text(f"{value:.2f}", x + wide / 2, y + tall / 2 + 4, anchor="middle", more=ink)


def _is_light(colour: str) -> bool:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue > 140


def _image(trace: dict[str, Any], area: Area) -> Iterator[str]:
    yield (
        f'<image href="{escape(trace["source"])}" x="{area.left:.1f}" y="{area.top:.1f}" '
        f'width="{area.width:.1f}" height="{area.height:.1f}" preserveAspectRatio="none" '
        'style="image-rendering:pixelated"/>'
    )


def _cross(trace: dict[str, Any], area: Area) -> Iterator[str]:
    """Boxes with a diagonal, in pixels of the picture that they lie on."""
    yield f'<g fill="transparent" stroke="{CROSS}" stroke-width="2">'
    for (x, y, wide, tall), said in zip(trace["boxes"], trace["text"], strict=True):
        left, top = area.left + x, area.top + y
        path = f"M{left:g} {top:g}h{wide}v{tall}h{-wide}zl{wide} {tall}"
        yield f'<path d="{path}"><title>{escape(said, quote=False)}</title></path>'
    yield "</g>"


_DRAWN: dict[str, Callable[[dict[str, Any], Area], Iterator[str]]] = {
    "scatter": _scatter,
    "bar": _bars,
    "heatmap": _heatmap,
    "image": _image,
    "cross": _cross,
}
