"""Disturb commands in every way; exit 1 if anything is lost, hangs or is left behind.

`python -m crash [--sample N] [--seconds 300] [--faults 20] [--seed 0] [--only calls,memory,...]`,
with `tests` on the path, as `make crash` does it:

- calls: every call that touches a file fails once, in six ways (`every_call.py`)
- memory: the address space is limited to little more than a command needs at rest (`little_memory.py`)
- at-once: eight processes on one store, cache and bank, half of which are killed (`eight_at_once.py`)
- stops: SIGTERM and Ctrl-C end a command in one line, with what it had so far (`stops.py`)
- cluster: schedulers, workers and clients are lost under a command that uses them (`lost_machines.py`)
- soak: a Gram matrix and an ensemble on workers that are killed again and again (`cluster_soak.py`)
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from crash.cluster_soak import soak
from crash.lost_machines import FAULTS, lose_machines
from crash.stops import COMMANDS, ask_to_stop

KINDS = ("calls", "memory", "at-once", "stops", "cluster", "soak")


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash", description=__doc__)
    parser.add_argument("--sample", type=int, help="cases of each command for `calls`; by default all")
    parser.add_argument("--seconds", type=float, default=300.0, help="length of `at-once`")
    parser.add_argument("--faults", type=int, default=20, help="times each fault of a cluster is tried")
    parser.add_argument("--images", type=int, default=20_000, help="size of the Gram matrix of `soak`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(KINDS), help="some of the kinds, with commas")
    given = parser.parse_args()
    wanted = given.only.split(",")
    if unknown := set(wanted) - set(KINDS):
        parser.error(f"--only takes {', '.join(KINDS)}; got {', '.join(sorted(unknown))}")
    failed = False
    # these fork, which only a process of their own without threads may do: a copy would wait for them for ever
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    sample = [] if given.sample is None else ["--sample", str(given.sample)]
    for kind, words in (
        ("calls", ["crash.every_call", "--seed", str(given.seed), *sample]),
        ("memory", ["crash.little_memory"]),
        ("at-once", ["crash.eight_at_once", str(given.seconds), str(given.seed)]),
    ):
        if kind in wanted:
            failed |= subprocess.run([sys.executable, "-m", *words], env=alone).returncode != 0
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        if "stops" in wanted:
            for name in COMMANDS:
                faults += ask_to_stop(name, random.Random(f"{given.seed} {name}"), Path(folder) / name)
        if "cluster" in wanted:
            faults += lose_machines(list(FAULTS), given.faults, given.seed, Path(folder) / "cluster")
        if "soak" in wanted:
            faults += soak(given.images, Path(folder) / "soak")
    return 1 if failed or faults else 0


if __name__ == "__main__":
    sys.exit(main())
