"""Kill commands and machines at random moments; exit 1 if anything is lost, hangs or is left behind.

`python -m crash [--kills 20] [--faults 20] [--seed 0] [--only train,identity,...]`, with `tests` on the path, as `make
crash` does it. Each command is killed with SIGKILL and started again until it ends. Its runs and weights must equal, to
the bit, those of a command that nobody killed; no process and no temporary file of it may be left. Then it is asked
to stop by SIGTERM and by Ctrl-C: it must exit with 143 and 130, in one line, with what it had so far. Then a scheduler
and two workers are killed or stopped under a command that uses them; see `crash/lost_machines.py`.
"""

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from crash.kills import COMMANDS, kill_and_stop
from crash.lost_machines import FAULTS, lose_machines


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="kills of each command")
    parser.add_argument(
        "--faults", type=int, help="times that each fault of a cluster is tried; as many as kills"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", default=",".join([*COMMANDS, *FAULTS]), help="commands and faults, with commas"
    )
    given = parser.parse_args()
    wanted = given.only.split(",")
    if unknown := set(wanted) - {*COMMANDS, *FAULTS}:
        parser.error(f"--only takes {', '.join([*COMMANDS, *FAULTS])}; got {', '.join(sorted(unknown))}")
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        for name in [name for name in wanted if name in COMMANDS]:
            rng, place = random.Random(f"{given.seed} {name}"), Path(folder) / name
            faults += kill_and_stop(name, given.kills, rng, place)
            shutil.rmtree(place, ignore_errors=True)
        kinds = [name for name in wanted if name in FAULTS]
        times = given.kills if given.faults is None else given.faults
        if kinds and times:
            faults += lose_machines(kinds, times, given.seed, Path(folder) / "cluster")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
