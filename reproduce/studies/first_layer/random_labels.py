"""Study of random labels: is the profile the same when there is nothing to learn?"""

import dataclasses
from dataclasses import dataclass

import torch

from firstlight.data.images import ImageData
from firstlight.data.interventions.labels import random_labels
from firstlight.maths.correlation import null_spread, pearson
from firstlight.models.building import ModelSpec
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.training.recipe import Recipe
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured
from reproduce.studies.first_layer.common import bank, basis, between, images, mean, network_seed, within


@study(
    "profile.table2.random_labels",
    "profile.table2.random_vs_init",
    "profile.fig17.binary_vgg",
    "profile.fig18.resnet_random",
    "profile.sec_b5.overfit_random",
)
class RandomLabels(Study):
    """Do networks that memorise random labels learn the profile of networks with true labels?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Random labels must be memorised, so few images and many epochs."""

        dataset: str = "cifar10"
        pair: str = "cats_dogs"
        n_images: int = 500
        epochs: int = 120  # 60 left a quarter of the random labels of two classes unlearned
        batch_size: int = 32
        model: str = "small"
        residual_width: float = 0.25
        residual_images: int = 300
        residual_epochs: int = 40
        seed: int = 0

    scales = {
        "smoke": Config(
            dataset="photos", pair="photos", n_images=40, epochs=1, residual_images=40, residual_epochs=1
        ),
        "desk": Config(n_images=300, residual_epochs=60),  # 40 left one seed at 89 %
        "night": Config(n_images=5000, epochs=120, model="vgg11_bn", batch_size=128, residual_images=2000),
    }  # fmt: skip

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train on true and on random labels: ten classes, two classes, a residual network."""
        ten = images(cfg.dataset, cfg.n_images, seed=cfg.seed)
        two = images(cfg.pair, cfg.n_images, seed=cfg.seed)
        few = images(cfg.dataset, cfg.residual_images, seed=cfg.seed)
        recipe = Recipe(lr=0.1, batch_size=cfg.batch_size, epochs=cfg.epochs, seed=network_seed(cfg.seed))
        slow = dataclasses.replace(recipe, epochs=cfg.residual_epochs)
        plain = ModelSpec(name=cfg.model, shape=ten.shape)
        residual = dataclasses.replace(
            plain, name="resnet18", first_scale=0.25, options={"width": cfg.residual_width}
        )
        return {
            **_compared("ten classes", plain, ten, recipe),
            **_compared("two classes", plain, two, recipe),
            **_compared("residual", residual, few, slow),
            "unrelated profiles": 2 * null_spread(27),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw both kinds of profile."""
        roles = {"true": "trained", "random": "random labels"}
        return curves(
            [
                Curve(
                    name=f"{n} labels",
                    values=torch.cat(evidence.arrays[f"ten classes, {n} profiles"]),
                    role=role,
                )
                for n, role in roles.items()
            ],
            title="True and random labels",
            alt="Profiles of networks trained with true and with random labels",
            x="patch component",
            y="energy",
        )


def _compared(name: str, spec: ModelSpec, data: ImageData, recipe: Recipe) -> dict[str, float | torch.Tensor]:
    """Profiles of a network with true labels and of two with random ones."""
    spec = dataclasses.replace(spec, classes=data.n_classes, shape=data.shape)
    pca = basis(data)
    true = bank(spec, 1, data, recipe, label=f"{name}, true labels")
    others = dataclasses.replace(recipe, seed=recipe.seed + 500)
    random = bank(spec, 2, random_labels(data, seed=recipe.seed), others, label=f"{name}, random labels")
    a, b = true.profiles(pca), random.profiles(pca)
    root = pca.variances.sqrt()
    return {
        f"true and random, {name}": mean(between(a, b)),
        f"random and random, {name}": mean(within(b)),
        f"random and initial, {name}": mean(between(b, random.initial_profiles(pca))),
        f"random and root of variances, {name}": mean(pearson(b, root.expand_as(b))),
        f"random labels fitted, {name}": random.fitted,
        f"true labels fitted, {name}": true.fitted,
        f"{name}, true profiles": a,
        f"{name}, random profiles": b,
    }
