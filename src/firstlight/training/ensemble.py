"""Many copies of one network, trained side by side, each kept as a run."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from firstlight._internal.devices import CPU, chosen_device, computing_on
from firstlight._internal.errors import InvalidInput
from firstlight._internal.executor import map_tasks
from firstlight._internal.result import Result
from firstlight._internal.store.runs import RunSpec, Store
from firstlight.data.images import ImageData
from firstlight.training.loop import History, train_on
from firstlight.training.observers import Observer, Recorder
from firstlight.training.recipe import Recipe

Build = Callable[[int], nn.Module]


@dataclass(frozen=True, kw_only=True)
class Trained(Result):
    """One trained network: weights before and after, and what was seen on the way.

    Parameters
    ----------
    weights, initial : dict of str to Tensor
        State dictionaries after and before training.
    history : History
        Losses by step.
    records : tuple of dict of str to Tensor
        For every recording observer, in order, its `state_dict`.
    seed : int
        Seed for the weights and for the order of the images.
    """

    weights: dict[str, Tensor]
    initial: dict[str, Tensor]
    history: History
    records: tuple[dict[str, Tensor], ...]
    seed: int

    def into(self, model: nn.Module) -> nn.Module:
        """Load the trained weights into a network of the same architecture."""
        model.load_state_dict(self.weights)
        return model


def train_once(
    build: Build,
    data: ImageData,
    recipe: Recipe,
    *,
    observe: Callable[[int], Sequence[Observer]] | None = None,
    store: Store | None = None,
    show: bool | None = None,
) -> Trained:
    """Build and train one network, or fetch it from the store.

    Parameters
    ----------
    build : Build
        Makes the network from a seed. To be kept in a store it must say what it is through an attribute
        `config` (a dictionary), as :class:`firstlight.models.ModelSpec` does.
    data, recipe : ImageData or Recipe
        `recipe.seed` decides the initial weights too.
    observe : callable, optional
        Makes the observers of one network from its number of steps per epoch.
    store : Store, optional
        Where finished runs and checkpoints lie; None keeps nothing.
    """

    def compute(checkpoint: Path | None) -> Trained:
        model = build(recipe.seed)
        initial = {name: value.clone() for name, value in model.state_dict().items()}
        observers = observe(recipe.steps_per_epoch(len(data))) if observe else ()
        history = train_on(
            model, data, recipe, observers=observers, checkpoint=checkpoint, show=show, device=place
        )
        return Trained(
            weights={name: value.detach().clone() for name, value in model.state_dict().items()},
            initial=initial,
            history=history,
            records=tuple(dict(o.state_dict()) for o in observers if isinstance(o, Recorder)),
            seed=recipe.seed,
        )

    with computing_on(chosen_device() or CPU) as place:
        if store is None:
            return compute(None)
        spec = _spec(build, data, recipe, observe)
        trained: Trained = store.fetch_or_run(
            spec, lambda scratch: compute(scratch / "checkpoint.safetensors")
        ).result
        return trained


def train_ensemble(
    build: Build,
    n: int,
    data: ImageData,
    recipe: Recipe,
    *,
    observe: Callable[[int], Sequence[Observer]] | None = None,
    store: Store | None = None,
    label: str = "Training",
    n_jobs: int | None = None,
    show: bool | None = None,
) -> list[Trained]:
    """Train `n` networks with seeds ``recipe.seed, recipe.seed + 1, ...``.

    One single-threaded process per core by default; the weights are the same to the bit as when
    trained one by one. On another device they are trained one after the other, unless `n_jobs` or
    `FIRSTLIGHT_JOBS` says otherwise. Arguments as for :func:`train_once`.
    """
    if n < 1:
        raise InvalidInput(f"`n` must be at least 1; got n={n}.")
    recipes = [dataclasses.replace(recipe, seed=recipe.seed + i) for i in range(n)]
    member = partial(train_once, build, data, observe=observe, store=store, show=False)
    return map_tasks(member, recipes, label=label, n_jobs=n_jobs, show=show)


def _spec(build: Build, data: ImageData, recipe: Recipe, observe: Any) -> RunSpec:
    described = getattr(build, "config", None)
    if not isinstance(described, dict):
        raise InvalidInput(
            "to be kept in a store, `build` must carry a dictionary `config` that says what it builds; "
            "use firstlight.models.ModelSpec, or pass store=None."
        )
    watched = "" if observe is None else getattr(observe, "name", None)
    if watched is None:
        raise InvalidInput("to be kept in a store, `observe` must carry a `name` that says what it records.")
    config = {"model": described, "recipe": dataclasses.asdict(recipe), "observe": watched}
    return RunSpec(what="train", config=config, data=data.fingerprint)
