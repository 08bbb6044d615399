"""Whether a layer has converged: its feature matrix against the loss gradients that weight decay balances."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from firstlight._internal.autograd.layers import CONVOLUTIONS, Layer, grouped_filters
from firstlight._internal.autograd.model_outputs import checked_output, run
from firstlight._internal.autograd.model_state import demand_differentiable, evaluating
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.measures.feature_ansatz.ansatz import N_NULLS
from firstlight.models.kinds import unwrapped

Loss = Callable[[Tensor, Tensor], Tensor]
_BLOCK = 256  # images of a backward pass


def _mse(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs - F.one_hot(labels, outputs.shape[1])).square().mean(1)


def _mse_sum(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs - F.one_hot(labels, outputs.shape[1])).square().sum(1)


LOSSES: dict[str, Loss] = {
    "cross_entropy": lambda outputs, labels: F.cross_entropy(outputs, labels, reduction="none"),
    "mse": _mse,
    "mse_sum": _mse_sum,
}
"""Losses of each example, by the names of :class:`firstlight.training.Recipe`."""


@dataclass(frozen=True, kw_only=True)
class LayerStationarity(Result):
    r"""How far one layer is from a stationary point of the loss with weight decay.

    Parameters
    ----------
    layer : str
        Its name.
    residual : float
        :math:`\|W^\top W - F\| / \|W^\top W\|`, 0 at a stationary point.
    cosine : float
        Of :math:`W^\top W` and F, which does not depend on the weight decay.
    asymmetry : float
        :math:`\|F - F^\top\| / (2 \|F\|)`, 0 at a stationary point whatever the weight decay is.
    implied_weight_decay : float
        The weight decay that makes the gradient of this layer smallest, :math:`-\langle W, G\rangle / \|W\|^2`.
    null_residual, null_cosine : Tensor of shape (draws,)
        The same with the labels of the images permuted.
    """

    layer: str
    residual: float
    cosine: float
    asymmetry: float
    implied_weight_decay: float
    null_residual: Float[Tensor, " draws"]
    null_cosine: Float[Tensor, " draws"]


@follows_device
def stationarity(
    model: nn.Module,
    data: ImageData,
    *,
    weight_decay: float | None = None,
    loss: str | Loss = "cross_entropy",
    draws: int = N_NULLS,
    seed: int = 0,
) -> tuple[LayerStationarity, ...]:
    r"""Has each layer converged? At a stationary point the feature matrix equals a sum of loss gradients.

    Where the gradient of :math:`\frac1n \sum_i \ell_i + \frac\lambda2 \|W\|^2` vanishes,
    :math:`\lambda W = -G` with :math:`G = \frac1n \sum_i \sum_p \frac{\partial \ell_i}{\partial z_i[p]} x_i[p]^\top`,
    and with :math:`W^\top` from the left

    .. math:: W^\top W = F, \qquad
              F = -\frac{1}{n\lambda} \sum_i \sum_p \Big(W^\top \frac{\partial \ell_i}{\partial z_i[p]}\Big) x_i[p]^\top
                = -\frac1\lambda W^\top G

    The bracket is the gradient of the loss with respect to the patch that the layer sees. F is symmetric only
    where the equation holds. Unlike the ansatz, this is exact, for any loss, architecture and initial weights.

    *What a practitioner does with the number:* a layer with a large residual has not converged, so train on, or
    do not read its feature matrix as what the loss and the weight decay want.

    Parameters
    ----------
    model : torch.nn.Module
        The trained network; it runs in evaluation mode.
    data : ImageData
        All images it was trained on, as it saw them: with fewer, the gradient is not the one that vanished.
    weight_decay : float, optional
        The factor :math:`\lambda` as torch's SGD takes it: it adds :math:`\lambda W` to the gradient. Must be
        known and positive: without decay nothing fixes W at a stationary point.
    loss : str or callable, default 'cross_entropy'
        "cross_entropy", "mse", "mse_sum" as in :class:`firstlight.training.Recipe`, or a function of outputs and
        labels that returns one loss per image.
    draws : int, default N_NULLS
        Number of permutations of the labels for the null.
    seed : int, default 0
        Seed of the null.

    Returns
    -------
    tuple of LayerStationarity
        One per convolution or linear layer that holds its own weight. Cost: 1 + `draws` backward passes.

    Notes
    -----
    With batch normalisation or dropout the loss that training made stationary is that of training mode, so the
    residual does not reach 0. Decoupled decay (AdamW) has the same stationary points where it rests.

    References
    ----------
    .. [1] arXiv 2507.05644, which names F the feature at convergence theorem (FACT). The null is ours.

    Examples
    --------
    One weight w, one image x = 1, label 0, two outputs w and 0: :math:`\lambda w = 1 - \sigma(w)`.

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2, bias=False))
    >>> w = torch.tensor(0.5)
    >>> model[1].weight.data = torch.stack([w, -w])[:, None]
    >>> data = ImageData(torch.ones(2, 1, 1, 1), torch.tensor([0, 0]), ("a", "b"))
    >>> decay = float((1 - torch.sigmoid(2 * w)) / w)
    >>> round(stationarity(model, data, weight_decay=decay)[0].residual, 6)
    0.0
    """
    if weight_decay is None or not weight_decay > 0:
        raise InvalidInput(
            f"`weight_decay` must be known and positive; got {weight_decay}. Without it a stationary point does "
            "not fix the weights: read the centred ansatz instead."
        )
    if draws < 1:
        raise InvalidInput(f"`draws` must be at least 1: no number without its null; got draws={draws}.")
    of = _loss(loss)
    model = copy.deepcopy(unwrapped(model))
    demand_differentiable(model)
    weights = _weights(model)
    generator = generator_from("stationarity", seed)
    # the labels as they are, then permuted: G of every permutation is the null of the same weights
    orders = [torch.arange(len(data))] + [
        torch.randperm(len(data), generator=generator) for _ in range(draws)
    ]
    with evaluating(model):
        gradients = [_gradients(model, weights, data.x, data.y[order], of) for order in orders]
    return tuple(
        _row(name, layer, [each[name] for each in gradients], weight_decay) for name, layer in weights.items()
    )


def _loss(loss: str | Loss) -> Loss:
    if callable(loss):
        return loss
    if loss not in LOSSES:
        raise unknown_name("loss", loss, LOSSES)
    return LOSSES[loss]


def _weights(model: nn.Module) -> dict[str, Layer]:
    """Layers that apply a parameter of their own as it is; a computed weight is not what weight decay acts on."""
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, (*CONVOLUTIONS, nn.Linear))
        and isinstance(module._parameters.get("weight"), nn.Parameter)
        and not parametrize.is_parametrized(module, "weight")
    }
    if not layers:
        raise InvalidInput(
            f"the model must hold a convolution or linear layer with its own weight; {type(model).__name__} has none."
        )
    return layers


def _gradients(
    model: nn.Module, layers: Mapping[str, Layer], x: Tensor, labels: Tensor, loss: Loss
) -> dict[str, Tensor]:
    """Gradient of the mean loss with respect to every layer's weight."""
    # a copy of the model: frozen layers have a G too
    parameters = {name: layer.weight.requires_grad_() for name, layer in layers.items()}
    like = next(iter(parameters.values()))
    totals = {name: torch.zeros_like(weight) for name, weight in parameters.items()}
    for images, some in zip(torch.split(x, _BLOCK), torch.split(labels, _BLOCK), strict=True):
        with torch.enable_grad():
            outputs = checked_output(run(model, images.to(like)), None, n=len(images))
            losses = loss(outputs, some.to(like.device))
            if losses.shape != some.shape:
                raise InvalidInput(
                    f"`loss` must return one number per image, {len(some)}; it returned {tuple(losses.shape)}."
                )
            # G = 1/n Σᵢ Σ_p ∂ℓᵢ/∂z[p] x[p]ᵀ is the gradient of the mean loss with respect to W: no patch is unfolded
            found = torch.autograd.grad(losses.sum() / len(x), list(parameters.values()), allow_unused=True)
        for name, gradient in zip(parameters, found, strict=True):
            if gradient is not None:
                totals[name] += gradient
    return totals


