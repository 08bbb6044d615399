"""Theorem 1 of CNFA: one step of gradient descent from zero makes filters and gradients proportional."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.theory.least_squares import one_step_filters
from reference import patch_gradients as reference


class PatchNetwork(nn.Module):
    """A convolution with unit-size patches side by side, and a smooth read-out with g(0) = 0."""

    def __init__(self, patch, filters, slopes):
        super().__init__()
        self.conv = nn.Conv2d(1, filters, (1, patch), stride=(1, patch), bias=False).double()
        self.slopes = slopes  # one row per patch: the derivative of g at zero
        nn.init.zeros_(self.conv.weight)

    def forward(self, x):
        z = self.conv(x)[:, :, 0].mT  # n, patches, filters
        return torch.sinh((torch.tanh(z) * self.slopes + 0.3 * z.square()).sum((1, 2)))[:, None]


def trained(slopes, patches, targets, lr):
    n, m, d = patches.shape
    model = PatchNetwork(d, slopes.shape[1], slopes)
    images = patches.reshape(n, 1, 1, m * d)
    (0.5 * (targets - model(images)[:, 0]).square().sum()).backward()
    torch.optim.SGD(model.parameters(), lr=lr).step()
    model.zero_grad()
    return model, images


def distance(model, images):
    layer = patch_gradients(model, images)["conv"]
    return 1 - reference.cosine(layer.agop, layer.feature_matrix)


@given(
    n=st.integers(1, 5),
    m=st.integers(1, 6),
    d=st.integers(1, 5),
    k=st.integers(1, 5),
    seed=st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_one_step_from_zero_makes_them_proportional_at_any_point(n, m, d, k, seed):
    generator = torch.Generator().manual_seed(seed)
    patches, targets, slope, elsewhere = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((n, m, d), (n,), (k,), (3, 1, 1, m * d))
    )
    model, images = trained(slope.expand(m, k), patches, targets, 1e-2)
    closed = one_step_filters(slope, patches, targets, lr=1e-2)
    assert torch.allclose(model.conv.weight.detach().reshape(k, d), closed, rtol=1e-10, atol=1e-14)
    assert torch.linalg.matrix_rank(closed) <= 1
    for x in (images, elsewhere):
        assert distance(model, x) < 1e-10


@pytest.mark.parametrize("seed", range(5))
def test_scaled_slopes_keep_it_and_different_directions_break_it(seed):
    generator = torch.Generator().manual_seed(seed)
    patches, targets, slope, omega, different = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((7, 6, 5), (7,), (4,), (6, 1), (6, 4))
    )
    assert distance(*trained(omega * slope, patches, targets, 1e-2)) < 1e-10
    assert distance(*trained(different, patches, targets, 1e-2)) > 1e-4
