"""The second device, there for the length of a test."""

from collections.abc import Iterator

import pytest
import torch

from devices import second_device


@pytest.fixture
def second(monkeypatch) -> Iterator[torch.device]:
    """A device that refuses CPU tensors."""
    device = second_device.set_up()
    monkeypatch.setattr(second_device.MODULE, "is_there", True)
    return torch.device(device.type, 0)


@pytest.fixture
def single(second, monkeypatch) -> torch.device:
    """The same without double precision, as Apple's devices."""
    monkeypatch.setattr(second_device.MODULE, "lacks_float64", True)
    return second
