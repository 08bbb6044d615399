"""Files that are written completely or not at all."""

import errno
import hashlib
import json
import math
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from io import BufferedWriter
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # there are no such locks on this system
    fcntl = None  # type: ignore[assignment]

from firstlight._internal.errors import StoreProblem
from firstlight._internal.processes import repeating
from firstlight._internal.untrusted_files import demand_regular

_KINDS = {
    stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket",
}  # fmt: skip
_REASONS = {
    errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up", errno.EACCES: "permission denied",
    errno.EPERM: "permission denied", errno.EROFS: "the file system is read-only",
    errno.EEXIST: "a file of that name is in the way", errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.ELOOP: "it is a link that leads in a circle",
}  # fmt: skip
WAIT_SECONDS = 0.1  # between two looks at a lock that somebody holds
SIGN_SECONDS = 2.0  # between two signs of life of its holder
OLD_SECONDS = 86_400.0  # without a change: of another machine, or of this one before its last start
_LOCK = ".firstlight.lock"
_OWNER = re.compile(r"firstlight-([0-9a-f]{6})-(\d{1,9})-[0-9a-f]{8}")


def sha256_of(path: Path) -> str:
    """SHA-256 of a regular file's bytes, read in blocks."""
    with demand_regular(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal_of(body: Mapping[str, Any]) -> str:
    """Checksum of a JSON object, equal for equal objects, to be kept beside it."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def clear_disk_errors(path: Path) -> Iterator[None]:
    """Turn a full disk or a lack of permission into one sentence that names the path."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0)
        if reason is None:
            raise
        raise StoreProblem(
            f"Cannot write {path}: {reason}. Free some space or choose another folder; "
            "what was finished before is kept."
        ) from error


def file_to_write(path: Path, kind: str = "a file") -> Path:
    """Follow links to the file that `path` stands for, and refuse whatever is there but is of another kind.

    A rename over a device, a FIFO or a socket would destroy it: as root, even ``/dev/null``.
    """
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    with clear_disk_errors(path):
        try:
            found = _KINDS.get(stat.S_IFMT(target.stat().st_mode), "something else")
        except (FileNotFoundError, NotADirectoryError):
            return target  # one look: what others write may go between two
    if found != kind:
        wanted = kind.replace("file", "regular file")
        raise StoreProblem(f"Cannot write {path}: it is {found}, not {wanted}. Choose another name.")
    return target


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; rename it to `path` only if the block succeeds.

    A link stays, and the file it leads to is replaced. Whatever is no regular file is refused.
    """
    with _part_of(path, "a file") as part:
        yield part
        flush(part)
        part.replace(file_to_write(path))


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; rename it only if the block succeeds and `path` is free or empty.

    If another process finished the same folder meanwhile, its folder stays and ours is dropped. A link stays,
    and the folder it leads to is made; whatever else is no folder is refused.
    """
    with _part_of(path, "a folder") as part:
        part.mkdir()
        yield part
        for file in (*part.rglob("*"), part):
            flush(file)
        try:
            part.rename(file_to_write(path, "a folder"))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


@contextmanager
def _part_of(path: Path, kind: str) -> Iterator[Path]:
    """Yield a name beside `path` of which nothing remains; flush the folder once the block has renamed it."""
    with clear_disk_errors(path):
        folder = file_to_write(path, kind).parent
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        part = folder / f".{_owned()}.part"
        try:
            yield part
            flush(folder)
        finally:
            _remove(part)


def remove_whole(path: Path) -> None:
    """Remove a folder or a file if it is there: nobody finds a half of it under its name."""
    part = path.with_name(f".{_owned()}.part")
    with clear_disk_errors(path), suppress(FileNotFoundError):
        path.rename(part)
        _remove(part)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, *, shared: bool = False, patience: float = math.inf) -> Iterator[None]:
    """Hold a lock on the name of a file or folder; the lock vanishes with the process, however that ends.

    Parameters
    ----------
    path : Path
        What is locked, there or not. The last holder removes the lock file beside it; what a killed one leaves,
        :func:`sweep` or the next holder does.
    shared : bool, default False
        Let others hold the lock too, as readers do; only a holder that shares nothing keeps them out.
    patience : float, default infinity
        Take the place of a holder that gave no sign of life for so many seconds: one that was stopped, or whose machine
        hangs. Only for work that two may do at once without harm. A holder gives signs if its own patience ends.
    """
    if fcntl is None:  # the last writer finds the folder taken and yields
        yield  # type: ignore[unreachable]
        return
    lock = path.with_name(f".{path.name}{_LOCK}")
    sweep(lock.parent)
    while True:
        with clear_disk_errors(lock):
            file = file_to_write(lock).open("ab")
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        if not _is_taken(file, kind, patience) and _is_at(file, lock):
            lock.unlink(missing_ok=True)  # the silent holder keeps its file, and we make another of this name
        if _is_at(file, lock):
            break
        file.close()  # swept away while we waited: others hold another file of this name
    # signs of life come from a thread, which stops when the process is stopped
    signs = repeating(partial(os.utime, file.fileno()), SIGN_SECONDS)
    with file, signs if patience < math.inf else nullcontext():
        try:
            yield
        finally:
            _remove_lock(file, lock)


