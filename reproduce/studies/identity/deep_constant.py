"""Study of the constant map inside a deep network: sizes, upper layers, borders."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from firstlight.measures.copy_or_memorise.identity_score import image_outputs, similarities
from firstlight.measures.copy_or_memorise.layer_chain import upper_outputs, with_circular_padding
from firstlight.measures.copy_or_memorise.layer_images import output_variation, resized
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, Series, by
from reproduce.studies.identity.common import DESK, NIGHT, SMOKE, trained

NEAR = 2  # pixels around the trained size


def _likeness(outputs: Tensor, target: Tensor) -> float:
    return float(similarities(outputs, target.expand_as(outputs)).mean())


@study("id.fig7.constant_sizes", "id.fig22.upper_subnets", "id.fig21.boundary_growth")
class DeepConstant(Study):
    """Where in a deep network, and from which cues, does the memorised image come?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """One deep network, shown inputs of other sizes, cut, and deprived of its borders."""

        base: IdentityTask
        depth: int = 20
        sides: tuple[int, ...] = (26, 27, 28, 29, 30)
        layers: tuple[int, ...] = (1, 2, 3, 6, 10)
        seed: int = 0

    n_seeds = 10  # upper layers differ much from seed to seed
    scales = {
        "smoke": Config(base=SMOKE, depth=3, sides=(6, 8, 10), layers=(1, 2)),
        "desk": Config(base=DESK, sides=(10, 12, 13, 14, 15, 16, 20, 24)),
        "night": Config(base=NIGHT, sides=(14, 26, 28, 30, 56)),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Probe the network before and after training."""
        task = replace(cfg.base, seed=cfg.seed, depth=cfg.depth)
        (network,) = trained([task], label="Deep network")
        before = _probed(task.build(), cfg, task)
        return {
            **_probed(network.model, cfg, task),
            **{f"initial {name}": number for name, number in before.items()},
            "loss": network.after.loss,
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Upper sub-networks."""
        names = {"likeness from upper layers": "trained", "initial likeness from upper layers": "null"}
        return curves(
            [Curve(name=name, values=evidence.table(name), role=role) for name, role in names.items()],
            title="What the top layers alone draw from arbitrary inputs",
            alt="Similarity to the training image grows with the number of top layers",
            x="top layers",
            y="Pearson to the training image",
            at=[float(layers) for layers in evidence.points("likeness from upper layers")],
        )


def _probed(model: nn.Module, cfg: DeepConstant.Config, task: IdentityTask) -> dict[str, float | Series]:
    images = task.images
    target, probes = images.training[:1], torch.cat([images.unseen, images.patterns])
    sized = {side: image_outputs(model, resized(images.unseen, side)) for side in cfg.sides}
    variation = {side: output_variation(outputs) for side, outputs in sized.items()}
    likeness = {side: _likeness(outputs, resized(target, side)) for side, outputs in sized.items()}
    near = [side for side in cfg.sides if abs(side - task.image_size) <= NEAR]
    upper = [_likeness(upper_outputs(model, probes, layers=k), target) for k in cfg.layers]
    return {
        "variation": by(variation, list(variation.values())),
        "likeness by size": by(likeness, list(likeness.values())),
        "variation near the trained size": max(variation[side] for side in near),
        "likeness near the trained size": min(likeness[side] for side in near),
        "likeness from upper layers": by(cfg.layers, upper),
        "likeness": _likeness(image_outputs(model, images.unseen), target),
        "likeness without borders": _likeness(
            image_outputs(with_circular_padding(model), images.unseen), target
        ),
    }
