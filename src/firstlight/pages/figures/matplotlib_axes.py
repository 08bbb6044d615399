"""Our figures on matplotlib's axes, for papers and for figures with something of the user's own beside them."""

import base64
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from firstlight._internal.errors import InvalidInput
from firstlight._internal.files import whole_file
from firstlight._internal.optional import optional_module
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.svg import svg
from firstlight.pages.figures.svg_marks import CROSS

_DASHES = {"solid": "-", "dash": "--", "dot": ":"}
_FORMATS = (".svg", ".pdf", ".png")
_INCH = 100  # of our pixels, so that letters of 10 points stand as on a page


def draw_on_axes(figure: Figure, ax: Any = None) -> Any:
    """Draw a figure on matplotlib's axes, new ones by default, and return them."""
    if ax is None:
        pyplot = optional_module("matplotlib.pyplot", extra="plot", purpose="`Figure.to_matplotlib`")
        ax = pyplot.subplots(figsize=_size(figure), layout="constrained")[1]
    plot = figure.plot
    # rows: what a trace has along x runs down
    is_turned = bool(plot["layout"].get("rows"))
    for trace in plot["data"]:
        _DRAWN[trace["type"]](ax, trace, is_turned)
    across, down = ("yaxis", "xaxis") if is_turned else ("xaxis", "yaxis")
    _set_axis(ax, "x", plot["layout"].get(across, {}))
    _set_axis(ax, "y", plot["layout"].get(down, {}))
    if is_turned:
        ax.invert_yaxis()
    ax.set_title(figure.title)
    if figure.key():
        ax.legend(frameon=False)
    return ax


