"""`firstlight report`: a page from stored runs."""

from pathlib import Path

from firstlight.cli.options import Page, Static
from firstlight.cli.output import page_file, wrote


def report(*runs: str, output: Page = Path("report.html"), static: Static = False) -> None:
    """Write one page about stored runs: tours, trainings, identity tasks and others.

    Parameters
    ----------
    runs
        Ids of the runs, or how they begin; `firstlight runs list` shows all.
    """
    from firstlight._internal.errors import InvalidInput
    from firstlight._internal.store.runs import Store
    from firstlight.cli.stored_pages import runs_page
    from firstlight.pages.page import write_page

    if not runs:
        raise InvalidInput("Name at least one run. `firstlight runs list` shows all.")
    page_file(output)
    store = Store()
    ids = dict.fromkeys(store.find(given) for given in runs)
    wrote(write_page(runs_page([store.load(id) for id in ids]), output, static=static))
