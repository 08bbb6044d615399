"""Tables of verdicts, read from reproduce/ledger when the documentation is built: no number is copied by hand.

``{ledger} theme`` lists the claims of a theme, with ``:topics:`` (of claims.yaml) only some of them;
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
from reproduce.entries import (
    NOT_BEYOND,
    Entry,
    Tally,
    figure_file,
    is_beyond,
    largest,
    read_entries,
    versions,
)
from reproduce.judge import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, PARTLY, REPRODUCED
from reproduce.pages import SHOWN, contradiction, estimate_text, recorded_entries
from reproduce.run import entry_not_run

RECORDED = Path(__file__).parents[2] / "reproduce" / "ledger"
"""Where verdicts are recorded."""

NULL_WORDS = {
    "beyond": "beyond its null",
    "not beyond": "not beyond its null",
    "none possible": "no null possible",
}

NO_MORE = "reproduced, but its null gives as much"
MARKS = {REPRODUCED: "✓", NO_MORE: "≈", PARTLY: "◐", NOT_REPRODUCED: "✗", INCONCLUSIVE: "?", NOT_RUN: "–"}
"""A sign for each verdict."""


def _both(verdict: str) -> tuple[str, str]:
    return verdict, f"{verdict}, {NOT_BEYOND} its null"


GROUPS = {
    "reproduced": (REPRODUCED,),
    "no more than the null": (f"{REPRODUCED}, {NOT_BEYOND} its null",),
    "in part": _both(PARTLY),
    "not reproduced": _both(NOT_REPRODUCED),
    "open or not run": (*_both(INCONCLUSIVE), NOT_RUN),
}
"""Columns of the table of themes: few enough to be read at a glance."""


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
    """Claims of one theme, each with a mark that tells its verdict; numbers, nulls and departures unfold below it."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"topics": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Build one table with a heading for each topic, and show the figures of its studies below."""
        rows = _rows(self)
        counted = [largest(entries) for _, entries in rows]
        words = _summary(counted)
        shown: list[list[list[nodes.Node]]] = []
        topics, topic = list(dict.fromkeys(claim.topic for claim, _ in rows)), ""
        for claim, entries in sorted(rows, key=lambda row: topics.index(row[0].topic)):
            if claim.topic != topic:
                topic = claim.topic
                shown.append([[], [_text(f"{topic[0].upper()}{topic[1:]}", "ledger-topic")], []])
            shown.append([[_mark(largest(entries))], _claim(claim, entries), [_answer(largest(entries))]])
        table = _table(["", "claim", "verdict"], shown, (4, 76, 20), "claims")
        return [nodes.paragraph(words, words), table, *_figures(_folder(self), rows)]


class Verdicts(SphinxDirective):
    """How many claims of each theme have which verdicts."""

    def run(self) -> list[nodes.Node]:
        """Build the table."""
        entries = recorded_entries(_folder(self))
        tallies = {theme: Tally.of(e for e in entries if e.theme == theme) for theme in THEMES}
        rows = [
            [
                [_text(theme.replace("_", " "))],
                [_text(tally.exact)],
                *([_text(str(number))] for number in _in_groups(tally).values()),
            ]
            for theme, tally in tallies.items()
        ]
        return [_table(["theme", "exact relations", *GROUPS], rows, (28, 17, *(11 for _ in GROUPS)))]


def _summary(counted: list[Entry]) -> str:
    """How many claims hold, with the marks of the table below."""
    tally = Tally.of(counted)
    dated = ", ".join(filter(None, (f"{len(counted)} claims", versions(counted))))
    numbers = _in_groups(tally)
    signs = dict(zip(GROUPS, MARKS.values(), strict=False))  # the last group is open or not run: "?"
    effects = ", ".join(f"{signs[name]} {number} {name}" for name, number in numbers.items() if number)
    exact = f" Exact relations: {tally.exact}." if tally.exact else ""
    return f"{dated}.{exact}" + (f" Effects: {effects}." if effects else "")


def _in_groups(tally: Tally) -> dict[str, int]:
    """Effects by the columns of the table of themes."""
    return {name: sum(tally.effects.get(one, 0) for one in group) for name, group in GROUPS.items()}


