"""Study of freezing: does a random first layer hurt?"""

import dataclasses
from dataclasses import dataclass

import torch

from firstlight._internal.store.runs import Store
from firstlight.models.building import ModelSpec
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.training.ensemble import train_once
from firstlight.training.loop import accuracy, predictions
from firstlight.training.recipe import Recipe
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured
from reproduce.studies.first_layer.common import images, network_seed


@study("profile.fig3.frozen_loss", "profile.fig9.frozen_acc")
class Frozen(Study):
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
