import os
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from firstlight._internal.errors import InvalidInput
from firstlight.data import load, load_splits
from firstlight.data.formats.cifar_pickles import pickled_batch
from firstlight.data.formats.idx import idx_array
from firstlight.data.formats.pictures import picture
from reference.data_files import (
    tar_of_folder,
    write_cifar_batches,
    write_class_folders,
    write_idx,
    write_mnist_like,
)

pytestmark = pytest.mark.usefixtures("small_copies")


def as_bytes(data):
    return (data.x * 255).round().byte().numpy()


# ---------------------------------------------------------------- idx


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files_are_read_plain_and_gzipped(tmp_path, cache, suffix):
    made = write_mnist_like(tmp_path / "copy", suffix=suffix)
    train = load("mnist", source=tmp_path / "copy")
    assert np.array_equal(as_bytes(train)[:, 0], made["train"][0])
    assert np.array_equal(train.y.numpy(), made["train"][1])


def test_one_file_of_a_copy_leads_to_the_others(tmp_path, cache):
    write_mnist_like(tmp_path / "copy")
    assert len(load("mnist", source=tmp_path / "copy/train-images-idx3-ubyte")) == 20


def test_emnist_letters_are_turned_upright_and_counted_from_zero(tmp_path, cache):
    names = {"train": "emnist-letters-train", "test": "emnist-letters-test"}
    made = write_mnist_like(tmp_path / "copy", suffix=".gz", first=1, classes=26, **names)
    train = load("emnist", source=tmp_path / "copy")
    assert np.array_equal(as_bytes(train)[3, 0], made["train"][0][3].T)
    assert train.classes[train.y[27]] == "b"


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kept", [0, 2, 9, 500])
def test_a_truncated_idx_file_is_refused(tmp_path, suffix, kept):
    path = tmp_path / f"x-idx3-ubyte{suffix}"
    write_idx(path, np.random.default_rng(0).integers(0, 256, (3, 20, 20), dtype=np.uint8))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InvalidInput, match=r"truncated or damaged|must be an idx file"):
        idx_array(path)


def test_a_copy_with_a_missing_file_names_it(tmp_path, cache):
    write_mnist_like(tmp_path / "copy")
    (tmp_path / "copy/t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(InvalidInput, match="t10k-labels-idx1-ubyte"):
        load("mnist", source=tmp_path / "copy")


# ---------------------------------------------------------------- pickled batches


@pytest.mark.parametrize("protocol", [0, 2, 3, 4])
def test_pickled_batches_are_read_at_every_old_protocol(tmp_path, cache, protocol):
    made = write_cifar_batches(tmp_path / "cifar-10-batches-py", protocol=protocol)
    train = load("cifar10", source=tmp_path)
    expected = np.concatenate([made[f"data_batch_{i}"][0] for i in range(1, 6)]).reshape(-1, 3, 32, 32)
    assert np.array_equal(as_bytes(train), expected)


def test_the_archive_of_batches_is_read(tmp_path, cache):
    made = write_cifar_batches(tmp_path / "batches")
    archive = tar_of_folder(tmp_path / "cifar-10-python.tar.gz", tmp_path / "batches", "cifar-10-batches-py")
    test = load("cifar10", "test", source=archive)
    assert np.array_equal(as_bytes(test).reshape(20, -1), made["test_batch"][0])


def test_cifar100_is_read_with_fine_labels_and_its_groups(tmp_path, cache):
    x = np.random.default_rng(0).integers(0, 256, (200, 3072), dtype=np.uint8)
    body = {b"data": x, b"fine_labels": [i % 100 for i in range(200)], b"coarse_labels": [0] * 200}
    for name in ("train", "test", "meta"):
        (tmp_path / name).write_bytes(pickle.dumps(body, 2))
    mammals = load("small_mammals", source=tmp_path)
    assert mammals.classes == ("hamster", "mouse", "rabbit", "shrew", "squirrel")
    assert mammals.counts.tolist() == [2] * 5
    whole = load("cifar100")
    hamsters = whole.x[whole.y == whole.classes.index("hamster")]
    assert torch.equal(mammals.x[mammals.y == 0], hamsters)


class _Evil:
    def __init__(self, call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("function", [os.system, eval, os.remove, np.load, np.fromfile, getattr])
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_pickle_that_calls_anything_is_refused_and_not_run(tmp_path, function, protocol):
    trap = tmp_path / "trap"
    command = {os.system: f"touch {trap}", eval: f"open({str(trap)!r}, 'w')"}.get(function, str(trap))
    if function is os.remove:
        trap.write_text("must survive")
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({b"data": _Evil((function, (command,)))}, protocol))
    with pytest.raises(InvalidInput, match="refused"):
        pickled_batch(path)
    assert trap.exists() == (function is os.remove)


@pytest.mark.parametrize("value", [np.array([1.5]), np.array([{}], dtype=object), np.arange(3)])
def test_arrays_of_anything_but_bytes_are_refused(tmp_path, value):
    (tmp_path / "batch").write_bytes(pickle.dumps({"data": value}, 2))
    with pytest.raises(InvalidInput, match="refused"):
        pickled_batch(tmp_path / "batch")


@pytest.mark.parametrize("kept", [0, 1, 30, 2000])
def test_a_truncated_pickle_is_refused(tmp_path, kept):
    write_cifar_batches(tmp_path / "b")
    path = tmp_path / "b/test_batch"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InvalidInput, match="refused"):
        pickled_batch(path)


