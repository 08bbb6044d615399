"""Study of the two identities behind energy profiles."""

from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.maths.correlation import pearson
from firstlight.measures.first_layer.energy_profile import energy_profile
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by


@study("profile.invariance", "profile.cnfm_diagonal")
class Invariances(Study):
    """Is a profile blind to scale, order and rotation of the filters, and is it a diagonal of the feature matrix?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Random filters over random patches."""

        filters: int = 64
        dimension: int = 27  # a 3 x 3 colour patch
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Draw filters and a basis, transform, compare."""
        generator = generator_from("invariances", cfg.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        a = draw(cfg.filters, cfg.dimension)
        basis = torch.linalg.qr(draw(cfg.dimension, cfg.dimension)).Q
        mixer = torch.linalg.qr(draw(cfg.filters, cfg.filters)).Q
        order = torch.randperm(cfg.filters, generator=generator)
        profile = energy_profile(a, basis)
        changed = {"scaling": 7.3 * a, "permutation": a[order], "mixing": mixer @ a}
        deviations = [
            abs(1 - float(pearson(profile, energy_profile(other, basis)))) for other in changed.values()
        ]
        diagonal = (basis.mT @ a.mT @ a @ basis).diagonal()
        return {
            "change of the correlation": by(changed, deviations),
            "deviation from the diagonal": float((profile.square() - diagonal).abs().max()),
        }
