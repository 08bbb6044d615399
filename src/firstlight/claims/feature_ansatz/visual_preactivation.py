"""What the map of a feature matrix is."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from, global_seed
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import PatchGeometry
from firstlight.measures.feature_ansatz import feature_matrix, patch_operator_map


@dataclass(frozen=True, kw_only=True)
class MapIdentity(Result):
    """Largest relative difference of map and pre-activation norm, convolution by convolution."""

    differences: Float[Tensor, " cases"]


@study("vis.cnfm_is_preactivation_norm")
class MapIsPreactivation:
    """Is the patch map of W^T W the norm of the pre-activations?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Random convolutions of several geometries."""

        n_images: int = 3
        side: int = 12
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(n_images=8, side=32), "paper": Config(n_images=8, side=32)}

    @staticmethod
    def run(cfg: Config) -> MapIdentity:
        """Compare the two on random images."""
        shape = (cfg.n_images, 3, cfg.side, cfg.side)
        x = torch.rand(shape, generator=generator_from("maps", cfg.seed), dtype=torch.float64)
        found = []
        for filters, size, stride, padding in ((8, 3, 1, 1), (40, 3, 2, 0), (5, 5, 1, 2), (64, 7, 2, 3)):
            with global_seed("maps", cfg.seed):
                conv = nn.Conv2d(3, filters, size, stride=stride, padding=padding, bias=False).double()
            seen = patch_operator_map(feature_matrix(conv), x, PatchGeometry.of(conv))
            norm = conv(x).detach().square().sum(1).sqrt()
            found.append(float(((seen - norm).abs() / norm).max()))
        return MapIdentity(differences=torch.tensor(found, dtype=torch.float64))

    @staticmethod
    def figure(result: MapIdentity) -> Figure:
        """Draw the differences."""
        return curves(
            [Curve(name="relative difference", values=result.differences.clamp(min=1e-17)[None])],
            title="Map of the feature matrix against the norm of the pre-activations",
            alt="Differences at the level of rounding for four convolutions",
            x="convolution",
            y="largest relative difference",
            log_y=True,
        )

    rules = {
        "vis.cnfm_is_preactivation_norm": Rule(
            measured=lambda r: {"largest relative difference": float(r.differences.max())},
            reproduced=lambda r: float(r.differences.max()) < 1e-8,
        )
    }
