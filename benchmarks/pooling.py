"""Accuracy by number of images of the flatten, the pooled and the Myrtle-5 kernel on CIFAR-10, with CPU seconds.

    python benchmarks/pooling.py [--sizes 100 200 400] [--test 400] [--side 16] [--kernels flatten pooled myrtle5]

Ridge regression on one-hot targets, ridge 1e-3 of the largest entry for all. With --side 16 the images
are halved, which makes the pooled kernels sixteen times cheaper.
"""

import argparse
import time

import torch

from firstlight.data import load
from firstlight.kernels import ConvKernel, kernel_gram, ridge_solver

KERNELS = {
    "flatten": ConvKernel(depth=3),
    "pooled": ConvKernel(depth=3, readout="gap"),
    "myrtle5": ConvKernel.myrtle5(),
}
RIDGE = 1e-3


def images(split: str, n: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    data = load("cifar10", split=split, n=n, seed=0)
    return torch.nn.functional.avg_pool2d(data.x, 32 // side), data.y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 200, 400])
    parser.add_argument("--test", type=int, default=400)
    parser.add_argument("--side", type=int, default=16, choices=[8, 16, 32])
    parser.add_argument("--kernels", nargs="+", default=list(KERNELS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    x, y = images("train", max(given.sizes), given.side)
    z, truth = images("test", given.test, given.side)
    targets = torch.nn.functional.one_hot(y, 10).double()
    for name in given.kernels:
        kernel_gram(x[:2], kernel=KERNELS[name], n_jobs=1)  # compiles
        start = time.process_time()
        inner = kernel_gram(x, kernel=KERNELS[name], n_jobs=1)
        outer = kernel_gram(z, x, kernel=KERNELS[name], n_jobs=1)
        seconds = time.process_time() - start
        found = []
        for n in given.sizes:
            top = inner[:n, :n].max()
            alpha = ridge_solver(inner[:n, :n] / top, targets[:n])(RIDGE)
            found.append(f"n = {n}: {((outer[:, :n] @ alpha).argmax(1) == truth).double().mean():.1%}")
        print(f"{name:<10}{', '.join(found)}; {seconds:.0f} CPU s", flush=True)


if __name__ == "__main__":
    main()
