"""Speed and memory of all-layer AGOPs beside unfold + vmap(jacrev), the way of the paper's scripts.

Each side runs in a process of its own, on one thread, so that its CPU seconds and its peak memory are
its own. The baseline unfolds the input of one convolution after the other, takes the Jacobian of all
outputs with respect to all patches, and sums the outer products; `vmap` takes several numbers of images at
a time, and the fastest counts. Both sides are measured in turn; medians, and the range of the ratios.

    python benchmarks/ansatz.py [--networks vgg11 resnet18 alexnet] [--turns 3] [--inspect]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.func import jacrev, vmap
from torch.nn import functional

# side of the images, images in the comparison, target ratio
NETWORKS = {"vgg11": (32, 32, 10.0), "resnet18": (32, 16, 20.0), "alexnet": (224, 8, 10.0)}
CHUNKS = (None, 8, 4, 2, 1)  # images that `vmap` takes at a time; None is all of them
CLASSES = 10


def network(name: str) -> nn.Module:
    from firstlight import models

    side = NETWORKS[name][0]
    return models.build(name, classes=CLASSES, shape=(3, side, side), initialiser="kaiming_normal").eval()


def one_backward_per_output(
    model: nn.Module, images: torch.Tensor, chunk: int | None
) -> dict[str, list[float]]:
    """Trace and norm of every AGOP; they follow from small matrices, as do the ansatz correlations."""
    from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients

    found = {}
    for layer in patch_gradients(model, images, layers="convolutions").layers:
        product = layer.covariance[0] @ (layer.reduced[0] @ layer.reduced[0].T)
        found[layer.name] = [float(product.trace()), float((product * product.T).sum().sqrt())]
    return found


def unfold_and_jacrev(model: nn.Module, images: torch.Tensor, chunk: int | None) -> dict[str, list[float]]:
    found = {}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Conv2d):
            agop = _summed_outer_products(model, layer, images, chunk) / len(images)
            found[name] = [float(agop.trace()), float(torch.linalg.vector_norm(agop, dtype=torch.float64))]
    return found


def _summed_outer_products(
    model: nn.Module, layer: nn.Conv2d, images: torch.Tensor, chunk: int | None
) -> torch.Tensor:
    seen: list[torch.Tensor] = []
    handle = layer.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    with torch.no_grad():
        model(images)
    handle.remove()
    h = seen[0]
    patches = functional.unfold(h, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    with torch.no_grad():
        shape = layer(h[:1]).shape
    filters = layer.weight.detach().flatten(1)

    def outputs(patches_of_one: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        def forward(x: torch.Tensor) -> torch.Tensor:
            z = filters @ patches_of_one
            return (z if layer.bias is None else z + layer.bias[:, None]).reshape(shape)

        layer.forward = forward
        try:
            return model(image[None])[0]
        finally:
            del layer.forward

    jacobian = vmap(jacrev(outputs), chunk_size=chunk)(patches, images)
    rows = jacobian.permute(2, 0, 1, 3).flatten(1)
    return (rows @ rows.T).detach()


SIDES = {"firstlight": one_backward_per_output, "unfold + vmap(jacrev)": unfold_and_jacrev}


def memory_megabytes(kind: str) -> float:
    """Memory of this process alone, now (VmRSS) or at its peak (VmHWM)."""
    return int(Path("/proc/self/status").read_text().split(f"{kind}:")[1].split()[0]) / 1024


def measure(side: str, name: str, n: int, chunk: int | None) -> None:
    torch.set_num_threads(1)
    width = NETWORKS[name][0]
    images = torch.rand(n, 3, width, width, generator=torch.Generator().manual_seed(0))
    model = network(name).requires_grad_(False)
    SIDES[side](model, images[:1], None)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of warming up
    before, start = memory_megabytes("VmRSS"), time.process_time()
    found = SIDES[side](model, images, chunk)
    seconds = time.process_time() - start
    extra = memory_megabytes("VmHWM") - before
    print(json.dumps({"seconds": seconds, "megabytes": extra, "marks": found}))


def in_own_process(side: str, name: str, n: int, chunk: int | None = None) -> dict:
    command = [sys.executable, __file__, "--side", side, "--networks", name, "--n", str(n)]
    command += [] if chunk is None else ["--chunk", str(chunk)]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **one_thread}
    )
    return json.loads(done.stdout)


def tuned_chunk(name: str, n: int) -> int | None:
    """The number of images at a time that serves the peer best, in one run each."""
    tried = [chunk for chunk in CHUNKS if chunk is None or chunk < n]
    seconds = {chunk: in_own_process("unfold + vmap(jacrev)", name, n, chunk)["seconds"] for chunk in tried}
    words = ", ".join(f"{'all' if chunk is None else chunk}: {s:.1f} s" for chunk, s in seconds.items())
    print(f"{name}: vmap by images at a time: {words}", flush=True)
    return min(seconds, key=seconds.__getitem__)


def vector_width() -> str:
    flags = Path("/proc/cpuinfo").read_text()
    processor = flags.split("model name\t: ")[1].splitlines()[0]
    width = 512 if "avx512f" in flags else 256 if "avx2" in flags else 128
    return f"{processor}, vectors of {width} bits"


def compare(names: list[str], turns: int) -> None:
    print(f"AGOPs of all convolutions, 10 outputs: one thread, CPU seconds, {vector_width()}.")
    for name in names:
        _, n, target = NETWORKS[name]
        chunk = tuned_chunk(name, n)
        both = [[in_own_process(side, name, n, chunk) for side in SIDES] for _ in range(turns)]
        ours, theirs = (statistics.median(pair[i]["seconds"] for pair in both) for i in range(2))
        ratios = [pair[1]["seconds"] / pair[0]["seconds"] for pair in both]
        first, second = both[0]
        difference = max(
            abs(a - b) / abs(b)
            for key in second["marks"]
            for a, b in zip(first["marks"][key], second["marks"][key], strict=True)
        )
        print(f"{name}, {n} images: ours {ours:.2f} s, {first['megabytes']:.0f} MB; theirs {theirs:.2f} s, "
              f"{second['megabytes']:.0f} MB with chunks of {chunk or 'all'}; ratio "
              f"{statistics.median(ratios):.1f}x ({min(ratios):.1f} to {max(ratios):.1f}, target {target:.0f}x); "
              f"largest relative difference of norms and traces {difference:.1e}", flush=True)  # fmt: skip


def inspections() -> None:
    """Wall seconds of `inspect`, all cores, both networks of the target list."""
    from firstlight import inspect, models
    from firstlight.data import load
    from reproduce.weights.resnet50 import resnet50_imagenet, resnet50_normalised

    for name, model, images, target in (
        ("ResNet-18, 512 images of 32x32", models.build("resnet18", classes=8), load("photos", n=512), 40),
        (
            "ResNet-50 (ImageNet), 32 images of 224x224",
            resnet50_imagenet(),
            load("photos224", n=32).map(resnet50_normalised),
            75,
        ),
    ):
        start, cpu = time.perf_counter(), time.process_time()
        inspect(model, images)
        wall, used = time.perf_counter() - start, time.process_time() - cpu
        cores = torch.get_num_threads()
        print(
            f"inspect {name}: {wall:.0f} s wall, {used:.0f} CPU s, {cores} threads (target {target} s)",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--turns", type=int, default=3, help="how often both sides are measured")
    parser.add_argument("--inspect", action="store_true", help="time the whole of `inspect` instead")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--chunk", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        measure(given.side, given.networks[0], given.n, given.chunk)
    elif given.inspect:
        inspections()
    else:
        compare(given.networks, given.turns)


if __name__ == "__main__":
    main()
