"""One pass over the weights gives the training that the plain optimiser gives."""

import pytest
import torch

from firstlight import models
from firstlight.training import Recipe, train


@pytest.mark.parametrize(
    ("optimiser", "momentum"), [("sgd", 0.0), ("sgd", 0.9), ("adam", 0.0), ("adagrad", 0.0), ("rmsprop", 0.0)]
)
def test_fused_training_equals_plain_training_to_rounding(optimiser, momentum):
    x = torch.randn(2, 1, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    recipe = Recipe(optimiser=optimiser, lr=1e-2, momentum=momentum, loss="mse", batch_size=None, steps=40)
    ends = []
    for fused in (False, True):
        model = models.build("identity_cnn", shape=(1, 5, 4), depth=3, channels=4, kernel=3).double()
        train(model, x, x, recipe, show=False, fused=fused)
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.allclose(*ends, atol=1e-9)
    assert (ends[0] != 0).any()
