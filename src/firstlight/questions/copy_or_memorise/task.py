"""Train a network to reproduce a few images, and find out what it does to all others."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.devices import DeviceLike, on_given_device
from firstlight._internal.errors import Diverged, InvalidInput, unknown_name
from firstlight._internal.executor import default_jobs, map_tasks
from firstlight._internal.result import Result
from firstlight._internal.store.runs import RunSpec, Store
from firstlight.maths.patches import PatchGeometry, extract_patches
from firstlight.measures.copy_or_memorise.identity_score import (
    EdgeScore,
    IdentityScore,
    Response,
    behaviour_of,
    edge_score,
    identity_score,
    image_outputs,
    response,
)
from firstlight.models.building import build
from firstlight.models.image_to_image import with_large_filters_by_fourier
from firstlight.questions.copy_or_memorise.images import IdentityImages, identity_images
from firstlight.theory.least_squares import converged_weights
from firstlight.training.loop import train
from firstlight.training.recipe import Recipe

FAMILIES = {
    "cnn": "identity_cnn",
    "fcn": "identity_fcn",
    "linear_fcn": "identity_linear_fcn",
    "residual_fcn": "residual_fcn",
}


@dataclass(frozen=True, kw_only=True)
class IdentityTask:
    """Everything that decides one training of the identity task. All of it is part of the result.

    The defaults are the desk choice: small images, few channels, Adam and an early stop show the change
    from copying to memorising in seconds; :meth:`published` gives the papers' recipe.
    """

    family: str = "cnn"  # cnn, fcn, linear_fcn or residual_fcn
    depth: int = 5  # weight layers, or blocks of the residual family
    width: int | None = None  # channels (32) or hidden units (as many as pixels)
    kernel: int = 5  # side of the filters, odd; cnn only
    bias: bool = True
    initialiser: str = "default"  # of firstlight.models
    optimiser: str = "adam"
    lr: float = 1e-3
    momentum: float = 0.0
    milestones: tuple[float, ...] = ()  # fractions of `steps` after which the rate falls
    gamma: float = 0.2
    steps: int = 2000
    stop_below: float | None = 1e-3  # mean squared error at which training ends
    batch_size: int | None = None  # full batch
    frozen: tuple[str, ...] = ()  # beginnings of the names of parameters that are not trained
    dataset: str = "mnist"
    labels: tuple[str, ...] = ()  # classes of the training images, in turn
    examples: int | None = 1  # None trains on `n_images` images
    n_images: int = 2000
    image_size: int = 14
    image_seed: int = 0
    seed: int = 0  # of the weights

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise unknown_name("family", self.family, FAMILIES)

    @classmethod
    def published(cls, **changes: Any) -> "IdentityTask":
        """Return the papers' recipe: 28 x 28, 128 channels, SGD with momentum for two million steps."""
        settings: dict[str, Any] = {
            "width": 2048 if changes.get("family", "cnn") != "cnn" else 128,
            "image_size": 28,
            "optimiser": "sgd",
            "lr": 0.01,
            "momentum": 0.9,
            "milestones": (0.3, 0.6, 0.8),
            "steps": 2_000_000,
            "stop_below": None,
            "n_images": 60_000,
        }
        return cls(**{**settings, **changes})

    @property
    def images(self) -> IdentityImages:
        """What it trains on and is asked about."""
        return identity_images(
            self.dataset,
            side=self.image_size,
            examples=self.examples,
            labels=self.labels,
            n_images=self.n_images,
            seed=self.image_seed,
        )

    @property
    def recipe(self) -> Recipe:
        """How it is trained."""
        return Recipe(
            optimiser=self.optimiser,
            lr=self.lr,
            momentum=self.momentum,
            loss="mse",
            batch_size=self.batch_size,
            steps=self.steps,
            milestones=self.milestones,
            gamma=self.gamma,
            frozen=self.frozen,
            stop_below=self.stop_below,
            seed=self.seed,
        )

    @property
    def is_least_squares(self) -> bool:
        """Whether training is linear regression, so that the limit of gradient descent is a formula."""
        one_layer = self.depth == 1 and self.family != "residual_fcn"
        return one_layer and self.optimiser == "sgd" and not self.frozen

    def build(self) -> nn.Module:
        """Build the network with its initial weights."""
        channels = self.images.training.shape[1]
        shape = (channels, self.image_size, self.image_size)
        options: dict[str, Any] = {"bias": self.bias}
        options["blocks" if self.family == "residual_fcn" else "depth"] = self.depth
        if self.family == "cnn":
            options |= {"kernel": self.kernel, "channels": self.width or 32}
        else:
            options["units"] = self.width
        return build(
            FAMILIES[self.family], shape=shape, seed=self.seed, initialiser=self.initialiser, **options
        )

    @property
    def words(self) -> str:
        """The settings in one line."""
        width = self.width or (32 if self.family == "cnn" else "as many as pixels")
        size = f"{self.width or 32} channels, {self.kernel}x{self.kernel}" if self.family == "cnn" else width
        some = "all images" if self.examples is None else f"{self.examples} image(s)"
        return (
            f"{self.family}, {size}, {self.image_size}x{self.image_size} {self.dataset}, {some}, "
            f"initialiser {self.initialiser}, {self.optimiser} at {self.lr:g}, stop at MSE {self.stop_below}"
        )


