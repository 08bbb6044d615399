"""The atlas: every figure and table of the papers, plate by plate, with verdicts and the commands that make them."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from firstlight.pages.page import render_with, write_html
from reproduce.catalogue import Claim, claims, departures_text, studies, study_of
from reproduce.entries import Entry, Tally, figure_file, largest, versions
from reproduce.pages import TEMPLATES, contradiction, estimates_text, recorded
from reproduce.plates.registry import PAPERS, Drawing, drawings, drawn, kept, key_of_study, with_key
from reproduce.run import entry_not_run

TITLES = {
    "FirstLayer": "On Representation Learning in the First Layer of Deep CNNs and the Dynamics of Gradient Descent. "
    "Anonymous, under double-blind review",
    "PCBias": "G. Hacohen, D. Weinshall: Convergence Analysis of Over-parameterized Deep Linear Networks, and the "
    "Principal Components Bias, 2021, arXiv 2105.05553",
    "CNFA": "D. Beaglehole, A. Radhakrishnan, P. Pandit, M. Belkin: Mechanism of feature learning in convolutional "
    "neural networks, 2023, arXiv 2309.00570",
    "IdentityCrisis": "C. Zhang, S. Bengio, M. Hardt, M. C. Mozer, Y. Singer: Identity Crisis: Memorization and "
    "Generalization under Extreme Overparameterization, ICLR 2020, arXiv 1902.04698",
    "Linearized": "M. Samarin, V. Roth, D. Belius: Feature Learning and Random Features in Standard Finite-Width "
    "Convolutional Neural Networks: An Empirical Study, UAI 2022, PMLR 180:1718-1727",
    "NewerPapers": "Later papers, which docs/references.md lists",
}
"""The papers in full, by the short names that claims use."""

PLACE = re.compile(
    r"\b(Figs?\.|Figures?|Tables?)\s*((?:\d+[a-zA-Z]?(?:\s*-\s*[A-Za-z\d]+)?(?:,\s*|\s+and\s+)?)+)"
)


@dataclass(frozen=True, kw_only=True)
class Plate:
    """One figure or table of a paper, or the claims of its text.

    Parameters
    ----------
    paper, name : str
        Such as "PCBias" and "Figure 7"; the name of the text is "Text".
    claims : tuple of Claim
        What the paper states in it, as far as it can be checked.
    drawing : Drawing or None
        How it is drawn; None for the text.
    """

    paper: str
    name: str
    claims: tuple[Claim, ...]
    drawing: Drawing | None


def plates() -> list[Plate]:
    """Figures and tables of all papers, in order; then, for each paper, the claims of its text."""
    by_place: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims().values():
        for name in places(claim.source) or ["Text"]:
            by_place.setdefault((claim.paper, name), []).append(claim)
    listed = []
    for paper, (n_figures, n_tables) in PAPERS.items():
        names = [f"Figure {i}" for i in range(1, n_figures + 1)]
        names += [f"Table {i}" for i in range(1, n_tables + 1)]
        for name in [*names, "Text"]:
            named = tuple(by_place.get((paper, name), ()))
            listed.append(Plate(paper=paper, name=name, claims=named, drawing=drawings().get((paper, name))))
    return listed


def places(source: str) -> list[str]:
    """Figures and tables that the source of a claim names.

    Examples
    --------
    >>> places("Figs. 3A, 11, 12A"), places("Table 1 and Fig. 2a-c"), places("Figs. 33-35"), places("Theorem 1")
    (['Figure 3', 'Figure 11', 'Figure 12'], ['Table 1', 'Figure 2'], ['Figure 33', 'Figure 34', 'Figure 35'], [])
    """
    named: dict[str, None] = {}
    for kind, numbers in PLACE.findall(source):
        word = "Table" if kind.startswith("Table") else "Figure"
        for item in re.findall(r"(\d+)[a-zA-Z]?(?:\s*-\s*(\d+))?", numbers):
            first, last = int(item[0]), int(item[1] or item[0])
            named |= {f"{word} {number}": None for number in range(first, last + 1)}
    return list(named)


@dataclass(frozen=True, kw_only=True)
class ClaimBlock:
    """A claim at every scale at which it ran, the smallest first; one entry says why, if there is none.

    Parameters
    ----------
    entries : tuple of Entry
        Of one claim.
    contradiction : str
        What was different, where the scales do not agree.
    """

    entries: tuple[Entry, ...]
    contradiction: str

    @property
    def counted(self) -> Entry:
        """The entry whose verdict is that of the claim."""
        return largest(self.entries)

    @property
    def smaller(self) -> tuple[Entry, ...]:
        """The others, which are details."""
        return tuple(entry for entry in self.entries if entry is not self.counted)


@dataclass(frozen=True, kw_only=True)
class PlateBlock:
    """A plate with its claims, verdicts, panels, and the commands that make them.

    Parameters
    ----------
    plate : Plate
        Which one.
    claims : tuple of ClaimBlock
        With their verdicts.
    panels : dict of str to str
        `data:` addresses by title: shown as images, so that nothing in them can run.
    missing : str
        Why there is no panel, if so.
    commands : tuple of str
        What makes the panels and the verdicts again.
    """

    plate: Plate
    claims: tuple[ClaimBlock, ...]
    panels: dict[str, str]
    missing: str
    commands: tuple[str, ...]


def atlas_blocks(folder: Path) -> dict[str, list[PlateBlock]]:
    """Plates of every paper, with what the ledger in `folder` holds about them."""
    found = {id: [e for e in entries if e.runs] for id, entries in recorded(folder).items()}
    blocks: dict[str, list[PlateBlock]] = {paper: [] for paper in PAPERS}
    for plate in plates():
        if plate.claims or plate.drawing:
            blocks[plate.paper].append(_block(plate, found, folder))
    return blocks


def write_atlas(folder: Path, path: Path) -> Path:
    """Write the atlas as one page without scripts, whole or not at all.

    Parameters
    ----------
    folder : Path
        Of the ledger.
    path : Path
        Page to write.
    """
    blocks = atlas_blocks(folder)
    shown = [block for rows in blocks.values() for block in rows if block.plate.drawing]
    html = render_with(
        "atlas.html",
        folder=TEMPLATES,
        panels=[],
        static=True,
        papers=blocks,
        titles=TITLES,
        n_plates=len(shown),
        n_drawn=sum(bool(block.panels) for block in shown),
        n_pictures=sum(
            bool(block.panels and block.plate.drawing and block.plate.drawing.pictures) for block in shown
        ),
        versions=versions(entry for rows in blocks.values() for entry in _unique(rows)),
        tallies={paper: Tally.of(_unique(rows)) for paper, rows in blocks.items()},
        numbers=estimates_text,
        departing=departures_text,
    )
    return write_html(html, path)


def _unique(rows: list[PlateBlock]) -> list[Entry]:
    """Each claim once, though several figures may show it."""
    return list({claim.counted.claim: claim.counted for block in rows for claim in block.claims}.values())


def _block(plate: Plate, found: Mapping[str, list[Entry]], folder: Path) -> PlateBlock:
    told = tuple(_claim(found.get(c.id) or [entry_not_run(c, scale="desk")]) for c in plate.claims)
    panels = _panels(plate.drawing, found, folder) if plate.drawing else {}
    commands = []
    if plate.drawing and plate.drawing.pictures:
        commands.append(f'reproduce plates {plate.paper} "{plate.name}"')
    commands += [f"reproduce run {c.id} --scale desk" for c in plate.claims if study_of(c.id)]
    return PlateBlock(
        plate=plate,
        claims=told,
        panels={title: _address(panel) for title, panel in panels.items()},
        missing=_missing(plate.drawing, panels),
        commands=tuple(commands),
    )


def _panels(drawing: Drawing, found: Mapping[str, list[Entry]], folder: Path) -> dict[str, str]:
    """Panels of a plate as SVG by title; empty if nothing was recorded yet."""
    if drawing.pictures:
        return kept(drawing, folder)
    if drawing.numbers:
        ledger = {id: largest(entries) for id, entries in found.items() if entries}
        return {figure.title: drawn(figure) for figure in drawing.numbers(ledger) if figure.plot["data"]}
    if drawing.absent:
        return {}
    files = [(s, figure_file(folder, s, drawing.study)) for s in ("night", "desk")]
    key = key_of_study(studies()[drawing.study].drawn)
    return next(
        (
            {f"{scale} scale": with_key(path.read_text().strip(), key)}
            for scale, path in files
            if path.exists()
        ),
        {},
    )


def _missing(drawing: Drawing | None, panels: Mapping[str, str]) -> str:
    if drawing is None or panels:
        return ""
    if drawing.absent:
        return f"It cannot be had: {drawing.absent}."
    return "Not drawn yet: the commands below make it."


def _address(panel: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(panel.encode()).decode()}"


def _claim(entries: list[Entry]) -> ClaimBlock:
    words = contradiction(entries[0], entries[-1]) if len(entries) > 1 else ""
    return ClaimBlock(entries=tuple(entries), contradiction=words)


def status_table() -> str:
    """Return a Markdown table of all plates: how each is drawn, or why it is not."""
    rows = [["paper", "plate", "drawn from"], ["---"] * 3]
    for plate in plates():
        if drawing := plate.drawing:
            rows.append([drawing.paper, drawing.name, drawing.status])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
