"""Studies of labels: correlation with patches, random labels, and labels from one component."""

import dataclasses

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.data import ImageData
from firstlight.data.interventions import random_labels
from firstlight.maths import PatchGeometry, mean_patches, null_spread, patch_pca, pearson
from firstlight.models import ModelSpec
from firstlight.pages.figures import Figure, heatmap
from firstlight.theory import least_squares as ls
from firstlight.training import Recipe
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.first_layer.common import bank, basis, between, images, mean, network_seed, within
from reproduce.studies.first_layer.patch_labels import PatchProjectionLabels, label_correlation


@study("profile.fig5.label_corr")
class LabelCorrelation(Study):
    """Is class membership visible in the average patch of an image?"""

    # Each seed draws its own half of the images, so that an interval means something.
    dataset: str = "cifar10"
    n_images: int = 25_000

    scales = {"smoke": dict(dataset="photos", n_images=200)}

    def run(self) -> Measured:
        """Correlate, with true and with random labels."""
        data = images(self.dataset, self.n_images, seed=self.seed)
        pca, geometry = basis(data), PatchGeometry.square(3, padding=1)
        true = label_correlation(data, pca, geometry)
        random = label_correlation(random_labels(data, seed=self.seed), pca, geometry)
        return {
            "median correlation": float(true.abs().median()),
            "95th percentile": float(true.abs().quantile(0.95)),
            "median with random labels": float(random.abs().median()),
            "correlations": true,
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw the matrix of the first seed."""
        matrix = evidence.arrays["correlations"][0]
        return heatmap(
            matrix,
            rows=[str(i + 1) for i in range(len(matrix))],
            columns=[str(i + 1) for i in range(matrix.shape[1])],
            title="Correlation of average-patch coordinates with class membership",
            alt="A matrix of small correlations, classes by components",
            x="patch component",
        )


@study(
    "profile.table2.random_labels",
    "profile.table2.random_vs_init",
    "profile.fig17.binary_vgg",
    "profile.fig18.resnet_random",
    "profile.sec_b5.overfit_random",
)
class RandomLabels(Study):
    """Do networks that memorise random labels learn the profile of networks with true labels?"""

    # Random labels must be memorised, so few images and many epochs.
    dataset: str = "cifar10"
    pair: str = "cats_dogs"
    n_images: int = 500
    epochs: int = 120  # 60 left a quarter of the random labels of two classes unlearned
    batch_size: int = 32
    model: str = "small"
    residual_width: float = 0.25
    residual_images: int = 300
    residual_epochs: int = 40

    drawn = {"ten classes, true profiles": "trained", "ten classes, random profiles": "random labels"}
    axes = ("patch component", "energy")
    scales = {
        "smoke": dict(
            dataset="photos", pair="photos", n_images=40, epochs=1, residual_images=40, residual_epochs=1
        ),
        "desk": dict(n_images=300, residual_epochs=60),  # 40 left one seed at 89 %
        "night": dict(n_images=5000, epochs=120, model="vgg11_bn", batch_size=128, residual_images=2000),
    }  # fmt: skip

    def run(self) -> Measured:
        """Train on true and on random labels: ten classes, two classes, a residual network."""
        ten = images(self.dataset, self.n_images, seed=self.seed)
        two = images(self.pair, self.n_images, seed=self.seed)
        few = images(self.dataset, self.residual_images, seed=self.seed)
        recipe = Recipe(lr=0.1, batch_size=self.batch_size, epochs=self.epochs, seed=network_seed(self.seed))
        slow = dataclasses.replace(recipe, epochs=self.residual_epochs)
        plain = ModelSpec(name=self.model, shape=ten.shape)
        residual = dataclasses.replace(
            plain, name="resnet18", first_scale=0.25, options={"width": self.residual_width}
        )
        return {
            **_compared("ten classes", plain, ten, recipe),
            **_compared("two classes", plain, two, recipe),
            **_compared("residual", residual, few, slow),
            "unrelated profiles": 2 * null_spread(27),
        }


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


@study("profile.fig7.relabel")
class Relabelled(Study):
    """Does training pick up the component that labels are made from, and lose its agreement with random labels?"""

    # The linear CNN in closed form stands in for VGG11.
    dataset: str = "cifar10"
    natural_pair: str = "cifar10:dog/cat"
    n_images: int = 10_000
    components: tuple[int, ...] = (2, 4, 6, 8, 10, 12)  # counted from 1
    time: float = 18.75  # rate 0.1, 64 filters, 150 epochs of 40 batches
    n_shuffles: int = 20

    drawn = {"profile": "trained", "shuffled": "random labels"}
    axes, log_axes = ("patch component", "energy"), "y"
    scales = {"smoke": dict(dataset="photos", natural_pair="photos:china/flower", n_images=200, n_shuffles=4)}

    def run(self) -> Measured:
        """Relabel into two halves by the size of each projection and evaluate the closed form."""
        data = images(self.dataset, self.n_images, seed=self.seed)
        geometry = PatchGeometry.square(3)
        pca = patch_pca(data.x, geometry)
        generator = generator_from("relabelled", self.seed)
        patches = mean_patches(data.x, geometry) @ pca.basis
        profiles, shuffled = [], []
        for component in self.components:
            labels = PatchProjectionLabels.fit(data, pca, geometry, component - 1, n_classes=2)
            true, random = _profiles(patches, labels.transform(data).y.double(), self, generator)
            profiles.append(true)
            shuffled.append(random)
        pair = images(self.natural_pair, self.n_images, seed=self.seed)
        natural = _profiles(mean_patches(pair.x, geometry) @ pca.basis, pair.y.double(), self, generator)
        rows = list(zip(self.components, profiles, shuffled, strict=True))
        # one shuffle against the mean of the others: what the ratio is when labels say nothing
        idle = [float(random[0, c - 1] / random[1:, c - 1].mean()) for c, _, random in rows]
        agreement = [float(_agreement(true, random)) for _, true, random in rows]
        spikes = [_is_spike(true, c - 1) for c, true, _ in rows]
        untouched = float(_agreement(*natural))
        return {
            "energy ratio": by(self.components, [float(t[c - 1] / r[:, c - 1].mean()) for c, t, r in rows]),
            "energy ratio of one shuffle": by(self.components, idle),
            "largest loss of agreement at a spike": max(
                (untouched - a for a, spike in zip(agreement, spikes, strict=True) if spike), default=0.0
            ),
            "profile": profiles[len(rows) // 2],
            "shuffled": shuffled[len(rows) // 2].mean(0),
        }


def _profiles(
    patches: Tensor, y: Tensor, cfg: Relabelled, generator: torch.Generator
) -> tuple[Float[Tensor, " m"], Float[Tensor, "shuffles m"]]:
    """Closed-form profiles with the labels and with shuffled ones, loss averaged over images."""
    root = len(y) ** 0.5
    spectral = ls.spectrum(patches / root)
    order = torch.rand(len(y), cfg.n_shuffles, generator=generator).argsort(0)
    filtered = ls.flow_filter(spectral.values, time=cfg.time)
    true = spectral.vectors @ (filtered * spectral.moment(y / root))
    random = spectral.vectors @ (filtered[:, None] * spectral.moment(y[order] / root))
    return true.abs(), random.abs().mT


def _is_spike(profile: Tensor, component: int) -> bool:
    near = [i for i in (component - 1, component + 1) if 0 <= i < len(profile)]
    return all(bool(profile[component] > profile[i]) for i in near)


def _agreement(true: Tensor, random: Tensor) -> Tensor:
    return pearson(true.expand_as(random), random).mean()
