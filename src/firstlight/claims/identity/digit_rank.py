"""Study of the patches of one digit: does theorem 2 promise the identity?"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import identity_images
from firstlight.theory import identity as theory


@dataclass(frozen=True, kw_only=True)
class DigitRankResult(Result):
    """Rank of the padded patches of one digit, and of a flat image, by filter size."""

    sizes: Int[Tensor, " k"]
    ranks: Int[Tensor, " k"]
    flat_ranks: Int[Tensor, " k"]
    conditions: Float[Tensor, " k"]


@study("id.thm2.mnist_rank")
class DigitRank:
    """Do the patches of one standardised 7 span patch space, so that one layer learns the identity?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        dataset: str = "mnist"  # also at smoke scale: the claim is about this digit
        side: int = 28
        sizes: tuple[int, ...] = (3, 5, 7, 9, 13, 29)
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(), "paper": Config()}

    @staticmethod
    def run(cfg: Config) -> DigitRankResult:
        """Count."""
        seven = identity_images(cfg.dataset, side=cfg.side, seed=cfg.seed).training[0]
        systems = [theory.patch_system(seven, size=k) for k in cfg.sizes]
        flat = [theory.patch_system(torch.ones_like(seven), size=k) for k in cfg.sizes]
        singular = [torch.linalg.svdvals(s.patches) for s in systems]
        return DigitRankResult(
            sizes=torch.tensor(cfg.sizes),
            ranks=torch.tensor([s.rank for s in systems]),
            flat_ranks=torch.tensor([s.rank for s in flat]),
            conditions=torch.stack([v[0] / v[s.rank - 1] for v, s in zip(singular, systems, strict=True)]),
        )

    @staticmethod
    def figure(result: DigitRankResult) -> Figure:
        """Rank beside the size of patch space."""
        return curves(
            [
                Curve(name="rank for a 7", values=result.ranks.double()[None]),
                Curve(name="rank for a flat image", values=result.flat_ranks.double()[None], role="null"),
                Curve(
                    name="dimension of patch space",
                    values=result.sizes.double().square()[None],
                    role="theory",
                ),
            ],
            title="Rank of the padded patches of one digit",
            alt="The rank equals the dimension up to 13 x 13 and falls short at 29 x 29",
            x="side of the filter",
            y="rank",
            at=result.sizes.tolist(),
        )

    rules = {
        "id.thm2.mnist_rank": Rule(
            measured=lambda r: {
                **{f"rank {k}x{k}": float(v) for k, v in zip(r.sizes.tolist(), r.ranks, strict=True)},
                "largest condition number up to 13x13": float(r.conditions[r.sizes <= 13].max()),
            },
            reproduced=lambda r: bool(
                (r.ranks[r.sizes <= 13] == r.sizes[r.sizes <= 13].square()).all() and len(r.sizes) > 4
            ),
            null=lambda r: {
                f"flat image, {k}x{k}": float(v) for k, v in zip(r.sizes.tolist(), r.flat_ranks, strict=True)
            },
        )
    }
