"""`firstlight compare`: one page about several checkpoints."""

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from firstlight.cli.keep_run import measure_and_keep
from firstlight.cli.options import (
    AS_THEY_ARE,
    MODEL_FLAGS,
    TEXT,
    DataName,
    Device,
    FolderOptions,
    Numbers,
    OutputFormat,
    Page,
    Seed,
    Static,
    Switch,
)
from firstlight.cli.output import page_file, print_records, wrote

if TYPE_CHECKING:
    from torch import nn

    from firstlight.questions.compare.measure import Comparison

FLAGS = MODEL_FLAGS
ENDINGS = (".safetensors", ".pt", ".pth", ".ckpt", ".bin", ".onnx")
MOST_IMAGES = 1000  # as many as `firstlight.compare` passes through each network


def compare(
    *checkpoints: str,
    data: DataName,
    arch: Annotated[list[str] | None, Parameter(negative="")] = None,
    factory: Annotated[str | None, Parameter(name="--import")] = None,
    entry: str | None = None,
    initial: Path | None = None,
    split: str | None = None,
    n: int | None = None,
    classes: int | None = None,
    option: Annotated[list[str] | None, Parameter(negative="")] = None,
    mean: Numbers = None,
    std: Numbers = None,
    bgr: Switch = False,
    model_output: str | None = None,
    regime: bool = True,
    device: Device = "auto",
    seed: Seed = 0,
    folder: FolderOptions = AS_THEY_ARE,
    output: Page = Path("compare.html"),
    static: Static = False,
    form: OutputFormat = TEXT,
) -> None:
    """Compare checkpoints of a training, or several models, on one page.

    A checkpoint that cannot be read is named and left out.

    Parameters
    ----------
    checkpoints
        Two or more files of weights, in the order of training; or a folder that holds them, which are then sorted by
        name with epoch_2 before epoch_10. ONNX files need no architecture. Or networks:NAME, a network of the bank with
        all its kept moments.
    arch
        Name of the architecture, as for `firstlight inspect`; once for all checkpoints, or once for each.
    factory
        Code of yours that builds the model, as module:function; the function is called without arguments.
    entry
        Entry of the checkpoints to read if they hold the weights more than once, such as ema.
    initial
        Weights before training, from which movement is counted; by default the first checkpoint.
    split
        Images to use: train or test. By default test, or all images if there are no splits.
    n
        Number of images for gradients; by default 64, or 8 if they are large. Dead filters and the accuracy always
        take 1,000.
    classes
        Number of outputs; by default as many as the checkpoint has.
    option
        Option of the architecture, as name=value; may be repeated.
    mean
        Mean to subtract from pixels between 0 and 1: one number, or one per channel.
    std
        Number to divide pixels by after the mean is subtracted: one, or one per channel.
    bgr
        Reverse the order of the channels, for models that read blue, green, red.
    model_output
        Part of the output to use if the model returns a tuple (its index) or a dictionary (its key).
    regime
        Also tell how lazy the training was, which takes most of the time.
    """
    from firstlight._internal.devices import choose_device, computing_on
    from firstlight.cli.options import index_or_key, named_values
    from firstlight.data.catalogue import load
    from firstlight.models.loading import load_model
    from firstlight.networks.bank import is_in_bank, network_at
    from firstlight.questions.compare.measure import compare as compared

    page_file(output)
    files = checkpoint_files(checkpoints)
    architectures = _one_each(arch, len(files))
    place = choose_device(device)
    images = load(data, split, seed=seed, at_most=max(MOST_IMAGES, n or 0), **folder.options)
    load_from = partial(
        load_model, factory=factory, classes=classes, shape=images.shape, options=named_values(option),
        entry=entry,
    )  # fmt: skip

    def loaded(path: str | Path, architecture: str | None) -> "nn.Module":
        if is_in_bank(path):
            return network_at(str(path))[1].to(place)
        return load_from(path, architecture=architecture).to(place)

    models = {
        name: partial(loaded, path, kind)
        for (name, path), kind in zip(files.items(), architectures, strict=True)
    }
    before = None if initial is None else loaded(initial, architectures[0])
    if is_in_bank(first := next(iter(files.values()))):
        network, _ = network_at(first)
        before = network.initial.to(place) if before is None else before
        if mean is None and std is None:
            mean, std = network.scaling["mean"], network.scaling["std"]
    scaled = images.scaled(mean=mean, std=std, bgr=bgr)
    settings: dict[str, Any] = {
        "n_images": n, "output_part": index_or_key(model_output), "with_regime": regime, "seed": seed
    }  # fmt: skip
    given = {"checkpoints": list(files.values()), "initial": None if initial is None else str(initial)}
    with computing_on(place):
        comparison = measure_and_keep(
            "compare",
            {**settings, **given},
            lambda: compared(models, scaled, initial=before, **settings),
            data=scaled.fingerprint,
        )
    _tell(comparison, output, static=static, form=form)


