"""`firstlight report`: a page from stored runs."""

from pathlib import Path

from firstlight.cli.arguments import Page, Static
from firstlight.cli.output import page_file, wrote


def report(*runs: str, output: Page = Path("report.html"), static: Static = False) -> None:
    """Write one page about stored runs: tours, trainings, identity tasks and others.

    Parameters
    ----------
    runs
        Ids of the runs, or how they begin; `firstlight runs list` shows all.
    """
    from firstlight.core.errors import InvalidInput
    from firstlight.report import runs_page, write_page
    from firstlight.store import Store

    if not runs:
        raise InvalidInput("Name at least one run. `firstlight runs list` shows all.")
    page_file(output)
    store = Store()
    ids = dict.fromkeys(store.find(given) for given in runs)
    wrote(write_page(runs_page([store.load(id) for id in ids]), output, static=static))
