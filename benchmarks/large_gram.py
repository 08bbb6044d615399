"""A kernel machine whose matrix exceeds the memory, end to end: tiles, solution, predictions.

Usage: python benchmarks/large_gram.py [--n 50000] [--folder FOLDER] [--cluster ADDRESS]

Prints the time of every part and the peak memory of this process with its children. The images are random sinusoids
in two classes, 8 x 8 pixels; 50 000 of them make a matrix of 10 GB in float32, of which half is stored.
"""

import argparse
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import torch

from firstlight.core.parallel import on_cluster
from firstlight.kernels import ConvKernel, TiledGram, gram

KERNEL = ConvKernel(depth=2, size=3)
SIDE, BLOCK = 8, 512


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


@contextmanager
def measured(what: str):
    start = time.perf_counter()
    yield
    print(f"{what:28s} {time.perf_counter() - start:8.1f} s", flush=True)


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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=50_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--cluster")
    parser.add_argument("--ridge", type=float, default=1e-3)
    args = parser.parse_args()
    memory = Memory()
    memory.start()
    x, y = images(args.n, 0)
    x_test, y_test = images(1000, 1)
    targets = torch.nn.functional.one_hot(y, 2).double() - 0.5
    with tempfile.TemporaryDirectory() as scratch, on_cluster(args.cluster):
        folder = args.folder or Path(scratch)
        with measured("tiles"):
            tiles = TiledGram.of(x, kernel=KERNEL, folder=folder)
        disk = sum(file.stat().st_size for file in folder.iterdir())
        with measured("one product"):
            tiles @ targets
        with measured("solution"):
            alpha = tiles.solve(targets, args.ridge)
        with measured("1000 predictions"):
            outputs = torch.cat(
                [
                    gram(x_test[i : i + BLOCK], x, kernel=KERNEL, show=False) @ alpha
                    for i in range(0, len(x_test), BLOCK)
                ]
            )
        residual = tiles @ alpha + args.ridge * alpha - targets
    accuracy = (outputs.argmax(1) == y_test).float().mean()
    print(
        f"n = {args.n}: {disk / 1e9:.2f} GB of tiles, relative residual {residual.norm() / targets.norm():.1e}, "
        f"accuracy {accuracy:.1%}, peak memory {memory.peak / 1e9:.2f} GB"
    )


if __name__ == "__main__":
    main()
