"""Weights from files into models, whole or not at all."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.files import whole_file
from firstlight._internal.tensor_files import save_sealed
from firstlight.models.checkpoints import read_state

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
