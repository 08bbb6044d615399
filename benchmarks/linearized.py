"""Linearised training steps and tangent kernels beside their peers: CPU seconds of one thread, same run.

Every job runs in a process of its own. nngeometry goes into a cache folder, neural-tangents into an
environment of its own there, as it needs an old JAX. How many images the peers take at a time is tuned first:

    python benchmarks/linearized.py [--n 600] [--widths 1 4] [--only step gram] [--skip neural-tangents]
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

GEOMETRY = "nngeometry==0.4"
BATCH = 32
# images at a time that are tried for each peer on a part of the images; the best is taken
BATCHES = {
    "jacrev": (10, 25, 50, 100, 200),
    "nngeometry": (25, 50, 100, 200),
    "STRUCTURED_DERIVATIVES": (10, 20, 50, 100),
    "JACOBIAN_CONTRACTION": (10, 20, 50, 100),
}
TUNING = 200  # images of the tuning

TANGENTS_CODE = r"""
import json, os, sys, time
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.interpreters import ad
from jax._src.interpreters import ad as full
for name in dir(full):  # names that moved since, which the structured derivatives look for here
    if not hasattr(ad, name):
        setattr(ad, name, getattr(full, name))
ad.config = jax.config
import neural_tangents as nt
path, out = sys.argv[1:3]
data = np.load(path)
x = jnp.asarray(data["x"])
names = [k[2:] for k in data.files if k.startswith("w:")]
params = {k: jnp.asarray(data["w:" + k]) for k in names}
dims = ("NCHW", "OIHW", "NCHW")
def conv(p, name, h, pad):
    y = lax.conv_general_dilated(h, p[name + ".weight"], (1, 1), [(pad, pad)] * 2, dimension_numbers=dims)
    return y + p[name + ".bias"][None, :, None, None]
def pool(h):
    return lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
def lenet(p, h):
    h = pool(jax.nn.relu(conv(p, "conv1", h, 2)))
    h = pool(jax.nn.relu(conv(p, "conv2", h, 0)))
    h = h.reshape(len(h), -1)
    for name in ("fc1", "fc2"):
        h = jax.nn.relu(h @ p[name + ".weight"].T + p[name + ".bias"])
    return h @ p["fc3.weight"].T + p["fc3.bias"]
how = nt.NtkImplementation[sys.argv[3]]
kernel = jax.jit(nt.empirical_ntk_fn(lenet, trace_axes=(), vmap_axes=0, implementation=how))
block = int(sys.argv[4])
jax.block_until_ready(kernel(x[:block], x[block:2 * block], params))
n = len(x)
def megabytes(kind):
    return int(open("/proc/self/status").read().split(kind + ":")[1].split()[0]) / 1024
