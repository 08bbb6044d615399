"""Run folders: what was computed, from what, at what cost. Content-addressed and written whole."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from firstlight._internal.cluster.cluster_worker import hand_over, is_worker, leave_to_client, runs_folder
from firstlight._internal.devices import chosen_device
from firstlight._internal.environment import code_commit, environment
from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight._internal.executor import cpu_seconds, credit_cpu
from firstlight._internal.files import (
    clear_disk_errors,
    locked,
    remove_whole,
    seal_of,
    sha256_of,
    sweep,
    whole_folder,
)
from firstlight._internal.store.encoding import decode, encode
from firstlight._internal.store.index import ARRAYS, RUN, read_body, run_ids
from firstlight._internal.tensor_files import load_tensors, save_tensors
from firstlight._internal.untrusted_files import guarded
from firstlight._internal.version import __version__

PATIENCE = 60.0
"""Seconds without a sign of life after which the work of another process is done again."""


def _device() -> str:
    device = chosen_device()
    return "cpu" if device is None else device.type


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What decides a run's result, and therefore its name.

    Parameters
    ----------
    what : str
        The kind of run, such as ``"train"`` or ``"study:first_layer/seeds"``.
    config : dict of str to object
        Every setting, as plain values.
    data : str, default ''
        Fingerprint of the data, empty if the run makes its own.
    version : str
        Of firstlight, by default this one: another version may compute other numbers.
    device : str
        Kind of device it computes on; by default the one of ``firstlight.computing_on``, else "cpu". A run of
        another device has other last bits, and therefore another name.
    """

    what: str
    config: dict[str, Any]
    data: str = ""
    version: str = field(default_factory=lambda: __version__)
    device: str = field(default_factory=_device)

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits, equal for equal specifications."""
        body = {
            "what": self.what, "config": encode(self.config)[0], "data": self.data, "version": self.version,
        }  # fmt: skip
        if self.device != "cpu":
            body["device"] = self.device
        return seal_of(body)[:16]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run as read from disk."""

    id: str
    folder: Path
    spec: RunSpec
    result: Any
    wall_seconds: float
    cpu_seconds: float
    commit: str
    environment: dict[str, Any] = field(repr=False)
    finished: str


