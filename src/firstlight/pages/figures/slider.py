"""Figures of one kind at several moments, joined into one that a slider runs through."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from firstlight.pages.figures.figure import Figure, Frame


def film(
    moments: Sequence[Figure], labels: Sequence[str], *, time: str, title: str, alt: str, tables: bool = True
) -> Figure:
    """Join figures that differ only in their numbers or pictures.

    Parameters
    ----------
    moments : sequence of Figure
        Made by the same builder from data of the same kind, in the order of time.
    labels : sequence of str
        When each of them is, such as "12".
    time : str
        What the labels count, such as "training step".
    title, alt : str
        Of the whole.
    tables : bool, default True
        Put the numbers of all moments into the table, else only the last.
    """
    last = moments[-1]
    frames = tuple(
        Frame(label=label, data=tuple(map(_change, last.plot["data"], moment.plot["data"])))
        for label, moment in zip(labels, moments, strict=True)
    )
    layout = dict(last.plot["layout"])
    if (limits := _limits(moments)) is not None and "range" not in layout["yaxis"]:
        layout["yaxis"] = {**layout["yaxis"], "range": limits}
    table = last.table
    if tables and table:
        sizes = [len(next(iter(m.table.values()))) for m in moments]
        when = [label for label, size in zip(labels, sizes, strict=True) for _ in range(size)]
        table = {time: when, **{name: [v for m in moments for v in m.table[name]] for name in table}}
    return dataclasses.replace(
        last, plot={**last.plot, "layout": layout}, title=title, alt=alt, table=table, frames=frames
    )


def _change(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What of a trace is not the same."""
    return {name: value for name, value in new.items() if old.get(name) != value}


def _limits(moments: Sequence[Figure]) -> list[float] | None:
    """One vertical range for all moments, so that growth is seen as growth."""
    frame = moments[-1].plot["layout"].get("yaxis", {})
    values = [
        v
        for m in moments
        for trace in m.plot["data"]
        if trace["type"] == "scatter"
        for v in trace["y"]
        if v is not None and (frame.get("type") != "log" or v > 0)
    ]
    if not values:
        return None
    low, high = min(values), max(values)
    if frame.get("type") == "log":
        low, high = math.log10(low), math.log10(high)
    room = 0.05 * (high - low) or 1.0
    return [low - room, high + room]
