"""Prices beside what was spent: Gram matrices and ConvRFM on CIFAR-10, CPU seconds of one thread, and their growth.

python benchmarks/prices.py [--grams 200 400 800 1600] [--machines 100 200 400 800]
python benchmarks/prices.py --plan 50000 --agop-images 500
"""

import argparse
import time

import numpy as np
import torch

from firstlight.data import load
from firstlight.kernels import ConvKernel, gram, kernel_agop, learn_metric, measure_rates

KERNEL = ConvKernel(depth=3)


def images(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    data = load("cifar10", split="train", n=n, seed=0)
    return data.x, torch.nn.functional.one_hot(data.y, 10).double()


def gram_of(n: int) -> None:
    gram(images(n)[0], kernel=KERNEL, n_jobs=1, show=False)


def machine_of(n: int) -> None:
    (x, y), (z, t) = images(n), images(n + 100)
    learn_metric(x, y, z[n:], t[n:], kernel=KERNEL, rounds=1, patience=None, n_jobs=1, show=False)


def compared(name: str, job, price, sizes: list[int]) -> None:
    spent = []
    for n in sizes:
        said = price(n).seconds
        start = time.process_time()
        job(n)
        spent.append(time.process_time() - start)
        print(
            f"{name}, n = {n}: {said:.2f} said, {spent[-1]:.2f} spent, {said / spent[-1] - 1:+.0%}",
            flush=True,
        )
    if len(sizes) > 1:
        print(f"{name}: time grows with n to the power {np.polyfit(np.log(sizes), np.log(spent), 1)[0]:.2f}")


def sampling_error(n: int, points: int) -> None:
    """How far the AGOP at a sample of points is from the one at all of them."""
    x, y = images(n)
    everywhere = kernel_agop(x, y, kernel=KERNEL, n_jobs=1, show=False)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    for count in (points // 4, points):
        some = kernel_agop(x, y, x[order[:count]], kernel=KERNEL, n_jobs=1, show=False)
        off = float((some / some.norm() - everywhere / everywhere.norm()).norm())
        print(f"gradients at {count} of {n} images: the normalised AGOP is off by {off:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grams", type=int, nargs="*", default=[200, 400, 800, 1600])
    parser.add_argument("--machines", type=int, nargs="*", default=[100, 200, 400, 800])
    parser.add_argument("--plan", type=int, help="only price one round of ConvRFM on so many images")
    parser.add_argument("--agop-images", type=int, default=500)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rates = measure_rates(images(256)[0], kernel=KERNEL)
    if given.plan:
        n = given.plan
        inner, slopes = rates.gram(n), rates.agop(n, given.agop_images)
        print(
            f"one matrix of {n}: {inner}; gradients at {given.agop_images}: {slopes}, at all: {rates.agop(n)}"
        )
        sampling_error(400, 100)
        return
    compared("Gram", gram_of, rates.gram, given.grams)
    compared("ConvRFM, 1 round", machine_of, lambda n: rates.rfm(n, n_valid=100, rounds=1), given.machines)


if __name__ == "__main__":
    main()
