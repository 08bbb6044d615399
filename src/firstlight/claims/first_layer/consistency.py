"""Study of agreement: do networks that differ in seed, width, architecture or loss learn one profile?"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight.claims.first_layer.support import Bank, bank, basis, between, images, sd, within
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import null_spread, pearson
from firstlight.models import ModelSpec
from firstlight.training import Recipe


@dataclass(frozen=True, kw_only=True)
class ConsistencyResult(Result):
    """Correlations of profiles; every field holds one number per pair."""

    seeds: Float[Tensor, " p1"]
    seeds_without_first: Float[Tensor, " p1"]
    seeds_update: Float[Tensor, " p1"]
    initial: Float[Tensor, " p2"]
    width: Float[Tensor, " p3"]
    architecture: Float[Tensor, " p4"]
    loss_update: Float[Tensor, " p5"]
    root_variance: Float[Tensor, " p6"]
    root_variance_update: Float[Tensor, " p6"]
    profiles: Float[Tensor, "nets m"]
    updates: Float[Tensor, "nets m"]
    starts: Float[Tensor, "nets m"]
    root: Float[Tensor, " m"]
    moved: float
    train_accuracy: float
    mse_accuracy: float


def _thirds(profile: Tensor) -> tuple[float, float, float]:
    first, middle, last = profile.mean(0).tensor_split(3)
    return float(first.mean()), float(middle.mean()), float(last.mean())


def _peak(result: ConsistencyResult) -> int:
    return int(result.profiles.mean(0).argmax()) + 1


@study(
    "profile.table1.seeds",
    "profile.table1.init",
    "profile.table1.width",
    "profile.table1.arch",
    "profile.fig2.bandpass",
    "profile.b2.cifar",
    "profile.table4.loss",
)
class ProfileConsistency:
    """Do networks that differ in seed, width, architecture or loss learn the same first-layer profile?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings; every group of networks has seeds of its own, or equal shapes would start alike."""

        dataset: str = "cifar10"
        n_images: int = 2000
        epochs: int = 20
        mse_epochs: int = 20
        batch_size: int = 32  # 256 makes too few steps on a desk
        n_seeds: int = 3
        model: str = "small"
        other_model: str = "small"
        other_options: tuple[tuple[str, int], ...] = (("depth", 4),)
        narrow: int = 32  # first-layer width of the width comparison
        seed: int = 0

    scales = {
        "smoke": Config(dataset="photos", n_images=64, epochs=1, mse_epochs=1, n_seeds=2),
        "desk": Config(),
        "paper": Config(
            n_images=50_000,
            epochs=150,
            mse_epochs=150,
            batch_size=256,
            model="vgg11_bn",
            other_model="resnet18",
            other_options=(),
        ),
    }

    @staticmethod
    def run(cfg: Config) -> ConsistencyResult:
        """Train four groups of networks and correlate their profiles."""
        data = images(cfg.dataset, cfg.n_images, seed=cfg.seed)
        pca = basis(data)

        def group(name: str, n: int, seed: int, options: dict[str, int], loss: str = "cross_entropy") -> Bank:
            spec = ModelSpec(name=name, classes=data.n_classes, shape=data.shape, options=options)
            epochs = cfg.epochs if loss == "cross_entropy" else cfg.mse_epochs
            recipe = Recipe(lr=0.1, batch_size=cfg.batch_size, epochs=epochs, loss=loss, seed=cfg.seed + seed)
            return bank(spec, n, data, recipe, label=f"{name}, {loss}")

        base = group(cfg.model, cfg.n_seeds, 0, {})
        narrow = group(cfg.model, 2, 100, {"first_width": cfg.narrow})
        other = group(cfg.other_model, 2, 200, dict(cfg.other_options))
        squared = group(cfg.model, 2, 300, {}, "mse")
        profiles, updates = base.profiles(pca), base.profiles(pca, subtract=True)
        root = pca.variances.sqrt()
        return ConsistencyResult(
            seeds=within(profiles),
            seeds_without_first=within(profiles[:, 1:]),
            seeds_update=within(updates),
            initial=between(profiles, base.initial_profiles(pca)),
            width=between(profiles, narrow.profiles(pca)),
            architecture=between(profiles, other.profiles(pca)),
            loss_update=between(updates, squared.profiles(pca, subtract=True)),
            root_variance=pearson(profiles, root.expand_as(profiles)),
            root_variance_update=pearson(updates, root.expand_as(updates)),
            profiles=profiles,
            updates=updates,
            starts=base.initial_profiles(pca),
            root=root,
            moved=base.moved,
            train_accuracy=sum(base.train_accuracy) / len(base.train_accuracy),
            mse_accuracy=sum(squared.train_accuracy) / len(squared.train_accuracy),
        )

    @staticmethod
    def figure(result: ConsistencyResult) -> Figure:
        """Show the profiles with start and root of the variances."""
        root = result.root / result.root.max() * result.profiles.max()
        return curves(
            [
                Curve(name="trained", values=result.profiles),
                Curve(name="initial", values=result.starts, role="initial"),
                Curve(name="root of patch variances (scaled)", values=root[None], role="null"),
            ],
            title="Profiles of networks from different seeds",
            alt="Trained profiles nearly coincide and rise above their flat start",
            x="patch component",
            y="energy",
        )

    rules = {
        "profile.table1.seeds": Rule(
            measured=lambda r: {"mean": float(r.seeds.mean()), "min": float(r.seeds.min())},
            spread=lambda r: {"over pairs": sd(r.seeds)},
            null=lambda r: {
                "without first component": float(r.seeds_without_first.mean()),
                "with root of variances": float(r.root_variance.mean()),
                "update only": float(r.seeds_update.mean()),
                "update with root of variances": float(r.root_variance_update.mean()),
            },
            reproduced=lambda r: r.seeds.mean() >= 0.95 and r.seeds.min() >= 0.9,
            partly=lambda r: r.seeds.mean() >= 0.85 and r.seeds_update.mean() >= 0.95,
        ),
        "profile.table1.init": Rule(
            measured=lambda r: {"mean": float(r.initial.mean()), "largest": float(r.initial.abs().max())},
            spread=lambda r: {"over pairs": sd(r.initial)},
            null=lambda r: {"two sd of unrelated profiles": 2 * null_spread(r.profiles.shape[1])},
            reproduced=lambda r: (
                abs(r.initial.mean()) < 0.2 and r.initial.abs().max() < 2 * null_spread(r.profiles.shape[1])
            ),
            partly=lambda r: r.initial.abs().max() < 0.4 and r.seeds.mean() > 0.85,
        ),
        "profile.table1.width": Rule(
            measured=lambda r: {"mean": float(r.width.mean()), "min": float(r.width.min())},
            spread=lambda r: {"over pairs": sd(r.width)},
            null=lambda r: {"with root of variances": float(r.root_variance.mean())},
            reproduced=lambda r: r.width.mean() >= 0.95,
            partly=lambda r: r.width.mean() >= 0.85,
        ),
        "profile.table1.arch": Rule(
            measured=lambda r: {"mean": float(r.architecture.mean()), "min": float(r.architecture.min())},
            spread=lambda r: {"over pairs": sd(r.architecture)},
            null=lambda r: {"with root of variances": float(r.root_variance.mean())},
            reproduced=lambda r: r.architecture.mean() >= 0.9,
            partly=lambda r: r.architecture.mean() >= 0.85,
            note="At desk scale three against four convolutions, each with seeds of its own.",
        ),
        "profile.fig2.bandpass": Rule(
            measured=lambda r: {
                "peak component": float(_peak(r)),
                "middle third": _thirds(r.profiles)[1],
                "last third": _thirds(r.profiles)[2],
            },
            null=lambda r: {
                "initial, middle third": _thirds(r.starts)[1],
                "initial, last third": _thirds(r.starts)[2],
            },
            reproduced=lambda r: (
                1 < _peak(r) <= 2 * r.profiles.shape[1] / 3
                and _thirds(r.profiles)[1] > _thirds(r.profiles)[2]
            ),
            partly=lambda r: bool(r.updates[:, 1:14].mean() > r.updates[:, 19:27].mean()),
        ),
        "profile.b2.cifar": Rule(
            measured=lambda r: {"difference": float(r.seeds.mean() - r.initial.mean())},
            spread=lambda r: {"trained pairs": sd(r.seeds), "with init": sd(r.initial)},
            null=lambda r: {"two sd of unrelated profiles": 2 * null_spread(r.profiles.shape[1])},
            reproduced=lambda r: r.seeds.mean() - r.initial.mean() > 0.4,
            partly=lambda r: r.seeds.mean() - r.initial.mean() > 0.4,
            note="Our own networks stand in for the public pretrained ones.",
        ),
        "profile.table4.loss": Rule(
            measured=lambda r: {"mean": float(r.loss_update.mean()), "MSE accuracy": r.mse_accuracy},
            spread=lambda r: {"over pairs": sd(r.loss_update)},
            null=lambda r: {"update with root of variances": float(r.root_variance_update.mean())},
            reproduced=lambda r: abs(r.loss_update.mean() - 0.96) <= 0.05,
            partly=lambda r: r.loss_update.mean() > 0.6,
            note="CIFAR-10 only.",
        ),
    }
