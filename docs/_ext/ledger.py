"""Tables of verdicts, read from reproduce/ledger when the documentation is built: no number is copied by hand.

``{ledger} theme`` lists the claims of a theme, with ``:topics:`` (of claims.yaml) only some of them;
``{readings} theme`` says what their verdicts come to, topic by topic;
``{verdicts}`` counts the exact relations that hold and the effects by verdict, for every theme.
"""

from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from reproduce.catalogue import THEMES, Claim, departures_text, select
from reproduce.entries import SUMMARIES, Entry, Tally, figure_file, largest, read_entries, versions
from reproduce.pages import SHOWN, contradiction, estimate_text, readings, recorded_entries
from reproduce.run import entry_not_run

RECORDED = Path(__file__).parents[2] / "reproduce" / "ledger"
"""Where verdicts are recorded."""

NULL_WORDS = {
    "beyond": "beyond its null",
    "not beyond": "not beyond its null",
    "none possible": "no null possible",
}


def entries_of(folder: Path, theme: str, scale: str) -> dict[str, Entry]:
    """Recorded entries of a theme by claim."""
    return {entry.claim: entry for entry in read_entries(folder / scale / f"{theme}.json")}


def rows_of(folder: Path, theme: str, topics: list[str]) -> list[tuple[Claim, list[Entry]]]:
    """Claims of a theme in the order of claims.yaml, each with its entry at every scale at which it ran."""
    recorded = {scale: entries_of(folder, theme, scale) for scale in SHOWN}
    rows = []
    for claim in select(theme):
        if topics and claim.topic not in topics:
            continue
        entries = [e for scale in SHOWN if (e := recorded[scale].get(claim.id)) and e.runs]
        rows.append((claim, entries or [entry_not_run(claim, scale="desk", reason="not recorded yet")]))
    return rows