def test_a_missing_batch_is_named(tmp_path, cache):
    write_cifar_batches(tmp_path / "b")
    (tmp_path / "b/data_batch_4").unlink()
    with pytest.raises(InvalidInput, match="data_batch_4 is missing"):
        load("cifar10", source=tmp_path / "b")


# ---------------------------------------------------------------- MAT, STL-10, CelebA, GTSRB


def test_svhn_is_read_and_ten_means_zero(tmp_path, cache):
    x = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 20), dtype=np.uint8)
    y = (np.arange(20) % 10 + 1).astype(np.uint8)
    for split in ("train", "test"):
        savemat(tmp_path / f"{split}_32x32.mat", {"X": x, "y": y[:, None]})
    train = load("svhn", source=tmp_path)
    assert train.y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] * 2
    assert np.array_equal(as_bytes(train)[7], x[:, :, :, 7].transpose(2, 0, 1))


@pytest.mark.parametrize("kept", [0, 60, 300, 5000])
def test_a_truncated_mat_file_is_refused(tmp_path, cache, kept):
    x = np.zeros((32, 32, 3, 10), np.uint8)
    for split in ("train", "test"):
        savemat(tmp_path / f"{split}_32x32.mat", {"X": x, "y": np.arange(10)})
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InvalidInput, match=r"train_32x32\.mat"):
        load("svhn", source=tmp_path)


def test_stl10_is_read_with_its_columns_first(tmp_path, cache):
    x = np.random.default_rng(0).integers(0, 256, (10, 3, 96, 96), dtype=np.uint8)
    for split in ("train", "test"):
        (tmp_path / f"{split}_X.bin").write_bytes(x.transpose(0, 1, 3, 2).tobytes())
        (tmp_path / f"{split}_y.bin").write_bytes(bytes(range(1, 11)))
    train = load("stl10", source=tmp_path)
    assert np.array_equal(as_bytes(train), x)
    assert train.y.tolist() == list(range(10))
    (tmp_path / "test_X.bin").write_bytes(b"short")
    with pytest.raises(InvalidInput, match="truncated"):
        load("stl10", source=tmp_path / "test_X.bin")


def write_celeba(folder):
    (folder / "img").mkdir(parents=True)
    lines = ["6", "Male Smiling"]
    for number, (male, smiling) in {
        1: (1, 1),
        2: (-1, 1),
        3: (1, -1),
        170_000: (1, 1),
        190_000: (-1, -1),
    }.items():
        Image.new("RGB", (178, 218), (number % 256, 0, 0)).save(folder / f"img/{number:06}.jpg")
        lines.append(f"{number:06}.jpg {male:2d} {smiling:2d}")
    (folder / "list_attr_celeba.txt").write_text("\n".join(lines))


def test_celeba_is_split_officially_and_labelled_by_one_attribute(tmp_path, cache):
    write_celeba(tmp_path / "copy")
    train = load("celeba", source=tmp_path / "copy")
    assert train.shape == (3, 32, 32)
    assert train.classes == ("not Male", "Male")
    assert train.y.tolist() == [1, 0, 1]
    smiling = load("celeba:Smiling")
    assert smiling.classes == ("not Smiling", "Smiling")
    assert smiling.y.tolist() == [1, 1, 0]
    assert len(load("celeba", "test")) == 1


def test_gtsrb_is_read_in_the_official_layout(tmp_path, cache):
    images = tmp_path / "Final_Training/Images"
    write_class_folders(images, {f"{i:05}": 1 for i in range(43)}, size=(40, 44), suffix=".ppm")
    tests = tmp_path / "Final_Test/Images"
    tests.mkdir(parents=True)
    rows = ["Filename;Width;ClassId"]
    for i, label in enumerate([7, 42]):
        Image.new("RGB", (50 + i, 60), (i, 9, 9)).save(tests / f"{90000 + i}.ppm")
        rows.append(f"{90000 + i}.ppm;50;{label}")
    (tmp_path / "GT-final_test.csv").write_text("\n".join(rows))
    train, test = load("gtsrb", source=tmp_path), load("gtsrb", "test")
    assert train.shape == (3, 32, 32)
    assert train.counts.tolist() == [1] * 43
    assert test.y.tolist() == [7, 42]
    assert as_bytes(test)[:, 0, 5, 5].tolist() == [0, 1]


# ---------------------------------------------------------------- folders and npz


