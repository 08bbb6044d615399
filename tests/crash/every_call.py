"""Each command with every single call that touches its files failing in turn, as SQLite is tested.

A library below Python (`failing_calls.c`) counts the calls by which a command opens, writes, renames, removes, locks or
maps files in its folders. For every n the command is run with the n-th call failing with each of four errors, and with
the process killed just before and just after it. It must end well or in one line; given again without a fault, it must
leave the same files with the same bits as if nothing had happened, and no others.

One process imports everything and forks a copy for each run: importing takes longer than all the rest. Many cases leave
the same files with the same bits; from each such state the command is given again once.
"""

import contextlib
import ctypes
import errno
import gc
import importlib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import warm
from crash.copies import contents, differences, is_one_line, make_places, start_copy, waited
from crash.tiny_commands import COMMANDS, PLANTED, Command, prepare
from firstlight._internal import files
from firstlight._internal.cluster.cluster_worker import facts
from firstlight._internal.environment import code_commit

SOURCE = Path(__file__).with_name("failing_calls.c")
FAIL, KILL_BEFORE, KILL_AFTER = range(3)
FAULTS = {
    "ENOSPC": (FAIL, errno.ENOSPC),
    "EIO": (FAIL, errno.EIO),
    "EACCES": (FAIL, errno.EACCES),
    "EINTR": (FAIL, errno.EINTR),
    "killed before": (KILL_BEFORE, 0),
    "killed after": (KILL_AFTER, 0),
}
OWNER = re.compile(r"firstlight-[0-9a-f]{6}-\d+-[0-9a-f]{8}(-\w+)?")


def compiled(folder: Path) -> Path:
    """The library that makes calls fail, built by the compiler of this machine."""
    library = folder / "failing_calls.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return library


@dataclass
class Ended:
    """How one run ended, and which calls it made."""

    code: int
    said: str
    calls: list[str]


@dataclass
class Tally:
    """What was tried with one command, and what went wrong."""

    calls: int = 0
    cases: int = 0
    states: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Bench:
    """A folder in which one command is run again and again, from the same state."""

    def __init__(self, command: Command, folder: Path, library: Path) -> None:
        self.command, self.folder = command, folder
        self.shim = ctypes.CDLL(str(library))
        self.root, self.template = folder / "root", folder / "template"
        make_places(self.template, "out")
        self.reset()
        self.run(lambda: prepare(command, self.root / "out"))
        shutil.rmtree(self.template)
        self.root.rename(self.template)
        self.before = contents(self.template)
        self.reset()
        self.check(self.run(self._tell_imports))
        for name in (folder / "imported").read_text().split():
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        gc.collect(), gc.freeze()
        self.reset()
        self.calls = self.check(self.run(command.call)).calls
        self.expected = contents(self.root)
        self.faults_again: dict[str, list[str]] = {}  # by the state that a case left

    def _tell_imports(self) -> None:
        """Run the command and write down what it imported, which the copies to come need not do again."""
        before = set(sys.modules)
        try:
            self.command.call()
        finally:
            (self.folder / "imported").write_text("\n".join(sorted(set(sys.modules) - before)))

    def check(self, ended: Ended) -> Ended:
        if ended.code:
            raise RuntimeError(f"{self.command.name} ended with {ended.code} without a fault: {ended.said}")
        return ended

    def reset(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.template, self.root, symlinks=True)

    def run(self, call: Callable[[], object], *, n: int = 0, how: int = FAIL, error: int = 0) -> Ended:
        """Run something in a forked copy of this process, which counts its calls from the first one on."""
        with (self.folder / "said").open("w+") as said, (self.folder / "calls").open("w+") as calls:

            def counted() -> None:
                self.shim.arm(str(self.root).encode(), ctypes.c_long(n), how, error, calls.fileno())
                call()

            code = waited(start_copy(self.root, counted, said.fileno()))
            said.seek(0), calls.seek(0)
            return Ended(code, said.read(), calls.read().splitlines())

    def try_fault(self, name: str, n: int) -> tuple[str, list[str]]:
        """Run with one fault, and again without; how it ended, and what should not be."""
        how, error = FAULTS[name]
        self.reset()
        ended = self.run(self.command.call, n=n, how=how, error=error)
        what = ended.calls[n - 1] if len(ended.calls) >= n else "never reached"
        faults = []
        if how == FAIL and not (ended.code == 0 or is_one_line(ended.code, ended.said)):
            faults.append(f"ended with {ended.code}: {ended.said!r}")
        if how != FAIL and ended.code != -signal.SIGKILL:
            faults.append(f"was not killed, ended with {ended.code}: {ended.said!r}")
        state = contents(self.root)
        expected = self.expected
        if self.command.may_skip(ended.said):  # a run that is not kept, or a figure
            expected = {
                name: digest for name, digest in expected.items() if not re.search(r"^runs/|svg$", name)
            }
        if ended.code == 0 and (missing := differences(state, expected)):
            faults.append(f"reported success, but {missing}")
        outcome = "killed" if how != FAIL else "one line" if ended.code else "success"
        if state != self.expected and state != self.before:
            # the names of temporary files differ from run to run
            left = sorted((OWNER.sub("firstlight", name), digest) for name, digest in state.items())
            key = repr((left, expected == self.expected))
            if key not in self.faults_again:
                self.faults_again[key] = self._give_again(expected)
            faults += self.faults_again[key]
        return outcome, [f"{name} at call {what}: {fault}" for fault in faults]

    def _give_again(self, expected: dict[str, str]) -> list[str]:
        """Run without a fault on what is there, and say what is wrong afterwards."""
        again, faults = self.run(self.command.call), []
        state = contents(self.root)
        refuses = is_one_line(again.code, again.said) and self.command.refuses(again.said)
        if again.code and not refuses:
            faults.append(f"given again, ended with {again.code}: {again.said!r}")
        if missing := differences(state, expected):
            faults.append(f"given again, {missing} (said {again.said!r})")
        if left := self._left_for_good(state):
            faults.append(f"left behind: {', '.join(left)}")
        return faults

    def _left_for_good(self, state: dict[str, str]) -> list[str]:
        """What nobody removes, not even the next command that writes into the same folder."""
        usual = {*self.expected, *self.before}
        if unusual := set(state) - usual:
            places = {(self.root / name).parent for name in unusual} | {
                self.root / "runs",
                self.root / "data",
            }
            self.run(lambda: [files.sweep(place) for place in places])
        return sorted(set(contents(self.root)) - usual) if unusual else []


