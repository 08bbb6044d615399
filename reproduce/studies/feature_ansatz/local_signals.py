"""Study of signals in one part of a noisy image: fixed kernel, learned kernel, learned layers, network."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from firstlight._internal.executor import map_tasks
from firstlight._internal.result import Result
from firstlight.data.catalogue import load
from firstlight.data.synthetic.bars import bars_in_noise
from firstlight.data.synthetic.digits import digits_in_noise
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.training.loop import accuracy
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.feature_ansatz.common import (
    DESK_NETWORK,
    ConvRFM,
    PlainNetwork,
    Splits,
    grey,
    plain_network,
    stages_of,
)

DESK_MACHINE = ConvRFM(agop_images=100)


@dataclass(frozen=True, kw_only=True)
class Task(Result):
    """Test accuracies on one task at one noise level.

    Parameters
    ----------
    cntk, convrfm, deep, rotated, network : float
        Of the fixed kernel, the kernel of the best round, the best number of feature layers, the kernel of
        the best round with its metric rotated at random, and the network.
    by_layers : tuple of float
        With exactly 0 (the fixed kernel), 1, 2, ... feature-learning layers.
    is_ordered : bool
        Whether the validation errors fall in the order that selection enforces.
    """

    cntk: float
    convrfm: float
    deep: float
    rotated: float
    network: float
    by_layers: tuple[float, ...]
    is_ordered: bool


@study("lsa.fig5a.bars", "lsa.fig5b.mnist", "convrfm.fig6b.layers", "convrfm.monotone")
class LocalSignals(Study):
    """Does learning features in a kernel help where the signal is a small part of a noisy image?

    Round, ridge and number of layers are chosen by validation squared error. Medium and high noise of the bars are
    sigma >= 1. The null is the learned metric with random eigenvectors.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Both tasks with their noise levels."""

        sigmas: tuple[float, ...] = (1.0, 2.0, 4.0)  # noise of the bars
        n_bars: int = 300
        digits: str = "mnist"  # where digits come from
        digit_sigmas: tuple[float, ...] = (1.0,)
        n_digits: int = 300
        side: int = 36  # of the digits' frame
        n_valid: int = 150
        n_test: int = 600
        machine: ConvRFM = DESK_MACHINE
        network: PlainNetwork = DESK_NETWORK
        seed: int = 0

    scales = {
        "smoke": Config(
            sigmas=(1.0, 2.0), n_bars=24, digits="photos", n_digits=24, n_valid=16, n_test=16,
            machine=ConvRFM(rounds=1, filters=4, agop_images=8), network=PlainNetwork(depth=2, epochs=1),
        ),
        "desk": Config(),
        "night": Config(
            sigmas=(0.5, 1.0, 2.0, 4.0), n_bars=500, n_digits=1000, digit_sigmas=(0.5, 1.0, 2.0), n_valid=500,
            n_test=2000, machine=ConvRFM(rounds=3, filters=16, agop_images=100),
        ),
    }  # fmt: skip

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Measure all noise levels side by side."""
        wanted = [("digits", s) for s in cfg.digit_sigmas] + [("bars", s) for s in cfg.sigmas]
        tasks = map_tasks(partial(_task, cfg), wanted, label="Noise levels")
        measured = {
            "share of tasks in order": sum(task.is_ordered for task in tasks) / len(tasks),
            "share of tasks in order on test images": sum(t.cntk <= t.convrfm <= t.deep for t in tasks)
            / len(tasks),
        }
        digits = tasks[: len(cfg.digit_sigmas)]
        return {
            **measured,
            **_by_noise("digits", cfg.digit_sigmas, digits),
            **_by_noise("bars", cfg.sigmas, tasks[len(digits) :]),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw the test accuracy on bars against noise."""
        roles = {
            "CNTK": "null", "ConvRFM": "trained", "Deep ConvRFM": "other", "network": "random labels",
        }  # fmt: skip
        return curves(
            [
                Curve(name=name, values=evidence.table(f"{name} on bars"), role=role)
                for name, role in roles.items()
            ],
            title="Bars in noise",
            alt="Test accuracy falls with noise, least for the machines that learn features",
            x="noise level",
            y="test accuracy",
            at=[float(point) for point in evidence.points("CNTK on bars")],
            log_x=True,
        )


def _by_noise(kind: str, sigmas: Sequence[float], tasks: Sequence[Task]) -> Measured:
    """Gains and accuracies by noise level, and accuracies by layers as means over noise levels."""

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    layers = list(zip(*(task.by_layers for task in tasks), strict=True))
    return {
        f"gain on {kind}": by(sigmas, [t.convrfm - t.cntk for t in tasks]),
        f"gain on {kind} with rotated metric": by(sigmas, [t.rotated - t.cntk for t in tasks]),
        f"gain of depth on {kind}": by(sigmas, [t.deep - t.convrfm for t in tasks]),
        f"accuracy on {kind} by layers": by(range(len(layers)), [mean(values) for values in layers]),
        f"accuracy on {kind} with rotated metric": mean([t.rotated for t in tasks]),
        f"CNTK on {kind}": by(sigmas, [t.cntk for t in tasks]),
        f"ConvRFM on {kind}": by(sigmas, [t.convrfm for t in tasks]),
        f"Deep ConvRFM on {kind}": by(sigmas, [t.deep for t in tasks]),
        f"network on {kind}": by(sigmas, [t.network for t in tasks]),
    }


def _splits(cfg: LocalSignals.Config, kind: str, sigma: float) -> Splits:
    if kind == "bars":
        sizes = {"train": cfg.n_bars, "valid": cfg.n_valid, "test": cfg.n_test}
        drawn = {s: bars_in_noise(n, sigma=sigma, seed=cfg.seed, split=s) for s, n in sizes.items()}
        return Splits(**drawn)
    seen, unseen = (grey(load(cfg.digits, split=split, seed=0)) for split in ("train", "test"))
    both = digits_in_noise(seen, cfg.n_digits + cfg.n_valid, sigma=sigma, seed=cfg.seed, side=cfg.side)
    test = digits_in_noise(unseen, min(cfg.n_test, len(unseen)), sigma=sigma, seed=cfg.seed, side=cfg.side)
    index = torch.arange(len(both))
    return Splits(train=both.take(index[: cfg.n_digits]), valid=both.take(index[cfg.n_digits :]), test=test)


def _task(cfg: LocalSignals.Config, what: tuple[str, float]) -> Task:
    splits = _splits(cfg, *what)
    stages = stages_of(splits, cfg.machine, depth=cfg.network.depth, seed=cfg.seed)
    first, errors = stages[0], [stage.best.error for stage in stages]
    cntk = first.test_accuracy(first.rounds[0])
    scores = [stage.test_accuracy(stage.best) for stage in stages]
    network = plain_network(splits.train, cfg.network, seed=cfg.seed)[1]
    return Task(
        cntk=cntk,
        convrfm=scores[0],
        deep=scores[errors.index(min(errors))],
        rotated=first.test_accuracy(first.rotated(seed=cfg.seed)),
        network=accuracy(network, splits.test),
        by_layers=(cntk, *scores),
        is_ordered=errors[0] <= first.rounds[0].error and min(errors) <= errors[0],
    )
