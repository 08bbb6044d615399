"""A training watched while it runs: a few numbers about the weights, at less than a hundredth of its time."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from firstlight._internal.autograd.model_outputs import OutputName
from firstlight._internal.autograd.model_state import without_autocast
from firstlight._internal.errors import FirstlightError, InvalidInput
from firstlight.data.conversion import ImagesLike, tensor_or_images
from firstlight.data.images import ImageData
from firstlight.maths.correlation import pearson
from firstlight.measures.feature_ansatz.ansatz import ansatz_from
from firstlight.measures.feature_ansatz.filter_activity import filter_activity, filter_faults
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.measures.first_layer.energy_profile import Profile, energy_profile, profile
from firstlight.measures.first_layer.first_convolution import first_convolution, spread_groups
from firstlight.measures.linearized.tangent_kernel_summary import effective_rank
from firstlight.models.kinds import as_network
from firstlight.questions.inspect.loggers import Send, sender

CHEAP = ("movement", "first_layer_movement", "first_layer_zero_filters", "first_layer_rank")
OF_PATCHES = ("profile_and_initial", "coarse_energy")
COSTLY = ("dead_filters", "ansatz", "ansatz_null")
N_IMAGES, N_LARGE = 16, 4  # images behind the costly numbers, below and above 128 x 128 pixels
N_BASIS = 256  # images behind the patch components


def watch(
    model: nn.Module,
    logger: Any,
    data: ImagesLike | None = None,
    *,
    every: int = 50,
    budget: float = 0.01,
    initial: Mapping[str, Tensor] | None = None,
    output_part: OutputName = None,
    prefix: str = "firstlight/",
) -> "Watcher":
    """Send a few numbers about a model to a logger while it trains, at less than 1 % of the time.

    Call the result after every step of a plain loop, or pass it as a callback to Lightning's `Trainer` or to Hugging
    Face's. It never changes the model, the gradients or the random numbers of the training. Four numbers need the
    weights alone: ``movement`` (distance from the initial weights relative to their size),
    ``first_layer_movement``, ``first_layer_zero_filters`` and ``first_layer_rank`` (directions that its filters use).
    With `data` there are five more: ``profile_and_initial`` (correlation of the first layer's energy profile with
    the initial one), ``coarse_energy`` (share of its energy in the coarsest third of the patch components), and
    seldom, because they need more passes, ``ansatz``, ``ansatz_null`` and ``dead_filters`` of the first layer: those
    without any response to up to 1,000 of the images, so give as many.

    Parameters
    ----------
    model : torch.nn.Module
        The model, before its training begins.
    logger : object
        A file that ends in .csv or .jsonl; TensorBoard's `SummaryWriter`; a logger of Lightning; `mlflow`; `wandb`
        or a run of it; or a function that takes the step and a dictionary of numbers.
    data : Tensor, ImageData, Dataset, DataLoader, folder and others, optional
        Images as the model expects them, in any form that :func:`firstlight.data.as_images` takes.
    every : int, default 50
        Steps between two measurements, if the budget allows.
    budget : float, default 0.01
        Share of the time since `watch` was called that measuring may take; measurements wait until it suffices.
    initial : mapping of str to Tensor, optional
        State dict before training, if this training is resumed.
    output_part : int, str or callable, optional
        Part of the output to use if the model returns a tuple, a dictionary or an object.
    prefix : str, default 'firstlight/'
        Beginning of the names of the numbers.

    Examples
    --------
    >>> model, rows = nn.Conv2d(3, 4, 3), []
    >>> watcher = watch(model, lambda step, values: rows.append((step, values["firstlight/movement"])), budget=1.0)
    >>> for step in range(100):
    ...     watcher()
    >>> rows[0]
    (0, 0.0)
    """
    probe = _Probe(as_network(model), data, initial, output_part)
    return Watcher(probe, sender(logger, prefix), every=every, budget=budget)


class Watcher:
    """What :func:`watch` returns: a function to call after each step, and a callback of two frameworks."""

    state_key = _legacy_state_key = "firstlight.Watcher"  # Lightning's name for it

    def __init__(self, probe: "_Probe", send: Send, *, every: int, budget: float) -> None:
        if every < 1 or not budget > 0:
            raise InvalidInput(f"`every` and `budget` must be positive; got {every} and {budget}.")
        self._send, self._every, self._budget = send, every, budget
        self._probe = probe
        self._step, self._last = 0, {"cheap": 0, "costly": 0}
        self._cost: dict[str, float] = {}
        self._send(0, self._measured(probe.parts))
        # what is measured before the training begins takes none of its time
        self._begun, self._spent = (time.perf_counter(), time.process_time()), 0.0

    def __call__(self, step: int | None = None, model: nn.Module | None = None) -> None:
        """Take note of one more step, or of its number; `model` is ignored, so that this serves as an observer."""
        self._step = self._step + 1 if step is None else step
        due = {name: measure for name, measure in self._probe.parts.items() if self._is_due(name)}
        if not due:
            return
        begun = time.perf_counter()
        try:
            self._send(self._step, self._measured(due))
        except FirstlightError:  # weights are no longer finite: a training is not ended by whoever watches it
            self._send(self._step, dict.fromkeys(CHEAP, math.nan))
            self._last |= dict.fromkeys(due, self._step)
        self._spent += time.perf_counter() - begun

    def _is_due(self, part: str) -> bool:
        """Whether enough steps have passed, and the budget covers what the part took last time."""
        if self._step - self._last[part] < self._every:
            return False
        # the training's own time: on a busy machine the clock on the wall runs for others too, and with several
        # threads the processor's clock runs faster than it
        passed = min(time.perf_counter() - self._begun[0], time.process_time() - self._begun[1])
        return self._spent + self._cost[part] <= self._budget * passed

    def _measured(self, parts: Mapping[str, Callable[[], dict[str, float]]]) -> dict[str, float]:
        values: dict[str, float] = {}
        for name, measure in parts.items():
            begun = time.perf_counter()
            values |= measure()
            self._cost[name], self._last[name] = time.perf_counter() - begun, self._step
        return values

    # ---------------------------------------------------------------- Lightning and Hugging Face

    def on_train_batch_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """Take note of a step of Lightning; with accumulated gradients several batches are one step."""
        if getattr(trainer, "is_global_zero", True) and trainer.global_step != self._step:
            self(trainer.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Take note of a step of Hugging Face's Trainer."""
        if getattr(state, "is_world_process_zero", True):
            self(state.global_step)

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: what was measured is with the logger."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing to continue from."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on_") or name in ("setup", "teardown"):
            return lambda *args, **kwargs: None
        raise AttributeError(name)


