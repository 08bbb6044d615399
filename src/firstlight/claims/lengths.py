"""The settings that a rehearsal shortens, study by study: how long each is cut, and how the cost grows with it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Length:
    """One setting, or several that are cut together, in which the cost of a study is linear.

    Parameters
    ----------
    names : tuple of str
        Dotted names of settings with equal values.
    short : int
        Value of the shortest rehearsal; of a tuple, how many of its items.
    power : float, default 1.0
        The cost is linear in this power of the value: 2 for the images of a kernel.
    groups : tuple of int, default (0,)
        Parts of the study that it makes longer: the lengths of one group multiply, the costs of groups add up. Every
        group needs a length of its own.
    fills_memory : bool, default False
        Whether memory grows with it too, by the same power.
    """

    names: tuple[str, ...]
    short: int
    power: float = 1.0
    groups: tuple[int, ...] = (0,)
    fills_memory: bool = False

    def full(self, cfg: Any) -> int:
        """How long it is in full."""
        value = _setting(cfg, self.names[0])
        return len(value) if isinstance(value, tuple) else int(value)

    def at(self, cfg: Any, times: int) -> dict[str, Any]:
        """The settings that give so many times the short length, or the full one if that is less."""
        wanted = min(self.short * times, self.full(cfg))
        settings = {}
        for name in self.names:
            value = _setting(cfg, name)
            settings[name] = list(value[:wanted]) if isinstance(value, tuple) else wanted
        return settings

    def ratio(self, cfg: Any) -> float:
        """By how much the cost grows from the short length to the full one, if all of it does."""
        return float((max(self.full(cfg), self.short) / self.short) ** self.power)

    def growth(self, cfg: Any) -> float:
        """By how much it grows from the short length to the doubled one, if all of it does."""
        return float((min(2 * self.short, self.full(cfg)) / self.short) ** self.power)


def _setting(cfg: Any, name: str) -> Any:
    for part in name.split("."):
        cfg = getattr(cfg, part)
    return cfg


def _steps(short: int) -> tuple[Length, ...]:
    """Of the identity task, which is trained at every value."""
    return (Length(names=("base.steps",), short=short),)


LENGTHS: dict[str, tuple[Length, ...]] = {
    "feature_ansatz/ansatz_resnet50": (
        Length(names=("n_images",), short=2),
        Length(names=("initial_images",), short=1, groups=(1,)),
    ),
    "feature_ansatz/kernel_and_network": (
        Length(names=("n",), short=150, power=2, fills_memory=True),
        Length(names=("n_digits",), short=100, power=2, groups=(1,), fills_memory=True),
        Length(names=("machine.rounds",), short=1, groups=(0, 1)),
    ),
    "feature_ansatz/learned_edges": (
        Length(names=("n",), short=200, power=2, fills_memory=True),
        Length(names=("rounds",), short=1),
    ),
    "feature_ansatz/local_signals": (
        Length(names=("n_digits",), short=100, power=2, fills_memory=True),
        Length(names=("n_bars",), short=100, power=2, groups=(1,), fills_memory=True),
        Length(names=("machine.rounds",), short=1, groups=(0, 1)),
    ),
    "first_layer/linear_pairs": (Length(names=("pairs",), short=1), Length(names=("n_draws",), short=1)),
    "first_layer/random_labels": (
        Length(names=("epochs",), short=1),
        Length(names=("n_images",), short=256),
        Length(names=("residual_epochs",), short=1, groups=(1,)),
        Length(names=("residual_images",), short=256, groups=(1,)),
    ),
    "identity/cnn_depth": _steps(8),
    "identity/deep_constant": _steps(8),
    "identity/edges": _steps(10),
    "identity/filter_size": _steps(10),
    "identity/image_size": _steps(10),
    "learning_order/amplified": (
        Length(names=("epochs",), short=1),
        Length(names=("steps",), short=1000, groups=(1,)),
    ),
    "learning_order/cnn_order": (
        Length(names=("epochs",), short=1),
        Length(names=("linear_epochs",), short=1, groups=(1,)),
    ),
    "learning_order/conv_spread": (
        Length(names=("n",), short=2000, groups=(0, 1), fills_memory=True),
        Length(names=("epochs",), short=1),
        Length(names=("linear_epochs",), short=1, groups=(1,)),
        Length(names=("nets",), short=2, groups=(0, 1)),
    ),
    "learning_order/relabelled": (Length(names=("epochs",), short=1), Length(names=("nets",), short=1)),
    "learning_order/relu_order_peak": (
        Length(names=("steps",), short=100),
        Length(names=("nets",), short=1),
    ),
    "learning_order/relu_spread": (Length(names=("steps",), short=4), Length(names=("nets",), short=2)),
    "learning_order/scale_matrices": (Length(names=("steps",), short=10),),
    "learning_order/whitened_order": (
        Length(names=("epochs",), short=2),
        Length(names=("nets",), short=2),
        Length(names=("cnn_epochs",), short=1, groups=(1,)),
    ),
    "linearized/harder_tasks": (
        Length(names=("plan.epochs", "hard.epochs", "photographs.epochs"), short=4),
        Length(
            names=("plan.network_epochs", "hard.network_epochs", "photographs.network_epochs"),
            short=2,
            groups=(1,),
        ),
        Length(
            names=("plan.task.n", "hard.task.n", "photographs.task.n"),
            short=1500,
            groups=(0, 1),
            fills_memory=True,
        ),
        Length(names=("binary.task.n",), short=200, power=2, groups=(2,)),
        Length(names=("few.task.n",), short=50, power=3, groups=(3,)),
    ),
    "linearized/mnist_gap": (
        Length(names=("plan.epochs",), short=8),
        Length(names=("plan.network_epochs",), short=4, groups=(1,)),
        Length(names=("plan.task.n",), short=2000, groups=(0, 1), fills_memory=True),
        Length(names=("iterations",), short=5, groups=(2,)),
        Length(names=("few.task.n",), short=50, power=3, groups=(3,)),
    ),
}
"""Of every study with settings for the night, but for the exact solves of all of `linearized/tables`."""
