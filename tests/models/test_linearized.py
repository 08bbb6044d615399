"""The linearised network is f(w0) + J u, whatever the network is made of, or it is refused by name."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, jacrev
from torch.nn import functional

from firstlight import models, training
from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import global_seed
from reference import linearized as reference
from reference.drawn_networks import Residual, Twice, networks_and_images


def drawn_displacement(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(p.shape, generator=generator, dtype=torch.float64)
        for name, p in model.named_parameters()
        if p.requires_grad
    }


@given(drawn=networks_and_images(), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_outputs_and_gradients_equal_the_definition(drawn, seed):
    model, x = drawn
    u = drawn_displacement(model, seed)
    line = models.linearize(model)
    assert torch.equal(line(x), copy.deepcopy(model).eval()(x))
    line.displace(u)
    found = line(x)
    expected = reference.linear_outputs(model, x, u)
    assert torch.allclose(found, expected, rtol=1e-10, atol=1e-10)
    rows = torch.randn(found.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    (found * rows).sum().backward()
    pulled = line.pullback(rows, x)
    for name, part in reference.jacobian_by_name(model, x).items():
        gradient = torch.einsum("nk,nk...->...", rows.flatten(1), part)
        assert torch.allclose(line.displacement.get_parameter(name).grad, gradient, rtol=1e-9, atol=1e-10)
        assert torch.allclose(pulled[name], gradient, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("build", [Twice, Residual])
def test_the_derivative_equals_that_of_torch_func(build):
    with global_seed("test", 0):
        model = build(2, 3).double().eval()
    x = torch.randn(3, 2, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    weights = {name: p.detach() for name, p in model.named_parameters()}
    buffers = dict(model.named_buffers())
    expected = jacrev(lambda w: functional_call(model, {**w, **buffers}, (x,)))(weights)
    line = models.linearize(model)
    names = [name for name, _ in line.displacement.named_parameters()]
    held = {name: value for name, value in line.state_dict().items() if not name.startswith("displacement")}

    def outputs(u):
        own = {f"displacement.{name}": value for name, value in u.items()}
        return functional_call(line, {**held, **own}, (x,))

    line(x)
    zero = {name: torch.zeros_like(weights[name]) for name in names}
    found = torch.autograd.functional.jacobian(
        lambda *parts: outputs(dict(zip(names, parts, strict=True))), tuple(zero.values())
    )
    for name, part in zip(names, found, strict=True):
        assert torch.allclose(part, expected[name], rtol=1e-12, atol=1e-13)


def test_a_linear_model_equals_its_own_linearisation():
    model = models.build("linear_cnn", classes=1, shape=(3, 7, 6), filters=4).double()
    x = torch.randn(5, 3, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    line, u = models.linearize(model), drawn_displacement(model)
    line.displace(u)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p += u[name]
    assert torch.allclose(line(x), model(x), rtol=1e-13, atol=1e-13)
    recipe = training.Recipe(lr=0.05, momentum=0.9, loss="mse_sum", batch_size=2, epochs=4, seed=3)
    y = torch.randn(5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    histories = [training.train(m, x, y, recipe, show=False).loss for m in (line, model)]
    assert torch.allclose(*histories, rtol=1e-11)
    assert torch.allclose(line(x), model(x), rtol=1e-11, atol=1e-12)


def test_the_ordinary_loop_takes_the_gradient_step_of_the_definition():
    with global_seed("test", 0):
        model = Residual(1, 2).double()
    x = torch.randn(4, 1, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    y = torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    line = models.linearize(model)
    recipe = training.Recipe(lr=0.01, loss="mse_sum", batch_size=None, steps=3)
    history = training.train(line, x, y, recipe, show=False)
    matrix, u, losses = reference.jacobian(model, x), torch.zeros(0), []
    start = line.start_outputs(x).flatten()
    u = torch.zeros(matrix.shape[1], dtype=torch.float64)
    for _ in range(3):
        residual = start + matrix @ u - y.flatten()
        losses.append(residual.square().sum() / 4)
        u = u - 0.01 * 2 / 4 * matrix.T @ residual
    assert torch.allclose(history.loss, torch.stack(losses), rtol=1e-11)
    found = torch.cat([p.detach().flatten() for p in line.parameters()])
    assert torch.allclose(found, u, rtol=1e-9, atol=1e-12)


def test_training_leaves_start_and_statistics_and_the_original_alone():
    with global_seed("test", 0):
        model = Residual(1, 2)
    model.norm.running_mean.fill_(0.3)
    before = copy.deepcopy(model.state_dict())
    line = models.linearize(model)
    held = {name: value.clone() for name, value in line.start.named_buffers()}
    x, y = torch.rand(6, 1, 6, 5), torch.arange(6) % 2
    line.train()
    assert torch.equal(line(x), line.eval()(x))
    recipe = training.Recipe(lr=0.1, batch_size=3, epochs=2)
    training.train(line, x, y, recipe, show=False)
    assert all(torch.equal(value, held[name]) for name, value in line.start.named_buffers())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    outputs = line.start_outputs(x)
    with torch.no_grad():
        model.head.weight.fill_(7.0)
    assert torch.equal(line.start_outputs(x), outputs)


def test_frozen_weights_are_not_displaced_and_weights_come_back_displaced():
    model = models.build("lenet", shape=(1, 12, 12), width=0.5).double()
    model.conv1.requires_grad_(False)
    line = models.linearize(model)
    names = [name for name, _ in line.displacement.named_parameters()]
    assert not any(name.startswith("conv1") for name in names)
    assert models.parameter_count(line) == sum(p.numel() for p in model.parameters() if p.requires_grad)
    line.displace({"fc3.bias": torch.ones(10)})
    assert torch.equal(line.weights()["fc3.bias"], model.fc3.bias.detach() + 1)


def test_precision_and_state_dict_travel_like_those_of_any_module():
    model = models.build("small", shape=(1, 8, 8))
    line = models.linearize(model).double()
    x = torch.rand(2, 1, 8, 8, dtype=torch.float64)
    assert line(x).dtype == torch.float64
    line.displace({name: torch.randn_like(u) for name, u in line.displacement.named_parameters()})
    other = models.linearize(models.build("small", shape=(1, 8, 8), seed=5)).double()
    other.load_state_dict(line.state_dict())
    assert torch.equal(other(x), line(x))


def test_gradients_reach_the_inputs_too():
    model = models.build("small", shape=(1, 8, 8)).double()
    line = models.linearize(model)
    x = torch.rand(2, 1, 8, 8, dtype=torch.float64, requires_grad=True)
    (mine,) = torch.autograd.grad(line(x).sum(), x)
    (theirs,) = torch.autograd.grad(model.eval()(x).sum(), x)
    assert torch.allclose(mine, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", models.available())
def test_every_known_architecture_is_linearised(name):
    options = {"width": 0.0625} if isinstance(models.options(name).get("width"), float | int) else {}
    if models.options(name).get("width", 1) != 1:
        options = {"width": 8}
    shape = (1, 63, 63) if name == "alexnet" else (1, 32, 32)
    classes = 1 if name in ("linear_cnn", "two_layer_relu") else 3
    model = models.build(name, classes=classes, shape=shape, **options).eval()
    x = torch.rand(2, *shape)
    line = models.linearize(model)
    found = line(x)
    assert torch.equal(found, model(x))
    found.sum().backward()
    assert all(u.grad is not None and u.grad.isfinite().all() for u in line.parameters())


def test_dropout_in_training_mode_is_refused_by_name_and_passes_in_evaluation_mode():
    model = models.build("st_vgg", classes=3)
    with pytest.raises(InvalidInput, match=r"layer '5' drops units at random"):
        models.linearize(model)
    assert models.linearize(model.eval())(torch.rand(1, 3, 32, 32)).shape == (1, 3)


class Around(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.conv, self.function = nn.Conv2d(1, 2, 3), function

    def forward(self, x):
        return self.function(self.conv(x))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def without_gradient(y):
    with torch.no_grad():
        half = y * 0.5
    return half + y


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda y: torch.cdist(y, y), "_cdist_forward"),
        (Doubled.apply, "none: Doubled"),
        (lambda y: y + torch.randn_like(y), "same answer twice"),
        (functional.dropout, "same answer twice"),
        (without_gradient, "forwards and backwards give different"),
        (lambda y: torch.ones(len(y), 2), "must depend on the trainable weights"),
        (lambda y: {"scores": y}, "returns a dict"),
    ],
)
def test_what_has_no_one_derivative_is_refused_with_the_reason(function, words):
    for seed in range(20):  # the check draws a direction, which must not miss by chance
        torch.manual_seed(seed)
        with pytest.raises(InvalidInput, match=words):
            models.linearize(Around(function))(torch.rand(3, 1, 6, 6))


def test_errors_of_the_model_itself_pass_through():
    with pytest.raises(RuntimeError, match="channels"):
        models.linearize(Around(torch.relu))(torch.rand(3, 4, 6, 6))


def test_bad_models_and_starts_are_refused():
    model = models.build("lenet", shape=(1, 12, 12))
    broken = models.build("lenet", shape=(1, 12, 12))
    broken.fc3.bias.data.fill_(torch.nan)
    with pytest.raises(InvalidInput, match=r"'fc3.bias' holds NaN"):
        models.linearize(broken)
    with pytest.raises(InvalidInput, match="linear in its weights already"):
        models.linearize(models.linearize(model))
    with pytest.raises(InvalidInput, match="must hold trainable weights"):
        models.linearize(model.requires_grad_(False))
    with pytest.raises(InvalidInput, match="layer '1' normalises by the statistics of the batch"):
        models.linearize(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, track_running_stats=False)))
    with pytest.raises(InvalidInput, match="layer '0' must have its weights"):
        models.linearize(nn.Sequential(nn.LazyLinear(2)))
    with pytest.raises(InvalidInput, match="Unknown weight 'fc9'"):
        models.linearize(models.build("lenet", shape=(1, 12, 12))).displace({"fc9": torch.zeros(1)})
