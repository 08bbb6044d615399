"""Study of training on many digits."""

from dataclasses import dataclass, replace

from firstlight.claims.conditions import all_of
from firstlight.claims.evidence import Measured
from firstlight.claims.identity.common import PAPER, SMOKE, Reading, read_all, trained, with_initial
from firstlight.claims.quantities import Quantity, lowest, value
from firstlight.claims.rules import Rule
from firstlight.claims.study import Study, study
from firstlight.insights import IdentityTask

TEN_EPOCHS = IdentityTask(
    examples=None, n_images=2000, image_size=28, width=16, batch_size=32, steps=630, stop_below=None
)
ELSEWHERE = ("patterns", "other images")
GROUPS = {"unseen digits": "unseen", "patterns": "patterns", "other images": "others"}


def copying(what: str, by: str, *, when: str = "") -> Quantity:
    """Pearson to the identity of one network on one group of images."""
    return value(f"{when}identity on {what}", at=by)


def _reading(group: str) -> Reading:
    return lambda findings: findings.scores[group].means["identity"]


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
            effect=all_of(
                *(copying(what, "CNN") > 0.9 for what in ELSEWHERE),
                *(copying(what, "FCN") < 0.7 for what in ELSEWHERE),
                copying("patterns", "CNN") > copying("patterns", "FCN") + 0.2,
            ),
            reduced=copying("patterns", "CNN") > copying("patterns", "FCN") + 0.2,
            null=copying("patterns", "CNN") - copying("patterns", "FCN")
            > copying("patterns", "CNN", when="initial ") - copying("patterns", "FCN", when="initial "),
            requires=lowest("identity on unseen digits", over=("CNN", "FCN")) > 0.9,
            note="patterns without contrast count as 0, for both networks alike",
        ),
        Rule(
            claim="id.fig40.linear_rows",
            effect=all_of(*(copying(what, "linear FCN") < 0.7 for what in ELSEWHERE)),
            reduced=copying("patterns", "linear FCN") < 0.7,
            null=copying("patterns", "linear FCN") < copying("patterns", "CNN"),
            requires=copying("unseen digits", "linear FCN") > 0.9,
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
        networks = trained(list(tasks.values()), label="All digits")
        readings = with_initial({f"identity on {what}": _reading(group) for what, group in GROUPS.items()})
        return read_all(readings, tasks, networks)
