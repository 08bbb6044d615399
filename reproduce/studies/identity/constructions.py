"""Study of networks that are the identity by construction, and of test images at a given angle."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firstlight._internal.seeds import generator_from
from firstlight.data.synthetic.digits import correlated_images
from firstlight.maths.correlation import cosine
from firstlight.models.image_to_image import identity_cnn, identity_fcn_linear, identity_fcn_relu
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured


@study("id.construction.fcn", "id.construction.cnn", "id.rho_images")
class Constructions(Study):
    """Are the written-down networks the identity, and have the test images the angle they claim?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Networks up to `depth` layers, and images at some angles."""

        depth: int = 5
        rhos: tuple[float, ...] = (0.0, 0.3, 0.9, 1.0)
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}
    unit = "largest deviation"

    @classmethod
    @torch.no_grad()
    def run(cls, cfg: Config) -> Measured:
        """Apply and compare."""
        generator = generator_from("constructions", cfg.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        def deviation(model: nn.Module, x: Tensor) -> float:
            return float((model.double()(x) - x).abs().max())

        x = draw(8, 1, 2, 5)
        makers = (identity_fcn_linear, identity_fcn_relu)
        dense = [deviation(make((1, 2, 5), depth=d), x) for make in makers for d in (1, 2, 4)]
        images = {c: draw(4, c, 9, 7) for c in (1, 3)}
        conv = [deviation(identity_cnn(c, depth=d), z) for c, z in images.items() for d in (1, cfg.depth)]
        base, rhos = draw(1, 28, 28), torch.tensor(cfg.rhos, dtype=torch.float64)
        made = correlated_images(base, rhos, draws=1, seed=cfg.seed)[:, 0].flatten(1)
        flat = base.flatten().expand_as(made)
        return {
            "deviation of the FCN": max(dense),
            "deviation of the CNN": max(conv),
            "deviation of the cosine": float((cosine(made, flat) - rhos).abs().max()),
            "deviation of the norm": float((made.norm(dim=1) / flat.norm(dim=1) - 1).abs().max()),
        }
