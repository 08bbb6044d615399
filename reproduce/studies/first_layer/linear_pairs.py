"""Study of linear CNNs on pairs of classes: learned, optimal, initial and random-label profiles."""

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.maths import PatchGeometry, mean_patches, patch_pca, pearson
from firstlight.measures.first_layer import energy_profile
from firstlight.theory import least_squares as ls
from reproduce.catalogue import Settings, Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.first_layer.common import images, within

CIFAR_PAIRS = (
    "cifar10:bird/airplane",
    "cifar10:dog/frog",
    "cifar10:dog/cat",
    "cifar10:automobile/truck",
    "cifar10:ship/airplane",
)


@study(
    "linear.table3.true_random",
    "linear.table3.true_optimal",
    "linear.table3.true_init",
    "linear.fig4.consistency",
    "linear.highfreq_optimum",
)
class LinearPairs(Study):
    """Does the linear CNN learn what random labels would teach it, far from the optimum?"""

    class Config(Settings):
        """The time follows from the published recipe: rate 0.1, batch 256, 150 epochs, MSE."""

        pairs: tuple[str, ...] = CIFAR_PAIRS
        n_images: int = 9000  # of 10 000, so that repetitions differ in their images
        filters: int = 64  # the paper does not say; it divides the effective rate
        lr: float = 0.1
        batch_size: int = 256
        epochs: int = 150
        n_draws: int = 2  # of random labels and of initial filters, in each repetition
        small: float = 0.01  # standard deviation of initial filters that are called small
        n_times: int = 25

    drawn = {
        "over time with random labels": "random labels",
        "over time with the optimum": "theory",
        "over time with its own initial profile": "initial",
    }
    axes = ("time (effective rate x steps, loss averaged over images)", "correlation of the learned profile")
    at = "times"
    log_axes = "x"
    scales = {
        "smoke": Config(pairs=("photos:china/flower",), n_images=200, n_times=5),
        "night": Config(n_images=10_000, n_draws=8),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Evaluate the closed forms on every pair."""
        rows = [_pair(name, cfg) for name in cfg.pairs]
        names = [name.split(":")[-1] for name in cfg.pairs]
        merged = {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
        return {
            key: by(names, values) if values.ndim == 1 else values.mean(0) for key, values in merged.items()
        }


def _times(n: int) -> Tensor:
    return torch.logspace(-1, 4, n, dtype=torch.float64)


def _pair(name: str, cfg: LinearPairs.Config) -> dict[str, Tensor]:
    """Everything about one pair, in the patch-component basis of its own images, raw pixels."""
    data = images(name, cfg.n_images, seed=cfg.seed)
    geometry = PatchGeometry.square(3)
    pca = patch_pca(data.x, geometry)
    n = len(data)
    spectral = ls.spectrum(mean_patches(data.x, geometry) @ pca.basis / n**0.5)  # G is a mean, as the loss
    y = data.y.double() / n**0.5
    generator = generator_from("pairs", cfg.seed)
    coins = torch.bernoulli(torch.full((n, cfg.n_draws), 0.5), generator=generator).double() / n**0.5

    rate = cfg.lr * 2 / cfg.filters  # MSE over the batch, read-out 1/M
    steps = -(-n // cfg.batch_size) * cfg.epochs
    true = ls.weights(spectral, y, rate=rate, steps=steps).abs()
    random = ls.weights(spectral, coins, rate=rate, steps=steps).abs()
    best = ls.optimal_weights(spectral, y).abs()
    draws = torch.stack([pearson(true, random[:, i]) for i in range(cfg.n_draws)])

    def nets(width: int, std: float) -> tuple[Tensor, Tensor]:
        """Trained and initial profiles of several networks, at equal effective time."""
        shape = (cfg.n_draws, width, len(true))
        initial = std * torch.randn(*shape, generator=generator, dtype=torch.float64)
        eye = torch.eye(len(true), dtype=torch.float64)
        begin = initial.mean(1)
        kept = spectral.apply(ls.decay(spectral.values, rate=rate, steps=steps), begin.mT).mT
        moved = ls.weights(spectral, y, rate=rate, steps=steps) + kept - begin
        ends = initial + moved[:, None]
        return (
            torch.stack([energy_profile(w, eye) / width**0.5 for w in ends]),
            torch.stack([energy_profile(w, eye) / width**0.5 for w in initial]),
        )

    small = [nets(width, cfg.small) for width in (16, 32, 64)]
    default = [nets(width, (1 / 81) ** 0.5) for width in (16, 32, 64)]  # variance of nn.Conv2d
    begins = small[-1][1]
    over = [_at_time(spectral, y, coins, best, float(t), begins[0]) for t in _times(cfg.n_times)]
    third = 2 * len(true) // 3
    return {
        "true and random": draws.mean(),
        "true and optimal": pearson(true, best),
        "true and initial": _pairwise(small[-1]),
        "true and initial of default size": _pairwise(default[-1]),
        "lowest agreement": within(torch.cat([e for e, _ in small])).min(),
        "lowest agreement from the default size": within(torch.cat([e for e, _ in default])).min(),
        "share of the optimum": best[third:].square().sum() / best.square().sum(),
        "share of the learned": true[third:].square().sum() / true.square().sum(),
        "true and root of variances": pearson(true, pca.variances.sqrt()),
        "over time with random labels": torch.stack([row[0] for row in over]),
        "over time with its own initial profile": torch.stack([row[1] for row in over]),
        "over time with the optimum": torch.stack([row[2] for row in over]),
        "times": _times(cfg.n_times),
    }


def _pairwise(profiles: tuple[Tensor, Tensor]) -> Tensor:
    """Mean correlation of each trained profile with its own initial one."""
    return torch.stack([pearson(a, b) for a, b in zip(*profiles, strict=True)]).mean()


def _at_time(
    spectral: ls.Spectrum, y: Tensor, coins: Tensor, best: Tensor, time: float, initial: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Correlations at one gradient-flow time: with random labels, with the initial profile, with the optimum."""
    filtered = ls.flow_filter(spectral.values, time=time)
    true = spectral.vectors @ (filtered * spectral.moment(y))
    random = (spectral.vectors @ (filtered[:, None] * spectral.moment(coins))).abs()
    whole = (true.square() + initial.square()).sqrt()
    agreed = torch.stack([pearson(true.abs(), random[:, i]) for i in range(random.shape[1])]).mean()
    return agreed, pearson(whole, initial), pearson(true.abs(), best)
