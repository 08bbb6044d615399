"""Studies of profiles: do networks agree, on other data, when others trained them, and does the first layer matter?"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from firstlight._internal.seeds import generator_from
from firstlight._internal.store.runs import Store
from firstlight.data import load
from firstlight.maths import PCA, null_spread, pearson
from firstlight.measures.first_layer.energy_profile import energy_profile
from firstlight.models import ModelSpec
from firstlight.networks.bank import load_network
from firstlight.training import Recipe, accuracy, predictions, train_once
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured
from reproduce.studies.first_layer.common import (
    Bank,
    bank,
    basis,
    between,
    images,
    mean,
    network_seed,
    within,
)
from reproduce.weights.first_layers import stem_filters
from reproduce.weights.resnet50 import resnet50_imagenet


@study("profile.fig14.resnets")
class AcrossData(Study):
    """Do networks trained on different images agree?"""

    # Two disjoint halves of the photographs stand for two data sets.
    n_images: int = 2000
    epochs: int = 15
    milestones: tuple[float, ...] = ()  # the paper keeps the rate, with batches of 256

    drawn = {"first half": "trained", "second half": "other"}
    axes = ("patch component", "energy")
    scales = {
        "smoke": dict(n_images=64, epochs=1),
        # at the full rate accuracy goes up and down with the last batches: 60 to 100 % after 15 epochs, 82 to 100 %
        # after 40
        "desk": dict(epochs=20, milestones=(0.75,)),
    }

    def run(self) -> Measured:
        """Train on both halves, each measured in the basis of its own patches."""
        photos = load("photos", split="train", seed=self.seed)
        names = photos.classes
        banks, bases = [], []
        for half, part in enumerate((names[: len(names) // 2], names[len(names) // 2 :])):
            data = photos.only(*part).sample(self.n_images, seed=self.seed)
            options = {"batch_norm": True}  # without it the rate of 0.1 diverges on these photographs
            spec = ModelSpec(name="small", classes=data.n_classes, shape=data.shape, options=options)
            recipe = Recipe(
                lr=0.1,
                batch_size=32,
                epochs=self.epochs,
                milestones=self.milestones,
                seed=network_seed(self.seed, half),
            )
            banks.append(bank(spec, 1, data, recipe, label=f"photographs, half {half + 1}"))
            bases.append(basis(data))
        (a, b), (p, q) = banks, bases
        return {
            "across data": mean(between(a.profiles(p), b.profiles(q))),
            "with initial": mean(between(a.profiles(p), b.initial_profiles(q))),
            "unrelated profiles": 2 * null_spread(27),
            "training accuracy": min(a.fitted, b.fitted),
            "first half": a.profiles(p),
            "second half": b.profiles(q),
        }


@study(
    "profile.table1.seeds",
    "profile.table1.init",
    "profile.table1.width",
    "profile.table1.arch",
    "profile.fig2.bandpass",
    "profile.b2.cifar",
    "profile.table4.loss",
)
class Consistency(Study):
    """Do networks that differ in seed, width, architecture or loss learn the same first-layer profile?"""

    # Every group of networks has seeds of its own, or equal shapes would start alike.
    dataset: str = "cifar10"
    n_images: int = 2000
    epochs: int = 20
    mse_epochs: int = 20
    batch_size: int = 32  # 256 makes too few steps on a desk
    model: str = "small"
    other_model: str = "small"
    other_options: tuple[tuple[str, int], ...] = (("depth", 4),)
    narrow: int = 32  # first-layer width of the width comparison
    networks: tuple[str, ...] = ()  # of the bank, one for each seed, instead of training any
    other_network: str = ""  # of another architecture, the same for every seed

    drawn = {"profiles": "trained", "initial profiles": "initial", "root profile": "null"}
    axes = ("patch component", "energy")
    scales = {
        "smoke": dict(dataset="photos", n_images=64, epochs=1, mse_epochs=1),
        # 2000 images and 20 epochs left the networks at 64 %, and those with MSE at 40 %
        "desk": dict(n_images=500, epochs=60, mse_epochs=200),
        "night": dict(  # the bank has no narrow network and none with MSE; what needs those is not measured
            n_images=50_000, epochs=12, batch_size=128, other_model="resnet20", other_options=(),
            networks=("small-cifar10-0", "small-cifar10-1", "small-cifar10-2"), other_network="resnet20-cifar10-0",
        ),
    }  # fmt: skip

    @property
    def settings(self) -> dict[str, Any]:
        """With the recipes on the cards of the networks that are measured instead of trained."""
        told = super().settings
        if not self.networks:
            return told
        names = {"recipe": self.networks[self.seed], "other_recipe": self.other_network}
        return told | {
            key: {part: value for part, value in load_network(name).card["recipe"].items() if part != "seed"}
            for key, name in names.items()
        }

    @classmethod
    def seeds(cls, scale: str, *, first: int | None = None, count: int | None = None) -> tuple[int, ...]:
        """As many at most as there are networks, where none is trained."""
        seeds = super().seeds(scale, first=first, count=count)
        networks = cls.at_scale(scale).networks
        return tuple(seed for seed in seeds if seed < len(networks)) if networks else seeds

    def run(self) -> Measured:
        """Train two networks of one kind and one of each other, and correlate their profiles."""
        if self.networks:
            return _of_the_bank(self)
        data = images(self.dataset, self.n_images, seed=self.seed)
        pca = basis(data)

        def group(
            name: str, n: int, index: int, options: dict[str, int], loss: str = "cross_entropy"
        ) -> Bank:
            spec = ModelSpec(name=name, classes=data.n_classes, shape=data.shape, options=options)
            epochs = self.epochs if loss == "cross_entropy" else self.mse_epochs
            seed = network_seed(self.seed, index)
            recipe = Recipe(lr=0.1, batch_size=self.batch_size, epochs=epochs, loss=loss, seed=seed)
            return bank(spec, n, data, recipe, label=f"{name}, {loss}")

        base = group(self.model, 2, 0, {})
        narrow = group(self.model, 1, 1, {"first_width": self.narrow})
        other = group(self.other_model, 1, 2, dict(self.other_options))
        squared = group(self.model, 1, 3, {}, "mse")
        profiles, updates = base.profiles(pca), base.profiles(pca, subtract=True)
        root = pca.variances.sqrt()
        return {
            **_shape(profiles, base.initial_profiles(pca), root),
            "between seeds": mean(within(profiles)),
            "between widths": mean(between(profiles, narrow.profiles(pca))),
            "between architectures": mean(between(profiles, other.profiles(pca))),
            "between losses": mean(between(updates, squared.profiles(pca, subtract=True))),
            "root of variances with updates": mean(pearson(updates, root.expand_as(updates))),
            "training accuracy": base.fitted,
            "training accuracy with MSE": squared.fitted,
        }


def _shape(profiles: Tensor, initial: Tensor, root: Tensor) -> Measured:
    """Where the energy of trained profiles lies, beside that of the initial ones and the root of the variances."""
    thirds, initial_thirds = (p.mean(0).tensor_split(3) for p in (profiles, initial))
    return {
        "with initial": mean(between(profiles, initial)),
        "root of variances": mean(pearson(profiles, root.expand_as(profiles))),
        "unrelated profiles": 2 * null_spread(profiles.shape[1]),
        "place of the peak": float(profiles.mean(0).argmax() + 1) / profiles.shape[1],
        "first component": float(profiles.mean(0).argmax() == 0),
        "middle third": mean(thirds[1]),
        "last third": mean(thirds[2]),
        "middle over last third of the initial": mean(initial_thirds[1]) / mean(initial_thirds[2]),
        "profiles": profiles,
        "initial profiles": initial,
        "root profile": root / root.max() * profiles.max(),
    }


def _of_the_bank(cfg: Consistency) -> Measured:
    """Measure a trained network for each seed, in the basis of the images as the networks see them.

    Two networks are one pair, which would be the same for either seed: how much seeds differ takes three.
    """
    own, other = load_network(cfg.networks[cfg.seed]), load_network(cfg.other_network)
    pca = basis(own.training_data())

    def profile(model: nn.Module) -> Tensor:
        first = next(m for m in model.modules() if isinstance(m, nn.Conv2d))
        return energy_profile(first.weight.detach().flatten(1).double(), pca.basis)[None]

    measured = {
        **_shape(profile(own.model), profile(own.initial), pca.variances.sqrt()),
        "between architectures": mean(between(profile(own.model), profile(other.model))),
        "training accuracy": min(n.card["accuracies"][str(n.moments[-1])]["train"] for n in (own, other)),
    }
    if len(cfg.networks) > 2:
        partner = load_network(cfg.networks[(cfg.seed + 1) % len(cfg.networks)])
        measured["between seeds"] = mean(between(profile(own.model), profile(partner.model)))
    return measured


@study("profile.fig3.frozen_loss", "profile.fig9.frozen_acc")
class Frozen(Study):
    """Does a frozen random first layer cost loss or accuracy?"""

    # Both networks start from the same weights; one keeps those of its first layer.
    dataset: str = "cifar10"
    n_images: int = 2000
    n_test: int = 2000
    epochs: int = 20
    batch_size: int = 32
    model: str = "small"
    first: str = "0."  # names of the first layer's parameters begin so

    drawn = {"curve of full": "trained", "curve of frozen": "other"}
    axes = ("epoch", "cross-entropy (nats)")
    scales = {
        "smoke": dict(dataset="photos", n_images=64, n_test=64, epochs=2),
        "desk": dict(n_images=800, epochs=50),  # 2000 images and 20 epochs left it at 62 %
    }

    def run(self) -> Measured:
        """Train both networks; a third, from other weights, tells how much seeds alone differ."""
        data = images(self.dataset, self.n_images, seed=self.seed)
        test = images(self.dataset, self.n_test, seed=self.seed, split="test")
        spec = ModelSpec(name=self.model, classes=data.n_classes, shape=data.shape)
        full = Recipe(lr=0.1, batch_size=self.batch_size, epochs=self.epochs, seed=network_seed(self.seed))
        recipes = {
            "full": full,
            "frozen": dataclasses.replace(full, frozen=(self.first,)),
            "other weights": dataclasses.replace(full, seed=network_seed(self.seed, 1)),
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


THREE = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
FACES = ("mtcnn_pnet", "mtcnn_rnet", "mtcnn_onet")
SEVEN = ("resnet50_imagenet", "open_nsfw")


WINDOW = slice(24, 52)  # components 25 to 52, as many as a 3 x 3 profile has and one


@study("profile.b2.imagenet7", "profile.b2.imagenet3", "profile.fig15.window")
class Pretrained(Study):
    """Do pretrained networks share one first-layer profile, far from that of random filters?"""

    # Networks by the size of their first filters; patches are those of photographs.
    three: tuple[str, ...] = THREE
    faces: tuple[str, ...] = FACES
    seven: tuple[str, ...] = SEVEN
    dataset: str = "photos224"  # seen at the resolution that these networks were made for
    n_images: int = 32

    drawn = {"profiles, 3 x 3": "trained"}
    axes = ("patch component", "energy, relative to the highest")
    scales = {"smoke": dict(three=(), faces=(), seven=(), dataset="photos", n_images=40)}

    def run(self) -> Measured:
        """Compare profiles in the basis of patches of a sample of photographs."""
        data = images(self.dataset, self.n_images, seed=self.seed)
        measured: dict[str, float | Tensor] = {}
        for size, names in ((3, self.three), (7, self.seven)):
            pca = basis(data, size=size, padding=size // 2)
            banks = [_filters(name) for name in names] or _random(2, size, self.seed)
            profiles = _profiles(banks, pca)
            random = _profiles(_random(len(banks), size, self.seed + 1), pca)
            root = pca.variances.sqrt()
            measured |= {
                f"between networks, {size} x {size}": mean(within(profiles)),
                f"with random filters, {size} x {size}": mean(pearson(profiles, random)),
                f"root of variances, {size} x {size}": mean(pearson(profiles, root.expand_as(profiles))),
                f"profiles, {size} x {size}": profiles / profiles.max(1, keepdim=True).values,
            }
            if size == 7:
                measured |= {
                    "all 147 components": mean(within(profiles)),
                    "components 25 to 52": mean(within(profiles[:, WINDOW])),
                    "unrelated windows": 2 * null_spread(28),
                }
            if size == 3 and self.faces:
                faces = _profiles([_filters(name) for name in self.faces], pca)
                measured["ImageNet and faces, 3 x 3"] = mean(between(profiles, faces))
                measured["between face networks, 3 x 3"] = mean(within(faces))
        return measured


def _profiles(banks: Sequence[Tensor], pca: PCA) -> Tensor:
    """Energy profile of every bank of filters."""
    return torch.stack([energy_profile(bank.flatten(1).double(), pca.basis) for bank in banks])


def _filters(name: str) -> Tensor:
    if name == "resnet50_imagenet":
        weight: Tensor = resnet50_imagenet().get_parameter("conv1.weight")
        return weight.detach()
    return stem_filters(name)


def _random(n: int, size: int, seed: int) -> list[Tensor]:
    """Filters without structure, as many as a usual first layer has."""
    generator = generator_from("random stems", seed)
    return list(torch.randn(n, 64, 3 * size * size, generator=generator, dtype=torch.float64))
