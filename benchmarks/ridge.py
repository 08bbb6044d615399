"""Three ridges by one decomposition, by Cholesky factors, and by conjugate gradients: CPU seconds of one thread.

    python benchmarks/ridge.py [--sizes 1000 2000 4000 10000]

The matrix is a Laplace kernel of CIFAR-10 images with diagonal 1; ten targets. Prints the largest relative
residual over the ridges, and the growth of the time with n.
"""

import argparse
import math
import time

import numpy as np
import torch

from firstlight._internal.errors import Diverged
from firstlight.data import load
from firstlight.kernels import RIDGES, CholeskyPath, RidgePath, conjugate_gradients, ridge_residual


def problem(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    data = load("cifar10", split="train", n=n, seed=0)
    rows = data.x.flatten(1)
    distances = torch.cdist(rows, rows)
    kernel = torch.exp(-distances / distances.median()).double()
    return (kernel + kernel.T) / 2, torch.nn.functional.one_hot(data.y, 10).double()


def decomposed(kernel: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    path = RidgePath.of(kernel, y)
    return [path(ridge) for ridge in RIDGES]


def factored(kernel: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    path = CholeskyPath(kernel, y)
    return [path(ridge) for ridge in RIDGES]


def iterated(kernel: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [conjugate_gradients(kernel, y, ridge) for ridge in RIDGES]


WAYS = {"decomposition": decomposed, "Cholesky": factored, "conjugate gradients": iterated}


def measured(name: str, kernel: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """CPU seconds for all ridges, and the largest residual."""
    start = time.process_time()
    try:
        found = WAYS[name](kernel, y)
    except Diverged:
        return math.nan, math.nan
    seconds = time.process_time() - start
    return seconds, max(ridge_residual(kernel, y, r, a) for r, a in zip(RIDGES, found, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 4000])
    sizes = parser.parse_args().sizes
    torch.set_num_threads(1)
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    print(
        f"ridges {', '.join(f'{r:g}' for r in RIDGES)}, 10 targets, CPU seconds (largest relative residual)"
    )
    for n in sizes:
        problem_of_size = problem(n)
        for name in WAYS:
            seconds, residual = measured(name, *problem_of_size)
            found[name].append(seconds)
            print(f"n = {n:<7}{name:<22}{seconds:>9.2f}  ({residual:.0e})", flush=True)
    for name, seconds in found.items():
        if len(sizes) > 1 and np.isfinite(seconds).all():
            exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
            print(f"{name}: time grows with n to the power {exponent:.2f}")


if __name__ == "__main__":
    main()
