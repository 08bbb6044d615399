"""The linear expansion of a network in its weights: what the paper states as exact, in float64."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from firstlight import models
from firstlight.measures.linearized.tangent_kernel import ntk_gram
from firstlight.measures.linearized.tangent_kernel_summary import effective_rank
from reference.linearized import jacobian, linear_outputs

SHAPE = (1, 12, 14)


def images(n, seed):
    return torch.randn(n, *SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def lenet(width, seed=0, *, smooth=False, classes=3):
    model = models.build("lenet", classes=classes, shape=SHAPE, width=width, seed=seed).double()
    if smooth:
        for name, module in list(model.named_children()):
            if isinstance(module, nn.ReLU):
                setattr(model, name, nn.Tanh())
            elif isinstance(module, nn.MaxPool2d):
                setattr(model, name, nn.AvgPool2d(2))
    return model


def direction(model, seed, norm=1.0):
    generator = torch.Generator().manual_seed(seed)
    drawn = {name: torch.randn(p.shape, generator=generator).double() for name, p in model.named_parameters()}
    length = sum(float(u.square().sum()) for u in drawn.values()) ** 0.5
    return {name: norm / length * u for name, u in drawn.items()}


@pytest.mark.parametrize("width", [0.25, 0.5, 1])
def test_without_displacement_it_is_the_network_and_its_derivative_is_the_jacobian(width):
    model, x = lenet(width), images(3, 1)
    line = models.linearize(model)
    assert torch.equal(line(x), model(x))
    u = direction(model, 2)
    line.displace(u)
    assert torch.allclose(line(x), linear_outputs(model, x, u), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_gradient_of_the_summed_squares_is_the_sum_over_outputs(seed):
    model, x = lenet(0.25, seed), images(4, seed)
    y = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    line = models.linearize(model)
    line.displace(direction(model, seed))
    outputs = line(x)
    (outputs - y).square().sum().backward()
    found = torch.cat([u.grad.flatten() for u in line.parameters()])
    rows = jacobian(model, x).unflatten(0, (4, 3))
    explicit = 2 * sum(rows[:, output].T @ (outputs - y).detach()[:, output] for output in range(3))
    assert float((found - explicit).norm() / explicit.norm()) < 1e-13


def test_tangent_kernel_is_the_gram_matrix_of_gradients_symmetric_and_positive():
    model, x = lenet(0.5), images(9, 3)
    gram, rows = ntk_gram(model, x, outputs="full"), jacobian(model, x)
    assert float((gram - rows @ rows.T).abs().max() / gram.abs().max()) < 1e-12
    assert torch.equal(gram, gram.T)
    values = torch.linalg.eigvalsh(gram)
    assert float(values[0]) > -1e-12 * float(values[-1])


def test_rank_is_at_most_the_number_of_weights_and_of_rows():
    model = lenet(1 / 8)
    for n in (2, 120):
        values = torch.linalg.svdvals(jacobian(model, images(n, 4)))
        rank = int((values > 1e-11 * values[0]).sum())
        assert rank <= min(models.parameter_count(model), 3 * n)


def test_error_of_the_expansion_is_of_second_order_in_the_step():
    model, x = lenet(0.25, smooth=True), images(3, 5)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    v = direction(model, 6, norm=float(torch.cat([p.flatten() for p in start.values()]).norm()))
    line, ratios = models.linearize(model), []
    for s in (1e-2, 1e-3, 1e-4):
        line.displace({name: s * part for name, part in v.items()})
        exact = functional_call(model, {name: start[name] + s * v[name] for name in start}, x)
        ratios.append((exact - line(x)).norm().item() / s**2)
    assert max(ratios) < 1.2 * min(ratios)


def test_effective_rank_counts_equal_values():
    for n in (1, 7, 50):
        assert effective_rank(torch.ones(n, dtype=torch.float64)) == pytest.approx(n, abs=1e-9)
    one = torch.tensor([3.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    assert effective_rank(one) == pytest.approx(1.0, abs=1e-9)
