"""Study of networks that are the identity by construction, and of test images at a given angle."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.data.synthetic import correlated_images
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import cosine
from firstlight.models import identity_cnn, identity_fcn_linear, identity_fcn_relu


@dataclass(frozen=True, kw_only=True)
class ConstructionResult(Result):
    """Largest deviations."""

    fcn: float
    cnn: float
    rhos: Float[Tensor, " r"]
    cosines: Float[Tensor, " r"]
    norms: Float[Tensor, " r"]


@study("id.construction.fcn", "id.construction.cnn", "id.rho_images")
class Constructions:
    """Are the written-down networks the identity, and have the test images the angle they claim?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        depth: int = 5
        rhos: tuple[float, ...] = (0.0, 0.3, 0.9, 1.0)
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(), "paper": Config()}

    @staticmethod
    @torch.no_grad()
    def run(cfg: Config) -> ConstructionResult:
        """Apply and compare."""
        generator = generator_from("constructions", cfg.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        x = draw(8, 1, 2, 5)
        dense = [
            make((1, 2, 5), depth=d).double()
            for make in (identity_fcn_linear, identity_fcn_relu)
            for d in (1, 2, 4)
        ]
        images = {c: draw(4, c, 9, 7) for c in (1, 3)}
        deviations = [
            float((identity_cnn(c, depth=d).double()(z) - z).abs().max())
            for c, z in images.items()
            for d in (1, cfg.depth)
        ]
        base = draw(1, 28, 28)
        grid = torch.tensor(cfg.rhos, dtype=torch.float64)
        made = correlated_images(base, grid, draws=1, seed=cfg.seed)[:, 0].flatten(1)
        flat = base.flatten().expand_as(made)
        return ConstructionResult(
            fcn=max(float((m(x) - x).abs().max()) for m in dense),
            cnn=max(deviations),
            rhos=grid,
            cosines=cosine(made, flat),
            norms=made.norm(dim=1) / flat.norm(dim=1),
        )

    @staticmethod
    def figure(result: ConstructionResult) -> Figure:
        """Asked against obtained cosine."""
        return curves(
            [Curve(name="cosine obtained", values=result.cosines[None])],
            title="Test images at a given angle to the training image",
            alt="The diagonal",
            x="cosine asked for",
            y="cosine obtained",
            at=result.rhos.tolist(),
        )

    rules = {
        "id.construction.fcn": Rule(
            measured=lambda r: {"largest |f(x) - x|": r.fcn}, reproduced=lambda r: r.fcn < 1e-12
        ),
        "id.construction.cnn": Rule(
            measured=lambda r: {"largest |f(x) - x|": r.cnn}, reproduced=lambda r: r.cnn < 1e-12
        ),
        "id.rho_images": Rule(
            measured=lambda r: {
                "largest |cos - rho|": float((r.cosines - r.rhos).abs().max()),
                "largest |norm ratio - 1|": float((r.norms - 1).abs().max()),
            },
            reproduced=lambda r: (
                float((r.cosines - r.rhos).abs().max()) < 1e-6 and float((r.norms - 1).abs().max()) < 1e-6
            ),
        ),
    }
