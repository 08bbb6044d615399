"""`firstlight train`: a trained network to look at."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from firstlight.cli.options import (
    AS_THEY_ARE,
    TEXT,
    Cluster,
    DataName,
    Device,
    FolderOptions,
    OutputFormat,
    Seed,
)

if TYPE_CHECKING:
    from torch import nn

    from firstlight.data.images import ImageData
    from firstlight.maths.correlation import Interval

FLAGS = {"name": "--arch"}


def train(
    *,
    arch: str = "small",
    data: DataName = "photos",
    n: int | None = None,
    epochs: int = 10,
    lr: float = 0.1,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    batch_size: int = 32,
    optimiser: str = "sgd",
    loss: Literal["cross_entropy", "mse", "mse_sum"] = "cross_entropy",
    initialiser: str = "default",
    networks: int = 1,
    seed: Seed = 0,
    folder: FolderOptions = AS_THEY_ARE,
    cluster: Cluster = None,
    device: Device = "auto",
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("model.safetensors"),
    output_initial: Path | None = None,
    form: OutputFormat = TEXT,
) -> None:
    """Train a network and write its weights. After an interruption the same command resumes, to the same bits.

    Parameters
    ----------
    arch
        Name of an architecture.
    n
        Number of training images; by default all.
    epochs
        Number of passes over the training images.
    lr
        Learning rate.
    momentum
        Momentum of sgd.
    weight_decay
        Weight decay, as torch understands it for the optimiser.
    batch_size
        Number of images per step.
    optimiser
        One of sgd, adam, adamw, adagrad, rmsprop, adamax, adadelta.
    loss
        Loss to minimise: cross-entropy, or squared errors averaged (mse) or summed (mse_sum) over the outputs.
    initialiser
        Initialiser of the weights: default, xavier_normal, kaiming_normal, orthogonal and others.
    networks
        Number of networks, with consecutive seeds, trained side by side.
    output
        File to write the weights to (safetensors). Of several networks each file name ends in its seed.
    output_initial
        File to write the weights before training to, for `firstlight inspect --initial`.
    """
    from firstlight._internal.devices import choose_device, computing_on
    from firstlight._internal.errors import InvalidInput
    from firstlight._internal.executor import on_cluster
    from firstlight._internal.files import file_to_write
    from firstlight._internal.store.runs import Store
    from firstlight.cli.output import announce_split, print_records
    from firstlight.data.catalogue import load_splits
    from firstlight.models.building import ModelSpec
    from firstlight.models.checkpoints import save_weights
    from firstlight.training.ensemble import train_ensemble, train_once
    from firstlight.training.recipe import Recipe

    if networks < 1:
        raise InvalidInput(f"`networks` must be at least 1; got {networks}.")
    place = choose_device(device)  # refused before the images are loaded
    seeds = range(seed, seed + networks)
    outputs = [_numbered(output, one, networks) for one in seeds]
    initials = [_numbered(output_initial, one, networks) for one in seeds] if output_initial else []
    for path in (*outputs, *initials):
        file_to_write(path)  # refused before the training, not after it
    images, unseen = load_splits(data, n=n, seed=seed, **folder.options)
    announce_split(images, unseen)
    spec = ModelSpec(name=arch, classes=images.n_classes, shape=images.shape, initialiser=initialiser)
    recipe = Recipe(
        optimiser=optimiser, lr=lr, momentum=momentum, weight_decay=weight_decay, batch_size=batch_size, loss=loss,
        epochs=epochs, seed=seed,
    )  # fmt: skip
    with on_cluster(cluster), computing_on(place):
        if networks == 1 and cluster is None:  # here, with its loss shown and Ctrl-C heeded between steps
            ensemble = [train_once(spec, images, recipe, store=Store())]
        else:
            ensemble = train_ensemble(spec, networks, images, recipe, store=Store())
        for trained, path in zip(ensemble, initials, strict=False):
            save_weights(trained.initial, path, arch=arch, data=data)
        records = []
        for trained, path in zip(ensemble, outputs, strict=True):
            save_weights(trained.weights, path, arch=arch, data=data)
            seen, new = _shares(trained.into(spec(trained.seed)), images, unseen)
            last = float(trained.history.loss[-1])
            records.append({
                "weights": str(path), "seed": trained.seed, "loss": last, "training accuracy": seen.value,
                "test accuracy": new.value,
            })  # fmt: skip
            if form.is_text:
                print(
                    f"Wrote {path}. Last loss {last:.3g}, training accuracy {seen.value:.1%}, "
                    f"test accuracy {new.percent(1)}."
                )
    if not form.is_text:
        print_records(records, form)


def _shares(model: "nn.Module", *parts: "ImageData") -> "list[Interval]":
    """What share of each set of images a network classifies correctly."""
    from firstlight.maths.correlation import share_interval
    from firstlight.training.loop import accuracy

    return [share_interval(round(accuracy(model, part) * len(part)), len(part)) for part in parts]


def _numbered(path: Path, seed: int, networks: int) -> Path:
    return path if networks == 1 else path.with_stem(f"{path.stem}-{seed}")
