"""Study of the two identities behind energy profiles."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import pearson
from firstlight.measures.first_layer import energy_profile


@dataclass(frozen=True, kw_only=True)
class InvarianceResult(Result):
    """Largest deviations found."""

    scaling: float
    permutation: float
    mixing: float
    diagonal: float
    profile: Float[Tensor, " d"]


@study("profile.invariance", "profile.cnfm_diagonal")
class Invariances:
    """Is a profile blind to scale, order and rotation of the filters, and is it a diagonal of the feature matrix?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        filters: int = 64
        dimension: int = 27  # a 3 x 3 colour patch
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(), "paper": Config()}

    @staticmethod
    def run(cfg: Config) -> InvarianceResult:
        """Draw filters and a basis, transform, compare."""
        generator = generator_from("invariances", cfg.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        a = draw(cfg.filters, cfg.dimension)
        basis = torch.linalg.qr(draw(cfg.dimension, cfg.dimension)).Q
        mixer = torch.linalg.qr(draw(cfg.filters, cfg.filters)).Q
        order = torch.randperm(cfg.filters, generator=generator)
        profile = energy_profile(a, basis)

        def deviation(changed: Tensor) -> float:
            return abs(1 - float(pearson(profile, energy_profile(changed, basis))))

        diagonal = (basis.mT @ a.mT @ a @ basis).diagonal()
        return InvarianceResult(
            scaling=deviation(7.3 * a),
            permutation=deviation(a[order]),
            mixing=deviation(mixer @ a),
            diagonal=float((profile.square() - diagonal).abs().max()),
            profile=profile,
        )

    @staticmethod
    def figure(result: InvarianceResult) -> Figure:
        """Show the profile whose transforms all coincide."""
        return curves(
            [Curve(name="profile of random filters", values=result.profile[None], role="initial")],
            title="A profile that scaling, reordering and mixing leave unchanged",
            alt="A nearly flat curve",
            x="component",
            y="energy",
        )

    rules = {
        "profile.invariance": Rule(
            measured=lambda r: {"scaling": r.scaling, "permutation": r.permutation, "mixing": r.mixing},
            reproduced=lambda r: max(r.scaling, r.permutation, r.mixing) < 1e-12,
        ),
        "profile.cnfm_diagonal": Rule(
            measured=lambda r: {"largest deviation": r.diagonal}, reproduced=lambda r: r.diagonal < 1e-10
        ),
    }
