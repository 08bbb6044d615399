"""A Gram matrix in tiles and an ensemble of 30 on two workers that are killed again and again.

One worker is lost every 30 seconds, the scheduler once and the client once. The client is given again when it ends in
one line. Tiles and networks must have the bits of an undisturbed run, and no task may begin again unless it was lost: a
worker takes the task it works on with it, and one whose outcome has not arrived yet; the scheduler and the client
those of both workers.
"""

import time
from collections import Counter
from pathlib import Path

from crash.lost_machines import Cluster
from crash.place import Place, differences, told
from machines import end

EVERY = 30.0  # seconds between two losses of a worker; a quarter of the whole if that is shorter
SIDE = 512
NETWORKS = 30
TASKS = "tasks.txt"  # a line for each task that began on a worker
PROGRAM = f"""
import hashlib, sys
from pathlib import Path
import torch
from firstlight._internal import executor
from firstlight._internal.errors import FirstlightError
from firstlight.cli.main import main
from firstlight.kernels import ConvKernel, TiledGram
address, n = sys.argv[1], int(sys.argv[2])
log = str(Path("../{TASKS}").resolve())
def noted(function, task, report):
    from firstlight._internal.executor import _run_timed  # that of the worker
    with open(log, "a") as file:
        file.write(f"{{hashlib.sha256(repr(task).encode()).hexdigest()}}\\n")
    return _run_timed(function, task, report)
executor._run_timed = noted
images = torch.rand(n, 1, 5, 5, generator=torch.Generator().manual_seed(0))
try:
    with executor.on_cluster(address):
        TiledGram.of(images, kernel=ConvKernel(depth=2), folder=Path("tiles"), side={SIDE})
except FirstlightError as error:
    sys.exit(f"firstlight: {{error}}")
digest = hashlib.sha256()
for file in sorted(path for path in Path("tiles").rglob("*") if path.is_file()):
    digest.update(file.read_bytes())
Path("tiles.csv").write_text(digest.hexdigest())
words = "train --n 64 --epochs 20 --networks {NETWORKS} --output w.safetensors --cluster"
sys.argv = ["firstlight", *words.split(), address]
main()
"""


def soak(n: int, folder: Path) -> list[str]:
    """Run with a Gram matrix of n images, undisturbed and disturbed; return what differs."""
    cluster = Cluster(folder / "machines")
    try:
        quiet, place = Place(folder / "quiet"), Place(folder / "disturbed")
        start = time.monotonic()
        _run(quiet, cluster, n, every=float("inf"), tasks=float("inf"))
        if quiet.faults:
            return told("soak, undisturbed", quiet.faults)
        seconds = time.monotonic() - start
        cluster.close()
        cluster = Cluster(folder / "other machines")  # which have none of the networks
        start = time.monotonic()
        lost = _run(place, cluster, n, every=min(EVERY, seconds / 4), tasks=_begun(quiet).total())
        times = (time.monotonic() - start) / seconds
        place.faults += differences(place.results(), quiet.results())
        place.look_for_leftovers()
        needed, begun = (_begun(one) for one in (quiet, place))
        again = begun.total() - len(begun)
        allowed = 2 * lost["worker"] + 4 * (lost["scheduler"] + lost["client"])
        if begun.keys() != needed.keys() or max(needed.values()) > 1:
            place.faults.append(f"{len(needed)} tasks undisturbed, {len(begun)} disturbed")
        if set(lost) != {"worker", "scheduler", "client"}:
            place.faults.append(f"only {', '.join(lost)} lost")
        if again > allowed:
            place.faults.append(f"{again} tasks began again, where {allowed} may have been lost")
        words = ", ".join(f"{count} times the {name}" for name, count in lost.items())
        print(
            f"soak: n = {n}, {len(needed)} tasks; lost {words}; {again} tasks began again; {times:.1f} times the "
            f"{seconds:.0f} s of an undisturbed run; {len(place.faults)} faults",
            flush=True,
        )
        return told("soak", place.faults)
    finally:
        cluster.close()


def _run(place: Place, cluster: Cluster, n: int, *, every: float, tasks: float) -> Counter[str]:
    """Give the command until it ends well, and return how often what was killed under it.

    A worker goes every so many seconds, the scheduler and the client once that share of the tasks has begun.
    """
    last, given = time.monotonic(), 1
    lost = Counter[str]()
    others = {"scheduler": 0.35 * tasks, "client": 0.7 * tasks}
    process = place.start(f"{cluster.address} {n}", program=PROGRAM)
    while process.poll() != 0:
        if process.poll() is not None:  # killed, or in one line because the scheduler is gone
            said = process.communicate()[1]
            if "Traceback" in said or given > lost.total():
                place.faults.append(f"ended with {process.returncode}: {said!r}")
                return lost
            cluster.mend()
            given += 1
            process = place.start(f"{cluster.address} {n}", program=PROGRAM)
        for name in [name for name, due in others.items() if _begun(place).total() > due]:
            del others[name]
            lost[name] += 1
            if name == "client":
                process.kill()
            elif cluster.machines is not None:
                end(cluster.machines.scheduler)
        if time.monotonic() - last > every:
            end(cluster.workers[lost["worker"] % 2])
            lost["worker"] += 1
            cluster.mend()
            last = time.monotonic()
        time.sleep(0.1)
    return lost


def _begun(place: Place) -> Counter[str]:
    """How often each task began."""
    file = place.root / TASKS
    return Counter(file.read_text().split() if file.exists() else ())
