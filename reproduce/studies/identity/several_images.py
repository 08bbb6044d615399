"""Study of two and three training images: are answers mixtures of them?"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.measures.copy_or_memorise.identity_score import image_outputs
from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.identity.common import (
    DESK,
    DESK_FCN,
    SMOKE,
    SMOKE_FCN,
    trained,
)

DEEP = ("FCN with 2 images", "FCN with 3 images", "CNN with 2 images")


def explained(images: Float[Tensor, "n c h w"], training: Float[Tensor, "k c h w"]) -> float:
    """Mean R squared of images regressed on training images and a constant."""
    y = images.double().flatten(1).mT
    design = torch.cat([training.double().flatten(1).mT, torch.ones(len(y), 1, dtype=torch.float64)], 1)
    left = y - design @ torch.linalg.lstsq(design, y).solution
    total = (y - y.mean(0)).square().sum(0)
    alive = total > 0
    return float((1 - left.square().sum(0)[alive] / total[alive]).mean())


@study("id.fig38.two_three")
class SeveralImages(Study):
    """Do deep networks answer with mixtures of their two or three training images?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Deep networks of both families, and one layer for comparison."""

        base: IdentityTask = DESK_FCN
        convolutional: IdentityTask = DESK
        depth: int = 4
        cnn_depth: int = 20
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE_FCN, convolutional=SMOKE, cnn_depth=2),
        "desk": Config(),
    }
    unit = "R squared"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train on two and on three images."""
        fcn, cnn = replace(cfg.base, seed=cfg.seed), replace(cfg.convolutional, seed=cfg.seed)
        tasks = {
            DEEP[0]: replace(fcn, depth=cfg.depth, examples=2),
            DEEP[1]: replace(fcn, depth=cfg.depth, examples=3),
            DEEP[2]: replace(cnn, depth=cfg.cnn_depth, examples=2),
            "one layer with 2 images": replace(fcn, depth=1, examples=2),
        }
        networks = trained(list(tasks.values()), label="Two and three images")

        def mixture(task: IdentityTask, model: nn.Module) -> float:
            return explained(image_outputs(model, task.images.unseen), task.images.training)

        inputs = tasks[DEEP[0]].images
        return {
            "mixture": by(tasks, [mixture(net.task, net.model) for net in networks]),
            "initial mixture": by(tasks, [mixture(net.task, net.task.build()) for net in networks]),
            "mixture in the inputs themselves": explained(inputs.unseen, inputs.training),
            "loss": by(tasks, [net.after.loss for net in networks]),
        }
