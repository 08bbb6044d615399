"""Study of random labels: is the profile the same when there is nothing to learn?"""

import dataclasses
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight.claims.first_layer.support import Bank, bank, basis, between, images, sd, within
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data import ImageData
from firstlight.data.interventions import random_labels
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import PCA, null_spread, pearson
from firstlight.models import ModelSpec
from firstlight.training import Recipe


@dataclass(frozen=True, kw_only=True)
class Comparison(Result):
    """True against random labels for one architecture and data set, one number per pair."""

    true_random: Float[Tensor, " p1"]
    true_random_update: Float[Tensor, " p1"]
    random_random: Float[Tensor, " p2"]
    random_initial: Float[Tensor, " p3"]
    random_root: Float[Tensor, " p4"]
    true_profile: Float[Tensor, "nets m"]
    random_profile: Float[Tensor, "nets m"]
    true_accuracy: float
    random_accuracy: float
    moved: float


@dataclass(frozen=True, kw_only=True)
class RandomLabelResult(Result):
    """All three settings."""

    ten_classes: Comparison
    two_classes: Comparison
    residual: Comparison


@study(
    "profile.table2.random_labels",
    "profile.table2.random_vs_init",
    "profile.fig17.binary_vgg",
    "profile.fig18.resnet_random",
    "profile.sec_b5.overfit_random",
)
class RandomLabels:
    """Do networks that memorise random labels learn the profile of networks with true labels?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings; random labels must be memorised, so few images and many epochs."""

        dataset: str = "cifar10"
        pair: str = "cats_dogs"
        n_images: int = 500
        epochs: int = 120  # 60 left a quarter of the random labels of two classes unlearned
        batch_size: int = 32
        n_seeds: int = 2
        model: str = "small"
        residual_width: float = 0.25
        residual_images: int = 300
        residual_epochs: int = 40
        seed: int = 0

    scales = {
        "smoke": Config(
            dataset="photos", pair="photos", n_images=40, epochs=1, residual_images=40, residual_epochs=1
        ),
        "desk": Config(),
        "paper": Config(
            n_images=50_000, epochs=150, batch_size=256, n_seeds=3, model="vgg11_bn",
            residual_width=1.0, residual_images=50_000, residual_epochs=150,
        ),
    }  # fmt: skip

    @staticmethod
    def run(cfg: Config) -> RandomLabelResult:
        """Train pairs of ensembles, on true and on random labels."""
        ten = images(cfg.dataset, cfg.n_images, seed=cfg.seed)
        two = images(cfg.pair, cfg.n_images, seed=cfg.seed)
        recipe = Recipe(lr=0.1, batch_size=cfg.batch_size, epochs=cfg.epochs, seed=cfg.seed)
        slow = dataclasses.replace(recipe, epochs=cfg.residual_epochs)
        few = images(cfg.dataset, cfg.residual_images, seed=cfg.seed)
        wide = {"width": cfg.residual_width}
        return RandomLabelResult(
            ten_classes=_compare(cfg.model, {}, ten, recipe, cfg.n_seeds),
            two_classes=_compare(cfg.model, {}, two, recipe, cfg.n_seeds),
            residual=_compare("resnet18", wide, few, slow, cfg.n_seeds, first_scale=0.25),
        )

    @staticmethod
    def figure(result: RandomLabelResult) -> Figure:
        """Show both kinds of profile."""
        return curves(
            [
                Curve(name="true labels", values=result.ten_classes.true_profile),
                Curve(name="random labels", values=result.ten_classes.random_profile, role="random labels"),
            ],
            title="True and random labels",
            alt="Profiles of networks trained with true and with random labels",
            x="patch component",
            y="energy",
        )

    rules = {
        "profile.table2.random_labels": Rule(
            measured=lambda r: _measured(r.ten_classes),
            spread=lambda r: {"over pairs": sd(r.ten_classes.true_random)},
            null=lambda r: _null(r.ten_classes),
            reproduced=lambda r: r.ten_classes.true_random.mean() >= 0.9,
            partly=lambda r: _clearly_above_init(r.ten_classes),
        ),
        "profile.table2.random_vs_init": Rule(
            measured=lambda r: {
                "random-random": float(r.ten_classes.random_random.mean()),
                "random-init": float(r.ten_classes.random_initial.mean()),
            },
            spread=lambda r: {"random-init, over pairs": sd(r.ten_classes.random_initial)},
            null=lambda r: {"two sd of unrelated profiles": 2 * null_spread(27)},
            reproduced=lambda r: (
                r.ten_classes.random_random.mean() >= 0.9 and r.ten_classes.random_initial.abs().max() < 0.4
            ),
            partly=lambda r: r.ten_classes.random_random.mean() > 0.85,
        ),
        "profile.fig17.binary_vgg": Rule(
            measured=lambda r: _measured(r.two_classes),
            spread=lambda r: {"over pairs": sd(r.two_classes.true_random)},
            null=lambda r: _null(r.two_classes),
            reproduced=lambda r: r.two_classes.true_random.mean() >= 0.85,
            partly=lambda r: r.two_classes.true_random_update.mean() > 0.6,
        ),
        "profile.fig18.resnet_random": Rule(
            measured=lambda r: _measured(r.residual),
            spread=lambda r: {"over pairs": sd(r.residual.true_random)},
            null=lambda r: _null(r.residual),
            reproduced=lambda r: r.residual.true_random.mean() >= 0.85,
            partly=lambda r: r.residual.true_random_update.mean() > 0.6,
            note="CIFAR-10 only; at desk scale a ResNet-18 a quarter as wide, first layer started small.",
        ),
        "profile.sec_b5.overfit_random": Rule(
            measured=lambda r: {
                "plain": r.ten_classes.random_accuracy,
                "residual": r.residual.random_accuracy,
            },
            null=lambda r: {"true labels": r.ten_classes.true_accuracy},
            reproduced=lambda r: min(r.ten_classes.random_accuracy, r.residual.random_accuracy) >= 0.99,
            partly=lambda r: r.ten_classes.random_accuracy >= 0.99,
        ),
    }


