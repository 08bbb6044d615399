"""PCBias, appendix B.2: the two-layer ReLU model is trained for real and compared with theory."""

import pytest
import torch

from firstlight import models
from firstlight._internal.errors import InvalidInput
from firstlight.training import Recipe, train
from reproduce.studies.learning_order import deep_linear as dl
from reproduce.studies.learning_order import two_layer_relu as theory


def model_of(units=8, seed=0, paired=True):
    return models.build("two_layer_relu", classes=1, shape=(5, 1, 1), units=units, paired=paired, seed=seed)


def symmetric_points(n=40, seed=2, *, odd):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=generator, dtype=torch.float64) * torch.tensor([3.0, 2, 1, 0.5, 0.2])
    y = torch.randint(2, (n,), generator=generator).double() * 2 - 1
    other = -y if odd else torch.randint(2, (n,), generator=generator).double() * 2 - 1
    return torch.cat([x, -x]), torch.cat([y, other])


def test_a_paired_network_is_a_linear_map(float64):
    model = model_of()
    x, _ = symmetric_points(odd=False)
    v = theory.linear_map(model.readout, model.hidden.weight.detach())
    torch.testing.assert_close(model(x[:, :, None, None])[:, 0].detach(), x @ v, rtol=0, atol=1e-12)


def test_unpaired_weights_are_refused(float64):
    model = model_of(paired=False)
    with pytest.raises(InvalidInput, match="paired"):
        theory.linear_map(model.readout, model.hidden.weight.detach())


@pytest.mark.parametrize("closed_form", [theory.exact_step, theory.first_step])
def test_the_first_step_equals_autograd_on_symmetric_data(closed_form, float64):
    model = model_of()
    x, y = symmetric_points(odd=False)
    loss = 0.5 * (model(x[:, :, None, None])[:, 0] - y).square().sum()
    loss.backward()
    found = closed_form(model.readout, model.hidden.weight.detach(), x, y, rate=1.0)
    torch.testing.assert_close(found, -model.hidden.weight.grad, rtol=0, atol=1e-10)


def test_the_printed_constant_is_wrong(float64):
    model = model_of()
    x, y = symmetric_points(odd=False)
    w, a = model.hidden.weight.detach(), model.readout
    right = theory.first_step(a, w, x, y, rate=1.0)
    printed = right - torch.outer(a, a) @ w @ (x.T @ x) / 4
    assert (printed - theory.exact_step(a, w, x, y, rate=1.0)).abs().max() > 0.1


def test_on_odd_data_the_trained_network_stays_the_predicted_linear_map(float64):
    x, y = symmetric_points(odd=True)
    moments = dl.principal_moments(x, y[:, None])
    for steps in (1, 20, 200):
        model = model_of(units=16)
        a = model.readout
        start = theory.linear_map(a, model.hidden.weight.detach()) @ moments.basis
        rate = 2.0 / float(moments.values[0]) / float(a.square().sum())
        # the loop's loss averages over samples, the theory's is half the sum
        recipe = Recipe(lr=rate * len(x) / 2, steps=steps, batch_size=None, loss="mse")
        train(model, x[:, :, None, None], y[:, None], recipe, show=False)
        # on odd data v <- v - μ|a|²/4 (v Σ_XX - yᵀX): a one-layer linear network with a quarter of the rate
        effective = rate * float(a.square().sum()) / 4
        expected = dl.columns_at(start[None], moments, rate=effective, steps=steps)[0] @ moments.basis.T
        outputs = model(x[:, :, None, None])[:, 0].detach()
        torch.testing.assert_close(outputs, x @ expected, rtol=0, atol=1e-10)
