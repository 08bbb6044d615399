"""Convolutional random features on CIFAR-10: accuracy and CPU seconds, and what M learned from labels adds.

    python benchmarks/random_features.py [--n 10000] [--filters 256] [--rounds 2] [--seeds 1]

For every seed of images and filters, the test accuracy of ridge regressions on features whose filters have as
covariance M: the identity; the covariance of the patches; its inverse (round 0); M of the last round learned from the
labels; and M of the same round learned from shuffled labels. All see the same images and the same normal noise, and
choose their ridge by squared error on a tenth held out; none sees a test image before the end. The differences between
the last three, image by image, come with a standard error.
"""

import argparse
import time

import torch
from torch import Tensor

import firstlight
from firstlight._internal.executor import single_thread
from firstlight.data.interventions import shuffled_labels
from firstlight.kernels.random_features import FeatureMachine, inverse_covariance, learn_features
from firstlight.kernels.rfm import Round
from firstlight.maths.correlation import cosine
from firstlight.maths.patches import PatchGeometry, patch_moments


def told(done: Round) -> None:
    values = torch.linalg.eigvalsh(done.metric).flip(0)
    shares = " ".join(f"{v:.2f}" for v in (values[:5] / values.sum()).tolist())
    print(
        f"  round {done.number}: error {done.error:.4f}, accuracy {done.accuracy:.4f}, ridge {done.ridge:g}, leading "
        f"shares of M {shares}",
        flush=True,
    )


def run(n: int, n_test: int, filters: int, size: int, rounds: int, seed: int) -> None:
    train = firstlight.load("cifar10", split="train", n=n, seed=seed)
    test = firstlight.load("cifar10", split="test", n=n_test, seed=seed)
    held = n // 10
    geometry = PatchGeometry.square(size)

    def fitted(y: Tensor, begin: Tensor | None, count: int) -> tuple[FeatureMachine, float]:
        targets = torch.nn.functional.one_hot(y, 10).double()
        start = time.process_time()
        machine = learn_features(
            train.x[held:], targets[held:], train.x[:held], targets[:held], geometry=geometry, n_filters=filters,
            rounds=count, patience=None, start=begin, seed=seed, show=False,
            listen=told if count else lambda done: None,
        )  # fmt: skip
        return machine, time.process_time() - start

    def judged(machine: FeatureMachine) -> Tensor:
        return (machine(test.x).argmax(1) == test.y).double()

    whitened, seconds = fitted(train.y, None, 0)
    right = {"inverse covariance": judged(whitened)}
    print(
        f"inverse covariance: {right['inverse covariance'].mean():.4f}, {seconds:.0f} CPU s to fit",
        flush=True,
    )
    d = geometry.dimension(3)
    for name, metric in (
        ("identity", torch.eye(d, dtype=torch.float64)),
        ("covariance", patch_moments(train.x[:400].double(), geometry).covariance),
    ):
        right[name] = judged(fitted(train.y, metric, 0)[0])
        print(f"{name}: {right[name].mean():.4f}", flush=True)
    learned = {}
    for name, y in (("labels", train.y), ("shuffled labels", shuffled_labels(train, seed=seed).y)):
        machine, seconds = fitted(y, None, rounds)
        learned[name] = machine.rounds.rounds[-1].metric
        right[name] = judged(fitted(train.y, learned[name], 0)[0])
        print(f"{name}: {right[name].mean():.4f}, {seconds:.0f} CPU s for {rounds + 1} rounds", flush=True)
    for other in ("shuffled labels", "inverse covariance"):
        gain = right["labels"] - right[other]
        print(f"labels above {other}: {gain.mean():+.4f} ± {gain.std() / n_test**0.5:.4f}", flush=True)
    flat = {name: metric.flatten() for name, metric in learned.items()}
    inverse = inverse_covariance(train.x[held:], geometry).flatten()
    print(
        f"cosine of M with that of shuffled labels {cosine(flat['labels'], flat['shuffled labels']):.3f}, with the "
        f"inverse covariance {cosine(flat['labels'], inverse):.3f}; seed {seed}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--test", type=int, default=10_000)
    parser.add_argument("--filters", type=int, default=256)
    parser.add_argument("--size", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    with single_thread():
        for seed in range(given.seeds):
            run(given.n, given.test, given.filters, given.size, given.rounds, seed)


if __name__ == "__main__":
    main()
