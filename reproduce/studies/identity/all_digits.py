"""Study of training on many digits."""

from dataclasses import dataclass, replace

from firstlight.questions.copy_or_memorise.task import Findings, IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, Series, by
from reproduce.studies.identity.common import SMOKE, trained

TEN_EPOCHS = IdentityTask(
    examples=None, n_images=2000, image_size=28, width=16, batch_size=32, steps=630, stop_below=None
)
ELSEWHERE = {"patterns": "patterns", "other images": "others"}


def _elsewhere(findings: Findings) -> Series:
    return by(ELSEWHERE, [findings.scores[group].means["identity"] for group in ELSEWHERE.values()])


@study("id.fig1.60k", "id.fig40.linear_rows")
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
    }
    unit = "Pearson to the identity"

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
