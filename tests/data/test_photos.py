"""The photographs in the package: each with its licence, and together what the data set `photos` has always been."""

import subprocess
import sys

import torch

from firstlight.data import load
from firstlight.data.sets.photos import CLASSES, FLAT, FOLDER, WITH_SKLEARN, halves_of


def test_every_photograph_in_the_package_is_a_class_and_has_a_licence():
    files = {file.stem for file in FOLDER.glob("*.jpg")}
    assert files == set(CLASSES) - set(WITH_SKLEARN)
    licences = (FOLDER / "LICENCES.md").read_text()
    assert all(f"`{name}.jpg` |" in licences for name in files)
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 350_000


def test_both_halves_are_wide_enough_for_the_largest_crops():
    for name in CLASSES:
        for half in halves_of(name):
            assert min(half.shape[:2]) >= 225
            assert half.shape[2] == 3


def test_crops_of_each_photograph_fill_both_splits_and_few_are_empty():
    for split, count in (("train", 1000), ("test", 250)):
        images = load("photos", split=split)
        assert images.classes == CLASSES
        assert images.x.shape == (8 * count, 3, 32, 32)
        assert torch.bincount(images.y).tolist() == [count] * 8
        spread = 255 * images.x.flatten(1).std(1)
        assert (spread < FLAT).float().mean() < 0.05


def test_the_photographs_are_read_without_importing_scikit_learn():
    script = "import sys; from firstlight.data import load; load('photos', n=8); assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
