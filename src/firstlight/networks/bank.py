"""Finding networks of the bank, and reading them."""

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from firstlight._internal.environment import user_folder
from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight._internal.files import seal_of, sha256_of
from firstlight._internal.tensor_files import load_sealed
from firstlight._internal.untrusted_files import guarded, read_json
from firstlight.data.images import ImageData
from firstlight.measures.learning_order.accessibility import AccessibilityHistory
from firstlight.models.checkpoints import fill
from firstlight.networks.definitions import KINDS, SCALING, TITLES, Definition, definition
from firstlight.networks.history import unpacked

CARD, WEIGHTS, RECORD = "card.json", "weights.safetensors", "record.safetensors"
PREFIX = "networks:"
"""What a name of the bank begins with where files can be named too."""


def bank_folders() -> tuple[Path, ...]:
    """Folders that are searched, in this order; networks are trained into the first.

    `FIRSTLIGHT_NETWORKS` if given; in a checkout its folder ``networks``, elsewhere one in the user's cache folder;
    then the starter networks that come with the package.
    """
    here = Path(__file__).resolve()
    checkout = here.parents[3]
    is_checkout = (checkout / "pyproject.toml").is_file() and (checkout / "src").is_dir()
    own = checkout / "networks" if is_checkout else user_folder("", leaf="networks")
    given = os.environ.get("FIRSTLIGHT_NETWORKS")
    return (*((Path(given).expanduser(),) if given else ()), own, here.parent / "starter")


def network_names() -> tuple[str, ...]:
    """Names of all networks that are there, in the order of their kinds."""
    found = {path.parent.name for folder in bank_folders() for path in folder.glob(f"*/{CARD}")}
    order = {kind: index for index, kind in enumerate(KINDS)}
    return tuple(sorted(found, key=lambda name: (order.get(name.rpartition("-")[0], len(order)), name)))


@dataclass(frozen=True, kw_only=True)
class Network:
    """A trained network with its history.

    Parameters
    ----------
    name : str
        Kind and seed.
    folder : Path
        Where its files lie.
    card : dict of str to Any
        What made it, and how accurate it was at every kept moment.
    """

    name: str
    folder: Path
    card: dict[str, Any]

    @property
    def definition(self) -> Definition:
        """Architecture, data and recipe."""
        return definition(self.name)[0]

    @property
    def seed(self) -> int:
        """Seed for the weights, the order of the images and whatever else is drawn."""
        return int(self.card["seed"])

    @property
    def title(self) -> str:
        """Name in words, for pages.

        Examples
        --------
        >>> Network(name="resnet20-cifar10-0", folder=Path(), card={"seed": 0}).title
        'ResNet-20 (seed 0)'
        """
        return f"{TITLES.get(self.definition.spec.name, self.definition.spec.name)} (seed {self.seed})"

    @property
    def scaling(self) -> dict[str, list[float]]:
        """Mean and standard deviation of the pixels it expects, for :meth:`ImageData.scaled`."""
        mean, std = SCALING[self.definition.data]
        return {"mean": list(mean), "std": list(std)}

    @property
    def moments(self) -> tuple[int, ...]:
        """Steps at which weights were kept; the last is the end of training."""
        return tuple(sorted(int(step) for step in self.card["accuracies"]))

    @property
    def model(self) -> nn.Module:
        """The trained network, in evaluation mode."""
        return self.at(self.moments[-1])

    @property
    def initial(self) -> nn.Module:
        """The network before training, drawn again from its seed."""
        return self.definition.spec(self.seed).eval()

    def at(self, step: int) -> nn.Module:
        """The network at a kept moment, in evaluation mode."""
        if step not in self.moments:
            known = ", ".join(map(str, self.moments))
            raise InvalidInput(f"{self.name} was kept at the steps {known}; got step={step}.")
        beginning = f"{step}/"
        state = {
            name.removeprefix(beginning): value.float()
            for name, value in self._weights.items()
            if name.startswith(beginning)
        }
        return fill(self.initial, state, source=f"{self.name} at step {step}").eval()

    @property
    def accuracy(self) -> float:
        """Share of the test images that the trained network classifies correctly."""
        return float(self.card["accuracies"][str(self.moments[-1])]["test"])

    @property
    def film(self) -> tuple[Tensor, Tensor]:
        """Steps, and the filters of the first layer at each of them."""
        return self._record["film_steps"], self._record["film"].float()

    @property
    def losses(self) -> Tensor:
        """Loss of every step of the training."""
        return self._record["losses"]

    @property
    def correct(self) -> Tensor:
        """Whether each training image (columns) was classified correctly after each epoch (rows)."""
        return unpacked(self._record["correct"], int(self.card["data"]["n"]))

    @property
    def history(self) -> AccessibilityHistory:
        """The same as a history of one network, for the measures of the learning order."""
        bits = torch.from_numpy(np.packbits(self.correct.numpy(), axis=-1))
        return AccessibilityHistory(bits=bits[None], n_examples=self.correct.shape[1])

    def training_data(self) -> ImageData:
        """Training images as the network sees them, with the labels it was trained on."""
        return self.definition.training_data(self.seed)

    def test_data(self) -> ImageData:
        """Test images as the network sees them."""
        return self.definition.test_data()

    @cached_property
    def _weights(self) -> dict[str, Tensor]:
        return self._file(WEIGHTS)

    @cached_property
    def _record(self) -> dict[str, Tensor]:
        return self._file(RECORD)

    def _file(self, name: str) -> dict[str, Tensor]:
        path = self.folder / name
        if not path.is_file() or sha256_of(path) != self.card["files"][name]["sha256"]:
            raise StoreProblem(
                f"{path} is missing or was changed after it was written. Fetch the folder again, or make it with "
                f"`firstlight networks train {self.name} --again`."
            )
        return load_sealed(path).tensors


