"""The one training loop. Plain enough to read top to bottom."""

import hashlib
import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.devices import (
    DeviceLike,
    device_of,
    follows_device,
    on_cpu,
    placed,
    random_state,
    restore_random_state,
)
from firstlight._internal.errors import Diverged, InvalidInput
from firstlight._internal.executor import report_fraction
from firstlight._internal.memory_layout import canonical, with_channels_last
from firstlight._internal.processes import postponed_interrupts
from firstlight._internal.progress import progress
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from, global_seed
from firstlight._internal.shapes import Images
from firstlight.data.images import ImageData
from firstlight.training.checkpoint import (
    load_checkpoint,
    optimiser_state,
    restore_optimiser,
    save_checkpoint,
)
from firstlight.training.observers import Observer, Recorder
from firstlight.training.recipe import Recipe


def augmented(images: Images, *, flips: bool, shifts: int, seed: int, step: int) -> Images:
    """Mirror images at random, and move the whole batch by one random displacement.

    Parameters
    ----------
    images : Tensor of shape (n, c, h, w)
        A batch.
    flips : bool
        Whether each image is mirrored left to right with probability one half.
    shifts : int
        Largest displacement in pixels along each axis; what enters at a border is the image reflected there. One
        displacement serves the whole batch: a draw for each image costs as much time as a small convolution, and
        batches of the next epoch meet other displacements anyway.
    seed, step : int
        The same seed and step give the same views, so that a training that was interrupted goes on as it would have.
    """
    if shifts and shifts >= min(images.shape[2:]):
        raise InvalidInput(
            f"`shifts` must be shorter than the sides of the images; got shifts={shifts} for "
            f"{tuple(images.shape)}."
        )
    generator = generator_from("augmentation", seed, step)
    if flips:
        mirrored = torch.rand(len(images), generator=generator) < 0.5
        images = torch.where(mirrored.to(images.device).reshape(-1, 1, 1, 1), images.flip(3), images)
    if shifts:
        row, column = torch.randint(0, 2 * shifts + 1, (2,), generator=generator).tolist()
        height, width = images.shape[2:]
        padded: Tensor = F.pad(images, (shifts,) * 4, mode="reflect")
        images = padded[:, :, row : row + height, column : column + width]
    return images


CHECKPOINT_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class History(Result):
    """What a training run leaves besides the weights.

    Parameters
    ----------
    loss : Tensor of shape (steps,)
        Loss of every step, on the batch of that step, before its update.
    hits : Tensor of shape (steps,)
        Share of right answers of every step, on the same outputs; NaN for regression.
    steps_per_epoch : int
        To turn steps into epochs.
    stopped_early : bool, default False
        Whether `Recipe.stop_below` ended the run.
    """

    loss: Float[Tensor, " steps"]
    hits: Float[Tensor, " steps"]
    steps_per_epoch: int
    stopped_early: bool = False

    def by_epoch(self) -> Float[Tensor, " epochs"]:
        """Mean loss of each full epoch."""
        full = len(self.loss) // self.steps_per_epoch * self.steps_per_epoch
        return self.loss[:full].reshape(-1, self.steps_per_epoch).mean(1)


def targets_of(data: ImageData, recipe: Recipe, *, like: torch.dtype = torch.float32) -> Tensor:
    """Class indices for cross-entropy, one-hot rows for squared losses."""
    if recipe.loss == "cross_entropy":
        return data.y
    return F.one_hot(data.y, data.n_classes).to(like)


