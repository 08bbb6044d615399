"""Outputs of network and linearisation on their way through the same training."""

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.devices import device_of
from firstlight._internal.executor import map_tasks
from firstlight.models.building import ModelSpec
from firstlight.models.linearized import linearize
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.training.loop import train
from firstlight.training.observers import geometric_steps
from firstlight.training.recipe import Recipe
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.linearized.common import factor
from reproduce.studies.linearized.pairs import LOSS, MOMENTUM
from reproduce.studies.linearized.tasks import Task, parts_of

ZERO_OR_NOT = Task(n=300, n_valid=100, n_test=200, binary=True)
OTHER = 1000  # added to the seed of the second network
DISTANCE, MEANS, NETWORKS = "distance of outputs", "distance of mean outputs", "distance of two networks"


class OutputRecorder:
    """Outputs on given images at given steps."""

    def __init__(self, images: Float[Tensor, "n c h w"], steps: tuple[int, ...]) -> None:
        self.images, self.steps = images, frozenset(steps)
        self.seen: list[Tensor] = []

    def __call__(self, step: int, model: nn.Module) -> None:
        """Record if the step is wanted."""
        if step in self.steps:
            self.seen.append(model(self.images.to(device_of(model)))[:, 0].cpu().double())


def _paths(width: float, *, cfg: "Trajectories.Config", at: tuple[int, ...]) -> Tensor:
    """Outputs of the network, of its linearisation and of another network: 3 x steps x images."""
    part, _, test = parts_of(cfg.task, seed=cfg.seed)
    spec = ModelSpec(name="lenet", classes=1, shape=test.shape, options={"width": width})
    recipe = Recipe(
        lr=cfg.rate, momentum=MOMENTUM, loss=LOSS, batch_size=None, steps=cfg.steps, seed=cfg.seed
    )  # fmt: skip
    paths = []
    for model in (spec(cfg.seed), linearize(spec(cfg.seed)), spec(cfg.seed + OTHER)):
        recorder = OutputRecorder(test.x, at)
        train(model, part.x, part.targets, recipe, observers=[recorder], show=False, fused=True)
        paths.append(torch.stack(recorder.seen))
    return torch.stack(paths)


@study("lin.figA2.trajectories")
class Trajectories(Study):
    """Do network and linearisation give more similar outputs all along their training when they are wide?

    Full-batch descent on zero against the rest. Two networks of different seeds are the null: they become
    alike too, since they learn the same answers.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Pairs by width, at one rate, with outputs on unseen images along the way."""

        task: Task = ZERO_OR_NOT
        widths: tuple[float, ...] = (0.25, 2)
        rate: float = 0.01
        steps: int = 100
        recorded: int = 20
        seed: int = 0

    scales = {
        "smoke": Config(
            task=Task(data="photos", n=16, n_valid=8, n_test=8, binary=True), widths=(0.25, 1), steps=4, recorded=4
        ),
        "desk": Config(),
    }  # fmt: skip

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train both models and another network; distances are means over images and recorded steps."""
        at = geometric_steps(cfg.steps, count=cfg.recorded)
        paths = torch.stack(
            map_tasks(partial(_paths, cfg=cfg, at=at), list(cfg.widths), label="Trajectories")
        )
        network, linear, other = paths.unbind(1)  # each widths x steps x images
        points = [factor(width) for width in cfg.widths]
        apart = (network - linear).abs().mean(2)
        return {
            DISTANCE: by(points, apart.mean(1)),
            MEANS: by(points, (network.mean(2) - linear.mean(2)).abs().mean(1)),
            NETWORKS: by(points, (network - other).abs().mean((1, 2))),
            "movement of the network": by(points, (network - network[:, :1]).abs().mean((1, 2))),
            "distance by step": apart,
            "steps": torch.tensor(at),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Distance of the outputs by step, for every width."""
        widths = evidence.points(DISTANCE)
        return curves(
            [
                Curve(
                    name=f"width x{width}",
                    values=torch.stack([seed[i] for seed in evidence.arrays["distance by step"]]),
                    shade=i / max(len(widths) - 1, 1),
                )
                for i, width in enumerate(widths)
            ],
            title="Distance of the outputs of network and linearisation",
            alt="Mean absolute difference of outputs by training step, one curve per width",
            x="step",
            y="mean |f - f_lin|",
            at=evidence.arrays["steps"][0].tolist(),
        )
