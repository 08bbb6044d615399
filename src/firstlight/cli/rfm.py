"""`firstlight rfm`: a kernel that learns features, and its predictions."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import App

from firstlight.cli.output import OutputFile, page_file

if TYPE_CHECKING:
    from firstlight.kernels import Round

app = App(name="rfm", help="Learn a convolutional kernel's features, and predict with it.")


@app.default
def rfm(
    *,
    data: str = "photos",
    n: int = 500,
    n_test: int = 500,
    family: Literal["cntk", "nngp", "laplace", "gaussian"] = "cntk",
    depth: int = 3,
    size: int = 3,
    readout: Literal["flatten", "gap"] = "flatten",
    rounds: int = 5,
    agop_images: int | None = None,
    network: bool = True,
    seed: int = 0,
    save: Path | None = None,
    output: OutputFile = Path("rfm.html"),
) -> None:
    """Learn which patches matter, with shuffled labels as control, and write one page about it.

    Parameters
    ----------
    data
        A data set, or a folder of class folders.
    n, n_test
        Number of training images, a fifth of which choose round and ridge, and of test images.
    family
        cntk or nngp of a ReLU network; laplace or gaussian on patches.
    depth, size, readout
        Layers, side of the filters, and flatten or gap (global average pooling, much slower).
    rounds
        Updates of the metric at most; it stops when the validation error rises.
    agop_images
        Gradients at so many images; all by default.
    network
        Also train a small network and set its first layer beside the kernel's.
    seed
        Of everything random.
    save
        A new folder for the fitted machine, which `firstlight rfm predict` reads.
    output
        The page to write.
    """
    import sys

    from firstlight.core.errors import InvalidInput
    from firstlight.core.progress import screen
    from firstlight.data import load
    from firstlight.estimators import ConvRFMClassifier, save_machine
    from firstlight.insights.rfm import learn_kernel
    from firstlight.report import write_page
    from firstlight.report.rfm import rfm_page

    page_file(output)
    if save is not None and save.exists():
        raise InvalidInput(f"`save` must not exist yet; {save} does.")
    train, test = load(data, split="train", seed=seed), load(data, split="test", seed=seed)
    train, test = train.sample(n, seed=seed), test.sample(min(n_test, len(test)), seed=seed)
    photos = load("photos", split="test", n=8, seed=seed).x
    machine = ConvRFMClassifier(
        family=family, depth=depth, size=size, readout=readout, rounds=rounds, agop_images=agop_images,
        random_state=seed, verbose=True,
    )  # fmt: skip
    with screen(f"{family} on {data}, {len(train)} images") as view:

        def listen(labels: str, found: "Round") -> None:
            numbers = (
                f"validation error {found.error:.4f}, accuracy {found.accuracy:.1%}, ridge {found.ridge:g}"
            )
            view.found(f"{labels} labels, round {found.number}", numbers)

        found = learn_kernel(train, test, photos, machine=machine, with_network=network, listen=listen)
    print(
        f"Test accuracy {found.test:.1%} (round {found.best}); plain kernel {found.plain_test:.1%}. "
        f"Metric with shuffled labels: cosine {found.cosine:.2f}."
    )
    if save is not None:
        print(f"Saved the machine in {save_machine(machine, save)}.")
    path = write_page(rfm_page(found), output)
    print(f"Wrote {path}. Open it in a browser.", file=sys.stderr)


@app.command
def predict(
    model: Path, *, data: str = "photos", split: str = "test", n: int | None = None, json: bool = False
) -> None:
    """Predict with a saved machine, and print its accuracy.

    Parameters
    ----------
    model
        A folder that `firstlight rfm --save` wrote.
    data, split, n
        The images; all of the split by default.
    json
        Print every prediction as JSON.
    """
    from firstlight.cli.output import print_json
    from firstlight.data import load
    from firstlight.estimators import load_machine

    machine = load_machine(model)
    images = load(data, split=split, n=n, seed=0)
    guesses = machine.predict(images.x)
    right = float((guesses == images.y.numpy()).mean())
    if json:
        print_json({"accuracy": right, "predictions": guesses.tolist()})
    else:
        print(f"{right:.1%} of {len(images)} images of {data} ({split}) are classified correctly.")
