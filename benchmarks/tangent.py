"""SGD on kept derivatives beside SGD through the linearised network: CPU seconds of one thread, turn by turn.

PYTHONPATH=. python benchmarks/tangent.py [--n 2000] [--width 1] [--turns 5]
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from firstlight._internal.environment import processor
from firstlight.models import build, linearize
from reproduce.studies.linearized.tangent_features import tangent_features

BATCH = 32


def steps(
    model: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor, count: int
) -> Callable[[], None]:
    """Minibatch steps with momentum, as the studies take them."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)

    def run() -> None:
        for step in range(count):
            chosen = torch.arange(step * BATCH, (step + 1) * BATCH) % len(inputs)
            loss = (model(inputs[chosen]) - targets[chosen]).square().sum(1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    return run


def cpu_of(job: Callable[[], None]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    job()
    return time.process_time() - start


def main() -> None:
    """Print milliseconds a step of each, their ratio, and the cost of the derivatives in epochs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--width", type=float, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(asked.n, 1, 28, 28, generator=generator)
    targets = torch.randn(asked.n, 10, generator=generator)
    network = build("lenet", classes=10, shape=(1, 28, 28), width=asked.width, seed=0)
    kept = []
    making = cpu_of(lambda: kept.append(tangent_features(network, images, kept_as=torch.float16)))
    numbers = torch.arange(asked.n)[:, None]
    jobs = {
        "network": steps(network, images, targets, asked.steps),
        "linearised": steps(linearize(network), images, targets, asked.steps),
        "kept derivatives": steps(kept[0], numbers, targets, asked.steps),
    }
    for job in jobs.values():
        job()
    times = {name: [] for name in jobs}
    for _ in range(asked.turns):
        for name, job in jobs.items():
            times[name].append(1e3 * cpu_of(job) / asked.steps)
    print(processor())
    for name, values in times.items():
        print(f"{name}: {statistics.median(values):.2f} ms a step ({min(values):.2f} to {max(values):.2f})")
    ratios = [a / b for a, b in zip(times["linearised"], times["kept derivatives"], strict=True)]
    print(f"linearised / kept: {statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})")
    epochs = making / (asked.n / BATCH * statistics.median(times["linearised"]) / 1e3)
    print(
        f"derivatives of {asked.n} images: {making:.1f} s, as {epochs:.1f} epochs of the linearised network"
    )


if __name__ == "__main__":
    main()
