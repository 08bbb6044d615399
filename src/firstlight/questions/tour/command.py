"""`firstlight tour`: a short study of all five themes."""

import sys
from pathlib import Path

from firstlight.cli.options import AS_THEY_ARE, Cluster, Device, FolderOptions, Page, Seed, Static, Switch
from firstlight.cli.output import announce_split, page_file, wrote


def tour(
    *,
    data: str = "auto",
    minutes: float = 5.0,
    n: int | None = None,
    seed: Seed = 0,
    folder: FolderOptions = AS_THEY_ARE,
    cluster: Cluster = None,
    device: Device = "auto",
    output: Page = Path("tour.html"),
    watch: Switch = False,
    static: Static = False,
) -> None:
    """Study a small network on real images and write one page about it.

    The page is written after every part, the first within a minute, and grows until the tour is done.

    Parameters
    ----------
    data
        Name of a data set such as cifar10, mnist or photos, or a folder of class folders. By default cifar10 if it
        can be fetched, otherwise the photographs that come with the package.
    minutes
        Time budget of the training, in minutes on two cores.
    n
        Number of training images; by default 2000, or all if there are fewer.
    watch
        Make the page reload itself while it grows, so that you can open it at once.
    """
    from firstlight._internal.devices import choose_device
    from firstlight._internal.errors import InvalidInput
    from firstlight._internal.executor import on_cluster
    from firstlight._internal.progress import screen
    from firstlight.data.catalogue import load_splits, usual_data_set
    from firstlight.pages.page import write_page
    from firstlight.questions.tour.page import DrawnPart, tour_page
    from firstlight.questions.tour.parts import PARTS
    from firstlight.questions.tour.run import Tour
    from firstlight.questions.tour.stored import fetch_or_run_tour

    if not 0.1 <= minutes <= 600:
        raise InvalidInput(f"`minutes` must lie in 0.1 .. 600; got minutes={minutes:g}.")
    page_file(output)
    place = choose_device(device)
    name, reason = usual_data_set() if data == "auto" else (data, "")
    if reason:
        print(reason, file=sys.stderr)
    train, test = load_splits(name, n=n, at_most=2000, n_test=2000, seed=seed, **folder.options)
    announce_split(train, test)
    drawn: dict[str, DrawnPart] = {}
    with on_cluster(cluster), screen(f"Tour of {name}, page in {output}", seconds=60 * minutes) as view:

        def listen(so_far: Tour) -> None:
            told = set(drawn)
            page = tour_page(so_far, reloads=watch, drawn=drawn)
            for part in PARTS:
                if part.name in drawn.keys() - told:
                    view.add(part.words, drawn[part.name].summary)
            write_page(page, output, static=static)

        run = fetch_or_run_tour(train, test, minutes=minutes, seed=seed, listen=listen, device=place)
    wrote(write_page(tour_page(run.result, drawn=drawn), output, static=static))
    print(f"`firstlight report {run.id}` writes it again.", file=sys.stderr)
