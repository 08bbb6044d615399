"""Planted label errors: `check_labels` beside cleanlab, at equal CPU seconds.

    python benchmarks/label_errors.py mnist [--n 2000]             a folder with 5 % random errors
    python benchmarks/label_errors.py cats_dogs [--n 10000]        5 % of CIFAR-10's cats and dogs swapped
    python benchmarks/label_errors.py cifar10 --share 0.1 [--kind asymmetric] [--n 10000]

Cleanlab scores the out-of-fold probabilities of the same network with the same recipe, in five folds, with
as many epochs as cost the same. Weights of our score were chosen with seed 10 on other draws of the data.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from firstlight import data
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.maths.correlation import roc_area
from firstlight.questions.labels.measure import check_labels
from firstlight.questions.labels.networks import LabelNetworks, plan_networks
from firstlight.questions.labels.result import LabelCheck
from firstlight.training import predictions, train

SCORE = """
import json, sys
import numpy as np
from cleanlab.rank import get_label_quality_scores
saved = np.load(sys.argv[1])
print(json.dumps(get_label_quality_scores(saved["labels"], saved["probabilities"]).tolist()))
"""
FOLDS = 5


def planted(name: str, n: int, share: float, kind: str, seed: int) -> tuple[ImageData, torch.Tensor]:
    """Images with some labels changed: to any other class, or (asymmetric) to the next one."""
    clean = data.load(name, split="train", n=n, seed=seed)
    generator = generator_from("planted", seed)
    chosen = torch.randperm(n, generator=generator)[: round(share * n)]
    step = torch.randint(1, clean.n_classes, (len(chosen),), generator=generator)
    y = clean.y.clone()
    y[chosen] = (y[chosen] + (step if kind == "symmetric" else 1)) % clean.n_classes
    return clean.replace(y=y), y != clean.y


def in_folder(images: ImageData, wrong: torch.Tensor, folder: Path) -> tuple[ImageData, torch.Tensor]:
    """The same images, written as class folders and read again as a user's are."""
    for i, (x, y) in enumerate(zip(images.x, images.y.tolist(), strict=True)):
        path = folder / images.classes[y] / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray((x[0] * 255).round().to(torch.uint8).numpy()).save(path)
    read = data.load(folder, "train")
    order = torch.tensor([int(Path(name).stem) for name in read.files])
    return read, wrong[order]


def out_of_fold(
    images: ImageData, networks: LabelNetworks, prepared: ImageData, epochs: int, seed: int
) -> np.ndarray:
    """Probabilities by networks that did not train on the image."""
    part = torch.randperm(len(images), generator=generator_from("folds", seed)) % FOLDS
    probabilities = torch.zeros(len(images), images.n_classes)
    for fold in range(FOLDS):
        model = networks.build(prepared, 1000 + fold)
        known, held = (part != fold).nonzero().flatten(), (part == fold).nonzero().flatten()
        recipe = networks.recipe(1000 + fold, len(known), epochs=epochs)
        train(model, prepared.x[known], images.y[known], recipe, show=False, fused=True)
        probabilities[held] = predictions(model, prepared.x[held], batch_size=64).softmax(1)
    return probabilities.numpy()


def cleanlab_quality(python: Path, labels: torch.Tensor, probabilities: np.ndarray) -> torch.Tensor:
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "saved.npz"
        np.savez(saved, labels=labels.numpy(), probabilities=probabilities)
        command = [str(python), "-c", SCORE, str(saved)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return torch.tensor(json.loads(done.stdout))


def first_precision(suspicion: torch.Tensor, wrong: torch.Tensor) -> float:
    """Share of wrong labels among the most suspicious 5 %."""
    first = suspicion.argsort(descending=True, stable=True)[: round(0.05 * len(wrong))]
    return float(wrong[first].double().mean())


def environment(folder: Path) -> Path:
    """Python of an environment of its own that has cleanlab."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "cleanlab"]
        subprocess.run(install, check=True)
    return python


def one_seed(name: str, given: argparse.Namespace, seed: int, python: Path) -> tuple[float, ...]:
    images, wrong = planted(name, given.n, given.share, given.kind, seed)
    with tempfile.TemporaryDirectory() as folder:
        if name == "mnist":
            images, wrong = in_folder(images, wrong, Path(folder))
    start = time.process_time()
    check: LabelCheck = check_labels(images, seed=seed, epochs=given.epochs, n_jobs=1, show=False)
    ours = time.process_time() - start
    options = {"epochs": given.epochs, "budget": None, "n_networks": 4}
    networks, prepared = plan_networks(images, None, **options, seed=seed)
    # five networks on four fifths against four on one half that also answer after half of the epochs
    epochs = max(1, round(0.64 * networks.epochs))
    start = time.process_time()
    quality = cleanlab_quality(python, images.y, out_of_fold(images, networks, prepared, epochs, seed))
    theirs = time.process_time() - start
    row = (
        roc_area(check.suspicion, wrong),
        roc_area(-quality, wrong),
        first_precision(check.suspicion, wrong),
        first_precision(-quality, wrong),
        check.planted.separation,
        ours,
        theirs,
    )
    print(f"  seed {seed}: {', '.join(f'{value:.3f}' for value in row)}", file=sys.stderr, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("mnist", "cats_dogs", "cifar10"))
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--kind", choices=("symmetric", "asymmetric"), default="symmetric")
    parser.add_argument("--epochs", type=int, help="default: as many as `check_labels` takes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--environment", type=Path, help="folder to keep cleanlab's environment in")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with nullcontext(given.environment) if given.environment else tempfile.TemporaryDirectory() as folder:
        python = environment(Path(folder))
        rows = [
            one_seed(given.what, given, seed, python)
            for seed in range(given.first, given.first + given.seeds)
        ]
    table = np.array(rows)
    spread = table.std(0, ddof=1) if len(table) > 1 else np.zeros(table.shape[1])
    print(
        f"{given.what}, n = {given.n}, {given.share:.0%} {given.kind} errors, {given.seeds} seeds (mean, sd over seeds)"
    )
    names = (
        "area under the ROC curve, ours",
        "area under the ROC curve, cleanlab",
        "wrong among the first 5 %, ours",
        "wrong among the first 5 %, cleanlab",
        "area predicted by labels we changed ourselves",
        "CPU seconds, ours",
        "CPU seconds, cleanlab",
    )
    for name, value, sd in zip(names, table.mean(0), spread, strict=True):
        print(f"  {name:<48}{value:.3f} +- {sd:.3f}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
