"""`firstlight identity`: copy or memorise, by depth."""

import dataclasses
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstlight.cli.keep_run import measure_and_keep
from firstlight.cli.options import (
    TEXT,
    Cluster,
    Device,
    OutputFormat,
    Page,
    Seed,
    Static,
    positive_numbers,
)
from firstlight.cli.output import page_file, print_records, print_table, wrote

if TYPE_CHECKING:
    from firstlight.questions.copy_or_memorise.task import IdentityRun

FLAGS = {"dataset": "--data", "image_size": "--size"}


def identity(
    *,
    depths: str = "1,3,5,7,10,14,20",
    family: str = "cnn",
    width: int | None = None,
    kernel: int = 5,
    initialiser: str = "default",
    optimiser: str = "adam",
    lr: float = 1e-3,
    momentum: float = 0.0,
    steps: int = 2000,
    stop_below: float = 1e-3,
    data: str = "mnist",
    size: int = 14,
    examples: str = "1",
    seeds: int = 1,
    seed: Seed = 0,
    cluster: Cluster = None,
    device: Device = "auto",
    output: Page = Path("identity.html"),
    static: Static = False,
    form: OutputFormat = TEXT,
) -> None:
    """Train networks of several depths to copy an image, and show what they do to other images.

    The page is written after every network and grows until all are trained.

    Parameters
    ----------
    depths
        Numbers of weight layers, separated by commas.
    family
        Kind of network: cnn, fcn, linear_fcn or residual_fcn.
    width
        Number of channels (by default 32) or of hidden units (by default one per pixel).
    kernel
        Side of the filters, an odd number.
    initialiser
        Initialiser of the weights: default, xavier_normal, kaiming_normal, orthogonal and others.
    optimiser
        One of sgd, adam, adamw, adagrad, rmsprop, adamax, adadelta. Together with the learning rate it decides the
        answer.
    lr
        Learning rate.
    momentum
        Momentum of sgd.
    steps
        Maximum number of training steps.
    stop_below
        Mean squared error at which training stops.
    data
        Name of a data set such as mnist, fashion_mnist or cifar10, or a folder of class folders.
    size
        Side to which images are resized.
    examples
        Number of training images, or the word all.
    seeds
        Number of networks per depth, with consecutive seeds.
    """
    from firstlight._internal.devices import choose_device, computing_on
    from firstlight._internal.errors import InvalidInput
    from firstlight._internal.executor import on_cluster
    from firstlight._internal.store.runs import Store
    from firstlight.pages.page import write_page
    from firstlight.questions.copy_or_memorise.page import identity_page
    from firstlight.questions.copy_or_memorise.task import IdentityTask
    from firstlight.questions.copy_or_memorise.tour_part import IdentityTour, run_identity_tour

    layers = positive_numbers("depths", depths)
    page_file(output)
    place = choose_device(device)
    if examples != "all" and not examples.isdigit():
        raise InvalidInput(f"`examples` must be a number or the word all; got {examples!r}.")
    task = IdentityTask(
        family=family, width=width, kernel=kernel, initialiser=initialiser, optimiser=optimiser, lr=lr,
        momentum=momentum, steps=steps, stop_below=stop_below, dataset=data, image_size=size, seed=seed,
        examples=None if examples == "all" else int(examples),
        batch_size=32 if examples == "all" else None,
    )  # fmt: skip

    def listen(so_far: IdentityTour) -> None:
        write_page(identity_page(so_far), output, static=static)
        print(f"{output}: {len(so_far.runs)} of {so_far.planned} networks", file=sys.stderr)

    with on_cluster(cluster) as workers, computing_on(place):
        tour = measure_and_keep(
            "identity",
            {**dataclasses.asdict(task), "depths": layers, "seeds": seeds},
            lambda: run_identity_tour(
                task, depths=layers, seeds=seeds, store=Store(), listen=listen, n_jobs=workers
            ),
        )
    records = [_record(run) for run in tour.runs]
    if not form.is_text:
        print_records(records, form, document={"networks": records})
        return
    columns = ("network", "behaviour", "to input", "to training image", "training")
    print_table(task.words, columns, [_row(record) for record in records])
    wrote(output)


def _record(run: "IdentityRun") -> dict[str, Any]:
    known = {"depth": run.task["depth"], "seed": run.task["seed"]}
    if run.findings is None:
        nothing = {"to input": math.nan, "to training image": math.nan, "steps": None}
        return {**known, "behaviour": "diverged", **nothing, "problem": run.problem}
    means = run.findings.scores["unseen"].means
    return {
        **known, "behaviour": run.findings.behaviour, "to input": means["identity"],
        "to training image": means["constant"], "steps": run.findings.steps, "problem": "",
    }  # fmt: skip


def _row(record: dict[str, Any]) -> tuple[str, ...]:
    name = f"{record['depth']} layers, seed {record['seed']}"
    if record["problem"]:
        return name, record["behaviour"], "", "", record["problem"]
    similarities = (f"{record['to input']:.2f}", f"{record['to training image']:.2f}")
    return name, record["behaviour"], *similarities, f"{record['steps']} steps"
