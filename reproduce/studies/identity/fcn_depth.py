"""Study of fully connected networks: noise when shallow, the training image when deep."""

from dataclasses import dataclass, replace

from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, Series, by
from reproduce.studies.identity.common import (
    DESK_FCN,
    SMOKE_FCN,
    constant_at_zero,
    identity_at_zero,
    trained,
)

FAMILIES = {"ReLU": "fcn", "linear": "linear_fcn"}


@study("id.fig2.shallow_fcn", "id.fig2.deep_fcn", "id.fig11.linear_deep", "id.fig14.relu_sooner")
class FcnDepth(Study):
    """Do fully connected networks turn from noise to the constant map as they get deeper?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """ReLU and linear networks at every depth; all cosines are those at rho = 0."""

        base: IdentityTask
        depths: tuple[int, ...] = (1, 2, 4, 6, 10)  # weight layers; 4 is three hidden layers
        narrow: int  # width of a second linear network of four layers
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE_FCN, narrow=8, depths=(1, 2, 4, 6)),
        "desk": Config(base=DESK_FCN, narrow=392),
    }
    unit = "cosine"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train both families at every depth."""
        base, n = replace(cfg.base, seed=cfg.seed), len(cfg.depths)
        tasks = [replace(base, family=family, depth=d) for family in FAMILIES.values() for d in cfg.depths]
        tasks.append(replace(base, family="linear_fcn", depth=4, width=cfg.narrow))
        networks = trained(tasks, label="Fully connected")
        labels = [f"{name} {d}" for name in FAMILIES for d in cfg.depths]
        measured: dict[str, float | Series] = {
            "loss": by([*labels, "narrow linear"], [network.after.loss for network in networks]),
            "constant of a narrow linear network": constant_at_zero(networks[-1].after),
        }
        for start, name in zip((0, n), FAMILIES, strict=True):
            family = networks[start : start + n]
            for word, read in (("identity", identity_at_zero), ("constant", constant_at_zero)):
                measured[f"{word} of {name} networks"] = by(cfg.depths, [read(net.after) for net in family])
                measured[f"initial {word} of {name} networks"] = by(
                    cfg.depths, [read(net.before) for net in family]
                )
        return measured

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Cosines over depth."""
        roles = {
            "constant of ReLU networks": "trained",
            "constant of linear networks": "other",
            "identity of ReLU networks": "random labels",
            "initial constant of ReLU networks": "null",
        }
        return curves(
            [Curve(name=name, values=evidence.table(name), role=role) for name, role in roles.items()],
            title="Fully connected networks on images orthogonal to the training image",
            alt="Similarity to the constant rises with depth, sooner with ReLU",
            x="weight layers",
            y="cosine",
            at=[float(depth) for depth in evidence.points("constant of ReLU networks")],
        )
