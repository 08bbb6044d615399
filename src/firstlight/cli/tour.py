"""`firstlight tour`: the main job."""

from pathlib import Path


def tour(
    *,
    data: str = "auto",
    minutes: float = 5.0,
    n: int | None = None,
    seed: int = 0,
    output: Path = Path("tour.html"),
) -> None:
    """Study a small network on real images and write one page about it.

    Parameters
    ----------
    data
        A data set, or auto: cifar10 if it can be had, else the photographs that come with the package.
    minutes
        What the training may take on two cores.
    n
        Number of training images; by default 2000, or all if there are fewer.
    seed
        Of everything random.
    output
        The page to write.
    """
    import sys

    from firstlight.core.errors import InvalidInput
    from firstlight.data import load
    from firstlight.insights import run_tour
    from firstlight.report import tour_page, write_page
    from firstlight.store import Store

    if not 0.1 <= minutes <= 600:
        raise InvalidInput(f"`minutes` must lie in 0.1 .. 600; got minutes={minutes:g}.")
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise InvalidInput(f"`output` must name a file in a folder that exists; got {output}.")
    name = _choose(data)
    train = load(name, split="train", seed=seed)
    train = train.sample(min(2000, len(train)) if n is None else n, seed=seed)
    test = load(name, split="test", seed=seed)
    print(f"{name}: {len(train)} training and {len(test)} test images", file=sys.stderr)
    found = run_tour(train, test, minutes=minutes, seed=seed, store=Store())
    path = write_page(tour_page(found), output)
    print(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB). Open it in a browser.")


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
