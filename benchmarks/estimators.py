"""Accuracy and time of the image classifiers beside an SVM and a small network, on four data sets.

Every classifier has its defaults and the same training and test images. CPU seconds of fitting and of
predicting, one thread, over draws of the images.

    python benchmarks/estimators.py [--n 500] [--test 1000] [--draws 3] [--data digits mnist ...]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import firstlight
from firstlight._internal.seeds import generator_from
from firstlight.estimators import (
    CNTKClassifier,
    ConvRFMClassifier,
    DeepConvRFMClassifier,
    LinearizedClassifier,
)
from firstlight.training import Recipe, predictions, train_on

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class SmallNetwork:
    """The network of the tour, trained for a fixed number of steps."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> "SmallNetwork":
        images = firstlight.ImageData(
            x=torch.from_numpy(x), y=torch.from_numpy(y), classes=tuple("0123456789")
        )
        self.model = firstlight.build("small", classes=10, shape=images.shape, seed=0)
        train_on(self.model, images, Recipe(optimiser="adam", lr=2e-3, steps=600, batch_size=32), show=False)
        return self

    def score(self, x: np.ndarray, y: np.ndarray) -> float:
        chosen = predictions(self.model, torch.from_numpy(x)).argmax(1).numpy()
        return float((chosen == y).mean())


class Rows:
    """A classifier of rows, given images."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine

    def fit(self, x: np.ndarray, y: np.ndarray) -> "Rows":
        self.machine.fit(x.reshape(len(x), -1), y)
        return self

    def score(self, x: np.ndarray, y: np.ndarray) -> float:
        return float(self.machine.score(x.reshape(len(x), -1), y))


CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "SVC": lambda: Rows(SVC()),
    "small CNN": SmallNetwork,
    "CNTKClassifier": CNTKClassifier,
    "LinearizedClassifier": LinearizedClassifier,
    "ConvRFMClassifier": ConvRFMClassifier,
    "ConvRFMClassifier, Laplace": lambda: ConvRFMClassifier(family="laplace"),
    "DeepConvRFMClassifier": DeepConvRFMClassifier,
}


def images(name: str, n: int, n_test: int, seed: int) -> Arrays:
    """Draw images and labels for fitting, then for testing."""
    if name == "digits":
        digits = load_digits()
        order = torch.randperm(len(digits.target), generator=generator_from("digits", seed)).numpy()
        x, y = digits.images[order, None].astype(np.float32) / 16, digits.target[order]
        return x[:n], y[:n], x[n : n + n_test], y[n : n + n_test]
    parts = [
        firstlight.load(name, split=split, n=count, seed=seed)
        for split, count in (("train", n), ("test", n_test))
    ]
    return tuple(array for part in parts for array in (part.x.numpy(), part.y.numpy()))  # type: ignore[return-value]


def measured(make: Callable[[], Any], arrays: Arrays) -> tuple[float, float]:
    """Test accuracy, and CPU seconds of fitting and testing."""
    x, y, x_test, y_test = arrays
    begin = time.process_time()
    accuracy = make().fit(x, y).score(x_test, y_test)
    return accuracy, time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--data", nargs="+", default=["digits", "mnist", "fashion_mnist", "cifar10"])
    parser.add_argument("--classifiers", nargs="+", default=list(CLASSIFIERS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{given.n} images to fit, {given.test} to test, {given.draws} draws: accuracy (spread), CPU seconds"
    )
    with threadpool_limits(1):
        for name in given.data:
            draws = [images(name, given.n, given.test, seed) for seed in range(given.draws)]
            for title in given.classifiers:
                rows = np.array([measured(CLASSIFIERS[title], arrays) for arrays in draws])
                (accuracy, seconds), spread = rows.mean(0), rows[:, 0].std(ddof=1) if len(rows) > 1 else 0.0
                print(f"| {name} | {title} | {accuracy:.3f} ({spread:.3f}) | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
