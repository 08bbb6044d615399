"""Speed of the learning-order tools beside what one would write without them, and label errors beside cleanlab.

All ratios come from one run, one thread, CPU seconds.

    python benchmarks/learning_order.py critical [--n 5000]        every number of components at once
    python benchmarks/learning_order.py recorder                   cost of the observer per epoch
    python benchmarks/learning_order.py neighbours [--n 50000]     discriminability, time and memory
    python benchmarks/learning_order.py labels [--n 10000]         planted label errors, with cleanlab
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from firstlight import data
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.data.interventions import ChannelNormalisation
from firstlight.maths import image_pca
from firstlight.maths.correlation import roc_area
from firstlight.measures.learning_order.accessibility import (
    AccessibilityRecorder,
    RecordAccessibility,
    history_of,
)
from firstlight.measures.learning_order.critical_component import ComponentClassifier
from firstlight.measures.learning_order.discriminability import discriminability, penultimate_features
from firstlight.models import ModelSpec, build
from firstlight.questions.order.measure import label_suspicion
from firstlight.training import Recipe, predictions, train_ensemble, train_on


def seconds_of(call: Callable[..., Any], *args: Any, **options: Any) -> tuple[float, Any]:
    start = time.process_time()
    found = call(*args, **options)
    return time.process_time() - start, found


def some_images(name: str, n: int, *, seed: int = 0) -> ImageData:
    found = data.load(name, split="train", n=n, seed=seed)
    return ChannelNormalisation.fit(found).transform(found)


# ---------------------------------------------------------------- critical component


def solved(matrix: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.cholesky_solve(right, torch.linalg.cholesky(matrix))


def critical(n: int) -> None:
    """All P from one decomposition, against one ridge classifier trained per P."""
    from sklearn.linear_model import Ridge

    train = some_images("cifar10", n)
    pca_seconds, pca = seconds_of(image_pca, train.x)
    rest, found = seconds_of(lambda: ComponentClassifier.fit(train, pca=pca).critical(train))
    ours = pca_seconds + rest
    coordinates = pca.project(train.x.flatten(1))
    targets = F.one_hot(train.y, train.n_classes).double()
    alpha = 0.1 * float(pca.variances.sum()) / pca.dimension * n
    gram, cross = coordinates.T @ coordinates, coordinates.T @ (targets - targets.mean(0))
    numbers = [round(p) for p in np.linspace(1, pca.n_components, 7)]
    trained, shared, worst = [], [], 0.0
    for p in numbers:
        part = coordinates[:, :p].contiguous().numpy()
        cost, model = seconds_of(Ridge(alpha=alpha, solver="cholesky").fit, part, targets.numpy())
        trained.append(cost)
        right = (torch.as_tensor(model.predict(part)).argmax(1) == train.y).double().mean()
        worst = max(worst, abs(float(right - found.accuracy[p - 1])))
        ridge = gram[:p, :p] + alpha * torch.eye(p, dtype=torch.float64)
        cost, _ = seconds_of(solved, ridge, cross[:p])
        shared.append(cost)
    per_p, per_p_shared = (float(np.trapezoid(costs, numbers)) for costs in (trained, shared))
    print(f"critical component of {n} images of {pca.dimension} pixels, P = 1 .. {pca.n_components}")
    print(f"  all P at once                      {ours:9.1f} s  (of which PCA {pca_seconds:.1f} s)")
    print(f"  one scikit-learn Ridge per P       {per_p:9.0f} s  {per_p / ours:8.0f}x")
    print(f"  one Cholesky per P, shared Gram    {per_p_shared:9.0f} s  {per_p_shared / ours:8.1f}x")
    print(f"  (per-P costs measured at {len(numbers)} values of P and integrated; PCA not counted for them)")
    print(f"  largest difference of accuracy at those P: {worst:.1e}")


# ---------------------------------------------------------------- recorder


def recorder(n: int) -> None:
    """Cost of an epoch with and without the observer."""
    train = some_images("cifar10", n)

    def epoch() -> tuple[float, float, float]:
        """CPU seconds of the training, of reusing its outputs, and of a forward pass for the record."""
        model = build("small", shape=train.shape, seed=0)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
        own = AccessibilityRecorder(train.x, train.y)
        start, reused = time.process_time(), 0.0
        for batch in torch.randperm(n, generator=torch.Generator().manual_seed(0)).split(32):
            outputs = model(train.x[batch])
            loss = F.cross_entropy(outputs, train.y[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            reused += seconds_of(own.batch, outputs, batch)[0]
        reused += seconds_of(own.end_epoch)[0]
        training = time.process_time() - start - reused
        return training, reused, seconds_of(own.record, model)[0]

    epoch()
    training, reused, passed = (min(column) for column in zip(*(epoch() for _ in range(3)), strict=True))
    model = build("small", shape=train.shape, seed=0)
    one_pass = min(seconds_of(predictions, model, train.x, batch_size=100)[0] for _ in range(3))
    print(f"one epoch of {n} images, small CNN: {training:.2f} s")
    print(f"  outputs reused              {reused:8.4f} s  {reused / training:+7.2%}")
    print(f"  one forward pass            {passed:8.2f} s  {passed / training:+7.1%}")
    print(f"  of which the bare pass      {one_pass:8.2f} s  {one_pass / training:+7.1%}")
    print(f"  memory of the record        {-(-n // 8)} bytes an epoch")


# ---------------------------------------------------------------- neighbours


def memory_megabytes(kind: str) -> float:
    return int(Path("/proc/self/status").read_text().split(f"{kind}:")[1].split()[0]) / 1024


def neighbours(n: int, scored: int | None) -> None:
    """Discriminability in pixels; scikit-learn on fewer images beside it."""
    from sklearn.neighbors import NearestNeighbors

    few = min(n, 3000)
    train = data.load("cifar10", split="train", n=n, seed=0)
    part = train.x[:few].flatten(1)
    ours, found = seconds_of(lambda: discriminability(part, train.y[:few], k=10))
    theirs, index = seconds_of(
        lambda: (
            NearestNeighbors(n_neighbors=11, algorithm="brute")
            .fit(part.numpy())
            .kneighbors(part.numpy(), return_distance=False)
        )
    )
    same = (train.y[torch.as_tensor(index[:, 1:])] == train.y[:few, None]).double().mean(1)
    agree = float((same == found).double().mean())
    chosen = None if scored is None else torch.arange(scored)
    whole, _ = seconds_of(discriminability, train.x, train.y, k=10, index=chosen)
    print(f"discriminability, k = 10, {train.x[0].numel()} pixels")
    print(
        f"  {few} images: ours {ours:.1f} s, scikit-learn {theirs:.1f} s ({theirs / ours:.1f}x), equal for {agree:.2%}"
    )
    told = "" if scored is None else f" for {scored} of them ({whole * n / scored:.0f} s for all)"
    peak = memory_megabytes("VmHWM") / 1024
    print(f"  {n} images: {whole:.1f} s{told}, peak memory of the whole process {peak:.2f} GB")


# ---------------------------------------------------------------- label errors


def planted(n: int, share: float, seed: int, *, halve: bool) -> tuple[ImageData, torch.Tensor]:
    clean = data.load("cats_dogs", split="train", n=n, seed=seed)
    if halve:
        clean = clean.map(lambda x: F.avg_pool2d(x, 2))
    clean = ChannelNormalisation.fit(clean).transform(clean)
    wrong = torch.zeros(n, dtype=torch.bool)
    wrong[torch.randperm(n, generator=generator_from("planted", seed))[: round(share * n)]] = True
    return clean.replace(y=torch.where(wrong, 1 - clean.y, clean.y)), wrong


def out_of_fold(spec: ModelSpec, noisy: ImageData, recipe: Recipe, folds: int) -> np.ndarray:
    """Predicted probabilities of every image by networks that did not train on it."""
    part = torch.randperm(len(noisy), generator=generator_from("folds", recipe.seed)) % folds
    found = torch.zeros(len(noisy), noisy.n_classes)
    for fold in range(folds):
        model = spec(recipe.seed + fold)
        train_on(model, noisy.take((part != fold).nonzero().flatten()), recipe, show=False)
        held = part == fold
        found[held] = predictions(model, noisy.x[held]).softmax(1)
    return found.numpy()


CLEANLAB = """
import json, sys
import numpy as np
from cleanlab.rank import get_label_quality_scores
found = np.load(sys.argv[1])
print(json.dumps(get_label_quality_scores(found["labels"], found["probabilities"]).tolist()))
"""


def cleanlab_scores(folder: Path, labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Label quality by cleanlab, in an environment of its own."""
    python = folder / "env" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "cleanlab"]
        subprocess.run(install, check=True)
    np.savez(folder / "found.npz", labels=labels, probabilities=probabilities)
    done = subprocess.run(
        [str(python), "-c", CLEANLAB, str(folder / "found.npz")],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return np.array(json.loads(done.stdout))


def labels(
    n: int, nets: int, epochs: int, seeds: range, folds: int, halve: bool, environment: Path | None
) -> None:
    """Area under the ROC curve for 5 % planted errors in cats and dogs."""
    rows = []
    with nullcontext(environment) if environment else tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            noisy, wrong = planted(n, 0.05, seed, halve=halve)
            spec = ModelSpec(name="small", classes=2, shape=noisy.shape, options={"batch_norm": True})
            recipe = Recipe(lr=0.02, momentum=0.9, batch_size=32, epochs=epochs, seed=100 * seed)
            watch = RecordAccessibility(noisy.x, noisy.y)
            ours_cost, trained = seconds_of(
                train_ensemble, spec, nets, noisy, recipe, observe=watch, n_jobs=1, show=False
            )
            history = history_of([net.records[0] for net in trained])
            late = roc_area(-history.scores, wrong)
            features = [penultimate_features(net.into(spec(net.seed)), noisy.x) for net in trained]
            joint = roc_area(label_suspicion([history.scores], noisy, features=features), wrong)
            near = roc_area(-discriminability(noisy.x, noisy.y, k=50), wrong)
            theirs_cost, held_out = seconds_of(out_of_fold, spec, noisy, recipe, folds)
            quality = cleanlab_scores(Path(folder), noisy.y.numpy(), held_out)
            rows.append(
                (late, joint, near, roc_area(-torch.from_numpy(quality), wrong), ours_cost, theirs_cost)
            )
            print(
                f"  planting {seed}: {', '.join(f'{v:.3f}' for v in rows[-1][:4])}",
                file=sys.stderr,
                flush=True,
            )
    table = np.array(rows)
    mean, spread = table.mean(0), table.std(0, ddof=1) if len(table) > 1 else np.zeros(6)
    side = 16 if halve else 32
    print(
        f"5 % planted errors in {n} cats and dogs of {side} x {side}, {len(seeds)} plantings: area under the ROC curve"
    )
    names = (
        "learned late",
        "learned late and near the other class",
        "neighbours in pixels alone",
        "cleanlab",
    )
    for name, value, sd in zip(names, mean[:4], spread[:4], strict=True):
        print(f"  {name:<40}{value:.3f} +- {sd:.3f}")
    print(
        f"  CPU seconds: ours {mean[4]:.0f} ({nets} networks), cross-validation {mean[5]:.0f} ({folds} folds)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("critical", "recorder", "neighbours", "labels"))
    parser.add_argument("--n", type=int)
    parser.add_argument("--scored", type=int, help="score only so many images; neighbours among all")
    parser.add_argument("--nets", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="first planting")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--environment", type=Path, help="folder to keep cleanlab's environment in")
    parser.add_argument("--halve", action="store_true", help="16 x 16 images for the label errors")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "critical":
        critical(given.n or 5000)
    elif given.what == "recorder":
        recorder(given.n or 2000)
    elif given.what == "neighbours":
        neighbours(given.n or 50_000, given.scored)
    else:
        labels(
            given.n or 10_000,
            given.nets,
            given.epochs,
            range(given.first, given.first + given.seeds),
            given.folds,
            given.halve,
            given.environment,
        )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
