"""What a plot is before anybody draws it: a plain description, words for it, and the table behind it."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firstlight._internal.result import Result
from firstlight._internal.table import Row

MOST_NAMES = 12  # that are legible on an axis


@dataclass(frozen=True, kw_only=True)
class Frame(Result):
    """One moment of a figure that runs through time.

    Parameters
    ----------
    label : str
        When it is, as the reader should see it.
    data : tuple of dict of str to object
        What it replaces in every trace.
    """

    label: str
    data: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Sprite(Result):
    """Small pictures of equal size in one image, one for each point of the horizontal axis.

    Parameters
    ----------
    source : str
        The image as a `data:` address.
    n, columns : int
        How many there are, and how many in a row.
    name : str
        What one of them is called, such as "component".
    """

    source: str
    n: int
    columns: int
    name: str

    @property
    def rows(self) -> int:
        """Rows of pictures."""
        return -(-self.n // self.columns)


@dataclass(frozen=True, kw_only=True)
class KeyEntry(Result):
    """How one series looks: a line of the key.

    Parameters
    ----------
    name : str
        As the reader should see it.
    colour, dash : str
        As in :data:`firstlight.pages.figures.style.ROLES`.
    mark : str
        "line", "dot", "ring" or "bar".
    traces : tuple of int
        Which traces of the plot belong to it.
    """

    name: str
    colour: str
    dash: str
    mark: str
    traces: tuple[int, ...]


SMALL_WIDTH = 300  # as wide as a finding on the first screen


@dataclass(frozen=True, kw_only=True)
class Figure(Result):
    """A figure with everything a reader needs, drawn by the report or shown in a notebook.

    Parameters
    ----------
    plot : dict of str to object
        `data`, a list of traces, and `layout`, as plain values that can be stored. A trace has a `type`
        ("scatter", "bar", "heatmap" or "image") and what :func:`firstlight.pages.figures.svg.svg` needs to draw it; the
        layout has a `height` and the settings of `xaxis` and `yaxis`.
    title : str
        What it shows, in a few words.
    alt : str
        What a person who cannot see it should know.
    table : dict of str to list of object
        The numbers behind it, one list per column, all of one length.
    frames : tuple of Frame, default ()
        Moments for a slider; `plot` is the last of them.
    sprite : Sprite, optional
        Pictures of the points of the horizontal axis.
    """

    plot: dict[str, Any]
    title: str
    alt: str
    table: dict[str, list[Any]] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()
    sprite: Sprite | None = None

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.table.values()}
        assert len(lengths) <= 1, f"columns of different length: {lengths}"

    def _rows(self) -> list[Row]:
        """Rows of the table behind it."""
        return [dict(zip(self.table, row, strict=True)) for row in zip(*self.table.values(), strict=True)]

    def to_matplotlib(self, ax: Any = None) -> Any:
        """Draw it with matplotlib, from the extra ``plot``, on given axes or on new ones, and return them.

        Of a figure that runs through time the last moment.
        """
        from firstlight.pages.figures.matplotlib_axes import draw_on_axes

        return draw_on_axes(self, ax)

    def save(self, path: str | Path) -> Path:
        """Write it as ``.svg``, or with the extra ``plot`` as ``.pdf`` or ``.png``, and return the file."""
        from firstlight.pages.figures.matplotlib_axes import write_figure

        return write_figure(self, path)

    def at(self, frame: Frame) -> dict[str, Any]:
        """Return the plot as it is at a moment."""
        pairs = zip(self.plot["data"], frame.data, strict=True)
        return {**self.plot, "data": [{**trace, **change} for trace, change in pairs]}

    def key(self) -> tuple[KeyEntry, ...]:
        """Return what distinguishes the series, empty if there is only one."""
        groups: dict[str, list[int]] = {}
        for index, trace in enumerate(self.plot["data"]):
            if name := trace.get("group") or trace.get("name"):
                groups.setdefault(name, []).append(index)
        named = [
            (name, *_look(self.plot["data"][indices[-1]]), tuple(indices)) for name, indices in groups.items()
        ]
        entries = tuple(KeyEntry(name=n, colour=c, dash=d, mark=m, traces=t) for n, c, d, m, t in named)
        return entries if len(entries) > 1 else ()

    def with_columns(self, columns: Mapping[str, Sequence[Any]]) -> "Figure":
        """Return the figure with more columns in its table.

        Examples
        --------
        >>> Figure(plot={}, title="t", alt="a", table={"x": [1]}).with_columns({"y": [2]}).table
        {'x': [1], 'y': [2]}
        """
        added = {name: list(values) for name, values in columns.items()}
        return dataclasses.replace(self, table={**self.table, **added})

    def with_names(self, names: Sequence[str]) -> "Figure":
        """Return curves whose points have names: under the pointer, in the table, and on the axis while there are few.

        Parameters
        ----------
        names : sequence of str
            What stands at each point of the horizontal axis, such as a layer.

        Examples
        --------
        >>> plot = {"data": [{"type": "scatter", "x": [1.0], "y": [2.0]}], "layout": {"xaxis": {"title": "layer"}}}
        >>> Figure(plot=plot, title="t", alt="a", table={"layer": [1.0]}).with_names(["stem"]).table
        {'name': ['stem'], 'layer': [1.0]}
        """
        data = [trace if "fill" in trace else {**trace, "text": list(names)} for trace in self.plot["data"]]
        layout = self.plot["layout"]
        places = next(trace["x"] for trace in data if "fill" not in trace)
        every = -(-len(names) // MOST_NAMES)
        words = names if every == 1 else [f"{place:g}" for place in places]
        ticks = {"tickvals": list(places)[::every], "ticktext": list(words)[::every]}
        layout = {**layout, "xaxis": {**layout["xaxis"], **ticks}}
        table = {"name": list(names), **self.table}
        return dataclasses.replace(self, plot={**self.plot, "data": data, "layout": layout}, table=table)

    def small(self) -> "Figure":
        """Return the figure drawn for a narrow place, where letters of a wide one would shrink.

        Examples
        --------
        >>> Figure(plot={"data": [], "layout": {}}, title="t", alt="a").small().plot["layout"]
        {'width': 300}
        """
        return dataclasses.replace(
            self, plot={**self.plot, "layout": {**self.plot["layout"], "width": SMALL_WIDTH}}
        )

    def _repr_html_(self) -> str:
        from firstlight.pages.figures.svg import svg

        return svg(self)


def _look(trace: dict[str, Any]) -> tuple[str, str, str]:
    """Colour, dash and mark of a trace."""
    line, marker = trace.get("line", {}), trace.get("marker", {})
    if trace["type"] == "bar":
        return marker["colour"], "solid", "bar"
    if "lines" in trace.get("mode", ""):
        return line["colour"], line.get("dash", "solid"), "line"
    return marker["colour"], "solid", "ring" if marker.get("open") else "dot"
