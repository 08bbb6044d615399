"""A study of one trained network on real images, part by part; a stored tour is not done twice."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from firstlight._internal.devices import DeviceLike, on_given_device
from firstlight._internal.result import Result
from firstlight._internal.store.runs import Run, RunSpec, Store
from firstlight.questions.tour.parts import PARTS
from firstlight.questions.tour.subject import Subject


@dataclass(frozen=True, kw_only=True)
class Tour(Result):
    """Everything that a tour measured so far.

    Parameters
    ----------
    name, data_name : str
        The network, and the images it was trained on.
    recipe : str
        How it was trained, in words.
    planned : tuple of str
        Names of all parts of this tour, in order.
    parts : dict of str to Result
        What the parts gave that are done, by their names in :data:`PARTS`.
    seconds : float, default 0.0
        Taken so far.
    """

    name: str
    data_name: str
    recipe: str
    planned: tuple[str, ...]
    parts: dict[str, Result] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def pending(self) -> tuple[str, ...]:
        """Names of the parts to come."""
        return tuple(name for name in self.planned if name not in self.parts)


@on_given_device
def run_tour(
    subject: Subject,
    *,
    listen: Callable[[Tour], None] = lambda tour: None,
    device: DeviceLike | None = None,
) -> Tour:
    """Measure what a network learned, in what order, and why.

    Parameters
    ----------
    subject : Subject
        A network of the bank (:class:`~firstlight.questions.tour.subject.BankSubject`), or networks to be trained on
        one's own images (:class:`~firstlight.questions.tour.subject.TrainedSubject`).
    listen : callable, default lambda tour: None
        Called with the tour so far, before its first part and after each.
    device : str or torch.device, optional
        Where to compute: "auto", "cpu", "cuda" or "mps"; by default as ``firstlight.computing_on`` says, else
        on the CPU.
    """
    start = time.perf_counter()
    parts = [part for part in PARTS if not (subject.why and part.needs_own_images)]
    tour = Tour(
        name=subject.name,
        data_name=subject.data_name,
        recipe=subject.recipe,
        planned=tuple(part.name for part in parts),
    )
    listen(tour)
    for part in parts:
        done = {**tour.parts, part.name: part.run(subject)}
        tour = dataclasses.replace(tour, parts=done, seconds=time.perf_counter() - start)
        listen(tour)
    return tour


@on_given_device
def fetch_or_run_tour(
    subject: Subject,
    *,
    store: Store | None = None,
    listen: Callable[[Tour], None] = lambda tour: None,
    device: DeviceLike | None = None,
) -> Run:
    """Return the stored tour of this subject, or run and store it; arguments as for :func:`run_tour`."""
    spec = RunSpec(what="tour", config={**subject.config, "parts": [part.name for part in PARTS]})
    return (store or Store()).fetch_or_run(spec, lambda scratch: run_tour(subject, listen=listen))
