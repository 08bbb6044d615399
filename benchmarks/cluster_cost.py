"""What a cluster costs: task times measured on one core, put into a model, and the model checked on 1 and 2 workers.

Usage: python benchmarks/cluster_cost.py          the table of docs/many-machines.md
       python benchmarks/cluster_cost.py --check  the model beside a real matrix on 1 and 2 workers; needs two cores

The check fails (exit code 1) if a measured time is more than 20 % off the model. On a machine that is busy with other
work times by the clock mean nothing: it then says so, compares the CPU time of the tasks, and exits with 2.

Time with w workers = data / bandwidth + max(ceil(N / w) t, N c) + s. N tasks of t CPU seconds each; c is what the
client and the scheduler spend on a task one after another: overhead, and receiving its outcome; s is what the client
does alone, such as a decomposition. Task times are CPU seconds, so a busy machine changes them little.
"""

import argparse
import math
import os
import sys
import time
from dataclasses import dataclass

import psutil
import torch

from firstlight._internal.executor import cpu_seconds, map_tasks, on_cluster, single_thread
from firstlight.data import ImageData
from firstlight.kernels import ConvKernel, RidgePath
from firstlight.kernels.gradients import _Task
from firstlight.kernels.gram import part_values
from firstlight.kernels.prepared_images import KernelPlan
from firstlight.models import ModelSpec
from firstlight.training import Recipe, train_once

KERNEL = ConvKernel(depth=3, size=3)
BANDWIDTH = 1e8  # bytes a second: gigabit Ethernet
WORKERS = (1, 8, 64)
TOLERANCE = 0.2  # by which a measured time may differ from the model


@dataclass(frozen=True)
class Job:
    """A job as the model sees it; `task` and `alone` in seconds, `data` and `outcome` in bytes."""

    name: str
    tasks: int
    task: float
    data: float = 0.0
    outcome: float = 0.0
    alone: float = 0.0

    def seconds(self, workers: int, overhead: float) -> float:
        serial = self.tasks * (overhead + self.outcome / BANDWIDTH)
        return self.data / BANDWIDTH + max(math.ceil(self.tasks / workers) * self.task, serial) + self.alone


def random_images(n: int) -> torch.Tensor:
    return torch.rand(n, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def cpu(function, *args) -> float:
    with single_thread():
        start = time.process_time()
        function(*args)
        return time.process_time() - start


def pair_seconds(n: int = 256) -> float:
    """CPU seconds for one pair of CIFAR-sized images."""
    x = random_images(n)
    compute = lambda x: part_values((0, 0), x=x, z=x, kernel=KERNEL, metric=None, dtype=torch.float32, part=n)  # noqa: E731
    compute(x[:64])  # compiles
    return cpu(compute, x) / n**2


def gradient_seconds(n: int = 256) -> tuple[int, float]:
    """Points of a task, and CPU seconds for one centre and one point."""
    x = random_images(n)
    task = _Task(KernelPlan.of(KERNEL, x, None), x, x, torch.rand(n, 10), torch.float32, False)
    task.outer_products(n - 32)
    return task.width, cpu(task.outer_products, 0) / (n * task.width)


def network_seconds(n: int = 500) -> float:
    """CPU seconds for one image and one epoch of the small network."""
    data = ImageData(x=random_images(n), y=torch.arange(n) % 10, classes=tuple("0123456789"), meta={})
    spec = ModelSpec(name="small", classes=10, shape=data.shape)
    train = lambda epochs: train_once(spec, data, Recipe(epochs=epochs), show=False)  # noqa: E731
    return (cpu(train, 3) - cpu(train, 1)) / (2 * n)


def decomposition_seconds(n: int = 1200) -> float:
    """CPU seconds for the decomposition of a matrix, over n³."""
    matrix = torch.rand(n, n, dtype=torch.float64)
    return cpu(RidgePath.of, matrix @ matrix.T, torch.rand(n, 10)) / n**3


def jobs(pair: float, gradient: tuple[int, float], network: float, decomposition: float) -> list[Job]:
    side, n = 1024, 50_000
    tiles = math.ceil(n / side) * (math.ceil(n / side) + 1) // 2
    image = 4 * 3 * 32 * 32
    fit, choose = 8000, 2000
    width, slope = gradient
    kernels = math.ceil(fit / 256) * (math.ceil(fit / 256) + 1) // 2 + math.ceil(fit / 256) * math.ceil(
        choose / 256
    )
    return [
        Job(
            "Gram matrix, n = 50 000", tiles, side**2 * pair, data=n * image, outcome=4 * side**2
        ),
        Job(
            "ConvRFM round, kernels, n = 10 000",
            kernels,
            256**2 * pair,
            data=(fit + choose) * image,
            outcome=8 * 256**2,
            alone=fit**3 * decomposition,
        ),
        Job("ConvRFM round, gradients at 8 000", math.ceil(fit / width), fit * width * slope, outcome=6e3),
        Job(
            "100 networks, 5 000 images, 20 epochs",
            100,
            5000 * 20 * network,
            data=5000 * image,
            outcome=2e6,
        ),
    ]  # fmt: skip


