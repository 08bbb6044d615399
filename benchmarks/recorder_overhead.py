"""What recording costs: the share of an epoch's CPU time inside `AccessibilityRecorder` and `firstlight.watch`.

    python benchmarks/recorder_overhead.py [--n 2000] [--turns 5] [--arch small] [--data photos]

One thread; every turn trains one epoch with each way of recording, and the order changes from turn to turn. Epochs
differ by more than recording costs, so that the time inside the recorder is measured, relative to the rest of the same
epoch. The target is 1 % for whatever runs with every step; `record` runs the network once more over all examples and
is there for comparison.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import firstlight
from firstlight.data.images import ImageData
from firstlight.measures.learning_order.accessibility import AccessibilityRecorder
from firstlight.models import build

Step = Callable[[nn.Module, Tensor, Tensor], None]
End = Callable[[nn.Module], None]


def reusing(data: ImageData, model: nn.Module, *, margins: bool) -> tuple[Step, End]:
    """Reuse the outputs of the training steps."""
    recorder = AccessibilityRecorder(None, data.y, keep_margins=margins)
    return (
        lambda model, outputs, index: recorder.batch(outputs, index),
        lambda model: recorder.end_epoch(),
    )


def running_again(data: ImageData, model: nn.Module) -> tuple[Step, End]:
    """Run the network over all examples after the epoch."""
    recorder = AccessibilityRecorder(data.x, data.y)
    return lambda model, outputs, index: None, recorder.record


def watching(data: ImageData, model: nn.Module) -> tuple[Step, End]:
    """Send numbers about the weights to a logger."""
    watcher = firstlight.watch(model, lambda step, values: None, data)
    return lambda model, outputs, index: watcher(), lambda model: None


WAYS = {
    "recorder.batch": lambda data, model: reusing(data, model, margins=False),
    "recorder.batch, with margins": lambda data, model: reusing(data, model, margins=True),
    "recorder.record": running_again,
    "watch": watching,
}


def share_inside(data: ImageData, arch: str, way: str) -> tuple[float, float]:
    """CPU seconds of an epoch without its recording, and the recording relative to them."""
    model = build(arch, classes=data.n_classes, shape=data.shape, seed=0)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    step, end = WAYS[way](data, model)
    begun, inside = time.process_time(), 0.0
    for index in torch.randperm(len(data), generator=torch.Generator().manual_seed(0)).split(32):
        outputs = model(data.x[index])
        optimiser.zero_grad()
        F.cross_entropy(outputs, data.y[index]).backward()
        optimiser.step()
        before = time.process_time()
        step(model, outputs, index)
        inside += time.process_time() - before
    before = time.process_time()
    end(model)
    inside += time.process_time() - before
    rest = time.process_time() - begun - inside
    return rest, inside / rest


def main() -> None:
    """Print the share of every way, with its range over turns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--arch", default="small")
    parser.add_argument("--data", default="photos")
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = firstlight.load(given.data, split="train", n=given.n, seed=0)
    shares: dict[str, list[float]] = {way: [] for way in WAYS}
    seconds = []
    share_inside(data, given.arch, "watch")  # warms caches, compiles nothing twice
    for turn in range(given.turns):
        order = list(WAYS) if turn % 2 else list(reversed(WAYS))
        for way in order:
            rest, share = share_inside(data, given.arch, way)
            shares[way].append(share)
            seconds.append(rest)
    print(f"{given.arch}, {len(data)} images, an epoch of {statistics.median(seconds):.1f} CPU seconds")
    for way, values in shares.items():
        print(f"{way:30s} {statistics.median(values):7.2%}  ({min(values):.2%} to {max(values):.2%})")


if __name__ == "__main__":
    main()
