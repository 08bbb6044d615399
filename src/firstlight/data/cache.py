"""The folder of fetched data sets: one folder each, written whole, checked when read."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from firstlight.core.environment import user_folder
from firstlight.core.errors import InvalidInput, StoreProblem
from firstlight.core.files import clear_disk_errors, sha256_of, whole_folder
from firstlight.data.stored import StoredImages

MANIFEST = "manifest.json"
_verified: set[tuple[str, int, int, str]] = set()


def cache_folder() -> Path:
    """Where data sets are kept: `FIRSTLIGHT_DATA`, else the user's cache folder."""
    return user_folder("FIRSTLIGHT_DATA", leaf="data")


def is_cached(name: str) -> bool:
    """Whether a whole copy of the data set lies in the cache."""
    return (cache_folder() / name / MANIFEST).exists()


def demand_writable_cache() -> None:
    """Fail before a long download, not after it, if the result could not be kept."""
    root = cache_folder()
    with clear_disk_errors(root):
        if root.exists() and not root.is_dir():
            raise StoreProblem(
                f"The data folder {root} is a file. Remove it, or set FIRSTLIGHT_DATA to a folder."
            )
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass


def write_cache(name: str, splits: Mapping[str, StoredImages], *, origin: str, replace: bool = False) -> Path:
    """Write all splits and their checksums, whole or not at all; return the folder."""
    demand_writable_cache()
    target = cache_folder() / name
    with whole_folder(target) as folder:
        files = {}
        for split, images in splits.items():
            file = folder / f"{split}.safetensors"
            tensors = {"x": images.x, "y": images.y}
            tensors |= {f"attribute/{k}": v for k, v in images.attributes.items()}
            save_file(tensors, file, metadata={"classes": json.dumps(images.classes)})
            files[file.name] = {"sha256": sha256_of(file), "n": len(images)}
        body = {"name": name, "origin": origin, "files": files}
        (folder / MANIFEST).write_text(json.dumps(body, indent=1))
        if replace or not is_cached(name):
            _drop(target)
    return target


def read_cache(name: str, split: str) -> StoredImages:
    """Read one split after checking that not a bit has changed since it was written."""
    folder = cache_folder() / name
    try:
        file = folder / f"{split}.safetensors"
        expected = manifest(name)["files"].get(file.name)
        if expected is None:
            raise InvalidInput(f"The copy of {name} in the cache has no split {split!r}.")
        _verify(file, expected["sha256"])
        with safe_open(file, framework="pt") as opened:
            tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
            classes = tuple(json.loads(opened.metadata()["classes"]))
        attributes = {k.partition("/")[2]: v for k, v in tensors.items() if k.startswith("attribute/")}
        return StoredImages(tensors["x"], tensors["y"].to(torch.int64), classes, attributes)
    except InvalidInput:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise _damaged(name, error) from error


def manifest(name: str) -> dict[str, Any]:
    """What was written beside a cached data set: its files, their checksums and where they came from."""
    try:
        body: dict[str, Any] = json.loads((cache_folder() / name / MANIFEST).read_text())
        if not isinstance(body.get("files"), dict):
            raise ValueError(f"{MANIFEST} lists no files")
    except (OSError, ValueError, AttributeError) as error:
        raise _damaged(name, error) from error
    return body


def remove_cached(name: str) -> bool:
    """Delete a data set from the cache; False if there was none."""
    target = cache_folder() / name
    if not target.is_dir():
        return False
    _drop(target)
    return True


def _damaged(name: str, error: Exception) -> StoreProblem:
    return StoreProblem(
        f"The cached data set {name!r} is damaged ({error}). It was not used; remove it with "
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
    # renamed first: a reader sees the whole folder or none
    if not folder.exists():
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".old", dir=folder.parent))
    with clear_disk_errors(folder), contextlib.suppress(FileNotFoundError):
        folder.rename(aside / folder.name)
    shutil.rmtree(aside, ignore_errors=True)
