"""Prices beside what was spent, in CPU seconds of one thread and in memory, and how both grow.

Gram matrices and ConvRFM on CIFAR-10, gradient outer products of a VGG11 on CIFAR-10, tangent kernels of a LeNet on
MNIST. Memory is what a process of its own needs beyond what it held before the job.

python benchmarks/prices.py [--grams 200 400 800 1600] [--machines 100 200 400 800] [--agops 32 64 128 256]
                            [--tangents 150 300 600 1200]
python benchmarks/prices.py --plan 50000 --agop-images 500
"""

import argparse
import multiprocessing
import resource
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from firstlight import models
from firstlight.data import load
from firstlight.kernels import ConvKernel, Price, gram, kernel_agop, learn_metric, measure_rates
from firstlight.measures.feature_ansatz import agop_pace, patch_agop
from firstlight.measures.linearized import ntk_gram, ntk_pace

KERNEL = ConvKernel(depth=3)
Work = Callable[[], object]  # ready to run: its images are loaded


def images(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    data = load("cifar10", split="train", n=n, seed=0)
    return data.x, torch.nn.functional.one_hot(data.y, 10).double()


def gram_of(n: int) -> Work:
    return partial(gram, images(n)[0], kernel=KERNEL, n_jobs=1, show=False)


def machine_of(n: int) -> Work:
    (x, y), (z, t) = images(n), images(n + 100)
    return partial(
        learn_metric, x, y, z[n:], t[n:], kernel=KERNEL, rounds=1, patience=None, n_jobs=1, show=False
    )


def network_of(name: str) -> torch.nn.Module:
    return models.build(name, shape=(3, 32, 32) if name == "vgg11" else (1, 28, 28), seed=0)


def digits(n: int) -> torch.Tensor:
    return load("mnist", split="train", n=n, seed=0).x


def agop_of(n: int) -> Work:
    return partial(patch_agop, network_of("vgg11"), images(n)[0], n_images=n, show=False)


def tangent_of(n: int) -> Work:
    return partial(ntk_gram, network_of("lenet"), digits(n), outputs="full", show=False)


def agop_price(n: int) -> Price:
    pace = agop_pace(network_of("vgg11"), images(64)[0], n_images=n)
    return Price(seconds=pace.seconds(n), bytes=pace.bytes(n))


def tangent_price() -> Callable[[int], Price]:
    pace = ntk_pace(network_of("lenet"), digits(512), outputs="full")
    return lambda n: Price(seconds=pace.seconds(n), bytes=pace.bytes(n))


def spent_on(job: Callable[[int], Work], n: int) -> tuple[float, float]:
    """CPU seconds and bytes of a job, in a process of its own that did a small one before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_spend, (job, n))


def _spend(job: Callable[[int], Work], n: int) -> tuple[float, float]:
    torch.set_num_threads(1)
    job(4)()
    work, before, done = job(n), _resident(), threading.Event()
    highest = [before]

    def watch() -> None:
        while not done.wait(0.002):
            highest[0] = max(highest[0], _resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.process_time()
    result = work()  # held until the last look
    seconds = time.process_time() - start
    done.set()
    watcher.join()
    del result
    return seconds, highest[0] - before


def _resident() -> float:
    return float(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def compared(name: str, job: Callable[[int], Work], price: Callable[[int], Price], sizes: list[int]) -> None:
    seconds, memory = [], []
    for n in sizes:
        said, spent = price(n), spent_on(job, n)
        seconds.append(spent[0])
        memory.append(spent[1])
        print(
            f"{name}, n = {n}: {said.seconds:.2f} s said, {spent[0]:.2f} spent ({said.seconds / spent[0] - 1:+.0%}); "
            f"{said.bytes / 1e6:.0f} MB said, {spent[1] / 1e6:.0f} spent",
            flush=True,
        )
    if len(sizes) > 1:
        powers = [np.polyfit(np.log(sizes), np.log(values), 1)[0] for values in (seconds, memory)]
        print(
            f"{name}: time grows with n to the power {powers[0]:.2f}, memory to the power {powers[1]:.2f}",
            flush=True,
        )


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
    parser.add_argument("--agops", type=int, nargs="*", default=[32, 64, 128, 256])
    parser.add_argument("--tangents", type=int, nargs="*", default=[150, 300, 600, 1200])
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
    compared("AGOP of a VGG11", agop_of, agop_price, given.agops)
    compared("Tangent kernel of a LeNet", tangent_of, tangent_price(), given.tangents)


if __name__ == "__main__":
    main()
