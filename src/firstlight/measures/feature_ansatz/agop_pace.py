"""What the gradients of a network will take, measured on a few of its images."""

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firstlight._autograd.gradient_accumulators import Accumulators
from firstlight._autograd.model_outputs import OutputName, checked_output, run
from firstlight._autograd.model_state import demand_differentiable, evaluating, in_full_precision
from firstlight._autograd.recorder import Recorder
from firstlight._autograd.thrift import Thrift, thrift
from firstlight.core.errors import InvalidInput
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.measures.feature_ansatz.patch_agop import _backward, _block_size, _discovered, _forward
from firstlight.models.wrappers import unwrapped

MANY = 17  # images timed together; one alone tells what a block costs whatever its size
COPIES = 3  # of a layer's outputs: the forward pass keeps two, and a gradient passes


@dataclass(frozen=True, kw_only=True)
class AgopPace(Result):
    """How fast :func:`patch_agop` goes.

    Parameters
    ----------
    call, image : float
        CPU seconds for a block of images, whatever their number, and for each of its images.
    block : int
        Images in a block.
    image_bytes, sum_bytes : float
        Held for an image of the present block, and for the sums of all layers.

    Examples
    --------
    >>> pace = AgopPace(call=1.0, image=0.5, block=64, image_bytes=1e6, sum_bytes=2e6)
    >>> pace.seconds(100), pace.bytes(100)
    (52.0, 66000000.0)
    """

    call: float
    image: float
    block: int
    image_bytes: float
    sum_bytes: float

    def seconds(self, n: int) -> float:
        """CPU seconds for n images."""
        return self.call * math.ceil(n / self.block) + self.image * n

    def bytes(self, n: int) -> float:
        """Memory for n images, beyond the model and the images."""
        return self.image_bytes * min(n, self.block) + self.sum_bytes


def agop_pace(
    model: nn.Module,
    images: Tensor,
    *,
    n_images: int,
    layers: str = "all",
    output_sum: str = "auto",
    output_part: OutputName = None,
    sample: int = MANY,
) -> AgopPace:
    """Time the passes of a few images, with as many backward passes as `n_images` of them would get.

    Parameters
    ----------
    model, layers, output_sum, output_part
        As for :func:`patch_agop`.
    images : Tensor of shape (n, ...)
        Some or all of the images.
    n_images : int
        How many there will be.
    sample : int, default MANY
        Images that are timed together, at least two; passes of single images come on top.

    Examples
    --------
    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    >>> agop_pace(model, torch.rand(8, 1, 8, 8), n_images=500).seconds(500) > 0
    True
    """
    if n_images < 1 or not len(images):
        raise InvalidInput(f"`n_images` must be at least 1 and `images` not empty; got {n_images}.")
    model = unwrapped(model)
    demand_differentiable(model)
    model, _ = in_full_precision(model)
    parameter = next(model.parameters(), None)
    if parameter is None:
        raise InvalidInput(f"`model` must have weights; {type(model).__name__} has none.")
    with torch.inference_mode(False), torch.enable_grad(), evaluating(model):
        recorder = Recorder(model)
        few = images[: max(sample, 2)].to(parameter.device, parameter.dtype)
        chosen, _ = _discovered(recorder, few[:1], layers)
        elements = sum(recorder.elements[name] for name in chosen)
        block = min(_block_size(elements), n_images)
        sums = Accumulators(chosen, generator=generator_from("output signs", 0))
        outputs = checked_output(run(model, few[:1]), output_part, n=1).numel()
        fewer: tuple[Thrift, ...] = ()
        if output_sum == "thrifty":
            fewer = thrift(chosen, recorder.elements, n_images=n_images, n_outputs=outputs)
        recorder.tap(chosen, sums.receive, apart=[some.layers for some in fewer])

        def passes(part: Tensor) -> float:
            start = time.process_time()
            forward = _forward(recorder, part, sums, output_sum, output_part)
            _backward(recorder, forward, sums, lambda amount: None, len(part), fewer)
            return time.process_time() - start

        passes(few[:1])  # the first call of a layer chooses its routines
        few = few[:block]
        one, many = (passes(few[:1]) + passes(few[:1])) / 2, passes(few)
        held = sum(sums.parts(name).numel() for name in chosen if name in sums.reached)
    image = max(many - one, 0.0) / (len(few) - 1) if len(few) > 1 else one
    return AgopPace(
        call=max(one - image, 0.0),
        image=image,
        block=block,
        image_bytes=COPIES * elements * parameter.element_size(),
        sum_bytes=8.0 * held,
    )
