"""Numbers of weights, and what they allow."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.figures import Curve, Figure, curves
from firstlight.models import build, parameter_count

EXACT = (61_706, 217_800_970, 57_044_810, 911_834_378)
ROWS = 500_000  # ten outputs times the images of CIFAR-10; MNIST has more


@dataclass(frozen=True, kw_only=True)
class Counts(Result):
    """Weights by width.

    Parameters
    ----------
    lenet, alexnet : tuple of int
        Weights with ten outputs, for one and three channels, by width.
    rank, rank_bound : int
        Rank of the Jacobian of a narrow LeNet on more rows than weights, and min(p, rows).
    """

    lenet_widths: tuple[int, ...]
    lenet: tuple[int, ...]
    alexnet_widths: tuple[int, ...]
    alexnet: tuple[int, ...]
    rank: int
    rank_bound: int
    singular: Float[Tensor, " m"]


def jacobian(model: torch.nn.Module, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "rows p"]:
    """Derivative of every output by every weight, one dense block: the definition, for small cases."""
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def outputs(w: dict[str, Tensor], image: Tensor) -> Tensor:
        found: Tensor = functional_call(model, w, image[None])[0]
        return found

    blocks = vmap(jacrev(outputs), in_dims=(None, 0))(weights, images)
    return torch.cat([block.flatten(2).flatten(0, 1) for block in blocks.values()], dim=1)


@study("lin.counts", "lin.rank_bound")
class ParameterCounts:
    """How many weights have LeNet and AlexNet at each width, and can so many fit any labels?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        lenet_widths: tuple[int, ...] = (1, 2, 5, 10, 25, 60)
        alexnet_widths: tuple[int, ...] = (1, 2, 3, 4)
        narrow: float = 0.125
        n: int = 150  # images for the rank: ten rows each
        seed: int = 0

    scales: ClassVar = {"smoke": Config(), "desk": Config(), "paper": Config()}

    @staticmethod
    def run(cfg: Config) -> Counts:
        """Count without allocating; the rank of one small Jacobian in float64."""
        narrow = build("lenet", shape=(1, 28, 28), width=cfg.narrow, seed=cfg.seed).double()
        generator = generator_from("rank", cfg.seed)
        images = torch.randn(cfg.n, 1, 28, 28, generator=generator, dtype=torch.float64)
        values = torch.linalg.svdvals(jacobian(narrow, images))
        return Counts(
            lenet_widths=cfg.lenet_widths,
            lenet=tuple(
                parameter_count(build("lenet", shape=(1, 28, 28), width=w, device="meta"))
                for w in cfg.lenet_widths
            ),
            alexnet_widths=cfg.alexnet_widths,
            alexnet=tuple(
                parameter_count(build("alexnet", shape=(3, 224, 224), width=w, device="meta"))
                for w in cfg.alexnet_widths
            ),
            rank=int((values > 1e-10 * values[0]).sum()),
            rank_bound=min(parameter_count(narrow), 10 * cfg.n),
            singular=values,
        )

    @staticmethod
    def figure(result: Counts) -> Figure:
        """Weights of LeNet against width, with the rows of CIFAR-10 as a line."""
        rows = torch.full((1, len(result.lenet)), float(ROWS), dtype=torch.float64)
        return curves(
            [
                Curve(name="weights of LeNet", values=torch.tensor([result.lenet], dtype=torch.float64)),
                Curve(name="equations of CIFAR-10", values=rows, role="null"),
            ],
            title="From width 5 on there are more weights than equations",
            alt="Number of weights of LeNet against width on logarithmic axes",
            x="width factor",
            y="number",
            at=result.lenet_widths,
            log_x=True,
            log_y=True,
        )

    rules: ClassVar = {
        "lin.counts": Rule(
            measured=lambda r: {
                **{f"LeNet x{w}": n for w, n in zip(r.lenet_widths, r.lenet, strict=True)},
                **{f"AlexNet x{w}": n for w, n in zip(r.alexnet_widths, r.alexnet, strict=True)},
            },
            reproduced=lambda r: (r.lenet[0], r.lenet[-1], r.alexnet[0], r.alexnet[-1]) == EXACT,
            note="the published 60m and 960m count 1000 classes (E-83)",
        ),
        "lin.rank_bound": Rule(
            measured=lambda r: {
                "p x1": r.lenet[0],
                "p x2": r.lenet[1],
                "rank of a narrow Jacobian": r.rank,
                "its bound min(p, rows)": r.rank_bound,
            },
            reproduced=lambda r: (
                r.lenet[:2] == (61_706, 244_362) and r.lenet[1] < ROWS and r.rank <= r.rank_bound
            ),
        ),
    }
