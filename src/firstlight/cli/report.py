"""`firstlight report`: a page from stored runs."""

from pathlib import Path

from firstlight.cli.output import OutputFile, page_file


def report(
    *runs: str,
    output: OutputFile = Path("report.html"),
    static: bool = False,
) -> None:
    """Write one page about stored runs: tours, studies, trainings, identity tasks, and any other.

    Parameters
    ----------
    runs
        Their names, or the beginnings of them; `firstlight runs list` shows all.
    output
        The page to write.
    static
        SVG only, without any script.
    """
    from firstlight.core.errors import InvalidInput
    from firstlight.report import runs_page, write_page
    from firstlight.store import Store

    if not runs:
        raise InvalidInput("Name at least one run. `firstlight runs list` shows what is there.")
    page_file(output)
    store = Store()
    names = dict.fromkeys(store.find(given) for given in runs)
    path = write_page(runs_page([store.load(name) for name in names]), output, static=static)
    print(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB). Open it in a browser.")
