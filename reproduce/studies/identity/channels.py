"""Study of the number of channels: too few, and very many."""

from dataclasses import dataclass, replace

from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured
from reproduce.studies.identity.common import (
    DESK,
    DESK_28,
    SMOKE,
    constant_on_unseen,
    identity_on_unseen,
    read_all,
    trained,
    with_initial,
)

FEW, USUAL, MANY = "few channels", "usual channels", "many channels"
FEW_DEEP, MANY_DEEP = "few channels in a deep network", "many channels in a deep network"


@study("id.fig10.channels_few", "id.fig10.channels_many")
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
    }
    unit = "Pearson, or loss"

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
