"""Images in every form that people hold them become the same data set."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from firstlight._internal.errors import InvalidInput
from firstlight.data import ImageData, as_images, load
from reference.data_files import write_class_folders

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)  # n h w c
LABELS = [0, 1, 2, 0, 1, 2]
X = torch.from_numpy(PIXELS.transpose(0, 3, 1, 2).copy()) / 255
WORDS = ("ape", "bee", "cow")


class Pairs(Dataset):
    """As torchvision's data sets: decodes when asked, and knows its labels beforehand."""

    classes = WORDS

    def __init__(self, *, knows_labels=True):
        self.read = []
        if knows_labels:
            self.targets = LABELS

    def __len__(self):
        return 6

    def __getitem__(self, index):
        self.read.append(index)
        return X[index], LABELS[index]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(X, LABELS, strict=True))


class Rows:
    """As a Hugging Face data set: rows by number, columns by name."""

    column_names = ("img", "fine_label")
    features = {"fine_label": type("ClassLabel", (), {"names": list(WORDS)})()}  # noqa: RUF012

    def __len__(self):
        return 6

    def __getitem__(self, key):
        if isinstance(key, str):
            return LABELS
        return {"img": Image.fromarray(PIXELS[key]), "fine_label": LABELS[key]}


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


FORMS = {
    "data": lambda: ImageData(X, torch.tensor(LABELS), ("0", "1", "2")),
    "pair of tensors": lambda: (X, torch.tensor(LABELS)),
    "pair of arrays, channels last": lambda: (PIXELS, np.array(LABELS)),
    "pair of arrays, channels first": lambda: (X.numpy(), LABELS),
    "list of pairs": lambda: [(Image.fromarray(p), y) for p, y in zip(PIXELS, LABELS, strict=True)],
    "rows": lambda: [{"image": p, "label": y} for p, y in zip(PIXELS, LABELS, strict=True)],
    "undecoded rows": lambda: [
        {"image": {"bytes": png(p), "path": None}, "label": y} for p, y in zip(PIXELS, LABELS, strict=True)
    ],
    "Hugging Face": Rows,
    "data set": Pairs,
    "tensor data set": lambda: TensorDataset(X, torch.tensor(LABELS)),
    "subset": lambda: Subset(Pairs(), range(6)),
    "iterable data set": Stream,
    "loader": lambda: DataLoader(Pairs(), batch_size=4),
    "loader of dictionaries": lambda: [
        {"pixel_values": X[:4], "labels": torch.tensor(LABELS[:4])},
        {"pixel_values": X[4:], "labels": torch.tensor(LABELS[4:])},
    ].__iter__(),
    "generator of batches": lambda: ((X[i : i + 2], LABELS[i : i + 2]) for i in (0, 2, 4)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_images_and_labels(form):
    data = as_images(FORMS[form]())
    assert torch.allclose(data.x, X)
    assert data.y.tolist() == LABELS
    assert data.is_labelled
    assert data.n_classes == 3


@pytest.mark.parametrize("form", ["Hugging Face", "data set", "loader"])
def test_names_of_classes_are_kept(form):
    assert as_images(FORMS[form]()).classes == WORDS


@pytest.mark.parametrize(
    "images",
    [X, X.numpy(), PIXELS, [Image.fromarray(p) for p in PIXELS], list(X), TensorDataset(X), iter(X)],
    ids=["tensor", "array", "bytes", "pictures", "tensors", "data set", "iterator"],
)
def test_images_without_labels_are_marked(images):
    data = as_images(images)
    assert torch.allclose(data.x, X)
    assert not data.is_labelled


def test_labels_may_come_apart_and_be_words():
    words = [WORDS[y] for y in LABELS]
    data = as_images(PIXELS, words)
    assert data.classes == WORDS
    assert data.y.tolist() == LABELS
    assert as_images([Image.fromarray(p) for p in PIXELS], torch.tensor(LABELS)).y.tolist() == LABELS
    with pytest.raises(InvalidInput, match="one label per image, 6; got 5"):
        as_images([Image.fromarray(p) for p in PIXELS], LABELS[:5])


def test_grey_arrays_need_no_channels():
    assert as_images(PIXELS[..., 0]).shape == (1, 5, 4)


def test_only_the_chosen_items_are_read_and_evenly_if_labels_are_known():
    known, unknown = Pairs(), Pairs(knows_labels=False)
    assert as_images(known, n=3, seed=1).counts.tolist() == [1, 1, 1]
    assert len(known.read) == 3
    assert len(as_images(unknown, n=4)) == len(unknown.read) == 4
    assert len(as_images(DataLoader(Pairs(), batch_size=4), n=5)) == 5
    assert as_images(Rows(), n=3).counts.tolist() == [1, 1, 1]
    with pytest.raises(InvalidInput, match=r"`n` must lie in 1 \.\. 6"):
        as_images(unknown, n=7)


def test_names_folders_and_files_are_loaded(tmp_path):
    write_class_folders(tmp_path / "pets", {"cat": 2, "dog": 3})
    assert torch.equal(as_images(tmp_path / "pets").x, load(tmp_path / "pets").x)
    assert as_images("photos", n=8, seed=1).meta["split"] == "test"
    np.savez(tmp_path / "d.npz", x=PIXELS, y=np.array(LABELS))
    assert torch.allclose(as_images(tmp_path / "d.npz").x, X)
    files = sorted((tmp_path / "pets/cat").iterdir())
    data = as_images(files, ["cat", "cat"])
    assert data.files == tuple(map(str, files))
    assert as_images([Image.open(file) for file in files]).files == tuple(map(str, files))


def test_pictures_of_several_sizes_and_modes_are_converted(tmp_path):
    pictures = [Image.new("RGB", (6, 6)), Image.new("L", (9, 7)), Image.new("RGBA", (8, 8))]
    with pytest.raises(InvalidInput, match=r"one shape; got .* Give `size`"):
        as_images(pictures)
    assert as_images(pictures, size=4).shape == (3, 4, 4)
    assert as_images(pictures, size=4, channels=1).shape == (1, 4, 4)
    (tmp_path / "broken.png").write_bytes(b"")
    pictures[0].save(tmp_path / "good.png")
    assert len(as_images([tmp_path / "broken.png", tmp_path / "good.png"], skip_broken=True)) == 1


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (3, "must be a tensor or array .* got int"),
        (None, "got NoneType"),
        ({"x": X}, "got dict"),
        ([1, 2], "got int"),
        (X[0], r"got Tensor of shape \(3, 5, 4\)"),
        ([], "it is empty"),
        (iter(()), "it is empty"),
        ([{"photo": PIXELS[0]}], "must have an entry 'image' or 'img'; it has 'photo'"),
        ((PIXELS.astype(np.int32), LABELS), "bytes .* or floats; got torch.int32"),
        ((X, [0.5] * 6), "class numbers 0, 1, 2, ... or words"),
        ((X, [-1] * 6), "class numbers 0, 1, 2, ... or words"),
        ((X * torch.nan, LABELS), "NaN"),
    ],
)
def test_everything_else_gives_one_clear_error(images, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        as_images(images)
    assert "\n" not in str(caught.value)
