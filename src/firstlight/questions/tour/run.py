"""A short study of small networks on real images, part by part."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from firstlight._internal.devices import DeviceLike, on_given_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.store.runs import Store
from firstlight.data.images import ImageData
from firstlight.questions.tour.parts import PARTS
from firstlight.questions.tour.shared_trainings import Stage


@dataclass(frozen=True, kw_only=True)
class Tour(Result):
    """Everything that a tour measured so far.

    Parameters
    ----------
    data_name, n_images : str or int
        What was studied.
    recipe : str
        How the networks are trained, in words.
    parts : dict of str to Result
        What the parts gave that are done, by their names in :data:`PARTS`.
    seconds : float, default 0.0
        Taken so far.
    """

    data_name: str
    n_images: int
    recipe: str
    parts: dict[str, Result] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def pending(self) -> tuple[str, ...]:
        """Names of the parts to come."""
        return tuple(part.name for part in PARTS if part.name not in self.parts)


@on_given_device
def run_tour(
    train: ImageData,
    test: ImageData,
    *,
    minutes: float = 5.0,
    n_networks: int = 3,
    seed: int = 0,
    store: Store | None = None,
    listen: Callable[[Tour], None] = lambda tour: None,
    device: DeviceLike | None = None,
) -> Tour:
    """Train a few small networks on `train` and measure what they learned, in what order, and why.

    Parameters
    ----------
    train, test : ImageData
        Images in [0, 1].
    minutes : float, default 5.0
        What the whole may take on two cores; decides the number of steps.
    n_networks : int, default 3
        At least two, with seeds `seed`, `seed + 1`, ...
    store : Store, optional
        Networks that are there already are not trained again.
    listen : callable, default lambda tour: None
        Told what there is before the first part and after each of them.
    device : str or torch.device, optional
        Where to compute: "auto", "cpu", "cuda" or "mps"; by default as ``firstlight.computing_on`` says, else
        on the CPU.
    """
    if n_networks < 2:
        raise InvalidInput(f"`n_networks` must be at least 2, to compare them; got {n_networks}.")
    start = time.perf_counter()
    stage = Stage(train=train, test=test, minutes=minutes, n_networks=n_networks, seed=seed, store=store)
    name = str(train.meta.get("name", "images"))
    tour = Tour(data_name=name, n_images=len(train), recipe=stage.recipe_words)
    listen(tour)
    for part in PARTS:
        parts = {**tour.parts, part.name: part.run(stage)}
        tour = dataclasses.replace(tour, parts=parts, seconds=time.perf_counter() - start)
        listen(tour)
    return tour
