"""Study of the identity that every fast number of this theme rests on."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.seeds import generator_from, global_seed
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, Series, by


@study("cnfa.agop_sandwich")
class AnsatzSandwich(Study):
    """Is the patch AGOP of a convolution W^T Q W, with Q from gradients at the layer's output?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """A small network with a stride and padding."""

        n_images: int = 4
        side: int = 9
        classes: int = 3
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(n_images=16, side=16)}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Compute every layer's AGOP from explicit patches and from output gradients."""
        with global_seed("sandwich", cfg.seed):
            model = nn.Sequential(
                nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.ReLU(),
                nn.Conv2d(8, 5, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(20, cfg.classes),
            )  # fmt: skip
        shape = (cfg.n_images, 3, cfg.side, cfg.side)
        x = torch.rand(shape, generator=generator_from("sandwich", cfg.seed), dtype=torch.float64)
        return {
            "difference in float32": _differences(model.float(), x.float()),
            "difference in float64": _differences(model.double(), x),
        }


def _differences(model: nn.Sequential, x: Tensor) -> Series:
    """Relative difference of the two computations by convolution."""
    differences = {}
    for layer in patch_gradients(model, x, layers="convolutions").layers:
        slow = _from_patches(model, int(layer.name), x).double()
        differences[f"layer {layer.name}"] = float((layer.agop[0] - slow).norm() / slow.norm())
    return by(differences, list(differences.values()))


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