def train(
    model: nn.Module,
    inputs: Tensor,
    targets: Float[Tensor, "n ..."] | Int[Tensor, " n"],
    recipe: Recipe,
    *,
    observers: Sequence[Observer] = (),
    checkpoint: Path | None = None,
    checkpoint_seconds: float | None = None,
    label: str = "Training",
    show: bool | None = None,
    fused: bool = False,
    at_most: int | None = None,
    device: DeviceLike | None = None,
) -> History:
    """Train `model` in place.

    Parameters
    ----------
    model : torch.nn.Module
        Left in training mode as it was; its weights change.
    inputs, targets
        One row each per example; integer targets for cross-entropy.
    recipe : Recipe
        All settings.
    observers : sequence of Observer, default ()
        Called as ``observer(step, model)``, see :mod:`firstlight.training.observers`.
    checkpoint : Path, optional
        A file to write every `checkpoint_seconds` (20 by default), and to go on from if it exists. The
        continued run ends with the same bits as one that was never stopped.
    label, show : str or bool
        Label of the progress bar, and whether to show it.
    fused : bool, default False
        Update all weights in one pass where torch can. Several times faster for wide layers and few
        images; the last bits differ, so keep to one choice within a comparison. Ignored where torch cannot.
    at_most : int, optional
        Stop after so many steps; the schedule stays that of the whole training.
    device : str or torch.device, optional
        Where to train: "auto", "cpu", "cuda" or "mps". The model is moved there and given back afterwards; batches
        are moved one at a time. By default where ``firstlight.computing_on`` says, else where the model is.

    Raises
    ------
    Diverged
        If the loss is no longer a finite number; the model keeps the weights of that moment.
    """
    if len(inputs) != len(targets) or len(inputs) == 0:
        raise InvalidInput(f"`targets` must match `inputs`; got {len(targets)} for {len(inputs)} examples.")
    mode = model.training
    with placed(model, device=device) as place:
        state = _State(model, inputs, targets, recipe, observers, fused, place)
        state.end = state.total if at_most is None else min(at_most, state.total)
        model.train()
        try:
            with global_seed("dropout", recipe.seed, device=place):
                if (
                    checkpoint is not None
                    and (saved := load_checkpoint(checkpoint, identity=state.identity)) is not None
                ):
                    state.restore(saved)
                    if show is not False:
                        print(f"{label}: going on from {state.place}.", file=sys.stderr)
                else:
                    state.observe()
                every = CHECKPOINT_SECONDS if checkpoint_seconds is None else checkpoint_seconds
                _advance(state, checkpoint, every, label, show)
        finally:
            model.train(mode)
            if recipe.channels_last:
                with_channels_last(model, last=False)
    return state.history()


def train_on(model: nn.Module, data: ImageData, recipe: Recipe, **options: Any) -> History:
    """Train a classifier on labelled images; `options` as for :func:`train`."""
    dtype = next(model.parameters()).dtype
    return train(model, data.x.to(dtype), targets_of(data, recipe, like=dtype), recipe, **options)


def _advance(state: "_State", checkpoint: Path | None, every: float, label: str, show: bool | None) -> None:
    saved_at = time.monotonic()
    # a signal within a step would leave half-updated weights: it is heeded after the step, which is saved first
    postponed = nullcontext(lambda: None) if checkpoint is None else postponed_interrupts()
    with postponed as interrupt, progress(label, total=state.end, unit="steps", show=show) as bar:
        bar.update(completed=state.step)
        while not state.finished:
            state.take_step()
            bar.update(completed=state.step, note=f"loss {state.losses[-1]:.3g}")
            report_fraction(state.step / state.end, note=f"loss {state.losses[-1]:.3g}")
            asked = interrupt()
            is_due = asked is not None or time.monotonic() - saved_at >= every
            if checkpoint is not None and is_due and not state.finished:
                save_checkpoint(checkpoint, state.snapshot(), identity=state.identity)
                saved_at = time.monotonic()
            if asked is not None:
                asked()


