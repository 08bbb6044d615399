"""`firstlight train`: a trained network to look at."""

from pathlib import Path
from typing import Literal

from firstlight.cli.output import OutputFile


def train(
    *,
    arch: str = "small",
    data: str = "photos",
    n: int | None = None,
    epochs: int = 10,
    lr: float = 0.1,
    momentum: float = 0.0,
    batch_size: int = 32,
    optimiser: str = "sgd",
    loss: Literal["cross_entropy", "mse", "mse_sum"] = "cross_entropy",
    initialiser: str = "default",
    seed: int = 0,
    output: OutputFile = Path("model.safetensors"),
) -> None:
    """Train a network; the same command after a kill goes on where it stopped, to the same bits.

    Parameters
    ----------
    arch
        Name of an architecture.
    data
        Name of a data set, or a folder of class folders.
    n
        Number of training images; all by default.
    epochs, lr, momentum, batch_size, optimiser, loss, initialiser, seed
        The recipe.
    output
        Where to write the weights (safetensors).
    """
    from safetensors.torch import save_file

    from firstlight.core.files import whole_file
    from firstlight.data import load
    from firstlight.models.spec import ModelSpec
    from firstlight.store import Store
    from firstlight.training import Recipe, accuracy, train_once

    images = load(data, split="train", n=n, seed=seed)
    spec = ModelSpec(name=arch, classes=images.n_classes, shape=images.shape, initialiser=initialiser)
    recipe = Recipe(
        optimiser=optimiser,
        lr=lr,
        momentum=momentum,
        batch_size=batch_size,
        loss=loss,
        epochs=epochs,
        seed=seed,
    )
    done = train_once(spec, images, recipe, store=Store())
    with whole_file(output) as part:
        save_file(done.weights, part, metadata={"arch": arch, "data": data})
    model = done.into(spec(seed))
    unseen = load(data, split="test", seed=seed)
    print(
        f"Wrote {output}. Last loss {done.history.loss[-1]:.3g}, training accuracy "
        f"{accuracy(model, images):.1%}, test accuracy {accuracy(model, unseen):.1%}."
    )
