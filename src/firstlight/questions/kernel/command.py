"""`firstlight rfm`: a kernel that learns features, and its predictions."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import App

from firstlight.cli.keep_run import measure_and_keep
from firstlight.cli.options import (
    AS_THEY_ARE,
    TEXT,
    Cluster,
    DataName,
    Device,
    FolderOptions,
    OutputFormat,
    Page,
    Seed,
    Static,
)
from firstlight.cli.output import announce_split, page_file, print_records, wrote

if TYPE_CHECKING:
    from firstlight.kernels.rfm import Round
    from firstlight.questions.kernel.measure import LearnedKernel

FEWEST_IMAGES = 20
app = App(name="rfm", help="Learn the features of a convolutional kernel, and predict with it.")


@app.default
def rfm(
    *,
    data: DataName = "photos",
    n: int = 500,
    n_test: int = 500,
    family: Literal["cntk", "nngp", "laplace", "gaussian"] = "cntk",
    depth: int = 3,
    kernel: int = 3,
    readout: Literal["flatten", "gap"] = "flatten",
    rounds: int = 5,
    patience: int = 2,
    solver: Literal["auto", "exact", "features"] = "auto",
    agop_images: int | None = None,
    network: bool = True,
    seed: Seed = 0,
    folder: FolderOptions = AS_THEY_ARE,
    cluster: Cluster = None,
    device: Device = "auto",
    output: Page = Path("rfm.html"),
    output_machine: Path | None = None,
    static: Static = False,
    form: OutputFormat = TEXT,
) -> None:
    """Learn which patches matter, with shuffled labels as control, and write one page about it.

    Parameters
    ----------
    n
        Number of training images; a fifth of them selects the round and the ridge.
    n_test
        Maximum number of test images.
    family
        Kernel: cntk or nngp of a ReLU network, or laplace or gaussian on patches.
    depth
        Number of layers.
    kernel
        Side of the filters.
    readout
        What follows the last layer: flatten, or gap (global average pooling, much slower).
    rounds
        Maximum number of updates of the metric; the one of lowest validation error is used.
    patience
        Stop after this many rounds without a lower validation error.
    solver
        exact (kernel matrix), features (drawn filters, for many images) or auto: features above 2000 images.
    agop_images
        Number of images at which gradients are taken; by default all, or 200 with drawn features.
    network
        Also train a small network and compare its first layer with the kernel's.
    device
        Device to compute on: auto (cuda if there is one, then mps, else cpu), cpu, cuda or mps. The compiled kernels
        are for the CPU; on cuda tensor operations compute cntk and nngp. On mps, which has no float64, only the
        network of --network is trained.
    output_machine
        New folder to save the fitted machine in, for `firstlight rfm predict`.
    """
    from firstlight._internal.devices import choose_device, computing_on
    from firstlight._internal.errors import InvalidInput
    from firstlight._internal.executor import on_cluster
    from firstlight._internal.progress import tell
    from firstlight.data.catalogue import load, load_splits
    from firstlight.estimators.convrfm import ConvRFMClassifier
    from firstlight.estimators.saving import save_machine
    from firstlight.pages.page import write_page
    from firstlight.questions.kernel.measure import learn_kernel
    from firstlight.questions.kernel.page import rfm_page

    page_file(output)
    _demand_enough(n)
    place = choose_device(device)
    if output_machine is not None and output_machine.exists():
        raise InvalidInput(f"`output_machine` must not exist yet; {output_machine} does.")
    train, test = load_splits(data, n=n, n_test=n_test, seed=seed, **folder.options)
    _demand_enough(len(train))
    announce_split(train, test)
    photos = load("photos", split="test", n=8, seed=seed).x
    machine = ConvRFMClassifier(
        family=family, depth=depth, size=kernel, readout=readout, rounds=rounds, agop_images=agop_images,
        patience=patience, solver=solver, random_state=seed, verbose=True,
    )  # fmt: skip
    with computing_on(place), on_cluster(cluster):

        def listen(labels: str, done: "Round") -> None:
            numbers = f"validation error {done.error:.4f}, accuracy {done.accuracy:.1%}, ridge {done.ridge:g}"
            tell(f"{labels} labels, round {done.number}", numbers)

        learned = measure_and_keep(
            "rfm",
            {**machine.get_params(), "data": data, "network": network},
            lambda: learn_kernel(train, test, photos, machine=machine, with_network=network, listen=listen),
            data=f"{train.fingerprint} {test.fingerprint}",
        )
    page = write_page(rfm_page(learned), output, static=static)  # first: a machine too large must not cost it
    folder_of_machine = None if output_machine is None else save_machine(machine, output_machine)
    _print_learned(learned, form)
    if form.is_text:
        wrote(page)
        if folder_of_machine is not None:
            print(f"Saved the machine in {folder_of_machine}.")


def _print_learned(learned: "LearnedKernel", form: OutputFormat) -> None:
    if form.is_text:
        print(
            f"Accuracy on {learned.n_test} test images {learned.share(learned.test)} (round {learned.best}); plain "
            f"kernel {learned.share(learned.plain_test)}. Metric with shuffled labels: cosine {learned.cosine:.2f}."
        )
        return
    row = {
        "test images": learned.n_test, "accuracy": learned.test, "plain kernel": learned.plain_test,
        "round": learned.best, "cosine with shuffled labels": learned.cosine,
    }  # fmt: skip
    print_records([row], form)


def _demand_enough(n: int | None) -> None:
    """Refuse what cannot be learned from now, not after half a minute."""
    from firstlight._internal.errors import InvalidInput

    if n is not None and n < FEWEST_IMAGES:
        raise InvalidInput(
            f"`n` must be at least {FEWEST_IMAGES}: a fifth of the images chooses the round; got {n}."
        )


@app.command
def predict(
    model: Path,
    *,
    data: DataName = "photos",
    split: str | None = None,
    n: int | None = None,
    seed: Seed = 0,
    folder: FolderOptions = AS_THEY_ARE,
    device: Device = "auto",
    form: OutputFormat = TEXT,
) -> None:
    """Predict with a saved machine, and print its accuracy.

    Parameters
    ----------
    model
        Folder that `firstlight rfm --output-machine` wrote.
    split
        Images to use: train or test. By default test, or all images if there are no splits.
    n
        Number of images; by default all.
    """
    from firstlight._internal.devices import choose_device, computing_on
    from firstlight.data.catalogue import load
    from firstlight.estimators.saving import load_machine
    from firstlight.maths.correlation import share_interval

    place = choose_device(device)
    machine = load_machine(model)
    images = load(data, split, n=n, seed=seed, **folder.options)
    with computing_on(place):
        predictions = machine.predict(images.x)
    accuracy = share_interval(int((predictions == images.y.numpy()).sum()), len(images))
    if not form.is_text:
        rows = [{"image": index, "prediction": one} for index, one in enumerate(predictions.tolist())]
        print_records(rows, form, document={"accuracy": accuracy.value, "predictions": predictions.tolist()})
    else:
        part = images.meta["split"]
        print(f"{accuracy.percent(1)} of {len(images)} images of {data} ({part}) are classified correctly.")
