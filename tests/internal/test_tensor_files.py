"""Files of tensors: a full disk is told in one line, and a changed bit is always noticed."""

import random
import subprocess

import pytest
import torch
from safetensors.torch import load_file

from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight._internal.files import whole_file
from firstlight._internal.store import RunSpec, Store
from firstlight._internal.tensor_files import load_sealed, load_tensors, save_sealed, save_tensors
from firstlight.data import cache
from firstlight.data.cache import StoredImages
from firstlight.models import save_weights
from firstlight.training.checkpoint import save_checkpoint


def tensors():
    generator = torch.Generator().manual_seed(0)
    return {
        "weight": torch.randn(3, 4, generator=generator),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "flags": torch.tensor([True, False]),
        "none": torch.zeros(0, 2),
    }


def test_what_is_sealed_is_read_back(tmp_path):
    save_sealed(tmp_path / "f", tensors(), {"arch": "small"})
    read = load_sealed(tmp_path / "f")
    assert read.words == {"arch": "small"}
    for name, tensor in tensors().items():
        assert torch.equal(read.tensors[name], tensor)
        assert read.tensors[name].dtype == tensor.dtype


def test_equal_contents_are_equal_bytes(tmp_path):
    words = {"arch": "small", "data": 'é "photos" \n\t\x1f', "other": "/"}
    for i in range(8):
        save_sealed(tmp_path / str(i), tensors(), words)
    assert len({(tmp_path / str(i)).read_bytes() for i in range(8)}) == 1
    assert load_sealed(tmp_path / "0").words == words


def test_tensors_are_written_into_the_file_that_is_named(tmp_path):
    """A file beside it, to be renamed, would be left by a process that is killed, under a name that nobody sweeps."""
    (tmp_path / "f").touch()
    before = (tmp_path / "f").stat().st_ino
    save_tensors(tmp_path / "f", tensors())
    assert (tmp_path / "f").stat().st_ino == before


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8, torch.bool, torch.complex64,
    ],
)  # fmt: skip
def test_the_library_of_the_format_reads_tensors_of_any_type_and_layout(tmp_path, dtype):
    """Transposed ones, parts of others and two names of one: each is a whole of its own in the file."""
    whole = torch.arange(12).reshape(3, 4).to(dtype)
    mixed = {
        "whole": whole,
        "same": whole,
        "part": whole[1:, ::2],
        "turned": whole.T,
        "b": torch.ones(3).bool(),
    }
    save_tensors(tmp_path / "ours", mixed, {"a": "é"})
    read = load_file(tmp_path / "ours")
    assert read.keys() == mixed.keys()
    for name, tensor in mixed.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor)


@pytest.mark.long
def test_every_flipped_bit_of_a_sealed_file_is_noticed(tmp_path):
    file = tmp_path / "f"
    save_sealed(file, tensors(), {"arch": "small"})
    raw = file.read_bytes()
    for position in range(8 * len(raw)):
        changed = bytearray(raw)
        changed[position // 8] ^= 1 << position % 8
        file.write_bytes(changed)
        with pytest.raises(InvalidInput) as caught:
            load_tensors(file)
        assert "\n" not in str(caught.value)


def test_files_of_others_are_read_but_do_not_pass_as_sealed(tmp_path):
    save_tensors(tmp_path / "f", tensors(), {"sha256": "theirs"})
    read = load_tensors(tmp_path / "f")
    assert not read.is_sealed
    assert read.words == {"sha256": "theirs"}
    with pytest.raises(InvalidInput, match="no checksum"):
        load_sealed(tmp_path / "f")


@pytest.mark.parametrize("kept", [0, 7, 100, -1])
def test_a_truncated_file_is_refused_in_one_line(tmp_path, kept):
    save_sealed(tmp_path / "f", tensors())
    (tmp_path / "f").write_bytes((tmp_path / "f").read_bytes()[:kept])
    with pytest.raises(InvalidInput, match="cannot be read as tensors"):
        load_tensors(tmp_path / "f")


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


LARGE = torch.zeros(1_000_000)


def write_run(folder):
    Store(folder).write(RunSpec(what="test", config={}), {"x": LARGE}, wall_seconds=0.0, cpu_seconds=0.0)


def write_checkpoint(folder):
    save_checkpoint(folder / "checkpoint", {"x": LARGE})


def write_weights(folder):
    save_weights({"x": LARGE}, folder / "weights.safetensors")


def write_data(folder):
    images = StoredImages(torch.zeros(4, 1, 1000, 1000, dtype=torch.uint8), torch.zeros(4).long(), ("a",))
    cache.write_cache("toy", {"train": images}, origin="here")


def write_page(folder):
    with whole_file(folder / "page.html") as part:
        part.write_text("x" * 4_000_000)


@pytest.mark.parametrize("write", [write_run, write_checkpoint, write_weights, write_data, write_page])
def test_a_full_disk_is_told_in_one_line_and_nothing_half_written_stays(small_disk, monkeypatch, write):
    monkeypatch.setenv("FIRSTLIGHT_DATA", str(small_disk))
    with pytest.raises(StoreProblem, match="the disk is full") as caught:
        write(small_disk)
    assert "\n" not in str(caught.value)
    assert [p for p in small_disk.rglob("*") if p.is_file() and p.stat().st_size] == []


def test_a_random_flip_in_each_kind_of_file_is_noticed(tmp_path, monkeypatch):
    """Weights of `train`, a run, a cached data set; checkpoints, machines and Gram parts have their own tests."""
    rng = random.Random(0)
    monkeypatch.setenv("FIRSTLIGHT_DATA", str(tmp_path / "data"))
    images = StoredImages(torch.zeros(4, 1, 5, 5, dtype=torch.uint8), torch.zeros(4).long(), ("a",))
    spec, store = RunSpec(what="test", config={"lr": 0.1}), Store(tmp_path / "runs")
    save_weights(tensors(), tmp_path / "w.safetensors", arch="small")
    store.write(spec, {"x": torch.arange(9.0)}, wall_seconds=0.0, cpu_seconds=0.0)
    data = cache.write_cache("toy", {"train": images}, origin="here")
    readers = {
        tmp_path / "w.safetensors": lambda: load_tensors(tmp_path / "w.safetensors"),
        store.root / spec.id / "arrays.safetensors": lambda: store.load(spec.id),
        store.root / spec.id / "run.json": lambda: store.load(spec.id),
        data / "train.safetensors": lambda: cache.read_cache("toy", "train"),
        data / "manifest.json": lambda: cache.read_cache("toy", "train"),
    }
    for file, read in readers.items():
        raw = file.read_bytes()
        for _ in range(60):
            changed = bytearray(raw)
            changed[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            file.write_bytes(changed)
            with pytest.raises((InvalidInput, StoreProblem)):
                read()
        file.write_bytes(raw)
        read()
