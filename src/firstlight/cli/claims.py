"""`firstlight claims` and `firstlight reproduce`: what the papers state, and what we find."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from firstlight.cli.output import OutputFile, page_file

app = App(name="claims", help="The checkable statements of the five papers.")


@app.command(name="list")
def list_claims(*, theme: str | None = None, json: bool = False) -> None:
    """List the claims and the study that judges each.

    Parameters
    ----------
    theme
        Only one of first_layer, learning_order, feature_ansatz, identity, linearized.
    json
        Print everything that is known of them as JSON.
    """
    from dataclasses import asdict

    from firstlight.claims import ABSENT, THEMES, all_claims, study_of
    from firstlight.cli.output import print_json, print_table
    from firstlight.core.errors import unknown_name

    if theme is not None and theme not in THEMES:
        raise unknown_name("theme", theme, THEMES)
    claims = [c for c in all_claims().values() if theme in (None, c.theme)]
    studies = {c.id: s.name if (s := study_of(c.id)) else "" for c in claims}
    if json:
        print_json([{**asdict(c), "study": studies[c.id]} for c in claims])
        return
    rows = [
        (
            c.id,
            "exact" if c.exact else "",
            c.statement,
            studies[c.id] or f"none: {ABSENT.get(c.id, 'not written')}",
        )
        for c in claims
    ]
    print_table(f"{len(rows)} claims", ("id", "kind", "statement", "study"), rows)


@app.command
def show(id: str) -> None:
    """Show one claim in full. The numbers under `errata` are explained in docs/errata.md.

    Parameters
    ----------
    id
        As `firstlight claims list` names it.
    """
    from dataclasses import asdict

    from firstlight.claims import select
    from firstlight.cli.output import print_json

    print_json([asdict(claim) for claim in select(id)])


@app.command
def page(
    folder: Path = Path("docs/ledger"),
    *,
    output: OutputFile = Path("ledger.html"),
    static: bool = False,
) -> None:
    """Write a recorded ledger as one page; figures are drawn where the runs behind it are stored.

    Parameters
    ----------
    folder
        Where `firstlight reproduce --record` wrote one JSON file per theme.
    output
        The page to write.
    static
        SVG only, without any script.
    """
    from firstlight.report.ledger import recorded_entries, write_ledger
    from firstlight.store import Store

    page_file(output)
    path = write_ledger(recorded_entries(folder), output, store=Store(), static=static)
    print(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB). Open it in a browser.")


def reproduce(
    what: str,
    *,
    scale: str = "smoke",
    record: Annotated[Path | None, Parameter(help="Write one JSON per theme into this folder.")] = None,
    output: OutputFile = Path("ledger.html"),
    static: bool = False,
    json: bool = False,
    seed: int | None = None,
    cluster: str | None = None,
) -> None:
    """Run the studies behind claims, print the verdicts and write them as a page; nothing is run twice.

    Parameters
    ----------
    what
        A claim, a theme, the beginning of claim ids such as `linear.`, or `all`.
    scale
        smoke (seconds), desk (minutes on two cores) or paper (as published; days without a GPU).
    output
        The ledger as a page, with the figure of every study.
    static
        That page without any script.
    json
        Print the ledger as JSON.
    seed
        Replace the seed of every study.
    cluster
        Address of a Dask scheduler that takes the trainings, such as tcp://host:8786.
    """
    import sys
    from dataclasses import asdict

    from firstlight.claims import record as write
    from firstlight.claims import reproduce as judge
    from firstlight.cli.output import print_json
    from firstlight.core.parallel import on_cluster
    from firstlight.report.ledger import write_ledger
    from firstlight.store import Store

    page_file(output)

    def announce(name: str, index: int, total: int) -> None:
        print(f"[{index + 1}/{total}] {name}", file=sys.stderr)

    with on_cluster(cluster):
        entries = judge(what, scale=scale, seed=seed, listen=announce)
    if json:
        print_json([asdict(entry) for entry in entries])
    else:
        _print_ledger([asdict(entry) for entry in entries], scale)
    for path in write(entries, record) if record else []:
        print(f"wrote {path}", file=sys.stderr)
    page = write_ledger(entries, output, store=Store(), static=static)
    print(f"Wrote {page}. Open it in a browser.", file=sys.stderr)


def _print_ledger(entries: list[dict[str, object]], scale: str) -> None:
    from collections import Counter
    from typing import Any

    from firstlight.cli.output import numbers, print_table

    rows = []
    for entry in entries:
        row: dict[str, Any] = entry
        measured = numbers(row["measured"]) + (f" (sd {numbers(row['spread'])})" if row["spread"] else "")
        rows.append(
            (row["claim"], row["reported"], measured, numbers(row["null"]), row["verdict"], row["note"])
        )
    print_table(f"Ledger, {scale} scale", ("claim", "reported", "measured", "null", "verdict", "note"), rows)
    counts = Counter(str(entry["verdict"]) for entry in entries)
    print(", ".join(f"{n} {verdict}" for verdict, n in counts.most_common()))
