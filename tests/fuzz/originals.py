"""Small intact files of every format that firstlight reads, and how each is read.

A reader returns a digest of everything it read, so that two readings can be compared.
"""

import csv
import dataclasses
import gzip
import hashlib
import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import scipy.io
import torch
from PIL import Image
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import global_seed
from firstlight._internal.store import RunSpec, Store
from firstlight.data import load
from firstlight.data.cache import StoredImages, read_cache, write_cache
from firstlight.data.formats.cifar_pickles import pickled_batch
from firstlight.data.formats.idx import idx_array
from firstlight.data.images import ImageData
from firstlight.data.sets.gtsrb import read_gtsrb
from firstlight.data.sets.svhn import mat_reader
from firstlight.estimators import CNTKClassifier, load_machine, save_machine
from firstlight.kernels import ConvKernel, TiledGram
from firstlight.models import load_weights, save_weights
from firstlight.models.onnx.reading import read_graph
from firstlight.training import Recipe, train_on
from reference.onnx_files import write_onnx
from reproduce import entries
from reproduce.weights.resnet50 import tfjs_weights

OURS, CHECKED, BARE = "ours", "checked", "bare"
"""Files that we wrote and seal; formats with a checksum of their own; formats without any."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One format.

    Parameters
    ----------
    write : callable
        Writes intact files into an empty folder.
    read : callable
        Reads them from a folder, and returns a digest of the result.
    protection : str
        `OURS`, `CHECKED` or `BARE`: who notices a changed bit.
    """

    write: Callable[[Path], object]
    read: Callable[[Path], str]
    protection: str


KINDS: dict[str, Kind] = {}


def kind(name: str, protection: str, write: Callable[[Path], object], read: Callable[[Path], Any]) -> None:
    KINDS[name] = Kind(write=write, read=lambda folder: digest(read(folder)), protection=protection)


def digest(value: Any) -> str:
    """Hash of a nested value: equal for equal contents."""
    return hashlib.sha256(_bytes(value)).hexdigest()[:16]


def _bytes(value: Any) -> bytes:
    if isinstance(value, Tensor):
        value = value.detach().contiguous().numpy()
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return b"{" + b",".join(_bytes(k) + b":" + _bytes(v) for k, v in value.items()) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(map(_bytes, value)) + b"]"
    return os.fsencode(f"{type(value).__name__} {value}")


# ---------------------------------------------------------------- contents


def draws(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def pixels(n: int = 6, side: int = 6, channels: int = 3) -> np.ndarray:
    return draws().integers(0, 256, (n, side, side, channels), dtype=np.uint8)


def network() -> nn.Module:
    with global_seed("weights", 0):
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3))


def few_images() -> ImageData:
    x = torch.from_numpy(pixels(12, 6, 1)).permute(0, 3, 1, 2).float() / 255
    return ImageData(x.contiguous(), torch.arange(12) % 3, ("a", "b", "c"))


def loaded(path: Path) -> dict[str, Tensor]:
    return dict(load_weights(network(), path).state_dict())


def pictures_of(path: Path) -> list[Any]:
    images = load(path, None)
    return [images.x, images.y, images.classes]


# ---------------------------------------------------------------- weights

kind(
    "weights of train",
    OURS,
    lambda folder: save_weights(network().state_dict(), folder / "w.safetensors", arch="small"),
    lambda folder: loaded(folder / "w.safetensors"),
)
kind(
    "safetensors",
    BARE,
    lambda folder: safetensors.torch.save_file(dict(network().state_dict()), folder / "w.safetensors"),
    lambda folder: loaded(folder / "w.safetensors"),
)
kind(
    "torch checkpoint",
    CHECKED,
    lambda folder: torch.save({"state_dict": network().state_dict(), "epoch": 3}, folder / "w.pt"),
    lambda folder: loaded(folder / "w.pt"),
)
kind(
    "torch checkpoint, legacy",
    BARE,
    lambda folder: torch.save(network().state_dict(), folder / "w.pth", _use_new_zipfile_serialization=False),
    lambda folder: loaded(folder / "w.pth"),
)


def write_network(folder: Path) -> None:
    state = network().state_dict()
    write_onnx(folder / "m.onnx", [("Gemm", ["x", *state], ["y"])], inputs={"x": [1, 2]}, tensors=state)


