"""Study of the number of channels: too few, and very many."""

from dataclasses import dataclass, replace

from firstlight.claims.conditions import all_of
from firstlight.claims.evidence import Measured
from firstlight.claims.identity.common import (
    DESK,
    DESK_28,
    PAPER,
    SMOKE,
    constant_on_unseen,
    identity_on_unseen,
    read_all,
    trained,
    with_initial,
)
from firstlight.claims.quantities import Quantity, highest, value
from firstlight.claims.rules import Change, Rule
from firstlight.claims.study import Study, study
from firstlight.questions.copy_or_memorise.task import IdentityTask

FEW, USUAL, MANY = "few channels", "usual channels", "many channels"
FEW_DEEP, MANY_DEEP = "few channels in a deep network", "many channels in a deep network"


def _identity(network: str, when: str = "") -> Quantity:
    return value(f"{when}identity", at=network)


@study
class Channels(Study):
    """Are three channels too few, and do very many spoil or rescue anything?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Five layers with few, usual and many channels, and deep networks with few and with many."""

        base: IdentityTask = DESK_28
        deep: IdentityTask = DESK  # deep networks reach the constant at 14 x 14
        few: int = 3
        usual: int = 16
        many: int = 64
        few_depth: int = 9
        many_depth: int = 20
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE, deep=SMOKE, many=6, few_depth=3, many_depth=3),
        "desk": Config(),
        "paper": Config(base=PAPER, deep=PAPER, usual=128, many=1024),
    }
    unit = "Pearson, or loss"
    rules = (
        Rule(
            claim="id.fig10.channels_few",
            effect=all_of(_identity(FEW) < _identity(USUAL) - 0.1, value("loss", at=FEW_DEEP) > 1e-3),
            reduced=_identity(FEW) < _identity(USUAL),
            null=_identity(USUAL) - _identity(FEW)
            > _identity(USUAL, "initial ") - _identity(FEW, "initial "),
            requires=value("loss", at=USUAL) < 0.01,
        ),
        Rule(
            claim="id.fig10.channels_many",
            effect=all_of(
                _identity(MANY) > 0.9,
                _identity(MANY) >= _identity(USUAL) - 0.05,
                value("constant", at=MANY_DEEP) > 0.8,
            ),
            reduced=_identity(MANY) >= _identity(USUAL) - 0.05,
            null=all_of(
                _identity(MANY) > _identity(MANY, "initial "),
                value("constant", at=MANY_DEEP) > value("initial constant", at=MANY_DEEP),
            ),
            requires=highest("loss", over=(USUAL, MANY, MANY_DEEP)) < 0.01,
            note="64 channels stand for 1024 on a desk",
            change=Change(
                "the published rule did not ask that many channels copy as well as the usual number"
            ),
        ),
    )

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train all widths."""
        base, deep = replace(cfg.base, seed=cfg.seed, depth=5), replace(cfg.deep, seed=cfg.seed)
        tasks = {
            FEW: replace(base, width=cfg.few),
            USUAL: replace(base, width=cfg.usual),
            MANY: replace(base, width=cfg.many),
            FEW_DEEP: replace(base, width=cfg.few, depth=cfg.few_depth),
            MANY_DEEP: replace(deep, width=cfg.many, depth=cfg.many_depth),
        }
        readings = with_initial({"identity": identity_on_unseen, "constant": constant_on_unseen})
        return read_all(readings, tasks, trained(list(tasks.values()), label="Channels"))
