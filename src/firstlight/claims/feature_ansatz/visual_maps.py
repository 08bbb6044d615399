"""What feature matrices and gradients look at in images."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.feature_ansatz.ansatz_networks import NetworkPlan, trained_network
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Dots, Figure, dots
from firstlight.measures.feature_ansatz import layer_maps, patch_agop


@dataclass(frozen=True, kw_only=True)
class MapAgreement(Result):
    """Mean over images of the correlation of maps, layer by layer, after and before training."""

    agreement: Float[Tensor, " layers"]
    sobel: Float[Tensor, " layers"]
    initial_agreement: Float[Tensor, " layers"]
    initial_sobel: Float[Tensor, " layers"]


@study("cnfa.fig2.visual")
class MapsOfFeatures:
    """Do feature matrix and gradients highlight the same places, and is the first layer an edge detector?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """A small network on crops of photographs."""

        data: str = "photos"
        n: int = 2000
        channels: int = 16
        epochs: int = 10
        images: int = 64
        seed: int = 0

    scales = {
        "smoke": Config(n=64, channels=4, epochs=1, images=8),
        "desk": Config(),
        "paper": Config(data="cifar10", n=50_000, channels=64, epochs=50, images=1000),
    }

    @staticmethod
    def run(cfg: Config) -> MapAgreement:
        """Train, then compare the maps on unseen images; the untrained twin is the control."""
        plan = NetworkPlan(data=cfg.data, n=cfg.n, channels=cfg.channels, epochs=cfg.epochs, seed=cfg.seed)
        spec, trained, test = trained_network(plan)
        images = test.sample(min(cfg.images, len(test)), seed=cfg.seed).x
        found = {}
        for name, model in (("trained", trained.into(spec(cfg.seed))), ("initial", spec(cfg.seed))):
            layers = patch_agop(model, images, layers="convolutions", seed=cfg.seed, show=False).layers
            maps = layer_maps(model, layers, images)
            found[name] = [
                torch.stack([getattr(m, what).mean() for m in maps]) for what in ("agreement", "sobel")
            ]
        return MapAgreement(
            agreement=found["trained"][0],
            sobel=found["trained"][1],
            initial_agreement=found["initial"][0],
            initial_sobel=found["initial"][1],
        )

    @staticmethod
    def figure(result: MapAgreement) -> Figure:
        """Draw both correlations, layer by layer, with the untrained twin."""
        return dots(
            [f"convolution {i + 1}" for i in range(len(result.agreement))],
            [
                Dots.of("features and gradients", list(result.agreement[:, None])),
                Dots.of("the same, untrained", list(result.initial_agreement[:, None]), role="initial"),
                Dots.of("features and edges", list(result.sobel[:, None]), role="other"),
                Dots.of("features and edges, untrained", list(result.initial_sobel[:, None]), role="null"),
            ],
            title="Where the layers look",
            alt="Correlation of the maps of feature matrix, gradients and Sobel edges by layer",
            y="Pearson correlation of maps",
        )

    rules = {
        "cnfa.fig2.visual": Rule(
            measured=lambda r: {
                "lowest correlation of maps": float(r.agreement.min()),
                "first layer and edges": float(r.sobel[0]),
            },
            reproduced=lambda r: float(r.agreement.min()) > 0.8 and float(r.sobel[0]) > 0.5,
            partly=lambda r: float(r.agreement.min()) > 0.8,
            null=lambda r: {
                "lowest correlation of maps, untrained": float(r.initial_agreement.min()),
                "first layer and edges, untrained": float(r.initial_sobel[0]),
            },
        )
    }