def _compare(
    name: str,
    options: dict[str, float],
    data: ImageData,
    recipe: Recipe,
    n: int,
    *,
    first_scale: float = 1.0,
) -> Comparison:
    spec = ModelSpec(
        name=name, classes=data.n_classes, shape=data.shape, first_scale=first_scale, options=options
    )
    pca = basis(data)
    true = bank(spec, n, data, recipe, label=f"{name}, true labels")
    others = dataclasses.replace(recipe, seed=recipe.seed + 500)
    noise = bank(spec, n, random_labels(data, seed=recipe.seed), others, label=f"{name}, random labels")
    return _comparison(true, noise, pca)


def _comparison(true: Bank, noise: Bank, pca: PCA) -> Comparison:
    a, b = true.profiles(pca), noise.profiles(pca)
    root = pca.variances.sqrt()
    return Comparison(
        true_random=between(a, b),
        true_random_update=between(true.profiles(pca, subtract=True), noise.profiles(pca, subtract=True)),
        random_random=within(b),
        random_initial=between(b, noise.initial_profiles(pca)),
        random_root=pearson(b, root.expand_as(b)),
        true_profile=a,
        random_profile=b,
        true_accuracy=sum(true.train_accuracy) / len(true.train_accuracy),
        random_accuracy=sum(noise.train_accuracy) / len(noise.train_accuracy),
        moved=noise.moved,
    )


def _measured(found: Comparison) -> dict[str, float]:
    return {
        "true-random": float(found.true_random.mean()),
        "update only": float(found.true_random_update.mean()),
        "random labels fitted": found.random_accuracy,
    }


def _null(found: Comparison) -> dict[str, float]:
    return {
        "random-init": float(found.random_initial.mean()),
        "random with root of variances": float(found.random_root.mean()),
    }


def _clearly_above_init(found: Comparison) -> bool:
    agreed = found.true_random_update.mean()
    return bool(agreed > 0.6 and agreed > found.random_initial.mean() + 2 * null_spread(27))
