"""The same photographs at the size that networks trained on ImageNet expect."""

from functools import lru_cache

import numpy as np
import torch
from PIL import Image

from firstlight._internal.seeds import generator_from
from firstlight.data.cache import Splits, StoredImages, stored_images
from firstlight.data.entries import DataSet, register_dataset
from firstlight.data.sets.photos import CLASSES, FORMATS, LICENCE, WHERE, halves_of

SIDE = 224
SMALLEST = 160  # side of a crop before it is enlarged; the narrowest half has 225 columns
COUNTS = {"train": 16, "test": 8}  # per photograph


@lru_cache(maxsize=1)
def crops() -> Splits:
    """Large crops of the left halves for training, of the right halves for testing."""
    return {split: _split(i, split, count) for i, (split, count) in enumerate(COUNTS.items())}


def _split(side: int, split: str, count: int) -> StoredImages:
    generator = generator_from("photos224", split)
    x = np.stack([_crop(halves_of(name)[side], generator) for _ in range(count) for name in CLASSES])
    y = np.tile(np.arange(len(CLASSES)), count)  # in turn, so that a prefix holds all photographs
    return stored_images(x, y, CLASSES, order="n h w c")


def _crop(half: np.ndarray, generator: torch.Generator) -> np.ndarray:
    height, width = half.shape[:2]
    a, b, c = torch.rand(3, generator=generator, dtype=torch.float64).tolist()
    side = SMALLEST + int(a * (min(height, width) + 1 - SMALLEST))
    top, left = int(b * (height - side + 1)), int(c * (width - side + 1))
    cut = Image.fromarray(half[top : top + side, left : left + side])
    return np.asarray(cut.resize((SIDE, SIDE), Image.Resampling.BICUBIC))


@register_dataset
def photos224() -> DataSet:
    """Describe the photographs for networks that take large images."""
    return DataSet(
        name="photos224",
        summary="large crops of the eight photographs, for networks trained on ImageNet",
        shape=(3, SIDE, SIDE),
        classes=CLASSES,
        counts={split: count * len(CLASSES) for split, count in COUNTS.items()},
        licence=LICENCE,
        where=WHERE,
        formats=FORMATS,
        embedded=crops,
    )
