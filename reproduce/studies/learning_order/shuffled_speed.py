"""How fast linear networks fit true and shuffled labels."""

from dataclasses import dataclass

import torch

from firstlight.data.interventions.labels import shuffled_labels
from firstlight.data.interventions.principal_components import ZCAWhitening
from firstlight.training.observers import geometric_steps
from reproduce.catalogue import study
from reproduce.evidence import Measured, by
from reproduce.studies.learning_order.common import CurveStudy, linear_accuracy, normalised


@study("interv.fig10.slower", "interv.fig10.whitened")
class ShuffledSpeed(CurveStudy):
    """Are shuffled labels fitted more slowly than true ones, and does whitening remove the difference?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """One layer, squared loss, closed form."""

        data: str = "cats_dogs"
        n: int = 5000  # more than the 768 pixels, or every labelling is fitted alike
        halve: bool = True
        steps: int = 100_000
        rate: float = 0.3  # of the stability limit 1 / d_1, in both conditions
        seed: int = 0

    drawn = {
        "true": "trained",
        "shuffled": "random labels",
        "true, whitened": "theory",
        "shuffled, whitened": "null",
    }
    axes = ("step", "training accuracy")
    at, log_axes = "step", "x"
    scales = {
        "smoke": Config(data="photos:coffee/flower", n=100, steps=100),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Exact at every time, without iterating. A ratio is that of steps to 90 % of the final accuracy."""
        steps = (0, *geometric_steps(cfg.steps, count=200)[1:])
        times = torch.tensor(steps).double()
        natural = normalised(cfg.data, cfg.n, seed=cfg.seed, halve=cfg.halve)
        accuracy = {}
        for kind, train in (("", natural), (", whitened", ZCAWhitening.fit(natural).transform(natural))):
            for name, part in (("true", train), ("shuffled", shuffled_labels(train, seed=cfg.seed))):
                accuracy[name + kind] = linear_accuracy(part, part, rate=cfg.rate, steps=steps)
        reached = {
            name: float(times[(row >= 0.9 * row[-1]).to(torch.uint8).argmax()]) + 1
            for name, row in accuracy.items()
        }
        ratios = [reached["shuffled" + kind] / reached["true" + kind] for kind in ("", ", whitened")]
        finals = [float(accuracy[name][-1]) for name in ("true", "shuffled")]
        return {
            "slowdown by shuffling": by(("natural", "whitened"), ratios),
            "steps to 90 %": by(("true labels", "shuffled labels"), [reached["true"], reached["shuffled"]]),
            "final training accuracy": by(("true labels", "shuffled labels"), finals),
            "step": times[1:],
            **{name: row[1:] for name, row in accuracy.items()},
        }
