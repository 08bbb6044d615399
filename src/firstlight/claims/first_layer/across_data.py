"""Study of other data and larger patches; and what needs pretrained networks that cannot be had."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight.claims.first_layer.support import bank, basis, between, images, sd, within
from firstlight.claims.study import Rule, absent, study
from firstlight.core.result import Result
from firstlight.data import load
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import null_spread, pearson
from firstlight.models import ModelSpec
from firstlight.training import Recipe

absent(
    "one ImageNet network with a 7x7 stem can be had without an account (ResNet-50, which `profile` "
    "measures in the tests); agreement needs at least two",
    "profile.b2.imagenet7",
)
absent("no pretrained network with a 3x3 stem can be had without an account", "profile.b2.imagenet3")


@dataclass(frozen=True, kw_only=True)
class AcrossDataResult(Result):
    """Correlations, one per pair of networks."""

    across: Float[Tensor, " p1"]
    across_update: Float[Tensor, " p1"]
    across_initial: Float[Tensor, " p2"]
    root_update: Float[Tensor, " p5"]
    whole: Float[Tensor, " p3"]
    window: Float[Tensor, " p3"]
    first_half: Float[Tensor, "n1 m"]
    second_half: Float[Tensor, "n2 m"]
    large_patch: Float[Tensor, "n3 d"]


@study("profile.fig14.resnets", "profile.fig15.window")
class AcrossData:
    """Do networks trained on different images agree, and does a longer profile look more consistent?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings; two disjoint halves of the photographs stand for two data sets."""

        n_images: int = 2000
        epochs: int = 15
        n_seeds: int = 2
        large_images: int = 1000
        large_epochs: int = 12
        channels: int = 16
        seed: int = 0

    scales = {  # noqa: RUF012
        "smoke": Config(n_images=64, epochs=1, large_images=32, large_epochs=1),
        "desk": Config(),
        "paper": Config(
            n_images=4000, epochs=150, n_seeds=3, large_images=8000, large_epochs=150, channels=64
        ),
    }

    @staticmethod
    def run(cfg: Config) -> AcrossDataResult:
        """Train on both halves, each measured in the basis of its own patches; then with 7x7 filters."""
        photos = load("photos", split="train", seed=cfg.seed)
        names = photos.classes
        banks, bases = [], []
        for half, part in enumerate((names[: len(names) // 2], names[len(names) // 2 :])):
            data = photos.only(*part).sample(cfg.n_images, seed=cfg.seed)
            options = {"batch_norm": True}  # without it the rate of 0.1 diverges on these photographs
            spec = ModelSpec(name="small", classes=data.n_classes, shape=data.shape, options=options)
            recipe = Recipe(lr=0.1, batch_size=32, epochs=cfg.epochs, seed=cfg.seed + 100 * half)
            banks.append(bank(spec, cfg.n_seeds, data, recipe, label=f"photographs, half {half + 1}"))
            bases.append(basis(data))
        (a, b), (p, q) = banks, bases
        large = images("photos", cfg.large_images, seed=cfg.seed)
        seven = {"kernel": 7, "channels": cfg.channels, "depth": 3}
        spec = ModelSpec(name="pooling_max", classes=large.n_classes, shape=large.shape, options=seven)
        recipe = Recipe(optimiser="adam", lr=1e-3, batch_size=32, epochs=cfg.large_epochs, seed=cfg.seed)
        wide = bank(spec, cfg.n_seeds, large, recipe, label="7x7 filters")
        profiles = wide.profiles(basis(large, size=7, padding=3))
        updates = a.profiles(p, subtract=True)
        return AcrossDataResult(
            across=between(a.profiles(p), b.profiles(q)),
            across_update=between(updates, b.profiles(q, subtract=True)),
            across_initial=between(a.profiles(p), b.initial_profiles(q)),
            root_update=pearson(updates, p.variances.sqrt().expand_as(updates)),
            whole=within(profiles),
            window=within(profiles[:, 24:52]),
            first_half=a.profiles(p),
            second_half=b.profiles(q),
            large_patch=profiles,
        )

    @staticmethod
    def figure(result: AcrossDataResult) -> Figure:
        """Show the profiles of both halves."""
        return curves(
            [
                Curve(name="first half of the photographs", values=result.first_half),
                Curve(name="second half", values=result.second_half, role="other"),
            ],
            title="Profiles learned from different photographs",
            alt="Two bands of similar shape",
            x="patch component",
            y="energy",
        )

    rules = {  # noqa: RUF012
        "profile.fig14.resnets": Rule(
            measured=lambda r: {
                "across data": float(r.across.mean()),
                "update only": float(r.across_update.mean()),
            },
            spread=lambda r: {"over pairs": sd(r.across)},
            null=lambda r: {
                "with init": float(r.across_initial.mean()),
                "update with root of variances": float(r.root_update.mean()),
                "two sd of unrelated profiles": 2 * null_spread(27),
            },
            reproduced=lambda r: r.across.mean() >= 0.8,
            partly=lambda r: r.across_update.mean() > 0.7,
            note="One small network on two disjoint sets of photographs, not ResNets of several depths.",
        ),
        "profile.fig15.window": Rule(
            measured=lambda r: {"all 147": float(r.whole.mean()), "components 25-52": float(r.window.mean())},
            null=lambda r: {"two sd at 147": 2 * null_spread(147), "two sd at 28": 2 * null_spread(28)},
            reproduced=lambda r: r.whole.mean() - r.window.mean() > 0,
            partly=lambda r: r.whole.mean() > r.window.mean(),
            note="Our own networks with 7x7 filters stand in for the pretrained ones.",
        ),
    }
