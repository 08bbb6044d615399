"""A list of all runs: from the index, and from the folders one by one.

`python benchmarks/runs_list.py [RUNS]`; 2000 runs by default. CPU seconds in this process, and of the whole command.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from firstlight._internal.errors import FirstlightError
from firstlight._internal.store import RunSpec, Store
from firstlight._internal.store.index import listed_runs


def write(root: Path, n: int) -> None:
    store = Store(root)
    os.fsync = lambda descriptor: (
        None
    )  # thousands of them would take minutes; nothing here must outlive a power cut
    for number in range(n):
        spec = RunSpec(what="study:first_layer/consistency", config={"n": number})
        store.write(spec, {"x": torch.ones(200)}, wall_seconds=1.0, cpu_seconds=2.0)


def from_folders(root: Path) -> int:
    store, intact = Store(root), 0
    for id in store.ids():
        try:
            store.load(id)
            intact += 1
        except FirstlightError:
            continue
    return intact


def cpu_of(function, root: Path) -> float:
    start = time.process_time()
    function(root)
    return time.process_time() - start


def cpu_of_command(root: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "FIRSTLIGHT_RUNS": str(root)}
    command = [sys.executable, "-m", "firstlight", "runs", "list"]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write(root, n)
        slow = cpu_of(from_folders, root)
        fast = cpu_of(listed_runs, root)
        print(f"A list of {n} runs, CPU seconds")
        print(f"  every folder read      {slow:8.2f}")
        print(f"  `run.json` alone       {fast:8.2f}   {slow / fast:5.1f} x faster")
        print(f"  `firstlight runs list` {cpu_of_command(root):8.2f}   start of the command included")


if __name__ == "__main__":
    main()
