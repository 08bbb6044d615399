"""Files that strangers made: refused in one line, without hanging, without filling the memory."""

import gzip
import io
import json
import os
import pickle
import random
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from firstlight._internal import untrusted_files as foreign
from firstlight._internal.errors import FirstlightError, InvalidInput, StoreProblem
from firstlight._internal.store import RunSpec, Store
from firstlight.data import load
from firstlight.data.fetching.archives import unpack
from firstlight.data.formats.cifar_pickles import pickled_batch
from firstlight.data.formats.idx import idx_array
from firstlight.data.formats.npz import read_npz
from firstlight.data.formats.pictures import picture
from firstlight.models import load_weights
from firstlight.models.onnx.reading import read_graph
from reproduce import entries
from reproduce.weights.resnet50 import tfjs_weights

NESTED = "[" * 100_000
HUGE = 100 << 20  # bytes of zeros, which deflate to a thousandth


def network():
    return torch.nn.Linear(2, 2)


READERS = {
    "x.png": picture,
    "x-idx3-ubyte": idx_array,
    "x.npz": read_npz,
    "batch": pickled_batch,
    "w.safetensors": lambda path: load_weights(network(), path),
    "w.pt": lambda path: load_weights(network(), path),
    "ledger.json": entries.read,
    "m.onnx": read_graph,
    "x.json": foreign.read_json,
}


def refused(read, path):
    with pytest.raises(FirstlightError) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["pipe", "endless device"])
