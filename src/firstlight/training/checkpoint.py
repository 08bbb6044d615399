"""A training frozen between two steps, in one file that is either whole or absent."""

import json
from pathlib import Path
from typing import Any

import torch

from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight._internal.files import whole_file
from firstlight._internal.store.encoding import decode, encode
from firstlight._internal.tensor_files import load_sealed, save_sealed
from firstlight._internal.untrusted_files import guarded


def save_checkpoint(path: Path, state: dict[str, Any], *, identity: str = "") -> None:
    """Write a nested dictionary of tensors and plain values; the checkpoint before it is kept too.

    Parameters
    ----------
    path : Path
        File to write.
    state : dict of str to object
        What :func:`load_checkpoint` gives back.
    identity : str, default ''
        Name of the training, which :func:`load_checkpoint` compares.
    """
    tree, arrays = encode(state)
    with whole_file(path) as part:
        save_sealed(part, arrays, {"tree": json.dumps(tree), "identity": identity})
        if path.exists():
            path.replace(_before(path))  # a process that is killed here goes on from this one


def load_checkpoint(path: Path, *, identity: str = "") -> dict[str, Any] | None:
    """Read what :func:`save_checkpoint` wrote, or the checkpoint before if it is damaged; None if there is none."""
    damage: Exception | None = None
    for candidate in (path, _before(path)):
        if not candidate.exists():
            continue
        try:
            return _read(candidate, identity)
        except _OtherTraining:
            raise
        except InvalidInput as error:
            damage = damage or error
    if damage is None:
        return None
    raise StoreProblem(
        f"The checkpoint {path} is damaged ({damage}). Remove it to train from the start."
    ) from damage


class _OtherTraining(InvalidInput):
    """A checkpoint that is intact but not of this training."""


def _read(path: Path, identity: str) -> dict[str, Any]:
    file = load_sealed(path)
    if file.words.get("identity", "") != identity:
        raise _OtherTraining(
            f"The checkpoint {path} belongs to another training or version: its data, network or settings differ. "
            "Remove it to train from the start, or choose another file."
        )
    with guarded(path, "a checkpoint"):
        state: dict[str, Any] = decode(json.loads(file.words["tree"]), file.tensors)
    return state


def _before(path: Path) -> Path:
    return path.with_name(f"{path.name}.before")


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
