"""Speed and memory of all-layer AGOPs beside unfold + vmap(jacrev), the way of the paper's scripts.

Each side runs in a process of its own, on one thread, so that its CPU seconds and its peak memory are
its own. The baseline unfolds the input of one convolution after the other, takes the Jacobian of all
outputs with respect to all patches, and sums the outer products.

    python benchmarks/ansatz.py [--networks vgg11 resnet18 alexnet] [--inspect]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.func import jacrev, vmap
from torch.nn import functional

# side of the images, images in the comparison (both sides take them all at a time), target ratio
NETWORKS = {"vgg11": (32, 32, 5.0), "resnet18": (32, 16, 10.0), "alexnet": (224, 8, 6.0)}
CLASSES = 10


def network(name: str) -> nn.Module:
    from firstlight import models

    side = NETWORKS[name][0]
    return models.build(name, classes=CLASSES, shape=(3, side, side), initialiser="kaiming_normal").eval()


def one_backward_per_output(model: nn.Module, images: torch.Tensor) -> dict[str, list[float]]:
    """Trace and norm of every AGOP; they follow from small matrices, as do the ansatz correlations."""
    from firstlight.measures.feature_ansatz import patch_agop

    found = {}
    for layer in patch_agop(model, images, layers="convolutions").layers:
        product = layer.covariance[0] @ (layer.reduced[0] @ layer.reduced[0].T)
        found[layer.name] = [float(product.trace()), float((product * product.T).sum().sqrt())]
    return found


def unfold_and_jacrev(model: nn.Module, images: torch.Tensor) -> dict[str, list[float]]:
    found = {}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Conv2d):
            agop = _summed_outer_products(model, layer, images) / len(images)
            found[name] = [float(agop.trace()), float(torch.linalg.vector_norm(agop, dtype=torch.float64))]
    return found


def _summed_outer_products(model: nn.Module, layer: nn.Conv2d, images: torch.Tensor) -> torch.Tensor:
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

    jacobian = vmap(jacrev(outputs))(patches, images)
    rows = jacobian.permute(2, 0, 1, 3).flatten(1)
    return (rows @ rows.T).detach()


SIDES = {"firstlight": one_backward_per_output, "unfold + vmap(jacrev)": unfold_and_jacrev}


def memory_megabytes(kind: str) -> float:
    """Memory of this process alone, now (VmRSS) or at its peak (VmHWM)."""
    return int(Path("/proc/self/status").read_text().split(f"{kind}:")[1].split()[0]) / 1024


def measure(side: str, name: str, n: int) -> None:
    torch.set_num_threads(1)
    width = NETWORKS[name][0]
    images = torch.rand(n, 3, width, width, generator=torch.Generator().manual_seed(0))
    model = network(name).requires_grad_(False)
    SIDES[side](model, images[:1])
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of warming up
    before, start = memory_megabytes("VmRSS"), time.process_time()
    found = SIDES[side](model, images)
    seconds = time.process_time() - start
    extra = memory_megabytes("VmHWM") - before
    print(json.dumps({"seconds": seconds, "megabytes": extra, "marks": found}))


def in_own_process(side: str, name: str, n: int) -> dict:
    command = [sys.executable, __file__, "--side", side, "--networks", name, "--n", str(n)]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **one_thread}
    )
    return json.loads(done.stdout)


def compare(names: list[str]) -> None:
    print("AGOPs of all convolutions, 10 outputs: one thread, CPU seconds, peak memory beyond the model,")
    print("largest relative difference of norm and trace between the two.")
    print(f"{'network':<10}{'images':>7}{'ours s':>9}{'theirs s':>10}{'ratio':>8}{'target':>8}"
          f"{'ours MB':>9}{'x4 images':>11}{'theirs MB':>11}{'share':>8}{'difference':>12}")  # fmt: skip
    for name in names:
        _, n, target = NETWORKS[name]
        ours, theirs = (in_own_process(side, name, n) for side in SIDES)
        more = in_own_process("firstlight", name, 4 * n)
        difference = max(
            abs(a - b) / abs(b)
            for key in theirs["marks"]
            for a, b in zip(ours["marks"][key], theirs["marks"][key], strict=True)
        )
        print(f"{name:<10}{n:>7}{ours['seconds']:>9.2f}{theirs['seconds']:>10.2f}"
              f"{theirs['seconds'] / ours['seconds']:>7.1f}x{target:>7.0f}x{ours['megabytes']:>9.0f}"
              f"{more['megabytes']:>11.0f}{theirs['megabytes']:>11.0f}"
              f"{ours['megabytes'] / theirs['megabytes']:>8.2f}{difference:>12.1e}", flush=True)  # fmt: skip


def inspections() -> None:
    """Wall seconds of `inspect`, all cores, both networks of the target list."""
    from firstlight import inspect, models
    from firstlight.data import load

    for name, model, images, target in (
        ("ResNet-18, 512 images of 32x32", models.build("resnet18", classes=8), load("photos", n=512), 120),
        (
            "ResNet-50 (ImageNet), 32 images of 224x224",
            models.resnet50_imagenet(),
            load("photos224", n=32).map(models.pretrained.resnet50_normalised),
            300,
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
    parser.add_argument("--inspect", action="store_true", help="time the whole of `inspect` instead")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        measure(given.side, given.networks[0], given.n)
    elif given.inspect:
        inspections()
    else:
        compare(given.networks)


if __name__ == "__main__":
    main()