def load_network(name: str) -> Network:
    """Load a network of the bank by name.

    Parameters
    ----------
    name : str
        As ``firstlight networks list`` shows it, such as ``"resnet20-cifar10-0"``; the prefix ``networks:`` may stand
        before it.

    Returns
    -------
    Network
        Model, initial model, moments of its training, card. Weights are read when first asked for.

    Examples
    --------
    >>> network = load_network("resnet20-cifar10-0")  # doctest: +SKIP
    >>> network.accuracy, network.moments[-1]  # doctest: +SKIP
    >>> network.at(network.moments[0])  # the weights early in training  # doctest: +SKIP
    """
    name = name.removeprefix(PREFIX)
    for folder in bank_folders():
        if (folder / name / CARD).is_file():
            return Network(name=name, folder=folder / name, card=read_card(folder / name / CARD))
    definition(name)  # says which kinds there are if the name is misspelt
    there = ", ".join(network_names()) or "none"
    raise InvalidInput(
        f"{name} has not been trained here. Train it with `firstlight networks train {name}`, or choose one that is "
        f"there: {there}."
    )


def is_in_bank(reference: str | Path | None) -> bool:
    """Whether a checkpoint is named as one of the bank instead of as a file."""
    return str(reference).startswith(PREFIX)


def network_at(reference: str) -> tuple[Network, nn.Module]:
    """A network of the bank as commands name it, with its model at the end of training or at a kept moment.

    Parameters
    ----------
    reference : str
        ``networks:NAME``, or ``networks:NAME@STEP`` for one of its moments.
    """
    name, at, step = reference.removeprefix(PREFIX).partition("@")
    network = load_network(name)
    if at and not step.isdecimal():
        raise InvalidInput(f"{PREFIX}{name}@STEP needs a number of steps after the @; got {step!r}.")
    return network, network.at(int(step)) if at else network.model


def read_card(path: Path) -> dict[str, Any]:
    """Read a card and check its seal."""
    with guarded(path, "a network's card"):
        card: dict[str, Any] = read_json(path)
        if card.pop("sha256", None) != seal_of(card):
            raise ValueError("it was changed after it was written")
    return card


def write_card(path: Path, card: dict[str, Any]) -> None:
    """Write a card with its seal."""
    path.write_text(json.dumps({**card, "sha256": seal_of(card)}, indent=1) + "\n")


def weights_hash(model: nn.Module) -> str:
    """SHA-256 of all weights and running statistics, in the order of their names."""
    import hashlib

    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().to(torch.float64).contiguous().numpy().data)
    return digest.hexdigest()
