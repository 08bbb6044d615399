"""What `firstlight.watch` costs: CPU seconds of an epoch with and without it, in turns, one thread.

    python benchmarks/watch_overhead.py [--n 4000] [--turns 5] [--arch small] [--every 50]

Single epochs differ by more than the watcher costs, so the time inside it is given too. The order of the two changes
from turn to turn, so that a machine that grows slower favours neither.
"""

import argparse
import statistics
import time
from dataclasses import dataclass

import torch
from torch.nn import functional as F

import firstlight
from firstlight.data.images import ImageData
from firstlight.models import build


@dataclass
class Epoch:
    """CPU seconds of the set-up, of one epoch and of the watcher in it, and the number of measurements."""

    set_up: float
    seconds: float
    inside: float
    measurements: int


def epoch(train: ImageData, arch: str, *, every: int, watched: bool) -> Epoch:
    """Train for one epoch."""
    model = build(arch, classes=train.n_classes, shape=train.shape, seed=0)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    rows: list[int] = []
    begun = time.process_time()
    watcher = (
        firstlight.watch(model, lambda step, values: rows.append(step), train, every=every)
        if watched
        else None
    )
    ready, inside = time.process_time(), 0.0
    for batch in torch.randperm(len(train), generator=torch.Generator().manual_seed(0)).split(32):
        loss = F.cross_entropy(model(train.x[batch]), train.y[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if watcher is not None:
            before = time.process_time()
            watcher()
            inside += time.process_time() - before
    return Epoch(ready - begun, time.process_time() - ready, inside, len(rows))


def main() -> None:
    """Print the overhead, turn by turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=4000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--every", type=int, default=50, help="1: as often as the budget allows")
    parser.add_argument("--arch", default="small")
    parser.add_argument("--data", default="cifar10")
    given = parser.parse_args()
    torch.set_num_threads(1)
    train = firstlight.load(given.data, split="train", n=given.n, seed=0)
    epoch(train, given.arch, every=given.every, watched=True)
    ratios, shares = [], []
    for turn in range(given.turns):
        order = (False, True) if turn % 2 else (True, False)
        turns = {watched: epoch(train, given.arch, every=given.every, watched=watched) for watched in order}
        alone, with_it = turns[False], turns[True]
        ratios.append(with_it.seconds / alone.seconds - 1)
        shares.append(with_it.inside / (with_it.seconds - with_it.inside))
        print(
            f"turn {turn + 1}: {alone.seconds:.2f} s alone, {ratios[-1]:+.2%} watched, {shares[-1]:.2%} inside the "
            f"watcher, {with_it.measurements} measurements, set-up {with_it.set_up:.2f} s",
            flush=True,
        )
    print(
        f"{given.arch}, {given.n} images: median {statistics.median(ratios):+.2%} by the epoch, "
        f"{statistics.median(shares):.2%} inside the watcher"
    )


if __name__ == "__main__":
    main()
