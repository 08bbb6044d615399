"""Study of linear CNNs on pairs of classes: learned, optimal, initial and random-label profiles."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.first_layer.support import images, sd, within
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import PatchGeometry, mean_patches, null_spread, patch_pca, pearson
from firstlight.measures.first_layer import energy_profile
from firstlight.theory import least_squares as ls

CIFAR_PAIRS = (
    "cifar10:bird/airplane",
    "cifar10:dog/frog",
    "cifar10:dog/cat",
    "cifar10:automobile/truck",
    "cifar10:ship/airplane",
)


@dataclass(frozen=True, kw_only=True)
class PairResult(Result):
    """Correlations, one per pair of classes, at the paper's time; and over time."""

    names: tuple[str, ...]
    true_random: Float[Tensor, "pairs draws"]
    true_optimal: Float[Tensor, " pairs"]
    true_init: Float[Tensor, "pairs draws"]
    consistency: Float[Tensor, " pairs"]
    consistency_default_init: Float[Tensor, " pairs"]
    optimal_share: Float[Tensor, " pairs"]
    learned_share: Float[Tensor, " pairs"]
    label_in_mean_patch: Float[Tensor, " pairs"]
    without_first: Float[Tensor, " pairs"]
    root_variance: Float[Tensor, " pairs"]
    times: Float[Tensor, " t"]
    random_over_time: Float[Tensor, "pairs t"]
    init_over_time: Float[Tensor, "pairs t"]
    optimal_over_time: Float[Tensor, "pairs t"]


@study(
    "linear.table3.true_random",
    "linear.table3.true_optimal",
    "linear.table3.true_init",
    "linear.fig4.consistency",
    "linear.highfreq_optimum",
)
class LinearPairs:
    """Does the linear CNN learn what random labels would teach it, far from the optimum?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings. The time follows from the published recipe: rate 0.1, batch 256, 150 epochs, MSE."""

        pairs: tuple[str, ...] = CIFAR_PAIRS
        n_images: int = 10_000
        filters: int = 64  # the paper does not say; it divides the effective rate
        lr: float = 0.1
        batch_size: int = 256
        epochs: int = 150
        n_draws: int = 5  # of random labels and of initial filters
        small_init: float = 0.01  # standard deviation of the initial filters where "small" is meant
        n_times: int = 25
        seed: int = 0

    scales = {
        "smoke": Config(pairs=("photos:china/flower",), n_images=200, n_draws=2, n_times=5),
        "desk": Config(),
        "paper": Config(n_draws=20, n_times=100),
    }

    @staticmethod
    def run(cfg: Config) -> PairResult:
        """Evaluate the closed forms on every pair."""
        found = [_pair(name, cfg) for name in cfg.pairs]
        merged = {key: torch.stack([f[key] for f in found]) for key in found[0]}
        times = torch.logspace(-1, 4, cfg.n_times, dtype=torch.float64)
        return PairResult(names=cfg.pairs, times=times, **merged)

    @staticmethod
    def figure(result: PairResult) -> Figure:
        """Show the map over time, because one point says little."""
        return curves(
            [
                Curve(name="with random labels", values=result.random_over_time, role="random labels"),
                Curve(name="with the optimum", values=result.optimal_over_time, role="theory"),
                Curve(name="with its own start", values=result.init_over_time, role="initial"),
            ],
            title="Correlation of the learned profile, over training time",
            alt="Three bands over the pairs of classes against time on a logarithmic axis",
            x="time (effective rate x steps, loss averaged over images)",
            y="correlation",
            at=result.times.tolist(),
            log_x=True,
        )

    rules = {
        "linear.table3.true_random": Rule(
            measured=lambda r: _by_pair(r, r.true_random.mean(1)),
            spread=lambda r: _by_pair(r, r.true_random.std(1)),
            null=lambda r: {
                "without first component, mean": float(r.without_first.mean()),
                "with root of variances, mean": float(r.root_variance.mean()),
                "largest label correlation of the mean patch": float(r.label_in_mean_patch.max()),
            },
            reproduced=lambda r: bool((r.true_random.mean(1) >= 0.9).all()),
            partly=lambda r: r.true_random.mean() >= 0.8,
        ),
        "linear.table3.true_optimal": Rule(
            measured=lambda r: _by_pair(r, r.true_optimal),
            null=lambda r: {"two sd of unrelated profiles": 2 * null_spread(27)},
            reproduced=lambda r: bool((r.true_optimal < 0.3).all() and (r.true_optimal < 0).sum() >= 4),
            partly=lambda r: bool((r.true_optimal < 0.1).all()),
        ),
        "linear.table3.true_init": Rule(
            measured=lambda r: _by_pair(r, r.true_init.mean(1)),
            spread=lambda r: _by_pair(r, r.true_init.std(1)),
            null=lambda r: {"two sd of unrelated profiles": 2 * null_spread(27)},
            reproduced=lambda r: bool((r.true_init.mean(1).abs() < 0.3).all()),
            partly=lambda r: bool((r.true_init.abs() < 0.4).all()),
            note="Initial filters of small variance.",
        ),
        "linear.fig4.consistency": Rule(
            measured=lambda r: _by_pair(r, r.consistency),
            null=lambda r: {
                "PyTorch's default initial scale, mean": float(r.consistency_default_init.mean())
            },
            reproduced=lambda r: bool((r.consistency >= 0.95).all()),
            partly=lambda r: bool((r.consistency >= 0.9).all()),
            note="Smallest correlation over 5 starts and widths 16, 32 and 64, from small initial filters.",
        ),
        "linear.highfreq_optimum": Rule(
            measured=lambda r: {
                "optimal": float(r.optimal_share.mean()),
                "learned": float(r.learned_share.mean()),
            },
            spread=lambda r: {
                "optimal": sd(r.optimal_share),
                "learned": sd(r.learned_share),
            },
            null=lambda r: {"flat profile": 1 / 3},
            reproduced=lambda r: bool((r.optimal_share > r.learned_share).all()),
            partly=lambda r: bool((r.optimal_share > 2 * r.learned_share).all()),
        ),
    }


