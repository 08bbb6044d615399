"""How a reading ends, found out in processes of their own: with a limit of time, and their memory measured."""

import contextlib
import multiprocessing
import os
import random
import resource
import shutil
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

REFUSED, HARMLESS, UNNOTICED = "refused", "harmless", "unnoticed"
TRACEBACK, SILENT, HANG, MEMORY = "traceback", "silent", "hang", "memory"
FAULTS = (TRACEBACK, SILENT, HANG, MEMORY)
"""What must never occur. `UNNOTICED` is the same as `SILENT` in a format that has no checksum."""

HANG_SECONDS = 60.0
EXTRA_BYTES = 512 << 20  # beyond what a process had before; the originals have kilobytes
ADDRESS_SPACE = 8 << 30  # protects this machine; a reader that meets it is at fault


@dataclass(frozen=True, kw_only=True)
class Case:
    """One file or folder to read.

    Parameters
    ----------
    group : str
        Format, under which it is counted.
    name : str
        What was done, for the report.
    prepare : callable
        Puts the files into an empty folder.
    read : callable
        Reads the folder, and returns a digest.
    expected : str
        Digest of the intact files; empty if nothing but a refusal will do.
    otherwise : str, default 'silent'
        Name of another result: `SILENT`, or `UNNOTICED` for a format without a checksum.
    """

    group: str
    name: str
    prepare: Callable[[Path], object]
    read: Callable[[Path], str]
    expected: str
    otherwise: str = SILENT


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the reading of one case ended, with the words of the error if there was one."""

    group: str
    name: str
    ending: str
    words: str = ""


def judge(case: Case) -> Outcome:
    """Read one case in this process."""
    from firstlight._internal.errors import FirstlightError

    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    before = _start_measuring()
    try:
        case.prepare(folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read = case.read(folder)
        ending, words = (HARMLESS, "") if read == case.expected else (case.otherwise, f"read as {read}")
    except FirstlightError as error:
        words = str(error)
        ending = REFUSED if "\n" not in words and len(words) < 1500 else TRACEBACK
        if _ran_out_of_memory(error):
            ending = MEMORY  # refused only because this process has a limit
    except Exception:
        ending, words = TRACEBACK, traceback.format_exc()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if (used := _peak() - before) > EXTRA_BYTES:
        ending, words = MEMORY, f"{used >> 20} MB: {words}"
    return Outcome(group=case.group, name=case.name, ending=ending, words=words)


def _ran_out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        # NumPy reserves an array before it fills it: what is never filled takes no memory
        if (
            isinstance(error, MemoryError)
            and "numpy" not in traceback.extract_tb(error.__traceback__)[-1].filename
        ):
            return True
        if "can't allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _start_measuring() -> int:
    """Forget the peak of the past, where the system lets one; return what is in use."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) << 10
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


# ---------------------------------------------------------------- processes


def judge_all(cases: Sequence[Case], *, n_jobs: int, hang_seconds: float = HANG_SECONDS) -> Iterator[Outcome]:
    """Judge all cases in processes; one that hangs or dies is replaced, and its case counted."""
    # forked, so that the cases and what they need are there already
    context = multiprocessing.get_context("fork")
    waiting = list(range(len(cases)))[::-1]
    workers = [_Worker(context, cases) for _ in range(n_jobs)]
    try:
        while waiting or any(worker.case is not None for worker in workers):
            for worker in workers:
                if worker.case is None and waiting:
                    worker.start(waiting.pop())
            busy = {worker.pipe: worker for worker in workers if worker.case is not None}
            for pipe in wait(list(busy), timeout=1.0):
                yield busy[pipe].outcome(cases)
            for i, worker in enumerate(workers):
                if worker.is_late(hang_seconds):
                    case = cases[worker.end()]
                    yield Outcome(
                        group=case.group, name=case.name, ending=HANG, words=f"over {hang_seconds:.0f} s"
                    )
                if not worker.process.is_alive():
                    workers[i] = _Worker(context, cases)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


class _Worker:
    """A process that judges one case after the other."""

    def __init__(self, context: Any, cases: Sequence[Case]) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, cases), daemon=True)
        self.process.start()
        theirs.close()
        self.case: int | None = None
        self.since = 0.0

    def start(self, case: int) -> None:
        self.case, self.since = case, time.monotonic()
        self.pipe.send(case)

    def outcome(self, cases: Sequence[Case]) -> Outcome:
        assert self.case is not None
        case, self.case = cases[self.case], None
        try:
            outcome: Outcome = self.pipe.recv()
        except EOFError:
            self.process.join()
            words = f"the process ended with {self.process.exitcode}"
            outcome = Outcome(group=case.group, name=case.name, ending=TRACEBACK, words=words)
        return outcome

    def is_late(self, seconds: float) -> bool:
        return self.case is not None and time.monotonic() - self.since > seconds

    def end(self) -> int:
        self.process.kill()
        self.process.join()
        assert self.case is not None
        case, self.case = self.case, None
        return case


def _work(pipe: Connection, cases: Sequence[Case]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    os.setsid()
    while True:
        pipe.send(judge(cases[pipe.recv()]))


# ---------------------------------------------------------------- mutants


def mutants(n: int, seed: int, originals: Path) -> list[Case]:
    """Draw `n` damaged copies, in turn of every format; the intact files are written below `originals`."""
    from fuzz.mutations import mutate_folder
    from fuzz.originals import BARE, KINDS, OURS

    cases = []
    digests = {}
    for name, kind in KINDS.items():
        (originals / name).mkdir(parents=True)
        kind.write(originals / name)
        digests[name] = kind.read(_copy(originals / name, originals / "read" / name))
        assert kind.read(_copy(originals / name, originals / "again" / name)) == digests[name], name
    names = list(KINDS)
    for i in range(n):
        name = names[i % len(names)]
        kind = KINDS[name]

        def prepare(folder: Path, name: str = name, i: int = i, ours: bool = kind.protection == OURS) -> None:
            _copy(originals / name, folder)
            mutate_folder(folder, random.Random(f"{seed} {i}"), files_too=ours)

        cases.append(
            Case(
                group=name,
                name=f"mutant {i}",
                prepare=prepare,
                read=kind.read,
                expected=digests[name],
                otherwise=UNNOTICED if kind.protection == BARE else SILENT,
            )
        )
    return cases


def _copy(source: Path, target: Path) -> Path:
    return Path(shutil.copytree(source, target, dirs_exist_ok=True))