def enumerate_calls(
    names: list[str], *, sample: int | None, seed: int, first: int = 1, last: int | None = None
) -> list[str]:
    """Try every case of every command from one call to another, or `sample` of each; return what is wrong."""
    faults, library = [], Path(os.environ["LD_PRELOAD"])
    for name in names:
        command = {**COMMANDS, "planted": PLANTED}[name]
        with tempfile.TemporaryDirectory(prefix="crash-") as folder, command.surroundings():
            spent = _children_seconds()
            bench, tally = Bench(command, Path(folder).resolve(), library), Tally()
            tally.calls, tally.cases = len(bench.calls), len(bench.calls) * len(FAULTS)
            calls = range(first, 1 + min(last or tally.calls, tally.calls))
            cases = [(fault, n) for n in calls for fault in FAULTS]
            if sample is not None and sample < len(cases):
                cases = random.Random(f"{seed} {name}").sample(cases, sample)
            for fault, n in cases:
                outcome, wrong = bench.try_fault(fault, n)
                tally.outcomes[outcome] += 1
                tally.faults += wrong
            tally.states = len(bench.faults_again)
            ways = ", ".join(f"{count} {outcome}" for outcome, count in sorted(tally.outcomes.items()))
            print(
                f"{name}: {tally.calls} calls, {len(cases)} of {tally.cases} cases: {ways}; given again in "
                f"{tally.states} states; {len(tally.faults)} faults ({_children_seconds() - spent:.0f} CPU s)",
                flush=True,
            )
            for fault in tally.faults:
                print(f"{name}: {fault}", flush=True)
            faults += tally.faults
    return faults


def _children_seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def main() -> int:
    """Run in a process that has the library preloaded, and everything imported."""
    import argparse

    parser = argparse.ArgumentParser(prog="crash.every_call", description=__doc__)
    parser.add_argument("--sample", type=int, help="cases of each command, drawn at random; by default all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(COMMANDS), help="commands, with commas")
    parser.add_argument("--first", type=int, default=1, help="call to begin with; so a long run is divided")
    parser.add_argument("--last", type=int, help="call to end with; by default the last")
    parser.add_argument("--planted", action="store_true", help="only see that a planted fault is found")
    given = parser.parse_args()
    if "LD_PRELOAD" not in os.environ:
        with tempfile.TemporaryDirectory(prefix="crash-") as folder:
            variables = {
                "LD_PRELOAD": str(compiled(Path(folder))),
                "OMP_NUM_THREADS": "1",
            }  # none to be forked
            command = [sys.executable, "-m", "crash.every_call", *sys.argv[1:]]
            return subprocess.run(command, env={**os.environ, **variables}).returncode
    warm.import_all()
    code_commit(), facts()  # asks git, and reads the source, once
    if given.planted:
        return 0 if enumerate_calls(["planted"], sample=None, seed=0) else 1
    options = {name: getattr(given, name) for name in ("sample", "seed", "first", "last")}
    return 1 if enumerate_calls(given.only.split(","), **options) else 0


if __name__ == "__main__":
    sys.exit(main())
