"""Crops of eight photographs, ours and those that scikit-learn brings along: real images, nothing to fetch."""

import importlib.util
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from firstlight._internal.errors import DataUnavailable
from firstlight._internal.seeds import generator_from
from firstlight.data.cache import Splits, StoredImages, stored_images
from firstlight.data.entries import DataSet, register_dataset
from firstlight.data.formats.pictures import picture

FOLDER = Path(__file__).parents[1] / "photographs"
WITH_SKLEARN = ("china", "flower")
CLASSES = ("astronaut", "cat", "china", "coffee", "flower", "photographer", "rocket", "tissue")
LICENCE = (
    "china and flower CC BY 2.0; cat, coffee, photographer and rocket CC0; astronaut and tissue without known "
    "restrictions"
)
SIDE = 32
SIDES = (32, 48, 64, 96)  # side of the square that becomes 32 x 32: four scales for variety
FLAT = 6.0  # standard deviation, of 255, below which a crop counts as empty
COUNTS = {"train": 1000, "test": 250}  # per photograph


@lru_cache(maxsize=1)
def crops() -> Splits:
    """Cut every photograph in two and crop the left half for training, the right half for testing.

    Position and scale of a crop are drawn from a fixed seed: they are part of the data set. Each half is
    cut out before anything is resized, so that no pixel has a part in both splits.
    """
    halves = [halves_of(name) for name in CLASSES]
    return {
        split: _split([pair[i] for pair in halves], split, count)
        for i, (split, count) in enumerate(COUNTS.items())
    }


def _split(halves: list[np.ndarray], split: str, count: int) -> StoredImages:
    x = np.concatenate([_crops(half, split, count) for half in halves])
    y = np.repeat(np.arange(len(halves)), count)
    # neighbours of one class would make a prefix of the set useless
    order = torch.randperm(len(y), generator=generator_from("photos", split, "order")).numpy()
    return stored_images(x[order], y[order], CLASSES, order="n h w c")


def _crops(half: np.ndarray, split: str, count: int) -> np.ndarray:
    # empty sky and black background say nothing: they are used only if the pool runs out
    full: list[np.ndarray] = []
    flat: list[np.ndarray] = []
    for place in _places(half.shape, split, 2 * count):
        crop = _crop(half, *place)
        (flat if crop.std() < FLAT else full).append(crop)
        if len(full) == count:
            break
    return np.stack((full + flat)[:count])


def _places(shape: tuple[int, ...], split: str, count: int) -> list[tuple[int, int, int]]:
    generator = generator_from("photos", split)
    sides = torch.tensor(SIDES)[torch.arange(count) % len(SIDES)]
    room = torch.tensor(shape[:2]) - sides[:, None]
    corners = (torch.rand(count, 2, generator=generator, dtype=torch.float64) * (room + 1)).long()
    return [(int(top), int(left), int(side)) for (top, left), side in zip(corners, sides, strict=True)]


def _crop(half: np.ndarray, top: int, left: int, side: int) -> np.ndarray:
    cut = half[top : top + side, left : left + side]
    return np.asarray(Image.fromarray(cut).resize((SIDE, SIDE), Image.Resampling.BOX))


def halves_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Left and right half of a photograph, ``h w c`` bytes: what training and test images are cut from."""
    return _halves(_pixels(name))


def _halves(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    middle = pixels.shape[1] // 2
    return pixels[:, :middle], pixels[:, middle:]


def _pixels(name: str) -> np.ndarray:
    if name not in WITH_SKLEARN:
        return picture(FOLDER / f"{name}.jpg")
    # found, not imported: importing scikit-learn takes a second
    spec = importlib.util.find_spec("sklearn")
    places = spec.submodule_search_locations if spec else None
    path = Path(next(iter(places))) / "datasets/images" / f"{name}.jpg" if places else None
    if path is None or not path.is_file():
        raise DataUnavailable(
            f"The photograph {name!r} of `photos` is not installed with scikit-learn. "
            "Reinstall it: pip install --force-reinstall scikit-learn."
        )
    return picture(path)


def _described(
    name: str, summary: str, *, side: int, counts: dict[str, int], embedded: Callable[[], Splits]
) -> DataSet:
    return DataSet(
        name=name,
        summary=summary,
        shape=(3, side, side),
        classes=CLASSES,
        counts={split: count * len(CLASSES) for split, count in counts.items()},
        licence=LICENCE,
        where="installed with firstlight and scikit-learn",
        formats="nothing: it comes with the installation",
        embedded=embedded,
    )


@register_dataset
def photos() -> DataSet:
    """Describe the embedded default."""
    words = "crops of eight photographs; the label is the photograph"
    return _described("photos", words, side=SIDE, counts=COUNTS, embedded=crops)


LARGE_SIDE = 224
SMALLEST = 160  # side of a crop before it is enlarged; the narrowest half has 225 columns
LARGE_COUNTS = {"train": 16, "test": 8}  # per photograph


@lru_cache(maxsize=1)
def large_crops() -> Splits:
    """Large crops of the left halves for training, of the right halves for testing."""
    return {split: _large_split(i, split, count) for i, (split, count) in enumerate(LARGE_COUNTS.items())}


def _large_split(side: int, split: str, count: int) -> StoredImages:
    generator = generator_from("photos224", split)
    x = np.stack([_large_crop(halves_of(name)[side], generator) for _ in range(count) for name in CLASSES])
    y = np.tile(np.arange(len(CLASSES)), count)  # in turn, so that a prefix holds all photographs
    return stored_images(x, y, CLASSES, order="n h w c")


def _large_crop(half: np.ndarray, generator: torch.Generator) -> np.ndarray:
    height, width = half.shape[:2]
    a, b, c = torch.rand(3, generator=generator, dtype=torch.float64).tolist()
    side = SMALLEST + int(a * (min(height, width) + 1 - SMALLEST))
    top, left = int(b * (height - side + 1)), int(c * (width - side + 1))
    cut = Image.fromarray(half[top : top + side, left : left + side])
    return np.asarray(cut.resize((LARGE_SIDE, LARGE_SIDE), Image.Resampling.BICUBIC))


@register_dataset
def photos224() -> DataSet:
    """Describe the photographs for networks that take large images."""
    words = "large crops of the eight photographs, for networks trained on ImageNet"
    return _described("photos224", words, side=LARGE_SIDE, counts=LARGE_COUNTS, embedded=large_crops)