def test_a_folder_of_class_folders_is_read(tmp_path):
    write_class_folders(tmp_path / "pets", {"dog": 3, "cat": 2})
    data = load(str(tmp_path / "pets"))
    assert data.classes == ("cat", "dog")
    assert data.shape == (3, 6, 8)
    assert data.y.tolist() == [0, 0, 1, 1, 1]
    first = np.asarray(Image.open(tmp_path / "pets/cat/0000.png"))
    assert np.array_equal(as_bytes(data)[0], first.transpose(2, 0, 1))


def test_a_folder_with_two_splits_is_read(tmp_path):
    write_class_folders(tmp_path / "train", {"a": 3, "b": 2}, mode="L")
    write_class_folders(tmp_path / "val", {"a": 1, "b": 1}, mode="L")
    assert load(tmp_path).shape == (1, 6, 8)
    assert len(load("folder", "test", source=tmp_path)) == 2


def test_an_unknown_split_of_a_folder_names_the_known_one(tmp_path):
    write_class_folders(tmp_path, {"a": 1, "b": 1})
    with pytest.raises(InvalidInput, match="must be 'train'; got 'test'"):
        load(tmp_path, "test")


def test_an_archive_of_class_folders_is_read(tmp_path):
    write_class_folders(tmp_path / "pets/x", {"cat": 2})
    archive = tar_of_folder(tmp_path / "pets.tar.gz", tmp_path / "pets/x/cat", "pets/cat")
    assert load(archive).classes == ("cat",)


def test_an_empty_class_folder_is_named(tmp_path):
    write_class_folders(tmp_path, {"cat": 2, "dog": 0})
    with pytest.raises(InvalidInput, match="dog holds no image"):
        load(tmp_path)


def test_images_of_two_sizes_are_refused(tmp_path):
    write_class_folders(tmp_path, {"cat": 2})
    write_class_folders(tmp_path, {"dog": 2}, size=(9, 6))
    with pytest.raises(InvalidInput, match=r"8x6 with 3 channels, .*9x6 with 3 channels"):
        load(tmp_path)


def test_splits_of_two_sizes_are_refused(tmp_path):
    write_class_folders(tmp_path / "train", {"cat": 1})
    write_class_folders(tmp_path / "test", {"cat": 1}, size=(9, 6))
    with pytest.raises(InvalidInput, match=r"one size; got \(3, 6, 8\) and \(3, 6, 9\).* Give `size`"):
        load_splits(tmp_path)


@pytest.mark.parametrize("kept", [0, 20, 100])
def test_a_truncated_picture_is_named(tmp_path, kept):
    write_class_folders(tmp_path, {"cat": 1}, size=(20, 20))
    path = tmp_path / "cat/0000.png"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InvalidInput, match=r"0000\.png is truncated or not an image"):
        picture(path)


@pytest.mark.parametrize("order", ["n c h w", "n h w c"])
@pytest.mark.parametrize("kind", ["bytes", "floats"])
def test_npz_files_are_read_in_both_orders(tmp_path, order, kind):
    x = np.random.default_rng(0).integers(0, 256, (6, 3, 8, 5), dtype=np.uint8)
    given = x if order == "n c h w" else x.transpose(0, 2, 3, 1)
    np.savez(tmp_path / "d.npz", x=given if kind == "bytes" else given / np.float32(255), y=np.arange(6) % 2)
    data = load(tmp_path / "d.npz")
    assert np.array_equal(as_bytes(data), x)
    assert data.classes == ("0", "1")


def test_an_npz_file_may_hold_a_test_split_and_class_names(tmp_path):
    x = np.zeros((4, 6, 6), np.uint8)
    y = np.arange(4) % 2
    np.savez(tmp_path / "d.npz", x_train=x, y_train=y, x_test=x[:2], y_test=y[:2], classes=["cat", "dog"])
    test = load(f"{tmp_path}/d.npz", "test")
    assert test.shape == (1, 6, 6)
    assert test.classes == ("cat", "dog")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((2, 4, 4))}, "must hold arrays"),
        ({"x": np.full((2, 4, 4), np.nan), "y": np.arange(2)}, "finite floats"),
        ({"x": np.full((2, 4, 4), 7.0), "y": np.arange(2)}, "finite floats"),
        ({"x": np.zeros((2, 4, 4)), "y": np.arange(2.0)}, "`y` must hold"),
        ({"x": np.zeros((2, 4, 4)), "y": np.arange(3)}, "`y` must hold"),
        ({"x": np.zeros((2, 4, 4, 4)), "y": np.arange(2)}, "1 or 3 channels"),
        ({"x": np.zeros((2, 4, 4)), "y": np.array([0, 10**9])}, "class numbers"),
        ({"x": np.array([{}, {}]), "y": np.arange(2)}, "plain npz"),
    ],
)
def test_npz_files_that_make_no_sense_are_refused(tmp_path, arrays, words):
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(InvalidInput, match=words):
        load(tmp_path / "d.npz")


@pytest.mark.parametrize("kept", [0, 10, 200])
def test_a_truncated_npz_file_is_refused(tmp_path, kept):
    path = tmp_path / "d.npz"
    np.savez(path, x=np.zeros((2, 4, 4), np.uint8), y=np.arange(2))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InvalidInput, match="truncated or not a plain npz"):
        load(path)
