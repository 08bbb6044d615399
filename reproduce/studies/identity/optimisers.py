"""Study of the optimiser: same initial weights, same loss at the end, same answers?"""

import itertools
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from firstlight.data.synthetic.digits import correlated_images
from firstlight.measures.copy_or_memorise.identity_score import image_outputs, similarities
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.heatmap import heatmap
from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.identity.common import DESK_28, SMOKE, trained

PAIRS = "agreement of the answers by pair of optimisers"


def _pairs(outputs: list[Tensor]) -> Tensor:
    """Mean Pearson between the answers of every two networks."""
    table = torch.eye(len(outputs), dtype=torch.float64)
    for i, j in itertools.combinations(range(len(outputs)), 2):
        table[i, j] = table[j, i] = similarities(outputs[i], outputs[j]).mean()
    return table


@study("id.fig32.optimisers")
class Optimisers(Study):
    """Do optimisers that reach the same loss from the same initial weights give the same answers?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Optimisers from one set of initial weights, and one optimiser from as many sets."""

        base: IdentityTask
        optimisers: tuple[tuple[str, float, float], ...] = (  # name, rate, momentum
            ("sgd", 0.01, 0.9),
            ("adam", 1e-3, 0.0),
            ("rmsprop", 1e-3, 0.0),
            ("adamax", 2e-3, 0.0),
        )
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE),
        # one seed of RMSprop had not converged after 2000 steps
        "desk": Config(base=replace(DESK_28, steps=4000, stop_below=9e-4)),
    }
    unit = "Pearson, or loss"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train with each optimiser, and with one of them from other initial weights."""

        def task(optimiser: tuple[str, float, float], seed: int) -> IdentityTask:
            name, lr, momentum = optimiser
            return replace(cfg.base, seed=seed, depth=5, optimiser=name, lr=lr, momentum=momentum)

        n = len(cfg.optimisers)
        adam = next(one for one in cfg.optimisers if one[0] == "adam")
        others = [1000 * (cfg.seed + 1) + i for i in range(n)]  # no other run of the study has these
        tasks = [*(task(one, cfg.seed) for one in cfg.optimisers), *(task(adam, seed) for seed in others)]
        networks = trained(tasks, label="Optimisers")
        images = tasks[0].images
        zero = torch.zeros(1, dtype=torch.float64)
        noise = correlated_images(images.training[0], zero, draws=20, seed=cfg.seed)[0].float()
        answers = [image_outputs(network.model, noise) for network in networks]
        unseen = [image_outputs(network.model, images.unseen) for network in networks[:n]]
        pairs = _pairs(answers[:n])
        names = [f"{name} {lr:g}" for name, lr, _ in cfg.optimisers]
        return {
            "smallest agreement": float(pairs.min()),
            "smallest agreement over initial weights": float(_pairs(answers[n:]).min()),
            "smallest agreement on unseen images": float(_pairs(unseen).min()),
            "loss": by(names, [network.after.loss for network in networks[:n]]),
            PAIRS: pairs,
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """The table of pairs."""
        names = [str(point) for point in evidence.points("loss")]
        return heatmap(
            torch.stack(evidence.arrays[PAIRS]).mean(0),
            rows=names,
            columns=names,
            title="Agreement of the answers to images orthogonal to the training image",
            alt="Pearson correlation of every pair of optimisers",
        )
