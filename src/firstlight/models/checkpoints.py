"""Weights out of files of any layout, without running anything that the file says."""

import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.tensor_files import load_tensors
from firstlight._internal.untrusted_files import demand_room, demand_room_for_zip, reason_of

State = Mapping[str, Tensor]

_DEEPEST = 4  # mappings within mappings: trainers, wrappers of trainers, and one to spare
# what wrappers of modules put into the middle of names
_MARKS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
_COUNTER = "num_batches_tracked"


def read_state(path: Path, expected: State, *, entry: str | None = None) -> dict[str, Tensor]:
    """Find in a file the weights that a model expects, under the names that it expects.

    Trainers wrap weights (``{"state_dict": ...}``, ``{"ema": {"module": ...}}``) and prefix their names
    (``module.``, ``backbone.``). Every dictionary of tensors in the file is compared with the expected
    names; a prefix that all of them share is taken off, or added.

    Parameters
    ----------
    path : Path
        Safetensors is known by its ending; everything else is read as a torch checkpoint of tensors.
    expected : mapping of str to Tensor
        State dict of the model.
    entry : str, optional
        Entry of the file to read, such as ``"ema"``; by default the only one that fits.

    Returns
    -------
    dict of str to Tensor
        If nothing fits, the most similar entry, for the error message that the caller writes.
    """
    states = dict(_states(_content(path)))
    if not states:
        raise InvalidInput(
            f"{path} must hold a dictionary of tensors; it holds none. "
            "Save with torch.save(model.state_dict(), path)."
        )
    if entry is not None:
        chosen = {name: state for name, state in states.items() if entry in name.split("/")}
        if not chosen:
            raise InvalidInput(
                f"{path} has no entry {entry!r} with weights. It has {_listed(states)}; choose one of them."
            )
        states = chosen
    fitting = {name: fit for name, state in states.items() if (fit := _fit(state, expected)) is not None}
    if not fitting:
        return _most_similar(states, expected)
    first, *others = fitting.values()
    if not all(_are_equal(first, other) for other in others):
        raise InvalidInput(
            f"{path} holds several sets of weights for this model: {_listed(fitting)}. Choose one with `entry`."
        )
    return first


def _content(path: Path) -> Any:
    if not path.is_file():
        raise InvalidInput(f"No weights at {path}. Give the path of a .safetensors or .pt file.")
    _refuse_programs(path)
    demand_room(path, path.stat().st_size)
    if path.suffix == ".safetensors":
        return load_tensors(path, format="weights").tensors
    demand_room_for_zip(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # torch's own message advises to switch its protection off
        raise InvalidInput(
            f"{path} is not a checkpoint of plain tensors: it is damaged, or it holds Python objects such as a "
            "whole model, which are never unpickled here because that can run any code. Where the model can "
            "be loaded, save its weights with torch.save(model.state_dict(), path) or as safetensors."
        ) from error
    # damaged bytes make the readers raise anything, from struct.error to UnicodeDecodeError
    except Exception as error:
        raise InvalidInput(
            f"{path} cannot be read as weights: {reason_of(error)}. "
            "The file may be damaged; save or fetch it again."
        ) from error


def _refuse_programs(path: Path) -> None:
    """Reject TorchScript archives and exported programs: running a program is not reading weights."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [name.partition("/")[2] for name in archive.namelist()]
    except Exception:  # damaged, in one of many ways: the reader says so
        return
    if any(name == "archive_format" or name.startswith("serialized_exported_program") for name in inside):
        kind, weights = "an exported program", "torch.export.load(path).state_dict"
    elif any(name.startswith("code/") for name in inside):
        kind, weights = "a TorchScript archive", "torch.jit.load(path).state_dict()"
    else:
        return
    raise InvalidInput(
        f"{path} is {kind}, whose layers cannot be observed. If you trust it, save its weights with "
        f"torch.save({weights}, 'weights.pt'), and load these into the architecture."
    )


def _states(content: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """All mappings from words to tensors, however deep, each with the path to it."""
    if not isinstance(content, Mapping) or depth > _DEEPEST:
        return
    tensors = {
        key: value for key, value in content.items() if isinstance(key, str) and isinstance(value, Tensor)
    }
    if tensors:
        yield name, tensors
    for key, value in content.items():
        yield from _states(value, f"{name}/{key}" if name else str(key), depth + 1)


def _fit(state: State, expected: State) -> dict[str, Tensor] | None:
    """The state under the names that are expected, or None if any is missing.

    Tensors outside the shared prefix, such as the weights of a loss or a counter, are left out: the model is
    complete without them.
    """
    plain = {_unmarked(key): value for key, value in state.items()}
    names = {_unmarked(key): key for key in expected}
    needed = [name for name in names if not name.endswith(_COUNTER)] or list(names)
    if not needed:
        return None
    longest = max(needed, key=len)
    prefixes = sorted((k[: -len(longest)] for k in plain if f".{k}".endswith(f".{longest}")), key=len)
    for prefix in prefixes:
        if all(prefix + name in plain for name in needed):
            inside = {k.removeprefix(prefix): v for k, v in plain.items() if k.startswith(prefix)}
            return {names.get(name, name): value for name, value in inside.items()}
    # the reverse: weights of what the model wraps
    wrapper = _shared_prefix(needed)
    if wrapper and all(name.removeprefix(wrapper) in plain for name in needed):
        return {names.get(wrapper + key, wrapper + key): value for key, value in plain.items()}
    return None


def _most_similar(states: Mapping[str, State], expected: State) -> dict[str, Tensor]:
    """The entry that shares most names with the model, without the prefix of all of its names."""

    def stripped(state: State) -> dict[str, Tensor]:
        plain = {_unmarked(key): value for key, value in state.items()}
        prefix = _shared_prefix(list(plain))
        if any(key.startswith(prefix) for key in expected):
            return plain
        return {key.removeprefix(prefix): value for key, value in plain.items()}

    return max(
        map(stripped, states.values()), key=lambda state: (len(state.keys() & expected.keys()), len(state))
    )


def _shared_prefix(names: list[str]) -> str:
    """The beginning, in whole parts, that all names share.

    Examples
    --------
    >>> _shared_prefix(["net.body.0.weight", "net.body.0.bias", "net.head.weight"])
    'net.'
    """
    parts = [name.split(".")[:-1] for name in names]
    shared: list[str] = []
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0] + ".")
    return "".join(shared)


def _unmarked(name: str) -> str:
    for mark in _MARKS:
        name = name.replace(mark, "")
    return name


def _are_equal(a: State, b: State) -> bool:
    return a.keys() == b.keys() and all(torch.equal(value, b[name]) for name, value in a.items())


def _listed(states: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) if name else "the file itself" for name in states)
