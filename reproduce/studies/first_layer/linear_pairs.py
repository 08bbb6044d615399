"""Study of linear CNNs on pairs of classes: learned, optimal, initial and random-label profiles."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.maths import PatchGeometry, mean_patches, patch_pca, pearson
from firstlight.measures.first_layer.energy_profile import energy_profile
from firstlight.theory import least_squares as ls
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.first_layer.common import images, within

DEFAULT = (1 / 81) ** 0.5
"""Standard deviation of nn.Conv2d's initial filters of 27 entries."""

CODINGS = {"0 and 1": (1.0, 0.0), "-1 and 1": (2.0, -1.0)}
"""How the two classes may be coded: factor and offset of the labels 0 and 1."""

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

    # The time follows from the published recipe: rate 0.1, batch 256, 150 epochs, MSE.
    pairs: tuple[str, ...] = CIFAR_PAIRS
    n_images: int = 9000  # of 10 000, so that repetitions differ in their images
    filters: int = 64  # the paper does not say; it divides the effective rate
    lr: float = 0.1
    batch_size: int = 256
    epochs: int = 150
    n_draws: int = 2  # of random labels and of initial filters, in each repetition
    small: float = 0.01  # standard deviation of initial filters that are called small
    widths: tuple[int, ...] = (16, 64, 256, 600)  # of the table over what the paper leaves open

    scales = {
        "smoke": dict(pairs=("photos:china/flower",), n_images=200, widths=(16,)),
        "night": dict(n_images=10_000, n_draws=8),
    }

    def run(self) -> Measured:
        """Evaluate the closed forms on every pair."""
        rows = [_pair(name, self) for name in self.pairs]
        names = [name.split(":")[-1] for name in self.pairs]
        merged = {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
        told = {key: by(names, values) for key, values in merged.items() if values.ndim == 1}
        points = [_words(*one) for one in _settings(self)]
        for key in (AGREEMENT, REMAINDER):
            told[key] = by(points, merged[key].mean(0))
        told[f"lowest {AGREEMENT}"] = by(points, merged[AGREEMENT].amin(0))
        return told


AGREEMENT, REMAINDER = "true and random by setting", "true and initial by setting"


def _settings(cfg: LinearPairs) -> list[tuple[int, float, str]]:
    """Number of filters, size of the initial ones and coding of the classes: what the paper does not say."""
    return [(w, std, coding) for w in cfg.widths for std in (cfg.small, DEFAULT) for coding in CODINGS]


def _words(width: int, std: float, coding: str) -> str:
    return f"{width} filters, {'default' if std == DEFAULT else 'small'} initial weights, {coding}"


def _pair(name: str, cfg: LinearPairs) -> dict[str, Tensor]:
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
        drawn = std * torch.randn(*shape, generator=generator, dtype=torch.float64)
        pairs = [_profiles(spectral, y, initial, rate=rate, steps=steps) for initial in drawn]
        ends, begins = (torch.stack(column) / width**0.5 for column in zip(*pairs, strict=True))
        return ends, begins

    small = [nets(width, cfg.small) for width in (16, 32, 64)]
    default = [nets(width, DEFAULT) for width in (16, 32, 64)]
    table = [
        _at_setting(spectral, data.y.double(), generator, setting, rate=cfg.lr * 2 / setting[0], steps=steps)
        for setting in _settings(cfg)
    ]
    third = 2 * len(true) // 3
    return {
        AGREEMENT: torch.tensor([row[0] for row in table]),
        REMAINDER: torch.tensor([row[1] for row in table]),
        "true and random": draws.mean(),
        "true and optimal": pearson(true, best),
        "true and initial": _pairwise(small[-1]),
        "true and initial of default size": _pairwise(default[-1]),
        "lowest agreement": within(torch.cat([e for e, _ in small])).min(),
        "lowest agreement from the default size": within(torch.cat([e for e, _ in default])).min(),
        "share of the optimum": best[third:].square().sum() / best.square().sum(),
        "share of the learned": true[third:].square().sum() / true.square().sum(),
        "true and root of variances": pearson(true, pca.variances.sqrt()),
    }


def _profiles(
    spectral: ls.Spectrum, y: Tensor, initial: Float[Tensor, "k d"], *, rate: float, steps: int
) -> tuple[Tensor, Tensor]:
    """Trained and initial profile of all filters: that of the mean filter lacks the variance of the initial ones."""
    eye, begin = torch.eye(initial.shape[1], dtype=torch.float64), initial.mean(0)
    kept = spectral.apply(ls.decay(spectral.values, rate=rate, steps=steps), begin)
    moved = ls.weights(spectral, y, rate=rate, steps=steps) + kept - begin
    return energy_profile(initial + moved, eye), energy_profile(initial, eye)


def _at_setting(
    spectral: ls.Spectrum,
    labels: Tensor,
    generator: torch.Generator,
    setting: tuple[int, float, str],
    **pace: Any,
) -> tuple[float, float]:
    """Agreement of the profiles from true and from random labels, and of the first with its initial one."""
    (width, std, coding), root = setting, len(labels) ** 0.5
    factor, offset = CODINGS[coding]
    coins = torch.bernoulli(torch.full((len(labels),), 0.5), generator=generator).double()
    pairs = []
    for y in (labels, coins):
        initial = std * torch.randn(width, len(spectral.values), generator=generator, dtype=torch.float64)
        pairs.append(_profiles(spectral, (factor * y + offset) / root, initial, **pace))
    (end, begin), (other, _) = pairs
    return float(pearson(end, other)), float(pearson(end, begin))


def _pairwise(profiles: tuple[Tensor, Tensor]) -> Tensor:
    """Mean correlation of each trained profile with its own initial one."""
    return torch.stack([pearson(a, b) for a, b in zip(*profiles, strict=True)]).mean()