def _row(name: str, layer: Layer, gradients: list[Tensor], weight_decay: float) -> LayerStationarity:
    groups = 1 if isinstance(layer, nn.Linear) else layer.groups
    w = grouped_filters(layer.weight, groups)
    features = w.mT @ w
    size = float(features.norm())
    if size == 0:
        raise InvalidInput(f"layer {name!r} has weights of zero, which any weight decay leaves there.")
    facts = [-w.mT @ grouped_filters(g, groups) / weight_decay for g in gradients]
    residuals = [float((features - fact).norm()) / size for fact in facts]
    norms = [float(fact.norm()) for fact in facts]
    cosines = [
        float((features * fact).sum()) / (size * norm) if norm else 0.0
        for fact, norm in zip(facts, norms, strict=True)
    ]
    inner = float((w * grouped_filters(gradients[0], groups)).sum())
    return LayerStationarity(
        layer=name,
        residual=residuals[0],
        cosine=cosines[0],
        asymmetry=float((facts[0] - facts[0].mT).norm()) / (2 * norms[0]) if norms[0] else 0.0,
        implied_weight_decay=-inner / float(w.square().sum()),
        null_residual=torch.tensor(residuals[1:], dtype=torch.float64),
        null_cosine=torch.tensor(cosines[1:], dtype=torch.float64),
    )
