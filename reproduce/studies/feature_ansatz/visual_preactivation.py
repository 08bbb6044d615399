"""Study of what the map of a feature matrix is."""

from dataclasses import dataclass

import torch
from torch import nn

from firstlight._internal.seeds import generator_from, global_seed
from firstlight.maths.patches import PatchGeometry
from firstlight.measures.feature_ansatz.ansatz import feature_matrix
from firstlight.measures.feature_ansatz.layer_maps import patch_operator_map
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by

GEOMETRIES = ((8, 3, 1, 1), (40, 3, 2, 0), (5, 5, 1, 2), (64, 7, 2, 3))  # filters, size, stride, padding


@study("vis.cnfm_is_preactivation_norm")
class VisualPreactivation(Study):
    """Is the patch map of W^T W the norm of the pre-activations?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Random images for random convolutions."""

        n_images: int = 3
        side: int = 12
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(n_images=8, side=32)}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Compare the two on convolutions of several geometries."""
        shape = (cfg.n_images, 3, cfg.side, cfg.side)
        x = torch.rand(shape, generator=generator_from("maps", cfg.seed), dtype=torch.float64)
        differences = []
        for filters, size, stride, padding in GEOMETRIES:
            with global_seed("maps", cfg.seed):
                conv = nn.Conv2d(3, filters, size, stride=stride, padding=padding, bias=False).double()
            seen = patch_operator_map(feature_matrix(conv), x, PatchGeometry.of(conv))
            norm = conv(x).detach().square().sum(1).sqrt()
            differences.append(float(((seen - norm).abs() / norm).max()))
        points = [f"{k} of {q}x{q}, stride {s}" for k, q, s, _ in GEOMETRIES]
        return {"relative difference": by(points, differences)}
