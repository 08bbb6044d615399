"""Signals in one part of a noisy image: fixed kernel, learned kernel, learned layers, network."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.feature_ansatz.rfm_curves import Curves, curves_of, next_layer
from firstlight.claims.study import Rule, study
from firstlight.core.parallel import map_tasks
from firstlight.core.result import Result
from firstlight.data import ImageData, load
from firstlight.data.synthetic import bars_in_noise, digits_in_noise
from firstlight.figures import Curve, Figure, curves
from firstlight.kernels import ConvKernel
from firstlight.models.spec import ModelSpec
from firstlight.training import Recipe, accuracy, train_once


@dataclass(frozen=True, kw_only=True)
class Task(Result):
    """One task at one noise level with one seed.

    Parameters
    ----------
    kind, sigma : str or float
        "bars" or "digits", and the noise.
    layers : tuple of Curves
        Rounds of the machine with 0, 1, ... feature layers below it.
    cnn : float
        Test accuracy of the network.
    """

    kind: str
    sigma: float
    layers: tuple[Curves, ...]
    cnn: float

    @property
    def cntk(self) -> float:
        """Test accuracy of the fixed kernel."""
        return float(self.layers[0].test[0])

    @property
    def convrfm(self) -> float:
        """Test accuracy of the round chosen by validation error."""
        return float(self.layers[0].test[self.layers[0].best])

    def up_to(self, depth: int) -> float:
        """Test accuracy with at most `depth` feature layers, chosen by validation error."""
        some = self.layers[: depth + 1]
        chosen = min(some, key=lambda layer: float(layer.error.min()))
        return float(chosen.test[chosen.best])

    @property
    def deep(self) -> float:
        """Test accuracy of Deep ConvRFM."""
        return self.up_to(len(self.layers) - 1)

    @property
    def peeked(self) -> float:
        """What choosing round and ridge on the test set would report for ConvRFM, minus the same of the CNTK."""
        return float(self.layers[0].peeked.max() - self.layers[0].peeked[0])

    @property
    def ordered(self) -> bool:
        """Whether the validation errors fall in the order that selection enforces."""
        best = [float(layer.error.min()) for layer in self.layers]
        return best[0] <= float(self.layers[0].error[0]) and min(best) <= best[0]


@dataclass(frozen=True, kw_only=True)
class Signals(Result):
    """All tasks."""

    tasks: tuple[Task, ...]
    sigmas: tuple[float, ...]

    def gain(self, kind: str, what: str, base: str) -> dict[float, Float[Tensor, " seeds"]]:
        """Difference of two test accuracies by noise level, one entry per seed."""
        found: dict[float, list[float]] = {}
        for task in self.tasks:
            if task.kind == kind:
                found.setdefault(task.sigma, []).append(getattr(task, what) - getattr(task, base))
        return {sigma: torch.tensor(values, dtype=torch.float64) for sigma, values in found.items()}

    def mean_gain(self, kind: str, what: str, base: str) -> dict[float, float]:
        """Mean over seeds of :meth:`gain`."""
        return {s: float(v.mean()) for s, v in self.gain(kind, what, base).items()}

    def score(self, kind: str, what: str) -> float:
        """Mean test accuracy over noise levels and seeds."""
        return float(torch.tensor([getattr(t, what) for t in self.tasks if t.kind == kind]).mean())

    def by_layers(self, kind: str) -> list[float]:
        """Mean test accuracy with exactly 0 (the fixed kernel), 1, 2, ... feature-learning layers."""
        some = [t for t in self.tasks if t.kind == kind]
        found = [sum(t.cntk for t in some) / len(some)]
        for depth in range(len(some[0].layers)):
            found.append(sum(float(t.layers[depth].test[t.layers[depth].best]) for t in some) / len(some))
        return found


@study(
    "lsa.fig5a.bars",
    "lsa.fig5b.mnist",
    "convrfm.fig6a.svhn_order",
    "convrfm.fig6b.layers",
    "convrfm.monotone",
)
class LocalSignals:
    """Does learning features in a kernel help where the signal is a small part of a noisy image?

    Round, ridge and number of layers are chosen by validation squared error; what choosing on the test set would
    have reported stands beside it. Medium and high noise of the bars are sigma >= 1.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        sigmas: tuple[float, ...] = (1.0, 2.0, 4.0)  # noise of the bars
        n_bars: int = 300  # training images of the bars
        digits: str = "mnist"  # where digits come from
        digit_sigmas: tuple[float, ...] = (1.0,)  # noise of the digits
        n_digits: int = 400  # training images of the digits
        side: int = 36  # of the digits' frame
        n_valid: int = 150
        n_test: int = 400
        depth: int = 3  # layers of the CNTK
        rounds: int = 2
        feature_layers: int = 1  # layers of random filters, 16 each
        filters: int = 16
        agop_images: int = 100  # gradients at so many images
        epochs: int = 15  # of the network, Adam
        n_seeds: int = 2  # for the bars; the digits have one
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            sigmas=(1.0, 2.0), n_bars=24, digits="photos", n_digits=24, side=36, n_valid=16, n_test=16, depth=2,
            rounds=1, filters=4, agop_images=8, epochs=1, n_seeds=1,
        ),
        "desk": Config(),
        "paper": Config(
            sigmas=(0.25, 0.5, 1.0, 2.0, 4.0),
            n_bars=500, n_digits=2000, digit_sigmas=(0.25, 0.5, 1.0, 2.0, 4.0), side=42, n_valid=500, n_test=2000,
            rounds=5, feature_layers=2, filters=64, agop_images=2000, epochs=500, n_seeds=5,
        ),
    }  # fmt: skip

    @staticmethod
    def run(cfg: Config) -> Signals:
        """All noise levels and seeds, side by side."""
        bars = [("bars", s, seed) for s in cfg.sigmas for seed in range(cfg.n_seeds)]
        digits = [("digits", s, 0) for s in cfg.digit_sigmas]
        tasks = map_tasks(partial(_task, cfg), [*digits, *bars], label="Noise levels")
        return Signals(tasks=tuple(tasks), sigmas=cfg.sigmas)

    @staticmethod
    def figure(result: Signals) -> Figure:
        """Test accuracy on bars against noise."""
        series = []
        roles = (("CNTK", "cntk", "null"), ("ConvRFM", "convrfm", "trained"),
                 ("Deep ConvRFM", "deep", "other"), ("network", "cnn", "random labels"))  # fmt: skip
        for name, field, role in roles:
            rows = [
                [getattr(t, field) for t in result.tasks if t.kind == "bars" and t.sigma == s]
                for s in result.sigmas
            ]
            series.append(Curve(name=name, values=torch.tensor(rows).T, role=role))
        return curves(
            series,
            title="Bars in noise",
            alt="Test accuracy falls with noise, least for the machines that learn features",
            x="noise level",
            y="test accuracy",
            at=result.sigmas,
            log_x=True,
        )

    rules: ClassVar = {
        "lsa.fig5a.bars": Rule(
            measured=lambda r: {
                f"gain at {s:g}": g for s, g in r.mean_gain("bars", "convrfm", "cntk").items()
            },
            reproduced=lambda r: all(
                g > 0.05 for s, g in r.mean_gain("bars", "convrfm", "cntk").items() if s >= 1
            ),
            partly=lambda r: all(
                g >= 0.02 for s, g in r.mean_gain("bars", "convrfm", "cntk").items() if s in (1, 2)
            ),
            spread=lambda r: {
                f"gain at {s:g}": float(g.std(correction=0))
                for s, g in r.gain("bars", "convrfm", "cntk").items()
            },
            null=lambda r: {
                "chosen on test": sum(t.peeked for t in r.tasks if t.kind == "bars")
                / sum(t.kind == "bars" for t in r.tasks),
                "network": r.score("bars", "cnn"),
            },
        ),
        "lsa.fig5b.mnist": Rule(
            measured=lambda r: {
                "ConvRFM - CNTK": max(r.mean_gain("digits", "convrfm", "cntk").values()),
                "Deep - ConvRFM": max(r.mean_gain("digits", "deep", "convrfm").values()),
            },
            reproduced=lambda r: (
                all(g > 0 for g in r.mean_gain("digits", "convrfm", "cntk").values())
                and all(g >= 0 for g in r.mean_gain("digits", "deep", "convrfm").values())
                and 0.02 <= max(r.mean_gain("digits", "deep", "convrfm").values()) <= 0.08
            ),
            partly=lambda r: max(r.mean_gain("digits", "convrfm", "cntk").values()) >= 0.02,
            null=lambda r: {
                "chosen on test": max(t.peeked for t in r.tasks if t.kind == "digits"),
                "network": r.score("digits", "cnn"),
            },
        ),
        "convrfm.fig6a.svhn_order": Rule(
            measured=lambda r: {k: r.score("digits", k) for k in ("cntk", "cnn", "convrfm", "deep")},
            reproduced=lambda r: (  # a mean over no tasks is NaN, and NaN is in no order
                r.score("svhn", "cntk")
                < r.score("svhn", "cnn")
                < r.score("svhn", "convrfm")
                < r.score("svhn", "deep")
            ),
            partly=lambda r: r.score("digits", "convrfm") > r.score("digits", "cntk"),
            note="SVHN needs the user's files; digits in noise stand for it, so at most the reduced rule can hold",
        ),
        "convrfm.fig6b.layers": Rule(
            measured=lambda r: {f"{k} layers": v for k, v in enumerate(r.by_layers("bars"))},
            reproduced=lambda r: all(
                b >= a
                for kind in ("bars", "digits")
                for a, b in zip(r.by_layers(kind), r.by_layers(kind)[1:], strict=False)
            ),
            partly=lambda r: r.by_layers("bars")[2] >= r.by_layers("bars")[1] - 0.01,
            null=lambda r: {f"digits, {k} layers": v for k, v in enumerate(r.by_layers("digits"))},
            note="exactly so many feature layers, none chosen; SVHN and EMNIST are not fetched",
        ),
        "convrfm.monotone": Rule(
            measured=lambda r: {"share of tasks in order": sum(t.ordered for t in r.tasks) / len(r.tasks)},
            reproduced=lambda r: all(t.ordered for t in r.tasks),
            null=lambda r: {
                "share in order on test": sum(t.cntk <= t.convrfm <= t.deep for t in r.tasks) / len(r.tasks)
            },
            note="true by construction on the split that selects (validation squared error); not on unseen images",
        ),
    }


