"""Weights out of files of any layout, without running anything that the file says."""

import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.files import whole_file
from firstlight._internal.tensor_files import load_tensors, save_sealed
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


_SHOWN = 3


class WeightsMismatch(InvalidInput):
    """Weights that belong to another architecture, width or number of classes.

    Parameters
    ----------
    source : str
        Name of the weights in the message.
    missing, unexpected : tuple of str
        Names that only the model has, and that only the weights have.
    reshaped : mapping of str to tuple of (tuple of int, tuple of int)
        Shape in the weights and shape in the model, where they differ.
    """

    def __init__(
        self,
        source: str,
        *,
        missing: tuple[str, ...],
        unexpected: tuple[str, ...],
        reshaped: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]],
    ) -> None:
        self.missing, self.unexpected, self.reshaped = missing, unexpected, dict(reshaped)
        kinds = {
            "missing": missing,
            "unexpected": unexpected,
            "of another shape": tuple(f"{k} {got} instead of {own}" for k, (got, own) in reshaped.items()),
        }
        listed = "; ".join(
            f"{len(names)} {kind}: {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"
            for kind, names in kinds.items()
            if names
        )
        super().__init__(
            f"{source} does not fit this architecture. {listed}. Choose the architecture, its options and the "
            "number of classes with which the weights were saved."
        )

    @property
    def saved_classes(self) -> int | None:
        """Number of outputs in the weights, if nothing but that differs from the model."""
        if self.missing or self.unexpected:
            return None
        pairs = {(got[:1], own[:1]) for got, own in self.reshaped.values()}
        same_inputs = all(got[1:] == own[1:] for got, own in self.reshaped.values())
        return next(iter(pairs))[0][0] if same_inputs and len(pairs) == 1 else None


def load_weights(model: nn.Module, path: str | Path, *, entry: str | None = None) -> nn.Module:
    """Fill `model`, in place, from a safetensors file or a checkpoint of tensors saved by torch.

    Wrappers such as ``{"state_dict": ...}`` and prefixes such as ``module.`` are taken off. Files that
    hold anything but tensors and plain containers are refused: they are never unpickled. Nothing is
    written to the model unless every weight fits.

    Parameters
    ----------
    model : torch.nn.Module
        A model of the architecture the weights were saved from.
    path : str or Path
        Safetensors is known by its ending; everything else is read as a torch checkpoint.
    entry : str, optional
        Entry to read if the file holds the weights more than once, such as ``"ema"``.

    Returns
    -------
    torch.nn.Module
        The model itself.
    """
    return fill(model, read_state(Path(path), model.state_dict(), entry=entry), source=str(path))


def save_weights(state: Mapping[str, Tensor], path: str | Path, **metadata: str) -> Path:
    """Write weights as safetensors, whole or not at all, with words about where they come from.

    Parameters
    ----------
    state : mapping of str to Tensor
        State dict of a model.
    path : str or Path
        File to write.
    metadata : str
        Words to keep in the file, such as ``arch="resnet18"``.
    """
    with whole_file(Path(path)) as part:
        save_sealed(part, state, metadata)
    return Path(path)


def fill(model: nn.Module, state: Mapping[str, Tensor], *, source: str) -> nn.Module:
    """Write `state` into `model` if every weight is there, fits and is finite; `source` is named if not.

    Counters of batch norm may be absent: older files lack them, and prediction never uses them.
    """
    expected = model.state_dict()
    counters = {k: torch.zeros_like(v) for k, v in expected.items() if k.endswith("num_batches_tracked")}
    complete = {**counters, **state}
    _check_fit(complete, expected, source)
    for name, tensor in complete.items():
        # judged as the model will hold it: a large double overflows in single precision
        if not tensor.to(expected[name].dtype).isfinite().all():
            raise InvalidInput(f"{source} holds NaN or infinite weights in {name!r}. Use other weights.")
    model.load_state_dict(complete)
    return model


def _check_fit(state: Mapping[str, Tensor], expected: Mapping[str, Tensor], source: str) -> None:
    missing = tuple(k for k in expected if k not in state)
    unexpected = tuple(k for k in state if k not in expected)
    reshaped = {
        k: (tuple(state[k].shape), tuple(v.shape))
        for k, v in expected.items()
        if k in state and state[k].shape != v.shape
    }
    if missing or unexpected or reshaped:
        raise WeightsMismatch(source, missing=missing, unexpected=unexpected, reshaped=reshaped)
