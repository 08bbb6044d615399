"""Descriptions of the data sets; each file in `data/sets` registers one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from firstlight._internal.registry import Registry
from firstlight.data.cache import Splits

Reader: TypeAlias = Callable[[Path], Splits | None]
"""Reads a folder in one standard format; None if the folder holds something else."""

SPLITS = ("train", "test")


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set: what it is, where it comes from and how a copy of it is read.

    Parameters
    ----------
    name : str
        Name for `load`.
    summary : str
        Description in one line.
    shape : tuple of 3 int or None
        Channels, height, width; None if the copy decides.
    classes : tuple of str
        Names in label order; empty if the copy decides.
    counts : mapping of str to int
        Images per split of the complete set.
    licence : str
        What the owners allow, as far as is known.
    where : str
        Where it comes from, in a few words.
    formats : str
        Which files of a user's copy are understood, in words.
    readers : tuple of Reader, default ()
        One per format, tried in order; npz files and class folders are always tried last.
    fetchers : tuple of callable, default ()
        Ways to get it without an account, tried in order; each raises DataUnavailable.
    torchvision : tuple of (str, tuple of dict of str to object), optional
        Class name in ``torchvision.datasets`` and its arguments, one dict per download.
    embedded : callable, optional
        Makes the splits from what is installed; such a set needs no cache.
    groups : mapping of str to tuple of str
        Names for several classes at once, as in ``"cifar100:small_mammals"``.
    resized : int, optional
        Side to which the images of class folders are resized; None demands equal sizes.
    """

    name: str
    summary: str
    shape: tuple[int, int, int] | None
    classes: tuple[str, ...]
    counts: Mapping[str, int]
    licence: str
    where: str
    formats: str
    readers: tuple[Reader, ...] = ()
    fetchers: tuple[Callable[[], Splits], ...] = ()
    torchvision: tuple[str, tuple[dict[str, Any], ...]] | None = None
    embedded: Callable[[], Splits] | None = None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    resized: int | None = None


@dataclass(frozen=True, kw_only=True)
class Subset:
    """A name for some classes of a data set."""

    name: str
    summary: str
    of: str


DATASETS: Registry[DataSet | Subset] = Registry(
    "data set", hint="Run `firstlight data list` for all.", package="firstlight.data.sets"
)


def register_dataset(build: Callable[[], DataSet | Subset]) -> Callable[[], DataSet | Subset]:
    """Decorator: register what `build` returns under its name."""
    entry = build()
    DATASETS.add(entry.name, entry)
    return build
