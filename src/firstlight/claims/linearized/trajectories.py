"""Outputs of network and linearisation on their way through the same training."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.claims.linearized.sweep import label
from firstlight.claims.linearized.tasks import Part, Task, parts_of
from firstlight.claims.linearized.twins import LOSS, MOMENTUM
from firstlight.claims.spread import sd
from firstlight.claims.study import Rule, study
from firstlight.core.parallel import map_tasks
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.models import ModelSpec, linearize
from firstlight.training import Recipe, geometric_steps, train

DIGITS = Task(n=500, n_valid=100, n_test=200, binary=True)


@dataclass(frozen=True, kw_only=True)
class Trajectories(Result):
    """Mean absolute differences of outputs on unseen images, by seed and width; some also by step.

    Parameters
    ----------
    distance : Tensor of shape (seeds, widths, steps)
        Between network and linearisation, at each recorded step.
    mean_distance : Tensor of shape (seeds, widths)
        Between their outputs averaged over the images, mean over the steps.
    moved : Tensor of shape (seeds, widths)
        Of the network from its start, mean over the steps.
    strangers : Tensor of shape (seeds, widths)
        Between networks of two seeds, mean over the steps.
    """

    steps: tuple[int, ...]
    widths: tuple[float, ...]
    distance: Float[Tensor, "seeds widths steps"]
    mean_distance: Float[Tensor, "seeds widths"]
    moved: Float[Tensor, "seeds widths"]
    strangers: Float[Tensor, "seeds widths"]

    @property
    def overall(self) -> Float[Tensor, "seeds widths"]:
        """Distance, mean over the steps."""
        return self.distance.mean(2)


class OutputRecorder:
    """Outputs on given images at given steps."""

    def __init__(self, images: Float[Tensor, "n c h w"], steps: tuple[int, ...]) -> None:
        self.images, self.steps = images, frozenset(steps)
        self.seen: list[Tensor] = []

    def __call__(self, step: int, model: nn.Module) -> None:
        """Record if the step is wanted."""
        if step in self.steps:
            self.seen.append(model(self.images)[:, 0].double())


def _path(model: nn.Module, train_part: Part, probe: Tensor, recipe: Recipe, at: tuple[int, ...]) -> Tensor:
    recorder = OutputRecorder(probe, at)
    train(model, train_part.x, train_part.targets, recipe, observers=[recorder], show=False, fused=True)
    return torch.stack(recorder.seen)


def _pair(task: tuple[float, int], *, cfg: "OutputTrajectories.Config", at: tuple[int, ...]) -> Tensor:
    """Paths of both models on the first seed's images: 2 x steps x images."""
    width, seed = task
    train_part, _, test = parts_of(cfg.task, seed=cfg.seed)
    spec = ModelSpec(name="lenet", classes=1, shape=test.shape, options={"width": width})
    recipe = Recipe(
        lr=cfg.rate, momentum=MOMENTUM, loss=LOSS, batch_size=None, steps=cfg.steps, seed=seed
    )  # fmt: skip
    models = (spec(seed), linearize(spec(seed)))
    return torch.stack([_path(model, train_part, test.x, recipe, at) for model in models])


@study("lin.figA2.trajectories")
class OutputTrajectories:
    """Do network and linearisation give more similar outputs all along their training when they are wide?

    Full-batch descent on zero against the rest. Two networks of different seeds are the null: they become
    alike too, since they learn the same answers.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        task: Task = DIGITS
        widths: tuple[float, ...] = (0.25, 2.0)
        rate: float = 0.01
        steps: int = 100
        recorded: int = 20
        seeds: int = 2
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            task=Task(data="photos", n=16, n_valid=8, n_test=8, binary=True), widths=(0.25, 1.0), steps=4, recorded=4
        ),
        "desk": Config(),
        "paper": Config(
            task=Task(n=59_000, n_valid=1000, n_test=10_000, binary=True),
            widths=(1.0, 2.0, 5.0, 10.0, 25.0, 60.0),
            steps=2000,
            seeds=5,
        ),
    }  # fmt: skip

    @staticmethod
    def run(cfg: Config) -> Trajectories:
        """Train both models from each start; images stay the same, so that networks can be compared."""
        at = geometric_steps(cfg.steps, count=cfg.recorded)
        seeds = range(cfg.seed, cfg.seed + cfg.seeds)
        tasks = [(w, s) for s in seeds for w in cfg.widths]
        paths = torch.stack(map_tasks(partial(_pair, cfg=cfg, at=at), tasks, label="Trajectories"))
        paths = paths.reshape(
            cfg.seeds, len(cfg.widths), *paths.shape[1:]
        )  # seeds widths models steps images
        network, linear = paths[:, :, 0], paths[:, :, 1]
        return Trajectories(
            steps=at,
            widths=cfg.widths,
            distance=(network - linear).abs().mean(3),
            mean_distance=(network.mean(3) - linear.mean(3)).abs().mean(2),
            moved=(network - network[:, :, :1]).abs().mean((2, 3)),
            strangers=(network - network.roll(1, 0)).abs().mean((2, 3)),
        )

    @staticmethod
    def figure(result: Trajectories) -> Figure:
        """Distance of the outputs by step, for every width."""
        roles = ("random labels", "trained", "other", "theory", "null", "initial")
        return curves(
            [
                Curve(name=f"width {label(w)}", values=result.distance[:, i], role=roles[i % len(roles)])
                for i, w in enumerate(result.widths)
            ],
            title="Distance of the outputs of network and linearisation",
            alt="Mean absolute difference of outputs by training step, one curve per width",
            x="step",
            y="mean |f - f_lin|",
            at=result.steps,
        )

    rules: ClassVar = {
        "lin.figA2.trajectories": Rule(
            measured=lambda r: {
                **{
                    f"mean |f - f_lin| {label(w)}": float(r.overall[:, i].mean())
                    for i, w in enumerate(r.widths)
                },
                **{
                    f"of the mean outputs {label(w)}": float(r.mean_distance[:, i].mean())
                    for i, w in enumerate(r.widths)
                },
            },
            reproduced=lambda r: bool((r.mean_distance.mean(0).diff() < 0).all()),
            partly=lambda r: float(r.overall.mean(0)[-1]) < float(r.overall.mean(0)[0]),
            spread=lambda r: {
                f"mean |f - f_lin| {label(w)}": sd(r.overall[:, i]) for i, w in enumerate(r.widths)
            },
            null=lambda r: {
                **{f"two seeds {label(w)}": float(r.strangers[:, i].mean()) for i, w in enumerate(r.widths)},
                **{f"moved {label(w)}": float(r.moved[:, i].mean()) for i, w in enumerate(r.widths)},
            },
            note="the supplementary figure is not available (E-81): the rule is on the distance between the outputs "
            "averaged over images, the weaker one on single images; the same rate at all widths",
        )
    }
