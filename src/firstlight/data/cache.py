"""The folder of fetched data sets: one folder each, written whole, checked when read."""

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from firstlight._internal.environment import user_folder
from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight._internal.files import (
    clear_disk_errors,
    locked,
    remove_whole,
    seal_of,
    sha256_of,
    sweep,
    whole_folder,
)
from firstlight._internal.tensor_files import load_tensors, save_tensors
from firstlight._internal.untrusted_files import is_regular, read_json
from firstlight.data.images import ImageData, members_of


@dataclass(frozen=True, eq=False)
class StoredImages:
    """One split of a data set, before any scaling.

    Parameters
    ----------
    x : uint8 Tensor of shape (n, c, h, w)
        Pixels as bytes.
    y : int64 Tensor of shape (n,)
        Class index of every image.
    classes : tuple of str
        One name per class index.
    attributes : mapping of str to uint8 Tensor of shape (n,)
        Other yes/no labels of the same images, by name; only CelebA has any.
    files : tuple of str, default ()
        The file of every image, where each has one of its own.
    is_labelled : bool, default True
        Whether the labels mean anything.
    """

    x: UInt8[Tensor, "n c h w"]
    y: Int64[Tensor, " n"]
    classes: tuple[str, ...]
    attributes: Mapping[str, UInt8[Tensor, " n"]] = field(default_factory=lambda: MappingProxyType({}))
    files: tuple[str, ...] = ()
    positions: Tensor | None = None  # in the split as it is stored, once some were chosen
    is_labelled: bool = True

    def __post_init__(self) -> None:
        if len(self.x) == 0 or len(self.x) != len(self.y):
            raise InvalidInput(
                f"there must be one label per image and at least one image; got {len(self.x)} images and "
                f"{len(self.y)} labels."
            )
        if self.y.min() < 0 or self.y.max() >= len(self.classes):
            raise InvalidInput(
                f"labels must lie in 0 .. {len(self.classes) - 1}; "
                f"got {int(self.y.min())} .. {int(self.y.max())}. Is this a copy of another data set?"
            )

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> "StoredImages":
        """The images at `index`, in that order."""
        return dataclasses.replace(
            self,
            x=self.x[index],
            y=self.y[index],
            attributes={name: values[index] for name, values in self.attributes.items()},
            files=tuple(self.files[i] for i in index.tolist()) if self.files else (),
            positions=index if self.positions is None else self.positions[index],
        )

    def only(self, names: tuple[str, ...]) -> "StoredImages":
        """Keep the named classes, or relabel by one attribute."""
        if len(names) == 1 and names[0] in self.attributes:
            name = names[0]
            return StoredImages(self.x, self.attributes[name].long(), (f"not {name}", name))
        keep, y = members_of(self.y, self.classes, names)
        return dataclasses.replace(self.take(keep), y=y, classes=names)

    def decoded(self) -> "StoredImages":
        """Return the images themselves: nothing is left to be read."""
        return self

    def image_data(self, meta: dict[str, Any]) -> ImageData:
        """Scale to [0, 1]."""
        notes = {**meta, "n": len(self)} if self.is_labelled else {**meta, "n": len(self), "labelled": False}
        return ImageData(self.x.float().div_(255), self.y, self.classes, notes, self.files, self.positions)


Splits: TypeAlias = dict[str, StoredImages]


def stored_images(
    x: np.ndarray, y: np.ndarray, classes: tuple[str, ...], *, order: str = "n c h w"
) -> StoredImages:
    """Build from NumPy bytes whose axes come in another order, such as ``"n h w c"`` or ``"n h w"``."""
    axes = order.split()
    if "c" not in axes:
        x, axes = x[..., None], [*axes, "c"]
    pixels = np.ascontiguousarray(x.transpose([axes.index(axis) for axis in "nchw"]))
    if not pixels.flags.writeable:
        pixels = pixels.copy()
    return StoredImages(torch.from_numpy(pixels), torch.from_numpy(y.astype(np.int64)), classes)


MANIFEST = "manifest.json"
FORMAT = 2
_verified: set[tuple[str, int, int, str]] = set()


def cache_folder() -> Path:
    """Where data sets are kept: `FIRSTLIGHT_DATA`, else the user's cache folder."""
    return user_folder("FIRSTLIGHT_DATA", leaf="data")


