"""Study of freezing: does a random first layer hurt?"""

import dataclasses
from dataclasses import dataclass

import torch

from firstlight._internal.store.runs import Store
from firstlight.claims.conditions import all_of, within
from firstlight.claims.evidence import Evidence, Measured
from firstlight.claims.first_layer.common import images, network_seed
from firstlight.claims.quantities import value
from firstlight.claims.rules import Change, Rule
from firstlight.claims.study import Study, study
from firstlight.models.spec import ModelSpec
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.training.ensemble import train_once
from firstlight.training.loop import accuracy, predictions
from firstlight.training.recipe import Recipe

SHIFT = Change(
    "a difference of nearly zero was judged without asking whether the networks had learned anything"
)


@study
class FrozenFirstLayer(Study):
    """Does a frozen random first layer cost loss or accuracy?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Both networks start from the same weights; one keeps those of its first layer."""

        dataset: str = "cifar10"
        n_images: int = 2000
        n_test: int = 2000
        epochs: int = 20
        batch_size: int = 32
        model: str = "small"
        first: str = "0."  # names of the first layer's parameters begin so
        seed: int = 0

    scales = {
        "smoke": Config(dataset="photos", n_images=64, n_test=64, epochs=2),
        "desk": Config(n_images=800, epochs=50),  # 2000 images and 20 epochs left it at 62 %
        "paper": Config(
            n_images=50_000, n_test=10_000, epochs=150, batch_size=256, model="vgg19_bn", first="features.0."
        ),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train both networks; a third, from other weights, tells how much seeds alone differ."""
        data = images(cfg.dataset, cfg.n_images, seed=cfg.seed)
        test = images(cfg.dataset, cfg.n_test, seed=cfg.seed, split="test")
        spec = ModelSpec(name=cfg.model, classes=data.n_classes, shape=data.shape)
        full = Recipe(lr=0.1, batch_size=cfg.batch_size, epochs=cfg.epochs, seed=network_seed(cfg.seed))
        recipes = {
            "full": full,
            "frozen": dataclasses.replace(full, frozen=(cfg.first,)),
            "other weights": dataclasses.replace(full, seed=network_seed(cfg.seed, 1)),
        }
        measured: dict[str, float | torch.Tensor] = {}
        for name, recipe in recipes.items():
            net = train_once(spec, data, recipe, store=Store(), show=False)
            model = net.into(spec(net.seed))
            losses = net.history.by_epoch()
            measured |= {
                f"training loss of {name}": float(losses[-1]),
                f"test loss of {name}": float(recipe.loss_of(predictions(model, test.x), test.y)),
                f"training accuracy of {name}": accuracy(model, data),
                f"test accuracy of {name}": accuracy(model, test),
                f"curve of {name}": losses,
            }
        # a whole layer more or less of noise: how far the test accuracies of two full networks lie apart
        apart = float(measured["test accuracy of full"]) - float(measured["test accuracy of other weights"])
        chance = float(test.counts.max()) / len(test)
        return {**measured, "distance of two full networks": abs(apart), "largest class": chance}

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw both loss curves."""
        roles = {"full": "trained", "frozen": "other"}
        return curves(
            [
                Curve(name=name, values=torch.stack(evidence.arrays[f"curve of {name}"]), role=role)
                for name, role in roles.items()
            ],
            title="Training loss with and without a frozen first layer",
            alt="Two loss curves, mean and range over seeds",
            x="epoch",
            y="cross-entropy (nats)",
        )

    rules = (
        Rule(
            claim="profile.fig3.frozen_loss",
            effect=all_of(
                abs(value("training loss of frozen") - value("training loss of full"))
                < 0.1 * value("training loss of full"),
                abs(value("test loss of frozen") - value("test loss of full"))
                < 0.1 * value("test loss of full"),
            ),
            reduced=value("training accuracy of frozen") >= value("training accuracy of full") - 0.05,
            null=value("test accuracy of frozen") > value("largest class") + 0.2,
            requires=value("training accuracy of full") > 0.9,
            change=SHIFT,
        ),
        Rule(
            claim="profile.fig9.frozen_acc",
            effect=within(
                value("test accuracy of frozen") - value("test accuracy of full"), 0, tolerance=0.01
            ),
            reduced=within(
                value("test accuracy of frozen") - value("test accuracy of full"), 0, tolerance=0.02
            ),
            null=abs(value("test accuracy of frozen") - value("test accuracy of full"))
            < value("distance of two full networks") + 0.02,
            requires=value("training accuracy of full") > 0.9,
            change=SHIFT,
        ),
    )
