import numpy as np
import pytest
import torch

from firstlight._internal.errors import DataUnavailable, InvalidInput, StoreProblem
from firstlight.data import available, describe, fetch, load
from firstlight.data.cache import read_cache
from firstlight.data.entries import DATASETS
from firstlight.data.sets import cifar10, photos
from reference.data_files import write_class_folders, write_mnist_like


@pytest.fixture
def copy(tmp_path):
    write_mnist_like(tmp_path / "copy")
    return tmp_path / "copy"


small = pytest.mark.usefixtures("small_copies")


@pytest.mark.parametrize("name", available())
def test_every_data_set_describes_itself(name):
    entry = describe(name)
    assert entry.name in DATASETS
    assert entry.summary
    assert entry.licence
    assert entry.where
    assert entry.formats
    if entry.counts:
        assert set(entry.counts) == {"train", "test"}
        assert len(entry.classes) == len(set(entry.classes)) > 1
        assert not any("/" in label for label in entry.classes)  # the sign between classes in a name


def test_the_groups_of_cifar100_part_its_hundred_classes():
    assert len(cifar10.CIFAR100) == 100
    assert [len(names) for names in cifar10.CIFAR100_GROUPS.values()] == [5] * 20


@pytest.mark.parametrize(("wrong", "right"), [("cifar", "cifar10"), ("MNIST", None), ("photo", "photos")])
def test_an_unknown_name_is_told_with_the_nearest(wrong, right):
    with pytest.raises(InvalidInput, match=f"Unknown data set '{wrong}'") as caught:
        load(wrong)
    assert right is None or f"Did you mean '{right}'?" in str(caught.value)


def test_an_unknown_class_is_told_with_the_nearest():
    with pytest.raises(InvalidInput, match=r"Unknown class 'rockets'\. Did you mean 'rocket'\?"):
        load("photos:rockets/cat")


@pytest.mark.parametrize("name", ["photos:", "photos:/"])
def test_a_colon_without_classes_is_refused(name):
    with pytest.raises(InvalidInput, match="Classes must follow"):
        load(name)


def test_a_subset_has_no_subsets():
    with pytest.raises(InvalidInput, match="write cifar10:cat"):
        load("cats_dogs:cat")


@pytest.mark.parametrize("name", ["photos", "cifar10"])
def test_an_unknown_split_is_refused_before_anything_is_fetched(cache, tools, name):
    with pytest.raises(InvalidInput, match="must be 'train' or 'test'; got 'valid'"):
        load(name, "valid")


def test_more_images_than_the_set_has_are_refused():
    with pytest.raises(InvalidInput, match=r"1 \.\. 2000.*got n=2001"):
        load("photos", "test", n=2001)


def test_a_few_images_are_those_that_sample_draws():
    few, whole = load("photos", "test", n=37, seed=5), load("photos", "test")
    drawn = whole.sample(37, seed=5)
    assert torch.equal(few.x, drawn.x)
    assert torch.equal(few.y, drawn.y)
    assert few.meta["n"] == 37
    assert few.meta["seed"] == 5


def test_photos_are_balanced_and_in_range():
    for split, count in (("train", 1000), ("test", 250)):
        data = load("photos", split)
        assert data.counts.tolist() == [count] * 8
        assert data.x.dtype == torch.float32
        assert 0 <= data.x.min() < 0.1 < 0.9 < data.x.max() <= 1


def test_photos_are_the_same_bits_every_time():
    first = load("photos", n=64).fingerprint
    photos.crops.cache_clear()
    assert load("photos", n=64).fingerprint == first


def test_train_and_test_photos_share_no_pixel():
    marked = np.zeros((50, 101, 3), np.uint8)
    left, right = photos._halves(marked)
    left[:] = 1
    right[:] += 1
    assert marked.max() == marked.min() == 1


def test_crops_show_what_lies_at_their_place():
    half = np.random.default_rng(0).integers(0, 256, (70, 80, 3), dtype=np.uint8)
    assert np.array_equal(photos._crop(half, 5, 7, 32), half[5:37, 7:39])
    averaged = half[6:70, 0:64].reshape(32, 2, 32, 2, 3).mean(axis=(1, 3))
    assert np.abs(photos._crop(half, 6, 0, 64) - averaged).max() <= 1
    places = photos._places((200, 180, 3), "train", 400)
    assert {side for _, _, side in places} == set(photos.SIDES)
    assert all(0 <= top <= 200 - side and 0 <= left <= 180 - side for top, left, side in places)


@small
def test_an_imported_copy_stays_in_the_cache(copy, cache):
    folder = fetch("mnist", source=copy)
    assert folder == cache / "mnist"
    for file in copy.iterdir():
        file.unlink()
    assert len(load("mnist:3/4")) == 4


@small
def test_a_changed_copy_is_read_again_and_an_unchanged_one_is_not(copy, cache, tmp_path):
    load("mnist", source=copy)
    before = (cache / "mnist/manifest.json").stat().st_ino
    load("mnist", source=copy)
    assert (cache / "mnist/manifest.json").stat().st_ino == before
    write_mnist_like(tmp_path / "other", suffix=".gz")
    load("mnist", source=tmp_path / "other")
    assert "other" in (cache / "mnist/manifest.json").read_text()


def test_an_incomplete_copy_is_refused_and_not_cached(copy, cache):
    with pytest.raises(InvalidInput, match="incomplete: it has 20 train images instead of 60000"):
        fetch("mnist", source=copy)
    assert not (cache / "mnist").exists()


@small
def test_a_copy_of_another_data_set_is_refused_and_not_cached(tmp_path, cache):
    write_class_folders(tmp_path / "c/train", {str(i): 1 for i in range(10)})
    write_class_folders(tmp_path / "c/test", {str(i): 1 for i in range(10)})
    with pytest.raises(InvalidInput, match=r"must be \(1, 28, 28\)"):
        load("mnist", source=tmp_path / "c")
    assert list(cache.iterdir()) == []


@small
def test_a_copy_without_a_class_is_refused(tmp_path, cache):
    write_class_folders(tmp_path / "train", {str(i): 1 for i in range(9)}, size=(28, 28), mode="L")
    write_class_folders(tmp_path / "test", {"0": 1}, size=(28, 28), mode="L")
    with pytest.raises(InvalidInput, match="no training image of class '9'"):
        load("mnist", source=tmp_path)


def test_a_place_without_the_data_set_says_what_it_must_hold(tmp_path, cache):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match=r"does not hold svhn\. It must hold train_32x32\.mat"):
        load("svhn", source=tmp_path / "empty")
    with pytest.raises(InvalidInput, match="does not"):
        load("svhn", source=tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["celeba", "gtsrb"])
def test_a_set_that_cannot_be_fetched_says_what_to_put_where(cache, tools, name):
    with pytest.raises(DataUnavailable, match=f"firstlight data get {name} --from PATH"):
        load(name)


def test_a_cache_that_cannot_be_written_stops_before_the_download(tmp_path, monkeypatch, tools):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FIRSTLIGHT_DATA", str(tmp_path / "file/cache"))
    with pytest.raises(StoreProblem, match="a part of the path is a file"):
        load("mnist")


@small
def test_what_the_cache_holds_is_bytes(copy, cache):
    fetch("mnist", source=copy)
    assert read_cache("mnist", "train").x.dtype == torch.uint8


def test_a_folder_needs_a_source():
    with pytest.raises(InvalidInput, match="`source` must name"):
        load("folder")