before = megabytes("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
start = time.process_time()
value = np.zeros((n, 10, n, 10), np.float32)
for i in range(0, n, block):
    for j in range(i, n, block):
        part = np.asarray(kernel(x[i:i + block], x[j:j + block], params))  # n m o o
        value[i:i + block, :, j:j + block] = part.transpose(0, 2, 1, 3)
        value[j:j + block, :, i:i + block] = part.transpose(1, 3, 0, 2)
spent = time.process_time() - start
peak = megabytes("VmHWM") - before
np.save(out, value.reshape(10 * n, 10 * n))
print(json.dumps({"seconds": spent, "megabytes": peak}))
"""


def geometry_folder(python: Path, folder: Path) -> Path:
    """Put nngeometry, which is pure Python on torch, into a folder of its own."""
    if not (folder / "nngeometry").exists():
        command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, GEOMETRY]
        subprocess.run(command, check=True)
    return folder


def megabytes(kind: str) -> float:
    return int(Path("/proc/self/status").read_text().split(f"{kind}:")[1].split()[0]) / 1024


def network(width: float, dtype):
    from firstlight import models

    return models.build("lenet", shape=(1, 28, 28), width=width).to(dtype).eval()


def ours(model, x, batch):
    from firstlight.measures.linearized.tangent_kernel import ntk_gram

    return ntk_gram(model, x, outputs="full", show=False)


def jacobian_product(model, x, batch):
    import torch
    from torch.func import functional_call, jacrev, vmap

    weights = {name: p.detach() for name, p in model.named_parameters()}

    def outputs(w, image):
        return functional_call(model, w, (image[None],))[0]

    parts = vmap(jacrev(outputs), (None, 0), chunk_size=batch)(weights, x)
    rows = torch.cat([parts.pop(name).flatten(2).flatten(0, 1) for name in list(parts)], 1)
    return rows @ rows.T


def geometry(model, x, batch):
    from nngeometry.gram import GramMatrix
    from nngeometry.layercollection import LayerCollection
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(x), batch_size=batch)
    found = GramMatrix(
        model, loader, function=lambda batch: model(batch), layer_collection=LayerCollection.from_model(model)
    )
    data = found.data
    return data.permute(1, 0, 3, 2).reshape(10 * len(x), 10 * len(x))


JOBS = {"ours": ours, "ours64": ours, "jacrev": jacobian_product, "nngeometry": geometry}


def gram_job(job: str, data: Path, out: Path, batch: int) -> None:
    """One Gram matrix in this process, after a small one that loads everything."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import torch

    torch.set_num_threads(1)
    dtype = torch.float64 if job == "ours64" else torch.float32
    model, x = network(1, dtype), torch.from_numpy(np.load(data)["x"]).to(dtype)
    JOBS[job](model, x[:4], 4)
    before = megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    start = time.process_time()
    value = JOBS[job](model, x, batch)
    seconds = time.process_time() - start
    peak = megabytes("VmHWM") - before
    np.save(out, value.detach().numpy())
    print(json.dumps({"seconds": seconds, "megabytes": peak}))


def step_job(width: float) -> None:
    """Steps of the network, of its linearisation, and of the method of the paper."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import torch

    from firstlight.models import linearize

    torch.set_num_threads(1)
    model = network(width, torch.float32)
    line = linearize(model)
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(BATCH, 1, 28, 28, generator=generator)
    y = torch.randn(BATCH, 10, generator=generator)

    def step_of(which):
        optimiser = torch.optim.SGD(which.parameters(), lr=1e-5, momentum=0.9)

        def step():
            optimiser.zero_grad(set_to_none=True)
            (which(x) - y).square().sum(1).mean().backward()
            optimiser.step()

        return step

    weights = list(model.parameters())
    u = [torch.zeros_like(w) for w in weights]

    def one_backward_per_output():
        totals = [torch.zeros_like(w) for w in weights]
        for image, target in zip(x, y, strict=True):
            outputs = model(image[None])[0]
            for o in range(10):
                row = torch.autograd.grad(outputs[o], weights, retain_graph=o < 9)
                value = outputs[o].detach() + sum((r * v).sum() for r, v in zip(row, u, strict=True))
                for total, r in zip(totals, row, strict=True):
                    total.add_(r, alpha=float(2 * (value - target[o]) / BATCH))
        for v, total in zip(u, totals, strict=True):
            v.sub_(total, alpha=1e-5)

    jobs = {"linearised": step_of(line), "per output": one_backward_per_output, "ordinary": step_of(model)}
    print(json.dumps({name: cpu_per_call(job) for name, job in jobs.items()}))


def cpu_per_call(job) -> float:
    """Smallest of seven means, each over about half a second."""
    for _ in range(3):
        job()
    start = time.process_time()
    job()
    count = max(1, int(0.5 / max(time.process_time() - start, 1e-5)))
    found = []
    for _ in range(7 if count > 1 else 2):
        start = time.process_time()
        for _ in range(count):
            job()
        found.append((time.process_time() - start) / count)
    return min(found)


def in_own_process(*arguments: str, path: Path | None = None) -> dict:
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    more = {"PYTHONPATH": str(path)} if path else {}
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **one, **more}
    )
    return json.loads(done.stdout.splitlines()[-1])


def steps(widths: list[float]) -> None:
    print(
        f"{'LeNet, batch 32, 10 outputs':<30}{'ordinary ms':>13}{'linearised':>12}{'ratio':>8}"
        f"{'per output':>12}{'ratio':>8}"
    )
    for width in widths:
        found = in_own_process("--job", "step", "--widths", str(width))
        ordinary, line, slow = (1e3 * found[k] for k in ("ordinary", "linearised", "per output"))
        print(
            f"{f'width {width:g}':<30}{ordinary:>13.2f}{line:>12.2f}{line / ordinary:>7.2f}x{slow:>12.1f}"
            f"{slow / line:>7.0f}x",
            flush=True,
        )


def gram_of(job: str, data: Path, out: Path, batch: int, folder: Path) -> dict | str:
    """Seconds and memory of one matrix in a process of its own, or why the peer does not run."""
    if job not in JOBS:
        python = neural_tangents.python_of(folder)
        command = [python, "-c", TANGENTS_CODE, str(data), str(out), job, str(batch)]
        quiet = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(command, capture_output=True, text=True, env=quiet)
        return reason(done.stderr) if done.returncode else json.loads(done.stdout.splitlines()[-1])
    place = folder.parent / "firstlight-benchmark-nngeometry"
    path = geometry_folder(neural_tangents.python_of(folder), place) if job == "nngeometry" else None
    words = ("--job", job, "--data", str(data), "--out", str(out), "--batch", str(batch))
    return in_own_process(*words, path=path)


def tuned(job: str, place: Path, few: Path, n: int, folder: Path) -> int:
    """The peer's best number of images at a time on a part of the images; all that were tried are printed."""
    found = {}
    for batch in BATCHES.get(job, ()):
        if n % batch == 0 and TUNING % batch == 0:
            one = gram_of(job, few, place / "few.npy", batch, folder)
            if isinstance(one, dict):
                found[batch] = one["seconds"]
    if not found:
        return 20
    best = min(found, key=lambda batch: found[batch])
    tried = ", ".join(f"{batch}: {seconds:.1f}" for batch, seconds in found.items())
    print(
        f"  {job.lower()} on {TUNING} images, CPU s by images at a time: {tried}; taken: {best}", flush=True
    )
    return n if best == TUNING else best  # all at a time were best


def grams(n: int, folder: Path, skip: list[str]) -> None:
    import torch

    from firstlight.data import load

    model = network(1, torch.float32)
    print(
        f"{f'tangent kernel, {n} x 10':<42}{'CPU s':>9}{'MB':>8}{'times ours':>12}{'memory':>9}{'off by':>10}"
    )
    with tempfile.TemporaryDirectory() as folder_name:
        place = Path(folder_name)
        data, few, out = place / "data.npz", place / "few.npz", place / "out.npy"
        weights = {f"w:{name}": p.detach().numpy() for name, p in model.named_parameters()}
        x = load("mnist", split="train", n=n, seed=0).x.numpy()
        np.savez(data, x=x, **weights)
        np.savez(few, x=x[:TUNING], **weights)
        exact, mine = None, None
        for job in ("ours64", "ours", *BATCHES):
            peer = "neural-tangents" if job.isupper() else job
            if peer in skip:
                continue
            found = gram_of(job, data, out, tuned(job, place, few, n, folder), folder)
            name = f"{peer}, {job.lower()}" if job.isupper() else job
            if isinstance(found, str):
                print(f"{name}: does not run: {found}", flush=True)
                continue
            value = np.load(out)
            exact = value if exact is None else exact
            mine = found if job == "ours" else mine
            first = mine or found
            off = np.abs(value - exact).max() / np.abs(exact).max()
            print(
                f"{name:<42}{found['seconds']:>9.2f}{found['megabytes']:>8.0f}"
                f"{found['seconds'] / first['seconds']:>11.1f}x{found['megabytes'] / first['megabytes']:>8.1f}x"
                f"{off:>10.1e}",
                flush=True,
            )


def reason(text: str) -> str:
    """The error among JAX's remarks about its own frames."""
    return next((line for line in reversed(text.splitlines()) if "Error" in line), text[-200:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=600)
    parser.add_argument("--widths", type=float, nargs="+", default=[1, 4])
    parser.add_argument("--only", nargs="+", default=["step", "gram"])
    parser.add_argument("--skip", nargs="*", default=[], help="peers to leave out")
    parser.add_argument("--peer", type=Path, default=neural_tangents.FOLDER, help="folder of the peers")
    parser.add_argument("--batch", type=int, default=20, help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job == "step":
        step_job(given.widths[0])
    elif given.job:
        gram_job(given.job, given.data, given.out, given.batch)
    else:
        if "step" in given.only:
            steps(given.widths)
        if "gram" in given.only:
            grams(given.n, given.peer, given.skip)


if __name__ == "__main__":
    main()
