"""What does not fit into memory gives the same answer from disk."""

import numpy as np
import pytest
import torch

from firstlight._internal.environment import free_memory
from firstlight._internal.errors import InvalidInput
from firstlight.estimators import CNTKClassifier, ConvRFMClassifier
from firstlight.kernels import ConvKernel, kernel_gram, scaled_gram


def problem(n: int = 60) -> tuple[torch.Tensor, np.ndarray]:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    x = torch.rand(n, 1, 6, 6, generator=generator)
    x[y == 1, :, 2:4] += 0.5
    return x, y.numpy()


def small_memory(monkeypatch) -> None:
    monkeypatch.setenv("FIRSTLIGHT_MEMORY_GB", "1e-6")


def test_the_free_memory_is_what_the_system_or_the_user_says(monkeypatch):
    assert free_memory() > 1 << 20
    monkeypatch.setenv("FIRSTLIGHT_MEMORY_GB", "2.5")
    assert free_memory() == 2_500_000_000
    monkeypatch.setenv("FIRSTLIGHT_MEMORY_GB", "much")
    with pytest.raises(InvalidInput, match="FIRSTLIGHT_MEMORY_GB"):
        free_memory()


def test_a_matrix_on_disk_has_the_bits_of_one_in_memory(monkeypatch):
    x, _ = problem()
    inner, top = scaled_gram(x, kernel=ConvKernel(depth=2))
    small_memory(monkeypatch)
    on_disk, same = scaled_gram(x, kernel=ConvKernel(depth=2))
    assert same == top
    assert torch.equal(inner, on_disk)
    assert torch.allclose(inner * top, kernel_gram(x, kernel=ConvKernel(depth=2)))


@pytest.mark.parametrize("make", [
    lambda: CNTKClassifier(depth=2, ridge=1e-3, precision="double"),
    lambda: ConvRFMClassifier(depth=2, ridges=(1e-2,), rounds=1, patience=None, precision="double"),
])  # fmt: skip
def test_estimators_above_the_memory_predict_what_they_predict_within_it(make, monkeypatch):
    x, y = problem()
    within = make().fit(x, y).decision_function(x)
    small_memory(monkeypatch)
    above = make().fit(x, y).decision_function(x)
    assert np.abs(above - within).max() < 1e-5
    assert not np.array_equal(above, within)  # another solver was at work
