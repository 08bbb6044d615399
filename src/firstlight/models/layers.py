"""Small layers that several families share."""

from torch import nn

from firstlight._internal.errors import InvalidInput


def dropout_slot(probability: float) -> nn.Module:
    """Dropout, or a placeholder that keeps the numbering of the layers around it."""
    if not 0 <= probability < 1:
        raise InvalidInput(f"`dropout` must lie in [0, 1); got {probability}.")
    return nn.Dropout(probability) if probability else nn.Identity()
