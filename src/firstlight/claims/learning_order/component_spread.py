"""Spread over linear networks and distance to the optimum, by principal component."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.learning_order._shared import centred, images, one_hot
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.data.interventions import ChannelNormalisation, ZCAWhitening
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import spearman
from firstlight.measures.learning_order import ComponentConvergence, component_convergence
from firstlight.theory import deep_linear as dl


@dataclass(frozen=True, kw_only=True)
class ComponentSpread(Result):
    """Convergence by component, of natural and of whitened images."""

    one_layer: ComponentConvergence
    one_layer_whitened: ComponentConvergence
    two_layers: ComponentConvergence
    two_layers_whitened: ComponentConvergence
    pair_natural: ComponentConvergence  # the two-class data, as they are
    pair_whitened: ComponentConvergence


def trained(
    train: ImageData, *, depth: int, width: int, nets: int, steps: int, rate: float, seed: int
) -> ComponentConvergence:
    """Full-batch descent on the squared loss from Glorot weights; starts, halves and ends are kept."""
    (x,) = centred(train)
    y = one_hot(train)
    moments = dl.principal_moments(x, y)
    rank = int((moments.values > 1e-9 * moments.values[0]).sum())
    sxx, syx = x.T @ x, y.T @ x
    size = rate / (depth * float(moments.values[0]))
    widths = (x.shape[1], *[width] * (depth - 1), y.shape[1])
    found = []
    for net in range(nets):
        generator = generator_from("component spread", seed, net)
        layers = dl.drawn_layers(
            widths, dl.glorot_variances(widths), generator=generator, distribution="uniform"
        )
        shots = [dl.compact(layers)]
        for step in range(1, steps + 1):
            layers = dl.stepped(layers, sxx, syx, rate=size)
            if step in (steps // 2, steps):
                shots.append(dl.compact(layers))
        found.append(torch.stack(shots))
    basis = moments.basis[:, :rank]
    goal = moments.optimum @ moments.basis.T
    return component_convergence(
        torch.stack(found), basis, steps=(0, steps // 2, steps), optimum=goal, class_mean_removed=False
    )


def by_index(values: Float[Tensor, " m"]) -> float:
    """Spearman correlation with the component's index; 0 if the values are all alike."""
    if float(values.max() - values.min()) <= 1e-9 * float(values.abs().max()):
        return 0.0
    return float(spearman(values, torch.arange(len(values))))


def bands(values: Float[Tensor, " m"]) -> tuple[float, float]:
    """Means over components 1 to 5 and 50 to 100 (or the second half, where there are fewer)."""
    low = min(49, len(values) // 2)
    return float(values[:5].mean()), float(values[low:100].mean())


@study("deeplin.fig2.left", "pcbias.fig4a", "pcbias.fig4c.whitened")
class SpreadByComponent:
    """Do linear networks agree first along the leading principal components, unless the data are whitened?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data and networks."""

        one_layer_data: str = "mnist"
        data: str = "cifar10"
        pair: str = "cats_dogs"
        n: int = 5000
        width: int = 512
        nets: int = 6
        steps: int = 300
        rate: float = 1.0  # of the stability limit 1 / (L d_1), natural images
        whitened_rate: float = 0.03  # of the same limit, or all is over in a step
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            one_layer_data="photos",
            data="photos",
            pair="photos:coffee/flower",
            n=900,
            width=32,
            nets=2,
            steps=4,
        ),
        "desk": Config(),
        "paper": Config(n=10_000, width=1024, nets=10, steps=20_000),
    }

    @staticmethod
    def run(cfg: Config) -> ComponentSpread:
        """Three data sets, natural and whitened."""

        def both(name: str, depth: int) -> tuple[ComponentConvergence, ComponentConvergence]:
            raw = images(name, "train", cfg.n, seed=cfg.seed)
            natural = ChannelNormalisation.fit(raw).transform(raw)
            white = ZCAWhitening.fit(natural).transform(natural)
            common = {
                "depth": depth,
                "width": cfg.width,
                "nets": cfg.nets,
                "steps": cfg.steps,
                "seed": cfg.seed,
            }
            return (
                trained(natural, rate=cfg.rate, **common),
                trained(white, rate=cfg.whitened_rate, **common),
            )

        one = both(cfg.one_layer_data, 1)
        two = both(cfg.data, 2)
        pair = both(cfg.pair, 2)
        return ComponentSpread(
            one_layer=one[0],
            one_layer_whitened=one[1],
            two_layers=two[0],
            two_layers_whitened=two[1],
            pair_natural=pair[0],
            pair_whitened=pair[1],
        )

    @staticmethod
    def figure(result: ComponentSpread) -> Figure:
        """Share of the spread that is left, by component."""
        shown = min(len(c.spread[0]) for c in (result.two_layers, result.two_layers_whitened))
        return curves(
            [
                Curve(name="natural", values=result.two_layers.share_left()[-1:, :shown]),
                Curve(
                    name="whitened", values=result.two_layers_whitened.share_left()[-1:, :shown], role="null"
                ),
            ],
            title="Spread over networks that is left after training",
            alt="Share of the initial spread against component: rising for natural images, flat when whitened",
            x="principal component",
            y="spread left",
            log_x=True,
            log_y=True,
        )

    rules: ClassVar = {
        "deeplin.fig2.left": Rule(
            measured=lambda r: {"Spearman": by_index(r.one_layer.share_left()[-1])},
            reproduced=lambda r: by_index(r.one_layer.share_left()[-1]) > 0.9,
            partly=lambda r: by_index(r.one_layer.share_left()[-1]) > 0.9,
            null=lambda r: {
                "whitened, last over first share": float(
                    r.one_layer_whitened.share_left()[-1, -1] / r.one_layer_whitened.share_left()[-1, 0]
                )
            },
        ),
        "pcbias.fig4a": Rule(
            measured=lambda r: {
                "distance": by_index(r.two_layers.distance[1]),
                "spread": by_index(r.two_layers.spread[1]),
                "spread 1-5": bands(r.two_layers.spread[-1])[0],
                "spread 50-100": bands(r.two_layers.spread[-1])[1],
            },
            reproduced=lambda r: (
                by_index(r.two_layers.distance[1]) > 0.5 and by_index(r.two_layers.spread[1]) > 0.5
            ),
            partly=lambda r: bands(r.two_layers.spread[-1])[0] < 0.1 * bands(r.two_layers.spread[-1])[1],
            null=lambda r: {
                "distance at the start": by_index(r.two_layers.distance[0]),
                "spread at the start": by_index(r.two_layers.spread[0]),
                "spread, whitened": by_index(r.two_layers_whitened.spread[1]),
            },
        ),
        "pcbias.fig4c.whitened": Rule(
            measured=lambda r: {
                "spread left, 1-5 over 50-100": bands(r.pair_whitened.share_left()[-1])[0]
                / bands(r.pair_whitened.share_left()[-1])[1]
            },
            reproduced=lambda r: (
                0.5
                < bands(r.pair_whitened.share_left()[-1])[0] / bands(r.pair_whitened.share_left()[-1])[1]
                < 2
            ),
            partly=lambda r: (
                1 / 3
                < bands(r.pair_whitened.share_left()[-1])[0] / bands(r.pair_whitened.share_left()[-1])[1]
                < 3
            ),
            null=lambda r: {
                "natural": bands(r.pair_natural.share_left()[-1])[0]
                / bands(r.pair_natural.share_left()[-1])[1]
            },
        ),
    }