@dataclass(frozen=True, kw_only=True)
class Findings(Result):
    """What a trained network does.

    Parameters
    ----------
    weights : dict of str to Tensor
        After training; the initial ones follow from the task.
    loss : float
        Mean squared error of the training images at the end.
    steps : int
        Taken; 0 where the closed form of gradient descent was used.
    converged : bool
        Whether the loss fell below the tolerance (1e-3 if the task names none).
    scores : dict of str to IdentityScore
        Pearson and error to identity and constant, for each group of test images.
    edges : EdgeScore
        How much outputs on unseen images follow contours.
    response : Response
        Cosines over the angle to the first training image.
    untrained : float
        Mean Pearson to the identity on unseen images before training, the null.
    shown : Tensor of shape (s, c, h, w)
        Outputs for the picture grid.
    behaviour : str
        Identity, edge detector, constant, noise or none.
    """

    weights: dict[str, Tensor]
    loss: float
    steps: int
    converged: bool
    scores: dict[str, IdentityScore]
    edges: EdgeScore
    response: Response
    untrained: float
    shown: Float[Tensor, "s c h w"]
    behaviour: str

    FORMER_NAMES: ClassVar[dict[str, str]] = {"verdict": "behaviour"}


@dataclass(frozen=True, kw_only=True)
class IdentityRun(Result):
    """One training of the task: findings, or why there are none.

    Parameters
    ----------
    task : dict of str to object
        Its settings as plain values.
    findings : Findings or None
        None if training diverged.
    problem : str
        What went wrong, in words; empty if nothing did.
    seconds : float
        CPU time.
    """

    task: dict[str, Any]
    findings: Findings | None
    problem: str
    seconds: float

    @property
    def measured(self) -> Findings:
        """The findings; a diverged run raises instead of giving numbers."""
        if self.findings is None:
            raise Diverged(self.problem)
        return self.findings

    @property
    def settings(self) -> IdentityTask:
        """The task again."""
        return IdentityTask(**self.task)

    @property
    def model(self) -> nn.Module:
        """The trained network."""
        model = self.settings.build()
        model.load_state_dict(self.measured.weights)
        return model


def run_identity_task(task: IdentityTask, *, store: Store | None = None) -> IdentityRun:
    """Train one network and measure it, or fetch it from the store.

    A training that diverges is reported as such, with no other number.

    Parameters
    ----------
    task : IdentityTask
        All settings.
    store : Store, optional
        Where finished runs lie, shared by everything that asks for the same task; None keeps nothing.
    """
    if store is None:
        return _computed(task)
    spec = RunSpec(what="identity", config=dataclasses.asdict(task))
    run: IdentityRun = store.fetch_or_run(spec, lambda scratch: _computed(task)).result
    return run


@on_given_device
def run_identity_tasks(
    tasks: Sequence[IdentityTask],
    *,
    store: Store | None = None,
    listen: Callable[[list[IdentityRun]], None] | None = None,
    label: str = "Identity task",
    n_jobs: int | None = None,
    device: DeviceLike | None = None,
) -> list[IdentityRun]:
    """Train several networks side by side, one a core.

    Parameters
    ----------
    tasks : sequence of IdentityTask
        In the order of the answer; the costly ones start first unless somebody listens.
    store : Store, optional
        See :func:`run_identity_task`.
    listen : callable, optional
        Told all runs finished so far, in order, each time some more are.
    label, n_jobs : str or int
        See :func:`firstlight._internal.executor.map_tasks`.
    device : str or torch.device, optional
        Where to compute: "auto", "cpu", "cuda" or "mps"; by default as ``firstlight.computing_on`` says, else
        on the CPU.
    """
    work = partial(run_identity_task, store=store)
    if listen is None:
        order = sorted(range(len(tasks)), key=lambda i: -tasks[i].depth * tasks[i].image_size)
        done = map_tasks(work, [tasks[i] for i in order], label=label, n_jobs=n_jobs)
        placed = dict(zip(order, done, strict=True))
        return [placed[i] for i in range(len(tasks))]
    jobs, runs = n_jobs or default_jobs(), list[IdentityRun]()
    for start in range(0, len(tasks), jobs):
        runs += map_tasks(work, tasks[start : start + jobs], label=label, n_jobs=n_jobs)
        listen(runs)
    return runs


