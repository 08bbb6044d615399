"""Convolutional kernels and their gradients beside neural-tangents: CPU seconds of one thread, same run.

The peer needs an old JAX, so this script makes an environment for it in a cache folder. Its batches are tuned first:
every size of `BATCHES` on a part of the images, then the best of them on all:

    python benchmarks/kernels.py [--n 400] [--pooled 8] [--only gram] [--repeat 5] [--memory] [--rfm 2000] [--deep]

`--only none` leaves the comparison out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from peers import neural_tangents

POINTS = 2  # images at which the peer takes gradients; its time is scaled to all
# first and second images of a block, compiled as one; for the gradients, centres of a block
BATCHES = {
    "gram": ((5, 5), (10, 10), (20, 20), (40, 40), (80, 80), (10, 100)),
    "pooled": ((1, 1), (1, 2), (2, 2), (2, 4), (4, 4)),
    "myrtle": ((1, 1), (1, 2), (2, 2), (2, 4)),
    "agop": ((10, 0), (25, 0), (50, 0), (100, 0), (200, 0)),
}
TUNING = {"gram": 80, "pooled": 4, "myrtle": 4, "agop": 200}  # images of the peer's tuning
LAYERS = {"gram": "flatten", "pooled": "gap", "myrtle": "Myrtle-5", "agop": "AGOP, 10 classes"}

PEER_CODE = r"""
import json, math, os, sys, time
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import jax, jax.numpy as jnp, numpy as np
from neural_tangents import stax
job, path, out, points, rows, columns = *sys.argv[1:4], *map(int, sys.argv[4:7])
data = np.load(path)
x = data["x"].transpose(0, 2, 3, 1)
relu = stax.ABRelu(0.0, math.sqrt(2.0))
def network(pooled, stride):
    layers = []
    for layer in range(3):
        layers += [stax.Conv(1, (3, 3), (stride, stride) if layer == 0 else None, "VALID", W_std=3.0, b_std=None), relu]
    head = [stax.GlobalAvgPool()] if pooled else [stax.Flatten()]
    return stax.serial(*layers, *head, stax.Dense(1, W_std=1.0, b_std=None))[2]
def myrtle():
    conv = stax.Conv(1, (3, 3), None, "SAME", W_std=3.0, b_std=None)
    half = stax.AvgPool((2, 2), (2, 2))
    layers = [conv, relu, conv, relu, half, conv, relu, half, conv, relu, half]
    return stax.serial(*layers, stax.GlobalAvgPool(), stax.Dense(1, W_std=1.0, b_std=None))[2]
