"""What the studies of this theme share: settings, trained networks, and a base for sweeps over one setting."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from torch import nn

from firstlight._internal.store.runs import Store
from firstlight.questions.copy_or_memorise.task import (
    Findings,
    IdentityRun,
    IdentityTask,
    initial_findings,
    run_identity_tasks,
)
from reproduce.catalogue import Study
from reproduce.evidence import Measured, Point, Series, by

SMOKE = IdentityTask(dataset="photos", image_size=8, width=4, kernel=3, steps=4, n_images=40)
"""Seconds, no download; shows only that a study runs."""

SMOKE_FCN = dataclasses.replace(SMOKE, family="fcn", width=16)

DESK = IdentityTask()
"""14 x 14 pixels, 32 channels, default initialiser, Adam at 1e-3, stop at MSE 1e-3.

For deep networks only: at 28 x 28 twenty layers fit the digit within 600 such steps without becoming constant.
"""

DESK_28 = IdentityTask(image_size=28, width=16, steps=3000, stop_below=1e-4)
"""Full digits with few channels, for what shallow networks do; one layer alone takes all the steps."""

DESK_FCN = IdentityTask(
    family="fcn", image_size=28, optimiser="sgd", lr=0.01, momentum=0.9, steps=1000, stop_below=1e-4
)
"""As wide as the image, the papers' optimiser."""

NIGHT = IdentityTask(image_size=28, width=64, steps=5000, stop_below=1e-6)
"""Full digits, half the papers' channels, and long enough for deep networks to settle."""


Reading = Callable[[Findings], float]


@dataclass(frozen=True)
class Network:
    """A trained network beside the same one before training.

    Parameters
    ----------
    run : IdentityRun
        Its training.
    """

    run: IdentityRun

    @property
    def task(self) -> IdentityTask:
        """Its settings."""
        return self.run.settings

    @property
    def after(self) -> Findings:
        """What it does after training; raises if training diverged."""
        return self.run.measured

    @cached_property
    def before(self) -> Findings:
        """What it did before training."""
        return initial_findings(self.task)

    @property
    def model(self) -> nn.Module:
        """The trained network itself."""
        return self.run.model


def trained(tasks: Sequence[IdentityTask], *, label: str = "Identity task") -> list[Network]:
    """Train all tasks side by side, each taken from the store if it is there."""
    return [Network(run) for run in run_identity_tasks(tasks, store=Store(), label=label)]


def with_initial(readings: dict[str, Reading]) -> dict[str, Callable[[Network], float]]:
    """Readings of the trained network, the same of the initial one under "initial ...", and the training loss."""
    after = {name: _at(read, "after") for name, read in readings.items()}
    before = {f"initial {name}": _at(read, "before") for name, read in readings.items()}
    return {**after, **before, "loss": lambda network: network.after.loss}


def _at(read: Reading, time: str) -> Callable[[Network], float]:
    return lambda network: read(getattr(network, time))


def read_all(
    readings: dict[str, Callable[[Network], float]], points: Iterable[Point], networks: Sequence[Network]
) -> dict[str, Series]:
    """Read every number from every network, as one series for each name."""
    points = tuple(points)
    return {name: by(points, [read(network) for network in networks]) for name, read in readings.items()}


class IdentitySweep(Study):
    """Trains the identity task at each value of one of its fields; the run is inherited."""

    base: IdentityTask
    values: tuple[Any, ...]

    field: ClassVar[str]
    """Field of the task that the values are for."""

    readings: ClassVar[dict[str, Callable[[Any], float]]]
    """Numbers to read from every network, by name."""

    def further(self, networks: list[Network]) -> Measured:
        """Whatever else is measured on the same networks."""
        return {}

    def run(self) -> Measured:
        """Train, or fetch from the store, and read every number at every value."""
        tasks = [dataclasses.replace(self.base, seed=self.seed, **{self.field: v}) for v in self.values]
        networks = trained(tasks)
        return {**read_all(self.readings, self.values, networks), **self.further(networks)}


# ---------------------------------------------------------------- readings


def identity_on_unseen(findings: Findings) -> float:
    """Mean Pearson to the identity on unseen images."""
    return findings.scores["unseen"].means["identity"]


def constant_on_unseen(findings: Findings) -> float:
    """Mean Pearson to the constant on unseen images."""
    return findings.scores["unseen"].means["constant"]


def identity_at_zero(findings: Findings) -> float:
    """Cosine to the identity at rho = 0."""
    return float(findings.response.identity[0])


def constant_at_zero(findings: Findings) -> float:
    """Cosine to the constant at rho = 0."""
    return float(findings.response.constant[0])


def mean_identity(findings: Findings) -> float:
    """Cosine to the identity, mean over the rho grid."""
    return float(findings.response.identity.mean())


def mean_constant(findings: Findings) -> float:
    """Cosine to the constant, mean over the rho grid."""
    return float(findings.response.constant.mean())