def write_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure in the format that the ending of `path` names, whole or not at all."""
    path = Path(path)
    if path.suffix.lower() not in _FORMATS:
        raise InvalidInput(f"`path` must end in {', '.join(_FORMATS)}; got {path.name!r}.")
    if path.suffix.lower() == ".svg":
        content = svg(figure).encode()
    else:
        drawn = optional_module("matplotlib.figure", extra="plot", purpose=f"a figure as {path.suffix}")
        # no figure of pyplot: nothing stays open, and no window is needed
        sheet, buffer = drawn.Figure(figsize=_size(figure), layout="constrained"), io.BytesIO()
        draw_on_axes(figure, sheet.subplots())
        # no date in the file: the same figure is the same bytes
        metadata = {"CreationDate": None} if path.suffix.lower() == ".pdf" else {}
        sheet.savefig(buffer, format=path.suffix[1:].lower(), dpi=200, metadata=metadata)
        content = buffer.getvalue()
    with whole_file(path) as part:
        part.write_bytes(content)
    return path


def _size(figure: Figure) -> tuple[float, float]:
    layout = figure.plot["layout"]
    if (
        layout.get("yaxis", {}).get("visible") is False
    ):  # pictures: as they are wide and high, below their title
        width, height = layout["xaxis"]["range"][1], layout["yaxis"]["range"][0]
        return 6.4, 6.4 * height / width + 0.4
    rows = len(figure.plot["data"][0].get("x", ())) if layout.get("rows") else 0
    return 6.4, max(float(layout.get("height", 360)), 80 + 22 * rows) / _INCH


def _scatter(ax: Any, trace: dict[str, Any], is_turned: bool) -> None:
    x, y = _placed(trace["x"], trace["y"], is_turned)
    if "fill" in trace:
        ax.fill(x, y, color=_colour(trace["fill"]), linewidth=0)
        return
    marker, pen = trace.get("marker", {}), trace.get("line", {})
    colour = pen.get("colour", marker.get("colour"))
    has_line, has_marks = ("lines" in trace["mode"], "markers" in trace["mode"])
    ax.plot(
        x, y,
        color=colour,
        alpha=trace.get("opacity", 1.0),
        linestyle=_DASHES[pen.get("dash", "solid")] if has_line else "none",
        linewidth=0.6 * pen.get("width", 2.5),
        marker="o" if has_marks else None,
        markersize=0.75 * marker.get("size", 5),
        fillstyle="none" if marker.get("open") else "full",
        label=trace.get("name"),
    )  # fmt: skip
    ends = trace.get("range")
    if ends and ends["visible"]:
        lengths = np.array([[_number(v) for v in ends[side]] for side in ("down", "up")])
        ax.errorbar(
            x, y, fmt="none", ecolor=colour, elinewidth=1.0, **{("xerr" if is_turned else "yerr"): lengths}
        )


def _bars(ax: Any, trace: dict[str, Any], is_turned: bool) -> None:
    tall = [_number(v) for v in trace["y"]]
    base = [_number(v) for v in trace.get("base") or [0.0] * len(tall)]
    draw, thick = (ax.barh, "height") if is_turned else (ax.bar, "width")
    start = {"left" if is_turned else "bottom": base, thick: trace.get("width", 0.8)}
    draw(trace["x"], tall, color=_colour(trace["marker"]["colour"]), label=trace.get("name"), **start)


def _heatmap(ax: Any, trace: dict[str, Any], is_turned: bool) -> None:
    colours = optional_module("matplotlib.colors", extra="plot", purpose="`Figure.to_matplotlib`")
    scale = colours.LinearSegmentedColormap.from_list("firstlight", trace["colours"])
    values = np.array(trace["z"], dtype=float)
    drawn = ax.imshow(values, cmap=scale, vmin=trace["zmin"], vmax=trace["zmax"], aspect="auto")
    ax.set_xticks(range(len(trace["x"])), trace["x"], rotation=45, ha="right")
    ax.set_yticks(range(len(trace["y"])), trace["y"])
    if not trace["numbers"]:
        ax.figure.colorbar(drawn, ax=ax)
        return
    for (i, j), value in np.ndenumerate(values):
        if math.isfinite(value):
            light = sum(scale(drawn.norm(value))[:3]) > 1.6
            ax.text(j, i, f"{value:.2f}", ha="center", va="center", color="black" if light else "white")


def _image(ax: Any, trace: dict[str, Any], is_turned: bool) -> None:
    picture = Image.open(io.BytesIO(base64.b64decode(trace["source"].partition(",")[2])))
    width, height = picture.size
    # our own pixels of the mosaic, in which crosses are given too
    ax.imshow(np.asarray(picture), extent=(0, width, height, 0), interpolation="nearest")
    ax.set_axis_off()


def _cross(ax: Any, trace: dict[str, Any], is_turned: bool) -> None:
    for x, y, wide, tall in trace["boxes"]:
        ax.plot([x, x + wide, x + wide, x, x, x + wide], [y, y, y + tall, y + tall, y, y + tall], color=CROSS)


def _set_axis(ax: Any, letter: str, settings: dict[str, Any]) -> None:
    if settings.get("visible") is False:
        return
    if title := settings.get("title"):
        ax.set(**{f"{letter}label": title})
    is_log = settings.get("type") == "log"
    if is_log:
        ax.set(**{f"{letter}scale": "log"})
    if "tickvals" in settings:
        ticks = getattr(ax, f"set_{letter}ticks")
        words = list(map(str, settings["ticktext"]))
        slant = {"rotation": 45, "ha": "right"} if letter == "x" and sum(map(len, words)) > 60 else {}
        ticks(list(settings["tickvals"]), words, **slant)
    if "range" in settings:
        low, high = settings["range"]
        ax.set(**{f"{letter}lim": (10.0**low, 10.0**high) if is_log else (low, high)})


def _placed(x: Sequence[Any], y: Sequence[Any], is_turned: bool) -> tuple[list[float], list[float]]:
    across, down = [_number(v) for v in x], [_number(v) for v in y]
    return (down, across) if is_turned else (across, down)


def _number(value: Any) -> float:
    """Gaps as matplotlib knows them."""
    return math.nan if value is None else float(value)


def _colour(words: str) -> Any:
    """``#rrggbb`` as it is, ``rgba(...)`` as four shares of one."""
    if not words.startswith("rgba("):
        return words
    *rgb, alpha = map(float, words[5:-1].split(","))
    return (*(v / 255 for v in rgb), alpha)


_DRAWN = {"scatter": _scatter, "bar": _bars, "heatmap": _heatmap, "image": _image, "cross": _cross}