def _rows(directive: SphinxDirective) -> list[tuple[Claim, list[Entry]]]:
    """Claims that a directive asks for, with their entries."""
    theme = directive.arguments[0]
    topics = [topic.strip() for topic in directive.options.get("topics", "").split(",") if topic.strip()]
    rows = rows_of(_folder(directive), theme, topics)
    if not rows:
        raise directive.error(f"No claim of theme {theme!r} has a topic among {topics}.")
    return rows


def _folder(directive: SphinxDirective) -> Path:
    for theme in THEMES:
        for scale in SHOWN:
            directive.env.note_dependency(str(RECORDED / scale / f"{theme}.json"))
    return RECORDED


def _mark(entry: Entry) -> nodes.paragraph:
    """One sign for the verdict; its words stand in the last column."""
    kind = kind_of(entry)
    return nodes.paragraph(
        "", "", nodes.strong(MARKS[kind], MARKS[kind], classes=["verdict", _verdict_class(kind)])
    )


def _answer(entry: Entry) -> nodes.paragraph:
    kind = kind_of(entry)
    words = "exact" if entry.exact and kind == REPRODUCED else kind
    return nodes.paragraph("", "", nodes.inline(words, words, classes=[_verdict_class(kind)]))


def _verdict_class(kind: str) -> str:
    return "verdict-" + kind.replace(",", "").replace(" ", "-")


def kind_of(entry: Entry) -> str:
    """Verdict of a claim as readers should take it: an effect that its null explains is not simply reproduced."""
    return NO_MORE if entry.verdict == REPRODUCED and not is_beyond(entry) else entry.verdict


def _claim(claim: Claim, entries: list[Entry]) -> list[nodes.Node]:
    """Show the statement, and behind one line the numbers, for whoever wants to judge."""
    counted = largest(entries)
    told = [
        nodes.paragraph(
            "", "", nodes.literal(claim.id, claim.id), nodes.Text(f" {claim.paper}, {claim.source}.")
        ),
        *([_errata(claim.errata)] if claim.errata else []),
        _text(f"Reported: {claim.reported_text}", "ledger-number"),
    ]
    for entry in entries:
        told += _numbers(entry)
    if not counted.null:
        told += [_text(counted.null_reason, "ledger-source")] if counted.null_reason else []
    told += _verdict(entries)
    return [_text(claim.statement), Unfolding("", *told)]


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


def _numbers(entry: Entry) -> list[nodes.Node]:
    """What was measured at one scale, and its null."""
    parts = (("measured", entry.measured), ("null", entry.null))
    return [
        _text(f"{what.capitalize()}, {entry.scale} scale: {name} {estimate_text(row)}", "ledger-number")
        for what, rows in parts
        for name, row in rows.items()
    ]


def _verdict(entries: list[Entry]) -> list[nodes.Node]:
    """What a reader needs to judge the verdict of the largest scale, and the verdicts of smaller ones."""
    counted = largest(entries)
    shown: list[nodes.Node] = []
    if counted.runs:
        words = ", ".join(filter(None, (counted.verdict, NULL_WORDS.get(counted.null_verdict))))
        shown.append(_text(f"Verdict at {counted.scale} scale: {words}.", "ledger-source"))
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


def _table(
    head: list[str], rows: list[list[list[nodes.Node]]], widths: tuple[int, ...], *classes: str
) -> nodes.table:
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in widths), cols=len(head))
    group += nodes.thead("", _row([[_text(word)] for word in head]))
    group += nodes.tbody("", *(_row(row) for row in rows))
    return nodes.table("", group, classes=["ledger", *classes])


def _row(cells: list[list[nodes.Node]]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", *cell) for cell in cells))


class Unfolding(nodes.General, nodes.Element):
    """What a reader unfolds."""


def open_details(writer: Any, _node: Unfolding) -> None:
    """Begin HTML's own element for it."""
    writer.body.append('<details class="ledger-details"><summary>numbers</summary>')


def close_details(writer: Any, _node: Unfolding) -> None:
    """End it."""
    writer.body.append("</details>")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("ledger", LedgerTable)
    app.add_node(Unfolding, html=(open_details, close_details))
    app.add_directive("verdicts", Verdicts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