def test_pipes_and_devices_are_refused_without_opening_them(tmp_path, name, kind):
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    refused(READERS[name], path)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "content", [b"", b"\0", b"\x80\x02", b"{}", b"PK\x03\x04", random.Random(0).randbytes(400)]
)
def test_any_bytes_are_refused_in_one_line(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    if (name, content) == ("x.json", b"{}"):
        READERS[name](path)  # empty, but of the format
    else:
        refused(READERS[name], path)


def test_a_pipe_among_the_pictures_of_a_folder_does_not_hang(tmp_path):
    for label in "ab":
        (tmp_path / label).mkdir()
        Image.new("L", (4, 4)).save(tmp_path / label / "1.png")
    os.mkfifo(tmp_path / "a" / "0.png")
    with pytest.raises(InvalidInput, match="a device or a pipe"):
        load(tmp_path)
    assert len(load(tmp_path, skip_broken=True)) == 2


def test_a_pipe_as_run_json_does_not_hang(tmp_path):
    store, spec = Store(tmp_path), RunSpec(what="test", config={})
    store.write(spec, {"x": torch.ones(2)}, wall_seconds=0.0, cpu_seconds=0.0)
    (tmp_path / spec.id / "run.json").unlink()
    os.mkfifo(tmp_path / spec.id / "run.json")
    with pytest.raises(StoreProblem, match="regular file"):
        store.load(spec.id)


def test_deep_nesting_is_refused(tmp_path):
    for name in ("x.json", "ledger.json"):
        (tmp_path / name).write_text(NESTED)
        assert "nested too deeply" in refused(READERS[name], tmp_path / name)
    store, spec = Store(tmp_path), RunSpec(what="test", config={})
    store.write(spec, {"x": torch.ones(2)}, wall_seconds=0.0, cpu_seconds=0.0)
    (tmp_path / spec.id / "run.json").write_text(NESTED)
    with pytest.raises(StoreProblem, match="nested too deeply"):
        store.load(spec.id)
    (tmp_path / "model.json").write_text(NESTED)
    with pytest.raises(InvalidInput, match="broken"):
        tfjs_weights(tmp_path)


def bomb(kind, path):
    """A small file that unfolds to 100 MB."""
    zeros = bytes(HUGE)
    if kind == "gz":
        path.write_bytes(gzip.compress(zeros))
    elif kind == "npz":
        np.savez_compressed(path, x=np.zeros(HUGE, np.uint8), y=np.zeros(1, np.int64))
    elif kind in ("zip", "pt"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("archive/data/0", zeros)
    else:
        with tarfile.open(path, "w:gz") as archive:
            member = tarfile.TarInfo("x")
            member.size = HUGE
            archive.addfile(member, io.BytesIO(zeros))
    assert path.stat().st_size < HUGE // 500


@pytest.mark.parametrize(
    ("kind", "name", "read"),
    [
        ("gz", "x-idx3-ubyte.gz", idx_array),
        ("npz", "x.npz", read_npz),
        ("pt", "w.pt", READERS["w.pt"]),
        ("zip", "x.zip", lambda path: unpack(path, path.parent / "out")),
        ("tar", "x.tar.gz", lambda path: unpack(path, path.parent / "out")),
    ],
)
def test_a_small_file_that_unfolds_to_a_hundred_megabytes_is_refused(tmp_path, kind, name, read):
    path = tmp_path / name
    bomb(kind, path)
    assert "unfold to more than" in refused(read, path)
    assert not list(tmp_path.glob("out/*"))


def test_a_file_larger_than_the_memory_is_refused(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", x=np.zeros((50, 28, 28), np.uint8), y=np.zeros(50, np.int64))
    assert len(read_npz(tmp_path / "x.npz")["train"]) == 50
    monkeypatch.setenv("FIRSTLIGHT_MEMORY_GB", "0.00001")
    assert "GB of memory" in refused(read_npz, tmp_path / "x.npz")


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@pytest.mark.parametrize("side", [10_000, 20_000])
def test_a_picture_of_too_many_pixels_is_refused(tmp_path, side):
    """Pillow only warns of the smaller one."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(bytes(1000)))
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + head + body + chunk(b"IEND", b""))
    assert "too large an image" in refused(picture, tmp_path / "x.png")


def test_fourteen_bytes_of_pickle_that_ask_for_gigabytes_are_refused(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02}r" + struct.pack("<I", 0x1FFFFFFF) + b".")
    assert "more memory than it can need" in refused(pickled_batch, path)
    path.write_bytes(pickle.dumps({"a": [1, 2], "b": [1, 2]}))
    assert pickled_batch(path) == {"a": [1, 2], "b": [1, 2]}


def test_gzip_files_are_read_as_the_library_does(tmp_path):
    several = gzip.compress(b"abc") + gzip.compress(b"def" * 1000)
    (tmp_path / "f").write_bytes(several)
    assert foreign.gunzipped(tmp_path / "f", several) == gzip.decompress(several)
    for broken, error in ((several[:-3], EOFError), (several + b"junk", zlib.error)):
        with pytest.raises(error):
            foreign.gunzipped(tmp_path / "f", broken)


def test_json_is_read_as_it_was_written(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({"é": [1, None]}))
    assert foreign.read_json(tmp_path / "x.json") == {"é": [1, None]}


def flipped(path, bit):
    raw = bytearray(path.read_bytes())
    raw[bit // 8] ^= 1 << bit % 8
    path.write_bytes(raw)


def test_a_changed_weight_in_a_torch_checkpoint_is_noticed(tmp_path):
    """Torch does not compare the checksums of its own archives."""
    model, path = network(), tmp_path / "w.pt"
    torch.save(model.state_dict(), path)
    load_weights(network(), path)
    flipped(path, 8 * path.read_bytes().index(model.weight.detach().numpy().tobytes()))
    assert "was changed after it was written" in refused(READERS["w.pt"], path)


def test_a_torch_checkpoint_without_checksums_is_read(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(network().state_dict(), tmp_path / "w.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    load_weights(network(), tmp_path / "w.pt")


class Allocate:
    def __reduce__(self):
        return bytearray, (1 << 62,)


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_checkpoint_that_builds_a_bytearray_is_refused_before_it_takes_memory(tmp_path, is_zip):
    torch.save({"a": Allocate()}, tmp_path / "w.pt", _use_new_zipfile_serialization=is_zip)
    assert "bytearray" in refused(READERS["w.pt"], tmp_path / "w.pt")


def test_unbound_names_within_a_reader_are_refusals(tmp_path):
    """Scipy's reader of MAT files raises one on some damaged headers."""
    with pytest.raises(InvalidInput, match="cannot be read as MAT"), foreign.guarded(tmp_path, "MAT"):
        raise UnboundLocalError("local variable referenced before assignment")