def is_cached(name: str) -> bool:
    """Whether a whole copy of the data set lies in the cache."""
    with _reading(name):
        return _has_manifest(name)


def _has_manifest(name: str) -> bool:
    return is_regular(cache_folder() / name / MANIFEST)


def demand_writable_cache() -> None:
    """Fail before a long download, not after it, if the result could not be kept."""
    root = cache_folder()
    with clear_disk_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        sweep(root)
        with tempfile.TemporaryFile(dir=root):
            pass


def write_cache(name: str, splits: Mapping[str, StoredImages], *, origin: str, replace: bool = False) -> Path:
    """Write all splits and their checksums, whole or not at all; return the folder.

    A copy that is there is replaced only if `replace` says so, and while nobody reads it.
    """
    demand_writable_cache()
    target = cache_folder() / name
    # the lock is taken once all is written, and held until the folder has its name
    with contextlib.ExitStack() as writing, whole_folder(target) as folder:
        files = {}
        for split, images in splits.items():
            file = folder / f"{split}.safetensors"
            tensors = {"x": images.x, "y": images.y}
            tensors |= {f"attribute/{k}": v for k, v in images.attributes.items()}
            save_tensors(file, tensors, {"classes": json.dumps(images.classes)})
            files[file.name] = {"sha256": sha256_of(file), "n": len(images)}
        body: dict[str, Any] = {"format": FORMAT, "name": name, "origin": origin, "files": files}
        body["sha256"] = seal_of(body)
        (folder / MANIFEST).write_text(json.dumps(body, indent=1))
        writing.enter_context(locked(target))
        if replace or not _has_manifest(name):
            remove_whole(target.resolve())  # a link stays
    return target


def read_cache(name: str, split: str) -> StoredImages:
    """Read one split after checking that not a bit has changed since it was written."""
    with _reading(name):
        file = cache_folder() / name / f"{split}.safetensors"
        files = manifest(name)["files"]
        if file.name not in files:
            raise InvalidInput(f"The copy of {name} in the cache has no split {split!r}.")
        with _telling_damage(name):
            _verify(file, files[file.name]["sha256"])
            content = load_tensors(file)
            tensors, classes = content.tensors, tuple(json.loads(content.words["classes"]))
            attributes = {k.partition("/")[2]: v for k, v in tensors.items() if k.startswith("attribute/")}
            return StoredImages(tensors["x"], tensors["y"].to(torch.int64), classes, attributes)


def manifest(name: str) -> dict[str, Any]:
    """What was written beside a cached data set: its files, their checksums and where they came from."""
    with _reading(name), _telling_damage(name):
        body: dict[str, Any] = read_json(cache_folder() / name / MANIFEST)
        if not isinstance(body.get("files"), dict):
            raise ValueError(f"{MANIFEST} lists no files")
        # copies of the first versions have neither; one flipped bit cannot hide both
        if "format" in body or "sha256" in body:
            sealed = body.pop("sha256", None)
            if sealed != seal_of(body):
                raise ValueError(f"{MANIFEST} was changed after it was written")
        if body.get("name") != name:
            raise ValueError(f"it is a copy of {body.get('name')!r} under another name")
        return body


def remove_cached(name: str) -> bool:
    """Delete a data set from the cache; False if there was none."""
    target = cache_folder() / name
    if not target.is_dir():
        return False
    with locked(target):
        remove_whole(target)
    return True


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """Keep writers out while a copy is read. Where the cache is read-only nobody writes, and nothing is locked."""
    with contextlib.ExitStack() as held:
        if cache_folder().is_dir():
            with contextlib.suppress(StoreProblem, OSError):
                held.enter_context(locked(cache_folder() / name, shared=True))
        yield


@contextlib.contextmanager
def _telling_damage(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error).rstrip(".")
        raise StoreProblem(
            f"The cached data set {name!r} is damaged ({reason}). It was not used; remove it with "
            f"`firstlight data rm {name}` (folder {cache_folder() / name}) and get it again."
        ) from error


def _verify(file: Path, sha256: str) -> None:
    """Hash a file once per process and state of the file."""
    stat = file.stat()
    state = (str(file), stat.st_size, stat.st_mtime_ns, sha256)
    if state not in _verified:
        if sha256_of(file) != sha256:
            raise ValueError(f"{file.name} was changed after it was written")
        _verified.add(state)
