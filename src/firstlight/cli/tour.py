"""`firstlight tour`: the main job."""

from pathlib import Path
from typing import TYPE_CHECKING

from firstlight.cli.output import OutputFile, page_file

if TYPE_CHECKING:
    from firstlight.data import ImageData
    from firstlight.store import Run
    from firstlight.tour import Tour


def tour(
    *,
    data: str = "auto",
    minutes: float = 5.0,
    n: int | None = None,
    seed: int = 0,
    output: OutputFile = Path("tour.html"),
    watch: bool = False,
    static: bool = False,
) -> None:
    """Study a small network on real images and write one page about it.

    The page is written after every part, the first within a minute, and grows until the tour is done.

    Parameters
    ----------
    data
        A data set such as cifar10, mnist or photos; auto: cifar10 if it can be had, else the photographs that come
        with the package.
    minutes
        What the training may take on two cores.
    n
        Number of training images; by default 2000, or all if there are fewer.
    seed
        Of everything random.
    output
        The page to write.
    watch
        Let the page load itself again while it grows: open it in a browser at once.
    static
        SVG only, without any script.
    """
    import sys

    from firstlight.core.errors import InvalidInput
    from firstlight.core.progress import screen
    from firstlight.data import load
    from firstlight.report import tour_page, write_page

    if not 0.1 <= minutes <= 600:
        raise InvalidInput(f"`minutes` must lie in 0.1 .. 600; got minutes={minutes:g}.")
    page_file(output)
    name = _choose(data)
    train = load(name, split="train", seed=seed)
    train = train.sample(min(2000, len(train)) if n is None else n, seed=seed)
    test = load(name, split="test", seed=seed)
    test = test.sample(min(2000, len(test)), seed=seed)
    print(f"{name}: {len(train)} training and {len(test)} test images", file=sys.stderr)
    told: set[str] = set()
    with screen(f"Tour of {name}, page in {output}", seconds=60 * minutes) as view:

        def listen(so_far: "Tour") -> None:
            for part, words in _findings(so_far).items():
                if part not in told:
                    view.found(part, words)
                    told.add(part)
            write_page(tour_page(so_far, reloads=watch), output, static=static)

        run = _run(train, test, minutes=minutes, seed=seed, listen=listen)
    path = write_page(tour_page(run.result), output, static=static)
    print(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB). Open it in a browser.")
    print(f"`firstlight report {run.id}` writes it again.", file=sys.stderr)


def _run(train: "ImageData", test: "ImageData", *, minutes: float, seed: int, **options: object) -> "Run":
    """Fetch or do the tour; it depends on nothing but these settings."""
    from firstlight.store import RunSpec, Store
    from firstlight.tour import PARTS, run_tour

    store = Store()
    spec = RunSpec(
        what="tour",
        config={"minutes": minutes, "seed": seed, "n": len(train), "parts": [part.name for part in PARTS]},
        data=f"{train.fingerprint} {test.fingerprint}",
    )
    return store.fetch_or_run(
        spec,
        lambda scratch: run_tour(train, test, minutes=minutes, seed=seed, store=store, **options),  # type: ignore[arg-type]
    )


def _findings(so_far: "Tour") -> dict[str, str]:
    """One sentence for each part that is done."""
    from firstlight.report.tour import PAGES
    from firstlight.tour import PARTS

    done = {part: so_far.parts[part.name] for part in PARTS if part.name in so_far.parts}
    return {part.words: PAGES[type(result)].summary(result) for part, result in done.items()}


def _choose(data: str) -> str:
    import sys

    from firstlight.core.errors import DataUnavailable
    from firstlight.data import fetch

    if data != "auto":
        return data
    try:
        fetch("cifar10")
    except DataUnavailable as reason:
        print(f"Using the embedded photographs: {reason}", file=sys.stderr)
        return "photos"
    return "cifar10"
