"""Study of pretrained networks: do first layers of networks that others trained share one profile?"""

from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.maths.correlation import null_spread, pearson
from firstlight.measures.first_layer.energy_profile import energy_profile
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured
from reproduce.studies.first_layer.common import basis, images, mean, within
from reproduce.weights.first_layers import stem_filters
from reproduce.weights.resnet50 import resnet50_imagenet

THREE = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
FACES = ("mtcnn_pnet", "mtcnn_rnet", "mtcnn_onet")
SEVEN = ("resnet50_imagenet", "open_nsfw")


@study("profile.b2.imagenet7", "profile.b2.imagenet3")
class Pretrained(Study):
    """Do pretrained networks share one first-layer profile, far from that of random filters?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Networks by the size of their first filters; patches are those of photographs."""

        three: tuple[str, ...] = THREE
        faces: tuple[str, ...] = FACES
        seven: tuple[str, ...] = SEVEN
        dataset: str = "photos224"  # seen at the resolution that these networks were made for
        n_images: int = 32
        seed: int = 0

    scales = {
        "smoke": Config(three=(), faces=(), seven=(), dataset="photos", n_images=40),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Compare profiles in the basis of patches of a sample of photographs."""
        data = images(cfg.dataset, cfg.n_images, seed=cfg.seed)
        measured: dict[str, float | Tensor] = {}
        for size, names in ((3, cfg.three), (7, cfg.seven)):
            pca = basis(data, size=size, padding=size // 2)
            banks = [_filters(name).flatten(1).double() for name in names] or _random(2, size, cfg.seed)
            profiles = torch.stack([energy_profile(bank, pca.basis) for bank in banks])
            random = torch.stack(
                [energy_profile(bank, pca.basis) for bank in _random(len(banks), size, cfg.seed + 1)]
            )
            root = pca.variances.sqrt()
            measured |= {
                f"between networks, {size} x {size}": mean(within(profiles)),
                f"with random filters, {size} x {size}": mean(pearson(profiles, random)),
                f"root of variances, {size} x {size}": mean(pearson(profiles, root.expand_as(profiles))),
                f"unrelated profiles, {size} x {size}": 2 * null_spread(len(root)),
                f"profiles, {size} x {size}": profiles / profiles.max(1, keepdim=True).values,
            }
            if size == 3 and cfg.faces:
                faces = torch.stack(
                    [energy_profile(_filters(n).flatten(1).double(), pca.basis) for n in cfg.faces]
                )
                pairs = [pearson(a, b) for a in profiles for b in faces]
                measured["ImageNet and faces, 3 x 3"] = mean(torch.stack(pairs))
                measured["between face networks, 3 x 3"] = mean(
                    torch.stack([pearson(faces[i], faces[j]) for i, j in combinations(range(len(faces)), 2)])
                )
        return measured

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw the profiles of the networks with 3 x 3 filters."""
        return curves(
            [Curve(name="networks with 3 x 3 filters", values=evidence.arrays["profiles, 3 x 3"][0])],
            title="Profiles of pretrained networks",
            alt="Energy of pretrained first layers along the components of patches, mean and range over networks",
            x="patch component",
            y="energy, relative to the highest",
        )


def _filters(name: str) -> Tensor:
    if name == "resnet50_imagenet":
        weight: Tensor = resnet50_imagenet().get_parameter("conv1.weight")
        return weight.detach()
    return stem_filters(name)


def _random(n: int, size: int, seed: int) -> list[Tensor]:
    """Filters without structure, as many as a usual first layer has."""
    generator = generator_from("random stems", seed)
    return list(torch.randn(n, 64, 3 * size * size, generator=generator, dtype=torch.float64))
