"""The same architecture with weights drawn anew."""

import copy

from torch import nn

from firstlight.core.errors import InvalidInput
from firstlight.core.seeds import global_seed


def fresh_initial(model: nn.Module, *, seed: int = 0) -> nn.Module:
    """A copy of `model` whose layers drew their weights anew, each by its own default rule.

    Layers without such a rule, and parameters that belong to no layer, keep their trained values.

    Examples
    --------
    >>> layer = nn.Linear(3, 3)
    >>> twin = fresh_initial(layer)
    >>> bool((twin.weight == layer.weight).any())
    False
    """
    try:
        twin = copy.deepcopy(model)
    except (RuntimeError, TypeError) as error:
        raise InvalidInput(
            f"{type(model).__name__} cannot be copied ({str(error).splitlines()[0]}). Give its start as `initial`."
        ) from error
    with global_seed("fresh twin", seed):
        for module in twin.modules():
            reset = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)
            if callable(reset):
                reset()
    return twin
