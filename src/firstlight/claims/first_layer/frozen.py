"""Study of freezing: does a random first layer hurt?"""

import dataclasses
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.first_layer.support import images, sd
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.models import ModelSpec
from firstlight.store import Store
from firstlight.training import Recipe, Trained, accuracy, predictions, train_ensemble


@dataclass(frozen=True, kw_only=True)
class FrozenResult(Result):
    """Loss and accuracy, one entry per network."""

    full_loss: Float[Tensor, "nets epochs"]
    frozen_loss: Float[Tensor, "nets epochs"]
    full_test_loss: Float[Tensor, " nets"]
    frozen_test_loss: Float[Tensor, " nets"]
    full_train: Float[Tensor, " nets"]
    frozen_train: Float[Tensor, " nets"]
    full_test: Float[Tensor, " nets"]
    frozen_test: Float[Tensor, " nets"]
    chance: float


@study("profile.fig3.frozen_loss", "profile.fig9.frozen_acc")
class FrozenFirstLayer:
    """Does a frozen random first layer cost loss or accuracy?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        dataset: str = "cifar10"
        n_images: int = 2000
        n_test: int = 2000
        epochs: int = 20
        batch_size: int = 32
        n_seeds: int = 3
        model: str = "small"
        first: str = "0."  # names of the first layer's parameters begin so
        seed: int = 0

    scales = {
        "smoke": Config(dataset="photos", n_images=64, n_test=64, epochs=2, n_seeds=2),
        "desk": Config(),
        "paper": Config(
            n_images=50_000, n_test=10_000, epochs=150, batch_size=256, model="vgg19_bn", first="features.0."
        ),
    }

    @staticmethod
    def run(cfg: Config) -> FrozenResult:
        """Train twins from the same weights, one with its first layer held."""
        data = images(cfg.dataset, cfg.n_images, seed=cfg.seed)
        test = images(cfg.dataset, cfg.n_test, seed=cfg.seed, split="test")
        spec = ModelSpec(name=cfg.model, classes=data.n_classes, shape=data.shape)
        recipe = Recipe(lr=0.1, batch_size=cfg.batch_size, epochs=cfg.epochs, seed=cfg.seed)
        still = dataclasses.replace(recipe, frozen=(cfg.first,))
        full = train_ensemble(spec, cfg.n_seeds, data, recipe, store=Store(), label="all layers")
        frozen = train_ensemble(spec, cfg.n_seeds, data, still, store=Store(), label="first layer frozen")

        def judged(nets: list[Trained]) -> tuple[Tensor, Tensor, Tensor]:
            models = [net.into(spec(net.seed)) for net in nets]
            losses = [float(recipe.loss_of(predictions(m, test.x), test.y)) for m in models]
            return (
                torch.tensor(losses, dtype=torch.float64),
                torch.tensor([accuracy(m, data) for m in models], dtype=torch.float64),
                torch.tensor([accuracy(m, test) for m in models], dtype=torch.float64),
            )

        full_loss, full_train, full_test = judged(full)
        frozen_loss, frozen_train, frozen_test = judged(frozen)
        return FrozenResult(
            full_loss=torch.stack([net.history.by_epoch() for net in full]),
            frozen_loss=torch.stack([net.history.by_epoch() for net in frozen]),
            full_test_loss=full_loss,
            frozen_test_loss=frozen_loss,
            full_train=full_train,
            frozen_train=frozen_train,
            full_test=full_test,
            frozen_test=frozen_test,
            chance=float(test.counts.max()) / len(test),
        )

    @staticmethod
    def figure(result: FrozenResult) -> Figure:
        """Show both loss curves."""
        return curves(
            [
                Curve(name="all layers trained", values=result.full_loss),
                Curve(name="first layer frozen", values=result.frozen_loss, role="other"),
            ],
            title="Training loss with and without a frozen first layer",
            alt="Two loss curves that nearly coincide",
            x="epoch",
            y="cross-entropy (nats)",
        )

    rules = {
        "profile.fig3.frozen_loss": Rule(
            measured=lambda r: {
                "train loss, frozen - full": float((r.frozen_loss - r.full_loss)[:, -1].mean()),
                "test loss, frozen - full": float((r.frozen_test_loss - r.full_test_loss).mean()),
                "train accuracy, frozen - full": float((r.frozen_train - r.full_train).mean()),
            },
            spread=lambda r: {
                "train loss": sd((r.frozen_loss - r.full_loss)[:, -1]),
                "test loss": sd(r.frozen_test_loss - r.full_test_loss),
            },
            null=lambda r: {"full train loss, sd over seeds": sd(r.full_loss[:, -1])},
            reproduced=lambda r: (
                abs((r.frozen_loss - r.full_loss)[:, -1].mean()) < 0.1 * r.full_loss[:, -1].mean()
                and abs((r.frozen_test_loss - r.full_test_loss).mean()) < 0.1 * r.full_test_loss.mean()
            ),
            partly=lambda r: r.frozen_train.mean() >= r.full_train.mean() - 0.05,
        ),
        "profile.fig9.frozen_acc": Rule(
            measured=lambda r: {"test accuracy, frozen - full": float((r.frozen_test - r.full_test).mean())},
            spread=lambda r: {"over seeds": sd(r.frozen_test - r.full_test)},
            null=lambda r: {
                "full, sd over seeds": sd(r.full_test),
                "largest class alone": r.chance,
            },
            reproduced=lambda r: abs((r.frozen_test - r.full_test).mean()) < 0.01,
            partly=lambda r: abs((r.frozen_test - r.full_test).mean()) < 0.02,
        ),
    }
