"""Study of every convolution of a ResNet-50 trained on ImageNet, not only the first of each block."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from firstlight.data.catalogue import load
from firstlight.measures.feature_ansatz.ansatz import INITIAL, TRAINED, ansatz_from
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.models.building import build
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.weights.resnet50 import resnet50_imagenet, resnet50_normalised


@study("cnfa.fig1.all_models", "cnfa.fig7.init_lower")
class AnsatzResnet50(Study):
    """Do filters and gradients of a network trained on ImageNet agree more than those of an initial one?

    There is one trained network: seeds differ in the photographs and in the initial network.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Photographs for both networks; the initial one needs fewer, it has no structure to average over."""

        network: str = "resnet50"  # "resnet18": two initial ones, where nothing can be fetched
        n_images: int = 10
        initial_images: int = 4
        seed: int = 0

    n_seeds = 3  # about 100 CPU seconds each
    scales = {
        "smoke": Config(network="resnet18", n_images=2, initial_images=2),
        "desk": Config(),
        "night": Config(n_images=32, initial_images=8),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Measure all convolutions on photographs."""
        model, fresh, images = _networks(cfg)
        trained = patch_gradients(model, images, layers="convolutions", seed=cfg.seed)
        initial = patch_gradients(fresh, images[: cfg.initial_images], layers="convolutions", seed=cfg.seed)
        agreement = ansatz_from(trained, initial, seed=cfg.seed)
        after, rotated, isotropy = (
            agreement.values(TRAINED, what) for what in ("pearson", "null_pearson", "isotropy")
        )
        before, before_rotated = (agreement.values(INITIAL, what) for what in ("pearson", "null_pearson"))
        first = [name.endswith(".conv1") for name in agreement.layers]  # of each block, as in the paper
        blocks = [name for name, keep in zip(agreement.layers, first, strict=True) if keep]
        return {
            "Pearson": by(blocks, after[first]),
            "Pearson with rotated gradients": by(blocks, rotated[first]),
            "gain": by(blocks, (after - before)[first]),
            "gain with rotated gradients": by(blocks, (rotated - before_rotated)[first]),
            "every convolution": by(agreement.layers, after),
            "every convolution with rotated gradients": by(agreement.layers, rotated),
            "every convolution of the initial network": by(agreement.layers, before),
            "isotropy of Q": float(isotropy.mean()),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw every convolution with its null."""
        series = {"": "trained", " with rotated gradients": "null", " of the initial network": "initial"}
        return dots(
            [str(point) for point in evidence.points("every convolution")],
            [
                Dots.of(
                    f"Pearson{name}", list(evidence.table(f"every convolution{name}").unbind(1)), role=role
                )
                for name, role in series.items()
            ],
            title="ResNet-50 with ImageNet weights, every convolution",
            alt="Pearson correlation of feature matrix and gradient outer product for all 53 convolutions",
            y="Pearson correlation",
        )


def _networks(cfg: AnsatzResnet50.Config) -> tuple[nn.Module, nn.Module, Tensor]:
    """The trained network, an initial one of its architecture, and images."""
    if cfg.network == "resnet50":
        options: dict[str, Any] = {"form": "imagenet", "stride_in_1x1": True, "bn_eps": 1e-3}
        fresh = build("resnet50", classes=1000, shape=(3, 224, 224), seed=cfg.seed, **options)
        return (
            resnet50_imagenet(),
            fresh,
            resnet50_normalised(load("photos224", n=cfg.n_images, seed=cfg.seed).x),
        )
    model, fresh = (build(cfg.network, width=0.125, seed=cfg.seed + i) for i in (1, 0))
    return model, fresh, load("photos", n=cfg.n_images, seed=cfg.seed).x
