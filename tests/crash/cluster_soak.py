"""A Gram matrix in tiles and an ensemble of 30 networks on two workers that are killed again and again.

One worker is lost every 30 seconds, the scheduler once and the client once. The client is given again when it ends in
one line. Tiles and networks must have the bits of an undisturbed run.
"""

import time
from pathlib import Path

from crash.lost_machines import Cluster
from crash.place import Place, differences, told
from machines import end

EVERY = 30.0  # seconds between two losses of a worker; a quarter of the whole if that is shorter
PROGRAM = """
import hashlib, sys
from pathlib import Path
import torch
from firstlight._internal.executor import on_cluster
from firstlight.cli.main import main
from firstlight.kernels import ConvKernel, TiledGram
address, n = sys.argv[1], int(sys.argv[2])
images = torch.rand(n, 1, 5, 5, generator=torch.Generator().manual_seed(0))
with on_cluster(address):
    TiledGram.of(images, kernel=ConvKernel(depth=2), folder=Path("tiles"), side=512)
digest = hashlib.sha256()
for file in sorted(path for path in Path("tiles").rglob("*") if path.is_file()):
    digest.update(file.read_bytes())
Path("tiles.csv").write_text(digest.hexdigest())
words = "train --n 64 --epochs 20 --networks 30 --output w.safetensors --cluster"
sys.argv = ["firstlight", *words.split(), address]
main()
"""


def soak(n: int, folder: Path) -> list[str]:
    """Run with a Gram matrix of n images, undisturbed and disturbed; return what differs."""
    cluster = Cluster(folder / "machines")
    try:
        quiet, place = Place(folder / "quiet"), Place(folder / "disturbed")
        start = time.monotonic()
        _run(quiet, cluster, n, every=float("inf"), seconds=float("inf"))
        seconds = time.monotonic() - start
        cluster.close()
        cluster = Cluster(folder / "other machines")  # which have none of the networks
        start = time.monotonic()
        lost = _run(place, cluster, n, every=min(EVERY, seconds / 4), seconds=seconds)
        place.faults += differences(place.results(), quiet.results())
        place.look_for_leftovers()
        times = (time.monotonic() - start) / seconds
        print(
            f"soak: n = {n}, {lost} workers, a scheduler and a client lost, {times:.1f} times the {seconds:.0f} s "
            f"of an undisturbed run, {len(place.faults)} faults",
            flush=True,
        )
        return told("soak", place.faults)
    finally:
        cluster.close()


def _run(place: Place, cluster: Cluster, n: int, *, every: float, seconds: float) -> int:
    """Give the command until it ends well, and return how many workers were killed under it."""
    start = last = time.monotonic()
    lost = 0
    others = {"scheduler": 0.35 * seconds, "client": 0.7 * seconds}  # when each is killed, once
    process = place.start(f"{cluster.address} {n}", program=PROGRAM)
    while process.poll() != 0:
        if process.poll() is not None:  # killed, or in one line because the scheduler is gone
            said = process.communicate()[1]
            if "Traceback" in said or time.monotonic() - start > 20 * seconds + 600:
                place.faults.append(f"ended with {process.returncode}: {said!r}")
                return lost
            cluster.mend()
            process = place.start(f"{cluster.address} {n}", program=PROGRAM)
        for name in [name for name, due in others.items() if time.monotonic() - start > due]:
            del others[name]
            if name == "client":
                process.kill()
            elif cluster.machines is not None:
                end(cluster.machines.scheduler)
        if time.monotonic() - last > every:
            end(cluster.workers[lost % 2])
            lost, last = lost + 1, time.monotonic()
            cluster.mend()
        time.sleep(0.1)
    return lost
