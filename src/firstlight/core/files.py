"""Files that are written completely or not at all."""

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firstlight.core.errors import StoreProblem

BLOCK = 1 << 20


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def clear_disk_errors(path: Path) -> Iterator[None]:
    """Turn a full disk or a lack of permission into one sentence that names the path."""
    try:
        yield
    except OSError as error:
        reason = {
            errno.ENOSPC: "the disk is full",
            errno.EDQUOT: "the disk quota is used up",
            errno.EACCES: "permission denied",
            errno.EPERM: "permission denied",
            errno.EROFS: "the file system is read-only",
            errno.EEXIST: "a file of that name is in the way",
            errno.ENOTDIR: "a part of the path is a file, not a folder",
        }.get(error.errno or 0)
        if reason is None:
            raise
        raise StoreProblem(
            f"Cannot write {path}: {reason}. Free some space or choose another folder; "
            "what was finished before is kept."
        ) from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; rename it to `path` only if the block succeeds.

    The file gets the permissions that any new file gets: some writers make theirs readable by the owner only.
    """
    with clear_disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = _beside(path)
        part.touch(exist_ok=False)
        mode = stat.S_IMODE(part.stat().st_mode)
        try:
            yield part
            part.chmod(mode)
            _flush(part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; rename it only if the block succeeds and `path` is free.

    If another process finished the same folder meanwhile, its folder stays and ours is dropped. Files in it
    get the permissions that any new file gets.
    """
    with clear_disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = _beside(path)
        part.mkdir()
        mode = stat.S_IMODE(part.stat().st_mode)
        try:
            yield part
            for file in part.iterdir():
                if file.is_file():
                    file.chmod(mode & 0o666)
                _flush(file)
            if not path.exists():
                part.rename(path)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")


def _flush(path: Path) -> None:
    """Make sure that the bytes reach the disk before the name does."""
    if path.is_file():
        with path.open("rb") as file:
            os.fsync(file.fileno())
