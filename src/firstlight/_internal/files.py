"""Files that are written completely or not at all."""

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from io import BufferedWriter
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # there are no such locks on this system
    HAS_LOCKS = False
else:
    HAS_LOCKS = True

from firstlight._internal.errors import StoreProblem
from firstlight._internal.untrusted_files import demand_regular

BLOCK = 1 << 20
_KINDS = {
    stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket",
}  # fmt: skip
_REASONS = {
    errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up", errno.EACCES: "permission denied",
    errno.EPERM: "permission denied", errno.EROFS: "the file system is read-only",
    errno.EEXIST: "a file of that name is in the way", errno.ENOTDIR: "a part of the path is a file, not a folder",
}  # fmt: skip
WAIT_SECONDS = 0.1  # between two looks at a lock that somebody holds
SIGN_SECONDS = 2.0  # between two signs of life of its holder


def sha256_of(path: Path) -> str:
    """SHA-256 of a regular file's bytes, read in blocks."""
    digest = hashlib.sha256()
    with demand_regular(path).open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def canonical_json(value: Any) -> str:
    """JSON that is equal for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def seal_of(body: Mapping[str, Any]) -> str:
    """Checksum of a JSON object, to be kept beside it."""
    return hashlib.sha256(canonical_json(body).encode()).hexdigest()


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


def file_to_write(path: Path) -> Path:
    """Follow links to the file that `path` stands for, and refuse whatever is there but is no regular file.

    A rename over a device, a FIFO or a socket would destroy it: as root, even ``/dev/null``.
    """
    return _to_write(path, "a file")


def _to_write(path: Path, kind: str) -> Path:
    try:
        target = path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError) as error:  # RuntimeError before Python 3.13
        raise StoreProblem(f"Cannot write {path}: it is a link that leads in a circle. Remove it.") from error
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
    """Yield a temporary folder beside `path`; rename it only if the block succeeds and `path` is free.

    If another process finished the same folder meanwhile, its folder stays and ours is dropped. A link stays,
    and the folder it leads to is made; whatever else is no folder is refused.
    """
    with _part_of(path, "a folder") as part:
        part.mkdir()
        yield part
        for file in (*part.rglob("*"), part):
            flush(file)
        if not (target := _to_write(path, "a folder")).exists():
            try:
                part.rename(target)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # someone finished it since we looked
                    raise


@contextmanager
def _part_of(path: Path, kind: str) -> Iterator[Path]:
    """Yield a name beside `path` of which nothing remains; flush the folder once the block has renamed it."""
    with clear_disk_errors(path):
        target = _to_write(path, kind)
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep_once(target.parent)
        part = _beside(target)
        try:
            yield part
            flush(target.parent)
        finally:
            _remove(part)


def _beside(path: Path) -> Path:
    """A name beside `path` that the next command removes if this process cannot."""
    return path.with_name(f".{path.name}.{_owned()}.part")


def remove_whole(path: Path) -> None:
    """Remove a folder or a file if it is there: nobody finds a half of it under its name."""
    part = _beside(path)
    with clear_disk_errors(path), suppress(FileNotFoundError):
        path.rename(part)
        _remove(part)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, *, shared: bool = False, patience: float | None = None) -> Iterator[None]:
    """Hold a lock file; the lock vanishes with the process, however that ends.

    Parameters
    ----------
    path : Path
        The lock file. The last holder removes it; what a killed one leaves, :func:`sweep` or the next holder does.
    shared : bool, default False
        Let others hold the lock too, as readers do; only a holder that shares nothing keeps them out.
    patience : float, optional
        Take the place of a holder that gave no sign of life for so many seconds: one that was stopped, or whose machine
        hangs. Only for work that two may do at once without harm. A holder gives signs if it has patience itself.
    """
    if not HAS_LOCKS:  # the last writer finds the folder taken and yields
        yield
        return
    while True:
        with clear_disk_errors(path):
            file = file_to_write(path).open("ab")
        if patience is None:
            fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        elif not _taken_while_it_lives(file, patience) and _is_at(file, path):
            path.unlink(missing_ok=True)  # the silent holder keeps its file, and we make another of this name
        if _is_at(file, path):
            break
        file.close()  # swept away while we waited: others hold another file of this name
    with file, nullcontext() if patience is None else _signs_of_life(file):
        try:
            yield
        finally:
            _remove_lock(file, path)


def _taken_while_it_lives(file: BufferedWriter, patience: float) -> bool:
    """Wait for a lock; give up when the time of its file has not changed for too long by our own clock."""
    seen, since = -1, time.monotonic()
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            now = os.fstat(file.fileno()).st_mtime_ns
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > patience:
                return False
            time.sleep(WAIT_SECONDS)


@contextmanager
def _signs_of_life(file: BufferedWriter) -> Iterator[None]:
    """Renew the time of a file every other second, from a thread that stops when the process is stopped."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(SIGN_SECONDS):
            with suppress(OSError):
                os.utime(file.fileno())

    thread = threading.Thread(target=renew, daemon=True, name="signs of life")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _is_at(file: BufferedWriter, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a temporary folder that goes with the block; what killed processes left of theirs goes first."""
    _sweep_once(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=f"firstlight-{_owned()}-") as name:
        yield Path(name)


def sweep(folder: Path, patterns: Iterable[str], *, days: float = 1.0) -> None:
    """Remove what killed processes left: entries that fit a pattern, are ours, and are abandoned or old.

    Abandoned is what has the number of a process in its name that no longer runs on this machine.

    Parameters
    ----------
    folder : Path
        Where to look, not below.
    patterns : iterable of str
        Names such as ``".*.part"``. Lock files go unless somebody holds them.
    days : float, default 1.0
        Age of the youngest file in an entry, from which on it is old; infinity spares all that is not abandoned.
    """
    limit = time.time() - 86_400 * days
    for path in [path for pattern in patterns for path in folder.glob(pattern)]:
        try:
            if _is_mine(path) and path.suffix == ".lock" and HAS_LOCKS:
                with path.open("ab") as file:
                    _remove_lock(file, path)
            elif _is_mine(path) and (_is_abandoned(path.name) or _youngest(path) < limit):
                _remove(path)
        except OSError:  # another process sweeps too, or the folder is read-only
            continue


_swept: set[Path] = set()


def _sweep_once(folder: Path) -> None:
    """Remove what is abandoned in a folder, at the first time this process writes to it."""
    if folder not in _swept:
        _swept.add(folder)
        sweep(folder, [".*.part", ".*.lock", "firstlight-*"], days=float("inf"))


def _owned() -> str:
    """A name that nobody else uses, and that says whose it is."""
    return f"{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"


@cache
def _machine() -> str:
    """Six digits for this machine since its start, and for this set of processes: containers share folders only."""
    facts = [platform.node()]
    with suppress(OSError):
        facts += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")]
    return hashlib.sha256(" ".join(facts).encode()).hexdigest()[:6]


def _is_abandoned(name: str) -> bool:
    owner = re.search(r"([0-9a-f]{6})-(\d+)-[0-9a-f]{8}", name)
    if owner is None or owner[1] != _machine() or os.name == "nt":  # asking for a process would end it there
        return False
    try:
        os.kill(int(owner[2]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _is_mine(path: Path) -> bool:
    return not hasattr(os, "getuid") or path.lstat().st_uid == os.getuid()


def _youngest(path: Path) -> float:
    """When anything in an entry changed last."""
    entries = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
    return max(entry.lstat().st_mtime for entry in entries)


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
