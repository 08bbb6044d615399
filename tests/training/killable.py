"""A training that a test may kill: `python killable.py RUNS_FOLDER STEPS [HOLD [rarely]]`.

Prints a hash of the weights. With "rarely" no checkpoint falls due, steps are printed, and SIGTERM is heeded.
"""

import hashlib
import sys
import time
from pathlib import Path

import torch
from torch import nn

from firstlight._internal.processes import Terminated, heed_termination
from firstlight._internal.seeds import global_seed
from firstlight._internal.store import Store
from firstlight.data.images import ImageData
from firstlight.training import Recipe, Snapshots, loop, train_once

RARELY = len(sys.argv) > 4
loop.CHECKPOINT_SECONDS = 1e9 if RARELY else 0.0


def build(seed: int) -> nn.Module:
    """Batch norm has buffers, dropout draws numbers, momentum keeps state: all must survive."""
    with global_seed("weights", seed):
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 3)
        )


build.config = {"name": "killable"}


def data() -> ImageData:
    generator = torch.Generator().manual_seed(1)
    return ImageData(torch.rand(50, 1, 8, 8, generator=generator), torch.arange(50) % 3, ("a", "b", "c"))


class Slow:
    """Leaves the killer time to strike, all the time there is from step HOLD on."""

    def __call__(self, step: int, model: nn.Module) -> None:
        time.sleep(0.01)
        if RARELY:
            print(f"step {step}", flush=True)
        while len(sys.argv) > 3 and step >= int(sys.argv[3]):
            time.sleep(1.0)


def observe(steps_per_epoch: int) -> list:
    return [Slow(), Snapshots(["0.weight"], steps=range(0, 1000, 7))]


observe.name = "slow snapshots"


if __name__ == "__main__":
    torch.set_num_threads(1)
    recipe = Recipe(steps=int(sys.argv[2]), batch_size=8, momentum=0.9, milestones=(0.5,), lr=0.05)
    print("started", flush=True)
    if RARELY:
        heed_termination()
    try:
        done = train_once(build, data(), recipe, observe=observe, store=Store(Path(sys.argv[1])), show=False)
    except Terminated:
        sys.exit(143)
    digest = hashlib.sha256()
    for tensor in [*done.weights.values(), done.history.loss, *done.records[0].values()]:
        digest.update(tensor.numpy().tobytes())
    print(digest.hexdigest())