def _is_taken(file: BufferedWriter, kind: int, patience: float) -> bool:
    """Wait for a lock; give up when the time of its file has not changed for too long by our own clock."""
    seen, since = -1, 0.0
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if (changed := os.fstat(file.fileno()).st_mtime_ns) != seen:
                seen, since = changed, time.monotonic()
            elif time.monotonic() - since > patience:
                return False
            time.sleep(WAIT_SECONDS)


def _is_at(file: BufferedWriter, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a temporary folder that goes with the block; what killed processes left of theirs goes first."""
    sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=f"{_owned()}-") as name:
        yield Path(name)


_swept: set[Path] = set()


def sweep(folder: Path) -> None:
    """Remove what killed processes left in a folder, not below, at the first time that this process asks.

    These are locks that nobody holds, and entries that have a name of :func:`_owned`, once that process no longer runs
    on this machine or nothing in them has changed for a day. What bears another name, or is another user's, is not
    ours.
    """
    if folder in _swept:
        return
    _swept.add(folder)
    for path in folder.glob("*firstlight*"):
        with suppress(OSError):  # another process sweeps too, or the folder is read-only
            owner = _OWNER.search(path.name)
            if hasattr(os, "getuid") and path.lstat().st_uid != os.getuid():
                continue
            if path.name.endswith(_LOCK) and fcntl is not None:
                with path.open("ab") as file:
                    _remove_lock(file, path)
            elif owner and (_is_gone(owner[1], int(owner[2])) or time.time() - _changed(path) > OLD_SECONDS):
                _remove(path)


def _owned() -> str:
    """A name that nobody else uses, and that says whose it is."""
    return f"firstlight-{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"


@cache
def _machine() -> str:
    """Six digits for this machine since its start, and for this set of processes: containers share folders only."""
    facts = [platform.node()]
    with suppress(OSError):
        facts += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")]
    return hashlib.sha256(" ".join(facts).encode()).hexdigest()[:6]


def _is_gone(machine: str, process: int) -> bool:
    if machine != _machine() or os.name == "nt":  # asking for a process would end it there
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def _changed(path: Path) -> float:
    """When anything in an entry changed last."""
    return max(entry.lstat().st_mtime for entry in (path, *path.rglob("*")))


def _remove_lock(file: BufferedWriter, path: Path) -> None:
    """Remove a lock file unless others hold it; who waits for it notices, and makes a new one."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(file, path):  # not that of a process which took the place of a silent one
            path.unlink()


def flush(path: Path) -> None:
    """Make sure that bytes reach the disk before their name does, and a name before anyone is told of it."""
    if os.name == "nt" and path.is_dir():  # folders cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():  # some network file systems refuse folders
            raise
    finally:
        os.close(descriptor)
