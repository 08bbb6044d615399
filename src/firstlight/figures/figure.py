"""What a plot is before anybody draws it: a Plotly description, words for it, and the table behind it."""

from dataclasses import dataclass, field
from typing import Any

from firstlight.core.result import Result


@dataclass(frozen=True, kw_only=True)
class Figure(Result):
    """A figure with everything a reader needs, drawn by the report.

    Parameters
    ----------
    plot : `data` and `layout` of Plotly, as plain values.
    title : what it shows, in a few words.
    alt : what a person who cannot see it should know.
    table : the numbers behind it, one list per column, all of one length.
    """

    plot: dict[str, Any]
    title: str
    alt: str
    table: dict[str, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.table.values()}
        assert len(lengths) <= 1, f"columns of different length: {lengths}"
