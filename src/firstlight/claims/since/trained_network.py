"""Study of one trained network: what moved, where classes separate, which filters, what probes find."""

from dataclasses import dataclass

from firstlight.claims.evidence import Measured, by
from firstlight.claims.quantities import value
from firstlight.claims.rules import Rule
from firstlight.claims.since.common import DESK, PAPER, SMOKE, NetworkPlan, trained_network
from firstlight.claims.study import Study, study
from firstlight.estimators.rfm_probe import RFMProbe
from firstlight.measures.feature_ansatz.centred_ansatz import centred_ansatz
from firstlight.measures.first_layer.master_filters import master_filters
from firstlight.measures.layers.activations import activations
from firstlight.measures.layers.class_variation import class_variation

FIRST, LAST = "3", "9"  # layers whose inputs are the first features and the last


@study
class LaterMeasures(Study):
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
        "paper": Config(plan=PAPER, images=1000),
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

    rules = (
        Rule(
            claim="since.centred",
            effect=value("centred correlation") > 0.5,
            reduced=value("centred correlation") > 0.25,
            null=value("centred correlation") > value("centred null"),
            note="Mean over hidden layers; the null rotates the gradients at random.",
        ),
        Rule(
            claim="since.collapse",
            effect=value("variation relative to the images") < 0.5,
            reduced=value("variation relative to the images") < 1,
            null=value("variation relative to the images")
            < value("variation of projections relative to the images"),
            note="In the last features, on unseen images.",
        ),
        Rule(
            claim="since.masters",
            effect=value("share of master filters") > value("share of patch components"),
            null=value("share of master filters") > value("share of master filters before training"),
            note="Six derivatives of a Gaussian against six patch components, in a first layer of 7 x 7 filters.",
        ),
        Rule(
            claim="since.probe",
            effect=value("accuracy of the feature machine") > value("accuracy of the linear probe"),
            null=value("accuracy of the feature machine") > value("chance"),
            note="On the activations behind the first convolution.",
        ),
    )
