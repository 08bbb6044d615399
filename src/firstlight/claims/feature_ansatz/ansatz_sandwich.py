"""The identity that every fast number of this theme rests on."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from, global_seed
from firstlight.figures import Curve, Figure, curves
from firstlight.measures.feature_ansatz import patch_agop


@dataclass(frozen=True, kw_only=True)
class TwoWays(Result):
    """Relative difference of the two computations, layer by layer, in single and double precision."""

    single: Float[Tensor, " layers"]
    double: Float[Tensor, " layers"]


@study("cnfa.agop_sandwich")
class Sandwich:
    """Is the patch AGOP of a convolution W^T Q W, with Q from gradients at the layer's output?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """A small network with a stride and padding."""

        n_images: int = 4
        side: int = 9
        classes: int = 3
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(n_images=16, side=16), "paper": Config(n_images=16, side=32)}

    @staticmethod
    def run(cfg: Config) -> TwoWays:
        """Compute every layer's AGOP from explicit patches and from output gradients."""
        with global_seed("sandwich", cfg.seed):
            model = nn.Sequential(
                nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.ReLU(),
                nn.Conv2d(8, 5, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(20, cfg.classes),
            )  # fmt: skip
        shape = (cfg.n_images, 3, cfg.side, cfg.side)
        x = torch.rand(shape, generator=generator_from("sandwich", cfg.seed), dtype=torch.float64)
        return TwoWays(single=_differences(model.float(), x.float()), double=_differences(model.double(), x))

    @staticmethod
    def figure(result: TwoWays) -> Figure:
        """Draw the differences."""
        return curves(
            [
                Curve(name="float32", values=result.single.clamp(min=1e-17)[None], role="initial"),
                Curve(name="float64", values=result.double.clamp(min=1e-17)[None]),
            ],
            title="Patch AGOP in two ways",
            alt="Relative differences at the level of rounding in every layer",
            x="convolution",
            y="relative difference",
            log_y=True,
        )

    rules = {
        "cnfa.agop_sandwich": Rule(
            measured=lambda r: {"float32": float(r.single.max()), "float64": float(r.double.max())},
            reproduced=lambda r: float(r.single.max()) < 1e-5 and float(r.double.max()) < 1e-10,
        )
    }


def _differences(model: nn.Sequential, x: Tensor) -> Tensor:
    fast = patch_agop(model, x, layers="convolutions")
    found = []
    for layer in fast.layers:
        slow = _from_patches(model, int(layer.name), x).double()
        found.append(float((layer.agop[0] - slow).norm() / slow.norm()))
    return torch.tensor(found, dtype=torch.float64)


def _from_patches(model: nn.Sequential, index: int, x: Tensor) -> Tensor:
    """Sum of outer products of the gradients with respect to explicit, independent patches."""
    layer = model[index]
    assert isinstance(layer, nn.Conv2d)
    with torch.no_grad():
        h = model[:index](x)
        shape = layer(h).shape
        patches = F.unfold(h, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # type: ignore[arg-type]
    patches.requires_grad_()
    bias = 0 if layer.bias is None else layer.bias[:, None]
    outputs = model[index + 1 :]((layer.weight.flatten(1) @ patches + bias).reshape(shape))
    total = torch.zeros(patches.shape[1], patches.shape[1], dtype=x.dtype)
    for column in outputs.T:
        (gradient,) = torch.autograd.grad(column.sum(), patches, retain_graph=True)
        total += torch.einsum("ndp,nep->de", gradient, gradient)
    return total / len(x)
