"""Study of fully connected networks: noise when shallow, the training image when deep."""

from dataclasses import dataclass, replace

from firstlight.claims.conditions import all_of
from firstlight.claims.evidence import Evidence, Measured, Series, by
from firstlight.claims.identity.common import (
    DESK_FCN,
    FITTED,
    PAPER_FCN,
    SMOKE_FCN,
    constant_at_zero,
    identity_at_zero,
    trained,
)
from firstlight.claims.quantities import Quantity, lowest, value
from firstlight.claims.rules import Change, Rule
from firstlight.claims.study import Study, study
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.questions.copy_or_memorise.task import IdentityTask

FAMILIES = {"ReLU": "fcn", "linear": "linear_fcn"}


def relu(depth: int, when: str = "") -> Quantity:
    """Cosine of ReLU networks to the constant."""
    return value(f"{when}constant of ReLU networks", at=depth)


def linear(depth: int, when: str = "") -> Quantity:
    """Cosine of linear networks to the constant."""
    return value(f"{when}constant of linear networks", at=depth)


linear_gain = linear(6) - linear(1)


@study
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
        "paper": Config(base=PAPER_FCN, narrow=784),
    }
    unit = "cosine"
    rules = (
        Rule(
            claim="id.fig2.shallow_fcn",
            effect=all_of(abs(value("identity of ReLU networks", at=1)) < 0.1, abs(relu(1)) < 0.1),
            null=abs(relu(1)) < relu(4),
            requires=FITTED,
            note="one layer by the closed form of gradient descent; noise is what an initial network gives as "
            "well, so the control is a deeper network with the same recipe",
        ),
        Rule(
            claim="id.fig2.deep_fcn",
            effect=lowest("constant of ReLU networks", over=(4, 6, 10)) > 0.8,
            reduced=relu(4) > 0.8,
            null=relu(4) > relu(4, "initial "),
            requires=FITTED,
            change=Change(
                "the weaker rule was stricter than the published one, which named one depth of three"
            ),
        ),
        Rule(
            claim="id.fig11.linear_deep",
            effect=all_of(
                linear(4) > linear(2),
                linear(6) > linear(4),
                linear_gain > 0.3,
                linear_gain > abs(value("constant of a narrow linear network") - linear(4)),
            ),
            reduced=linear_gain > 0.3,
            null=linear(6) > linear(6, "initial "),
            requires=FITTED,
            change=Change(
                "one layer against two decided by luck, though the paper has 1, 3 and 5 hidden layers; that "
                "depth matters more than width was not judged"
            ),
        ),
        Rule(
            claim="id.fig14.relu_sooner",
            effect=all_of(
                relu(4) > linear(4),
                relu(4) > linear(6),
            ),
            reduced=relu(4) > linear(4),
            null=relu(4) - linear(4) > relu(4, "initial ") - linear(4, "initial "),
            requires=FITTED,
            change=Change("the weaker rule was the stricter one"),
        ),
    )

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
