"""Study of what feature matrices and gradients look at in images."""

from dataclasses import dataclass, replace

from firstlight.measures.feature_ansatz.layer_maps import layer_maps
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure
from firstlight.training.loop import accuracy
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, Series, by
from reproduce.studies.feature_ansatz.common import NetworkPlan, trained_network

SHARED = NetworkPlan(data="fashion_mnist", n=6000)  # as in ansatz_small_networks
SERIES = {
    "agreement of maps": "trained",
    "agreement of maps of the initial network": "initial",
    "agreement with edges": "other",
    "agreement with edges of the initial network": "null",
}


@study("cnfa.fig2.visual")
class VisualMaps(Study):
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
