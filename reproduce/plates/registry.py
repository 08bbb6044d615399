"""A figure of a paper is a function here, with the axes, panels and order of the paper.

Three kinds of plates. `pictures` trains or loads small networks and draws what the paper shows; `reproduce plates`
keeps the result beside the ledger. `numbers` draws what the ledger recorded, again each time. A `study` shows its own
recorded figure, where that has the axes of the paper. What cannot be had is `absent`, with the reason in its place.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import torch

from firstlight._internal.errors import InvalidInput
from firstlight._internal.files import whole_file
from firstlight.pages.figures import Curve, Dots, Figure, curves, dots, svg
from firstlight.pages.figures.style import ROLES, SEQUENTIAL
from reproduce.entries import Entry

PAPERS = {
    "FirstLayer": (18, 4),
    "PCBias": (16, 1),
    "CNFA": (12, 0),
    "IdentityCrisis": (43, 1),
    "Linearized": (7, 2),
    "NewerPapers": (0, 0),
}
"""Numbers of figures and of tables of each paper."""

Panels = list[Figure]
"""Panels of a plate in their order; the title of each introduces it."""

Ledger = Mapping[str, Entry]
"""The counted entry of every recorded claim, by the claim."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How one figure or table of a paper is drawn.

    Parameters
    ----------
    paper, name : str
        Such as "PCBias" and "Figure 7".
    shows : str
        What a reader sees, in a sentence or two that need no paper beside them.
    pictures : callable, optional
        Makes the panels from networks; its result is kept in a file.
    numbers : callable, optional
        Makes the panels from the ledger.
    study : str
        Name of the study whose recorded figure it is; it serves no other plate.
    absent : str
        Why nothing can be drawn.
    """

    paper: str
    name: str
    shows: str
    pictures: Callable[[], Panels] | None = None
    numbers: Callable[[Ledger], Panels] | None = None
    study: str = ""
    absent: str = ""

    @property
    def status(self) -> str:
        """How it is drawn, in words."""
        if self.absent:
            return f"cannot be had: {self.absent}"
        if self.pictures:
            return "pictures"
        return "numbers of the ledger" if self.numbers else "figure of its study"

    def file(self, folder: Path) -> Path:
        """Where the panels of a plate with pictures are kept: one file, one SVG a line."""
        return folder / "plates" / f"{self.paper}-{self.name.replace(' ', '-')}.svg"


_DRAWINGS: dict[tuple[str, str], Drawing] = {}


@cache
def drawings() -> dict[tuple[str, str], Drawing]:
    """Every plate by paper and name; a file of this folder registers its own when it is imported."""
    package = importlib.import_module("reproduce.plates")
    for file in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(file.name)
    return _DRAWINGS


F = TypeVar("F", bound=Callable[..., Panels])


class Plates:
    """Registers the plates of one paper; the docstring of a function that draws is what the reader is told."""

    def __init__(self, paper: str) -> None:
        self.paper = paper

    def add(self, name: str, shows: str, **how: Any) -> None:
        """Register a plate; the keywords are those of :class:`Drawing`."""
        key = (self.paper, name)
        assert key not in _DRAWINGS, f"{key} is drawn twice"
        _DRAWINGS[key] = Drawing(paper=self.paper, name=name, shows=shows, **how)

    def pictures(self, name: str, further: str = "") -> Callable[[F], F]:
        """Register a function that makes the panels from networks; `further` goes on with what it says."""
        return self._register(name, "pictures", further)

    def numbers(self, name: str) -> Callable[[F], F]:
        """Register a function that makes the panels from the ledger."""
        return self._register(name, "numbers")

    def _register(self, name: str, kind: str, further: str = "") -> Callable[[F], F]:
        def register(draw: F) -> F:
            words = " ".join((draw.__doc__ or "").split())
            self.add(name, f"{words.removesuffix('.')}; {further}." if further else words, **{kind: draw})
            return draw

        return register


# ---------------------------------------------------------------- plates with pictures, kept in files


def keep(drawing: Drawing, folder: Path) -> Path:
    """Make a plate with pictures and write its panels, whole or not at all."""
    assert drawing.pictures is not None, f"{drawing.name} has no pictures to make"
    path = drawing.file(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{figure.title}\t{drawn(figure)}" for figure in drawing.pictures()]
    with whole_file(path) as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def kept(drawing: Drawing, folder: Path) -> dict[str, str]:
    """Panels of a plate with pictures as SVG by title; empty if it was not made yet."""
    path = drawing.file(folder)
    if not path.exists():
        return {}
    rows = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    if any(len(row) != 2 for row in rows):
        raise InvalidInput(f"{path} is damaged. `reproduce plates` writes it again.")
    return {title: drawn for title, drawn in rows}


# ---------------------------------------------------------------- keys

KEY_ROW, KEY_WIDE = 18, 6.6  # pixels: height of a row, width of a letter


def drawn(figure: Figure) -> str:
    """The SVG of a figure with its key below: an image in a page has nothing else that names its series."""
    return with_key(svg(figure), [(entry.name, entry.colour) for entry in figure.key()])


def with_key(picture: str, entries: Sequence[tuple[str, str]]) -> str:
    """Add names in their colours below an SVG of our own drawing, as many in a row as fit.

    Examples
    --------
    >>> with_key('<svg viewBox="0 0 100 50" width="100"></svg>', [("a", "#000000")])[:32]
    '<svg viewBox="0 0 100 68" width='
    """
    if not entries:
        return picture
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', picture)
    assert size, "an SVG of ours has a viewBox"
    width, height = int(size[1]), int(size[2])
    parts, x, row = [], 4.0, 0
    for name, colour in entries:
        wide = 26 + KEY_WIDE * len(name)
        if x > 4 and x + wide > width:
            x, row = 4.0, row + 1
        y = height + KEY_ROW * row + 12
        parts.append(
            f'<rect x="{x:.0f}" y="{y - 8}" width="14" height="8" fill="{escape(colour)}"/>'
            f'<text x="{x + 18:.0f}" y="{y}" font-size="12">{escape(name)}</text>'
        )
        x += wide
    whole = f'viewBox="0 0 {width} {height + KEY_ROW * (row + 1)}"'
    return picture.replace(size[0], whole, 1).removesuffix("</svg>") + "".join(parts) + "</svg>"


def key_of_study(drawn_names: Mapping[str, str] | str) -> list[tuple[str, str]]:
    """Names and colours of what a study declares to draw; families of curves name their order."""
    if isinstance(drawn_names, str):
        return [("the darker, the earlier in the order of the names", SEQUENTIAL[0])]
    return [(name, ROLES[role].colour) for name, role in drawn_names.items()]


# ---------------------------------------------------------------- plates from the ledger


def recorded_series(ledger: Ledger, claim: str, name: str) -> dict[str, dict[str, Any]]:
    """Estimates of one measurement by point; empty if the claim was not measured.

    Parameters
    ----------
    ledger : mapping of str to Entry
        By claim.
    claim, name : str
        Whose measurement, and how its study calls it.
    """
    if claim not in ledger:
        return {}
    rows = {**ledger[claim].measured, **ledger[claim].null}
    found = {label[len(name) + 2 :]: row for label, row in rows.items() if label.startswith(f"{name}, ")}
    return found or ({"": rows[name]} if name in rows else {})


@dataclass(frozen=True)
class Line:
    """One series of a plate: a measurement of the ledger, or what the paper reports.

    Parameters
    ----------
    name : str
        In the key.
    claim, measurement : str
        Where the ledger has it; empty for what the paper reports.
    role : str
        Colour, see :data:`firstlight.pages.figures.style.ROLES`.
    at : str
        Point under which a single number stands.
    reported : mapping of str to float
        Numbers of the paper by point.
    """

    name: str
    claim: str = ""
    measurement: str = ""
    role: str = "trained"
    at: str = ""
    reported: Mapping[str, float] | None = None

    def rows(self, ledger: Ledger) -> dict[str, tuple[float, float, float]]:
        """Middle, lowest and highest value by point."""
        if self.reported is not None:
            return {point: (value, value, value) for point, value in self.reported.items()}
        found = recorded_series(ledger, self.claim, self.measurement)
        return {point or self.at: _triple(row) for point, row in found.items()}


def reported(numbers: Mapping[str, float], what: str = "") -> Line:
    """What the paper reports, by point."""
    return Line(f"reported, {what}" if what else "reported", role="theory", reported=numbers)


def _triple(row: Mapping[str, Any]) -> tuple[float, float, float]:
    middle = float(row["mean"])
    low, high = (float(bound) for bound in row["interval"] or (middle, middle))
    return middle, low, high


def line_plate(ledger: Ledger, title: str, lines: list[Line], *, x: str = "", y: str) -> Figure:
    """Draw series over points: as curves if every point is a number, otherwise as points with their intervals.

    Where the paper reports numbers at points that did not run here, or the other way round, both stand at their own
    points. Lines without any number are left out.
    """
    told = {line.name: (line, rows) for line in lines if (rows := line.rows(ledger))}
    points = list(dict.fromkeys(point for _, rows in told.values() for point in rows))
    said: dict[str, Any] = {
        "title": title,
        "alt": f"{y} against {x or 'name'}: {', '.join(told)}",
        "x": x,
        "y": y,
    }
    shared = len({tuple(rows) for _, rows in told.values()}) == 1
    if x and shared and len(points) > 2 and all(map(_is_number, points)):
        series = [
            Curve(name=name, values=torch.tensor(list(rows.values()), dtype=torch.float64).mT, role=line.role)
            for name, (line, rows) in told.items()
        ]
        return curves(series, at=[float(point) for point in points], **said)
    if all(map(_is_number, points)):
        points.sort(key=float)
    nothing = (float("nan"),) * 3
    drawn = []
    for index, (name, (line, rows)) in enumerate(told.items()):
        middle, low, high = zip(*(rows.get(p, nothing) for p in points), strict=True)
        shift = 0.0 if line.role == "null" else 0.16 * (index - (len(told) - 1) / 2)
        drawn.append(Dots(name=name, middle=middle, low=low, high=high, role=line.role, shift=shift))
    return dots(points, drawn, **said)


def _is_number(point: str) -> bool:
    try:
        float(point)
    except ValueError:
        return False
    return True
