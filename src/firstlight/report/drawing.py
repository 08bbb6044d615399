"""A figure on its way to the page: what the browser draws, what stands as SVG, what the table says."""

import base64
import csv
import io
import json
import math
import re
from dataclasses import dataclass
from typing import Any

from firstlight.figures import Figure, svg

N_MOMENTS = 4  # of a figure with a slider, where there is no slider
TEXT_KEYS = ("name", "text", "x", "y", "ticktext", "title")


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One figure, ready for the template.

    Parameters
    ----------
    number : int
        Its place on the page.
    figure : Figure
        What is drawn.
    plot : dict of str to object or None
        For the script; None where the SVG stands alone.
    pictures : tuple of tuple of 2 str
        SVG with a caption each, empty where a script draws.
    is_picture : bool
        Whether it shows pictures, which need no script.
    """

    number: int
    figure: Figure
    plot: dict[str, Any] | None
    pictures: tuple[tuple[str, str], ...]
    is_picture: bool

    @classmethod
    def of(cls, figure: Figure, number: int, static: bool) -> "Drawing":
        """Prepare a figure; pictures are always SVG, everything else only on a static page."""
        is_picture = any(trace["type"] == "image" for trace in figure.plot["data"])
        plot = None
        if not static and (not is_picture or figure.frames):
            frames = [{"label": frame.label, "data": list(frame.data)} for frame in figure.frames]
            plot = {**({} if is_picture else figure.plot), "frames": frames}
        pictures: tuple[tuple[str, str], ...] = ()
        if static and figure.frames:
            last = len(figure.frames) - 1
            chosen = sorted({round(i * last / (N_MOMENTS - 1)) for i in range(N_MOMENTS)})
            shown = [figure.frames[i] for i in chosen]
            pictures = tuple((frame.label, svg(figure, frame=frame)) for frame in shown)
        elif static or is_picture:
            pictures = (("", svg(figure)),)
        return cls(number=number, figure=figure, plot=plot, pictures=pictures, is_picture=is_picture)

    @property
    def file_name(self) -> str:
        """Name for the table when it is downloaded.

        Examples
        --------
        >>> Drawing.of(Figure(plot={"data": []}, title="A / b?", alt=""), 1, False).file_name
        '2-a-b.csv'
        """
        words = re.sub(r"[^a-z0-9]+", "-", self.figure.title.lower()).strip("-")[:50]
        return f"{self.number + 1}-{words}.csv"

    @property
    def rows(self) -> list[list[str]]:
        """The table with four digits."""
        columns = [[_shown(value) for value in column] for column in self.figure.table.values()]
        return [list(row) for row in zip(*columns, strict=True)]

    @property
    def csv(self) -> str:
        """The table in full precision, as a `data:` address."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(_inert, self.figure.table))
        writer.writerows([_inert(v) for v in row] for row in zip(*self.figure.table.values(), strict=True))
        return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text.getvalue().encode()).decode()


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _inert(value: Any) -> Any:
    """Words that a spreadsheet would take for a formula get a quote in front."""
    return f"'{value}" if isinstance(value, str) and re.match(r"[=+@\t\r-]", value) else value


def script_json(value: Any) -> str:
    """JSON that is safe inside a script element, and whose words are no markup to Plotly."""
    text = json.dumps(_plain(value), allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _plain(value: Any, *, is_text: bool = False) -> Any:
    """Seven digits are enough for a screen; gaps where there is no number; words as words."""
    if isinstance(value, dict):
        return {k: _plain(v, is_text=k in TEXT_KEYS or (is_text and k == "text")) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v, is_text=is_text) for v in value]
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, str) and is_text:
        return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return value
