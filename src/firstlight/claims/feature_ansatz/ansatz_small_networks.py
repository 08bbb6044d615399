"""The ansatz in small networks, with the controls that tell learning from linear algebra."""

from dataclasses import dataclass, replace

import torch

from firstlight.claims.feature_ansatz.ansatz_networks import (
    POOLINGS,
    AnsatzNumbers,
    NetworkPlan,
    every,
    small_network,
)
from firstlight.claims.study import Rule, study
from firstlight.core.parallel import map_tasks
from firstlight.core.result import Result
from firstlight.figures import Dots, Figure, dots


@dataclass(frozen=True, kw_only=True)
class SmallNetworks(Result):
    """One entry per network: three poolings on every data set, and larger kernels on the first."""

    networks: tuple[AnsatzNumbers, ...]
    poolings: tuple[str, ...]
    kernels: tuple[int, ...]
    data: tuple[str, ...]

    def chosen(self, *, pooling: str | None = None, kernel: int | None = 3) -> tuple[AnsatzNumbers, ...]:
        """Networks with that pooling and kernel."""
        rows = zip(self.networks, self.poolings, self.kernels, strict=True)
        return tuple(n for n, p, k in rows if pooling in (None, p) and kernel in (None, k))

    def by_kernel(self, kernel: int, what: str = "cosine") -> float:
        """Mean over layers and poolings on the one data set that has all kernels."""
        first = self.data[0]
        rows = zip(self.networks, self.kernels, self.data, strict=True)
        return float(every(tuple(n for n, k, d in rows if k == kernel and d == first), what).mean())

    def mean(self, what: str, *, pooling: str | None = None) -> float:
        """Mean over layers and networks with 3 x 3 kernels."""
        return float(every(self.chosen(pooling=pooling), what).mean())

    def spread(self, what: str) -> float:
        """Standard deviation over networks of the mean over layers."""
        return float(torch.stack([getattr(n, what).mean() for n in self.chosen()]).std())


