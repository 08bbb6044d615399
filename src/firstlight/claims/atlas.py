"""Every figure and table of the five papers, and the claims that stand for each."""

import re
from dataclasses import dataclass

from firstlight.claims.catalogue import Claim, all_claims

PAPERS = {
    "FirstLayer": (18, 4),
    "PCBias": (16, 1),
    "CNFA": (12, 0),
    "IdentityCrisis": (43, 1),
    "Linearized": (7, 2),
    "Since": (0, 0),
}
"""Numbers of figures and of tables of each paper."""

UNKNOWN = (
    "our notes on the paper give neither its axes nor a statement, so there is nothing to redraw or check"
)
NOT_DRAWN: dict[tuple[str, str], str] = {
    (paper, f"Figure {number}"): UNKNOWN
    for paper, numbers in {
        "FirstLayer": (1, 16),
        "PCBias": (14, 15, 16),
        "IdentityCrisis": (16, 17, 18, 29, 30),
    }.items()
    for number in numbers
}
"""Why a figure without a claim is not redrawn."""

NUMBER = re.compile(
    r"\b(Figs?\.|Figures?|Tables?)\s*((?:\d+[a-zA-Z]?(?:\s*-\s*[A-Za-z\d]+)?(?:,\s*|\s+and\s+)?)+)"
)


@dataclass(frozen=True, kw_only=True)
class Plate:
    """One figure or table of a paper.

    Parameters
    ----------
    paper, name : str
        Such as "PCBias" and "Figure 7".
    claims : tuple of Claim
        What the paper states in it, as far as it can be checked.
    reason : str
        Why it is not redrawn, if it has no claims.
    """

    paper: str
    name: str
    claims: tuple[Claim, ...]
    reason: str = ""


def plates() -> list[Plate]:
    """Figures and tables of all papers, in order; then, for each paper, the claims of its text."""
    by_place: dict[tuple[str, str], list[Claim]] = {}
    for claim in all_claims().values():
        for name in places(claim.source) or ["Text"]:
            by_place.setdefault((claim.paper, name), []).append(claim)
    listed = []
    for paper, (n_figures, n_tables) in PAPERS.items():
        names = [f"Figure {i}" for i in range(1, n_figures + 1)] + [
            f"Table {i}" for i in range(1, n_tables + 1)
        ]
        for name in [*names, "Text"]:
            claims = tuple(by_place.get((paper, name), ()))
            reason = (
                "" if claims else NOT_DRAWN.get((paper, name), "the text of the paper has no further claim")
            )
            listed.append(Plate(paper=paper, name=name, claims=claims, reason=reason))
    return listed


def places(source: str) -> list[str]:
    """Figures and tables that the source of a claim names.

    Examples
    --------
    >>> places("Figs. 3A, 11, 12A"), places("Table 1 and Fig. 2a-c"), places("Figs. 33-35"), places("Theorem 1")
    (['Figure 3', 'Figure 11', 'Figure 12'], ['Table 1', 'Figure 2'], ['Figure 33', 'Figure 34', 'Figure 35'], [])
    """
    named: dict[str, None] = {}
    for kind, numbers in NUMBER.findall(source):
        word = "Table" if kind.startswith("Table") else "Figure"
        for item in re.findall(r"(\d+)[a-zA-Z]?(?:\s*-\s*(\d+))?", numbers):
            first, last = int(item[0]), int(item[1] or item[0])
            named |= {f"{word} {number}": None for number in range(first, last + 1)}
    return list(named)
