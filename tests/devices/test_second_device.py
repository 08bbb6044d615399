"""The device that the other tests rely on: it computes what the CPU does, and refuses what a GPU would refuse."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from firstlight.models import build

MIXTURES = {
    "sum": lambda here, there: here + there,
    "the other way round": lambda here, there: there + here,
    "product": lambda here, there: here @ there.T,
    "in place": lambda here, there: here.clone().add_(there),
    "comparison": lambda here, there: here == there,
    "cat": lambda here, there: torch.cat([here, there]),
    "stack": lambda here, there: torch.stack([there, here]),
    "where": lambda here, there: torch.where(here > 0, here, there),
    "einsum": lambda here, there: torch.einsum("ij,ij->i", here, there),
    "linear": lambda here, there: F.linear(here, there),
    "convolution": lambda here, there: F.conv1d(here[:, None], there[:1, None]),
    "loss": lambda here, there: F.mse_loss(here, there),
    "index of the other": lambda here, there: there[torch.zeros(1, dtype=torch.int64, device=here.device)],
    "assignment": lambda here, there: here.clone().index_add_(
        0, torch.tensor([0, 1], device=here.device), there[:2]
    ),
    "weights": lambda here, there: nn.Linear(4, 2).to(here.device)(there),
    "images": lambda here, there: nn.Linear(4, 2).to(there.device)(here),
}


@pytest.mark.parametrize("name", list(MIXTURES))
def test_tensors_of_two_devices_do_not_mix(second, name):
    here, there = torch.ones(3, 4, device=second), torch.ones(3, 4)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        MIXTURES[name](here, there)
    MIXTURES[name](here, there.to(second))  # the same on one device works


def test_single_numbers_and_indices_of_the_cpu_are_welcome(second):
    here = torch.arange(4.0, device=second)
    assert (here * torch.tensor(2.0)).tolist() == [0, 2, 4, 6]
    assert here[torch.tensor([3, 0])].tolist() == [3, 0]


def test_numpy_cannot_read_it(second):
    with pytest.raises(TypeError, match="can't convert second:0"):
        np.asarray(torch.ones(2, device=second))
    with pytest.raises(TypeError, match="can't convert second:0"):
        torch.ones(2, device=second).numpy()


def test_generators_of_the_cpu_do_not_draw_on_it(second):
    with pytest.raises(RuntimeError, match="device type for generator"):
        torch.randn(3, generator=torch.Generator(), device=second)


def test_double_precision_can_be_missing(single):
    with pytest.raises(TypeError, match="float64"):
        torch.ones(2, device=single).double()
    with pytest.raises(TypeError, match="float64"):
        torch.zeros(2, dtype=torch.float64, device=single)
    with pytest.raises(TypeError, match="float64"):
        torch.ones(2, dtype=torch.float64).to(single)


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.Adam])
def test_it_computes_what_the_cpu_does(second, optimiser):
    """Forward, backward, views in place and an update, to the bit."""
    x, y = torch.rand(5, 3, 12, 12), torch.tensor([0, 1, 2, 0, 1])
    weights = []
    for device in ("cpu", second):
        model = build("lenet", classes=3, shape=(3, 12, 12)).to(device)
        rule = optimiser(model.parameters(), lr=0.1)
        for _ in range(2):
            rule.zero_grad()
            F.cross_entropy(model(x.to(device)), y.to(device)).backward()
            rule.step()
        with torch.no_grad():
            first = next(model.parameters())
            first[0].mul_(2)[:, 1:].add_(1)
        weights.append([p.detach().cpu() for p in model.parameters()])
        assert {p.device.type for p in model.parameters()} == {torch.device(device).type}
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


def test_it_leaves_when_a_test_ends():
    assert not torch.accelerator.is_available()
