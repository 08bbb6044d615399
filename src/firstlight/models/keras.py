"""Weights of Keras models in the TensorFlow.js format, as ours need them."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.untrusted_files import guarded, read_bytes, read_json


def tfjs_weights(folder: Path) -> dict[str, Tensor]:
    """All weights of a TensorFlow.js layers model: `model.json` and the float32 shards it names.

    Every group of the manifest is one stretch of bytes, cut into shard files; the weights follow each
    other in it without gaps.
    """
    manifest = _manifest(folder)
    weights: dict[str, Tensor] = {}
    for group in manifest:
        content = b"".join(_shard(folder, name) for name in group["paths"])
        start = 0
        for entry in group["weights"]:
            name, shape = entry["name"], tuple(entry["shape"])
            if entry["dtype"] != "float32" or "quantization" in entry:
                raise InvalidInput(
                    f"`folder` must hold plain float32 weights; {name!r} is {entry['dtype']}"
                    f"{', quantised' if 'quantization' in entry else ''}. Use the unquantised model."
                )
            stop = start + 4 * math.prod(shape)
            if stop > len(content):
                raise InvalidInput(f"The shards in {folder} end within {name!r}. Unpack the package again.")
            # a copy: torch needs writable memory, and "<f4" is the file's byte order on any machine
            numbers = np.frombuffer(content[start:stop], dtype="<f4").astype(np.float32)
            weights[name] = torch.from_numpy(numbers.reshape(shape))
            start = stop
        if start != len(content):
            raise InvalidInput(
                f"The shards in {folder} hold {len(content)} bytes; the manifest lists {start}. "
                "Unpack the package again."
            )
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise InvalidInput(
                f"{folder} holds NaN or infinite weights in {name!r}. Fetch the package again."
            )
    return weights


def _manifest(folder: Path) -> list[dict[str, Any]]:
    path = folder / "model.json"
    if not path.is_file():
        raise InvalidInput(f"`folder` must hold model.json and its shards; {folder} has no model.json.")
    try:
        groups: list[dict[str, Any]] = read_json(path)["weightsManifest"]
        is_whole = all(_is_whole(group) for group in groups)
    except (ValueError, LookupError, TypeError):
        is_whole = False
    if not is_whole:
        raise InvalidInput(f"{path} is not a TensorFlow.js model: its weights manifest is broken.")
    return groups


def _is_whole(group: dict[str, Any]) -> bool:
    return all(isinstance(name, str) for name in group["paths"]) and all(
        isinstance(entry["name"], str)
        and isinstance(entry["dtype"], str)
        and all(isinstance(side, int) and side >= 0 for side in entry["shape"])
        for entry in group["weights"]
    )


def _shard(folder: Path, name: str) -> bytes:
    path = folder / name
    with guarded(folder / "model.json", "a TensorFlow.js model"):  # no file system allows every name
        is_there = path.resolve().is_relative_to(folder.resolve()) and path.is_file()
    if not is_there:
        raise InvalidInput(
            f"{folder} must hold the shard {name!r} that its model.json names; it is not there."
        )
    return read_bytes(path)


def convolution_with_batch_norm(
    weights: Mapping[str, Tensor], conv: str, batch_norm: str, *, conv_key: str, bn_key: str
) -> dict[str, Tensor]:
    r"""State of a bias-free convolution and its batch norm, equal to Keras' convolution with bias.

    Kernels turn from height, width, input, output to output, input, height, width. The bias :math:`b`
    vanishes in the running mean, because

    .. math:: \gamma \frac{(k * x + b) - \mu}{\sqrt{v + \epsilon}} + \beta
              = \gamma \frac{k * x - (\mu - b)}{\sqrt{v + \epsilon}} + \beta .

    Parameters
    ----------
    weights : mapping of str to Tensor
        Weights of the Keras model, by name.
    conv : str
        Name of the convolution in Keras.
    batch_norm : str
        Name of the batch norm that follows it.
    conv_key : str
        Name of the convolution in our state dict.
    bn_key : str
        Name of our batch norm.
    """
    return {
        f"{conv_key}.weight": weights[f"{conv}/kernel"].permute(3, 2, 0, 1).contiguous(),
        f"{bn_key}.weight": weights[f"{batch_norm}/gamma"],
        f"{bn_key}.bias": weights[f"{batch_norm}/beta"],
        f"{bn_key}.running_mean": weights[f"{batch_norm}/moving_mean"] - weights[f"{conv}/bias"],
        f"{bn_key}.running_var": weights[f"{batch_norm}/moving_variance"],
    }
