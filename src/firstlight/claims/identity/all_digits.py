"""Study of training on many digits."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import PAPER, SMOKE, grid, numbers, sd, varied
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityTask

DESK_ALL = IdentityTask(
    examples=None, n_images=2000, width=16, batch_size=32, steps=630, stop_below=None
)  # ten epochs


@dataclass(frozen=True, kw_only=True)
class AllDigitsResult(Result):
    """Pearson to the identity on patterns and on other images, one entry per seed."""

    cnn_patterns: Float[Tensor, " seeds"]
    fcn_patterns: Float[Tensor, " seeds"]
    cnn_others: Float[Tensor, " seeds"]
    fcn_others: Float[Tensor, " seeds"]
    cnn_unseen: Float[Tensor, " seeds"]
    fcn_unseen: Float[Tensor, " seeds"]


@study("id.fig1.60k")
class AllDigits:
    """Trained on many digits, do convolutional networks copy everything and connected ones digits only?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK_ALL
        cnn_depth: int = 5
        fcn_depth: int = 4
        n_seeds: int = 2
        seed: int = 0

    scales = {
        "smoke": Config(base=varied(SMOKE, 0, examples=None, batch_size=16), cnn_depth=2, fcn_depth=2),
        "desk": Config(),
        "paper": Config(base=varied(PAPER, 0, examples=None, batch_size=128), cnn_depth=24, fcn_depth=10),
    }

    @staticmethod
    def run(cfg: Config) -> AllDigitsResult:
        """Train both."""
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        rows = [
            [varied(cfg.base, s, depth=cfg.cnn_depth) for s in seeds],
            [varied(cfg.base, s, family="fcn", width=None, depth=cfg.fcn_depth) for s in seeds],
        ]
        runs = grid(rows, label="all digits")
        by_group = {
            name: numbers(runs, lambda f, name=name: f.scores[name].means["identity"])  # type: ignore[misc]
            for name in ("patterns", "others", "unseen")
        }
        return AllDigitsResult(
            **{
                f"{kind}_{name}": values[row]
                for name, values in by_group.items()
                for row, kind in enumerate(("cnn", "fcn"))
            }
        )

    @staticmethod
    def figure(result: AllDigitsResult) -> Figure:
        """Patterns."""
        return curves(
            [
                Curve(name="convolutional", values=result.cnn_patterns[None]),
                Curve(name="fully connected", values=result.fcn_patterns[None], role="other"),
            ],
            title="Copying patterns after training on many digits",
            alt="Convolutional networks copy patterns better",
            x="seed",
            y="Pearson to the identity",
        )

    rules = {
        "id.fig1.60k": Rule(
            measured=lambda r: {
                "CNN, patterns": float(r.cnn_patterns.mean()),
                "FCN, patterns": float(r.fcn_patterns.mean()),
                "CNN, other images": float(r.cnn_others.mean()),
                "FCN, other images": float(r.fcn_others.mean()),
                "CNN, unseen digits": float(r.cnn_unseen.mean()),
                "FCN, unseen digits": float(r.fcn_unseen.mean()),
            },
            spread=lambda r: {"CNN, patterns": sd(r.cnn_patterns), "FCN, patterns": sd(r.fcn_patterns)},
            reproduced=lambda r: (
                min(float(r.cnn_patterns.mean()), float(r.cnn_others.mean())) > 0.9
                and max(float(r.fcn_patterns.mean()), float(r.fcn_others.mean())) < 0.7
            ),
            partly=lambda r: float(r.cnn_patterns.mean()) > float(r.fcn_patterns.mean()) + 0.2,
            note="patterns without contrast count as 0, for both networks alike",
        )
    }