def _splits(cfg: "LocalSignals.Config", kind: str, sigma: float, seed: int) -> list[ImageData]:
    sizes = {"train": cfg.n_bars, "valid": cfg.n_valid, "test": cfg.n_test}
    if kind == "bars":
        return [bars_in_noise(n, sigma=sigma, seed=cfg.seed + seed, split=s) for s, n in sizes.items()]
    seen, unseen = (
        load(cfg.digits, split=split, seed=0).map(lambda x: x.mean(1, keepdim=True))
        for split in ("train", "test")
    )
    both = digits_in_noise(seen, cfg.n_digits + cfg.n_valid, sigma=sigma, seed=cfg.seed + seed, side=cfg.side)
    index = torch.arange(len(both))
    test = digits_in_noise(
        unseen, min(cfg.n_test, len(unseen)), sigma=sigma, seed=cfg.seed + seed, side=cfg.side
    )
    return [both.take(index[: cfg.n_digits]), both.take(index[cfg.n_digits :]), test]


def _task(cfg: "LocalSignals.Config", what: tuple[str, float, int]) -> Task:
    kind, sigma, seed = what
    splits = _splits(cfg, kind, sigma, seed)
    cnn = _network(cfg, splits, seed)
    layers = []
    for layer in range(cfg.feature_layers + 1):
        kernel = ConvKernel(depth=cfg.depth - layer)
        found = curves_of(
            splits[0], splits[1], splits[2], kernel=kernel, rounds=cfg.rounds, agop_images=cfg.agop_images,
            seed=cfg.seed + seed,
        )  # fmt: skip
        layers.append(found)
        if layer < cfg.feature_layers:
            splits = next_layer(
                splits, found.metrics[found.best], filters=cfg.filters, size=3, seed=cfg.seed + seed
            )
    return Task(kind=kind, sigma=sigma, layers=tuple(layers), cnn=cnn)


def _network(cfg: "LocalSignals.Config", splits: list[ImageData], seed: int) -> float:
    train, _, test = splits
    spec = ModelSpec(
        name="cnfa_cnn",
        classes=train.n_classes,
        shape=train.shape,
        options={"depth": cfg.depth, "channels": 32},
    )
    recipe = Recipe(optimiser="adam", lr=1e-3, batch_size=32, epochs=cfg.epochs, seed=cfg.seed + seed)
    trained = train_once(spec, train, recipe, show=False)
    return accuracy(trained.into(spec(recipe.seed)), test)
