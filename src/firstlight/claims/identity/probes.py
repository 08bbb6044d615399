"""Study of what survives from layer to layer, before and after training."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import DESK_28, PAPER, SMOKE, grid, sd, varied
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data import ImageData, load
from firstlight.data.interventions import MNIST_NORMALISATION, ChannelNormalisation
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityTask
from firstlight.maths import spearman
from firstlight.measures.identity import layer_images, layer_probe, resized


@dataclass(frozen=True, kw_only=True)
class ProbeResult(Result):
    """Error of the averaging classifier by layer (the first entry is the input), and layer images."""

    random: Float[Tensor, " probed"]
    trained: Float[Tensor, "seeds depth"]
    chance: float
    singular: Float[Tensor, "draws layers"]

    @property
    def singular_mean(self) -> Float[Tensor, " layers"]:
        """Absolute Pearson of the top singular image with the input, mean over seeds."""
        return self.singular.mean(0)

    @property
    def late_layer(self) -> int:
        """Layer 10, or the last one of a shorter network."""
        return min(10, len(self.random) - 1)


def _labelled(dataset: str, split: str, n: int, side: int, seed: int) -> ImageData:
    data = load(dataset, split=split, seed=seed)
    data = data.sample(min(n, len(data)), seed=seed)
    norm = MNIST_NORMALISATION if data.shape[0] == 1 else ChannelNormalisation.fit(data)
    return data.replace(x=norm.normalised(resized(data.x, side)).float())


@study("id.fig5.probe_random", "id.fig5.probe_trained", "id.fig15.random_smoothing")
class Probes:
    """How much of the input survives each layer of an untrained and of a trained network?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK_28
        initialiser: str = "xavier_normal"  # of the trained networks, the same as in the study of contours
        steps: int = 2000
        stop_below: float | None = 1e-3
        depth: int = 10
        random_depth: int = 20
        n_train: int = 2000
        n_test: int = 500
        n_seeds: int = 2
        n_random: int = 3
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE, depth=3, random_depth=10, n_train=40, n_test=20, steps=4),
        "desk": Config(),
        "paper": Config(
            base=PAPER, initialiser="default", steps=2_000_000, stop_below=None, n_train=60_000, n_test=10_000
        ),
    }

    @staticmethod
    def run(cfg: Config) -> ProbeResult:
        """Probe."""
        side, name = cfg.base.image_size, cfg.base.dataset
        train = _labelled(name, "train", cfg.n_train, side, cfg.seed)
        test = _labelled(name, "test", cfg.n_test, side, cfg.seed)
        fresh = [
            varied(cfg.base, s, depth=cfg.random_depth) for s in range(cfg.seed, cfg.seed + cfg.n_random)
        ]
        settings = {
            "initialiser": cfg.initialiser,
            "steps": cfg.steps,
            "stop_below": cfg.stop_below,
            "depth": cfg.depth,
        }
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        (runs,) = grid([[varied(cfg.base, s, **settings) for s in seeds]], label="probes")
        random = layer_probe(fresh[0].build(), train, test)
        digit = fresh[0].images.training[0]
        return ProbeResult(
            random=random.errors,
            trained=torch.stack([layer_probe(run.model, train, test).errors for run in runs]),
            chance=random.chance,
            singular=torch.stack([layer_images(t.build(), digit).singular_similarity for t in fresh]),
        )

    @staticmethod
    def figure(result: ProbeResult) -> Figure:
        """Error by layer of the trained networks."""
        chance = torch.full((1, result.trained.shape[1]), result.chance, dtype=torch.float64)
        shown = result.random[: result.trained.shape[1]]
        return curves(
            [
                Curve(name="trained", values=result.trained),
                Curve(name="untrained", values=shown[None], role="initial"),
                Curve(name="chance", values=chance[:, : len(shown)], role="null"),
            ],
            title="Error of the averaging classifier by layer",
            alt="The untrained network loses the classes; the trained ones lose and regain them",
            x="layer (0 is the input)",
            y="error",
            at=range(len(shown)),
        )

    rules = {
        "id.fig5.probe_random": Rule(
            measured=lambda r: {
                f"layer {i}": float(r.random[i])
                for i in range(0, len(r.random), 2 if len(r.random) > 6 else 1)
            },
            null=lambda r: {"chance": r.chance},
            reproduced=lambda r: bool((r.random[8:] > 0.8).all()) and len(r.random) > 8,
            partly=lambda r: float(r.random[r.late_layer]) > float(r.random[0]) + 0.2,
        ),
        "id.fig5.probe_trained": Rule(
            measured=lambda r: {
                "input": float(r.trained[:, 0].mean()),
                "largest in the middle": float(r.trained[:, 1:-1].mean(0).max()),
                "output": float(r.trained[:, -1].mean()),
            },
            spread=lambda r: {"output": sd(r.trained[:, -1])},
            null=lambda r: {
                "chance": r.chance,
                "untrained, same layer": float(r.random[r.trained.shape[1] - 1]),
            },
            reproduced=lambda r: (
                float(r.trained[:, 1:-1].mean(0).max()) > float(r.trained[:, -1].mean()) + 0.05
            ),
            partly=lambda r: float(r.trained[:, -1].mean()) < float(r.trained[:, 1:-1].mean(0).max()),
        ),
        "id.fig15.random_smoothing": Rule(
            measured=lambda r: {
                f"layer {i}": float(r.singular_mean[i - 1])
                for i in (1, 2, 4, 6, 8, 10)
                if i <= len(r.random) - 1
            },
            spread=lambda r: {
                f"layer {i}": sd(r.singular[:, i - 1]) for i in (1, 2, 4, 6, 8, 10) if i <= len(r.random) - 1
            },
            reproduced=lambda r: (
                float(spearman(torch.arange(r.late_layer).double(), r.singular_mean[: r.late_layer])) < 0
                and float(r.singular_mean[r.late_layer - 1]) < 0.5
            ),
            partly=lambda r: float(r.singular_mean[r.late_layer - 1]) < float(r.singular_mean[1]),
        ),
    }
