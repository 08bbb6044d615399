"""A linearised network on images that stay the same: its derivatives are computed once, not in every step."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.shapes import Images

_BLOCK = 250  # images at a time while derivatives are computed


@dataclass(frozen=True, kw_only=True)
class _Factors:
    """Derivatives of a linear layer: the products of what goes in and what comes back."""

    inputs: Float[Tensor, "n i"]
    returned: Float[Tensor, "n k o"]


class TangentFeatures(nn.Module):
    r"""The linear model :math:`f(w_0, x) + J(x)\,u` on a fixed set of images; made by :func:`tangent_features`.

    Called with the numbers of images, a column of integers, in place of the images themselves. A step of SGD then
    costs two products with stored derivatives: about a third of a step through the linearised LeNet.

    Parameters
    ----------
    displacement : dict of str to Parameter
        u, under the names of the weights that it moves, dots replaced by ``/``; the only parameters.
    """

    def __init__(
        self,
        start: Float[Tensor, "n k"],
        rows: Float[Tensor, "n k p"] | None,
        factors: Mapping[str, _Factors],
        weights: Mapping[str, Tensor],
        in_rows: tuple[str, ...],
    ) -> None:
        super().__init__()
        self._start, self._rows, self._factors = start, rows, dict(factors)
        self._in_rows = tuple(name.replace(".", "/") for name in in_rows)
        self.displacement = nn.ParameterDict(
            {
                name.replace(".", "/"): nn.Parameter(torch.zeros_like(w.detach()))
                for name, w in weights.items()
            }
        )

    def forward(self, numbers: Int[Tensor, "b 1"]) -> Float[Tensor, "b k"]:
        """Linear prediction for the images with these numbers."""
        chosen = numbers.flatten()
        outputs = self._start.index_select(0, chosen)
        if self._rows is not None:
            moved = torch.cat([self.displacement[name].flatten() for name in self._in_rows])
            outputs = outputs + self._rows.index_select(0, chosen).to(outputs.dtype) @ moved
        for layer, factors in self._factors.items():
            name = layer.replace(".", "/")
            answers = F.linear(
                factors.inputs.index_select(0, chosen),
                self.displacement[f"{name}/weight"],
                self.displacement.get(f"{name}/bias"),
            )
            outputs = outputs + (factors.returned.index_select(0, chosen) @ answers[:, :, None])[:, :, 0]
        return outputs

    @torch.no_grad()
    def reset(self) -> None:
        """Go back to the network itself, u = 0."""
        for u in self.displacement.values():
            u.zero_()

    def weights(self) -> dict[str, Tensor]:
        """Return u by the names that the network gives its weights, as ``LinearizedModel.displace`` wants it."""
        return {name.replace("/", "."): u.detach().clone() for name, u in self.displacement.items()}


def tangent_features(
    model: nn.Module, images: Images, *, kept_as: torch.dtype | None = None
) -> TangentFeatures:
    r"""Compute the derivatives of a network on all images, and return its linearisation there.

    The derivative by the weights of a linear layer is a product, :math:`\partial f_k/\partial W = \delta_k a^\top`,
    and stays one: a and :math:`\delta` are kept. A convolution adds such products over positions, so that its rows
    of J are kept whole; they are small, since filters are.

    Parameters
    ----------
    model : torch.nn.Module
        Any network in evaluation mode whose trainable weights all belong to `Linear` and ungrouped `Conv2d` layers
        that are called once.
    images : Tensor of shape (n, c, h, w)
        To train on.
    kept_as : torch.dtype, optional
        Of the rows of convolutions, the bulk of the memory; by default that of the weights. Half precision rounds J
        by a relative 5e-4.

    Notes
    -----
    Memory is n k (p + o) numbers for k outputs, p weights in filters and o outputs of linear layers: 3.4 GB in half
    precision for LeNet on all digits, where all of J would be 140 GB.
    """
    layers = _layers(model)
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    owned = {f"{name}.{own}" for name, layer in layers.items() for own, _ in layer.named_parameters()}
    assert trainable.keys() == owned, (
        "every weight belongs to a Linear or an ungrouped Conv2d layer, and trains"
    )
    filters = [name for name, layer in layers.items() if isinstance(layer, nn.Conv2d)]
    in_rows = tuple(f"{name}.{what}" for name in filters for what in ("weight", "bias"))
    parts = [_derivatives(model, layers, block, kept_as) for block in torch.split(images, _BLOCK)]
    factors = {
        name: _Factors(
            inputs=torch.cat([part.pop(f"{name} in") for part in parts]),
            returned=torch.cat([part.pop(f"{name} back") for part in parts]),
        )
        for name in layers
        if name not in filters
    }
    start = torch.cat([part["start"] for part in parts])
    rows = _joined(parts) if filters else None
    return TangentFeatures(
        start, rows, factors, trainable, tuple(name for name in in_rows if name in trainable)
    )


def _joined(parts: list[dict[str, Tensor]]) -> Tensor:
    """Rows of all blocks in one tensor; each block is freed as it is copied."""
    first = parts[0]["rows"]
    joined = first.new_empty((sum(len(part["rows"]) for part in parts), *first.shape[1:]))
    filled = 0
    for part in parts:
        block = part.pop("rows")
        joined[filled : filled + len(block)] = block
        filled += len(block)
    return joined


def _layers(model: nn.Module) -> dict[str, nn.Linear | nn.Conv2d]:
    """Layers with trainable weights, by name."""
    return {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear | nn.Conv2d)
        and any(p.requires_grad for p in layer.parameters())
        and not (isinstance(layer, nn.Conv2d) and (layer.groups > 1 or layer.padding_mode != "zeros"))
    }


def _derivatives(
    model: nn.Module,
    layers: Mapping[str, nn.Linear | nn.Conv2d],
    images: Images,
    kept_as: torch.dtype | None,
) -> dict[str, Tensor]:
    """Outputs, and for each layer what goes in and what comes back, or their sum of products over positions.

    The sums are rounded here: those of all images in full precision would take three times the memory of the result.
    """
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def look(name: str):  # type: ignore[no-untyped-def]
        def hook(module: nn.Module, given: tuple[Tensor, ...], answer: Tensor) -> None:
            assert name not in seen, f"{name} is called twice"
            seen[name] = (given[0].detach(), answer)

        return hook

    hooks = [layer.register_forward_hook(look(name)) for name, layer in layers.items()]
    try:
        with torch.enable_grad():
            outputs = model(images)
    finally:
        for hook in hooks:
            hook.remove()
    answers = [seen[name][1] for name in layers]
    # derivatives of each output of an image by the answers of all layers for that image
    back = [torch.autograd.grad(column.sum(), answers, retain_graph=True) for column in outputs.T]
    kept, rows = {"start": outputs.detach()}, []
    for name, returned in zip(layers, zip(*back, strict=True), strict=True):
        layer, inputs, each = layers[name], seen[name][0], torch.stack(returned, dim=1)
        if isinstance(layer, nn.Conv2d):
            rows.append(_filter_rows(layer, inputs, each))
        else:
            kept |= {f"{name} in": inputs, f"{name} back": each}
    return {**kept, "rows": torch.cat(rows, dim=2).to(kept_as or outputs.dtype)} if rows else kept


def _filter_rows(
    layer: nn.Conv2d, inputs: Tensor, returned: Float[Tensor, "n k o h w"]
) -> Float[Tensor, "n k p"]:
    """Rows of J for one convolution: weights first, then biases."""
    n, k, o = returned.shape[:3]
    assert not isinstance(layer.padding, str), "padding is given in pixels"
    patches = F.unfold(inputs, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    flat = returned.reshape(n, k * o, -1)
    rows = (flat @ patches.mT).reshape(n, k, -1)
    return rows if layer.bias is None else torch.cat([rows, returned.sum((3, 4))], dim=2)