kind("ONNX", BARE, write_network, lambda folder: read_graph(folder / "m.onnx").tensors)


def write_tfjs(folder: Path) -> None:
    state = network().state_dict()
    listed = [{"name": k, "shape": list(v.shape), "dtype": "float32"} for k, v in state.items()]
    manifest = {"weightsManifest": [{"paths": ["shard1.bin"], "weights": listed}]}
    (folder / "model.json").write_text(json.dumps(manifest))
    (folder / "shard1.bin").write_bytes(b"".join(v.numpy().tobytes() for v in state.values()))


kind("TensorFlow.js", BARE, write_tfjs, tfjs_weights)

# ---------------------------------------------------------------- images


def arrays() -> dict[str, np.ndarray]:
    y = np.arange(6) % 2
    return {"x": pixels(), "y": y, "x_test": pixels()[::-1], "y_test": y, "classes": np.array(["cat", "dog"])}


kind(
    "npz",
    CHECKED,
    lambda folder: np.savez(folder / "x.npz", **arrays()),
    lambda folder: pictures_of(folder / "x.npz"),
)
kind(
    "npz, compressed",
    CHECKED,
    lambda folder: np.savez_compressed(folder / "x.npz", **arrays()),
    lambda folder: pictures_of(folder / "x.npz"),
)


def idx_bytes() -> bytes:
    body = pixels(4, 8, 1)[..., 0]
    return bytes([0, 0, 8, 3]) + struct.pack(">III", *body.shape) + body.tobytes()


