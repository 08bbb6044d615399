"""The meta device knows shapes and no values, and refuses CPU tensors in sums: passes stay on one device."""

import pytest
import torch

from firstlight.models import available, build
from firstlight.training import Recipe
from firstlight.training.recipe import OPTIMISERS

SIZES = {"alexnet": 224, "resnet18": 64, "resnet50": 64}


def test_meta_tensors_refuse_the_cpu():
    """In sums, losses and normalisations; products and convolutions let it pass, which is why there is `second`."""
    with pytest.raises(RuntimeError, match="not on the expected device"):
        torch.ones(2, device="meta") + torch.ones(2)


@pytest.mark.parametrize("name", available())
def test_a_step_of_every_architecture_stays_on_its_device(name):
    side = SIZES.get(name, 32)
    classes = 1 if name in ("linear_cnn", "two_layer_relu") else 10
    model = build(name, classes=classes, shape=(3, side, side), device="meta").train()
    x = torch.empty(2, 3, side, side, device="meta")
    recipe = Recipe(steps=1)
    outputs = model(x)
    loss = (
        outputs.square().sum()
        if outputs.ndim > 2
        else recipe.loss_of(outputs, torch.zeros(2, dtype=torch.int64, device="meta"))
    )
    loss.backward()
    recipe.build_optimiser(model).step()
    assert all(p.grad is not None and p.grad.is_meta for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("optimiser", list(OPTIMISERS))
def test_every_optimiser_keeps_its_state_there(optimiser):
    model = build("fcn", classes=2, shape=(1, 4, 4), units=3, device="meta")
    rule = Recipe(optimiser=optimiser, steps=1).build_optimiser(model)
    model(torch.empty(3, 1, 4, 4, device="meta")).sum().backward()
    rule.step()
    kept = [
        v
        for state in rule.state.values()
        for k, v in state.items()
        if isinstance(v, torch.Tensor) and k != "step"
    ]
    assert all(value.is_meta for value in kept)
