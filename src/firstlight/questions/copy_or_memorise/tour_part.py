"""The identity task as one part of a tour: a few depths, one answer."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.store.runs import Store
from firstlight.data.catalogue import fetch
from firstlight.questions.copy_or_memorise.task import IdentityRun, IdentityTask, run_identity_tasks


@dataclass(frozen=True, kw_only=True)
class IdentityTour(Result):
    """Networks of several depths, trained to copy the same image.

    Parameters
    ----------
    runs : tuple of IdentityRun
        By depth, then seed; diverged ones carry their problem instead of numbers.
    planned : int
        How many there will be, for a page that is written while they train.
    """

    runs: tuple[IdentityRun, ...]
    planned: int

    @property
    def depths(self) -> tuple[int, ...]:
        """Depths of which at least one network is there, ascending."""
        return tuple(sorted({run.task["depth"] for run in self.runs}))

    def at(self, depth: int) -> list[IdentityRun]:
        """Networks of one depth that did not diverge."""
        return [r for r in self.runs if r.task["depth"] == depth and r.findings is not None]

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong, network by network."""
        return tuple(
            f"{r.task['depth']} layers, seed {r.task['seed']}: {r.problem}" for r in self.runs if r.problem
        )


def run_identity_tour(
    task: IdentityTask | None = None,
    *,
    depths: Sequence[int] = (1, 3, 5, 10, 20),
    seeds: int = 1,
    store: Store | None = None,
    listen: Callable[[IdentityTour], None] | None = None,
    n_jobs: int | None = None,
) -> IdentityTour:
    """Train networks of several depths on the same image and measure what they do to others.

    Parameters
    ----------
    task : IdentityTask, optional
        Everything but depth; by default a digit at desk scale, or a photograph without MNIST.
    depths : sequence of int, default (1, 3, 5, 10, 20)
        Weight layers.
    seeds : int, default 1
        Networks per depth.
    store : Store, optional
        Networks that are there already are not trained again.
    listen : callable, optional
        Told what there is so far, whenever some networks are done.
    n_jobs : int, optional
        Networks side by side.
    """
    if not depths or min(depths) < 1 or seeds < 1:
        raise InvalidInput(f"`depths` and `seeds` must be positive; got {tuple(depths)} and {seeds}.")
    base = task or IdentityTask(dataset=_obtainable("mnist"))
    tasks = [
        dataclasses.replace(base, depth=depth, seed=base.seed + seed)
        for depth in sorted(set(depths))
        for seed in range(seeds)
    ]

    def heard(runs: list[IdentityRun]) -> None:
        if listen is not None:
            listen(IdentityTour(runs=tuple(runs), planned=len(tasks)))

    runs = run_identity_tasks(tasks, store=store, listen=heard if listen else None, n_jobs=n_jobs)
    return IdentityTour(runs=tuple(runs), planned=len(tasks))


def _obtainable(dataset: str) -> str:
    try:
        fetch(dataset)
    except DataUnavailable:
        return "photos"
    return dataset