def _by_pair(result: PairResult, values: Tensor) -> dict[str, float]:
    return {n.split(":")[-1]: float(v) for n, v in zip(result.names, values, strict=True)}


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
        """Trained and initial profiles of networks from several starts, at equal effective time."""
        shape = (cfg.n_draws, width, len(true))
        starts = std * torch.randn(*shape, generator=generator, dtype=torch.float64)
        eye = torch.eye(len(true), dtype=torch.float64)
        begin = starts.mean(1)
        kept = spectral.apply(ls.decay(spectral.values, rate=rate, steps=steps), begin.mT).mT
        moved = ls.weights(spectral, y, rate=rate, steps=steps) + kept - begin
        ends = starts + moved[:, None]
        return (
            torch.stack([energy_profile(w, eye) / width**0.5 for w in ends]),
            torch.stack([energy_profile(w, eye) / width**0.5 for w in starts]),
        )

    small = [nets(width, cfg.small_init) for width in (16, 32, 64)]
    default = [nets(width, (1 / 81) ** 0.5) for width in (16, 32, 64)]  # variance of nn.Conv2d
    ends, begins = small[-1]
    kept_times = torch.logspace(-1, 4, cfg.n_times, dtype=torch.float64)
    over = [_at_time(spectral, y, coins, best, float(t), begins[0]) for t in kept_times]
    third = 2 * len(true) // 3
    centred = (data.y.double() - data.y.double().mean()) / n**0.5
    k = (
        spectral.left[:, : spectral.rank]
        * spectral.values[: spectral.rank].sqrt()
        @ spectral.vectors[:, : spectral.rank].mT
    )
    k = k - k.mean(0)
    visible = (centred @ k).abs() / (centred.norm() * k.norm(dim=0).clamp(min=1e-12 * float(k.norm())))
    return {
        "true_random": draws,
        "true_optimal": pearson(true, best),
        "true_init": torch.stack([pearson(a, b) for a, b in zip(ends, begins, strict=True)]),
        "consistency": within(torch.cat([e for e, _ in small])).min(),
        "consistency_default_init": within(torch.cat([e for e, _ in default])).min(),
        "optimal_share": best[third:].square().sum() / best.square().sum(),
        "learned_share": true[third:].square().sum() / true.square().sum(),
        "label_in_mean_patch": visible.max(),
        "without_first": torch.stack([pearson(true[1:], random[1:, i]) for i in range(cfg.n_draws)]).mean(),
        "root_variance": pearson(true, pca.variances.sqrt()),
        "random_over_time": torch.stack([row[0] for row in over]),
        "init_over_time": torch.stack([row[1] for row in over]),
        "optimal_over_time": torch.stack([row[2] for row in over]),
    }


def _at_time(
    spectral: ls.Spectrum, y: Tensor, coins: Tensor, best: Tensor, time: float, start: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Correlations at one gradient-flow time: with random labels, with the start, with the optimum."""
    filtered = ls.flow_filter(spectral.values, time=time)
    true = spectral.vectors @ (filtered * spectral.moment(y))
    random = (spectral.vectors @ (filtered[:, None] * spectral.moment(coins))).abs()
    whole = (true.square() + start.square()).sqrt()
    agreed = torch.stack([pearson(true.abs(), random[:, i]) for i in range(random.shape[1])]).mean()
    return agreed, pearson(whole, start), pearson(true.abs(), best)
