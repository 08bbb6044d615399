"""Weights from files, without running anything that the file says."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from firstlight.core.errors import InvalidInput

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net")
_PREFIXES = ("module.", "model.", "net.", "_orig_mod.", "state_dict.")
_SHOWN = 3


def load_weights(model: nn.Module, path: str | Path) -> nn.Module:
    """Fill `model`, in place, from a safetensors file or a checkpoint of tensors saved by torch.

    Wrappers such as ``{"state_dict": ...}`` and prefixes such as ``module.`` are taken off. Files that
    hold anything but tensors and plain containers are refused: they are never unpickled. Nothing is
    written to the model unless every weight fits.

    Parameters
    ----------
    model : torch.nn.Module
        Of the architecture the weights were saved from.
    path : str or Path
        Safetensors is known by its ending; everything else is read as a torch checkpoint.

    Returns
    -------
    torch.nn.Module
        The model itself.
    """
    path = Path(path)
    found = _without_prefixes(_state_dict(_content(path), path), model.state_dict())
    return fill(model, found, source=str(path))


def fill(model: nn.Module, state: Mapping[str, Tensor], *, source: str) -> nn.Module:
    """Write `state` into `model` if every weight is there, fits and is finite; `source` is named if not.

    Counters of batch norm may be absent: older files lack them, and prediction never uses them.
    """
    expected = model.state_dict()
    counters = {k: torch.zeros_like(v) for k, v in expected.items() if k.endswith("num_batches_tracked")}
    found = {**counters, **state}
    _check_fit(found, expected, source)
    for name, tensor in found.items():
        # judged as the model will hold it: a large double overflows in single precision
        if not tensor.to(expected[name].dtype).isfinite().all():
            raise InvalidInput(f"{source} holds NaN or infinite weights in {name!r}. Use other weights.")
    model.load_state_dict(found)
    return model


def _content(path: Path) -> Any:
    if not path.is_file():
        raise InvalidInput(f"No weights at {path}. Give the path of a .safetensors or .pt file.")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InvalidInput(
            f"{path} is not a checkpoint of plain tensors: it is damaged, or it holds Python objects, which "
            "are never unpickled here. Save with torch.save(model.state_dict(), path) or as safetensors."
        ) from error
    # damaged bytes make the readers raise anything, from struct.error to UnicodeDecodeError
    except Exception as error:
        raise InvalidInput(
            f"{path} cannot be read as weights: {(str(error) or type(error).__name__).splitlines()[0]}. "
            "The file may be damaged; save or fetch it again."
        ) from error


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    for _ in range(len(_WRAPPERS)):
        inner = [content[w] for w in _WRAPPERS if isinstance(content, Mapping) and w in content]
        if not inner or not isinstance(inner[0], Mapping):
            break
        content = inner[0]
    if not isinstance(content, Mapping) or not content:
        raise InvalidInput(f"{path} must hold a dictionary of tensors; it holds {type(content).__name__}.")
    strange = [key for key, value in content.items() if not isinstance(value, Tensor)]
    if strange:
        raise InvalidInput(
            f"{path} must hold tensors only; {strange[0]!r} is {type(content[strange[0]]).__name__}. "
            "Save with torch.save(model.state_dict(), path)."
        )
    return {str(key): value for key, value in content.items()}


def _without_prefixes(found: dict[str, Tensor], expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    while True:
        shared = [p for p in _PREFIXES if all(key.startswith(p) for key in found)]
        if not shared or any(key.startswith(shared[0]) for key in expected):
            return found
        found = {key.removeprefix(shared[0]): value for key, value in found.items()}


def _check_fit(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], source: str) -> None:
    problems = {
        "missing": [k for k in expected if k not in found],
        "unexpected": [k for k in found if k not in expected],
        "of another shape": [
            f"{k} {tuple(found[k].shape)} instead of {tuple(expected[k].shape)}"
            for k in expected
            if k in found and found[k].shape != expected[k].shape
        ],
    }
    if any(problems.values()):
        listed = "; ".join(
            f"{len(names)} {kind}: {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"
            for kind, names in problems.items()
            if names
        )
        raise InvalidInput(
            f"{source} does not fit this architecture. {listed}. Choose the architecture, width and number "
            "of classes the weights were saved with."
        )
