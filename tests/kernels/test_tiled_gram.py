"""A matrix in tiles on disk does what the same matrix in memory does."""

from functools import partial

import pytest
import torch

from firstlight._internal.errors import Diverged, InvalidInput
from firstlight.kernels import ConvKernel, TiledGram, kernel_gram, ridge_solver

KERNEL = ConvKernel(depth=2)


def images(n: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, 2, 6, 5, generator=torch.Generator().manual_seed(seed))


def in_memory(x: torch.Tensor, metric: torch.Tensor | None = None) -> torch.Tensor:
    """The definition: all entries, rounded to float32, divided by the largest."""
    rounded = kernel_gram(x, kernel=KERNEL, metric=metric, n_jobs=1, show=False).float().double()
    return rounded / rounded.max()


@pytest.mark.parametrize("n", [1, 64, 150])
def test_products_and_columns_equal_those_of_the_matrix_in_memory(n, tmp_path):
    x, metric = images(n), torch.diag(torch.linspace(0.1, 1, 18, dtype=torch.float64))
    tiles = TiledGram.of(x, kernel=KERNEL, metric=metric, folder=tmp_path, side=64, n_jobs=1)
    matrix = in_memory(x, metric)
    vectors = torch.randn(n, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(tiles @ vectors, matrix @ vectors, rtol=1e-12, atol=1e-12)
    some = torch.tensor([0, n // 2, n - 1])
    assert torch.equal(tiles.columns(some), matrix[:, some])


def test_solutions_equal_those_of_the_matrix_in_memory(tmp_path):
    x = images(150)
    targets = torch.randn(150, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    tiles = TiledGram.of(x, kernel=KERNEL, folder=tmp_path, side=64, n_jobs=1)
    solution = tiles.solve(targets, 1e-2, rank=20, tolerance=1e-12)
    torch.testing.assert_close(solution, ridge_solver(in_memory(x), targets)(1e-2), rtol=1e-8, atol=1e-8)
    with pytest.raises(Diverged, match="did not reach 1e-12 in 1 steps"):
        tiles.solve(targets, 1e-4, rank=1, tolerance=1e-12, most=1)


def test_a_stopped_solution_goes_on_from_the_coefficients_it_was_told(tmp_path):
    targets = torch.randn(150, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    tiles = TiledGram.of(images(150), kernel=KERNEL, folder=tmp_path, side=64, n_jobs=1)
    steps: list[torch.Tensor] = []
    solve = partial(tiles.solve, targets, 1e-2, rank=5, tolerance=1e-10)
    whole = solve(listen=steps.append)
    torch.testing.assert_close(steps[-1], whole, rtol=0, atol=0)
    left: list[torch.Tensor] = []
    torch.testing.assert_close(solve(first=steps[-4], listen=left.append), whole, rtol=1e-6, atol=1e-6)
    assert 0 < len(left) < len(steps)
    for wrong in (targets[:3], torch.full_like(targets, torch.nan)):
        with pytest.raises(InvalidInput, match="`first` must be finite and of the shape"):
            solve(first=wrong)


def test_a_stopped_matrix_goes_on_and_a_damaged_tile_is_computed_again(tmp_path):
    x = images(150)
    first = TiledGram.of(x, kernel=KERNEL, folder=tmp_path, side=64, n_jobs=1)
    every = [(0, 0), (0, 64), (0, 128), (64, 64), (64, 128), (128, 128)]
    before = [first.tile(block).clone() for block in every]
    (tmp_path / "part-0-64.safetensors").unlink()
    damaged = tmp_path / "part-64-128.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x01")
    untouched = (tmp_path / "part-0-0.safetensors").stat().st_mtime_ns
    assert TiledGram.of(x, kernel=KERNEL, folder=tmp_path, side=64, n_jobs=1) == first
    assert all(torch.equal(first.tile(block), tile) for block, tile in zip(every, before, strict=True))
    assert (tmp_path / "part-0-0.safetensors").stat().st_mtime_ns == untouched


def test_tiles_of_other_images_are_refused(tmp_path):
    TiledGram.of(images(20), kernel=KERNEL, folder=tmp_path, side=16, n_jobs=1)
    with pytest.raises(InvalidInput, match="parts of one matrix"):
        TiledGram.of(images(20, seed=1), kernel=KERNEL, folder=tmp_path, side=16, n_jobs=1)


def test_vectors_of_another_length_are_refused(tmp_path):
    tiles = TiledGram.of(images(20), kernel=KERNEL, folder=tmp_path, side=16, n_jobs=1)
    with pytest.raises(InvalidInput, match="for each of the 20 images"):
        tiles @ torch.ones(19, 1)
