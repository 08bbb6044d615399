"""Study of one trained network: what moved, where classes separate, which filters, what probes find."""

from dataclasses import dataclass

from firstlight.estimators.rfm_probe import RFMProbe
from firstlight.measures.feature_ansatz.centred_ansatz import centred_ansatz
from firstlight.measures.first_layer.master_filters import master_filters
from firstlight.measures.layers.activations import activations
from firstlight.measures.layers.class_variation import class_variation
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.since.common import DESK, SMOKE, NetworkPlan, trained_network

FIRST, LAST = "3", "9"  # layers whose inputs are the first features and the last


@study("since.centred", "since.collapse", "since.masters", "since.probe")
class TrainedNetwork(Study):
    """What do the measures of later papers say of one small network, beside their nulls?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """The network and how many images it is looked at with."""

        plan: NetworkPlan = DESK
        images: int = 100
        seed: int = 0

    scales = {
        "smoke": Config(plan=SMOKE, images=24),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train once and measure everything on unseen images."""
        trained = trained_network(cfg.plan, seed=cfg.seed)
        images = trained.test.sample(min(cfg.images, len(trained.test)), seed=cfg.seed)
        rows = [
            row
            for row in centred_ansatz(
                trained.model, images, initial=trained.initial, seed=cfg.seed, show=False
            ).rows
            if not row.is_output
        ]
        variation = class_variation(activations(trained.model, images.x), images.y, seed=cfg.seed)
        places = {name: index for index, name in enumerate(variation.layers)}
        masters = master_filters(trained.model[0].weight, images.x, seed=cfg.seed)  # type: ignore[index]
        untrained = master_filters(trained.initial[0].weight, images.x, seed=cfg.seed)  # type: ignore[index]
        seen, unseen = (
            activations(trained.model, data.x, layers=[FIRST], most=256)[FIRST]
            for data in (trained.train, trained.test)
        )
        probe = RFMProbe(random_state=cfg.seed).fit(seen.double(), trained.train.y.numpy())
        labels = trained.test.y.numpy()
        return {
            "centred correlation": sum(row.pearson for row in rows) / len(rows),
            "centred null": sum(float(row.null_pearson.mean()) for row in rows) / len(rows),
            "variation": by(variation.layers, variation.ratio),
            "variation relative to the images": float(variation.ratio[places[LAST]] / variation.ratio[0]),
            "variation of projections relative to the images": float(
                variation.projected[places[LAST]].mean() / variation.ratio[0]
            ),
            "share of master filters": masters.share,
            "share of patch components": masters.patches,
            "share of master filters before training": untrained.share,
            "accuracy of the feature machine": float(probe.score(unseen.double(), labels)),
            "accuracy of the linear probe": probe.linear_score(unseen.double(), labels),
            "chance": float(trained.test.counts.max()) / len(trained.test),
        }
