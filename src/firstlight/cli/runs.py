"""`firstlight runs`: what has been computed and kept."""

from cyclopts import App

from firstlight.cli.options import TEXT, OutputFormat

app = App(name="runs", help="List, show and remove stored runs.")


@app.command(name="list")
def list_runs(*, form: OutputFormat = TEXT) -> None:
    """List all stored runs, newest first; damaged ones are marked."""
    from firstlight._internal.environment import user_folder
    from firstlight._internal.store.index import COLUMNS, listed_runs
    from firstlight.cli.output import print_records, print_table

    root = user_folder("FIRSTLIGHT_RUNS", leaf="runs")
    rows = listed_runs(root)
    if not form.is_text:
        print_records([dict(zip(COLUMNS, row, strict=True)) for row in rows], form)
    elif rows:
        print_table(f"{len(rows)} runs in {root}", COLUMNS, rows)
    else:
        print(f"No runs in {root} yet. `firstlight tour` makes one.")


@app.command
def show(id: str) -> None:
    """Show the settings, result and cost of one run.

    Parameters
    ----------
    id
        Id of the run, or how it begins.
    """
    from firstlight._internal.result import Result, brief, plain
    from firstlight._internal.store.runs import Store
    from firstlight.cli.output import print_json

    store = Store()
    run = store.load(store.find(id))
    result = run.result
    shown = (
        {name: brief(getattr(result, name)) for name in result.__dataclass_fields__}
        if isinstance(result, Result)
        else brief(result)
    )
    print_json(
        {
            "id": run.id,
            "what": run.spec.what,
            "config": plain(run.spec.config),
            "result": shown,
            "cpu_seconds": run.cpu_seconds,
            "wall_seconds": run.wall_seconds,
            "finished": run.finished,
            "commit": run.commit,
            "environment": run.environment,
            "folder": str(run.folder),
        }
    )


@app.command
def rm(*ids: str) -> None:
    """Remove runs, damaged or not.

    Parameters
    ----------
    ids
        Ids of the runs, or how they begin.
    """
    from firstlight._internal.errors import InvalidInput
    from firstlight._internal.store.runs import Store

    if not ids:
        raise InvalidInput("Name at least one run. `firstlight runs list` shows all.")
    store = Store()
    for id in [store.find(given) for given in ids]:
        print(f"Removed {store.remove(id)}.")