@study(
    "cnfa.small",
    "cnfa.fig1.init_control",
    "cnfa.fig9.pooling",
    "cnfa.fig9.patch_size",
    "cnfa.fig9.init",
)
class AnsatzInSmallNetworks:
    """Do filters and gradients of small trained networks agree, and more than rotated gradients would?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data sets and the size of the networks."""

        data: tuple[str, ...] = ("mnist", "cifar10", "photos")  # kernels vary on the first
        n: int = 1500
        depth: int = 3
        channels: int = 16
        kernels: tuple[int, ...] = (3, 5, 7)
        lr: float = 2e-3
        epochs: int = 10
        agop_images: int = 100
        seed: int = 0

    scales = {
        "smoke": Config(data=("photos",), n=64, channels=4, kernels=(3, 5, 7), epochs=1, agop_images=8),
        "desk": Config(),
        "paper": Config(
            data=("mnist", "fashion_mnist", "cifar10", "photos"),
            n=2000,
            depth=4,
            channels=64,
            lr=2e-4,
            epochs=500,
        ),
    }

    @staticmethod
    def run(cfg: Config) -> SmallNetworks:
        """Train every network and measure it before and after."""
        base = NetworkPlan(
            data=cfg.data[0], n=cfg.n, depth=cfg.depth, channels=cfg.channels, lr=cfg.lr, epochs=cfg.epochs,
            agop_images=cfg.agop_images, seed=cfg.seed,
        )  # fmt: skip
        plans = [
            replace(base, data=data, pooling=pooling, kernel=kernel)
            for data in cfg.data
            for kernel in (cfg.kernels if data == cfg.data[0] else cfg.kernels[:1])
            for pooling in POOLINGS
        ]
        return SmallNetworks(
            networks=tuple(map_tasks(small_network, plans, label="Small networks")),
            poolings=tuple(plan.pooling for plan in plans),
            kernels=tuple(plan.kernel for plan in plans),
            data=tuple(plan.data for plan in plans),
        )

    @staticmethod
    def figure(result: SmallNetworks) -> Figure:
        """Draw the mean correlation of every network, before and after, with its null."""
        return dots(
            [network.name for network in result.networks],
            [
                Dots.of("trained", [n.cosine for n in result.networks]),
                Dots.of("initial", [n.initial_cosine for n in result.networks], role="initial"),
                Dots.of("trained, gradients rotated", [n.null_cosine for n in result.networks], role="null"),
            ],
            title="Do filters and gradients agree?",
            alt="Cosine of feature matrix and gradient outer product for every small network; bars span layers",
            y="cosine, mean and range over layers",
        )

    rules = {
        "cnfa.small": Rule(
            measured=lambda r: {
                "Pearson": r.mean("pearson"),
                "cosine": r.mean("cosine"),
                "lowest Pearson": float(every(r.chosen(), "pearson").min()),
                "test accuracy": float(torch.tensor([n.test_accuracy for n in r.chosen()]).mean()),
            },
            reproduced=lambda r: min(r.mean("pearson"), r.mean("cosine")) > 0.85,
            partly=lambda r: float(every(r.chosen(), "pearson").min()) > 0.8,
            spread=lambda r: {"Pearson": r.spread("pearson"), "cosine": r.spread("cosine")},
            null=lambda r: {
                "Pearson, gradients rotated": r.mean("null_pearson"),
                "Pearson at initialisation": r.mean("initial_pearson"),
                "layers above their null": float(
                    (every(r.chosen(), "pearson") > every(r.chosen(), "null_pearson")).double().mean()
                ),
                "isotropy of Q": r.mean("isotropy"),
            },
        ),
        "cnfa.fig1.init_control": Rule(
            measured=lambda r: {
                "Pearson, initial and trained filters": r.mean("filters_pearson"),
                "largest": float(every(r.chosen(), "filters_pearson").max()),
                "share of layers below 0.5": float(
                    (every(r.chosen(), "filters_pearson") < 0.5).double().mean()
                ),
            },
            reproduced=lambda r: float((every(r.chosen(), "filters_pearson") < 0.5).double().mean()) > 0.5,
            partly=lambda r: (
                float(every(r.chosen(), "filters_pearson").max()) < 0.4
                and float(every(r.chosen(), "pearson").min()) > 0.8
            ),
            spread=lambda r: {"Pearson, initial and trained filters": r.spread("filters_pearson")},
            null=lambda r: {"Pearson, initial filters and initial gradients": r.mean("initial_pearson")},
        ),
        "cnfa.fig9.pooling": Rule(
            measured=lambda r: {p: r.mean("cosine", pooling=p) for p in POOLINGS},
            reproduced=lambda r: (
                r.mean("cosine", pooling="max")
                > max(r.mean("cosine", pooling="avg"), r.mean("cosine", pooling="vec"))
            ),
            partly=lambda r: False,
            null=lambda r: {
                f"{p}, {which}": r.mean(what, pooling=p)
                for p in POOLINGS
                for which, what in (("rotated", "null_cosine"), ("initial", "initial_cosine"))
            },
            note="the reduced rule asks for a report only, so nothing counts as partly",
        ),
        "cnfa.fig9.patch_size": Rule(
            measured=lambda r: {f"{k}x{k}": r.by_kernel(k) for k in (3, 5, 7)},
            reproduced=lambda r: r.by_kernel(3) >= r.by_kernel(5) >= r.by_kernel(7),
            partly=lambda r: r.by_kernel(7) <= r.by_kernel(3) + 0.02,
            null=lambda r: {
                f"{k}x{k}, {which}": r.by_kernel(k, what)
                for k in (3, 5, 7)
                for which, what in (("rotated", "null_cosine"), ("initial", "initial_cosine"))
            },
        ),
        "cnfa.fig9.init": Rule(
            measured=lambda r: {
                "trained minus initial cosine": r.mean("cosine") - r.mean("initial_cosine"),
                **{p: r.mean("cosine", pooling=p) - r.mean("initial_cosine", pooling=p) for p in POOLINGS},
            },
            reproduced=lambda r: r.mean("cosine") - r.mean("initial_cosine") > 0,
            partly=lambda r: r.mean("cosine") - r.mean("initial_cosine") > 0,
            null=lambda r: {
                "the same of the rotated gradients": r.mean("null_cosine") - r.mean("initial_null_cosine")
            },
        ),
    }