def blocks(kernel):
    # one compiled function for a whole block; of a symmetric matrix of square blocks, one triangle
    kernel = jax.jit(kernel, static_argnames="get")
    n, value = len(x), np.zeros((len(x), len(x)), np.float32)
    jax.block_until_ready(kernel(x[:rows], x[:columns], "ntk"))
    start = time.process_time()
    for i in range(0, n, rows):
        for j in range(i if rows == columns else i // columns * columns, n, columns):
            part = np.asarray(kernel(x[i:i + rows], x[j:j + columns], "ntk"))
            value[i:i + rows, j:j + columns] = part
            value[j:j + columns, i:i + rows] = part.T
    return time.process_time() - start, value
if job != "agop":
    if len(x) % rows or len(x) % columns:
        sys.exit(f"Blocks of {rows} x {columns} do not divide {len(x)} images.")
    spent, value = blocks(myrtle() if job == "myrtle" else network(job == "pooled", 1))
else:
    n, h, w, c = x.shape
    p, q = h - 2, w - 2
    grid = np.empty((n, p, 3, q, 3, c), np.float32)
    for r in range(3):
        for s in range(3):
            grid[:, :, r, :, s] = x[:, r:r+p, s:s+q]
    grid = jnp.asarray(grid.reshape(n, 3 * p, 3 * q, c))
    alpha = jnp.asarray(data["alpha"], jnp.float32)
    kernel = network(False, 3)
    def outputs(image, centres, weights):
        return (kernel(image[None], centres, "ntk") @ weights)[0]
    gradients = jax.jit(jax.jacrev(outputs))
    def at(image):
        return sum(gradients(image, grid[i:i+rows], alpha[i:i+rows]) for i in range(0, n, rows))
    jax.block_until_ready(at(grid[0]))
    start = time.process_time()
    found = [np.asarray(jax.block_until_ready(at(grid[j]))) for j in range(points)]
    spent = (time.process_time() - start) * n / points
    value = np.zeros((27, 27))
    for jac in found:
        g = jac.reshape(-1, p, 3, q, 3, c).transpose(0, 1, 3, 5, 2, 4).reshape(-1, 27).astype(np.float64)
        value += g.T @ g / points
peak = int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
np.save(out, value)
print(json.dumps({"seconds": spent, "megabytes": peak}))
"""


def peer(python: Path, job: str, data: Path, out: Path, batch: tuple[int, int]) -> tuple[dict, np.ndarray]:
    command = [python, "-c", PEER_CODE, job, data, out, POINTS, *batch]
    quiet = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, check=True, env=quiet)
    return json.loads(done.stdout.splitlines()[-1]), np.load(out)


def tuned(python: Path, job: str, count: int, place: Path) -> tuple[int, int]:
    """The peer's best batch on a part of the images, and all that were tried, printed."""
    few = min(TUNING[job], count)
    data, out, found = place / "few.npz", place / "few.npy", {}
    np.savez(data, x=images(few), alpha=np.random.default_rng(0).standard_normal((few, 10)))
    for batch in BATCHES[job]:
        if max(batch) > few or any(few % b or count % b for b in batch if b):
            continue
        found[batch] = peer(python, job, data, out, batch)[0]["seconds"]
        if found[batch] < 1:  # short enough to be disturbed
            found[batch] = min(found[batch], peer(python, job, data, out, batch)[0]["seconds"])
    names = {batch: f"{batch[0]} x {batch[1]}" if batch[1] else f"{batch[0]} centres" for batch in found}
    tried = ", ".join(f"{names[batch]}: {seconds:.2f}" for batch, seconds in found.items())
    best = min(found, key=lambda batch: found[batch])
    print(f"  the peer's batches on {few} images, CPU s: {tried}; taken: {names[best]}", flush=True)
    return best


def ours(job: str, data: Path, out: Path) -> None:
    """One job in this process: a warm call that loads the machine code, then the measured one."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import torch

    from firstlight.kernels import ConvKernel, kernel_agop, kernel_gram

    loaded = np.load(data)
    x, alpha = torch.from_numpy(loaded["x"]), torch.from_numpy(loaded["alpha"])
    kernel = (
        ConvKernel.myrtle5()
        if job == "myrtle"
        else ConvKernel(depth=3, readout="gap" if job == "pooled" else "flatten")
    )

    def work(k: int):
        if job == "agop":
            return kernel_agop(x[:k], alpha[:k], kernel=kernel, n_jobs=1, show=False)
        return kernel_gram(x[:k], kernel=kernel, n_jobs=1, show=False)

    work(2)
    kernel_gram(torch.cat([x[:1], x[:1]]), torch.cat([x[:1], x[:1]]), kernel=kernel, n_jobs=1)
    before = _megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    start = time.process_time()
    value = work(len(x))
    seconds = time.process_time() - start
    np.save(out, value.numpy())
    print(json.dumps({"seconds": seconds, "megabytes": _megabytes("VmHWM") - before}))


def deep(readout: str) -> None:
    """Milliseconds an entry of a kernel of 21 padded layers, in this process, three turns."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import torch

    from firstlight.kernels import ConvKernel, kernel_gram

    kernel = ConvKernel(depth=21, padding=1, readout=readout)
    rows, columns = (4, 8) if readout == "gap" else (128, 192)
    x = torch.from_numpy(images(rows + columns))
    first, second = x[:rows], x[rows:]
    kernel_gram(first[:4], second[:8], kernel=kernel, n_jobs=1, show=False)
    kernel_gram(
        first[:1], first[:1], kernel=kernel, n_jobs=1, show=False
    )  # in float64, as pairs that are done again
    spent = []
    for _ in range(3):
        start = time.process_time()
        kernel_gram(first, second, kernel=kernel, n_jobs=1, show=False)
        spent.append(1e3 * (time.process_time() - start) / (rows * columns))
    print(json.dumps(spent))


def deep_table() -> None:
    """The kernels of neural-tangents' own table, whose numbers come from more than 56 cores."""
    print(f"kernels of 21 layers on {processor()}, one thread, CPU milliseconds an entry", flush=True)
    for readout, theirs in (("flatten", 0.120), ("gap", 112.9)):
        command = [sys.executable, __file__, "--job", f"deep {readout}"]
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **one}
        )
        spent = json.loads(done.stdout.splitlines()[-1])
        print(
            f"{readout:<10}{np.median(spent):>9.3f}  ({min(spent):.3f} to {max(spent):.3f}; theirs {theirs:.3f})",
            flush=True,
        )


def _megabytes(kind: str) -> float:
    return int(Path("/proc/self/status").read_text().split(f"{kind}:")[1].split()[0]) / 1024


def in_own_process(job: str, data: Path, out: Path) -> tuple[dict, np.ndarray]:
    command = [sys.executable, __file__, "--job", job, "--data", str(data), "--out", str(out)]
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **one})
    return json.loads(done.stdout.splitlines()[-1]), np.load(out)


def processor() -> str:
    """Name of the processor and the width of its vectors."""
    text = Path("/proc/cpuinfo").read_text()
    name = text.split("model name")[1].split(":")[1].splitlines()[0].strip()
    return f"{name}, vectors of {512 if 'avx512f' in text else 256 if 'avx2' in text else 128} bits"


def images(n: int) -> np.ndarray:
    from firstlight.data import load

    return load("cifar10", split="train", n=n, seed=0).x.numpy()


