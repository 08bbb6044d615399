"""A figure on its way to the page: what is drawn, what a slider puts in its place, what the table says."""

import base64
import re
from dataclasses import dataclass
from typing import Any

from firstlight._internal.safe_text import csv_text
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.svg import moving_parts, svg

N_MOMENTS = 4  # of a figure with a slider, where there is no slider


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One figure, ready for the template.

    Parameters
    ----------
    number : int
        Its place on the page.
    figure : Figure
        What is drawn.
    drawn : tuple of tuple of 2 str
        Label and SVG: one, or several moments side by side where there is no slider.
    moments : tuple of tuple of 2 str
        Label and changing parts of every frame, for a slider; empty without frames and on static pages.
    """

    number: int
    figure: Figure
    drawn: tuple[tuple[str, str], ...]
    moments: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, figure: Figure, number: int, static: bool) -> "Drawing":
        """Draw a figure."""
        if not static or not figure.frames:
            labels = [frame.label for frame in figure.frames]
            moments = () if static else tuple(zip(labels, moving_parts(figure), strict=True))
            return cls(number=number, figure=figure, drawn=(("", svg(figure)),), moments=moments)
        last = len(figure.frames) - 1
        chosen = sorted({round(i * last / (N_MOMENTS - 1)) for i in range(N_MOMENTS)})
        frames = [figure.frames[i] for i in chosen]
        drawn = tuple((frame.label, svg(figure, frame=frame)) for frame in frames)
        return cls(number=number, figure=figure, drawn=drawn)

    @property
    def is_picture(self) -> bool:
        """Whether it shows pictures, which keep their size."""
        return any(trace["type"] == "image" for trace in self.figure.plot["data"])

    @property
    def file_name(self) -> str:
        """Name for the table when it is downloaded.

        Examples
        --------
        >>> figure = Figure(plot={}, title="A / b?", alt="")
        >>> Drawing(number=1, figure=figure, drawn=()).file_name
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
        """The table in full precision, as an address that holds it whole."""
        text = csv_text(self.figure.table).encode()
        return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text).decode()


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
