"""Read thousands of damaged files and all lies; exit 1 if one ends in a traceback, silence, a hang or memory.

`python -m fuzz [--mutants 2000] [--seed 0] [--jobs 2]`, with `tests` on the path; `make fuzz` does it.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

from fuzz.judge import FAULTS, HARMLESS, REFUSED, UNNOTICED, Outcome, judge_all, mutants
from fuzz.lies import lies

ENDINGS = (REFUSED, HARMLESS, UNNOTICED, *FAULTS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--mutants", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    given = parser.parse_args()
    torch.set_num_threads(1)  # a fork of a process with threads would wait for them for ever
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        tempfile.tempdir = folder
        os.environ["FIRSTLIGHT_RUNS"] = f"{folder}/runs"
        damaged = mutants(given.mutants, given.seed, Path(folder) / "originals")
        outcomes = list(judge_all(damaged, n_jobs=given.jobs))
        print(f"{len(outcomes)} mutants, seed {given.seed}")
        print_table(outcomes)
        told = list(judge_all(lies(Path(folder) / "lies"), n_jobs=given.jobs))
        print(f"\n{len(told)} lies")
        print_table(told)
    faults = [one for one in outcomes + told if one.ending in FAULTS]
    for one in faults:
        print(f"\n{one.ending}: {one.group}, {one.name}\n{one.words}")
    return 1 if faults else 0


def print_table(outcomes: list[Outcome]) -> None:
    """Count endings by format."""
    groups = dict.fromkeys(one.group for one in outcomes)
    width = max(len(group) for group in groups)
    print(" " * width, *(f"{ending:>10}" for ending in ENDINGS))
    for group in [*groups, "all"]:
        tally = Counter(one.ending for one in outcomes if group in (one.group, "all"))
        print(f"{group:{width}}", *(f"{tally[ending]:10}" for ending in ENDINGS))


if __name__ == "__main__":
    sys.exit(main())
