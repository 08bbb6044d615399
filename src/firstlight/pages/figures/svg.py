"""Our figures as plain SVG: the one drawing behind pages, notebooks, print and documentation.

Only what our builders use is drawn: lines with bands, points with ranges, floating bars, matrices, pictures. Text has
the colour of its surroundings, so that it reads on light and on dark ground. Every trace is a group of its own and
every mark carries its value as a title: browsers show it by themselves, and a script can do better.
"""

import textwrap
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from typing import Any

from firstlight.pages.figures.axes import Area, Scale, scale_of
from firstlight.pages.figures.figure import Figure, Frame
from firstlight.pages.figures.style import FONT, scale_colour
from firstlight.pages.figures.svg_marks import line, marks, text

WIDTH = 480  # narrow enough that letters stay legible when a phone shrinks it
LETTER = 6.6  # mean width of a letter at the size used, in pixels
ROW = 18.0  # height of a row with a name


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
    >>> from firstlight.pages.figures import heatmap
    >>> svg(heatmap(torch.eye(2), rows="ab", columns="cd", title="t", alt="a"))[:26]
    '<svg class="figure" role="'
    """
    plot = figure.plot if frame is None else figure.at(frame)
    is_picture, area, layout = _is_picture(plot), _area(figure, plot), _drawn_layout(plot)
    parts = [] if is_picture else list(_grid(area, layout))
    parts += [_group(trace, index, area) for index, trace in enumerate(plot["data"])]
    parts += _labels(area, layout, is_picture)
    if not is_picture:
        parts += _colour_bar(plot)
    bottom = area.top + area.height + (0 if is_picture else _below(area.x, layout))
    width = area.left + area.width if is_picture else _width(plot)
    size = 12 * (_enlarged(area.width) if is_picture else 1)
    name = figure.alt if frame is None else f"{figure.alt} ({frame.label})"
    return (
        f'<svg class="figure" role="img" aria-label="{escape(name)}" viewBox="0 0 {width:.0f} {bottom:.0f}" '
        f'width="{width:.0f}" font-family="{escape(FONT)}" font-size="{size:.0f}" fill="currentColor" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def moving_parts(figure: Figure) -> tuple[str, ...]:
    """Draw what changes in a figure with frames, and nothing else: one string of groups per frame.

    A page puts them in the place of the groups of the same number. The last frame is left empty: it is what
    :func:`svg` draws.
    """
    moving = sorted({i for frame in figure.frames for i, change in enumerate(frame.data) if change})
    fragments = []
    for frame in figure.frames[:-1]:
        plot = figure.at(frame)
        area = _area(figure, plot)
        fragments.append("".join(_group(plot["data"][i], i, area) for i in moving))
    return (*fragments, "") if figure.frames else ()


def _group(trace: dict[str, Any], index: int, area: Area) -> str:
    return f'<g class="trace" data-trace="{index}">{"".join(marks(trace, area))}</g>'


# ---------------------------------------------------------------- where things go


def _is_picture(plot: dict[str, Any]) -> bool:
    return any(trace["type"] == "image" for trace in plot["data"])


def _area(figure: Figure, plot: dict[str, Any]) -> Area:
    is_numbered = figure.sprite is not None
    return _picture_area(plot) if _is_picture(plot) else _plot_area(plot, is_numbered)


def _drawn_layout(plot: dict[str, Any]) -> dict[str, Any]:
    """The layout with the axes that the drawing has: those of the traces, exchanged where columns become rows."""
    layout: dict[str, Any] = plot["layout"]
    if not layout.get("rows"):
        return layout
    return layout | {"xaxis": layout["yaxis"], "yaxis": layout["xaxis"]}


def _plot_area(plot: dict[str, Any], is_numbered: bool) -> Area:
    layout, rows = _drawn_layout(plot), plot["layout"].get("rows", False)
    x, y = (scale_of(plot, letter) for letter in ("yx" if rows else "xy"))
    if rows:
        y = replace(y, low=y.high, high=y.low)  # the first name stands on top
    left = 14 + LETTER * max((len(_short(word)) for _, word in y.ticks), default=0)
    has_bar = any(_needs_colour_bar(trace) for trace in plot["data"])
    top = 26.0 if layout["yaxis"].get("title") or has_bar else 10.0
    if any(trace["type"] == "heatmap" for trace in plot["data"]):
        height = 26.0 * max(len(y.names), 2)
    elif rows:
        height = ROW * abs(y.high - y.low)
    else:
        height = 0.66 * min(float(layout.get("height", 360)), 400.0)
    return Area(x, y, left, top, _width(plot) - left - 14, height, is_numbered, is_turned=rows)


def _width(plot: dict[str, Any]) -> float:
    return float(plot["layout"].get("width", WIDTH))


def _picture_area(plot: dict[str, Any]) -> Area:
    """Pictures at their natural size, with room for the names of rows if there are any."""
    x, y = (scale_of(plot, letter) for letter in "xy")
    width, height = abs(x.high - x.low), abs(y.high - y.low)
    letters = max((len(word) for _, word in y.ticks), default=0)
    left = (12 + LETTER * letters) * _enlarged(width) if letters else 0.0
    return Area(x, y, left, 0.0, width, height)


def _enlarged(width: float) -> float:
    """Factor by which the letters of a wide picture grow, so that they are legible when it shrinks."""
    return max(1.0, width / WIDTH)


def _is_slanted(x: Scale) -> bool:
    longest = max((len(word) for _, word in x.ticks), default=0)
    return longest * LETTER > (WIDTH - 60) / max(len(x.ticks), 1)


def _below(x: Scale, layout: dict[str, Any]) -> float:
    longest = max((len(word) for _, word in x.ticks), default=0)
    names = 12 + min(longest, 24) * LETTER * 0.8 if _is_slanted(x) else 20.0
    lines = _wrapped(layout["xaxis"].get("title", ""))
    return names + 16 * len(lines) + 6


def _short(words: str) -> str:
    return words if len(words) <= 25 else words[:24] + "…"


def _wrapped(words: str, width: int = 62) -> list[str]:
    return textwrap.wrap(words, width) if words else []


# ---------------------------------------------------------------- axes


def _grid(area: Area, layout: dict[str, Any]) -> Iterator[str]:
    for letter, scale in (("x", area.x), ("y", area.y)):
        if scale.names or layout[f"{letter}axis"].get("grid") is False:
            continue
        for value, _ in scale.ticks:
            ends = (
                (area.across(value), area.top, area.across(value), area.top + area.height)
                if letter == "x"
                else (area.left, area.down(value), area.left + area.width, area.down(value))
            )
            yield line(*ends, stroke="currentColor", opacity=0.15)


def _labels(area: Area, layout: dict[str, Any], is_picture: bool) -> Iterator[str]:
    floor = area.top + area.height
    for value, word in area.y.ticks:
        yield text(_short(word), area.left - 6, area.down(value) + 4, anchor="end")
    if is_picture:
        return
    slanted = _is_slanted(area.x)
    for value, word in area.x.ticks:
        x = area.across(value)
        if slanted:
            turn = f' transform="rotate(-50 {x:.1f} {floor + 14:.1f})"'
            yield text(_short(word), x, floor + 14, anchor="end", more=turn)
        else:
            half = LETTER * len(word) / 2
            # a name as long as the margin beyond the last place would be cut off
            yield text(word, min(x, area.left + area.width + 14 - half), floor + 17, anchor="middle")
    if title := layout["yaxis"].get("title"):
        yield text(title, 4, 14, anchor="start", more=' opacity="0.75"')
    rows = _wrapped(layout["xaxis"].get("title", ""))
    start = floor + _below(area.x, layout) - 16 * len(rows)
    for row, words in enumerate(rows):
        middle = area.left + area.width / 2
        yield text(words, middle, start + 16 * row + 6, anchor="middle", more=' opacity="0.75"')


def _needs_colour_bar(trace: dict[str, Any]) -> bool:
    return trace["type"] == "heatmap" and not trace["numbers"]


def _colour_bar(plot: dict[str, Any]) -> Iterator[str]:
    """What the colours of a matrix mean, at the top right, where its cells hold no numbers."""
    for trace in plot["data"]:
        if not _needs_colour_bar(trace):
            continue
        n, side, right = 12, 6, WIDTH - 14 - 40
        for i in range(n):
            colour = scale_colour(i / (n - 1), tuple(trace["colours"]))
            x = right - side * (n - i)
            yield f'<rect x="{x}" y="4" width="{side + 0.5}" height="10" fill="{colour}"/>'
        yield text(f"{trace['zmin']:.2g}", right - side * n - 4, 14, anchor="end")
        yield text(f"{trace['zmax']:.2g}", right + 4, 14, anchor="start")
