"""Everything that decides a training run, as one frozen object."""

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.errors import InvalidInput, unknown_name

OPTIMISERS: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
    "adamax": torch.optim.Adamax,
    "adadelta": torch.optim.Adadelta,
}

FUSED = ("sgd", "adam", "adamw", "adagrad")
"""Optimisers that torch can run in one pass over the weights, on a CPU and most other devices."""

LOSSES = ("cross_entropy", "mse", "mse_sum")

SCHEDULES = ("steps", "cosine", "one_cycle")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a network is trained. Two runs with equal recipes, data and initial weights agree to the bit.

    Parameters
    ----------
    optimiser : str, default 'sgd'
        One of sgd, adam, adamw, adagrad, rmsprop, adamax, adadelta.
    lr, momentum, weight_decay : float
        As in torch; momentum counts for sgd only.
    nesterov : bool, default False
        Look ahead along the momentum, as in torch.
    decay_vectors : bool, default True
        Decay biases and the scales and shifts of normalisation too, as torch does; False leaves them out.
    loss : str, default 'cross_entropy'
        "cross_entropy"; "mse", mean over batch and outputs; "mse_sum", sum over outputs and mean over the
        batch, the reduction of the paper Linearized (a factor "number of outputs" in the rate).
    batch_size : int or None, default 32
        None is full-batch gradient descent.
    epochs, steps : int, optional
        Give exactly one of them.
    schedule : str, default 'steps'
        How the rate changes: "steps" at the milestones; "cosine" from `lr` to 0 along half a cosine; "one_cycle"
        linearly up to `lr` over the first `warmup` of the training, then down to 0 along half a cosine.
    milestones : tuple of float, default ()
        Fractions of the training after which `lr` is multiplied by `gamma` each time.
    warmup : float, default 0.25
        Fraction of the training over which "one_cycle" raises the rate.
    label_smoothing : float, default 0.0
        Share of the target that cross-entropy spreads over all classes; with squared losses it must be 0.
    flips : bool, default False
        Mirror every image of a batch left to right with probability one half.
    shifts : int, default 0
        Move the images of a batch together by up to so many pixels along each axis; the border is reflected.
    channels_last : bool, default False
        Lay images and filters out with the channels last, which is faster for most convolutions. Sums run in
        another order, so the last bits differ.
    frozen : tuple of str, default ()
        Beginnings of the names of parameters that keep their initial value.
    stop_below : float, optional
        End early once the loss of a step falls below this.
    seed : int, default 0
        Seed for the order of the images and for dropout, not for the initial weights.

    Examples
    --------
    >>> Recipe(epochs=10, milestones=(0.5, 0.75)).rate(step=80, total=100)
    0.001
    """

    optimiser: str = "sgd"
    lr: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    decay_vectors: bool = True
    loss: str = "cross_entropy"
    batch_size: int | None = 32
    epochs: int | None = None
    steps: int | None = None
    schedule: str = "steps"
    milestones: tuple[float, ...] = ()
    gamma: float = 0.1
    warmup: float = 0.25
    label_smoothing: float = 0.0
    flips: bool = False
    shifts: int = 0
    channels_last: bool = False
    frozen: tuple[str, ...] = ()
    stop_below: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.optimiser not in OPTIMISERS:
            raise unknown_name("optimiser", self.optimiser, OPTIMISERS)
        if self.loss not in LOSSES:
            raise unknown_name("loss", self.loss, LOSSES)
        if self.schedule not in SCHEDULES:
            raise unknown_name("schedule", self.schedule, SCHEDULES)
        if (self.epochs is None) == (self.steps is None):
            raise InvalidInput(f"give either `epochs` or `steps`; got {self.epochs} and {self.steps}.")
        for name in ("epochs", "steps", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInput(f"`{name}` must be at least 1; got {name}={value}.")
        if not self.lr > 0:
            raise InvalidInput(f"`lr` must be positive; got lr={self.lr}.")
        if self.momentum and self.optimiser != "sgd":
            raise InvalidInput(f"`momentum` is for sgd; got optimiser={self.optimiser!r}.")
        if self.nesterov and not self.momentum:
            raise InvalidInput(
                "`nesterov` needs a momentum; got momentum=0. Set `momentum`, for instance to 0.9."
            )
        if self.milestones and self.schedule != "steps":
            raise InvalidInput(f"`milestones` are for the schedule 'steps'; got schedule={self.schedule!r}.")
        if not 0 < self.warmup < 1:
            raise InvalidInput(f"`warmup` must lie between 0 and 1; got warmup={self.warmup}.")
        if not 0 <= self.label_smoothing < 1:
            raise InvalidInput(f"`label_smoothing` must lie in [0, 1); got {self.label_smoothing}.")
        if self.label_smoothing and self.loss != "cross_entropy":
            raise InvalidInput(f"`label_smoothing` is for cross_entropy; got loss={self.loss!r}.")
        if self.shifts < 0:
            raise InvalidInput(f"`shifts` must be a number of pixels, at least 0; got shifts={self.shifts}.")

    def steps_per_epoch(self, n: int) -> int:
        """Number of steps that see every one of `n` images once."""
        return -(-n // min(self.batch_size or n, n))

    def total_steps(self, n: int) -> int:
        """Number of steps of the whole training on `n` images."""
        return self.steps if self.steps is not None else self.steps_per_epoch(n) * (self.epochs or 0)

    def rate(self, *, step: int, total: int) -> float:
        """Learning rate of a step, counted from 0; only a schedule of steps ends above zero."""
        if self.schedule != "steps":
            rising = self.warmup * total if self.schedule == "one_cycle" else 0.0
            # the middle of the step, so that neither the first nor the last one has rate zero
            moment = step + 0.5
            if moment < rising:
                return self.lr * moment / rising
            return self.lr * (1 + math.cos(math.pi * (moment - rising) / (total - rising))) / 2
        passed = sum(step >= fraction * total for fraction in self.milestones)
        return round(self.lr * self.gamma**passed, 12)

    def build_optimiser(self, model: nn.Module, *, fused: bool = False) -> torch.optim.Optimizer:
        """Return the optimiser over the parameters that are not frozen, in one pass if `fused`."""
        free = [p for name, p in model.named_parameters() if not name.startswith(self.frozen or ("\0",))]
        if not free:
            raise InvalidInput(f"`frozen`={self.frozen} leaves no parameter to train.")
        for prefix in self.frozen:
            if not any(name.startswith(prefix) for name, _ in model.named_parameters()):
                raise InvalidInput(f"`frozen` names {prefix!r}, but no parameter begins so.")
        groups: list[Any] = free
        if self.weight_decay and not self.decay_vectors:
            groups = [
                {"params": [p for p in free if p.ndim > 1]},
                {"params": [p for p in free if p.ndim <= 1], "weight_decay": 0.0},
            ]
        options: dict[str, Any] = {"lr": self.lr, "weight_decay": self.weight_decay}
        if self.optimiser == "sgd":
            options |= {"momentum": self.momentum, "nesterov": self.nesterov}
        if fused and self.optimiser in FUSED:
            with suppress(RuntimeError):  # not on this device
                return OPTIMISERS[self.optimiser](groups, **options | {"fused": True})
        return OPTIMISERS[self.optimiser](groups, **options)

    def loss_of(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Loss of one batch."""
        if self.loss == "cross_entropy":
            return F.cross_entropy(outputs, targets, label_smoothing=self.label_smoothing)
        if outputs.shape != targets.shape:
            raise InvalidInput(
                f"outputs and targets must have one shape; got {tuple(outputs.shape)} "
                f"and {tuple(targets.shape)}."
            )
        squares = (outputs - targets).square()
        return squares.mean() if self.loss == "mse" else squares.flatten(1).sum(1).mean()
