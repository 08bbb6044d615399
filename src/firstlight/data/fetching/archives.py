"""Unpacking archives that may be hostile: no member leaves its folder, no links, no devices."""

import errno
import lzma
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Protocol, runtime_checkable

from firstlight._internal.errors import FirstlightError, InvalidInput
from firstlight._internal.files import scratch_folder
from firstlight._internal.progress import Bar, progress
from firstlight._internal.untrusted_files import FAILURES, demand_plausible, is_regular, reason_of

_BLOCK = 1 << 20
_DAMAGE = (tarfile.TarError, lzma.LZMAError)
# what the disk is to blame for; other numbers come from names and offsets in the archive
_DISK = (
    errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE,
)  # fmt: skip


@runtime_checkable
class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


def is_archive(path: Path) -> bool:
    """Whether the file is a tar (plain or compressed) or zip archive by its name; npz is not meant."""
    name = path.name.lower()
    return is_regular(path) and name.endswith((".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip"))


def unpack(archive: Path, folder: Path, *, wanted: Callable[[str], bool] = lambda name: True) -> None:
    """Write the regular files of an archive below `folder`.

    The whole archive is refused if any member, wanted or not, is a link or a device, or has an absolute
    path or one with ``..``: such an archive was not made by the owners of a data set.
    """
    reader = _unpack_zip if archive.name.lower().endswith(".zip") else _unpack_tar
    with progress(f"unpacking {archive.name}", total=float(archive.stat().st_size), unit="bytes") as bar:
        try:
            reader(archive, folder, wanted, bar)
        except FirstlightError:
            raise
        except (*FAILURES, *_DAMAGE) as error:
            if isinstance(error, OSError) and error.errno in _DISK:
                raise
            raise InvalidInput(
                f"The archive {archive} is truncated or damaged ({reason_of(error)}). Get a fresh copy."
            ) from error


@contextmanager
def unpacked(source: Path) -> Iterator[Path]:
    """Yield a folder with the contents of `source`: an archive, a folder, or the folder of a file."""
    if not is_archive(source):
        yield source
        return
    with scratch_folder() as folder:
        unpack(source, folder)
        yield folder


def _unpack_tar(archive: Path, folder: Path, wanted: Callable[[str], bool], bar: Bar) -> None:
    with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r:*") as tar:
        unfolded = 0
        for member in tar:
            unfolded += member.size
            demand_plausible(archive, unfolded)
            if member.isdir():
                _target(folder, member.name, archive)
                continue
            if not member.isfile():
                raise _hostile(archive, member.name, "is a link or a device")
            target = _target(folder, member.name, archive)
            if wanted(member.name):
                content = tar.extractfile(member)
                assert content is not None
                _write(content, target, member.size, archive)
            bar.update(completed=float(raw.tell()))
        _demand_end(tar, archive, unfolded)


def _demand_end(tar: tarfile.TarFile, archive: Path, unfolded: int) -> None:
    """Read on to the end: the checksum of the compression is there, and a damaged header passes for the end."""
    assert tar.fileobj is not None
    tar.fileobj.seek(tar.offset)
    while block := tar.fileobj.read(_BLOCK):
        unfolded += len(block)
        demand_plausible(archive, unfolded)
        if block.strip(b"\0"):
            raise ValueError("its members end before the file does")


def _unpack_zip(archive: Path, folder: Path, wanted: Callable[[str], bool], bar: Bar) -> None:
    with zipfile.ZipFile(archive) as opened:
        demand_plausible(archive, sum(member.file_size for member in opened.infolist()))
        for member in opened.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _hostile(archive, member.filename, "is a link or a device")
            target = _target(folder, member.filename, archive)
            if not member.is_dir() and wanted(member.filename):
                with opened.open(member) as content:
                    _write(content, target, member.file_size, archive)
            bar.advance(float(member.compress_size))


def _target(folder: Path, name: str, archive: Path) -> Path:
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.drive or windows.root or ".." in windows.parts or "\x00" in name:
        raise _hostile(archive, name, "would be written outside its folder")
    return folder.joinpath(*posix.parts)


def _write(content: _Readable, target: Path, size: int, archive: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(target.parent).free
    if size > free:
        raise InvalidInput(
            f"The archive {archive} needs {size / 1e9:.1f} GB for {target.name}, but only "
            f"{free / 1e9:.1f} GB are free. Unpack it on a larger disk and point to the folder."
        )
    with target.open("wb") as file:
        shutil.copyfileobj(content, file, _BLOCK)
    if target.stat().st_size != size:
        raise EOFError(f"{target.name} ends early")


def _hostile(archive: Path, member: str, why: str) -> InvalidInput:
    return InvalidInput(f"The archive {archive} is refused: member {member!r} {why}. Nothing of it is used.")
