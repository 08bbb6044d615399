"""The atlas: paper by paper and figure by figure, what was reported beside what was measured here."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from firstlight.claims.atlas import PAPERS, Plate, plates
from firstlight.claims.catalogue import THEMES, Claim
from firstlight.claims.ledger import Entry, counts, entry_not_run, figure_file, read_entries, versions
from firstlight.claims.scales import contradiction
from firstlight.claims.study import ABSENT, study_of
from firstlight.pages.ledger import estimates_text
from firstlight.pages.page import render_with, write_html

SCALES = ("desk", "night")
"""Ledgers to read; what they say of a claim is shown side by side."""


@dataclass(frozen=True, kw_only=True)
class Redrawn:
    """A figure of a study that stands for a plate.

    Parameters
    ----------
    study, scale : str
        Its name, and the scale at which it ran.
    address : str
        The SVG as a `data:` address: shown as an image, so that nothing in it can run.
    """

    study: str
    scale: str
    address: str


@dataclass(frozen=True, kw_only=True)
class ClaimBlock:
    """A claim at every scale that was recorded, the smallest first; one entry says why, if there is none.

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
    def first(self) -> Entry:
        """The entry that is counted."""
        return self.entries[0]


@dataclass(frozen=True, kw_only=True)
class PlateBlock:
    """A plate with its claims, verdicts, figures, and the command that makes them."""

    plate: Plate
    claims: tuple[ClaimBlock, ...]
    figures: tuple[Redrawn, ...]
    command: str


def atlas_blocks(folder: Path) -> dict[str, list[PlateBlock]]:
    """Plates of every paper, with what the ledger in `folder` holds about them."""
    recorded: dict[str, list[Entry]] = {}
    for scale in SCALES:
        for theme in THEMES:
            for entry in read_entries(folder / scale / f"{theme}.json"):
                if entry.runs:
                    recorded.setdefault(entry.claim, []).append(entry)
    blocks: dict[str, list[PlateBlock]] = {paper: [] for paper in PAPERS}
    for plate in plates():
        if plate.claims or plate.name != "Text":
            blocks[plate.paper].append(_block(plate, recorded, folder))
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
    drawn = sum(bool(block.plate.claims) for rows in blocks.values() for block in rows)
    html = render_with(
        "atlas.html",
        panels=[],
        static=True,
        papers=blocks,
        n_plates=sum(len(rows) for rows in blocks.values()),
        n_drawn=drawn,
        versions=versions(entry for rows in blocks.values() for entry in _unique(rows)),
        tallies={paper: counts(_unique(rows)) for paper, rows in blocks.items()},
        numbers=estimates_text,
    )
    return write_html(html, path)


def _unique(rows: list[PlateBlock]) -> list[Entry]:
    """Each claim once, though several figures may show it."""
    return list({claim.first.claim: claim.first for block in rows for claim in block.claims}.values())


def _block(plate: Plate, recorded: Mapping[str, list[Entry]], folder: Path) -> PlateBlock:
    claims = tuple(_claim(recorded.get(claim.id) or [_not_recorded(claim)]) for claim in plate.claims)
    shown = {(e.study, e.scale): None for claim in claims for e in claim.entries if e.study}
    figures = []
    for study, scale in shown:
        path = figure_file(folder, scale, study)
        if path.exists():
            encoded = base64.b64encode(path.read_bytes()).decode()
            address = f"data:image/svg+xml;base64,{encoded}"
            figures.append(Redrawn(study=study, scale=scale, address=address))
    ids = [claim.id for claim in plate.claims if study_of(claim.id)]
    command = " && ".join(f"firstlight reproduce {id} --scale desk" for id in ids)
    return PlateBlock(plate=plate, claims=claims, figures=tuple(figures), command=command)


def _claim(entries: list[Entry]) -> ClaimBlock:
    words = contradiction(entries[0], entries[-1]) if len(entries) > 1 else ""
    return ClaimBlock(entries=tuple(entries), contradiction=words)


def _not_recorded(claim: Claim) -> Entry:
    study = study_of(claim.id)
    reason = "not recorded yet" if study else ABSENT.get(claim.id, "no study judges this claim yet")
    return entry_not_run(claim, scale="desk", reason=reason, study=study)
