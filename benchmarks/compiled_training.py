"""What `torch.compile` would save in our training: CPU seconds of a step, eager and compiled, in turns, one thread.

    python benchmarks/compiled_training.py [--arch small] [--turns 5] [--steps 20] [--batch 32]

Compilation itself is paid by every process and every shape of batch, so it is given too, in CPU seconds with those of
the C++ compiler.
"""

import argparse
import resource
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from firstlight.models import build


def cpu() -> float:
    """CPU seconds of this process and of the compilers it has started."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def steps(model: nn.Module, call: nn.Module, x: torch.Tensor, y: torch.Tensor, count: int) -> float:
    """CPU seconds of one step of SGD, the mean of several."""
    rule = torch.optim.SGD(model.parameters(), lr=0.01)
    begun = cpu()
    for _ in range(count):
        rule.zero_grad()
        F.cross_entropy(call(x), y).backward()
        rule.step()
    return (cpu() - begun) / count


def main() -> None:
    """Print seconds a step, the ratio, and the steps after which compiling pays."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="small")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    torch.set_num_threads(1)
    x = torch.rand(args.batch, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    y = torch.arange(args.batch) % 10
    plain, model = build(args.arch), build(args.arch)
    call = torch.compile(model)
    begun = cpu()
    steps(model, call, x, y, 1)
    compilation = cpu() - begun
    pairs = [
        (steps(plain, plain, x, y, args.steps), steps(model, call, x, y, args.steps))
        for _ in range(args.turns)
    ]
    eager, compiled = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratios = sorted(b / a for a, b in pairs)
    print(f"{args.arch}: eager {1e3 * eager:.2f} ms a step, compiled {1e3 * compiled:.2f} ms")
    print(f"compiled / eager {statistics.median(ratios):.2f}, {ratios[0]:.2f} .. {ratios[-1]:.2f}")
    print(f"compilation {compilation:.1f} CPU seconds")
    if compiled < eager:
        print(f"pays after {compilation / (eager - compiled):.0f} steps")


if __name__ == "__main__":
    main()
