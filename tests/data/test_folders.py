"""Folders of pictures as people keep them: any size, mode and orientation, some of them broken."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from firstlight._internal.errors import InvalidInput
from firstlight.data import as_images, load, load_splits
from firstlight.data.formats import pictures
from firstlight.data.formats.pictures import Decoding, picture
from firstlight.data.images import held_out
from firstlight.data.label_table import load_label_table
from reference.data_files import tar_of_folder, write_class_folders


def save(folder, name, image, **options):
    folder.mkdir(parents=True, exist_ok=True)
    image.save(folder / name, **options)
    return folder / name


def test_grey_pictures_become_coloured_if_any_other_is(tmp_path):
    write_class_folders(tmp_path / "mixed", {"cat": 2})
    write_class_folders(tmp_path / "mixed", {"dog": 2}, mode="L")
    assert load(tmp_path / "mixed").shape == (3, 6, 8)
    write_class_folders(tmp_path / "grey", {"cat": 2}, mode="L")
    assert load(tmp_path / "grey").shape == (1, 6, 8)
    assert load(tmp_path / "grey", channels=3).shape == (3, 6, 8)
    assert load(tmp_path / "mixed", channels=1).shape == (1, 6, 8)


def test_grey_training_images_beside_coloured_test_images_become_coloured(tmp_path):
    write_class_folders(tmp_path / "train", {"cat": 2}, mode="L")
    write_class_folders(tmp_path / "test", {"cat": 2})
    assert load(tmp_path).shape == load(tmp_path, "test").shape == (3, 6, 8)


def test_transparent_parts_become_white(tmp_path):
    clear = save(tmp_path, "clear.png", Image.new("RGBA", (2, 2), (10, 20, 30, 0)))
    opaque = save(tmp_path, "opaque.png", Image.new("RGBA", (2, 2), (10, 20, 30, 255)))
    assert picture(clear)[0, 0].tolist() == [255, 255, 255]
    assert picture(opaque)[0, 0].tolist() == [10, 20, 30]
    grey = save(tmp_path, "grey.png", Image.new("LA", (2, 2), (40, 255)))
    assert picture(grey)[0, 0].tolist() == [40]


def test_palettes_and_sixteen_bits_are_converted(tmp_path):
    colours = Image.new("RGB", (2, 2), (200, 100, 50)).convert("P")
    assert (
        np.abs(picture(save(tmp_path, "p.png", colours))[0, 0] - [200.0, 100, 50]).max() <= 30
    )  # web palette
    levels = np.array([[0, 257], [257 * 128, 65535]], np.uint16)
    deep = save(tmp_path, "deep.png", Image.fromarray(levels))
    assert picture(deep)[..., 0].tolist() == [[0, 1], [128, 255]]


def test_numbers_without_a_range_are_refused(tmp_path):
    path = save(tmp_path, "f.tiff", Image.new("F", (2, 2), 0.5))
    with pytest.raises(InvalidInput, match=r"f\.tiff holds floating-point numbers"):
        picture(path)
    with pytest.raises(InvalidInput, match="at most 16 bits"):
        picture(save(tmp_path, "i.tiff", Image.new("I", (2, 2), 70000)))


def test_pictures_are_turned_upright(tmp_path):
    image = Image.new("L", (4, 2), 0)
    image.putpixel((0, 0), 255)
    tags = Image.Exif()
    tags[0x0112] = 6  # the camera was turned: rotate by 90 degrees clockwise to see it upright
    pixels = picture(save(tmp_path, "turned.png", image, exif=tags))[..., 0]
    assert pixels.shape == (4, 2)
    assert pixels[0, 1] == 255


def test_a_size_brings_pictures_of_any_size_together_cropped_or_stretched(tmp_path):
    wide = Image.new("L", (30, 10), 0)
    wide.paste(255, (10, 0, 20, 10))  # the centred square is white
    save(tmp_path / "a", "wide.png", wide)
    save(tmp_path / "a", "tall.png", Image.new("L", (7, 9), 255))
    with pytest.raises(InvalidInput, match="Give `size` and `channels`"):
        load(tmp_path)
    cropped = load(tmp_path, size=10)
    assert cropped.shape == (1, 10, 10)
    assert cropped.x.min() == 1
    stretched = load(tmp_path, size=10, crop=False)
    assert stretched.x[1, 0, 4, 0] == 0
    assert stretched.x[1, 0, 4, 5] == 1


@pytest.mark.parametrize("option", [{"size": 0}, {"channels": 2}])
def test_senseless_sizes_and_channels_are_refused(option, tmp_path):
    (name,) = option
    with pytest.raises(InvalidInput, match=f"`{name}` must be"):
        Decoding(**option)


def test_options_of_folders_are_refused_for_sets_with_a_size_of_their_own(tmp_path):
    with pytest.raises(InvalidInput, match="folder of pictures; photos is none"):
        load("photos", size=16)
    np.savez(tmp_path / "d.npz", x=np.zeros((4, 6, 6), np.uint8), y=np.arange(4) % 2)
    with pytest.raises(InvalidInput, match=r"d\.npz is none"):
        load(tmp_path / "d.npz", skip_broken=True)


def test_broken_files_are_named_or_skipped(tmp_path):
    write_class_folders(tmp_path, {"cat": 3, "dog": 2})
    (tmp_path / "cat/0001.png").write_bytes(b"no picture")
    with pytest.raises(InvalidInput, match=r"0001\.png is truncated or not an image .* `skip_broken`"):
        load(tmp_path)
    data = load(tmp_path, skip_broken=True)
    assert data.y.tolist() == [0, 0, 1, 1]
    assert [file.rsplit("/", 2)[1:] for file in data.files[:2]] == [["cat", "0000.png"], ["cat", "0002.png"]]
    for path in tmp_path.rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(InvalidInput, match="None of the 5 images can be decoded"):
        load(tmp_path, skip_broken=True)


def test_only_the_chosen_pictures_are_decoded(tmp_path, monkeypatch):
    write_class_folders(tmp_path, {"cat": 30, "dog": 30})
    decoded = []

    def watched(path, decoding):
        decoded.append(path)
        return picture(path, decoding)

    monkeypatch.setattr(pictures, "picture", watched)
    few = load(tmp_path, n=4, seed=1)
    assert len(decoded) == 4
    assert sorted(few.files) == sorted(map(str, decoded))
    whole = load(tmp_path).sample(4, seed=1)
    assert torch.equal(few.x, whole.x)
    assert few.files == whole.files


def write_table(folder):
    """A CSV of all pictures below a folder."""
    files = sorted(folder.rglob("*.png"))
    rows = [f"{file.relative_to(folder)},{file.parent.name}" for file in files]
    table = folder / "labels.csv"
    table.write_text("\n".join(["file,label", *rows]) + "\n")
    return table


class Listed(torch.utils.data.Dataset):
    """A data set of another package: it knows all labels and opens a picture when asked for it."""

    def __init__(self, folder):
        self.samples = [(str(file), file.parent.name) for file in sorted(folder.rglob("*.png"))]
        self.targets = [label for _, label in self.samples]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        file, label = self.samples[index]
        return Image.open(file).convert("RGB"), label


CHOOSERS = {
    "load": lambda folder: [load(folder, n=4, seed=1)],
    "load at most": lambda folder: [load(folder, at_most=4, seed=1)],
    "load one class": lambda folder: [load("folder:dog", source=folder, n=3, seed=1)],
    "load_splits": lambda folder: load_splits(folder, n=4, n_test=2, seed=1),
    "as_images of a folder": lambda folder: [as_images(folder, n=4, seed=1)],
    "as_images of files": lambda folder: [as_images(sorted(folder.rglob("*.png")), n=4, seed=1)],
    "as_images of a data set": lambda folder: [as_images(Listed(folder), n=4, seed=1)],
    "load_label_table": lambda folder: [load_label_table(write_table(folder), n=4, seed=1)],
}


@pytest.mark.parametrize("reader", CHOOSERS)
@pytest.mark.parametrize("layout", ["classes", "splits"])
def test_every_reader_chooses_first_and_decodes_only_what_it_chose(reader, layout, tmp_path):
    folder = tmp_path / "pictures"
    for split in ("train", "test") if layout == "splits" else ("",):
        write_class_folders(folder / split, {"cat": 20, "dog": 20})
    demand_choice_before_decoding(folder, CHOOSERS[reader])


@pytest.mark.parametrize("reader", ["load", "load at most", "as_images of a folder"])
def test_pictures_without_labels_are_chosen_first_too(reader, tmp_path):
    write_class_folders(tmp_path, {"cat": 40})
    demand_choice_before_decoding(tmp_path / "cat", CHOOSERS[reader])


def demand_choice_before_decoding(folder, choose):
    """Damage all pictures that were not chosen: choosing again must give the same images."""
    before = choose(folder)
    chosen = {(folder / file).resolve() for part in before for file in part.files}
    assert 3 <= len(chosen) <= 6
    for file in folder.rglob("*.png"):
        if file.resolve() not in chosen:
            file.write_bytes(b"no picture")
    for part, again in zip(before, choose(folder), strict=True):
        assert part.files == again.files
        assert torch.equal(part.x, again.x)


def test_of_an_archive_only_the_chosen_pictures_are_decoded(tmp_path):
    write_class_folders(tmp_path / "pictures", {"cat": 20, "dog": 20})
    whole = Path(shutil.make_archive(str(tmp_path / "whole"), "zip", tmp_path / "pictures"))
    before = load(whole, n=4, seed=1)
    chosen = {file.removeprefix(f"{whole}/") for file in before.files}
    for file in (tmp_path / "pictures").rglob("*.png"):
        if str(file.relative_to(tmp_path / "pictures")) not in chosen:
            file.write_bytes(b"no picture")
    broken = shutil.make_archive(str(tmp_path / "broken"), "zip", tmp_path / "pictures")
    assert torch.equal(load(broken, n=4, seed=1).x, before.x)
    with pytest.raises(InvalidInput, match="is truncated or not an image"):
        load(broken)


def test_files_stay_with_their_images(tmp_path):
    write_class_folders(tmp_path, {"cat": 5, "dog": 5})
    data = load(tmp_path)
    for part in (
        data.sample(6, seed=3),
        data.only("dog"),
        data.take(torch.tensor([7, 2])),
        data.take(data.y == 1),
        data.sample(8, seed=0).only("cat").map(lambda x: 2 * x),
    ):
        for file, x in zip(part.files, part.x, strict=True):
            own = torch.from_numpy(picture(Path(file)).copy()).permute(2, 0, 1) / 255
            assert torch.equal(x / x.max() * own.max(), own)
    with pytest.raises(InvalidInput, match="one file per image, 5, or none; got 10"):
        data.replace(x=data.x[:5], y=data.y[:5])


def test_files_of_an_archive_are_named_within_it(tmp_path):
    write_class_folders(tmp_path / "pets/x", {"cat": 2})
    archive = tar_of_folder(tmp_path / "pets.tar.gz", tmp_path / "pets/x/cat", "pets/cat")
    assert load(archive).files == (f"{archive}/pets/cat/0000.png", f"{archive}/pets/cat/0001.png")


def test_a_folder_without_class_folders_holds_images_without_labels(tmp_path):
    for i in range(3):
        save(tmp_path / "holiday", f"{i}.png", Image.new("RGB", (6, 6), (i, i, i)))
    data = load(tmp_path / "holiday", split=None)
    assert len(data) == 3
    assert not data.is_labelled
    assert repr(data) == "ImageData(holiday train: 3 images of 3x6x6, no labels)"
    with pytest.raises(InvalidInput, match="Training needs labels; holiday holds images without any"):
        load_splits(tmp_path / "holiday")


# ---------------------------------------------------------------- splits


def test_a_folder_without_a_test_split_gets_one_by_seed(tmp_path):
    write_class_folders(tmp_path / "pets", {"cat": 10, "dog": 5})
    train, test = load_splits(tmp_path / "pets", seed=3)
    assert (train.counts.tolist(), test.counts.tolist()) == ([8, 4], [2, 1])
    assert sorted(train.files + test.files) == sorted(load(tmp_path / "pets").files)
    assert "3 of 15 images are held out for testing, drawn with seed 3" in train.meta["held_out"]
    again = load_splits(tmp_path / "pets", seed=3)
    assert again[1].files == test.files
    assert load_splits(tmp_path / "pets", seed=4)[1].files != test.files


def test_an_existing_test_split_is_kept(tmp_path):
    write_class_folders(tmp_path / "train", {"a": 3, "b": 2})
    write_class_folders(tmp_path / "val", {"a": 1, "b": 1})
    train, test = load_splits(tmp_path)
    assert (len(train), len(test)) == (5, 2)
    assert "held_out" not in train.meta


def test_splits_of_named_sets_are_those_that_load_gives():
    train, test = load_splits("photos", n=20, n_test=10, seed=2)
    assert torch.equal(train.x, load("photos").sample(20, seed=2).x)
    assert torch.equal(test.x, load("photos", "test").sample(10, seed=2).x)
    assert len(load_splits("photos:cat/rocket", at_most=30, n_test=10**6)[1]) == 500
    with pytest.raises(InvalidInput, match="got n=0"):
        load_splits("photos", at_most=0)


def test_the_best_split_to_look_at_is_the_test_split_or_everything(tmp_path):
    write_class_folders(tmp_path / "pets", {"cat": 3, "dog": 2})
    assert len(load(tmp_path / "pets", split=None)) == 5
    assert load("photos", split=None, n=8).meta["split"] == "test"


def test_of_every_class_something_is_kept_and_something_held_out():
    y = torch.tensor([0] * 2 + [1] * 3 + [2])
    kept, held = held_out(y, n_classes=3, share=0.9, seed=0)
    assert y[kept].bincount(minlength=3).tolist() == [1, 1, 1]
    assert y[held].bincount(minlength=3).tolist() == [1, 2, 0]
    with pytest.raises(InvalidInput, match="at least two images"):
        held_out(torch.arange(3), n_classes=3, share=0.5, seed=0)
    with pytest.raises(InvalidInput, match="`share` must lie"):
        held_out(y, n_classes=3, share=1.0, seed=0)
