"""Does it pay to train several networks as one grouped network on a CPU?

CPU milliseconds per step and network on one thread: networks by themselves, four and eight of them as one network
of grouped convolutions, and four under `torch.func.vmap`. Turns alternate; medians of the turns.

    python benchmarks/grouped.py [--turns 5]
"""

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from firstlight import models

BATCH, CLASSES = 32, 10
Step = Callable[[], None]


def small(side: int, width: float) -> nn.Sequential:
    return models.build("small", classes=CLASSES, shape=(3, side, side), width=width)


def plain_cnn(side: int, channels: int, depth: int, inputs: int = 1) -> nn.Sequential:
    """The network of the identity task: convolutions from an image to itself."""
    plan = [inputs, *[channels] * (depth - 1), inputs]
    layers: list[nn.Module] = []
    for a, b in pairwise(plan):
        layers += [nn.Conv2d(a, b, 5, padding=2), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Grouped(nn.Module):
    """The layers of a sequential network for `count` networks at once, channels of one network after the other."""

    def __init__(self, model: nn.Sequential, count: int) -> None:
        super().__init__()
        self.count, layers = count, []
        self.head: nn.Parameter | None = None
        for layer in model:
            if isinstance(layer, nn.Conv2d):
                layers.append(
                    nn.Conv2d(
                        layer.in_channels * count, layer.out_channels * count, layer.kernel_size,
                        padding=layer.padding, groups=count,
                    )
                )  # fmt: skip
            elif isinstance(layer, nn.Linear):
                self.head = nn.Parameter(torch.randn(count, layer.in_features, layer.out_features) * 0.01)
            else:
                layers.append(layer)
        self.body = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs by network, then image."""
        seen = self.body(x)
        if self.head is None:
            return seen.unflatten(1, (self.count, -1)).transpose(0, 1)
        return torch.bmm(seen.reshape(len(x), self.count, -1).transpose(0, 1), self.head)


def loss_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Sum over networks of the mean over images, so that each gets its own gradient."""
    if targets.is_floating_point():
        return (outputs - targets).square().flatten(1).mean(1).sum()
    count = outputs.shape[0]
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten()) * count


def stepper(model: nn.Module, loss: Callable[[], Tensor], adam: bool) -> Step:
    kind = torch.optim.Adam if adam else torch.optim.SGD
    optimiser = kind(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()

    return step


def ways(build: Callable[[], nn.Sequential], x: Tensor, adam: bool) -> dict[str, tuple[int, Step]]:
    """Networks per step, and the step, by name."""
    model = build()
    n, identity = len(x), model(x).ndim == 4
    labels = torch.randint(CLASSES, (8, n), generator=torch.Generator().manual_seed(0))

    def targets(count: int) -> Tensor:
        return x.expand(count, *x.shape) if identity else labels[:count]

    found = {"alone": (1, stepper(model, lambda: loss_of(model(x)[None], targets(1)), adam))}
    for count in (4, 8):
        many, wide = Grouped(build(), count), x.repeat(1, count, 1, 1)
        found[f"{count} grouped"] = (
            count,
            stepper(many, lambda m=many, w=wide, c=count: loss_of(m(w), targets(c)), adam),
        )
    stacked = {name: p.detach() for name, p in stack_module_state([build() for _ in range(4)])[0].items()}
    holder = nn.ParameterDict({name.replace(".", "_"): nn.Parameter(p) for name, p in stacked.items()})
    run = vmap(lambda weights: functional_call(model, weights, (x,)))
    found["4 by vmap"] = (
        4,
        stepper(
            holder,
            lambda: loss_of(run({name: holder[name.replace(".", "_")] for name in stacked}), targets(4)),
            adam,
        ),
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    jobs = {
        "CNN of the tour, 32 x 32, batch 32": (lambda: small(32, 1), torch.rand(BATCH, 3, 32, 32), False),
        "half as wide, 16 x 16 (learning order)": (
            lambda: small(16, 0.5),
            torch.rand(BATCH, 3, 16, 16),
            False,
        ),
        "quarter as wide, 16 x 16": (lambda: small(16, 0.25), torch.rand(BATCH, 3, 16, 16), False),
        "identity CNN, 14 x 14, 32 channels, 10 layers": (
            lambda: plain_cnn(14, 32, 10),
            torch.rand(1, 1, 14, 14),
            True,
        ),
        "identity CNN, 28 x 28, 16 channels, 5 layers": (
            lambda: plain_cnn(28, 16, 5),
            torch.rand(1, 1, 28, 28),
            True,
        ),
    }
    for name, (build, x, adam) in jobs.items():
        found = ways(build, x, adam)
        spent: dict[str, list[float]] = {way: [] for way in found}
        for turn in range(turns + 1):
            for way, (count, step) in found.items():
                start = time.process_time()
                step()
                if turn:  # the first warms up
                    spent[way].append(1e3 * (time.process_time() - start) / count)
        medians = {way: statistics.median(values) for way, values in spent.items()}
        words = ", ".join(f"{way} {ms:.2f} ms ({medians['alone'] / ms:.2f}x)" for way, ms in medians.items())
        print(f"{name}: {words}", flush=True)


if __name__ == "__main__":
    main()
