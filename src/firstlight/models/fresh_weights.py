"""The same architecture with weights drawn anew."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from firstlight._internal.autograd.model_state import copied
from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import global_seed


def fresh_initial(model: nn.Module, *, seed: int = 0) -> nn.Module:
    """A copy of `model` whose layers drew their weights anew, each by its own default rule.

    Weights behind a parametrisation (`weight_norm`, `spectral_norm`, `orthogonal`, pruning masks) are
    drawn for the plain layer and then put behind it. Layers without a default rule, and parameters that
    belong to no layer, keep their trained values.

    Examples
    --------
    >>> layer = nn.Linear(3, 3)
    >>> initial = fresh_initial(layer)
    >>> bool((initial.weight == layer.weight).any())
    False
    """
    try:
        fresh = copied(model)
    except InvalidInput as error:
        raise InvalidInput(f"{error} Give the model before training as `initial`.") from error
    with global_seed("fresh twin", seed):  # the name is part of the seed: another one draws other weights
        for name, module in fresh.named_modules():
            if callable(_default_rule(module)):
                _redraw(name, module)
    return fresh


def _default_rule(module: nn.Module) -> Any:
    return getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)


def _redraw(name: str, module: nn.Module) -> None:
    """Draw the weights of one module, also where they stand behind a parametrisation or a hook."""
    if parametrize.is_parametrized(module):
        _redraw_parametrised(name, module)
        return
    computed = [
        key for key, value in vars(module).items() if isinstance(value, Tensor) and _is_hooked(module, key)
    ]
    for key in computed:
        vars(module)[key] = vars(module)[key].detach().clone()
    _default_rule(module)()
    for key in computed:
        _store_behind_hook(name, module, key)


def _redraw_parametrised(name: str, module: nn.Module) -> None:
    lists = module.parametrizations
    assert isinstance(lists, nn.ModuleDict)
    plain = _unparametrised(module)
    _redraw(name, plain)
    with torch.no_grad():
        for key, parameter in module._parameters.items():
            if parameter is not None:
                parameter.copy_(plain.get_parameter(key))
        for key, steps in lists.items():
            drawn = plain.get_parameter(key).detach()
            try:
                setattr(module, key, drawn)
            except (NotImplementedError, RuntimeError, ValueError) as error:
                kinds = ", ".join(type(step).__name__ for step in steps)  # type: ignore[attr-defined]
                raise InvalidInput(
                    f"the {key} of layer {name!r} cannot be drawn anew: {kinds} has no inverse. Give the model "
                    "before training as `initial`."
                ) from error
            for step in steps:  # type: ignore[attr-defined]
                if isinstance(step, parametrizations._SpectralNorm) and drawn.ndim > 1:
                    matrix = step._reshape_weight_to_matrix(drawn)
                    _set_singular_vectors(matrix, step.get_buffer("_u"), step.get_buffer("_v"))


def _unparametrised(module: nn.Module) -> nn.Module:
    """A copy whose weights are plain parameters, which the rule of the layer can write to.

    PyTorch's `remove_parametrizations` would not do: it edits the class, which the copy shares.
    """
    plain = copied(module)
    keys = list(plain.parametrizations)  # type: ignore[arg-type]
    values = {key: getattr(module, key).detach().clone() for key in keys}
    del plain._modules["parametrizations"]
    plain.__class__ = type(module).__bases__[0]  # the class that the parametrisation was put on
    for key, value in values.items():
        plain.register_parameter(key, nn.Parameter(value))
    return plain


def _set_singular_vectors(matrix: Tensor, left: Tensor, right: Tensor) -> None:
    """Put a spectral norm where its power method converges; vectors of the old weight give a wrong norm."""
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    left.copy_(u[:, 0])
    right.copy_(v[0])


def _is_hooked(module: nn.Module, key: str) -> bool:
    """Whether a hook computes this attribute from parameters before every forward pass."""
    return key == "weight" or any(f"{key}_{ending}" in module._parameters for ending in ("orig", "v"))


def _store_behind_hook(name: str, module: nn.Module, key: str) -> None:
    """Move a drawn weight to the parameters from which a hook computes it before every forward pass."""
    drawn = vars(module)[key].detach()
    hooks = [hook for hook in module._forward_pre_hooks.values() if getattr(hook, "name", key) == key]
    parameters = module._parameters
    with torch.no_grad():
        for hook in hooks:
            if isinstance(hook, WeightNorm):
                axis = hook.dim
                parameters[f"{key}_v"].copy_(drawn)  # type: ignore[union-attr]
                parameters[f"{key}_g"].copy_(torch.norm_except_dim(drawn, 2, axis))  # type: ignore[union-attr]
                vars(module)[key] = hook.compute_weight(module)
                return
        original = parameters.get(f"{key}_orig")
        if original is None:
            raise InvalidInput(
                f"the {key} of layer {name!r} cannot be drawn anew: a hook computes it in a way that is not "
                "known here. Give the model before training as `initial`."
            )
        original.copy_(drawn)
        for hook in hooks:
            if isinstance(hook, SpectralNorm):
                vectors = (module.get_buffer(f"{key}_{side}") for side in "uv")
                _set_singular_vectors(hook.reshape_weight_to_matrix(drawn), *vectors)
                vars(module)[key] = hook.compute_weight(module, do_power_iteration=False)
                return
        mask = module._buffers.get(f"{key}_mask")
        if mask is not None:
            vars(module)[key] = original * mask
