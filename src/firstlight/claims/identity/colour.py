"""Study of single colour images."""

from dataclasses import dataclass, replace
from typing import Any

from firstlight.claims.conditions import all_of
from firstlight.claims.evidence import Measured
from firstlight.claims.identity.common import (
    DESK,
    DESK_28,
    DESK_FCN,
    FITTED,
    PAPER,
    PAPER_FCN,
    SMOKE,
    SMOKE_FCN,
    constant_at_zero,
    constant_on_unseen,
    identity_at_zero,
    identity_on_unseen,
    read_all,
    trained,
    with_initial,
)
from firstlight.claims.quantities import value
from firstlight.claims.rules import Rule
from firstlight.claims.study import Study, study
from firstlight.insights import IdentityTask

CNN_32 = replace(DESK_28, image_size=32)
FCN_32 = replace(DESK_FCN, image_size=32, width=512)
CNN, DEEP_CNN, FCN, ONE_LAYER = "shallow CNN", "deep CNN", "deep FCN", "one-layer FCN"


@study
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
        "paper": Config(
            cnn=replace(PAPER, image_size=32),
            fcn=replace(PAPER_FCN, image_size=32, width=3072),
            deep=replace(PAPER, image_size=32),
        ),
    }
    unit = "Pearson, cosine or loss"
    rules = (
        Rule(
            claim="id.fig42.cifar",
            effect=all_of(
                value("identity on unseen", at=CNN) > 0.9,
                value("constant on unseen", at=DEEP_CNN) > 0.8,
                value("constant on unseen", at=DEEP_CNN) > value("identity on unseen", at=DEEP_CNN),
                value("constant across", at=FCN) > 0.8,
                abs(value("identity across", at=ONE_LAYER)) < 0.1,
                abs(value("constant across", at=ONE_LAYER)) < 0.1,
            ),
            reduced=all_of(value("identity on unseen", at=CNN) > 0.8, value("constant across", at=FCN) > 0.8),
            null=all_of(
                value("identity on unseen", at=CNN) > value("initial identity on unseen", at=CNN),
                value("constant on unseen", at=DEEP_CNN) > value("initial constant on unseen", at=DEEP_CNN),
                value("constant across", at=FCN) > value("initial constant across", at=FCN),
            ),
            requires=FITTED,
            note="on unseen images by Pearson; across means cosines on images orthogonal to the training image",
        ),
    )

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train all four."""
        given: dict[str, Any] = {"dataset": cfg.dataset, "seed": cfg.seed}
        tasks = {
            CNN: replace(cfg.cnn, depth=cfg.shallow_depth, **given),
            DEEP_CNN: replace(cfg.deep, depth=cfg.deep_depth, **given),
            FCN: replace(cfg.fcn, depth=cfg.fcn_depth, **given),
            ONE_LAYER: replace(cfg.fcn, depth=1, **given),
        }
        readings = with_initial(
            {
                "identity on unseen": identity_on_unseen,
                "constant on unseen": constant_on_unseen,
                "identity across": identity_at_zero,
                "constant across": constant_at_zero,
            }
        )
        return read_all(readings, tasks, trained(list(tasks.values()), label="Colour"))