class _Probe:
    """The numbers themselves, and the initial weights they refer to."""

    def __init__(
        self,
        model: nn.Module,
        data: ImagesLike | None,
        initial: Mapping[str, Tensor] | None,
        output_part: OutputName,
    ) -> None:
        self.model, self.images, self.output_part = model, _images(data), output_part
        given = initial or {}
        self.initial = {
            name: given.get(name, p).detach().clone()
            for name, p in model.named_parameters()
            if p.is_floating_point()
        }
        if not self.initial:
            raise InvalidInput("`model` must have weights to watch; it has none.")
        self.first, self.profile = self._first_layer()
        self.parts: dict[str, Callable[[], dict[str, float]]] = {"cheap": self._cheap}
        if self.profile is not None:
            self.parts["costly"] = self._costly

    def _first_layer(self) -> tuple[str, Profile | None]:
        """Name and profile of the first convolution that images meet; without images, the first of the model."""
        if self.images is not None:
            try:
                few = self.images[:N_BASIS]
                with without_autocast(self.model):
                    if (name := first_convolution(self.model, few[:1]).name) in self.initial:
                        return name, profile(self.model, few)
            except (
                InvalidInput
            ):  # no convolution over two dimensions: there is no profile, but there are weights
                pass
        ranked = [name for name, weight in self.initial.items() if weight.ndim > 2]
        ranked += [name for name, weight in self.initial.items() if weight.ndim > 1]
        return next(iter(ranked or self.initial)), None

    @torch.no_grad()
    def _cheap(self) -> dict[str, float]:
        moved, size = 0.0, 0.0
        for name, p in self.model.named_parameters():
            if name not in self.initial:
                continue
            if self.initial[name].device != p.device:  # the model was moved after the training was set up
                self.initial[name] = self.initial[name].to(p.device)
            before = self.initial[name]
            moved += float((p - before).float().norm()) ** 2
            size += float(before.float().norm()) ** 2
        weight, before = self._first().float(), self.initial[self.first].float()
        rows = weight.flatten(1) if weight.ndim > 1 else weight[:, None]
        norms = rows.norm(dim=1)
        values = (
            math.sqrt(moved / size) if size else math.nan,
            float((weight - before).norm() / before.norm()),
            float((norms <= 1e-6 * norms.median()).sum()),
            _rank(rows),
        )
        return dict(zip(CHEAP, values, strict=True)) | self._of_patches(weight)

    def _of_patches(self, weight: Tensor) -> dict[str, float]:
        if self.profile is None:
            return {}
        filters = spread_groups(weight.cpu().double(), self.profile.layer.groups)
        energy = energy_profile(filters, self.profile.pca.basis)
        squares = energy.square()
        coarse = float(squares[: max(1, len(energy) // 3)].sum() / squares.sum())
        try:
            alike = float(pearson(energy, self.profile.amplitude))
        except InvalidInput:  # equal energy along all components, or weights that are not finite
            alike = math.nan
        return dict(zip(OF_PATCHES, (alike, coarse), strict=True))

    def _costly(self) -> dict[str, float]:
        assert self.images is not None
        large = self.images.shape[-1] * self.images.shape[-2] > 128**2
        few = self.images[: N_LARGE if large else N_IMAGES]
        name = self.first.removesuffix(".weight")
        with without_autocast(self.model):
            agops = patch_gradients(self.model, few, layers=[name], output_part=self.output_part, show=False)
            activity = filter_activity(self.model, self.images, layers=[name])
        (layer,), (row,) = agops.layers, ansatz_from(agops).rows
        dead = float(len(filter_faults(layer.filters, activity.active[name]).dead))
        return dict(zip(COSTLY, (dead, row.pearson, float(row.null_pearson.mean())), strict=True))

    def _first(self) -> Tensor:
        return self.model.get_parameter(self.first).detach()


def _images(data: ImagesLike | None) -> Tensor | None:
    if data is None:
        return None
    images = tensor_or_images(data)
    return images.x if isinstance(images, ImageData) else images


def _rank(rows: Tensor) -> float:
    if not rows.isfinite().all() or not rows.any():
        return math.nan
    rows = rows.cpu().double() / rows.abs().max().cpu()  # squares of huge weights would overflow
    gram = rows @ rows.mT if len(rows) <= rows.shape[1] else rows.mT @ rows
    return effective_rank(torch.linalg.eigvalsh(gram).clamp(min=0))
