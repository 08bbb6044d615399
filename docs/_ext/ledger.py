"""Tables of verdicts, read from docs/ledger when the documentation is built: no number is copied by hand.

``{ledger} theme`` lists the claims of a theme, with ``:topics:`` (of claims.yaml) only some of them;
``{verdicts}`` counts the verdicts of every theme.
"""

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from firstlight.claims import THEMES, VERDICTS, Claim, select
from firstlight.claims.ledger import read

NOT_YET = {"verdict": "not run", "measured": {}, "spread": {}, "null": {}, "note": "no desk run recorded yet"}


def rows_of(folder: Path, theme: str, topics: list[str]) -> list[tuple[Claim, dict[str, Any]]]:
    """Claims of a theme in the order of claims.yaml, each with its line of the ledger."""
    recorded = {row["claim"]: row for row in read(folder / f"{theme}.json")}
    wanted = [claim for claim in select(theme) if not topics or claim.topic in topics]
    return [(claim, recorded.get(claim.id, NOT_YET)) for claim in wanted]


def counts(verdicts: list[str]) -> str:
    """Verdicts in words, the good ones first."""
    times = Counter(verdicts)
    return ", ".join(f"{times[name]} {name}" for name in VERDICTS if times[name])


class LedgerTable(SphinxDirective):
    """Claims of one theme with measured numbers, nulls and verdicts."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"topics": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Build the table."""
        theme = self.arguments[0]
        topics = [topic.strip() for topic in self.options.get("topics", "").split(",") if topic.strip()]
        rows = rows_of(_folder(self), theme, topics)
        if not rows:
            raise self.error(f"No claim of theme {theme!r} has a topic among {topics}.")
        shown = [[_claim(claim), _numbers(row), _null(row), _verdict(row)] for claim, row in rows]
        words = f"{len(rows)} claims: {counts([row['verdict'] for _, row in rows])}."
        return [
            nodes.paragraph(words, words),
            _table(["claim", "measured here", "null, control", "verdict"], shown, (42, 26, 20, 12)),
        ]


class Verdicts(SphinxDirective):
    """How many claims of each theme were reproduced."""

    def run(self) -> list[nodes.Node]:
        """Build the table."""
        rows = []
        for theme in THEMES:
            times = Counter(row["verdict"] for _, row in rows_of(_folder(self), theme, []))
            cells = [[_text(str(times[name]))] for name in VERDICTS]
            rows.append([[_text(theme.replace("_", " "))], [_text(str(times.total()))], *cells])
        return [_table(["theme", "claims", *VERDICTS], rows, (30, 14, 14, 14, 14, 14))]


def _folder(directive: SphinxDirective) -> Path:
    folder = Path(directive.env.srcdir) / "ledger"
    for theme in THEMES:
        directive.env.note_dependency(str(folder / f"{theme}.json"))
    return folder


def _claim(claim: Claim) -> list[nodes.Node]:
    source = f"{claim.paper}, {claim.source}. Reported: {claim.reported_text}."
    errata = [_errata(claim.errata)] if claim.errata else []
    return [
        nodes.paragraph("", "", nodes.literal(claim.id, claim.id)),
        _text(claim.statement),
        _text(source, "ledger-source"),
        *errata,
    ]


def _errata(numbers: tuple[str, ...]) -> nodes.paragraph:
    """Links to the entries of docs/errata.md that a claim depends on."""
    line = nodes.paragraph("", "Errata: ", classes=["ledger-source"])
    for number in numbers:
        link = addnodes.pending_xref(
            "", refdomain="std", reftype="ref", reftarget=number.lower(), refexplicit=True, refwarn=True
        )
        link += nodes.inline(number, number)
        line += [link, nodes.Text("." if number == numbers[-1] else ", ")]
    return line


def _numbers(row: dict[str, Any]) -> list[nodes.Node]:
    spread = row["spread"]
    return [
        _text(f"{name}: {value}" + (f" ± {spread[name]}" if name in spread else ""), "ledger-number")
        for name, value in row["measured"].items()
    ]


def _null(row: dict[str, Any]) -> list[nodes.Node]:
    return [_text(f"{name}: {value}", "ledger-number") for name, value in row["null"].items()]


def _verdict(row: dict[str, Any]) -> list[nodes.Node]:
    verdict = row["verdict"]
    said = nodes.strong(verdict, verdict, classes=["verdict", "verdict-" + verdict.replace(" ", "-")])
    note = [_text(row["note"], "ledger-source")] if row["note"] else []
    return [nodes.paragraph("", "", said), *note]


def _text(text: str, *classes: str) -> nodes.paragraph:
    return nodes.paragraph(text, text, classes=list(classes))


def _table(head: list[str], rows: list[list[list[nodes.Node]]], widths: tuple[int, ...]) -> nodes.table:
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in widths), cols=len(head))
    group += nodes.thead("", _row([[_text(word)] for word in head]))
    group += nodes.tbody("", *(_row(row) for row in rows))
    return nodes.table("", group, classes=["ledger"])


def _row(cells: list[list[nodes.Node]]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", *cell) for cell in cells))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("ledger", LedgerTable)
    app.add_directive("verdicts", Verdicts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
