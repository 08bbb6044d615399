"""The tour as a stored run: the same settings and images give it back instead of training again."""

from collections.abc import Callable

from firstlight._internal.devices import DeviceLike, on_given_device
from firstlight._internal.store.runs import Run, RunSpec, Store
from firstlight.data.images import ImageData
from firstlight.questions.tour.parts import PARTS
from firstlight.questions.tour.run import Tour, run_tour


@on_given_device
def fetch_or_run_tour(
    train: ImageData,
    test: ImageData,
    *,
    minutes: float,
    seed: int = 0,
    store: Store | None = None,
    listen: Callable[[Tour], None] = lambda tour: None,
    device: DeviceLike | None = None,
) -> Run:
    """Return the stored tour of these images and settings, or run and store it.

    Parameters
    ----------
    train, test : ImageData
        Images to train on and to test on.
    minutes : float
        Time budget of the training, in minutes on two cores.
    seed : int, default 0
        Seed for all random choices.
    store : Store, optional
        Where runs are kept; by default the user's.
    listen : callable, optional
        Called with the tour so far after each of its parts.
    device : str or torch.device, optional
        Where to compute: "auto", "cpu", "cuda" or "mps"; by default as ``firstlight.computing_on`` says, else
        on the CPU.
    """
    store = store or Store()
    spec = RunSpec(
        what="tour",
        config={"minutes": minutes, "seed": seed, "n": len(train), "parts": [part.name for part in PARTS]},
        data=f"{train.fingerprint} {test.fingerprint}",
    )
    return store.fetch_or_run(
        spec,
        lambda scratch: run_tour(train, test, minutes=minutes, seed=seed, store=store, listen=listen),
    )
