"""The kernels of CNFA as what they claim to be: expectations over wide networks, drawn for real."""

import math

import pytest
import torch
import torch.nn.functional as F

from firstlight.kernels import ConvKernel, kernel_gram


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_dual_activation_has_the_square_that_the_paper_lost():
    a, b = torch.zeros(2, 6, dtype=torch.float64)
    a[0], b[0], b[1] = 1.0, 0.5, 0.75**0.5  # unit vectors at 60 degrees: the two formulas differ by 12 %
    weights = torch.randn(400_000, 6, generator=generator(1), dtype=torch.float64)
    draws = 2 * torch.relu(weights @ a) * torch.relu(weights @ b)
    t, product = float(a @ b), float(a.norm() * b.norm())
    angle = math.acos(t / product)
    formula = (t * (math.pi - angle) + math.sqrt(product**2 - t**2)) / math.pi
    printed = (t * (math.pi - angle) + math.sqrt(product**2 - t)) / math.pi
    error = float(draws.std()) / len(draws) ** 0.5
    assert abs(float(draws.mean()) - formula) < 4 * error
    assert abs(float(draws.mean()) - printed) > 10 * error


def empirical_tangent_kernel(pair, width, readout, seed):
    """Inner product of the gradients of one network by all its weights, by automatic differentiation."""
    source = generator(seed)
    channels = pair.shape[1]
    weights = [
        torch.randn(width, channels, 3, 3, generator=source, dtype=torch.float64),
        torch.randn(width, width, 3, 3, generator=source, dtype=torch.float64),
    ]
    positions = (pair.shape[2] - 4) * (pair.shape[3] - 4)
    count = width if readout == "gap" else width * positions
    weights.append(torch.randn(count, generator=source, dtype=torch.float64))
    for weight in weights:
        weight.requires_grad_(True)
    gradients = []
    for image in pair:
        hidden = math.sqrt(2) * F.relu(F.conv2d(image[None], weights[0]) / math.sqrt(channels))
        hidden = math.sqrt(2) * F.relu(F.conv2d(hidden, weights[1]) / math.sqrt(width))
        top = hidden.mean((2, 3)) if readout == "gap" else hidden
        value = top.flatten() @ weights[2] / math.sqrt(count)
        gradients.append(torch.autograd.grad(value, weights))
    return sum(float((g * h).sum()) for g, h in zip(*gradients, strict=True))


@pytest.mark.parametrize("readout", ["flatten", "gap"])
def test_the_tangent_kernel_of_wide_networks_has_the_recursion_as_its_mean(readout):
    pair = torch.randn(2, 2, 6, 7, generator=generator(), dtype=torch.float64)
    kernel = ConvKernel(depth=2, readout=readout)
    theory = float(kernel_gram(pair[:1], pair[1:], kernel=kernel, dtype=torch.float64))
    width = 128
    draws = torch.tensor([empirical_tangent_kernel(pair, width, readout, seed) for seed in range(40)])
    error = float(draws.std()) / len(draws) ** 0.5
    # three standard errors, and a bias of order 1 / width
    assert abs(float(draws.mean()) - theory) < 3 * error + theory / width
    assert error < 0.1 * theory
