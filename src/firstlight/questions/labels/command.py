"""`firstlight labels`: which labels look wrong."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from firstlight._internal.safe_text import visible
from firstlight.cli.options import (
    AS_THEY_ARE,
    TEXT,
    Cluster,
    Device,
    FolderOptions,
    OutputFormat,
    Seed,
    Static,
)
from firstlight.cli.output import page_file, print_records, seconds_of, wrote

if TYPE_CHECKING:
    from firstlight.data.images import ImageData

# what the library calls arguments whose flags have other names
DONE = {"relabel": "relabelled", "remove": "removed", "keep": "kept"}
FLAGS = {"data": "DATA", "source": "DATA", "images": "DATA"}


def labels(
    data: str,
    /,
    *,
    arch: Annotated[str | None, Parameter(name=("--arch", "--model"))] = None,
    factory: Annotated[str | None, Parameter(name="--import")] = None,
    record: Path | None = None,
    pred_probs: Path | None = None,
    apply: Path | None = None,
    budget: str | None = None,
    split: str = "train",
    n: int | None = None,
    top: int = 60,
    seed: Seed = 0,
    folder: FolderOptions = AS_THEY_ARE,
    cluster: Cluster = None,
    device: Device = "auto",
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    static: Static = False,
    form: OutputFormat = TEXT,
) -> None:
    """Find labels that look wrong, and write a page to look through and a CSV.

    Four networks are trained, each on one half of the images. A label is suspicious if networks give it rarely, if
    those that did not train on the image give it little probability, and if similar images have other labels. Some
    labels are changed on purpose first, to measure how many errors are found.

    Parameters
    ----------
    data
        A folder of class folders, the name of a data set, an npz file, an archive, or a CSV with the columns file and
        label.
    arch
        Network to train: the name of an architecture, or timm:NAME, torchvision:NAME or hf:NAME (transformers) where
        that package is installed. By default a small convolutional network.
    factory
        Code of yours that builds the network to train, with an output per class, as module:function; the function is
        called without arguments.
    record
        CSV that an AccessibilityRecorder wrote in a training of your own on these images; no network is trained.
    pred_probs
        NumPy file (.npy) of out-of-sample class probabilities of your own, a row for each image in the order of the
        data, a column for each class; no network is trained.
    apply
        Decisions that were exported from the page: writes a corrected copy of the folder or of the CSV, and checks
        nothing. The copy is --output, by default beside the data with -corrected behind its name.
    budget
        Time limit of the training, such as 90s, 10m or 1h; there are fewer epochs if it is short.
    split
        Images to check: train or test. A folder without splits counts as train.
    n
        Number of images to check, drawn evenly over the classes; by default all.
    top
        Largest number of images on the page.
    output
        File to write the page to, by default labels.html; the table is written beside it, as a CSV.
    """
    from firstlight._internal.devices import choose_device
    from firstlight._internal.errors import InvalidInput
    from firstlight._internal.executor import on_cluster
    from firstlight.questions.labels.measure import check_labels
    from firstlight.questions.labels.page import labels_sentences, write_labels_page
    from firstlight.questions.labels.probabilities import check_probabilities
    from firstlight.questions.labels.record import check_record

    if apply is not None:
        _apply(data, apply, output)
        return
    page = output or Path("labels.html")
    if page.suffix == ".csv":
        raise InvalidInput(f"--output names the page; the table is written beside it as a CSV. Got {page}.")
    page_file(page)
    table = page.with_suffix(".csv")
    page_file(table)
    place = choose_device(device)
    if arch is not None and factory is not None:
        raise InvalidInput("--arch and --import both name the network to train: give one of them.")
    if factory is not None and ":" not in factory:
        raise InvalidInput(f"--import must name code of yours as module:function; got {factory!r}.")
    model = factory if arch is None else arch
    ready = [("--record", record), ("--pred-probs", pred_probs)]
    given = [flag for flag, file in ready if file is not None]
    if len(given) > 1:
        raise InvalidInput("--record and --pred-probs both replace training: give one of them.")
    if given and (model is not None or budget is not None or n is not None):
        raise InvalidInput(f"{given[0]} replaces training: leave out --arch, --import, --budget and --n.")
    seconds = None if budget is None else seconds_of(budget)
    images = _images(data, split, n, seed, folder)
    with on_cluster(cluster):
        if record is not None:
            check = check_record(images, record, top=top)
        elif pred_probs is not None:
            check = check_probabilities(images, pred_probs, top=top)
        else:
            check = check_labels(images, model, budget=seconds, top=top, seed=seed, device=place)
    for sentence in labels_sentences(check):
        print(visible(sentence), file=sys.stderr)
    check.write_csv(table)
    write_labels_page(check, page, static=static)
    if form.is_text:
        print(f"Wrote {visible(str(table))}.")
        wrote(page)
        return
    print_records(check.suspicious(), form)


def _apply(data: str, decisions: Path, to: Path | None) -> None:
    from firstlight.questions.labels.decisions import apply_decisions

    copy, counts = apply_decisions(data, decisions, to)
    words = ", ".join(f"{counts[name]} {word}" for name, word in DONE.items())
    print(f"Wrote {visible(str(copy))}: {words}. {visible(data)} is as it was.")


def _images(data: str, split: str, n: int | None, seed: int, folder: FolderOptions) -> "ImageData":
    from firstlight.data.catalogue import load
    from firstlight.data.label_table import load_label_table

    if Path(data).suffix.lower() == ".csv":
        return load_label_table(data, n=n, seed=seed, **folder.options)
    return load(data, split, n=n, seed=seed, **folder.options)
