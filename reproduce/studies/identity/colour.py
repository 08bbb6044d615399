"""Study of single colour images."""

from dataclasses import dataclass, replace
from typing import Any

from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.identity.common import (
    DESK,
    DESK_28,
    DESK_FCN,
    SMOKE,
    SMOKE_FCN,
    constant_at_zero,
    constant_on_unseen,
    identity_at_zero,
    identity_on_unseen,
    trained,
)

CNN_32 = replace(DESK_28, image_size=32)
FCN_32 = replace(DESK_FCN, image_size=32, width=512)


@study("id.fig42.cifar")
class Colour(Study):
    """Does depth do to a single colour image what it does to a digit?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Both families, shallow and deep, on one image of the data set."""

        dataset: str = "cifar10"
        cnn: IdentityTask = CNN_32
        fcn: IdentityTask = FCN_32
        deep: IdentityTask = DESK  # deep networks reach the constant at 14 x 14
        shallow_depth: int = 3
        deep_depth: int = 20
        fcn_depth: int = 4
        seed: int = 0

    scales = {
        "smoke": Config(
            dataset="photos", cnn=SMOKE, fcn=SMOKE_FCN, deep=SMOKE, shallow_depth=2, deep_depth=3, fcn_depth=2
        ),
        "desk": Config(),
    }
    unit = "Pearson, cosine or loss"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train all four."""
        given: dict[str, Any] = {"dataset": cfg.dataset, "seed": cfg.seed}
        tasks = (
            replace(cfg.cnn, depth=cfg.shallow_depth, **given),
            replace(cfg.deep, depth=cfg.deep_depth, **given),
            replace(cfg.fcn, depth=cfg.fcn_depth, **given),
            replace(cfg.fcn, depth=1, **given),
        )
        networks = trained(tasks, label="Colour")
        shallow, deep, connected, one_layer = networks
        return {
            "identity of the shallow CNN": identity_on_unseen(shallow.after),
            "initial identity of the shallow CNN": identity_on_unseen(shallow.before),
            "constant of the deep CNN": constant_on_unseen(deep.after),
            "initial constant of the deep CNN": constant_on_unseen(deep.before),
            "identity of the deep CNN": identity_on_unseen(deep.after),
            "constant of the deep FCN": constant_at_zero(connected.after),
            "initial constant of the deep FCN": constant_at_zero(connected.before),
            "larger cosine of one layer": max(
                abs(read(one_layer.after)) for read in (identity_at_zero, constant_at_zero)
            ),
            "loss": by(
                ("shallow CNN", "deep CNN", "deep FCN", "one layer"),
                [network.after.loss for network in networks],
            ),
        }
