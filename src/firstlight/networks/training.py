"""Training networks of the bank, and checking them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from firstlight._internal.environment import code_commit, environment
from firstlight._internal.errors import InvalidInput
from firstlight._internal.executor import single_thread
from firstlight._internal.files import clear_disk_errors, locked, remove_whole, sha256_of, whole_folder
from firstlight._internal.memory_layout import with_channels_last
from firstlight._internal.tensor_files import save_sealed
from firstlight._internal.version import __version__
from firstlight.data.images import ImageData
from firstlight.models.checkpoints import fill
from firstlight.networks.bank import (
    CARD,
    PREFIX,
    RECORD,
    WEIGHTS,
    Network,
    bank_folders,
    load_network,
    weights_hash,
    write_card,
)
from firstlight.networks.definitions import LICENCES, SCALING, Definition, definition
from firstlight.networks.history import TrainingRecord, correct_images
from firstlight.training.loop import History, train_on

CHECKPOINT_SECONDS = 120.0
STRETCH = 30
LOSS_BOUND = 0.02
ACCURACY_BOUND = 0.003


def train_network(name: str, *, again: bool = False, show: bool | None = None) -> Network:
    """Train a network of the bank and keep it, with its history, in a folder of its own.

    An interrupted training goes on where it stopped, with the same bits. One thread is used: sums over threads would
    make the bits depend on the machine.

    Parameters
    ----------
    name : str
        Kind and seed, such as ``"resnet20-cifar10-0"``.
    again : bool, default False
        Replace a network of this name.
    show : bool, optional
        Force the progress bar on or off.
    """
    kind, seed = definition(name.removeprefix(PREFIX))
    name = f"{kind.kind}-{seed}"
    bank = bank_folders()[0]
    with clear_disk_errors(bank):
        bank.mkdir(parents=True, exist_ok=True)
    checkpoint = bank / f".{name}.checkpoint"
    with locked(bank / name):
        if (bank / name / CARD).exists() and not again:
            _remove_checkpoint(checkpoint)  # of a process that was killed when all was written
            raise InvalidInput(f"{name} is in {bank} already. Say `--again` to replace it.")
        _train(kind, seed, bank / name, checkpoint, show)
        _remove_checkpoint(checkpoint)
    return load_network(name)


def _train(kind: Definition, seed: int, folder: Path, checkpoint: Path, show: bool | None) -> None:
    """Train and write the network."""
    images = kind.training_data(seed)
    recipe = replace(kind.recipe, seed=seed)
    model = kind.spec(seed)
    start = weights_hash(model)
    record = TrainingRecord(
        recipe.total_steps(len(images)), recipe.steps_per_epoch(len(images)), images, n_moments=kind.n_moments
    )
    with single_thread():
        history = train_on(
            model, images, recipe, observers=[record], checkpoint=checkpoint, fused=True, device="cpu",
            checkpoint_seconds=CHECKPOINT_SECONDS, label=f"Training {folder.name}", show=show,
        )  # fmt: skip
        accuracies = _accuracies(kind, seed, record.moments, images)
    card = _card(kind, seed, images, accuracies, initial=start, cpu_seconds=record.cpu_seconds)
    _write(folder, card, record, history)


def _remove_checkpoint(path: Path) -> None:
    for leftover in (path, path.with_name(f"{path.name}.before")):
        leftover.unlink(missing_ok=True)


def _accuracies(
    kind: Definition, seed: int, moments: Mapping[int, dict[str, Tensor]], images: ImageData
) -> dict[str, dict[str, float]]:
    """Accuracy of the rounded weights: those are the network."""
    test = kind.test_data()
    accuracies = {}
    for step, state in sorted(moments.items()):
        model = _filled(kind, seed, state, step)
        accuracies[str(step)] = {"train": _accuracy(model, images), "test": _accuracy(model, test)}
    return accuracies


def _filled(kind: Definition, seed: int, state: Mapping[str, Tensor], step: int) -> nn.Module:
    wide = {name: value.float() for name, value in state.items()}
    return with_channels_last(fill(kind.spec(seed), wide, source=f"step {step}"))


def _accuracy(model: nn.Module, images: ImageData) -> float:
    return round(float(correct_images(model, images).double().mean()), 6)


def _card(
    kind: Definition,
    seed: int,
    images: ImageData,
    accuracies: dict[str, dict[str, float]],
    *,
    initial: str,
    cpu_seconds: float,
) -> dict[str, Any]:
    mean, std = SCALING[kind.data]
    return {
        "name": f"{kind.kind}-{seed}",
        "seed": seed,
        "architecture": _plain(kind.spec.config),
        "data": {
            "name": kind.data, "n": len(images), "labels": "random" if kind.random_labels else "true",
            "mean": list(mean), "std": list(std), "fingerprint": images.fingerprint, "licence": LICENCES[kind.data],
        },
        "recipe": _plain(dataclasses.asdict(kind.recipe) | {"seed": seed}),
        "initial_sha256": initial,
        "accuracies": accuracies,
        "cpu_hours": round(cpu_seconds / 3600, 3),
        "version": __version__,
        "commit": code_commit(),
        "machine": environment(),
    }  # fmt: skip


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them, so that a card equals itself after it was read."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}


def _write(folder: Path, card: dict[str, Any], record: TrainingRecord, history: History) -> None:
    flat = {
        f"{step}/{name}": value for step, state in record.moments.items() for name, value in state.items()
    }
    with whole_folder(folder) as part:
        save_sealed(part / WEIGHTS, flat)
        save_sealed(part / RECORD, record.arrays(history.loss))
        card["files"] = {
            name: {"sha256": sha256_of(part / name), "bytes": (part / name).stat().st_size}
            for name in (WEIGHTS, RECORD)
        }
        write_card(part / CARD, card)
        remove_whole(folder)  # there only with `again`; the checkpoint is kept until the new one has its name


@dataclass(frozen=True, kw_only=True)
class Check:
    """What a check of a network found.

    Parameters
    ----------
    name : str
        The network.
    initial_is_equal : bool
        Whether its seed gives the initial weights of the card, bit for bit.
    loss_error : float
        Largest relative difference of the losses of the steps that were trained again.
    n_steps : int
        Number of those steps.
    accuracy, recorded : float
        Test accuracy measured now, of the kept weights or of a whole new training, and that of the card.
    accuracy_bound : float
        How far they may lie apart.
    """

    name: str
    initial_is_equal: bool
    loss_error: float
    n_steps: int
    accuracy: float
    recorded: float
    accuracy_bound: float

    @property
    def faults(self) -> tuple[str, ...]:
        """What lies outside its bound, a sentence each; none if the network is what its card says."""
        found = []
        if not self.initial_is_equal:
            found.append("The initial weights differ from those of the card.")
        if not self.loss_error <= LOSS_BOUND:
            found.append(
                f"The losses of the first {self.n_steps} steps differ by {self.loss_error:.2g} (bound {LOSS_BOUND})."
            )
        if not abs(self.accuracy - self.recorded) <= self.accuracy_bound:
            found.append(
                f"The test accuracy is {self.accuracy:.4f}, on the card {self.recorded:.4f} (bound "
                f"{self.accuracy_bound})."
            )
        return tuple(found)


def check_network(name: str, *, steps: int = STRETCH, whole: bool = False, show: bool | None = None) -> Check:
    """Train a stretch of a network again, or all of it, and compare with what the bank keeps.

    Files are compared by their checksums, initial weights bit by bit, the losses of the first `steps` steps within
    2 %, and the test accuracy of the kept weights within 0.3 points. Another processor sums in another order; over
    thirty steps that moves losses by far less than the bound, over a whole training it leads to another network of
    the same quality, whose accuracy may differ by as much as that of another seed: 1.5 points.

    Parameters
    ----------
    name : str
        Kind and seed.
    steps : int, default 30
        Length of the stretch.
    whole : bool, default False
        Train all of it instead, which takes as long as the card says.
    show : bool, optional
        Force the progress bar on or off.
    """
    network = load_network(name)
    kind, recorded = network.definition, network.losses
    if not whole and not 1 <= steps <= len(recorded):
        raise InvalidInput(f"`steps` must lie in 1 .. {len(recorded)}; got steps={steps}.")
    images, model = network.training_data(), kind.spec(network.seed)
    is_equal = weights_hash(model) == network.card["initial_sha256"]
    wanted = len(recorded) if whole else steps
    with single_thread():
        history = train_on(
            model, images, replace(kind.recipe, seed=network.seed),
            at_most=wanted, fused=True, label=f"Checking {network.name}", show=show, device="cpu",
        )  # fmt: skip
        measured = model if whole else network.model
        accuracy = _accuracy(with_channels_last(measured), network.test_data())
    first = min(steps, wanted)
    errors = (history.loss[:first] - recorded[:first].double()).abs() / recorded[:first].double().abs()
    return Check(
        name=network.name,
        initial_is_equal=is_equal,
        loss_error=float(errors.max()),
        n_steps=first,
        accuracy=accuracy,
        recorded=network.accuracy,
        accuracy_bound=0.015 if whole else ACCURACY_BOUND,
    )
