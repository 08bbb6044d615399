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
    adds : bool, default False
        Whether its work is done beside that of other lengths, not repeated for each of them.
    fills_memory : bool, default False
        Whether memory grows with it too, by the same power.
    """

    names: tuple[str, ...]
    short: int
    power: float = 1.0
    adds: bool = False
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
        Length(names=("n_images",), short=2, adds=True),
        Length(names=("initial_images",), short=1, adds=True),
    ),
    "feature_ansatz/kernel_and_network": (
        Length(names=("n",), short=150, power=2, adds=True, fills_memory=True),
        Length(names=("n_digits",), short=100, power=2, adds=True, fills_memory=True),
        Length(names=("machine.rounds",), short=1),
    ),
    "feature_ansatz/learned_edges": (
        Length(names=("n",), short=200, power=2, fills_memory=True),
        Length(names=("rounds",), short=1),
    ),
    "feature_ansatz/local_signals": (
        Length(names=("n_digits",), short=100, power=2, adds=True, fills_memory=True),
        Length(names=("n_bars",), short=100, power=2, adds=True, fills_memory=True),
        Length(names=("machine.rounds",), short=1),
    ),
    "first_layer/random_labels": (
        Length(names=("epochs",), short=1, adds=True),
        Length(names=("residual_epochs",), short=1, adds=True),
    ),
    "identity/cnn_depth": _steps(8),
    "identity/deep_constant": _steps(8),
    "identity/edges": _steps(10),
    "identity/filter_size": _steps(10),
    "identity/image_size": _steps(10),
    "learning_order/amplified": (
        Length(names=("epochs",), short=1, adds=True),
        Length(names=("steps",), short=1000, adds=True),
    ),
    "learning_order/cnn_order": (
        Length(names=("epochs",), short=1, adds=True),
        Length(names=("linear_epochs",), short=1, adds=True),
    ),
    "learning_order/conv_spread": (
        Length(names=("epochs",), short=1, adds=True),
        Length(names=("linear_epochs",), short=1, adds=True),
        Length(names=("nets",), short=2),
    ),
    "learning_order/relabelled": (Length(names=("epochs",), short=1), Length(names=("nets",), short=1)),
    "learning_order/relu_order_peak": (Length(names=("steps",), short=100), Length(names=("nets",), short=1)),
    "learning_order/relu_spread": (Length(names=("steps",), short=2), Length(names=("nets",), short=2)),
    "learning_order/scale_matrices": (Length(names=("steps",), short=10),),
    "learning_order/whitened_order": (
        Length(names=("epochs",), short=2, adds=True),
        Length(names=("cnn_epochs",), short=1, adds=True),
        Length(names=("nets",), short=2),
    ),
    "linearized/harder_tasks": (
        Length(names=("plan.epochs", "hard.epochs", "photographs.epochs"), short=1),
        Length(names=("plan.task.n", "hard.task.n"), short=1000, fills_memory=True),
    ),
    "linearized/mnist_gap": (
        Length(names=("plan.epochs",), short=1),
        Length(names=("plan.task.n",), short=1000, fills_memory=True),
    ),
    "linearized/tables": (
        Length(names=("plan.epochs",), short=1, adds=True),
        Length(names=("plan.task.n",), short=1000, power=3, adds=True),
    ),
}
"""Of every study with settings for the night."""
