"""`firstlight tour`: a trained network, looked at from all five sides."""

import sys
from pathlib import Path

from firstlight.cli.options import AS_THEY_ARE, Cluster, Device, FolderOptions, Page, Seed, Static, Switch
from firstlight.cli.output import announce_split, page_file, wrote


def tour(
    *,
    data: str | None = None,
    network: str | None = None,
    minutes: float = 2.0,
    n: int | None = None,
    seed: Seed = 0,
    folder: FolderOptions = AS_THEY_ARE,
    cluster: Cluster = None,
    device: Device = "auto",
    output: Page = Path("tour.html"),
    watch: Switch = False,
    static: Static = False,
) -> None:
    """Study a trained network on real images and write one page about it.

    The page is written after every part, the first within seconds, and grows until the tour is done.

    Parameters
    ----------
    data
        Images of your own to train on: a folder of class folders, or the name of a data set such as mnist. By default
        a network of the bank is looked at, which was trained on all of CIFAR-10.
    network
        Another network of the bank; `firstlight networks list` shows them.
    minutes
        Time for the training on your images, in minutes on two cores.
    n
        Number of training images; by default 10,000, or all if there are fewer.
    watch
        Make the page reload itself while it grows, so that you can open it at once.
    """
    from firstlight._internal.devices import choose_device
    from firstlight._internal.errors import InvalidInput
    from firstlight._internal.executor import on_cluster
    from firstlight._internal.progress import tell
    from firstlight.data.catalogue import load_splits
    from firstlight.pages.page import write_page
    from firstlight.questions.tour.page import DrawnPart, tour_page
    from firstlight.questions.tour.parts import PARTS
    from firstlight.questions.tour.run import Tour, fetch_or_run_tour
    from firstlight.questions.tour.subject import chosen_subject

    if not 0.05 <= minutes <= 600:
        raise InvalidInput(f"`minutes` must lie in 0.05 .. 600; got minutes={minutes:g}.")
    if data is not None and network is not None:
        raise InvalidInput(
            "`data` trains a network on your images, `network` names one of the bank: give one."
        )
    if data is None and n is not None:
        raise InvalidInput("`n` is the number of images to train on: name them with `data`.")
    page_file(output)
    place = choose_device(device)
    images = None
    if data is not None:
        images = load_splits(data, n=n, at_most=10_000, n_test=2000, seed=seed, **folder.options)
        announce_split(*images)
    subject = chosen_subject(network, images, minutes=minutes, seed=seed)
    if subject.why:
        print(
            f"The images of {subject.data_name} cannot be had, so photographs take their place: {subject.why}",
            file=sys.stderr,
        )
    drawn: dict[str, DrawnPart] = {}
    tell(f"Tour of {subject.name}", f"page in {output}")
    with on_cluster(cluster):

        def listen(so_far: Tour) -> None:
            told = set(drawn)
            page = tour_page(so_far, reloads=watch, drawn=drawn)
            for part in PARTS:
                if part.name in drawn.keys() - told:
                    tell(part.words, drawn[part.name].summary)
            write_page(page, output, static=static)

        run = fetch_or_run_tour(subject, listen=listen, device=place)
    wrote(write_page(tour_page(run.result, drawn=drawn), output, static=static))
    print(f"`firstlight report {run.id}` writes it again.", file=sys.stderr)