class LedgerTable(SphinxDirective):
    """Claims of one theme with measured numbers, nulls and verdicts."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"topics": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Build the table, and show the figures of its studies below."""
        rows = _rows(self)
        scales = [s for s in SHOWN if any(e.scale == s for _, entries in rows for e in entries)] or ["desk"]
        shown = [
            [
                _claim(claim),
                [_text(claim.reported_text, "ledger-number")],
                *(_numbers(entries, scale) for scale in scales),
                _null(entries),
                _verdict(entries),
            ]
            for claim, entries in rows
        ]
        counted = [largest(entries) for _, entries in rows]
        dated = ", ".join(filter(None, (f"{len(rows)} claims", versions(counted))))
        words = f"{dated}: {Tally.of(counted)}."
        head = [
            "claim",
            "reported",
            *(f"measured here, {scale}" for scale in scales),
            "null, control",
            "verdicts",
        ]
        widths = (32, 12, *(28 // len(scales) + 4 for _ in scales), 16, 12)
        table = _table(head, shown, widths)
        return [nodes.paragraph(words, words), table, *_figures(_folder(self), rows)]


class Readings(SphinxDirective):
    """What the verdicts of a theme come to."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"topics": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Write one item per topic."""
        rows = _rows(self)
        entries = {claim.id: largest(shown) for claim, shown in rows}
        items = nodes.bullet_list()
        for topic, sentences in readings([claim for claim, _ in rows], entries).items():
            lead = nodes.paragraph("", "", nodes.strong("", f"{topic[0].upper()}{topic[1:]}. "))
            items += nodes.list_item("", lead)
            for sentence in sentences:
                lead += [*_with_literals(sentence), nodes.Text(" ")]
        return [items]


class Verdicts(SphinxDirective):
    """How many claims of each theme have which verdicts."""

    def run(self) -> list[nodes.Node]:
        """Build the table."""
        entries = recorded_entries(_folder(self))
        tallies = {theme: Tally.of(e for e in entries if e.theme == theme) for theme in THEMES}
        used = [name for name in SUMMARIES if any(tally.effects.get(name) for tally in tallies.values())]
        rows = [
            [
                [_text(theme.replace("_", " "))],
                [_text(tally.exact)],
                *([_text(str(tally.effects.get(name, 0)))] for name in used),
            ]
            for theme, tally in tallies.items()
        ]
        head = ["theme", "exact relations", *used]
        return [_table(head, rows, (30, 10, *(12 for _ in used)))]


def _rows(directive: SphinxDirective) -> list[tuple[Claim, list[Entry]]]:
    """Claims that a directive asks for, with their entries."""
    theme = directive.arguments[0]
    topics = [topic.strip() for topic in directive.options.get("topics", "").split(",") if topic.strip()]
    rows = rows_of(_folder(directive), theme, topics)
    if not rows:
        raise directive.error(f"No claim of theme {theme!r} has a topic among {topics}.")
    return rows


def _with_literals(sentence: str) -> list[nodes.Node]:
    """Text in which every second part between backticks is code."""
    parts = sentence.split("`")
    return [nodes.literal(part, part) if i % 2 else nodes.Text(part) for i, part in enumerate(parts)]


def _folder(directive: SphinxDirective) -> Path:
    for theme in THEMES:
        for scale in SHOWN:
            directive.env.note_dependency(str(RECORDED / scale / f"{theme}.json"))
    return RECORDED


def _claim(claim: Claim) -> list[nodes.Node]:
    source = f"{claim.paper}, {claim.source}."
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


def _numbers(entries: list[Entry], scale: str) -> list[nodes.Node]:
    """What was measured at one scale."""
    return [
        _text(f"{name}: {estimate_text(row)}", "ledger-number")
        for entry in entries
        if entry.scale == scale
        for name, row in entry.measured.items()
    ]


def _null(entries: list[Entry]) -> list[nodes.Node]:
    numbers = [
        _text(f"{_scale(entry, entries)}{name}: {estimate_text(row)}", "ledger-number")
        for entry in entries
        for name, row in entry.null.items()
    ]
    return numbers or [_text(entries[0].null_reason, "ledger-source")]


def _scale(entry: Entry, entries: list[Entry]) -> str:
    return f"{entry.scale}: " if len(entries) > 1 else ""


def _verdict(entries: list[Entry]) -> list[nodes.Node]:
    """Show the verdict of the largest scale, with what a reader needs to judge it; those of smaller ones as details."""
    counted = largest(entries)
    classes = ["verdict", "verdict-" + counted.verdict.replace(" ", "-")]
    shown: list[nodes.Node] = [
        nodes.paragraph("", "", nodes.strong(counted.verdict, counted.verdict, classes=classes))
    ]
    scale = f"{counted.scale} scale" if counted.runs else ""
    if told := ", ".join(filter(None, (NULL_WORDS.get(counted.null_verdict), scale))):
        shown.append(_text(told, "ledger-source"))
    if "partly" in counted.outcomes and counted.verdict != "partly":
        shown.append(_text(f"The weaker rule {counted.outcomes['partly']}.", "ledger-source"))
    shown += [_text(text, "ledger-source") for text in (counted.reason, counted.note) if text]
    if counted.runs:
        told = departures_text(counted.departures)
        shown.append(_text(f"Instead of the published setting: {told}.", "ledger-source"))
    for entry in entries:
        if entry is not counted:
            shown.append(_text(f"{entry.scale}: {entry.summary}", "ledger-source"))
    if len(entries) > 1 and (words_of_both := contradiction(entries[0], entries[-1])):
        shown.append(_text(f"The scales differ. {words_of_both}", "ledger-source"))
    return shown


def _figures(folder: Path, rows: list[tuple[Claim, list[Entry]]]) -> list[nodes.Node]:
    """Committed figures of the studies, one each, folded away."""
    shown: list[nodes.Node] = []
    for study, scale in {(e.study, e.scale): None for _, entries in rows for e in entries if e.study}:
        path = figure_file(folder, scale, study)
        if path.exists():
            named = study if scale == "desk" else f"{study}, {scale} scale"
            text = f"<details><summary>Figure of {named}</summary>{path.read_text()}</details>"
            shown.append(nodes.raw("", text, format="html"))
    return shown


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
    app.add_directive("readings", Readings)
    app.add_directive("verdicts", Verdicts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