def overhead_seconds(n: int = 300) -> float:
    """CPU seconds that the client and the scheduler spend on an empty task; with `local:N` both are this process."""
    map_tasks(abs, range(20), label="", show=False)
    start = time.process_time()
    map_tasks(abs, range(n), label="", show=False)
    return (time.process_time() - start) / n


def check(pair: float) -> int:
    """Time a real matrix on 1 and 2 workers beside the model; return the exit code."""
    x, side, n = random_images(1536), 256, 20
    compute = Part(x, side)
    idle = is_idle()
    off = []
    for workers in (1, 2):
        with on_cluster(f"local:{workers}"):
            map_tasks(compute, [(0, 0)] * (2 * workers), label="", show=False)  # compiles on every worker
            overhead = overhead_seconds()
            blocks = [(i, j) for i in range(0, len(x), side) for j in range(i, len(x), side)][:n]
            others, start = cpu_seconds() - time.process_time(), time.perf_counter()
            map_tasks(compute, blocks, label="", show=False)
            wall, spent = time.perf_counter() - start, cpu_seconds() - time.process_time() - others
        model = Job("", n, side**2 * pair, outcome=8 * side**2).seconds(workers, overhead)
        measured = wall if idle else spent / workers
        off.append(abs(measured / model - 1))
        print(
            f"{workers} workers: overhead {1e3 * overhead:.1f} ms a task; model {model:.1f} s, measured {wall:.1f} s, "
            f"of which each worker had {spent / workers:.1f} s of CPU time; {off[-1]:.0%} off"
        )
    if not idle:
        print(
            "This machine is busy: CPU times were compared, which leave out waiting. Run it again on an idle one."
        )
        return 2
    return 1 if max(off) > TOLERANCE else 0


def is_idle() -> bool:
    """Whether other work leaves two cores free, by a second of watching."""
    return os.cpu_count() * (1 - psutil.cpu_percent(interval=1.0) / 100) > 1.8


class Part:
    """A picklable task."""

    def __init__(self, x: torch.Tensor, side: int) -> None:
        self.x, self.side = x, side

    def __call__(self, block):
        part_values(
            block, x=self.x, z=self.x, kernel=KERNEL, metric=None, dtype=torch.float32, part=self.side
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    pair, gradient = pair_seconds(), gradient_seconds()
    print(
        f"pair of images {1e6 * pair:.2f} us; centre and point {1e6 * gradient[1]:.2f} us (tasks of {gradient[0]})"
    )
    if args.check:
        sys.exit(check(pair))
    network, decomposition = network_seconds(), decomposition_seconds()
    print(f"image of an epoch {1e3 * network:.3f} ms; decomposition {1e9 * decomposition:.2f} ns n³")
    with on_cluster("local:1"):
        overhead = overhead_seconds()
    print(f"overhead {1e3 * overhead:.2f} ms a task")
    for job in jobs(pair, gradient, network, decomposition):
        times = "  ".join(f"{workers}: {job.seconds(workers, overhead):9.0f} s" for workers in WORKERS)
        print(f"{job.name:40s} {job.tasks:5d} tasks of {job.task:7.1f} s  {times}")


if __name__ == "__main__":
    main()
