import json
import threading

import pytest
import torch

from firstlight._internal.errors import StoreProblem
from firstlight.data import cache as caching
from firstlight.data.cache import StoredImages


def split(n=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (n, 3, 4, 5), generator=generator).byte()
    return StoredImages(
        x, torch.arange(n) % 2, ("cat", "dog"), {"Smiling": (torch.arange(n) % 3 == 0).byte()}
    )


@pytest.fixture
def written(cache):
    return caching.write_cache("toy", {"train": split(), "test": split(4, 1)}, origin="here")


def test_what_is_written_is_read_back(written):
    back, original = caching.read_cache("toy", "test"), split(4, 1)
    assert torch.equal(back.x, original.x)
    assert torch.equal(back.y, original.y)
    assert back.classes == ("cat", "dog")
    assert torch.equal(back.attributes["Smiling"], original.attributes["Smiling"])


def test_a_second_writer_does_not_disturb_the_first(written, cache):
    caching.write_cache("toy", {"train": split(8)}, origin="there")
    assert len(caching.read_cache("toy", "train")) == 6
    caching.write_cache("toy", {"train": split(8)}, origin="there", replace=True)
    assert len(caching.read_cache("toy", "train")) == 8
    assert sorted(path.name for path in cache.iterdir()) == ["toy"]


def test_an_interrupted_write_leaves_nothing(cache, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(caching, "save_tensors", interrupted)
    with pytest.raises(KeyboardInterrupt):
        caching.write_cache("toy", {"train": split()}, origin="here")
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("damage", ["truncate", "flip", "delete", "no manifest list", "broken manifest"])
def test_a_damaged_cache_says_how_to_remove_it(written, damage):
    file, listing = written / "train.safetensors", written / "manifest.json"
    caching.read_cache("toy", "train")
    raw = file.read_bytes()
    if damage == "truncate":
        file.write_bytes(raw[:-10])
    elif damage == "flip":
        file.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    elif damage == "delete":
        file.unlink()
    elif damage == "no manifest list":
        listing.write_text("[]")
    else:
        listing.write_text(listing.read_text()[:-9])
    with pytest.raises(StoreProblem, match=r"damaged.*firstlight data rm toy") as caught:
        caching.read_cache("toy", "train")
    assert "\n" not in str(caught.value)


def test_a_file_that_fits_its_checksum_but_is_no_tensor_file_is_damaged(written):
    file, listing = written / "train.safetensors", written / "manifest.json"
    file.write_bytes(file.read_bytes()[:100])
    body = json.loads(listing.read_text())
    body["files"]["train.safetensors"]["sha256"] = caching.sha256_of(file)
    listing.write_text(json.dumps(body))
    with pytest.raises(StoreProblem, match="damaged"):
        caching.read_cache("toy", "train")


def test_a_removed_data_set_is_gone(written, cache):
    assert caching.remove_cached("toy")
    assert not caching.is_cached("toy")
    assert list(cache.iterdir()) == []
    assert not caching.remove_cached("toy")


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_cache_that_cannot_be_written_is_one_clear_error(tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FIRSTLIGHT_DATA", str(tmp_path / place))
    with pytest.raises(StoreProblem, match="file"):
        caching.demand_writable_cache()


def test_a_reader_never_finds_the_copy_absent_while_it_is_replaced(written, monkeypatch):
    drop, dropped, answered, answers = caching.remove_whole, threading.Event(), threading.Event(), []

    def slow_drop(folder):
        drop(folder)
        dropped.set()
        answered.wait(timeout=1.0)  # a reader that does not wait for us has all the time to look

    def read():
        dropped.wait()
        answers.append(caching.is_cached("toy") and len(caching.read_cache("toy", "train")))
        answered.set()

    monkeypatch.setattr(caching, "remove_whole", slow_drop)
    reader = threading.Thread(target=read)
    reader.start()
    caching.write_cache("toy", {"train": split(8)}, origin="there", replace=True)
    reader.join()
    assert answers == [8]


def test_writers_at_the_same_time_do_not_collide(written, cache):
    problems = []

    def write(n):
        try:
            for _ in range(5):
                caching.write_cache("toy", {"train": split(n)}, origin="there", replace=True)
        except Exception as error:
            problems.append(error)

    writers = [threading.Thread(target=write, args=(n,)) for n in (6, 8, 10)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert len(caching.read_cache("toy", "train")) in (6, 8, 10)
    assert problems == []
    assert sorted(path.name for path in cache.iterdir()) == ["toy"]


def test_a_copy_under_another_name_is_refused(written, cache):
    written.rename(cache / "other")
    with pytest.raises(StoreProblem, match="a copy of 'toy' under another name"):
        caching.read_cache("other", "train")


def test_a_copy_written_before_manifests_were_sealed_is_read(written):
    body = json.loads((written / "manifest.json").read_text())
    del body["format"], body["sha256"]
    (written / "manifest.json").write_text(json.dumps(body))
    assert len(caching.read_cache("toy", "train")) == 6
