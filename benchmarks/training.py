"""Does our training loop cost anything beside a plain one written by hand, and how much of the processor does it use?

Images a CPU second on one thread, for the networks of the bank with their recipe: our loop, and a plain torch loop with
the same flips, shifts, rates, momentum, decay, smoothing and layout. Turns alternate; medians of the turns. The last
column is the share of the additions and multiplications a second that a product of two matrices of 1024 rows reaches.

    python benchmarks/training.py [--turns 5] [--images 1280]
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight.models import ModelSpec
from firstlight.networks.definitions import PLAIN
from firstlight.training import train

NETWORKS = {"small": {"batch_norm": True}, "vgg7": {}, "resnet20": {}}


def plain_loop(model: nn.Module, images: Tensor, labels: Tensor, steps: int) -> None:
    """What one writes by hand in five minutes, with the settings of the bank's recipe."""
    model.to(memory_format=torch.channels_last).train()
    optimiser = torch.optim.SGD(
        [
            {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 5e-4},
            {"params": [p for p in model.parameters() if p.ndim <= 1]},
        ],
        lr=0.2, momentum=0.9, nesterov=True, fused=True,
    )  # fmt: skip
    order = torch.randperm(len(images))
    for step in range(steps):
        moment, rising = step + 0.5, 0.25 * steps
        share = (
            moment / rising
            if moment < rising
            else (1 + math.cos(math.pi * (moment - rising) / (0.75 * steps))) / 2
        )
        for group in optimiser.param_groups:
            group["lr"] = 0.2 * share
        chosen = order[torch.arange(128 * step, 128 * (step + 1)) % len(images)]
        x, y = images[chosen], labels[chosen]
        x = torch.where((torch.rand(len(x)) < 0.5)[:, None, None, None], x.flip(3), x)
        down, right = torch.randint(0, 9, (2,)).tolist()
        x = F.pad(x, (4, 4, 4, 4), mode="reflect")[:, :, down : down + 32, right : right + 32]
        loss = F.cross_entropy(model(x.contiguous(memory_format=torch.channels_last)), y, label_smoothing=0.1)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()


def cpu_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def operations_an_image(model: nn.Module) -> float:
    """Additions and multiplications of one image, forwards and backwards: three products for each layer."""
    total = 0.0

    def count(layer: nn.Module, _: object, output: Tensor) -> None:
        nonlocal total
        total += 2 * layer.weight.numel() * output.shape[2:].numel()

    hooks = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        model.eval()(torch.zeros(1, 3, 32, 32))
    for hook in hooks:
        hook.remove()
    return 3 * total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--images", type=int, default=1280)
    given = parser.parse_args()
    torch.set_num_threads(1)
    images, labels = torch.randn(given.images, 3, 32, 32), torch.randint(0, 10, (given.images,))
    steps = given.images // 128
    square = torch.randn(1024, 1024)
    peak = 20 * 2 * 1024**3 / cpu_seconds(lambda: [square @ square for _ in range(20)])
    print(f"a product of two matrices of 1024 rows: {peak / 1e9:.0f} billion operations a CPU second")
    print(
        f"{'network':10}{'ours':>10}{'by hand':>10}{'ratio':>8}{'share of a product':>20}   images a CPU second"
    )
    recipe = replace(PLAIN, epochs=None, steps=steps)
    for name, options in NETWORKS.items():
        spec = ModelSpec(name=name, options=options)
        ours, plain = [], []
        for turn in range(given.turns):
            ours.append(
                cpu_seconds(partial(train, spec(turn), images, labels, recipe, fused=True, show=False))
            )
            plain.append(cpu_seconds(partial(plain_loop, spec(turn), images, labels, steps)))
        own, hand = (128 * steps / statistics.median(turns) for turns in (ours, plain))
        share = own * operations_an_image(spec(0)) / peak
        print(f"{name:10}{own:10.0f}{hand:10.0f}{own / hand:8.2f}{share:20.0%}", flush=True)


if __name__ == "__main__":
    main()
