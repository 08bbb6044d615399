"""Study of what feature matrices and gradients look at in images."""

from dataclasses import dataclass, replace

from firstlight.claims.conditions import all_of
from firstlight.claims.evidence import Evidence, Measured, Series, by
from firstlight.claims.feature_ansatz.common import NetworkPlan, trained_network
from firstlight.claims.quantities import average, lowest, value
from firstlight.claims.rules import Rule
from firstlight.claims.study import Study, study
from firstlight.measures.feature_ansatz.layer_maps import layer_maps
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure
from firstlight.training.loop import accuracy

SHARED = NetworkPlan(data="fashion_mnist", n=6000)  # as in ansatz_small_networks
SERIES = {
    "agreement of maps": "trained",
    "agreement of maps of the initial network": "initial",
    "agreement with edges": "other",
    "agreement with edges of the initial network": "null",
}


@study
class MapsOfFeatures(Study):
    """Do feature matrix and gradients highlight the same places, and is the first layer an edge detector?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """At desk scale a network of ansatz_small_networks, which the store holds by then."""

        network: NetworkPlan = SHARED
        images: int = 64
        seed: int = 0

    scales = {
        "smoke": Config(network=NetworkPlan(data="photos", n=64, channels=4, epochs=1), images=8),
        "desk": Config(),
        "paper": Config(
            network=NetworkPlan(data="cifar10", n=50_000, channels=64, lr=2e-4, epochs=50, milestones=()),
            images=1000,
        ),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train, then compare the maps on unseen images; the initial network is the control."""
        spec, trained, test = trained_network(replace(cfg.network, seed=cfg.seed))
        networks = {"": trained.into(spec(cfg.seed)), " of the initial network": spec(cfg.seed)}
        images = test.sample(min(cfg.images, len(test)), seed=cfg.seed).x
        measured: dict[str, Series | float] = {"test accuracy": accuracy(networks[""], test)}
        for name, model in networks.items():
            layers = patch_gradients(model, images, layers="convolutions", seed=cfg.seed, show=False).layers
            maps = layer_maps(model, layers, images)
            points = range(1, len(maps) + 1)
            measured[f"agreement of maps{name}"] = by(points, [float(m.agreement.mean()) for m in maps])
            measured[f"agreement with edges{name}"] = by(points, [float(m.sobel.mean()) for m in maps])
        return measured

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw both correlations, layer by layer, with the initial network."""
        return dots(
            [f"convolution {point}" for point in evidence.points("agreement of maps")],
            [Dots.of(name, list(evidence.table(name).unbind(1)), role=role) for name, role in SERIES.items()],
            title="Where the layers look",
            alt="Correlation of the maps of feature matrix, gradients and Sobel edges by layer",
            y="Pearson correlation of maps",
        )

    rules = (
        Rule(
            claim="cnfa.fig2.visual",
            effect=all_of(lowest("agreement of maps") > 0.8, value("agreement with edges", at=1) > 0.5),
            reduced=lowest("agreement of maps") > 0.8,
            null=average("agreement of maps") > average("agreement of maps of the initial network"),
            requires=value("test accuracy") > 0.6,
            note="A small network on Fashion-MNIST stands for VGG11 and AlexNet on ImageNet.",
        ),
    )