class Store:
    """A folder of runs.

    Parameters
    ----------
    root : Path, optional
        Where the run folders lie; by default `FIRSTLIGHT_RUNS`, else the user's cache folder.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or runs_folder()
        sweep(self.root / ".scratch")
        for scratch in (self.root / ".scratch").glob("[0-9a-f]" * 16):
            if (self.root / scratch.name).exists():  # its process was killed when all was written
                shutil.rmtree(scratch, ignore_errors=True)

    def __reduce__(self) -> tuple[Callable[[Path, bool], "Store"], tuple[Path, bool]]:
        return _received, (self.root, self.root == runs_folder())

    def __contains__(self, spec: RunSpec) -> bool:
        return (self.root / spec.id).exists()

    def fetch_or_run(self, spec: RunSpec, compute: Callable[[Path], Any]) -> Run:
        """Return the stored run of `spec`, or compute, store and return it.

        `compute` gets a scratch folder that outlives a killed process: whatever checkpoint lies there
        is found again by the next call with the same specification. Two processes with the same
        specification take turns; one that is silent for a minute loses its turn, for the other would wait forever.
        """
        if spec in self:
            return self._reused(spec.id)
        leave_to_client(spec.id)
        scratch = self.root / ".scratch" / spec.id
        with clear_disk_errors(scratch):
            scratch.mkdir(parents=True, exist_ok=True)
        with locked(scratch, patience=PATIENCE):
            if spec not in self:
                wall, cpu = time.perf_counter(), cpu_seconds()
                with _new_account():
                    result = compute(scratch)
                self.write(
                    spec, result, wall_seconds=time.perf_counter() - wall, cpu_seconds=cpu_seconds() - cpu
                )
            shutil.rmtree(scratch, ignore_errors=True)
        hand_over(self.root / spec.id)
        return self.load(spec.id)

    def _reused(self, id: str) -> Run:
        """Load a finished run and add its cost to the computation that asks for it, once."""
        run = self.load(id)
        hand_over(self.root / id)
        if id not in _credited:
            _credited.add(id)
            credit_cpu(run.cpu_seconds)
        return run

    def write(self, spec: RunSpec, result: Any, *, wall_seconds: float, cpu_seconds: float) -> None:
        """Write one run folder, whole or not at all."""
        tree, arrays = encode(result)
        with whole_folder(self.root / spec.id) as folder:
            save_tensors(folder / ARRAYS, arrays)
            body = {
                "id": spec.id,
                "what": spec.what,
                "config": encode(spec.config)[0],
                "data": spec.data,
                "version": spec.version,
                "result": tree,
                "arrays_sha256": sha256_of(folder / ARRAYS),
                "wall_seconds": round(wall_seconds, 3),
                "cpu_seconds": round(cpu_seconds, 3),
                "commit": code_commit(),
                "environment": {**environment(), "device": spec.device},
                "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            }
            body["sha256"] = seal_of(body)
            # ASCII only: names of files may hold bytes that are no text
            (folder / RUN).write_text(json.dumps(body, indent=1), encoding="utf-8")

    def load(self, id: str) -> Run:
        """Read one run and check that not a bit has changed since it was written."""
        folder = self.root / id
        if not folder.is_dir():
            raise InvalidInput(f"No run {id!r} in {self.root}. `firstlight runs list` shows all.")
        try:
            body = read_body(folder)
            with guarded(folder / RUN, "a run"):
                if sha256_of(folder / ARRAYS) != body["arrays_sha256"]:
                    raise ValueError(f"{ARRAYS} was changed after it was written")
                return _run(folder, body, load_tensors(folder / ARRAYS).tensors)
        except StoreProblem as error:
            raise StoreProblem(
                f"Run {id} cannot be read: {error}. Use the version that wrote it, or remove it "
                f"with `firstlight runs rm {id}`."
            ) from error
        except InvalidInput as error:
            reason = str(error).rstrip(".")
            raise StoreProblem(
                f"Run {id} is damaged ({reason}). It was not used; remove it with `firstlight runs rm {id}`."
            ) from error

    def ids(self) -> list[str]:
        """Names of all run folders, newest first, damaged ones included."""
        return run_ids(self.root)

    def find(self, prefix: str) -> str:
        """Complete the beginning of a run's name."""
        matching = [id for id in self.ids() if id.startswith(prefix)] if prefix else []
        if len(matching) != 1:
            what = f"{len(matching)} runs begin" if matching else "No run begins"
            raise InvalidInput(f"{what} with {prefix!r}. `firstlight runs list` shows all.")
        return matching[0]

    def remove(self, prefix: str) -> str:
        """Delete one run folder and return its full name."""
        id = self.find(prefix)
        remove_whole(self.root / id)
        return id


def _received(root: Path, is_usual: bool) -> Store:
    """Open a store that came from another process; a worker of a cluster has its own usual folder."""
    return Store(None if is_usual and is_worker() else root)


def _run(folder: Path, body: dict[str, Any], arrays: dict[str, Tensor]) -> Run:
    """Put together what `run.json` and the arrays say; values of another type are refused with TypeError."""
    config = decode(body["config"], {})
    device = body["environment"].get("device", "cpu")  # runs from before there was a choice
    version = body.get("version", "0.1.0")  # runs from before it was part of the name
    spec = RunSpec(what=body["what"], config=config, data=body["data"], version=version, device=device)
    run = Run(
        id=folder.name,
        folder=folder,
        spec=spec,
        result=decode(body["result"], arrays),
        wall_seconds=float(body["wall_seconds"]),
        cpu_seconds=float(body["cpu_seconds"]),
        commit=body["commit"],
        environment=body["environment"],
        finished=body["finished"],
    )
    for text in (spec.what, spec.data, spec.version, spec.device, run.commit, run.finished):
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is where a word should be")
    return run


_credited: set[str] = set()


@contextmanager
def _new_account() -> Iterator[None]:
    """Let a computation count each run it reuses once, whatever was reused before it."""
    before = set(_credited)
    _credited.clear()
    try:
        yield
    finally:
        _credited.update(before)
