"""Matrices made part by part equal those made at once, and go on after an interruption."""

import random

import pytest
import torch

from firstlight._internal.errors import InvalidInput
from firstlight.kernels import ConvKernel, PatchKernel, gram_in_parts, kernel_gram


def images(n: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, 2, 6, 5, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kernel", [ConvKernel(depth=2), ConvKernel(depth=2, readout="gap"), PatchKernel()])
def test_parts_of_whole_tiles_give_the_same_bits(kernel, tmp_path):
    x, z = images(150), images(70, seed=1)
    d = 18
    metric = torch.diag(torch.linspace(0.1, 1, d, dtype=torch.float64))
    for second in (None, z):
        whole = kernel_gram(x, second, kernel=kernel, metric=metric, n_jobs=1)
        folder = tmp_path / str(second is None)
        parts = gram_in_parts(x, second, kernel=kernel, metric=metric, folder=folder, part=64, n_jobs=1)
        assert torch.equal(parts, whole)


def test_a_stopped_matrix_goes_on_with_the_parts_that_are_missing(tmp_path, monkeypatch):
    x, kernel = images(20), ConvKernel(depth=1)
    gram_in_parts(x, kernel=kernel, folder=tmp_path, part=8, n_jobs=1)
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(kept) == 6
    (tmp_path / "part-0-8.safetensors").unlink()
    again = gram_in_parts(x, kernel=kernel, folder=tmp_path, part=8, n_jobs=1)
    changed = {p.name for p in tmp_path.iterdir() if kept[p.name] != p.stat().st_mtime_ns}
    assert changed == {"part-0-8.safetensors"}
    assert torch.allclose(again, kernel_gram(x, kernel=kernel), rtol=1e-6)


def test_processes_and_one_process_give_the_same_bits(tmp_path):
    x, kernel = images(40), ConvKernel(depth=2)
    one = gram_in_parts(x, kernel=kernel, folder=tmp_path / "1", part=32, n_jobs=1)
    assert torch.equal(one, gram_in_parts(x, kernel=kernel, folder=tmp_path / "2", part=32, n_jobs=2))


def test_bad_input_is_refused_before_anything_is_written(tmp_path):
    x = images(4)
    x[2, 0, 0, 0] = float("nan")
    with pytest.raises(InvalidInput):
        gram_in_parts(x, kernel=ConvKernel(depth=1), folder=tmp_path / "new")
    with pytest.raises(InvalidInput, match="`part`"):
        gram_in_parts(images(4), kernel=ConvKernel(depth=1), folder=tmp_path / "new", part=0)
    assert not (tmp_path / "new").exists()


def test_a_flipped_bit_in_a_part_is_noticed_and_the_part_computed_again(tmp_path):
    x, kernel, rng = images(12), ConvKernel(depth=1), random.Random(0)
    whole = gram_in_parts(x, kernel=kernel, folder=tmp_path, part=8, n_jobs=1)
    for _ in range(5):
        for file in tmp_path.iterdir():
            raw = bytearray(file.read_bytes())
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            file.write_bytes(raw)
        assert torch.equal(gram_in_parts(x, kernel=kernel, folder=tmp_path, part=8, n_jobs=1), whole)


@pytest.mark.parametrize("change", ["kernel", "images", "metric", "place"])
def test_parts_of_another_matrix_are_refused(tmp_path, change):
    x, kernel, metric = images(12), ConvKernel(depth=1), None
    gram_in_parts(x, kernel=kernel, folder=tmp_path, part=8, n_jobs=1)
    if change == "kernel":
        kernel = ConvKernel(depth=2)
    elif change == "images":
        x = images(12, seed=1)
    elif change == "metric":
        metric = torch.eye(18).double() / 2
    else:
        (tmp_path / "part-0-0.safetensors").rename(tmp_path / "part-8-8.safetensors")
        gram_in_parts(x[:8], kernel=kernel, folder=tmp_path / "again", part=8, n_jobs=1)
        (tmp_path / "again" / "part-0-0.safetensors").rename(tmp_path / "part-0-0.safetensors")
    with pytest.raises(InvalidInput, match="parts of one matrix"):
        gram_in_parts(x, kernel=kernel, metric=metric, folder=tmp_path, part=8, n_jobs=1)
