"""`firstlight claims` and `firstlight reproduce`: what the papers state, and what we find."""

from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from firstlight.cli.arguments import Cluster, Device
from firstlight.cli.output import OutputFile, page_file

if TYPE_CHECKING:
    from firstlight.claims import Entry

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
    from firstlight.report.ledger import recorded_entries

    print(summary_table(recorded_entries(folder, scale=scale)))


@app.command
def stale(folder: Path = Path("docs/ledger"), *, scale: str = "desk") -> None:
    """List recorded verdicts whose rule or code has changed since; exit with 1 if there are any.

    Parameters
    ----------
    folder
        Where `firstlight reproduce --record` wrote the ledger.
    scale
        Scale of the ledger: smoke, desk, night or paper.
    """
    from firstlight.claims.stale import stale_entries
    from firstlight.cli.output import print_table
    from firstlight.report.ledger import recorded_entries

    reasons = stale_entries(entry for entry in recorded_entries(folder, scale=scale) if entry.runs)
    if not reasons:
        print(f"Every entry of the {scale} ledger is what the present code gives.")
        return
    print_table(f"{len(reasons)} stale entries", ("claim", "reason"), list(reasons.items()))
    raise SystemExit(1)


@app.command
def verify(
    folder: Path = Path("docs/ledger"),
    *,
    scale: str = "desk",
    beside: str | None = None,
    seconds: float = 20.0,
) -> None:
    """Run one seed of every entry whose code has changed; if its numbers come out again, the entry is fresh.

    Exits with 1 if any number differs. About a fifth of the cost of `reproduce`.

    Parameters
    ----------
    folder
        Where `firstlight reproduce --record` wrote the ledger; entries that are verified are written back.
    scale
        Scale of the ledger: smoke, desk, night or paper.
    beside
        A commit whose code made the entries. Instead of comparing with the recorded digits, which hold on one kind
        of processor only, run its code beside the present one and compare their numbers.
    seconds
        With --beside: studies whose recorded seeds took more CPU seconds than this are run at smoke scale.
    """
    import sys

    from firstlight.claims import record as write
    from firstlight.claims.beside import verify_beside
    from firstlight.claims.verify import verify as run_again
    from firstlight.cli.output import print_table
    from firstlight.core.environment import code_commit
    from firstlight.core.errors import InvalidInput
    from firstlight.report.ledger import recorded_entries

    def announce(name: str, index: int, total: int) -> None:
        print(f"[{index + 1}/{total}] {name}", file=sys.stderr)

    if code_commit().endswith("+"):
        raise InvalidInput(
            "Entries are verified at a clean commit; this checkout has uncommitted changes. Commit them, and run again."
        )
    entries = recorded_entries(folder, scale=scale)
    if beside is None:
        results = run_again(entries, listen=announce)
    else:
        results = verify_beside(entries, beside, seconds=seconds, listen=announce)
    same = [result.entry for result in results if not result.differences]
    write(same, folder)
    differ = [result for result in results if result.differences]
    if differ:
        rows = [(result.entry.claim, "; ".join(result.differences)) for result in differ]
        print_table(f"{len(differ)} entries differ", ("claim", "numbers"), rows)
    if beside is None:
        print(f"{len(same)} of {len(results)} stale entries have the recorded numbers.")
    else:
        bits = sum(entry.verified["same"] == "bits" for entry in same)
        print(
            f"{len(same)} of {len(results)} stale entries have the numbers of {beside} in all digits of the ledger, "
            f"{bits} of them to the last bit."
        )
    if differ:
        raise SystemExit(1)


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

    from firstlight.claims.agreement import LEVEL, agreement
    from firstlight.cli.output import print_json, print_table
    from firstlight.core.errors import InvalidInput
    from firstlight.report.ledger import recorded_entries

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
def changes(folder: Path = Path("docs/ledger"), *, scale: str = "desk", json: bool = False) -> None:
    """List every rule that changed after it had judged a result, with the old and the new verdict.

    Parameters
    ----------
    folder
        Where the ledger is kept, with its first version in the folder `version-1`.
    scale
        Scale of the present ledger.
    json
        Print JSON.
    """
    from dataclasses import asdict

    from firstlight.claims.history import revisions
    from firstlight.cli.output import print_json, print_table
    from firstlight.report.ledger import recorded_entries

    revised = revisions(folder, [e for e in recorded_entries(folder, scale=scale) if e.runs])
    if json:
        print_json([asdict(revision) for revision in revised])
        return
    rows = [(r.claim, r.old_verdict, r.new_verdict, f"{r.date}: {r.reason}") for r in revised]
    print_table(f"{len(rows)} changed rules", ("claim", "before", "now", "reason"), rows)


@app.command
def prices(what: str = "all", *, scale: str = "night", record: Path | None = None) -> None:
    """Rehearse every study of a long scale and print what a seed costs.

    Parameters
    ----------
    what
        A claim, a theme, the beginning of claim ids, or `all`.
    scale
        Whose settings are priced.
    record
        Ledger folder to write them into, for the table in the documentation.
    """
    from firstlight.claims.price import record_prices
    from firstlight.cli.night import priced

    schedule = priced(what, scale=scale, seed=None, n_seeds=None, finished=True)
    if record:
        print(f"Wrote {record_prices(schedule.prices, record, scale=scale)}.")


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
    from firstlight.report.ledger import recorded_entries, write_ledger
    from firstlight.store import Store

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
    from firstlight.report.atlas import write_atlas

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
    price: bool = False,
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
    price
        Only say what it would cost, measured by short rehearsals. At night scale this comes first in any case.
    """
    import sys
    from dataclasses import asdict

    from firstlight.claims import record as write
    from firstlight.claims import reproduce as judge
    from firstlight.claims.reproduce import LONG, study_figures
    from firstlight.cli.night import left_of, priced
    from firstlight.cli.output import print_json, seconds_of
    from firstlight.core.devices import choose_device, computing_on
    from firstlight.estimators.spread import kernels_on_cluster
    from firstlight.report.ledger import write_ledger
    from firstlight.store import Store

    page_file(output)
    allowed, place = seconds_of(budget), choose_device(device)

    def announce(name: str, index: int, total: int) -> None:
        print(f"[{index + 1}/{total}] {name}", file=sys.stderr)

    schedule = priced(what, scale=scale, seed=seed, n_seeds=seeds) if price or scale in LONG else None
    if price:
        return
    with computing_on(place), kernels_on_cluster(cluster), left_of(schedule, what) as before:
        entries = judge(
            what, scale=scale, seed=seed, n_seeds=seeds, budget=allowed, listen=announce, before=before
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


def _print_ledger(entries: "list[Entry]", scale: str) -> None:
    from firstlight.claims.ledger import counts
    from firstlight.cli.output import print_table
    from firstlight.report.ledger import estimates_text

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
