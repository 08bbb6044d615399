"""A training frozen between two steps, in one file that is either whole or absent."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from firstlight.core.errors import StoreProblem
from firstlight.core.files import whole_file
from firstlight.store import decode, encode
from firstlight.store.encoding import apart


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a nested dictionary of tensors and plain values."""
    tree, arrays = encode(state)
    with whole_file(path) as part:
        save_file(apart(arrays), part, metadata={"tree": json.dumps(tree)})


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """Read what :func:`save_checkpoint` wrote; None if there is no file."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            tree = json.loads(file.metadata()["tree"])
            state: dict[str, Any] = decode(tree, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise StoreProblem(
            f"The checkpoint {path} is damaged ({error}). Remove it to train from the start."
        ) from error
    return state


def optimiser_state(optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Per-parameter state with string keys, as the encoding wants them."""
    return {str(k): v for k, v in optimiser.state_dict()["state"].items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Put back what :func:`optimiser_state` returned."""
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": {int(k): v for k, v in state.items()}, "param_groups": groups})
    for weight, kept in optimiser.state.items():
        for name, value in kept.items():
            if isinstance(value, torch.Tensor) and value.shape == weight.shape:
                # momenta lie in memory as their weight does, which may be transposed or channels last;
                # a loop over two layouts may round otherwise than the vectorised one over a single layout
                kept[name] = torch.empty_like(weight, dtype=value.dtype).copy_(value)
