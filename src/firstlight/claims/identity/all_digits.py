"""Study of training on many digits."""

from dataclasses import dataclass, replace

from firstlight.claims.conditions import all_of
from firstlight.claims.evidence import Measured, Series, by
from firstlight.claims.identity.common import PAPER, SMOKE, trained
from firstlight.claims.quantities import Quantity, highest, lowest, value
from firstlight.claims.rules import Rule
from firstlight.claims.study import Study, study
from firstlight.questions.copy_or_memorise.task import Findings, IdentityTask

TEN_EPOCHS = IdentityTask(
    examples=None, n_images=2000, image_size=28, width=16, batch_size=32, steps=630, stop_below=None
)
ELSEWHERE = {"patterns": "patterns", "other images": "others"}


def _elsewhere(findings: Findings) -> Series:
    return by(ELSEWHERE, [findings.scores[group].means["identity"] for group in ELSEWHERE.values()])


def _patterns(network: str) -> Quantity:
    return value(f"{network} off the digits", at="patterns")


@study
class AllDigits(Study):
    """Trained on many digits, do convolutional networks copy everything and connected ones digits only?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """One convolutional, one fully connected and one linear network on the same digits."""

        base: IdentityTask = TEN_EPOCHS
        cnn_depth: int = 5
        fcn_depth: int = 4
        seed: int = 0

    scales = {
        "smoke": Config(base=replace(SMOKE, examples=None, batch_size=16), cnn_depth=2, fcn_depth=2),
        "desk": Config(),
        "paper": Config(base=replace(PAPER, examples=None, batch_size=128), cnn_depth=24, fcn_depth=10),
    }
    unit = "Pearson to the identity"
    rules = (
        Rule(
            claim="id.fig1.60k",
            effect=all_of(lowest("CNN off the digits") > 0.9, highest("FCN off the digits") < 0.7),
            reduced=_patterns("CNN") > _patterns("FCN") + 0.2,
            null=_patterns("CNN") - _patterns("FCN") > _patterns("initial CNN") - _patterns("initial FCN"),
            requires=lowest("identity on unseen digits", over=("CNN", "FCN")) > 0.9,
            note="patterns without contrast count as 0, for both networks alike",
        ),
        Rule(
            claim="id.fig40.linear_rows",
            effect=highest("linear FCN off the digits") < 0.7,
            reduced=_patterns("linear FCN") < 0.7,
            null=_patterns("linear FCN") < _patterns("CNN"),
            requires=value("identity on unseen digits", at="linear FCN") > 0.9,
        ),
    )

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train all three."""
        base = replace(cfg.base, seed=cfg.seed)
        tasks = {
            "CNN": replace(base, depth=cfg.cnn_depth),
            "FCN": replace(base, family="fcn", width=None, depth=cfg.fcn_depth),
            "linear FCN": replace(base, family="linear_fcn", width=None, depth=cfg.fcn_depth),
        }
        networks = dict(zip(tasks, trained(list(tasks.values()), label="All digits"), strict=True))
        digits = [network.after.scores["unseen"].means["identity"] for network in networks.values()]
        return {
            "identity on unseen digits": by(tasks, digits),
            **{f"{name} off the digits": _elsewhere(network.after) for name, network in networks.items()},
            **{
                f"initial {name} off the digits": _elsewhere(network.before)
                for name, network in networks.items()
            },
        }
