"""Study of the patches of one digit: does theorem 2 promise the identity?"""

from dataclasses import dataclass

import torch

from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.questions.copy_or_memorise.images import identity_images
from firstlight.theory import one_convolution as theory
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by

CLAIMED = (3, 5, 7, 9, 13)


@study("id.thm2.mnist_rank")
class DigitRank(Study):
    """Do the patches of one standardised 7 span patch space, so that one layer learns the identity?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """One image, and the sides of the filters."""

        dataset: str = "mnist"  # also at smoke scale: the claim is about this digit
        side: int = 28
        sizes: tuple[int, ...] = (*CLAIMED, 29)
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Count."""
        seven = identity_images(cfg.dataset, side=cfg.side, seed=cfg.seed).training[0]
        systems = [theory.patch_system(seven, size=size) for size in cfg.sizes]
        flat = [theory.patch_system(torch.ones_like(seven), size=size) for size in cfg.sizes]
        singular = [torch.linalg.svdvals(system.patches) for system in systems]
        return {
            "rank": by(cfg.sizes, [system.rank for system in systems]),
            "missing directions": by(cfg.sizes, [system.nullity for system in systems]),
            "missing directions of a flat image": by(cfg.sizes, [system.nullity for system in flat]),
            "condition number": by(
                cfg.sizes,
                [float(v[0] / v[system.rank - 1]) for v, system in zip(singular, systems, strict=True)],
            ),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Rank beside the dimension of patch space."""
        sizes = torch.tensor([float(size) for size in evidence.points("rank")])
        flat = sizes.square() - evidence.table("missing directions of a flat image")
        return curves(
            [
                Curve(name="rank for a 7", values=evidence.table("rank")),
                Curve(name="rank for a flat image", values=flat, role="null"),
                Curve(name="dimension of patch space", values=sizes.square()[None].double(), role="theory"),
            ],
            title="Rank of the padded patches of one digit",
            alt="The rank equals the dimension up to 13 x 13 and falls short at 29 x 29",
            x="side of the filter",
            y="rank",
            at=sizes.tolist(),
        )
