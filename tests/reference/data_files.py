"""Tiny copies of data sets in their standard files, written by hand."""

import gzip
import io
import json
import os
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image


def write_idx(path: Path, array: np.ndarray) -> None:
    raw = bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape) + array.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def write_mnist_like(
    folder: Path, *, suffix: str = "", train: str = "train", test: str = "t10k", first=0, classes=10
):
    """Write ten classes of noise; return the pixels and labels of both splits."""
    draws = np.random.default_rng(0)
    made = {}
    for split, prefix, n in (("train", train, 2 * classes), ("test", test, classes)):
        x = draws.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        y = (np.arange(n) % classes).astype(np.uint8)
        write_idx(folder / f"{prefix}-images-idx3-ubyte{suffix}", x)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte{suffix}", (y + first).astype(np.uint8))
        made[split] = (x, y)
    return made


def write_cifar_batches(folder: Path, *, protocol: int = 2) -> dict:
    """Write the python version of CIFAR-10, two images of each class per batch."""
    draws = np.random.default_rng(1)
    folder.mkdir(parents=True)
    made = {}
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        x = draws.integers(0, 256, (20, 3072), dtype=np.uint8)
        y = [i % 10 for i in range(20)]
        (folder / name).write_bytes(pickle.dumps({b"data": x, b"labels": y, b"batch_label": b"x"}, protocol))
        made[name] = (x, y)
    return made


def tar_of(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def tar_of_folder(path: Path, folder: Path, prefix: str) -> Path:
    return tar_of(path, {f"{prefix}/{f.name}": f.read_bytes() for f in sorted(folder.iterdir())})


def cifar_package(path: Path) -> tuple[Path, np.ndarray]:
    """Write a small package in the form of the one CIFAR-10 comes in; return it and the training pixels."""
    draws = np.random.default_rng(2)
    members, pixels = {}, []
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        x = draws.integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(x.reshape(20, 1024, 3)).save(buffer, "png")
        members[f"package/{name}.png"] = buffer.getvalue()
        pixels.append(x)
    labels = [i % 10 for i in range(20)]
    members["package/train_lables.json"] = json.dumps(labels * 5).encode()
    members["package/test_lables.json"] = json.dumps(labels).encode()
    members["package/package.json"] = b"{}"
    return tar_of(path, members), np.concatenate(pixels[:5])


def fake_program(folder: Path, name: str, script: str) -> None:
    """Put an executable of that name into `folder`."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    os.chmod(program, 0o755)


def write_class_folders(
    folder: Path, counts: dict[str, int], *, size=(8, 6), mode="RGB", suffix=".png"
) -> None:
    draws = np.random.default_rng(3)
    for name, count in counts.items():
        (folder / name).mkdir(parents=True)
        for i in range(count):
            shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
            pixels = draws.integers(0, 256, shape, dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i:04}{suffix}")