class _State:
    """A training between two steps: everything that a checkpoint must hold."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Tensor,
        targets: Tensor,
        recipe: Recipe,
        observers: Sequence[Observer],
        fused: bool,
        device: torch.device,
    ) -> None:
        if recipe.channels_last:
            with_channels_last(model)
        self.model, self.inputs, self.targets, self.recipe = model, inputs, targets, recipe
        self.observers, self.device = observers, device
        self.optimiser = recipe.build_optimiser(model, fused=fused)
        self.total = self.end = recipe.total_steps(len(inputs))
        self.per_epoch = recipe.steps_per_epoch(len(inputs))
        self.step = 0
        self.losses: list[float] = []
        self.hits: list[float] = []
        self.stopped_early = False
        self._order: tuple[int, Tensor] | None = None
        if recipe.batch_size is None or recipe.batch_size >= len(inputs):
            # batches are copied anyway; the whole is used where it lies, in worker processes at any address
            self.inputs, self.targets = canonical(inputs).to(device), canonical(targets).to(device)

    @property
    def finished(self) -> bool:
        return self.stopped_early or self.step >= self.end

    @property
    def place(self) -> str:
        """Where the training stands, in words."""
        epochs = -(-self.total // self.per_epoch)
        if epochs == 1:
            return f"step {self.step:,} of {self.total:,}"
        return f"epoch {self.step // self.per_epoch + 1} of {epochs}"

    def take_step(self) -> None:
        inputs, targets = self.batch()
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate(step=self.step, total=self.total)
        outputs = self.model(self.view(inputs))
        loss = self.recipe.loss_of(outputs, targets)
        self.losses.append(loss.item())
        self.hits.append(_share_right(outputs, targets))
        if not math.isfinite(self.losses[-1]):
            raise Diverged(
                f"The loss became {self.losses[-1]} at step {self.step} of {self.total}. "
                f"Lower `lr` (now {self.recipe.lr:g}), or use another initialisation."
            )
        if self.recipe.stop_below is not None and self.losses[-1] < self.recipe.stop_below:
            self.stopped_early = True
            return
        self.model.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.step += 1
        self.observe()

    def batch(self) -> tuple[Tensor, Tensor]:
        """Return the images of the current step; the order of an epoch depends on seed and epoch only."""
        if self.recipe.batch_size is None or self.recipe.batch_size >= len(self.inputs):
            return self.inputs, self.targets
        epoch, position = divmod(self.step, self.per_epoch)
        if self._order is None or self._order[0] != epoch:
            generator = generator_from("order", self.recipe.seed, epoch)
            self._order = epoch, torch.randperm(len(self.inputs), generator=generator)
        size = self.recipe.batch_size
        chosen = self._order[1][position * size : (position + 1) * size]
        # the order is drawn on the CPU, and images may lie on a device already
        return self.inputs[chosen.to(self.inputs.device)].to(self.device), self.targets[
            chosen.to(self.targets.device)
        ].to(self.device)

    def view(self, inputs: Tensor) -> Tensor:
        """Return the batch as the network sees it: augmented, in the layout of the recipe."""
        recipe = self.recipe
        if recipe.flips or recipe.shifts:
            inputs = augmented(
                inputs, flips=recipe.flips, shifts=recipe.shifts, seed=recipe.seed, step=self.step
            )
        return inputs.contiguous(memory_format=torch.channels_last) if recipe.channels_last else inputs

    def observe(self) -> None:
        for observer in self.observers:
            with torch.no_grad():
                observer(self.step, self.model)

    def recorders(self) -> dict[str, Recorder]:
        return {str(i): o for i, o in enumerate(self.observers) if isinstance(o, Recorder)}

    @cached_property
    def identity(self) -> str:
        """Name of this training, by its settings, its network, its targets and a few of its images."""
        few = self.inputs[:: max(1, len(self.inputs) // 64)]
        weights = {name: tuple(value.shape) for name, value in self.model.named_parameters()}
        digest = hashlib.sha256(f"{self.recipe} {weights} {tuple(self.inputs.shape)} {few.dtype}".encode())
        for tensor in (few, self.targets):
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).numpy().data)
        return digest.hexdigest()[:16]

    def snapshot(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "model": on_cpu(dict(self.model.state_dict())),
            "optimiser": on_cpu(optimiser_state(self.optimiser)),
            "random": torch.get_rng_state(),
            "device": self.device.type,
            "device random": random_state(self.device),
            "loss": torch.tensor(self.losses, dtype=torch.float64),
            "hits": torch.tensor(self.hits, dtype=torch.float64),
            "observers": {name: on_cpu(dict(o.state_dict())) for name, o in self.recorders().items()},
        }

    def restore(self, saved: dict[str, Any]) -> None:
        self.step = saved["step"]
        self.model.load_state_dict(saved["model"])
        restore_optimiser(self.optimiser, saved["optimiser"])
        torch.set_rng_state(saved["random"])
        if saved.get("device", "cpu") == self.device.type:  # another device draws its own numbers
            restore_random_state(self.device, saved.get("device random"))
        self.losses, self.hits = saved["loss"].tolist(), saved["hits"].tolist()
        for name, recorder in self.recorders().items():
            recorder.load_state_dict(saved["observers"][name])

    def history(self) -> History:
        return History(
            loss=torch.tensor(self.losses, dtype=torch.float64),
            hits=torch.tensor(self.hits, dtype=torch.float64),
            steps_per_epoch=self.per_epoch,
            stopped_early=self.stopped_early,
        )


def _share_right(outputs: Tensor, targets: Tensor) -> float:
    if targets.is_floating_point():
        return math.nan
    return (outputs.detach().argmax(1) == targets).cpu().double().mean().item()


@follows_device
@torch.no_grad()
def predictions(
    model: nn.Module, inputs: Tensor, *, batch_size: int = 500, of: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Outputs of the model in evaluation mode, in blocks and on the CPU; the mode is given back afterwards.

    `of` is applied to each block, for instance ``lambda out: out.argmax(1)``.
    """
    mode, device = model.training, device_of(model)
    model.eval()
    try:
        blocks = [model(canonical(block).to(device)) for block in torch.split(inputs, batch_size)]
        return torch.cat([block if of is None else of(block) for block in blocks])
    finally:
        model.train(mode)


def accuracy(model: nn.Module, data: ImageData) -> float:
    """Share of images whose largest output is the right class."""
    dtype = next(model.parameters()).dtype
    chosen = predictions(model, data.x.to(dtype), of=lambda outputs: outputs.argmax(1))
    return (chosen == data.y.cpu()).double().mean().item()
