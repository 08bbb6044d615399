"""Speed and memory of the first-layer tools beside what one would write with scikit-learn.

Each side runs in a process of its own, so that its CPU seconds and its peak memory are its own.

    python benchmarks/first_layer.py [--n 50000] [--sizes 3 7] [--gigabytes 1] [--smooth | --npz images.npz]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch


def smooth_fields(n: int) -> np.ndarray:
    """Colour images of 32 x 32 pixels whose power falls with the square of the frequency."""
    rows, columns = np.fft.fftfreq(32)[:, None], np.fft.rfftfreq(32)[None, :]
    amplitude = 1 / np.maximum(np.hypot(rows, columns), 1 / 32)
    generator = np.random.default_rng(0)
    mix = np.array([[1.0, 0.2, 0.1], [1.0, 0.0, -0.2], [1.0, -0.2, 0.1]], dtype=np.float32)
    images = np.empty((n, 3, 32, 32), dtype=np.float32)
    for start in range(0, n, 1000):
        stop = min(start + 1000, n)
        noise = np.fft.rfft2(generator.standard_normal((stop - start, 3, 32, 32)))
        fields = np.fft.irfft2(noise * amplitude, s=(32, 32)).astype(np.float32)
        images[start:stop] = np.einsum("ab,nbhw->nahw", mix, fields)
    low, high = images.min(), images.max()
    return (images - low) / (high - low)


def streaming(images: np.ndarray, size: int) -> np.ndarray:
    from firstlight.maths import PatchGeometry, patch_pca

    return patch_pca(torch.from_numpy(images), PatchGeometry.square(size)).variances.numpy()


def sklearn_on_patches(images: np.ndarray, size: int, dtype: torch.dtype) -> np.ndarray:
    from sklearn.decomposition import PCA

    columns = torch.nn.functional.unfold(torch.from_numpy(images), size)
    patches = columns.permute(0, 2, 1).reshape(-1, columns.shape[1]).to(dtype)
    del columns
    fitted = PCA().fit(patches.numpy())
    return fitted.explained_variance_ * (len(patches) - 1) / len(patches)


SIDES = {
    "firstlight": streaming,
    "sklearn float64": partial(sklearn_on_patches, dtype=torch.float64),
    "sklearn float32": partial(sklearn_on_patches, dtype=torch.float32),
}


def memory_megabytes(kind: str) -> float:
    """Memory of this process alone, now (VmRSS) or at its peak (VmHWM).

    Not getrusage: that inherits the peak of the process that started this one.
    """
    return int(Path("/proc/self/status").read_text().split(f"{kind}:")[1].split()[0]) / 1024


def measure(side: str, path: str, n: int, size: int) -> None:
    torch.set_num_threads(1)
    images = np.load(path)[:n].copy()
    SIDES[side](images[:50], size)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of loading
    before, start = memory_megabytes("VmRSS"), time.process_time()
    variances = SIDES[side](images, size)
    seconds = time.process_time() - start
    extra = memory_megabytes("VmHWM") - before
    print(json.dumps({"seconds": seconds, "megabytes": extra, "variances": variances.tolist()}))


def in_own_process(side: str, path: Path, n: int, size: int) -> dict:
    command = [sys.executable, __file__, "--side", side, "--images", str(path)]
    command += ["--n", str(n), "--sizes", str(size)]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **one_thread}
    )
    return json.loads(done.stdout)


def patch_pca_table(images: np.ndarray, sizes: list[int], gigabytes: float) -> None:
    print("PCA of all patches: one thread, CPU seconds, peak memory beyond the images themselves,")
    print("largest error of a variance relative to the first (against scikit-learn in float64).")
    print(f"Comparisons run on as many images as have {gigabytes:g} GB of float32 patches.")
    c, h, w = images.shape[1:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npy"
        np.save(path, images)
        for size in sizes:
            patch_bytes = 4 * c * size**2 * (h - size + 1) * (w - size + 1)
            few = min(len(images), int(gigabytes * 1e9 / patch_bytes))
            whole = in_own_process("firstlight", path, len(images), size)
            found = {side: in_own_process(side, path, few, size) for side in SIDES}
            print(f"\n{size}x{size} patches{'images':>13}{'seconds':>9}{'MB':>8}{'ratio':>8}{'error':>10}")
            print(f"{'firstlight':<16}{len(images):>8}{whole['seconds']:>9.2f}{whole['megabytes']:>8.0f}")
            ours, exact = found["firstlight"]["seconds"], np.array(found["sklearn float64"]["variances"])
            for side, row in found.items():
                error = np.abs(np.array(row["variances"]) - exact).max() / exact[0]
                print(
                    f"{side:<16}{few:>8}{row['seconds']:>9.2f}{row['megabytes']:>8.0f}"
                    f"{row['seconds'] / ours:>7.1f}x{error:>10.1e}"
                )


def closed_form_table(images: np.ndarray, steps: int) -> None:
    """Gradient descent for the linear CNN: all steps against the closed form, on the same matrix."""
    from firstlight.maths import PatchGeometry, mean_patches
    from firstlight.theory import least_squares as ls

    torch.set_num_threads(1)
    k = mean_patches(torch.from_numpy(images[:10_000]), PatchGeometry.square(3))
    y = (torch.arange(len(k)) % 2).double()
    gram, moment = k.T @ k, k.T @ y  # the cheapest way to iterate: d x d, whatever the number of images
    rate = 0.9 / float(torch.linalg.eigvalsh(gram)[-1])
    ls.weights(ls.spectrum(k[:100]), y[:100], rate=rate, steps=1)
    start = time.process_time()
    spectral = ls.spectrum(k)
    closed = ls.weights(spectral, y, rate=rate, steps=steps)
    ours = time.process_time() - start
    start = time.process_time()
    w, step = torch.zeros_like(moment), rate * gram
    target = rate * moment
    for _ in range(steps):
        w = w - (step @ w - target)
    theirs = time.process_time() - start
    error = float((closed - w).norm() / w.norm())
    start, some, w = time.process_time(), min(steps, 2000), torch.zeros_like(moment)
    for _ in range(some):
        w = w - rate * (k.T @ (k @ w - y))
    plain = (time.process_time() - start) * steps / some
    print(f"\nLinear CNN after {steps:,} steps, {len(k):,} images, 3x3 patches: CPU seconds, one thread.")
    print(
        f"closed form {ours:.4f}   gradient descent on the d x d matrix {theirs:.1f}   ratio {theirs / ours:,.0f}x"
    )
    print(f"relative difference {error:.1e}")
    print(
        f"gradient descent on the images' matrix itself, {some:,} steps extrapolated: ratio {plain / ours:,.0f}x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=50_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[3, 7])
    parser.add_argument("--gigabytes", type=float, default=1.0, help="patches given to scikit-learn")
    parser.add_argument("--npz", help="file with an array `x` of images n c h w, instead of CIFAR-10")
    parser.add_argument("--smooth", action="store_true", help="smooth random fields instead of CIFAR-10")
    parser.add_argument("--steps", type=int, default=1_000_000, help="of gradient descent")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--images", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        measure(given.side, given.images, given.n, given.sizes[0])
        return
    if given.npz:
        images = np.load(given.npz)["x"][: given.n].astype(np.float32)
    elif given.smooth:
        images = smooth_fields(given.n)
    else:
        from firstlight.data import load

        images = load("cifar10", split="train", n=given.n, seed=0).x.numpy()
    patch_pca_table(images, given.sizes, given.gigabytes)
    closed_form_table(images, given.steps)


if __name__ == "__main__":
    main()
