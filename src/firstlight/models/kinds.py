"""Which things are networks that can be measured."""

from typing import Any

import torch
from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight.models.wrappers import unwrapped


def as_network(model: Any) -> nn.Module:
    """The module to measure: without its wrappers, and refused if it has no layers to look at."""
    demand_network(model)
    return unwrapped(model)


def demand_network(model: Any) -> None:
    """Refuse what has no layers to look at: exported programs, TorchScript, and what is no module at all."""
    if isinstance(model, torch.jit.ScriptModule):
        raise InvalidInput(
            "the model must be an ordinary module; this one is TorchScript, which hides its layers. Build the Python "
            "class it was made from and load its `state_dict()`."
        )
    if isinstance(model, torch.export.ExportedProgram):
        raise InvalidInput(
            "the model must be an ordinary module; this one is an exported program. Pass its `module()` if it was "
            "exported for any number of images, or build the Python class it was made from and load its `state_dict`."
        )
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"the model must be a torch.nn.Module; got {type(model).__name__}.")