def table(n: int, pooled: int, folder: Path, only: list[str], repeat: int) -> None:
    """Ours and the peer's in turn, `repeat` times each; medians, and the lowest and highest ratio of neighbours."""
    python = neural_tangents.python_of(folder)
    print(f"on {processor()}, one thread; the peer is {', '.join(neural_tangents.PACKAGES[:2])}", flush=True)
    head = f"{'job':<30}{'ours s':>9}{'ours MB':>9}{'peer s':>9}{'ratio':>8}{'range':>12}{'difference':>12}"
    print(head, flush=True)
    with tempfile.TemporaryDirectory() as place:
        for job, count in (("gram", n), ("pooled", pooled), ("myrtle", pooled), ("agop", n)):
            if job not in only:
                continue
            data, out = Path(place) / "data.npz", Path(place) / "out.npy"
            x = images(count)
            alpha = np.random.default_rng(0).standard_normal((count, 10))
            np.savez(data, x=x, alpha=alpha)
            spent, memory, batch = [], [], tuned(python, job, count, Path(place))
            for _ in range(repeat):
                mine, value = in_own_process(job, data, out)
                theirs, other = peer(python, job, data, out, batch)
                spent.append((mine["seconds"], theirs["seconds"]))
                memory.append(mine["megabytes"])
            if job == "agop":  # the peer's average runs over its few points
                value = _agop_at(x, alpha, POINTS)
            off = np.abs(value - other).max() / np.abs(value).max()
            (ours_spent, peer_spent), ratios = np.median(spent, 0), [b / a for a, b in spent]
            between = f"{min(ratios):.0f} to {max(ratios):.0f}"
            print(
                f"{LAYERS[job] + f', n = {count}':<30}{ours_spent:>9.2f}{max(memory):>9.0f}{peer_spent:>9.1f}"
                f"{peer_spent / ours_spent:>7.0f}x{between:>12}{off:>12.1e}",
                flush=True,
            )


def _agop_at(x: np.ndarray, alpha: np.ndarray, points: int) -> np.ndarray:
    import torch

    from firstlight.kernels import ConvKernel, kernel_agop

    some = torch.from_numpy(x)
    return kernel_agop(some, torch.from_numpy(alpha), some[:points], kernel=ConvKernel(depth=3)).numpy()


def growth(sizes: tuple[int, ...]) -> None:
    """Memory of the gradients against n: the exponent of a fitted power."""
    with tempfile.TemporaryDirectory() as place:
        data, out, found = Path(place) / "data.npz", Path(place) / "out.npy", []
        for n in sizes:
            np.savez(data, x=images(n), alpha=np.random.default_rng(0).standard_normal((n, 10)))
            found.append(in_own_process("agop", data, out)[0]["megabytes"])
    exponent = np.polyfit(np.log(sizes), np.log(found), 1)[0]
    text = ", ".join(f"{m:.0f} MB at n = {n}" for n, m in zip(sizes, found, strict=True))
    print(f"memory of the gradients: {text}; exponent {exponent:.2f}")


def whole_rfm(n: int) -> None:
    import torch

    from firstlight.data import load
    from firstlight.kernels import ConvKernel, learn_metric

    train, valid = load("cifar10", split="train", n=n, seed=0), load("cifar10", split="test", n=500, seed=0)
    y, z = (torch.nn.functional.one_hot(d.y, 10).double() for d in (train, valid))
    wall, cpu = time.perf_counter(), time.process_time()
    found = learn_metric(train.x, y, valid.x, z, kernel=ConvKernel(depth=3), rounds=5, patience=None)
    print(
        f"ConvRFM, 5 rounds, depth 3, n = {n}, gradients at all of them: {time.perf_counter() - wall:.0f} s "
        f"wall, {time.process_time() - cpu:.0f} s CPU; accuracy by round on 500 images "
        f"{', '.join(f'{r.accuracy:.1%}' for r in found.rounds)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--pooled", type=int, default=8)
    parser.add_argument("--only", nargs="+", default=list(BATCHES))
    parser.add_argument("--repeat", type=int, default=5, help="times that both sides are measured in turn")
    parser.add_argument("--rfm", type=int, default=0, help="also time a whole ConvRFM on so many images")
    parser.add_argument("--memory", action="store_true", help="also fit the growth of memory with n")
    parser.add_argument("--deep", action="store_true", help="also time kernels of 21 layers")
    parser.add_argument(
        "--peer", type=Path, default=neural_tangents.FOLDER, help="folder of the peer's environment"
    )
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job and given.job.startswith("deep "):
        deep(given.job.removeprefix("deep "))
        return
    if given.job:
        ours(given.job, given.data, given.out)
        return
    if given.only != ["none"]:
        table(given.n, given.pooled, given.peer, given.only, given.repeat)
    if given.deep:
        deep_table()
    if given.memory:
        growth((100, 200, 400))
    if given.rfm:
        whole_rfm(given.rfm)


if __name__ == "__main__":
    main()
