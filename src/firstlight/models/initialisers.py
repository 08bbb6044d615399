"""Initialisers by name: how weights are drawn before training.

All but "default" set biases to zero and batch norm to the identity. Weights are drawn on the CPU from a
generator of their own and then copied, so a seed gives the same numbers on every device.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight._internal.registry import Registry
from firstlight._internal.seeds import generator_from, global_seed

Draw = Callable[[Tensor, torch.Generator], object]
Rule = Callable[..., list[Draw]]

INITIALISERS: Registry[Rule] = Registry("initialiser")


@runtime_checkable
class TiesWeights(Protocol):
    """A model whose weights obey a constraint that must be restored after they are drawn."""

    def tie_weights(self) -> None:
        """Restore the constraint."""


def initialise(model: nn.Module, name: str, *, seed: int, **options: Any) -> nn.Module:
    """Draw all weights of `model` again, in place, by the rule called `name`.

    Parameters
    ----------
    model : torch.nn.Module
        Any module; the rule is applied to its linear and convolutional layers in their order.
    name : str
        "default", "xavier_normal", "xavier_uniform", "kaiming_normal", "kaiming_uniform", "orthogonal",
        "normal", "pcbias", "identity_crisis" or "pooling_study".
    seed : int
        The same seed gives the same bits.
    options : object
        Options of the rule, such as ``std=1e-2`` for "normal".

    Returns
    -------
    torch.nn.Module
        The model itself.

    Examples
    --------
    >>> layer = initialise(torch.nn.Linear(400, 400), "normal", seed=0, std=0.01)
    >>> bool((layer.weight.std() - 0.01).abs() < 1e-4), bool(layer.bias.any())
    (True, False)
    """
    rule = INITIALISERS[name]
    known = [p for p in inspect.signature(rule).parameters if p != "weights"]
    for option in options:
        if option not in known:
            hint = f"Known: {', '.join(known) or 'none'}."
            raise unknown_name(f"option of initialiser {name!r}", option, known, hint=hint)
    if name == "default":
        with global_seed("weights", seed):
            _reset(model)
    else:
        _redraw(model, rule, generator_from("weights", seed), options)
    if isinstance(model, TiesWeights):
        model.tie_weights()
    return model


def _redraw(model: nn.Module, rule: Rule, generator: torch.Generator, options: dict[str, Any]) -> None:
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    if not layers:
        raise InvalidInput("`model` must hold at least one linear or convolutional layer; it has none.")
    draws = rule([layer.weight for layer in layers], **options)
    with torch.no_grad():
        for layer, draw in zip(layers, draws, strict=True):
            fresh = torch.empty_like(layer.weight, device="cpu")
            draw(fresh, generator)
            layer.weight.copy_(fresh)
            if layer.bias is not None:
                layer.bias.zero_()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.reset_parameters()


def _reset(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.modules.batchnorm._BatchNorm):
            module.reset_parameters()


@INITIALISERS.register("default")
def _default(weights: list[Tensor]) -> list[Draw]:
    raise AssertionError("the default is drawn by the layers themselves")


def fans(weight: Tensor) -> tuple[int, int]:
    """Inputs and outputs of a layer, each counted with the kernel area.

    Examples
    --------
    >>> fans(torch.zeros(8, 3, 5, 5))
    (75, 200)
    """
    area = math.prod(weight.shape[2:])
    return weight.shape[1] * area, weight.shape[0] * area


def _normal(std: float) -> Draw:
    return lambda weight, generator: nn.init.normal_(weight, 0.0, std, generator=generator)


def _uniform(std: float) -> Draw:
    bound = math.sqrt(3) * std
    return lambda weight, generator: nn.init.uniform_(weight, -bound, bound, generator=generator)


@INITIALISERS.register("xavier_normal")
def _xavier_normal(weights: list[Tensor]) -> list[Draw]:
    return [_normal(math.sqrt(2 / sum(fans(w)))) for w in weights]


@INITIALISERS.register("xavier_uniform")
def _xavier_uniform(weights: list[Tensor]) -> list[Draw]:
    return [_uniform(math.sqrt(2 / sum(fans(w)))) for w in weights]


@INITIALISERS.register("kaiming_normal")
def _kaiming_normal(weights: list[Tensor]) -> list[Draw]:
    return [_normal(math.sqrt(2 / fans(w)[0])) for w in weights]


@INITIALISERS.register("kaiming_uniform")
def _kaiming_uniform(weights: list[Tensor]) -> list[Draw]:
    return [_uniform(math.sqrt(2 / fans(w)[0])) for w in weights]


@INITIALISERS.register("orthogonal")
def _orthogonal(weights: list[Tensor]) -> list[Draw]:
    return [lambda w, generator: nn.init.orthogonal_(w, generator=generator) for _ in weights]


@INITIALISERS.register("normal")
def _small_normal(weights: list[Tensor], *, std: float = 1e-2) -> list[Draw]:
    if not 0 <= std < math.inf:
        raise InvalidInput(f"`std` must be finite and not negative; got std={std}.")
    return [_normal(std) for _ in weights]


@INITIALISERS.register("pcbias")
def _pcbias(weights: list[Tensor]) -> list[Draw]:
    r"""Definition 3 of PCBias, for fully connected networks.

    .. math::
        \sigma_1^2 = 1/m_1, \quad \sigma_l^2 = 2/(m_{l-1} + m_l), \quad \sigma_L^2 = 1/m_{L-1}

    Glorot but for the first and the last layer. The definition says nothing of one layer alone; there
    we take one over the number of inputs.
    """
    if any(w.ndim != 2 for w in weights):
        raise InvalidInput(
            "The initialiser 'pcbias' is defined for fully connected layers; this model has convolutions. "
            "Choose 'xavier_normal', which differs from it in the first and the last layer only."
        )
    return [_normal(math.sqrt(v)) for v in _pcbias_variances(weights)]


def _pcbias_variances(weights: list[Tensor]) -> list[float]:
    if len(weights) == 1:
        return [1 / weights[0].shape[1]]
    middle = [2 / sum(w.shape) for w in weights[1:-1]]
    return [1 / weights[0].shape[0], *middle, 1 / weights[-1].shape[1]]


@INITIALISERS.register("identity_crisis")
def _identity_crisis(weights: list[Tensor]) -> list[Draw]:
    r"""Gaussian of variance :math:`1/\sqrt{f_i f_o}` with fans :math:`f_i, f_o`.

    The paper prints the variance without the root, which would shrink the signal by a factor of 3200 in
    every 5x5 layer of 128 channels; with the root a square layer keeps its scale.
    """
    return [_normal(math.prod(fans(w)) ** -0.25) for w in weights]


@INITIALISERS.register("pooling_study")
def _pooling_study(weights: list[Tensor]) -> list[Draw]:
    return [_normal(5e-3 if index == 0 else 1e-2) for index in range(len(weights))]
