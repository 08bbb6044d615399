"""The folder of fetched data sets: one folder each, written whole, checked when read."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from firstlight._internal.environment import user_folder
from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight._internal.files import (
    clear_disk_errors,
    flush,
    locked,
    seal_of,
    sha256_of,
    sweep,
    whole_folder,
)
from firstlight._internal.tensor_files import load_tensors, save_tensors
from firstlight._internal.untrusted_files import is_regular, read_json
from firstlight.data.stored import StoredImages

MANIFEST = "manifest.json"
FORMAT = 2
_verified: set[tuple[str, int, int, str]] = set()


def cache_folder() -> Path:
    """Where data sets are kept: `FIRSTLIGHT_DATA`, else the user's cache folder."""
    return user_folder("FIRSTLIGHT_DATA", leaf="data")


def is_cached(name: str) -> bool:
    """Whether a whole copy of the data set lies in the cache."""
    with _reading(name):
        return _is_there(name)


def _is_there(name: str) -> bool:
    return is_regular(cache_folder() / name / MANIFEST)


def demand_writable_cache() -> None:
    """Fail before a long download, not after it, if the result could not be kept."""
    root = cache_folder()
    with clear_disk_errors(root):
        if root.exists() and not root.is_dir():
            raise StoreProblem(
                f"The data folder {root} is a file. Remove it, or set FIRSTLIGHT_DATA to a folder."
            )
        root.mkdir(parents=True, exist_ok=True)
        sweep(root, [".*.part", ".*.old", ".*.lock"])
        with tempfile.TemporaryFile(dir=root):
            pass


def write_cache(name: str, splits: Mapping[str, StoredImages], *, origin: str, replace: bool = False) -> Path:
    """Write all splits and their checksums, whole or not at all; return the folder.

    A copy that is there is replaced only if `replace` says so, and while nobody reads it.
    """
    demand_writable_cache()
    target = cache_folder() / name
    # the lock is taken within the block and held until the folder has its name
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
        for file in folder.iterdir():  # what takes long happens before the others have to wait
            flush(file)
        writing.enter_context(locked(_lock(name)))
        if replace or not _is_there(name):
            _drop(target.resolve())  # a link stays
    return target


def read_cache(name: str, split: str) -> StoredImages:
    """Read one split after checking that not a bit has changed since it was written."""
    with _reading(name):
        return _read(name, split)


def _read(name: str, split: str) -> StoredImages:
    folder = cache_folder() / name
    try:
        file = folder / f"{split}.safetensors"
        expected = _manifest(name)["files"].get(file.name)
        if expected is None:
            raise _NoSplit(f"The copy of {name} in the cache has no split {split!r}.")
        _verify(file, expected["sha256"])
        content = load_tensors(file)
        tensors, classes = content.tensors, tuple(json.loads(content.words["classes"]))
        attributes = {k.partition("/")[2]: v for k, v in tensors.items() if k.startswith("attribute/")}
        return StoredImages(tensors["x"], tensors["y"].to(torch.int64), classes, attributes)
    except _NoSplit:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(name, error) from error


class _NoSplit(InvalidInput):
    """The copy is whole, but what is asked for is no part of it."""


def manifest(name: str) -> dict[str, Any]:
    """What was written beside a cached data set: its files, their checksums and where they came from."""
    with _reading(name):
        return _manifest(name)


def _manifest(name: str) -> dict[str, Any]:
    try:
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
    except (OSError, ValueError, AttributeError) as error:
        raise _damaged(name, error) from error
    return body


def remove_cached(name: str) -> bool:
    """Delete a data set from the cache; False if there was none."""
    target = cache_folder() / name
    if not target.is_dir():
        return False
    with locked(_lock(name)):
        _drop(target)
    return True


def _lock(name: str) -> Path:
    return cache_folder() / f".{name}.lock"


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """Keep writers out while a copy is read. Where the cache is read-only nobody writes, and nothing is locked."""
    with contextlib.ExitStack() as held:
        if cache_folder().is_dir():
            with contextlib.suppress(StoreProblem, OSError):
                held.enter_context(locked(_lock(name), shared=True))
        yield


def _damaged(name: str, error: Exception) -> StoreProblem:
    reason = str(error).rstrip(".")
    return StoreProblem(
        f"The cached data set {name!r} is damaged ({reason}). It was not used; remove it with "
        f"`firstlight data rm {name}` (folder {cache_folder() / name}) and get it again."
    )


def _verify(file: Path, sha256: str) -> None:
    """Hash a file once per process and state of the file."""
    stat = file.stat()
    state = (str(file), stat.st_size, stat.st_mtime_ns, sha256)
    if state not in _verified:
        if sha256_of(file) != sha256:
            raise ValueError(f"{file.name} was changed after it was written")
        _verified.add(state)


def _drop(folder: Path) -> None:
    # renamed first: a process that is killed here leaves the whole folder or none
    if not folder.exists():
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".old", dir=folder.parent))
    with clear_disk_errors(folder), contextlib.suppress(FileNotFoundError):
        folder.rename(aside / folder.name)
    shutil.rmtree(aside, ignore_errors=True)
