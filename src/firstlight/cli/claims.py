"""`firstlight claims` and `firstlight reproduce`: what the papers state, and what we find."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from firstlight.cli.options import Cluster, Device
from firstlight.cli.output import OutputFile, page_file

if TYPE_CHECKING:
    from firstlight.claims.ledger import Entry

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

    from firstlight._internal.errors import unknown_name
    from firstlight.claims.catalogue import THEMES, all_claims
    from firstlight.claims.study import ABSENT, study_of
    from firstlight.cli.output import print_json, print_table

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

    from firstlight.claims.catalogue import select
    from firstlight.cli.output import print_json

    print_json([asdict(claim) for claim in select(id)])


@app.command
def summary(folder: Path = Path("docs/ledger"), *, scale: str = "desk") -> None:
    """Count the verdicts of a recorded ledger by theme, as a Markdown table.

    Parameters
    ----------
    folder
        Where `firstlight reproduce --record` wrote the ledger.
    scale
        Scale of the ledger: smoke, desk, night or paper.
    """
    from firstlight.claims.summary import summary_table
    from firstlight.pages.ledger import recorded_entries

    print(summary_table(recorded_entries(folder, scale=scale)))


@app.command
def agree(
    folder: Path, *, recorded: Path = Path("docs/ledger"), scale: str = "desk", json: bool = False
) -> None:
    """Compare a ledger of your own with the recorded one; exit with 1 if they differ by more than chance.

    Parameters
    ----------
    folder
        Your ledger: where `firstlight reproduce all --scale desk --record FOLDER` wrote it.
    recorded
        The ledger to compare with.
    scale
        Scale of both: smoke, desk, night or paper.
    json
        Print JSON.
    """
    from dataclasses import asdict

    from firstlight._internal.errors import InvalidInput
    from firstlight.claims.agreement import LEVEL, agreement
    from firstlight.cli.output import print_json, print_table
    from firstlight.pages.ledger import recorded_entries

    result = agreement(recorded_entries(recorded, scale=scale), recorded_entries(folder, scale=scale))
    if not result.n_claims:
        raise InvalidInput(f"{recorded} and {folder} have no judged claim in common at {scale} scale.")
    if json:
        print_json(asdict(result))
    else:
        rows = [(d.claim, d.what, d.recorded, d.here) for d in (*result.verdicts, *result.numbers)]
        if rows:
            print_table(f"{len(rows)} differences", ("claim", "what", "recorded", "here"), rows)
        print(
            f"{len(result.verdicts)} of {result.n_claims} verdicts differ. {len(result.numbers)} of "
            f"{result.n_numbers} numbers lie outside the interval of a repetition; chance alone gives up to "
            f"{LEVEL * result.n_numbers:.0f}."
        )
    if result.verdicts or result.is_more_than_chance:
        raise SystemExit(1)


@app.command
def page(
    folder: Path = Path("docs/ledger"),
    *,
    scale: str = "desk",
    output: OutputFile = Path("ledger.html"),
    static: bool = False,
) -> None:
    """Write a recorded ledger as one page; figures are drawn where the runs behind it are stored.

    Parameters
    ----------
    folder
        Where `firstlight reproduce --record` wrote one JSON file per scale and theme.
    scale
        Scale to show: smoke, desk, night or paper.
    output
        Page to write.
    static
        Draw SVG only, without any script.
    """
    from firstlight._internal.store.runs import Store
    from firstlight.pages.ledger import recorded_entries, write_ledger

    page_file(output)
    path = write_ledger(recorded_entries(folder, scale=scale), output, store=Store(), static=static)
    print(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB). Open it in a browser.")


def atlas(folder: Path = Path("docs/ledger"), *, output: OutputFile = Path("atlas.html")) -> None:
    """Write one page with every figure and table of the five papers, reported beside measured.

    Parameters
    ----------
    folder
        Where `firstlight reproduce --record` wrote the ledger and its figures.
    output
        Page to write.
    """
    from firstlight.pages.atlas import write_atlas

    page_file(output)
    path = write_atlas(folder, output)
    print(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB). Open it in a browser.")


def reproduce(
    what: str,
    *,
    scale: str = "smoke",
    seeds: int | None = None,
    budget: str = "0s",
    record: Path | None = None,
    output: OutputFile = Path("ledger.html"),
    static: bool = False,
    json: bool = False,
    seed: int | None = None,
    cluster: Cluster = None,
    device: Device = "auto",
) -> None:
    """Run the studies behind claims, print the verdicts and write them as a page; nothing is run twice.

    Parameters
    ----------
    what
        A claim, a theme, the beginning of claim ids such as `linear.`, or `all`.
    scale
        smoke (seconds), desk (minutes on two cores), night (hours) or paper (as published; days without a GPU).
    seeds
        Number of seeds, instead of each study's own.
    budget
        Time to spend on further seeds for inconclusive claims, such as 90s, 30m or 2h.
    record
        Folder to write the ledger into: one JSON file per scale and theme, and the figures.
    output
        Page to write, with the figure of every study.
    static
        Write that page without any script.
    json
        Print the ledger as JSON.
    seed
        First seed of every study, instead of its own.
    """
    import sys
    from dataclasses import asdict

    from firstlight._internal.devices import choose_device, computing_on
    from firstlight._internal.environment import code_commit
    from firstlight._internal.executor import on_cluster
    from firstlight._internal.store.runs import Store
    from firstlight.claims.ledger import record as write
    from firstlight.claims.reproduce import reproduce as judge
    from firstlight.claims.reproduce import studies_of, study_figures
    from firstlight.cli.output import print_json, seconds_of
    from firstlight.pages.ledger import write_ledger

    page_file(output)
    allowed, place = seconds_of(budget), choose_device(device)

    costs = _recorded_costs(record or Path("docs/ledger"), scale, studies_of(what, scale=scale))
    if costs:
        print(
            f"These studies took {sum(costs.values()) / 3600:.2g} CPU hours when they were recorded.",
            file=sys.stderr,
        )

    def announce(name: str, index: int, total: int) -> None:
        cost = f", {costs[name]:.0f} CPU seconds when it was recorded" if name in costs else ""
        print(f"[{index + 1}/{total}] {name}{cost}", file=sys.stderr)

    with computing_on(place), on_cluster(cluster):
        entries = judge(what, scale=scale, seed=seed, n_seeds=seeds, budget=allowed, listen=announce)
    if others := sum(bool(entry.runs) and entry.commit != code_commit() for entry in entries):
        print(
            f"Note: the runs behind {others} of {len(entries)} claims were stored at another commit of this version.",
            file=sys.stderr,
        )
    if json:
        print_json([asdict(entry) for entry in entries])
    else:
        _print_ledger(entries, scale)
    if record:
        if any(entry.commit.endswith("+") for entry in entries):
            print(
                "Note: some runs were made with uncommitted changes (a '+' after the commit).",
                file=sys.stderr,
            )
        for path in write(entries, record, figures=study_figures(entries, Store())):
            print(f"Wrote {path}.", file=sys.stderr)
    page = write_ledger(entries, output, store=Store(), static=static)
    print(f"Wrote {page}. Open it in a browser.", file=sys.stderr)


def _recorded_costs(folder: Path, scale: str, names: Collection[str]) -> dict[str, float]:
    """CPU seconds that all seeds of studies took when they were last recorded; only what a ledger here knows."""
    from firstlight.claims.catalogue import THEMES
    from firstlight.claims.ledger import read_entries

    recorded = [e for theme in THEMES for e in read_entries(folder / scale / f"{theme}.json") if e.runs]
    return {entry.study: entry.cpu_seconds for entry in recorded if entry.study in names}


def _print_ledger(entries: "list[Entry]", scale: str) -> None:
    from firstlight.claims.ledger import counts
    from firstlight.cli.output import print_table
    from firstlight.pages.ledger import estimates_text

    rows = [
        (
            entry.claim,
            entry.reported,
            estimates_text(entry.measured),
            estimates_text(entry.null) or entry.null_reason,
            entry.verdict,
            entry.null_verdict,
            "; ".join(filter(None, (entry.reason, entry.note))),
        )
        for entry in entries
    ]
    columns = ("claim", "reported", "measured", "null", "verdict", "beyond its null?", "why")
    print_table(f"Ledger, {scale} scale", columns, rows)
    print(", ".join(f"{n} {name}" for name, n in counts(entries).items()))
