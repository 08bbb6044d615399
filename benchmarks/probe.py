"""A recursive feature machine on vectors: `RFMProbe` beside xRFM, in CPU seconds of one thread.

    python benchmarks/probe.py [--tables digits fashion features] [--n 10000] [--rounds 3]

Both get the same rows for fitting and for choosing, the Laplace kernel with the same bandwidth, the same number of
rounds, and three ridges to choose from by squared error on the rows for choosing; xRFM takes one ridge, so that it is
run once for each. "One ridge" gives both the ridge 1e-3 and no choice. RFMProbe's seconds include its last fit to all
rows and the linear probe, which xRFM has not. Needs xrfm (`pip install --no-deps xrfm==0.4.5`).
"""

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

import firstlight
from firstlight._internal.executor import single_thread
from firstlight._internal.seeds import generator_from
from firstlight.estimators import RFMProbe
from firstlight.estimators.kernel_machine import split
from firstlight.kernels import RIDGES, PatchKernel, median_bandwidth
from firstlight.networks.bank import load_network

Table = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def digits(n: int) -> Table:
    """The first 1000 digits of a drawn order; the others test."""
    data = load_digits()
    order = torch.randperm(len(data.target), generator=generator_from("digits", 0)).numpy()
    x, y = data.data[order], data.target[order]
    return x[:1000], y[:1000], x[1000:], y[1000:]


def fashion(n: int) -> Table:
    """Pixels."""
    fit, test = (
        firstlight.load("fashion_mnist", split=s, n=k, seed=0) for s, k in (("train", n), ("test", 2000))
    )
    return fit.x.flatten(1).numpy(), fit.y.numpy(), test.x.flatten(1).numpy(), test.y.numpy()


def features(n: int) -> Table:
    """What the classifier of the bank's first network sees."""
    network = load_network("small-cifar10-0")
    model = network.model
    last = [module for module in model.modules() if isinstance(module, torch.nn.Linear)][-1]
    seen: list[Tensor] = []
    hook = last.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    parts = []
    try:
        for part, count in (("train", n), ("test", 2000)):
            images = firstlight.load("cifar10", split=part, n=count, seed=0).scaled(**network.scaling)
            seen.clear()
            with torch.no_grad():
                for batch in images.x.split(500):
                    model(batch)
            parts += [torch.cat(seen).numpy(), images.y.numpy()]
    finally:
        hook.remove()
    return tuple(parts)  # type: ignore[return-value]


TABLES: dict[str, Callable[[int], Table]] = {"digits": digits, "fashion": fashion, "features": features}


def ours(table: Table, rounds: int, ridges: Sequence[float]) -> tuple[float, float, float]:
    """CPU seconds of fitting, validation error and test accuracy."""
    x, y, x_test, y_test = table
    begin = time.process_time()
    probe = RFMProbe(rounds=rounds, ridges=ridges, patience=None, n_jobs=1).fit(x, y)
    seconds = time.process_time() - begin
    return seconds, probe.rounds_[probe.best_round_].error, float(probe.score(x_test, y_test))


def theirs(table: Table, rounds: int, ridge: float) -> tuple[float, float, float]:
    """The same of xRFM's machine with the Laplace kernel."""
    from xrfm.rfm_src import RFM

    x, x_test = (torch.from_numpy(table[i]).float() for i in (0, 2))
    targets = torch.nn.functional.one_hot(torch.from_numpy(table[1]).long()).double()
    begin = time.process_time()
    fit, choose = split(targets, 0.2, seed=0, by_class=True)
    plain = PatchKernel(size=1)
    bandwidth = median_bandwidth(x[fit, :, None, None], plain.geometry)
    machine = RFM(kernel="laplace", bandwidth=bandwidth, iters=rounds, device="cpu", verbose=False)
    y = targets.float()
    # solver="cholesky" takes half the operations of its default, LU factors
    machine.fit(
        (x[fit], y[fit]),
        (x[choose], y[choose]),
        reg=ridge,
        solver="cholesky",
        early_stop_rfm=False,
        verbose=False,
    )
    seconds = time.process_time() - begin
    error = float((machine.predict(x[choose]) - y[choose]).square().sum(1).mean())
    right = machine.predict(x_test).argmax(1).numpy() == table[3]
    return seconds, error, float(right.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--n", type=int, default=10_000, help="rows of the two large tables")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print("| table | rows x columns | ridges | RFMProbe | accuracy | xRFM | accuracy | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    with single_thread():
        warm = digits(0)
        ours(warm, 1, RIDGES), theirs(warm, 1, RIDGES[0])
        for name in given.tables:
            table = TABLES[name](given.n)
            runs = {ridge: theirs(table, given.rounds, ridge) for ridge in RIDGES}
            for ridges in (RIDGES, (1e-3,)):
                seconds, _, accuracy = ours(table, given.rounds, ridges)
                peer, best = (
                    sum(runs[r][0] for r in ridges),
                    min((runs[r] for r in ridges), key=lambda run: run[1]),
                )
                print(
                    f"| {name} | {len(table[0])} x {table[0].shape[1]} | {len(ridges)} | {seconds:.2f} s "
                    f"| {accuracy:.4f} | {peer:.2f} s | {best[2]:.4f} | {peer / seconds:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