def _computed(task: IdentityTask) -> IdentityRun:
    start, images, model = time.process_time(), task.images, task.build()
    untrained = identity_score(image_outputs(model, images.unseen), images.unseen, images.references)
    problem, findings = "", None
    try:
        loss, steps = _trained(task, model, images.training)
        findings = _findings(
            task, model, images, loss=loss, steps=steps, untrained=untrained.means["identity"]
        )
    except Diverged as reason:
        problem = str(reason)
    return IdentityRun(
        task=dataclasses.asdict(task),
        findings=findings,
        problem=problem,
        seconds=time.process_time() - start,
    )


def _trained(task: IdentityTask, model: nn.Module, x: Tensor) -> tuple[float, int]:
    if task.is_least_squares:
        write_limit(model, x)
        return float((image_outputs(model, x) - x).square().mean()), 0
    if task.family == "cnn":  # the layout that convolutions of one image are fastest in
        with_large_filters_by_fourier(model)
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x = x.contiguous(memory_format=torch.channels_last)
    history = train(model, x, x, task.recipe, show=False, fused=True)
    require_finite(model, task.images.unseen)
    tail = min(len(history.loss), history.steps_per_epoch)
    return float(history.loss[-tail:].mean()), len(history.loss)


def require_finite(model: nn.Module, images: Float[Tensor, "n c h w"]) -> None:
    """Refuse a network that diverged at its last step, after the last loss was taken."""
    weights = all(bool(p.isfinite().all()) for p in model.parameters())
    if not (weights and bool(image_outputs(model, images).isfinite().all())):
        raise Diverged("The weights or outputs are infinite or NaN after the last step. Lower `lr`.")


def write_limit(model: nn.Module, images: Float[Tensor, "n c h w"]) -> nn.Module:
    """Give a one-layer network the weights that gradient descent would end with, in place.

    The limit of gradient descent on the squared error, with or without momentum, at any stable rate;
    biases count as weights of an input that is always 1. See :func:`firstlight.theory.least_squares.converged_weights`.

    Parameters
    ----------
    model : torch.nn.Module
        One linear layer or one convolution with same padding, as the identity families build it.
    images : Tensor of shape (n, c, h, w)
        To reproduce.
    """
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    if len(layers) != 1:
        raise InvalidInput(f"`model` must have exactly one layer for a closed form; it has {len(layers)}.")
    layer, x = layers[0], images.double()
    if isinstance(layer, nn.Conv2d):
        geometry = PatchGeometry.square(layer.kernel_size[0], padding=layer.kernel_size[0] // 2)
        inputs, targets = extract_patches(x, geometry).flatten(0, 1), x.movedim(1, -1).flatten(0, 2)
    else:
        inputs = targets = x.flatten(1)
    initial = layer.weight.detach().double().flatten(1).mT
    if layer.bias is not None:
        inputs = torch.cat([inputs, torch.ones(len(inputs), 1, dtype=torch.float64)], 1)
        initial = torch.cat([initial, layer.bias.detach().double()[None]])
    final = converged_weights(inputs, targets, initial=initial)
    with torch.no_grad():
        if layer.bias is not None:
            layer.bias.copy_(final[-1])
            final = final[:-1]
        layer.weight.copy_(final.mT.reshape(layer.weight.shape))
    return model


def _findings(
    task: IdentityTask, model: nn.Module, images: IdentityImages, *, loss: float, steps: int, untrained: float
) -> Findings:
    outputs = {name: image_outputs(model, x) for name, x in images.groups.items()}
    scores = {name: identity_score(outputs[name], x, images.references) for name, x in images.groups.items()}
    edges = edge_score(outputs["unseen"], images.unseen)
    curve = response(model, images.training[0], seed=task.image_seed)
    return Findings(
        weights={k: v.detach().clone().contiguous() for k, v in model.state_dict().items()},
        loss=loss,
        steps=steps,
        converged=loss <= (task.stop_below or 1e-3),
        scores=scores,
        edges=edges,
        response=curve,
        untrained=untrained,
        shown=image_outputs(model, images.shown),
        behaviour=behaviour_of(scores["unseen"], edges, curve),
    )


def initial_findings(task: IdentityTask) -> Findings:
    """What the network of a task does before training: the null of everything that training is credited with."""
    images, model = task.images, task.build()
    score = identity_score(image_outputs(model, images.unseen), images.unseen, images.references)
    loss = float((image_outputs(model, images.training) - images.training).square().mean())
    return _findings(task, model, images, loss=loss, steps=0, untrained=score.means["identity"])
