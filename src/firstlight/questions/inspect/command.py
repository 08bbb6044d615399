"""`firstlight inspect`: one page about a trained network."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from firstlight.cli.keep_run import fingerprint_of, measure_and_keep
from firstlight.cli.options import (
    AS_THEY_ARE,
    MODEL_FLAGS,
    DataName,
    Device,
    FolderOptions,
    Numbers,
    Page,
    Seed,
    Static,
    Switch,
)
from firstlight.cli.output import page_file, print_json, wrote

if TYPE_CHECKING:
    from torch import nn

    from firstlight.questions.inspect.result import Inspection

FLAGS = MODEL_FLAGS
MOST_IMAGES = 1000  # as many as `firstlight.inspect` passes through the network: no more need to be decoded


def inspect(
    checkpoint: str | None = None,
    *,
    data: DataName,
    arch: str | None = None,
    factory: Annotated[str | None, Parameter(name="--import")] = None,
    entry: str | None = None,
    call: str | None = None,
    initial: Path | None = None,
    split: str | None = None,
    n: int | None = None,
    fast: Switch = False,
    classes: int | None = None,
    option: Annotated[list[str] | None, Parameter(negative="")] = None,
    mean: Numbers = None,
    std: Numbers = None,
    bgr: Switch = False,
    model_output: str | None = None,
    exact: Switch = False,
    device: Device = "auto",
    seed: Seed = 0,
    folder: FolderOptions = AS_THEY_ARE,
    output: Page = Path("inspect.html"),
    static: Static = False,
    json: Switch = False,
    fail_on: Annotated[list[str] | None, Parameter(negative="")] = None,
) -> None:
    """Inspect a trained network and write one page about it.

    Parameters
    ----------
    checkpoint
        File of the weights: safetensors, or a torch checkpoint of tensors in any layout. Or an ONNX file, which holds
        the network too; it is read, never run. Leave it out if the code behind --import loads the weights itself, or to
        take the pretrained weights of timm:NAME, torchvision:NAME or hf:NAME. Or networks:NAME, a network of the bank
        with its initial weights, and networks:NAME@STEP, the same at one of its kept moments.
    arch
        Name of an architecture; or timm:NAME, torchvision:NAME or hf:NAME (transformers) where that package is
        installed.
    factory
        Code of yours that builds the model, as module:function; the function is called without arguments.
    entry
        Entry of the checkpoint to read if it holds the weights more than once, such as ema.
    call
        Code of yours that calls the model, as module:function, if its input is no tensor of images; the function is
        given the model and a batch of images.
    initial
        Weights of the same model before training, to see how far training moved them and whether it was lazy. By
        default the model is compared with a fresh initialisation.
    split
        Images to use: train or test. By default test, or all images if there are no splits.
    n
        Number of images for gradients; by default 512, or 32 if they are large. Dead filters and the accuracy always
        take 1,000.
    fast
        Use fewer images and accept wider error bars.
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
    exact
        Sum over all outputs instead of estimating the sum, however many there are; slow with a thousand.
    json
        Print the findings as JSON.
    fail_on
        Condition on a finding, such as 'dead>0' or 'accuracy<0.9'; if it holds, a line says why and the exit code
        is 1. May be repeated. Findings: dead, silent, duplicate, unmeasured, layers, parameters, accuracy, chance,
        above_null, movement, regime.
    """
    from firstlight._internal.devices import choose_device, computing_on
    from firstlight.cli.options import index_or_key, named_values
    from firstlight.data.catalogue import load
    from firstlight.models.loading import load_model
    from firstlight.networks.bank import is_in_bank, network_at
    from firstlight.questions.inspect.measure import inspect as inspected

    page_file(output)
    _demand_conditions(fail_on or [])
    place = choose_device(device)
    images = load(data, split, seed=seed, at_most=max(MOST_IMAGES, n or 0), **folder.options)
    load_from = partial(
        load_model, architecture=arch, factory=factory, classes=classes, shape=images.shape,
        options=named_values(option), entry=entry, call=call,
    )  # fmt: skip
    if is_in_bank(checkpoint):
        network, model = network_at(str(checkpoint))
        start: nn.Module | None = network.initial if initial is None else load_from(initial)
        if mean is None and std is None:
            mean, std = network.scaling["mean"], network.scaling["std"]
    else:
        model, start = load_from(checkpoint), None if initial is None else load_from(initial)
    model.to(place)
    before = None if start is None else start.to(place)
    scaled = images.scaled(mean=mean, std=std, bgr=bgr)
    settings: dict[str, Any] = {
        "n_images": n, "fast": fast, "output_part": index_or_key(model_output), "seed": seed,
        "output_sum": "exact" if exact else "estimated", "name": arch or factory or checkpoint,
    }  # fmt: skip
    given = {"data": data, "checkpoint": checkpoint, "initial": None if initial is None else str(initial)}

    def first_page(first: "Inspection") -> None:
        _tell(first.outcome.problem)
        if first.pending and not json:
            _write(first, output, static=static, quiet=True)
            print(f"firstlight: {output} can be opened; it grows when the rest is measured.", file=sys.stderr)

    with computing_on(place):
        inspection = measure_and_keep(
            "inspect",
            {**settings, **given},
            lambda: inspected(model, scaled, initial=before, listen=first_page, show=True, **settings),
            data=f"{scaled.fingerprint} {fingerprint_of(filter(None, (model, before)))}",
        )
    _write(inspection, output, static=static, quiet=json)
    _check(inspection, json=json, conditions=fail_on or [])


def _demand_conditions(conditions: list[str]) -> None:
    """Refuse a misspelt condition now, not after minutes."""
    from firstlight.questions.inspect.findings import parsed_condition

    for condition in conditions:
        parsed_condition(condition)


def _tell(problem: str) -> None:
    """Say at once that nothing else is measured, and why."""
    from firstlight._internal.safe_text import visible

    if problem:
        print(visible(f"firstlight: {problem}"), file=sys.stderr)


def _write(inspection: "Inspection", output: Path, *, static: bool, quiet: bool) -> None:
    from firstlight.pages.page import write_page
    from firstlight.questions.inspect.page import inspection_page

    page = write_page(inspection_page(inspection), output, static=static)
    if not quiet:
        wrote(page)


def _check(inspection: "Inspection", *, json: bool, conditions: list[str]) -> None:
    """Print findings for machines, and end with 1 if a condition holds."""
    from firstlight.questions.inspect.findings import failures, finding_numbers

    if json:
        numbers = finding_numbers(inspection)
        print_json(
            {
                "model": inspection.name,
                **numbers,
                "problem": inspection.outcome.problem,
                "layers_not_measured": inspection.unmeasured,
            }
        )
    lines = failures(inspection, conditions)
    for line in lines:
        print(f"firstlight: {line}", file=sys.stderr)
    if lines:
        raise SystemExit(1)
