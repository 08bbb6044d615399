"""Copies of this process that run a command each: importing everything takes longer than the command."""

import contextlib
import hashlib
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

PLACES = {
    "FIRSTLIGHT_RUNS": "runs",
    "FIRSTLIGHT_DATA": "data",
    "FIRSTLIGHT_NETWORKS": "bank",
    "TMPDIR": "tmp",
}
# what no two runs share: when and how fast, from where, and the checksums over that
CHANGING = re.compile(
    r"seconds|finished|environment|^sha256$|commit|cpu_hours|machine|origin|day|date|wall|time", re.ASCII
)


def make_places(root: Path, *outs: str) -> None:
    for name in (*PLACES.values(), *outs):
        (root / name).mkdir(parents=True, exist_ok=True)


def start_copy(root: Path, call: Callable[[], object], said: int, *, out: str = "out") -> int:
    """Fork a copy that runs something with its folders below `root`, and return its number.

    Parameters
    ----------
    root : Path
        Holds the folders of :func:`make_places`.
    call : callable
        What the copy runs; then it ends, with the exit code that a command would have.
    said : int
        Descriptor for what it writes to standard error.
    out : str, default "out"
        Folder below `root` to work in.
    """
    return os.fork() or _become(root, call, said, out)


def _become(root: Path, call: Callable[[], object], said: int, out: str) -> NoReturn:
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(said, 2)
        os.environ |= {name: str(root / place) for name, place in PLACES.items()} | {"FIRSTLIGHT_JOBS": "1"}
        tempfile.tempdir = None
        tempfile.gettempdir()  # Python tries the folder with a file of its own
        os.chdir(root / out)
        call()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)


HANG_SECONDS = 900.0  # several times what a command needs on a busy machine, also if Numba compiles


def waited(process: int) -> int:
    """Exit code of a copy, once it ended; 1000, which is no code of a process, if it hangs."""
    limit = time.monotonic() + HANG_SECONDS
    while True:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > limit:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return 1000
        time.sleep(0.002)


NEWS = re.compile(r"(can be opened; it grows .*|about \d+:\d\d left|nearly done)\.$")
"""What long commands say while nothing is wrong."""


def is_one_line(code: int, said: str) -> bool:
    """Whether a command ended in one line that says what is wrong."""
    lines = [line for line in said.splitlines() if line.strip()]
    said_by_us = [line for line in lines if re.match(r"(firstlight|reproduce): ", line)]
    complaints = [line for line in said_by_us if not NEWS.search(line)]
    return code in (1, 2) and len(complaints) == 1 and complaints == lines[-1:] and "Traceback" not in said


def contents(root: Path) -> dict[str, str]:
    """Every file and empty folder below `root` by name, with a digest of what must not change from run to run."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_dir():
            if path.parent != root and not any(path.iterdir()):
                found[f"{name}/"] = ""
        elif path.suffix == ".json" and not any(part.endswith(".part") for part in path.parts):
            found[name] = json.dumps(_lasting(json.loads(path.read_text())), sort_keys=True)
        elif path.suffix in (".html", ".svg"):
            found[name] = path.read_text().rstrip()[-7:]
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _lasting(value: object) -> object:
    if isinstance(value, dict):
        return {name: _lasting(one) for name, one in value.items() if not CHANGING.search(name)}
    return [_lasting(one) for one in value] if isinstance(value, list) else value


def differences(state: dict[str, str], expected: dict[str, str]) -> str:
    """What is missing or has other contents than it should, in words."""
    differ = [name for name in expected if name[-1] != "/" and state.get(name) != expected[name]]
    return f"{', '.join(differ)} differ" if differ else ""
