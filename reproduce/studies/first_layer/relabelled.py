"""Study of broken assumptions: labels that depend on one patch component."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.data.interventions.labels import PatchProjectionLabels
from firstlight.maths.correlation import pearson
from firstlight.maths.patches import PatchGeometry, mean_patches
from firstlight.maths.pca import patch_pca
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.theory import least_squares as ls
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.first_layer.common import images


@study("profile.fig7.relabel")
class Relabelled(Study):
    """Does training pick up the component that labels are made from, and lose its agreement with random labels?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """The linear CNN in closed form stands in for VGG11."""

        dataset: str = "cifar10"
        natural_pair: str = "cifar10:dog/cat"
        n_images: int = 10_000
        components: tuple[int, ...] = (2, 4, 6, 8, 10, 12)  # counted from 1
        time: float = 18.75  # rate 0.1, 64 filters, 150 epochs of 40 batches
        n_shuffles: int = 20
        seed: int = 0

    scales = {
        "smoke": Config(dataset="photos", natural_pair="photos:china/flower", n_images=200, n_shuffles=4),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Relabel into two halves by the size of each projection and evaluate the closed form."""
        data = images(cfg.dataset, cfg.n_images, seed=cfg.seed)
        geometry = PatchGeometry.square(3)
        pca = patch_pca(data.x, geometry)
        generator = generator_from("relabelled", cfg.seed)
        patches = mean_patches(data.x, geometry) @ pca.basis
        profiles, shuffled = [], []
        for component in cfg.components:
            labels = PatchProjectionLabels.fit(data, pca, geometry, component - 1, n_classes=2)
            true, random = _profiles(patches, labels.transform(data).y.double(), cfg, generator)
            profiles.append(true)
            shuffled.append(random)
        pair = images(cfg.natural_pair, cfg.n_images, seed=cfg.seed)
        natural = _profiles(mean_patches(pair.x, geometry) @ pca.basis, pair.y.double(), cfg, generator)
        rows = list(zip(cfg.components, profiles, shuffled, strict=True))
        # one shuffle against the mean of the others: what the ratio is when labels say nothing
        idle = [float(random[0, c - 1] / random[1:, c - 1].mean()) for c, _, random in rows]
        agreement = [float(_agreement(true, random)) for _, true, random in rows]
        spikes = [_is_spike(true, c - 1) for c, true, _ in rows]
        untouched = float(_agreement(*natural))
        return {
            "energy ratio": by(cfg.components, [float(t[c - 1] / r[:, c - 1].mean()) for c, t, r in rows]),
            "energy ratio of one shuffle": by(cfg.components, idle),
            "agreement after relabelling": by(cfg.components, agreement),
            "agreement of natural labels": untouched,
            "largest loss of agreement at a spike": max(
                (untouched - a for a, spike in zip(agreement, spikes, strict=True) if spike), default=0.0
            ),
            "profile": profiles[len(rows) // 2],
            "shuffled": shuffled[len(rows) // 2].mean(0),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw one relabelled profile beside that of the same labels, shuffled."""
        return curves(
            [
                Curve(name="labels from one component", values=torch.stack(evidence.arrays["profile"])),
                Curve(
                    name="the same labels, shuffled",
                    values=torch.stack(evidence.arrays["shuffled"]),
                    role="random labels",
                ),
            ],
            title="Profile when labels depend on one component",
            alt="The relabelled profile has a spike that the shuffled one lacks",
            x="patch component",
            y="energy",
            log_y=True,
        )


def _profiles(
    patches: Tensor, y: Tensor, cfg: Relabelled.Config, generator: torch.Generator
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
