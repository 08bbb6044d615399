"""A kernel machine whose matrix exceeds the memory, end to end: tiles on disk, conjugate gradients, predictions.

Usage: python benchmarks/gram_50000.py [--n 50000] [--folder FOLDER] [--cluster local:2] [--estimate]

Prints an estimate of its cost first. With a folder of its own it may be stopped at any time: the same command goes on
with the tiles and the coefficients that it finds there, and adds up the CPU time of all starts. The images are noisy
waves in two classes, 8 x 8 pixels; 50 000 of them make a matrix of 10 GB in float32, of which half is stored.
"""

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import torch
from safetensors.torch import load_file, save_file

from firstlight._internal.executor import cpu_seconds, on_cluster, single_thread
from firstlight._internal.files import whole_file
from firstlight._internal.processes import heed_termination
from firstlight.kernels import ConvKernel, TiledGram, kernel_gram
from firstlight.kernels.gram import part_values

KERNEL = ConvKernel(depth=2, size=3)
SIDE, TILE, BLOCK = 8, 512, 256
STEPS = 100  # assumed by the estimate; shorter trials took 40 to 80
KEEP_SECONDS = 60.0  # between two copies of the coefficients so far


def images(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy waves; the class is the direction in which they run."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 2, (n,), generator=generator)
    phase = 6.3 * torch.rand(n, 1, generator=generator)
    grid = torch.arange(SIDE).float()
    wave = torch.sin(grid + phase)
    x = torch.where(
        y[:, None, None] == 0, wave[:, :, None].expand(-1, -1, SIDE), wave[:, None].expand(-1, SIDE, -1)
    )
    return (x + 1.5 * torch.randn(n, SIDE, SIDE, generator=generator))[:, None], y


class Memory(threading.Thread):
    """Watches the memory of this process and its children: pages of their own, so that nothing counts twice."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0

    def run(self) -> None:
        me = psutil.Process()
        while True:
            total = 0
            for process in (me, *me.children(recursive=True)):
                with suppress(psutil.Error):
                    total += process.memory_full_info().uss
            self.peak = max(self.peak, total)
            time.sleep(1.0)


class Account:
    """What every part has cost over all starts, kept beside the tiles."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "account.json"
        self.memory = Memory()
        self.memory.start()
        self.spent: dict[str, float] = json.loads(self.file.read_text()) if self.file.exists() else {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count CPU seconds of this process and its tasks, and print them beside the time by the clock."""
        before, start, clock = self.spent.get(name, 0.0), cpu_seconds(), time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] = before + cpu_seconds() - start
            self.spent["peak bytes"] = max(self.spent.get("peak bytes", 0.0), self.memory.peak)
            with whole_file(self.file) as path:
                path.write_text(json.dumps(self.spent))
            wall = time.perf_counter() - clock
            print(
                f"{name:14s} {self.spent[name]:8.1f} CPU s, this time {wall:.0f} s by the clock", flush=True
            )


def estimate(n: int, columns: int) -> tuple[float, float]:
    """CPU minutes and bytes of disk, from one tile and one product with it."""
    x, _ = images(2 * TILE, 0)
    values = dict(x=x, z=None, kernel=KERNEL, metric=None, dtype=torch.float32, part=TILE)
    with single_thread():
        part_values((0, TILE), **values)  # compiles
        start = time.process_time()
        tile = torch.from_numpy(part_values((0, TILE), **values)).float()
        pairs = time.process_time() - start
        vectors, start = torch.rand(TILE, columns, dtype=torch.float64), time.process_time()
        for _ in range(10):
            wide = tile.double()
            wide @ vectors, wide.T @ vectors
        product = (time.process_time() - start) / 10
    tiles = (n / TILE) * (n / TILE + 1) / 2
    return tiles * (pairs + STEPS * product) / 60, 2.0 * n * (n + TILE)


def solved(tiles: TiledGram, targets: torch.Tensor, ridge: float, folder: Path) -> tuple[torch.Tensor, int]:
    """Coefficients, from those that an earlier start kept, and the steps of this start."""
    file, steps, last = folder / "coefficients.safetensors", 0, time.monotonic()

    def keep(coefficients: torch.Tensor) -> None:
        with whole_file(file) as path:
            save_file({"coefficients": coefficients.contiguous()}, path)

    def listen(coefficients: torch.Tensor) -> None:
        nonlocal steps, last
        steps += 1
        if time.monotonic() - last > KEEP_SECONDS:
            keep(coefficients)
            last = time.monotonic()

    first = load_file(file)["coefficients"] if file.exists() else None
    coefficients = tiles.solve(targets, ridge, first=first, listen=listen)
    keep(coefficients)
    return coefficients, steps


def run(n: int, ridge: float, folder: Path) -> None:
    account = Account(folder)
    x, y = images(n, 0)
    x_test, y_test = images(1000, 1)
    targets = torch.nn.functional.one_hot(y, 2).double() - 0.5
    with account.part("tiles"):
        tiles = TiledGram.of(x, kernel=KERNEL, folder=folder, side=TILE)
    disk = sum(file.stat().st_size for file in folder.glob("part-*"))
    with account.part("solution"):
        alpha, steps = solved(tiles, targets, ridge, folder)
    with account.part("predictions"):
        blocks = [kernel_gram(block, x, kernel=KERNEL, show=False) @ alpha for block in x_test.split(BLOCK)]
    with account.part("one product"):
        residual = tiles @ alpha + ridge * alpha - targets
    accuracy = (torch.cat(blocks).argmax(1) == y_test).float().mean()
    total = sum(seconds for name, seconds in account.spent.items() if name != "peak bytes")
    print(
        f"n = {n}: {disk / 1e9:.2f} GB of tiles, {steps} steps, relative residual "
        f"{residual.norm() / targets.norm():.1e}, accuracy {accuracy:.1%}, {total / 60:.1f} CPU minutes, peak memory "
        f"of all processes {account.spent['peak bytes'] / 1e9:.2f} GB"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=50_000)
    parser.add_argument(
        "--folder", type=Path, help="for the tiles, to go on after a stop; by default temporary"
    )
    parser.add_argument("--cluster", default="local:2")
    parser.add_argument("--ridge", type=float, default=0.1, help="relative to the largest entry")
    parser.add_argument("--estimate", action="store_true", help="print the estimate only")
    args = parser.parse_args()
    minutes, disk = estimate(args.n, columns=2)
    print(
        f"n = {args.n}: about {minutes:.1f} CPU minutes with {STEPS} steps, {disk / 1e9:.2f} GB of disk",
        flush=True,
    )
    if args.estimate:
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        there = sum(file.stat().st_size for file in folder.glob("part-*"))
        if shutil.disk_usage(folder).free < 1.1 * (disk - there):
            sys.exit(
                f"{folder} has too little free space: {disk / 1e9:.1f} GB are needed. Choose another --folder."
            )
        heed_termination()  # as Ctrl-C: what was spent so far is written down
        try:
            with on_cluster(args.cluster):
                run(args.n, args.ridge, folder)
        except KeyboardInterrupt:
            sys.exit("Stopped. With --folder the same command goes on.")


if __name__ == "__main__":
    main()
