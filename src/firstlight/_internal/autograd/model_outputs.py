"""What a model returns, which directions of it to differentiate, and what must hold for that."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput

OutputName = int | str | Callable[[Any], Tensor] | None
N_EXACT = 32
N_LEADING = 16
N_RANDOM = 16


@dataclass(frozen=True, eq=False)
class Directions:
    """Combinations of the outputs to differentiate, so that their outer products sum to the identity.

    Parameters
    ----------
    leading : Tensor of shape (r, c)
        Orthonormal rows that are taken for every image.
    n_random : int
        Random rows per image for the rest of the space; 0 if `leading` is all that matters.
    """

    leading: Float[Tensor, "r c"]
    n_random: int

    @property
    def n_passes(self) -> int:
        """Backward passes per image."""
        return len(self.leading) + self.n_random

    def cotangents(
        self, n: int, *, like: Tensor, generator: torch.Generator
    ) -> Iterator[Float[Tensor, "n c"]]:
        """One row per image, pass by pass."""
        # Σ_v v vᵀ = I over all passes, so Σ_v (Jᵀv)(Jᵀv)ᵀ = JᵀJ: the sum over outputs, exactly or on average
        leading = self.leading.to(like)
        for row in leading:
            yield row.expand(n, -1)
        for _ in range(self.n_random):
            signs = torch.randint(2, (n, leading.shape[1]), generator=generator).to(like) * 2 - 1
            # random signs s: E[s sᵀ] = I; projected, they stand for what the leading directions leave
            rest = signs - (signs @ leading.T) @ leading
            yield rest / self.n_random**0.5


def output_directions(
    last_weight: Float[Tensor, "c m"] | Tensor | None,
    n_outputs: int,
    *,
    exact: bool,
    known: Directions | None = None,
) -> Directions:
    """Directions for a model with `n_outputs` outputs, from its last linear layer if it ends in one.

    Behind a linear layer with fewer inputs than outputs only as many directions matter as it has
    inputs: an exact sum then takes that many passes.
    """
    if known is not None:
        if known.leading.shape[1] != n_outputs:
            raise InvalidInput(
                f"the model must return equally many outputs for every batch; got {known.leading.shape[1]} "
                f"and then {n_outputs}. Give all images one size."
            )
        return known
    if exact or n_outputs <= N_EXACT:
        # f = W h + b has gradients in the range of W only: with m < c inputs, m directions span them
        if last_weight is not None and last_weight.ndim == 2 and last_weight.shape[1] < n_outputs:
            return Directions(_spanned(last_weight), 0)
        return Directions(torch.eye(n_outputs, dtype=torch.float64), 0)
    # nothing tells which outputs vary together: signs alone, as many as there would be directions
    if last_weight is None or last_weight.ndim != 2:
        return Directions(torch.zeros(0, n_outputs, dtype=torch.float64), N_LEADING + N_RANDOM)
    return Directions(_leading(last_weight, N_LEADING), N_RANDOM)


def _spanned(weight: Tensor) -> Tensor:
    rows: Tensor = torch.linalg.qr(weight.detach().cpu().double())[0].T.contiguous()
    return rows


def _leading(weight: Tensor, count: int) -> Tensor:
    """Leading left singular vectors, as rows, from the smaller Gram matrix."""
    w = weight.detach().cpu().double()
    # left singular vectors of W from the smaller of WWᵀ and WᵀW
    if w.shape[0] <= w.shape[1]:
        vectors = torch.linalg.eigh(w @ w.T)[1][:, -count:]
    else:
        vectors = torch.linalg.qr(w @ torch.linalg.eigh(w.T @ w)[1][:, -count:])[0]
    rows: Tensor = vectors.T.contiguous()
    return rows


def checked_output(result: Any, output: OutputName, *, n: int) -> Tensor:
    """The tensor to differentiate among what the model returned: one row per image."""
    if callable(output):
        result = output(result)
    elif output is not None:
        try:
            result = result[output]
        except (KeyError, IndexError, TypeError) as error:
            raise InvalidInput(
                f"`output_part` must name a part of what the model returns, {_offer(result)}; got {output!r}."
            ) from error
    if not isinstance(result, Tensor):
        raise InvalidInput(
            f"the model must return one tensor; it returns {_offer(result)}. Name the part by `output_part`."
        )
    if result.ndim == 0 or len(result) != n:
        raise InvalidInput(
            f"the model must return one row per image, {n}; it returned the shape {tuple(result.shape)}."
        )
    return result


def _offer(result: Any) -> str:
    if isinstance(result, Mapping):
        return f"a dictionary with {', '.join(repr(key) for key in result)}"
    if isinstance(result, list | tuple):
        return f"a {type(result).__name__} of {len(result)}, numbered from 0"
    return f"a {type(result).__name__}"


def run(model: nn.Module, images: Tensor, *, forward: Callable[[Tensor], Any] | None = None) -> Any:
    """Call the model, or `forward` in its place; an error inside becomes one line about the images."""
    try:
        return model(images) if forward is None else forward(images)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        shape = "x".join(str(side) for side in images.shape[1:])
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InvalidInput(
            f"{type(model).__name__} cannot take images of shape {shape}: {reason}. "
            "Choose images with the channels and size that the model was made for."
        ) from error


def demand_finite_weights(model: nn.Module) -> None:
    """Refuse a model with a weight or a running statistic that is no number, or too large to compute with."""
    for name, value in model.state_dict().items():
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.numel() == 0:
            continue
        largest = float(value.detach().abs().max())
        if not math.isfinite(largest):
            raise InvalidInput(
                f"{name!r} holds NaN or infinite weights. Use weights from before the training went wrong."
            )
        # sums of squares must stay finite; half precision is computed with in single precision
        # the power .4 leaves room for a square and for sums over 10⁷ terms
        limit = max(torch.finfo(value.dtype).max, torch.finfo(torch.float32).max) ** 0.4
        if largest > limit:
            raise InvalidInput(
                f"{name!r} holds a weight of {largest:.0e}; sums of squares of weights beyond {limit:.0e} are no "
                "longer finite. Use weights from before the training went wrong."
            )


def demand_finite_outputs(model: nn.Module, result: Tensor) -> None:
    """Refuse outputs that are no numbers."""
    if not result.isfinite().all():
        raise InvalidInput(
            f"{type(model).__name__} returned NaN or infinite outputs. Check its weights and the scale of "
            "the images."
        )


def demand_one_image_at_a_time(model: nn.Module, images: Tensor, *, output: OutputName) -> None:
    """Refuse models whose answer to one image depends on the others, or on chance."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:
            raise InvalidInput(
                f"layer {name!r} normalises by the statistics of the batch even in evaluation mode, so the "
                "gradient of an image is not defined. Build it with track_running_stats=True."
            )
    with torch.no_grad():
        # the gradient of one image is defined only if the others do not change its outputs
        together = checked_output(run(model, images), output, n=len(images))[:1]
        alone = checked_output(run(model, images[:1]), output, n=1)
    demand_finite_outputs(model, alone)
    if together.shape != alone.shape or not _close(together, alone):
        raise InvalidInput(
            f"{type(model).__name__} must answer each image by itself, but its output for one image changes "
            "with the rest of the batch or from call to call. Take out what couples them."
        )


def _close(a: Tensor, b: Tensor) -> bool:
    """Equal up to rounding of the precision in use; the order of sums may differ between batch sizes."""
    tolerance = 100 * torch.finfo(a.dtype).eps ** 0.75
    scale = max(float(a.abs().max()), float(b.abs().max()))
    return bool((a - b).abs().max() <= tolerance * scale)
