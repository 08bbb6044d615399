"""Every convolution of a ResNet-50 trained on ImageNet, not only the first of each block."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from firstlight.claims.feature_ansatz.ansatz_networks import (
    POOLINGS,
    AnsatzNumbers,
    NetworkPlan,
    every,
    small_network,
)
from firstlight.claims.study import Rule, absent, study
from firstlight.core.parallel import map_tasks
from firstlight.core.result import Result
from firstlight.data import load
from firstlight.figures import Dots, Figure, dots
from firstlight.measures.feature_ansatz import Ansatz, ansatz_from, patch_agop
from firstlight.measures.feature_ansatz.ansatz import INITIAL, TRAINED
from firstlight.models import build, resnet50_imagenet
from firstlight.models.pretrained import resnet50_normalised

absent(
    "no ImageNet weights of AlexNet and VGG13 can be had from a package registry without an account; "
    "ansatz_resnet50 judges the pretrained network that can",
    "cnfa.fig1.alexnet_vgg13",
)


@dataclass(frozen=True, kw_only=True)
class PretrainedAnsatz(Result):
    """Correlations of every convolution of the trained and of a fresh network, and of small networks."""

    network: Ansatz
    small: tuple[AnsatzNumbers, ...]

    def values(self, pair: str, what: str = "pearson", *, first_of_block: bool = False) -> Tensor:
        """One number per convolution, or per first convolution of a block as in the paper."""
        rows = self.network.pair(pair)
        found = self.network.values(pair, what)
        keep = [not first_of_block or row.layer.endswith(".conv1") for row in rows]
        return found[torch.tensor(keep)]

    def gain(self, *, first_of_block: bool) -> Tensor:
        """Pearson after training minus before, layer by layer."""
        after = self.values(TRAINED, first_of_block=first_of_block)
        return after - self.values(INITIAL, first_of_block=first_of_block)


@study("cnfa.fig1.all_models", "cnfa.fig7.init_lower")
class PretrainedResNet:
    """Do filters and gradients of a network trained on ImageNet agree more than those of a fresh one?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """The pretrained network, and small ones for the reduced rules."""

        network: str = "resnet50"  # "resnet18": a fresh one, where nothing can be fetched
        n_images: int = 32
        initial_images: int = 8
        small_data: str = "mnist"
        small_n: int = 1500
        small_channels: int = 16
        small_epochs: int = 10
        seed: int = 0

    scales = {
        "smoke": Config(
            network="resnet18", n_images=2, initial_images=2, small_data="photos", small_n=64, small_channels=4,
            small_epochs=1,
        ),
        "desk": Config(),
        "paper": Config(n_images=128, initial_images=32),
    }  # fmt: skip

    @staticmethod
    def run(cfg: Config) -> PretrainedAnsatz:
        """Measure all convolutions on photographs, then train the small networks."""
        if cfg.network == "resnet50":
            model = resnet50_imagenet()
            options: dict[str, Any] = {"form": "imagenet", "stride_in_1x1": True, "bn_eps": 1e-3}
            fresh = build("resnet50", classes=1000, shape=(3, 224, 224), seed=cfg.seed, **options)
            images = resnet50_normalised(load("photos224", n=cfg.n_images, seed=cfg.seed).x)
        else:
            model, fresh = (build(cfg.network, width=0.125, seed=cfg.seed + i) for i in (1, 0))
            images = load("photos", n=cfg.n_images, seed=cfg.seed).x
        trained = patch_agop(model, images, layers="convolutions", seed=cfg.seed)
        start = patch_agop(fresh, images[: cfg.initial_images], layers="convolutions", seed=cfg.seed)
        plan = NetworkPlan(
            data=cfg.small_data, n=cfg.small_n, depth=3, channels=cfg.small_channels, epochs=cfg.small_epochs,
            agop_images=min(100, cfg.small_n // 8), seed=cfg.seed,
        )  # fmt: skip
        plans = [replace(plan, pooling=pooling) for pooling in POOLINGS]
        return PretrainedAnsatz(
            network=ansatz_from(trained, start, seed=cfg.seed),
            small=tuple(map_tasks(small_network, plans, label="Small networks")),
        )

    @staticmethod
    def figure(result: PretrainedAnsatz) -> Figure:
        """Draw every convolution with its null."""
        rows = result.network.pair(TRAINED)
        return dots(
            [row.layer for row in rows],
            [
                Dots.of("trained", [torch.tensor([row.pearson]) for row in rows]),
                Dots.of("gradients rotated", [row.null_pearson for row in rows], role="null"),
                Dots.of(
                    "fresh network",
                    [torch.tensor([r.pearson]) for r in result.network.pair(INITIAL)],
                    role="initial",
                ),
            ],
            title="ResNet-50 with ImageNet weights, every convolution",
            alt="Pearson correlation of feature matrix and gradient outer product for all 53 convolutions",
            y="Pearson correlation",
        )

    rules = {
        "cnfa.fig1.all_models": Rule(
            measured=lambda r: {
                "mean Pearson, first of each block": float(r.values(TRAINED, first_of_block=True).mean()),
                "mean Pearson, every convolution": float(r.values(TRAINED).mean()),
                "lowest": float(r.values(TRAINED).min()),
                "small networks": float(every(r.small, "pearson").mean()),
            },
            reproduced=lambda r: float(r.values(TRAINED, first_of_block=True).mean()) > 0.8,
            partly=lambda r: float(every(r.small, "pearson").mean()) > 0.8,
            spread=lambda r: {
                "mean Pearson, first of each block": float(r.values(TRAINED, first_of_block=True).std()),
                "mean Pearson, every convolution": float(r.values(TRAINED).std()),
            },
            null=lambda r: {
                "gradients rotated, every convolution": float(r.values(TRAINED, "null_pearson").mean()),
                "convolutions above their null": float(
                    (r.values(TRAINED) > r.values(TRAINED, "null_pearson")).double().mean()
                ),
                "isotropy of Q": float(r.values(TRAINED, "isotropy").mean()),
            },
            note="of the paper's eleven networks only ResNet-50 can be had, with the weights Keras distributes",
        ),
        "cnfa.fig7.init_lower": Rule(
            measured=lambda r: {
                "share of blocks with a higher value": float(
                    (r.gain(first_of_block=True) > 0).double().mean()
                ),
                "share of all convolutions": float((r.gain(first_of_block=False) > 0).double().mean()),
                "mean gain, every convolution": float(r.gain(first_of_block=False).mean()),
                "small networks, mean gain": float(
                    (every(r.small, "pearson") - every(r.small, "initial_pearson")).mean()
                ),
            },
            reproduced=lambda r: float((r.gain(first_of_block=True) > 0).double().mean()) > 0.5,
            partly=lambda r: (
                float((every(r.small, "pearson") - every(r.small, "initial_pearson")).mean()) > 0
            ),
            null=lambda r: {
                "gain of the rotated gradients": float(
                    (r.values(TRAINED, "null_pearson") - r.values(INITIAL, "null_pearson")).mean()
                ),
                "isotropy of Q, fresh": float(r.values(INITIAL, "isotropy").mean()),
                "isotropy of Q, trained": float(r.values(TRAINED, "isotropy").mean()),
            },
        ),
    }
