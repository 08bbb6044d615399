"""Our figures as plain SVG: for pages without scripts, for print, for notebooks.

Only what our builders use is drawn: lines with bands, points with ranges, floating bars, matrices, pictures. Text has
the colour of its surroundings, so that it reads on light and on dark ground.
"""

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from firstlight.figures.figure import Figure, Frame
from firstlight.figures.scale import Scale, scale_of
from firstlight.figures.style import FONT, scale_colour

WIDTH = 480  # narrow enough that letters stay legible when a phone shrinks it
LETTER = 6.6  # mean width of a letter at the size used, in pixels
DASHES = {"solid": "", "dash": "7 5", "dot": "2 4"}


@dataclass(frozen=True)
class _Frame:
    """The rectangle that the data fill, and how values become pixels."""

    x: Scale
    y: Scale
    left: float
    top: float
    width: float
    height: float

    def across(self, value: Any) -> float:
        return self.left + self.width * self.x.place(value)

    def down(self, value: Any) -> float:
        return self.top + self.height * (1 - self.y.place(value))


def svg(figure: Figure, *, frame: Frame | None = None) -> str:
    """Draw a figure, at one moment if it has several.

    Parameters
    ----------
    figure : Figure
        Made by any of our builders.
    frame : Frame, optional
        One of its frames; the last by default.

    Examples
    --------
    >>> import torch
    >>> from firstlight.figures import heatmap
    >>> svg(heatmap(torch.eye(2), rows="ab", columns="cd", title="t", alt="a"))[:26]
    '<svg class="figure" role="'
    """
    plot = figure.plot if frame is None else figure.at(frame)
    is_picture = any(trace["type"] == "image" for trace in plot["data"])
    frame_ = _picture_frame(plot) if is_picture else _plot_frame(plot)
    parts = [] if is_picture else list(_grid(frame_, plot["layout"]))
    for trace in plot["data"]:
        parts += _DRAWN[trace["type"]](trace, frame_)
    parts += _labels(frame_, plot["layout"], is_picture)
    bottom = frame_.top + frame_.height + (0 if is_picture else _below(frame_.x, plot["layout"]))
    width = frame_.left + frame_.width if is_picture else WIDTH
    size = 12 * (_enlarged(frame_.width) if is_picture else 1)
    name = figure.alt if frame is None else f"{figure.alt} ({frame.label})"
    return (
        f'<svg class="figure" role="img" aria-label="{escape(name)}" viewBox="0 0 {width:.0f} {bottom:.0f}" '
        f'width="{width:.0f}" font-family="{escape(FONT)}" font-size="{size:.0f}" fill="currentColor" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


# ---------------------------------------------------------------- where things go


def _plot_frame(plot: dict[str, Any]) -> _Frame:
    layout = plot["layout"]
    x, y = (scale_of(plot, letter) for letter in "xy")
    left = 14 + LETTER * max((len(_short(text)) for _, text in y.ticks), default=0)
    top = 26.0 if layout["yaxis"].get("title", {}).get("text") else 10.0
    if any(trace["type"] == "heatmap" for trace in plot["data"]):
        height = 26.0 * max(len(y.names), 2)
    else:
        height = 0.66 * min(float(layout.get("height", 360)), 400.0)
    return _Frame(x, y, left, top, WIDTH - left - 14, height)


def _picture_frame(plot: dict[str, Any]) -> _Frame:
    """Pictures at their natural size, with room for the names of rows if there are any."""
    x, y = (scale_of(plot, letter) for letter in "xy")
    width, height = abs(x.high - x.low), abs(y.high - y.low)
    letters = max((len(text) for _, text in y.ticks), default=0)
    left = (12 + LETTER * letters) * _enlarged(width) if letters else 0.0
    return _Frame(x, y, left, 0.0, width, height)


def _enlarged(width: float) -> float:
    """Factor by which the letters of a wide picture grow, so that they are legible when it shrinks."""
    return max(1.0, width / WIDTH)


def _is_slanted(x: Scale) -> bool:
    longest = max((len(text) for _, text in x.ticks), default=0)
    return longest * LETTER > (WIDTH - 60) / max(len(x.ticks), 1)


def _below(x: Scale, layout: dict[str, Any]) -> float:
    longest = max((len(text) for _, text in x.ticks), default=0)
    names = 12 + min(longest, 24) * LETTER * 0.8 if _is_slanted(x) else 20.0
    lines = _wrapped(layout["xaxis"].get("title", {}).get("text", ""))
    return names + 16 * len(lines) + 6


def _short(text: str) -> str:
    return text if len(text) <= 25 else text[:24] + "…"


def _wrapped(text: str, width: int = 62) -> list[str]:
    return textwrap.wrap(text, width) if text else []


# ---------------------------------------------------------------- axes


def _grid(frame: _Frame, layout: dict[str, Any]) -> Iterator[str]:
    for letter, scale in (("x", frame.x), ("y", frame.y)):
        if scale.names or layout[f"{letter}axis"].get("showgrid") is False:
            continue
        for value, _ in scale.ticks:
            ends = (
                (frame.across(value), frame.top, frame.across(value), frame.top + frame.height)
                if letter == "x"
                else (frame.left, frame.down(value), frame.left + frame.width, frame.down(value))
            )
            yield _line(*ends, stroke="currentColor", opacity=0.15)


def _labels(frame: _Frame, layout: dict[str, Any], is_picture: bool) -> Iterator[str]:
    floor = frame.top + frame.height
    for value, text in frame.y.ticks:
        yield _text(_short(text), frame.left - 6, frame.down(value) + 4, anchor="end")
    if is_picture:
        return
    slanted = _is_slanted(frame.x)
    for value, text in frame.x.ticks:
        x = frame.across(value)
        if slanted:
            turn = f' transform="rotate(-50 {x:.1f} {floor + 14:.1f})"'
            yield _text(_short(text), x, floor + 14, anchor="end", more=turn)
        else:
            yield _text(text, x, floor + 17, anchor="middle")
    title = layout["yaxis"].get("title", {}).get("text")
    if title:
        yield _text(title, 4, 14, anchor="start", more=' opacity="0.75"')
    lines = _wrapped(layout["xaxis"].get("title", {}).get("text", ""))
    start = floor + _below(frame.x, layout) - 16 * len(lines)
    for row, line in enumerate(lines):
        middle = frame.left + frame.width / 2
        yield _text(line, middle, start + 16 * row + 6, anchor="middle", more=' opacity="0.75"')


def _text(text: str, x: float, y: float, *, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, *, stroke: str, opacity: float = 1.0) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{escape(stroke)}" opacity="{opacity:g}"/>'


# ---------------------------------------------------------------- traces


def _points(trace: dict[str, Any], frame: _Frame) -> list[tuple[float, float]]:
    pairs = zip(trace["x"], trace["y"], strict=True)
    return [(frame.across(x), frame.down(y)) for x, y in pairs if frame.x.holds(x) and frame.y.holds(y)]


def _scatter(trace: dict[str, Any], frame: _Frame) -> Iterator[str]:
    points = _points(trace, frame)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    opacity = f'opacity="{trace.get("opacity", 1):g}"'
    if trace.get("fill") == "toself":
        yield f'<polygon points="{path}" fill="{escape(trace["fillcolor"])}"/>'
        return
    if "lines" in trace["mode"]:
        line = trace["line"]
        dash = DASHES[line.get("dash", "solid")]
        yield (
            f'<polyline points="{path}" fill="none" stroke="{escape(line["color"])}" '
            f'stroke-width="{0.8 * line["width"]:g}" stroke-dasharray="{dash}" {opacity}/>'
        )
    if "markers" in trace["mode"]:
        yield from _markers(trace, frame, points)


def _markers(trace: dict[str, Any], frame: _Frame, points: list[tuple[float, float]]) -> Iterator[str]:
    marker = trace["marker"]
    colour = escape(marker["color"])
    bars = trace.get("error_y", {})
    if bars.get("visible"):
        for x, y, up, down in zip(trace["x"], trace["y"], bars["array"], bars["arrayminus"], strict=True):
            ends = [v for v in (y - down, y + up) if frame.y.holds(v)] if None not in (y, up, down) else []
            if len(ends) == 2:
                across = frame.across(x)
                yield _line(across, frame.down(ends[0]), across, frame.down(ends[1]), stroke=colour)
    paint = (
        f'fill="none" stroke="{colour}" stroke-width="1.4"'
        if "open" in marker.get("symbol", "")
        else f'fill="{colour}"'
    )
    for x, y in points:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{0.38 * marker["size"]:g}" {paint}/>'


def _bars(trace: dict[str, Any], frame: _Frame) -> Iterator[str]:
    colour = escape(trace["marker"]["color"])
    half = trace.get("width", 0.8) / 2
    base = trace.get("base") or [0.0] * len(trace["x"])
    for x, tall, low in zip(trace["x"], trace["y"], base, strict=True):
        if tall is None or low is None or not (frame.y.holds(low) and frame.y.holds(low + tall)):
            continue
        left, right = frame.across(x - half), frame.across(x + half)
        top, bottom = sorted((frame.down(low), frame.down(low + tall)))
        size = f'width="{right - left:.1f}" height="{max(bottom - top, 1):.1f}"'
        yield f'<rect x="{left:.1f}" y="{top:.1f}" {size} fill="{colour}"/>'


def _heatmap(trace: dict[str, Any], frame: _Frame) -> Iterator[str]:
    colours = tuple(colour for _, colour in trace["colorscale"])
    low, high = trace["zmin"], trace["zmax"]
    wide, tall = frame.width / len(trace["x"]), frame.height / len(trace["y"])
    size = min(11.0, wide / 3.2)
    for i, row in enumerate(trace["z"]):
        for j, value in enumerate(row):
            if value is None or not math.isfinite(value):
                continue
            x, y = frame.left + j * wide, frame.top + i * tall
            colour = scale_colour((value - low) / ((high - low) or 1), colours)
            yield (
                f'<rect x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" width="{wide - 1:.1f}" height="{tall - 1:.1f}" '
                f'fill="{colour}"><title>{value:.3g}</title></rect>'
            )
            if trace.get("texttemplate") and size >= 5:
                ink = f' font-size="{size:.1f}" fill="{"#000" if _is_light(colour) else "#fff"}"'
                yield _text(f"{value:.2f}", x + wide / 2, y + tall / 2 + 4, anchor="middle", more=ink)


def _is_light(colour: str) -> bool:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue > 140


def _image(trace: dict[str, Any], frame: _Frame) -> Iterator[str]:
    yield (
        f'<image href="{escape(trace["source"])}" x="{frame.left:.1f}" y="{frame.top:.1f}" '
        f'width="{frame.width:.1f}" height="{frame.height:.1f}" preserveAspectRatio="none" '
        'style="image-rendering:pixelated"/>'
    )


_DRAWN = {"scatter": _scatter, "bar": _bars, "heatmap": _heatmap, "image": _image}
