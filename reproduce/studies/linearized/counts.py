"""Numbers of weights, and what they allow."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from firstlight._internal.seeds import generator_from
from firstlight.models.building import build, parameter_count
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by

PUBLISHED = {"LeNet x1": 60e3, "LeNet x60": 216e6, "AlexNet x1": 60e6, "AlexNet x4": 960e6}
ROWS = 500_000  # ten outputs times the images of CIFAR-10; MNIST has more
RATIO = "weights over the published number"
FULL = "rank over its bound"


def jacobian(model: nn.Module, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "rows p"]:
    """Derivative of every output by every weight, one dense block: the definition, for small cases."""
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def outputs(w: dict[str, Tensor], image: Tensor) -> Tensor:
        row: Tensor = functional_call(model, w, image[None])[0]
        return row

    blocks = vmap(jacrev(outputs), in_dims=(None, 0))(weights, images)
    return torch.cat([block.flatten(2).flatten(0, 1) for block in blocks.values()], dim=1)


def smooth(model: nn.Module) -> nn.Module:
    """Tanh in place of ReLU, means in place of maxima."""
    for name, module in list(model.named_children()):
        if isinstance(module, nn.ReLU):
            setattr(model, name, nn.Tanh())
        elif isinstance(module, nn.MaxPool2d):
            setattr(model, name, nn.AvgPool2d(2))
    return model


def rank_over_bound(model: nn.Module, n: int, *, seed: int) -> float:
    """Rank of the Jacobian on random images over min(p, rows)."""
    generator = generator_from("rank", seed)
    images = torch.randn(n, 1, 28, 28, generator=generator, dtype=torch.float64)
    rows = jacobian(model, images)
    values = torch.linalg.svdvals(rows)
    return int((values > 1e-10 * values[0]).sum()) / min(rows.shape)


@study("lin.counts", "lin.rank_bound")
class Counts(Study):
    """How many weights have LeNet and AlexNet at each width, and can so many fit any labels?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Counts need no memory; the ranks are those of one narrow network."""

        lenet_widths: tuple[int, ...] = (1, 2, 5, 10, 25, 60)
        alexnet_widths: tuple[int, ...] = (1, 4)
        narrow: float = 0.125
        few: int = 20  # images with fewer rows than weights
        many: int = 115  # with more
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Count without allocating; ranks of small Jacobians in float64."""
        weights = {
            width: parameter_count(build("lenet", shape=(1, 28, 28), width=width, device="meta"))
            for width in cfg.lenet_widths
        }
        counts = {f"LeNet x{width}": count for width, count in weights.items()} | {
            f"AlexNet x{width}": parameter_count(
                build("alexnet", classes=1000, shape=(3, 224, 224), width=width, device="meta")
            )
            for width in cfg.alexnet_widths
        }

        def narrow() -> nn.Module:
            return build("lenet", shape=(1, 28, 28), width=cfg.narrow, seed=cfg.seed).double()

        ranks = {
            "smooth units and few images": rank_over_bound(smooth(narrow()), cfg.few, seed=cfg.seed),
            "smooth units and many images": rank_over_bound(smooth(narrow()), cfg.many, seed=cfg.seed),
        }
        return {
            "weights of LeNet": by(weights, list(weights.values())),
            RATIO: by(PUBLISHED, [counts[name] / number for name, number in PUBLISHED.items()]),
            FULL: by(ranks, list(ranks.values())),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Weights of LeNet against width, with the rows of CIFAR-10 as a line."""
        weights = evidence.table("weights of LeNet")
        return curves(
            [
                Curve(name="weights of LeNet", values=weights),
                Curve(name="equations of CIFAR-10", values=torch.full_like(weights, ROWS), role="null"),
            ],
            title="From width 5 on there are more weights than equations",
            alt="Number of weights of LeNet against width on logarithmic axes",
            x="width factor",
            y="number",
            at=[float(width) for width in evidence.points("weights of LeNet")],
            log_x=True,
            log_y=True,
        )
