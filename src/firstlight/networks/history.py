"""What is kept of a training while it runs: weights at moments, a film of the first layer, a bit for each image."""

import time
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from firstlight.data.images import ImageData
from firstlight.training.observers import geometric_steps

FILM_FRAMES = 60
EVALUATION_BATCH = 250  # its activations stay in the cache of a core


def kept_steps(total: int, count: int) -> tuple[int, ...]:
    """`count` steps of a training of `total`, evenly spread over the last three decades of a logarithmic axis.

    Examples
    --------
    >>> kept_steps(9000, 4), kept_steps(9000, 1)
    ((9, 90, 900, 9000), (9000,))
    """
    if count == 1:
        return (total,)
    exponents = torch.linspace(-3, 0, count, dtype=torch.float64).tolist()
    return tuple(sorted({max(1, round(total * 10**e)) for e in exponents}))


def rounded(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights as the bank keeps them: filters and matrices in half precision, vectors in single, no counters."""
    return {
        name: value.detach()
        .to("cpu", torch.float16 if value.ndim > 1 else torch.float32)
        .contiguous()
        .clone()
        for name, value in state.items()
        if value.is_floating_point()
    }


def first_convolution_name(model: nn.Module) -> str:
    """Name of the weight of the convolution that sees the pixels."""
    found = next(name for name, module in model.named_modules() if isinstance(module, nn.Conv2d))
    return f"{found}.weight" if found else "weight"


@torch.no_grad()
def correct_images(model: nn.Module, images: ImageData) -> Bool[Tensor, " n"]:
    """Whether each image is classified correctly in evaluation mode; the mode is given back."""
    mode = model.training
    model.eval()
    try:
        blocks = [
            model(block.contiguous(memory_format=torch.channels_last)).argmax(1)
            for block in torch.split(images.x, EVALUATION_BATCH)
        ]
    finally:
        model.train(mode)
    return torch.cat(blocks) == images.y


def packed(bits: Bool[Tensor, " n"]) -> Tensor:
    """Eight booleans a byte, the first in the lowest bit."""
    return torch.from_numpy(np.packbits(bits.numpy(), bitorder="little"))


def unpacked(bytes_: Tensor, n: int) -> Tensor:
    """Undo :func:`packed`, along the last axis.

    Examples
    --------
    >>> unpacked(packed(torch.tensor([True, False, True])), 3).tolist()
    [True, False, True]
    """
    return torch.from_numpy(np.unpackbits(bytes_.numpy(), axis=-1, count=n, bitorder="little")).bool()


class TrainingRecord:
    """Observer that keeps the history of a network; what it saw survives a killed process.

    Parameters
    ----------
    total, per_epoch : int
        Steps of the training and of an epoch.
    images : ImageData
        The training images.
    n_moments : int
        Number of moments whose weights are kept.
    """

    def __init__(self, total: int, per_epoch: int, images: ImageData, *, n_moments: int) -> None:
        self.per_epoch, self.images = per_epoch, images
        self.moment_steps = frozenset(kept_steps(total, n_moments))
        self.film_steps = frozenset(geometric_steps(total, count=FILM_FRAMES))
        self.moments: dict[int, dict[str, Tensor]] = {}
        self.film: dict[int, Tensor] = {}
        self.correct: list[Tensor] = []
        self.weight = ""
        self.cpu_seconds, self._clock = 0.0, time.process_time()

    def __call__(self, step: int, model: nn.Module) -> None:
        """Keep what this step is due to leave."""
        self.weight = self.weight or first_convolution_name(model)
        if step in self.moment_steps:
            self.moments[step] = rounded(model.state_dict())
        if step in self.film_steps:
            self.film[step] = model.get_parameter(self.weight).detach().to(torch.float16).contiguous().clone()
        if step and step % self.per_epoch == 0:
            self.correct.append(packed(correct_images(model, self.images)))
        now = time.process_time()
        self.cpu_seconds, self._clock = self.cpu_seconds + now - self._clock, now

    def state_dict(self) -> dict[str, Tensor]:
        """Return all that was kept, by names that tell it apart."""
        seconds = torch.tensor(self.cpu_seconds, dtype=torch.float64)
        return {
            "cpu_seconds": seconds,
            **{
                f"moment/{step}/{name}": w
                for step, state in self.moments.items()
                for name, w in state.items()
            },
            **{f"film/{step}": frame for step, frame in self.film.items()},
            **{f"correct/{epoch}": bits for epoch, bits in enumerate(self.correct)},
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a record."""
        self.moments, self.film, correct = {}, {}, {}
        for key, value in state.items():
            what, _, rest = key.partition("/")
            if what == "moment":
                step, _, name = rest.partition("/")
                self.moments.setdefault(int(step), {})[name] = value
            elif what == "film":
                self.film[int(rest)] = value
            elif what == "correct":
                correct[int(rest)] = value
            else:
                self.cpu_seconds = float(value)
        self.correct = [correct[epoch] for epoch in sorted(correct)]

    def arrays(self, losses: Sequence[float] | Tensor) -> dict[str, Tensor]:
        """Film, correctness and losses as the arrays of a file."""
        steps = sorted(self.film)
        return {
            "film": torch.stack([self.film[step] for step in steps]),
            "film_steps": torch.tensor(steps),
            "correct": torch.stack(self.correct) if self.correct else torch.zeros(0, 0, dtype=torch.uint8),
            "losses": torch.as_tensor(losses, dtype=torch.float32),
        }