def checkpoint_files(given: tuple[str, ...]) -> dict[str, str]:
    """Paths by the names under which the page shows them; a folder stands for the checkpoints in it.

    A network of the bank stands for its kept moments.

    A folder in that folder, as Hugging Face's Trainer writes them, stands for the one checkpoint that it holds.
    """
    from firstlight._internal.errors import InvalidInput
    from firstlight.networks.bank import PREFIX, is_in_bank, network_at

    if len(given) == 1 and is_in_bank(given[0]):
        network, _ = network_at(given[0])
        return {f"step {step:,}": f"{PREFIX}{network.name}@{step}" for step in network.moments}
    if len(given) == 1 and Path(given[0]).is_dir():
        root = Path(given[0])
        paths = [path for path in root.iterdir() if path.suffix in ENDINGS and path.is_file()]
        for inner in filter(Path.is_dir, root.iterdir()):
            paths += [
                path for path in inner.iterdir() if path.name in ("model.safetensors", "pytorch_model.bin")
            ][:1]
        paths.sort(key=lambda path: natural(str(path.relative_to(root))))
        if len(paths) < 2:
            raise InvalidInput(
                f"{root} must hold at least 2 checkpoints ({', '.join(ENDINGS)}); it holds {len(paths)}."
            )
        return {str(path.relative_to(root)): str(path) for path in paths}
    if len(given) < 2:
        raise InvalidInput(
            f"Name at least two checkpoints to compare, or a folder of them; got {len(given)}."
        )
    names = [Path(path).name.removeprefix(PREFIX) for path in given]
    return dict(zip(names if len(set(names)) == len(names) else given, given, strict=True))


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Sort key that counts: epoch_2 before epoch_10.

    Examples
    --------
    >>> sorted(["epoch_10.pt", "epoch_2.pt", "best.pt"], key=natural)
    ['best.pt', 'epoch_2.pt', 'epoch_10.pt']
    """
    parts = re.split(r"(\d+)", name)
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _one_each(architectures: list[str] | None, n: int) -> list[str | None]:
    from firstlight._internal.errors import InvalidInput

    if not architectures:
        return [None] * n
    if len(architectures) not in (1, n):
        raise InvalidInput(
            f"--arch must be given once for all or once for each of {n}; got {len(architectures)}."
        )
    return [*architectures] if len(architectures) == n else [*architectures] * n


def _tell(comparison: "Comparison", output: Path, *, static: bool, form: OutputFormat) -> None:
    """Write the page, and print what was left out and where the page is, or the numbers."""
    from firstlight._internal.safe_text import visible
    from firstlight.pages.page import write_page
    from firstlight.questions.compare.page import comparison_page

    for name, reason in comparison.left_out.items():
        print(visible(f"firstlight: left out {name}: {reason}"), file=sys.stderr)
    page = write_page(comparison_page(comparison), output, static=static)
    if form.is_text:
        wrote(page)
        return
    models = [model.numbers() for model in comparison.models]
    print_records(
        [{name: value for name, value in model.items() if name != "layers"} for model in models],
        form,
        document={
            "initial": comparison.reference,
            "models": models,
            "problem": comparison.problem,
            "left_out": comparison.left_out,
            "without_counterpart": comparison.without_counterpart,
        },
    )
