"""What a long reproduction costs, said before it starts, and the time left while it runs."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstlight.claims.price import Price, Schedule


def priced(
    what: str, *, scale: str, seed: int | None, n_seeds: int | None, finished: bool = False
) -> "Schedule":
    """Rehearse the studies that `what` names, print the prices, and return what is left to do.

    Studies whose runs are all stored cost nothing and are rehearsed only if `finished` asks for it.
    """
    from firstlight.claims.price import Schedule, in_words, price
    from firstlight.claims.reproduce import studies_of
    from firstlight.cli.output import print_table
    from firstlight.core.parallel import default_jobs
    from firstlight.store import Store

    store = Store()
    schedule = Schedule.of(what, {}, scale=scale, seed=seed, n_seeds=n_seeds, store=store)
    unfinished = {name for name, _ in schedule.waiting}
    studies = {
        name: study for name, study in studies_of(what, scale=scale).items() if finished or name in unfinished
    }
    if not studies:
        print("Every run is stored already: it costs nothing.")
        return schedule
    prices: dict[str, Price] = {}
    for index, (name, study) in enumerate(studies.items()):
        print(f"Rehearsal {index + 1}/{len(studies)}: {name}", file=sys.stderr)
        prices[name] = price(study, scale=scale, store=store)
    schedule = Schedule(prices, schedule.waiting)
    waiting = [name for name, _ in schedule.waiting]
    rows = [
        (name, _hours(one), _memory(one), str(waiting.count(name)), _remark(one))
        for name, one in prices.items()
    ]
    columns = ("study", "CPU hours a seed", "memory", "seeds to run", "remark")
    print_table(f"Price at {scale} scale", columns, rows)
    hours, jobs = schedule.cpu_seconds / 3600, default_jobs()
    low, high = (bound / 3600 for bound in schedule.range_seconds)
    print(
        f"{hours:.2f} CPU hours for {len(waiting)} runs ({low:.2f} to {high:.2f}), about "
        f"{in_words(schedule.seconds_left)} on {jobs} free {'core' if jobs == 1 else 'cores'}. Parts that studies "
        "share count for each of them."
    )
    return schedule


@contextmanager
def left_of(schedule: "Schedule | None", what: str) -> "Iterator[Callable[[str, int], None]]":
    """Yield a function to call before every run; it shows the time left, and that nothing is lost if it is killed."""
    from firstlight.claims.price import in_words
    from firstlight.core.progress import screen

    if schedule is None:
        yield lambda name, seed: None
        return
    with screen(f"Reproducing {what}", seconds=schedule.seconds_left) as shown:

        def before(name: str, seed: int) -> None:
            schedule.start(name, seed)
            shown.seconds = time.monotonic() - shown.start + schedule.seconds_left
            shown.add(f"{name}, seed {seed}", f"about {in_words(schedule.seconds_left)} left")

        yield before


def _hours(one: "Price") -> str:
    if math.isnan(one.cpu_seconds):
        return "unknown"
    cost, low, high = (f"{s / 3600:.2g}" for s in (one.cpu_seconds, one.low_seconds, one.high_seconds))
    return f"{cost} ({low} to {high})"


def _memory(one: "Price") -> str:
    return "unknown" if math.isnan(one.memory_bytes) else f"{one.memory_bytes / 1e9:.1f} GB"


def _remark(one: "Price") -> str:
    return one.problem or ("at most: trainings may stop early" if one.stops_early else "")
