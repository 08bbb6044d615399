"""Study of agreement: do networks that differ in seed, width, architecture or loss learn one profile?"""

from dataclasses import dataclass

import torch

from firstlight.maths.correlation import null_spread, pearson
from firstlight.models.building import ModelSpec
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.training.recipe import Recipe
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured
from reproduce.studies.first_layer.common import Bank, bank, basis, between, images, mean, network_seed
from reproduce.studies.first_layer.common import within as pairs_of


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

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Every group of networks has seeds of its own, or equal shapes would start alike."""

        dataset: str = "cifar10"
        n_images: int = 2000
        epochs: int = 20
        mse_epochs: int = 20
        batch_size: int = 32  # 256 makes too few steps on a desk
        model: str = "small"
        other_model: str = "small"
        other_options: tuple[tuple[str, int], ...] = (("depth", 4),)
        narrow: int = 32  # first-layer width of the width comparison
        seed: int = 0

    scales = {
        "smoke": Config(dataset="photos", n_images=64, epochs=1, mse_epochs=1),
        # 2000 images and 20 epochs left the networks at 64 %, and those with MSE at 40 %
        "desk": Config(n_images=500, epochs=60, mse_epochs=200),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train two networks of one kind and one of each other, and correlate their profiles."""
        data = images(cfg.dataset, cfg.n_images, seed=cfg.seed)
        pca = basis(data)

        def group(
            name: str, n: int, index: int, options: dict[str, int], loss: str = "cross_entropy"
        ) -> Bank:
            spec = ModelSpec(name=name, classes=data.n_classes, shape=data.shape, options=options)
            epochs = cfg.epochs if loss == "cross_entropy" else cfg.mse_epochs
            seed = network_seed(cfg.seed, index)
            recipe = Recipe(lr=0.1, batch_size=cfg.batch_size, epochs=epochs, loss=loss, seed=seed)
            return bank(spec, n, data, recipe, label=f"{name}, {loss}")

        base = group(cfg.model, 2, 0, {})
        narrow = group(cfg.model, 1, 1, {"first_width": cfg.narrow})
        other = group(cfg.other_model, 1, 2, dict(cfg.other_options))
        squared = group(cfg.model, 1, 3, {}, "mse")
        profiles, updates, initial = (
            base.profiles(pca),
            base.profiles(pca, subtract=True),
            base.initial_profiles(pca),
        )
        root = pca.variances.sqrt()
        thirds, initial_thirds = (p.mean(0).tensor_split(3) for p in (profiles, initial))
        return {
            "between seeds": mean(pairs_of(profiles)),
            "between seeds without the first component": mean(pairs_of(profiles[:, 1:])),
            "between updates": mean(pairs_of(updates)),
            "with initial": mean(between(profiles, initial)),
            "between widths": mean(between(profiles, narrow.profiles(pca))),
            "between architectures": mean(between(profiles, other.profiles(pca))),
            "between losses": mean(between(updates, squared.profiles(pca, subtract=True))),
            "root of variances": mean(pearson(profiles, root.expand_as(profiles))),
            "root of variances with updates": mean(pearson(updates, root.expand_as(updates))),
            "unrelated profiles": 2 * null_spread(profiles.shape[1]),
            "place of the peak": float(profiles.mean(0).argmax() + 1) / profiles.shape[1],
            "first component": float(profiles.mean(0).argmax() == 0),
            "middle third": mean(thirds[1]),
            "last third": mean(thirds[2]),
            "middle over last third of the initial": mean(initial_thirds[1]) / mean(initial_thirds[2]),
            "early over late components of the update": mean(updates[:, 1:14]) / mean(updates[:, 19:27]),
            "training accuracy": base.fitted,
            "training accuracy with MSE": squared.fitted,
            "movement": base.moved,
            "profiles": profiles,
            "initial profiles": initial,
            "root profile": root / root.max() * profiles.max(),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw the profiles with those of the initial networks and the root of the variances."""
        roles = {"profiles": "trained", "initial profiles": "initial"}
        return curves(
            [
                *(
                    Curve(name=n, values=torch.cat(evidence.arrays[n]), role=role)
                    for n, role in roles.items()
                ),
                Curve(
                    name="root of patch variances (scaled)",
                    values=torch.stack(evidence.arrays["root profile"]),
                    role="null",
                ),
            ],
            title="Profiles of networks from different seeds",
            alt="Trained profiles nearly coincide and rise above the flat initial ones",
            x="patch component",
            y="energy",
        )
