"""`firstlight inspect`: one page about a trained network."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from firstlight.cli.keep_run import fingerprint_of, measure_and_keep
from firstlight.cli.model_options import ModelOptions
from firstlight.cli.options import (
    MODEL_FLAGS,
    TEXT,
    OutputFormat,
    Page,
    Static,
    Switch,
)
from firstlight.cli.output import page_file, print_records, wrote

if TYPE_CHECKING:
    from firstlight.questions.inspect.result import Inspection

FLAGS = MODEL_FLAGS
MOST_IMAGES = 1000  # as many as `firstlight.inspect` passes through the network: no more need to be decoded


def inspect(
    checkpoint: str | None = None,
    *,
    model: ModelOptions,
    n: int | None = None,
    fast: Switch = False,
    exact: Switch = False,
    output: Page = Path("inspect.html"),
    static: Static = False,
    form: OutputFormat = TEXT,
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
    n
        Number of images for gradients; by default up to 512, or 32 if they are large, and fewer for a large network.
        Dead filters and the accuracy always take 1,000.
    fast
        Use fewer images and accept wider error bars.
    exact
        Sum over all outputs instead of estimating the sum, however many there are; slow with a thousand.
    fail_on
        Condition on a finding, such as 'dead>0' or 'accuracy<0.9'; if it holds, a line says why and the exit code
        is 1. May be repeated. Findings: dead, silent, duplicate, unmeasured, layers, parameters, accuracy, chance,
        above_null, movement, regime.
    """
    from firstlight.questions.inspect.measure import inspect as inspected

    page_file(output)
    _demand_conditions(fail_on or [])
    settings: dict[str, Any] = {
        "n_images": n, "fast": fast, "output_part": model.output_part, "seed": model.seed,
        "output_sum": "exact" if exact else "estimated",
    }  # fmt: skip
    given = {
        "data": model.data,
        "checkpoint": checkpoint,
        "initial": None if model.initial is None else str(model.initial),
    }

    def first_page(first: "Inspection") -> None:
        _tell(first.outcome.problem)
        if first.pending and form.is_text:
            _write(first, output, static=static, quiet=True)
            print(f"firstlight: {output} can be opened; it grows when the rest is measured.", file=sys.stderr)

    with model.subject(checkpoint, at_most=max(MOST_IMAGES, n or 0)) as subject:
        settings["name"] = subject.name
        inspection = measure_and_keep(
            "inspect",
            {**settings, **given},
            lambda: inspected(
                subject.model,
                subject.images,
                initial=subject.initial,
                listen=first_page,
                show=True,
                **settings,
            ),
            data=f"{subject.images.fingerprint} {fingerprint_of(filter(None, subject[:2]))}",
        )
    _write(inspection, output, static=static, quiet=not form.is_text)
    _check(inspection, form=form, conditions=fail_on or [])


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


def _check(inspection: "Inspection", *, form: OutputFormat, conditions: list[str]) -> None:
    """Print findings for machines, and end with 1 if a condition holds."""
    from firstlight.questions.inspect.findings import failures, finding_numbers

    if not form.is_text:
        row = {"model": inspection.name, **finding_numbers(inspection)}
        more = {"problem": inspection.outcome.problem, "layers_not_measured": inspection.unmeasured}
        print_records([row], form, document={**row, **more})
    lines = failures(inspection, conditions)
    for line in lines:
        print(f"firstlight: {line}", file=sys.stderr)
    if lines:
        raise SystemExit(1)
