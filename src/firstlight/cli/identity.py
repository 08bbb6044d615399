"""`firstlight identity`: copy or memorise, by depth."""

from pathlib import Path

from firstlight.cli.output import OutputFile, page_file


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
    seed: int = 0,
    bisect: bool = False,
    output: OutputFile = Path("identity.html"),
) -> None:
    """Train networks of several depths to copy an image, and show what they do to others.

    Parameters
    ----------
    depths
        Weight layers, separated by commas.
    family
        One of cnn, fcn, linear_fcn, residual_fcn.
    width
        Channels (32 by default) or hidden units (as many as pixels).
    kernel
        Side of the filters, odd.
    initialiser
        Initialiser: default, xavier_normal, kaiming_normal, orthogonal and others.
    optimiser
        One of sgd, adam, adagrad, rmsprop, adamax, adadelta; decides the answer with its rate.
    lr
        Learning rate.
    momentum
        For sgd.
    steps
        At most so many.
    stop_below
        End a training at this mean squared error.
    data
        A data set such as mnist, fashion_mnist or cifar10.
    size
        Images are resized to this side.
    examples
        Training images: a number, or all.
    seeds
        Networks per depth.
    seed
        Of the first.
    bisect
        Also find the depth at which copying turns into memorising, between the first and last of DEPTHS.
    output
        The page to write; it grows while the networks train.
    """
    from firstlight.cli.output import print_table
    from firstlight.core.errors import InvalidInput
    from firstlight.insights import IdentityTask, flip_point
    from firstlight.report import identity_page, write_page
    from firstlight.store import Store
    from firstlight.tour import run_identity_tour

    layers = _numbers(depths)
    page_file(output)
    if examples != "all" and not examples.isdigit():
        raise InvalidInput(f"`examples` must be a number or all; got {examples!r}.")
    task = IdentityTask(
        family=family,
        width=width,
        kernel=kernel,
        initialiser=initialiser,
        optimiser=optimiser,
        lr=lr,
        momentum=momentum,
        steps=steps,
        stop_below=stop_below,
        dataset=data,
        image_size=size,
        examples=None if examples == "all" else int(examples),
        batch_size=32 if examples == "all" else None,
        seed=seed,
    )
    tour = run_identity_tour(
        task,
        depths=layers,
        seeds=seeds,
        store=Store(),
        listen=lambda part: print(
            f"{write_page(identity_page(part), output)}: {len(part.runs)}/{part.planned}"
        ),
    )
    rows = []
    for run in tour.runs:
        name = f"{run.task['depth']} layers, seed {run.task['seed']}"
        if run.findings is None:
            rows.append((name, "diverged", "", "", run.problem))
            continue
        means = run.findings.scores["unseen"].means
        numbers = (f"{means['identity']:.2f}", f"{means['constant']:.2f}")
        rows.append((name, run.findings.behaviour, *numbers, f"{run.findings.steps} steps"))
    print_table(task.words, ("network", "behaviour", "to input", "to training image", "training"), rows)
    if bisect:
        found = flip_point(task, "depth", low=min(layers), high=max(layers), seeds=seeds, store=Store())
        for index, (bracket, problem) in enumerate(zip(found.brackets, found.problems, strict=True)):
            where = problem or f"turns between {bracket[0]} and {bracket[1]} layers" if bracket else problem
            print(f"seed {seed + index}: {where}")
    print(f"Wrote {output} ({output.stat().st_size / 1e6:.1f} MB). Open it in a browser.")


def _numbers(text: str) -> list[int]:
    from firstlight.core.errors import InvalidInput

    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise InvalidInput(f"`depths` must be positive numbers such as 1,3,5; got {text!r}.")
    return [int(part) for part in parts]