kind(
    "idx",
    BARE,
    lambda folder: (folder / "x-idx3-ubyte").write_bytes(idx_bytes()),
    lambda folder: idx_array(folder / "x-idx3-ubyte"),
)
kind(
    "idx, gzipped",
    CHECKED,
    lambda folder: (folder / "x-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(), mtime=0)),
    lambda folder: idx_array(folder / "x-idx3-ubyte.gz"),
)


def class_folders(suffix: str) -> dict[str, bytes]:
    """Contents of a folder of class folders, by name."""
    files = {}
    for i, one in enumerate(pixels(4, 8)):
        packed = io.BytesIO()
        Image.fromarray(one).save(packed, "JPEG" if suffix == "jpg" else suffix.upper())
        files[f"{'cat' if i % 2 else 'dog'}/{i}.{suffix}"] = packed.getvalue()
    return files


def write_class_folders(folder: Path, suffix: str) -> None:
    for name, content in class_folders(suffix).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


kind("PNG", CHECKED, lambda folder: write_class_folders(folder, "png"), pictures_of)
kind("JPEG", BARE, lambda folder: write_class_folders(folder, "jpg"), pictures_of)
kind("GIF", BARE, lambda folder: write_class_folders(folder, "gif"), pictures_of)
kind("BMP", BARE, lambda folder: write_class_folders(folder, "bmp"), pictures_of)


def write_zip(folder: Path) -> None:
    with zipfile.ZipFile(folder / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in class_folders("bmp").items():
            archive.writestr(name, content)


def write_tar(folder: Path) -> None:
    with tarfile.open(folder / "x.tar.gz", "w:gz") as archive:
        for name, content in class_folders("bmp").items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


# pictures without a checksum of their own: what is noticed is noticed by the archive
kind("zip", CHECKED, write_zip, lambda folder: pictures_of(folder / "x.zip"))
kind("tar.gz", CHECKED, write_tar, lambda folder: pictures_of(folder / "x.tar.gz"))
kind(
    "CIFAR batch",
    BARE,
    lambda folder: (folder / "batch").write_bytes(
        pickle.dumps({b"data": draws().integers(0, 256, (4, 3072), dtype=np.uint8), b"labels": [0, 1, 2, 3]})
    ),
    lambda folder: pickled_batch(folder / "batch"),
)


def write_mat(folder: Path) -> None:
    x = pixels(4, 8).transpose(1, 2, 3, 0)
    scipy.io.savemat(folder / "train_32x32.mat", {"X": x, "y": np.array([[1], [2], [10], [1]], np.uint8)})


def plain(splits: Any) -> Any:
    """Pixels and labels, without the names of files, which differ from copy to copy."""
    if splits is None:  # as the catalogue says it
        raise InvalidInput("the folder does not hold this data set")
    return {split: [images.x, images.y] for split, images in splits.items()}


def read_mat(folder: Path) -> Any:
    return plain(mat_reader(tuple("0123456789"), files={"train": "train_32x32.mat"})(folder))


kind("MAT", BARE, write_mat, read_mat)


def write_gtsrb(folder: Path) -> None:
    files = dict(
        zip(
            ("train/00000/0_0.ppm", "train/00001/0_0.ppm", "Images/a.ppm", "Images/b.ppm"),
            pixels(4, 8),
            strict=True,
        )
    )
    for name, one in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(one).save(folder / name)
    with (folder / "GT-final_test.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows([["Filename", "ClassId"], ["a.ppm", 7], ["b.ppm", 42]])


kind("CSV and PPM", BARE, write_gtsrb, lambda folder: plain(read_gtsrb(folder)))

# ---------------------------------------------------------------- files of ours

SPEC = RunSpec(what="test", config={"lr": 0.1, "sizes": (3, 4)}, data="d")


def write_run(folder: Path) -> None:
    result = {"x": torch.arange(30.0), "note": "fine", "loss": float("inf")}
    Store(folder).write(SPEC, result, wall_seconds=1.0, cpu_seconds=2.0)


def read_run(folder: Path) -> list[Any]:
    run = Store(folder).load(SPEC.id)
    return [run.spec, run.result, run.cpu_seconds, run.wall_seconds, run.finished, run.commit]


kind("run folder", OURS, write_run, read_run)


def write_machine(folder: Path) -> None:
    data = few_images()
    save_machine(CNTKClassifier(depth=1).fit(data.x, data.y.numpy()), folder / "machine")


def read_machine(folder: Path) -> list[Any]:
    machine: Any = load_machine(folder / "machine")
    return [machine.get_params(), machine.x_fit_, machine.dual_coef_, machine.classes_, machine.kernel_]


kind("saved machine", OURS, write_machine, read_machine)


def parts_of_gram(folder: Path) -> Tensor:
    images = few_images().x
    tiles = TiledGram.of(images, kernel=ConvKernel(depth=1), folder=folder, side=8, n_jobs=1, show=False)
    return tiles.columns(torch.arange(len(images)))


kind("Gram parts", OURS, parts_of_gram, parts_of_gram)


class _Stopped(Exception):
    """Ends a training from within."""


def trained(folder: Path, stop: int | None = None) -> dict[str, Tensor]:
    def observer(step: int, model: nn.Module) -> None:
        if step == stop:
            raise _Stopped

    model = network()
    recipe = Recipe(steps=6, batch_size=4, lr=0.1, momentum=0.9)
    train_on(
        model,
        few_images(),
        recipe,
        observers=[observer],
        checkpoint=folder / "checkpoint.safetensors",
        checkpoint_seconds=0.0 if stop else 1e9,
        show=False,
    )
    return dict(model.state_dict())


def write_training(folder: Path) -> None:
    try:
        trained(folder, stop=5)
    except _Stopped:
        return


kind("training checkpoint", OURS, write_training, trained)


def stored() -> StoredImages:
    x = torch.from_numpy(pixels().transpose(0, 3, 1, 2).copy())
    return StoredImages(x, torch.arange(6) % 2, ("cat", "dog"))


def write_cached(folder: Path) -> None:
    os.environ["FIRSTLIGHT_DATA"] = str(folder)
    write_cache("toy", {"train": stored()}, origin="here")


def read_cached(folder: Path) -> list[Any]:
    os.environ["FIRSTLIGHT_DATA"] = str(folder)
    images = read_cache("toy", "train")
    return [images.x, images.y, images.classes]


kind("cached data set", OURS, write_cached, read_cached)


def write_ledger(folder: Path) -> None:
    body = {"theme": "t", "scale": "desk", "claims": [{"claim": "a", "verdict": "reproduced"}]}
    (folder / "ledger.json").write_text(json.dumps(body, indent=1))


# text that people read, merge and keep under version control: no checksum
kind("ledger", BARE, write_ledger, lambda folder: entries.read(folder / "ledger.json"))
