"""Networks that are trained together end where each would end alone."""

import copy

import pytest
import torch
from torch import nn

from firstlight import models
from firstlight._internal.errors import Diverged, InvalidInput
from firstlight._internal.seeds import generator_from
from firstlight.training import Recipe, train, train_together


def examples(n=13, classes=3, shape=(2, 7, 6), dtype=torch.float64):
    generator = generator_from("together", 0)
    x = torch.randn(n, *shape, generator=generator, dtype=dtype)
    return x, torch.randint(classes, (n,), generator=generator)


def networks(count=3, dtype=torch.float64):
    spec = {"classes": 3, "shape": (2, 7, 6), "width": 0.125}
    return [models.build("small", seed=seed, **spec).to(dtype) for seed in range(count)]


def distance(one, other):
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 4, "epochs": 3, "momentum": 0.9, "lr": 0.05},
        {"batch_size": None, "steps": 12, "optimiser": "adam", "lr": 0.01},
        {"batch_size": 5, "epochs": 4, "milestones": (0.5,), "weight_decay": 1e-3, "frozen": ("0",)},
        {"batch_size": 100, "steps": 6, "loss": "mse", "lr": 0.1},
        {"batch_size": 4, "epochs": 30, "stop_below": 0.8, "lr": 0.2},
    ],
)
def test_each_network_ends_where_it_ends_alone(settings):
    recipe = Recipe(seed=5, **settings)
    x, y = examples()
    targets = torch.nn.functional.one_hot(y, 3).double() if recipe.loss == "mse" else y
    alone = networks()
    together = copy.deepcopy(alone)
    expected = [
        train(model, x, targets, Recipe(seed=5 + i, **settings), show=False) for i, model in enumerate(alone)
    ]
    found = train_together(together, x, targets, recipe, show=False)
    for i, history in enumerate(found):
        assert distance(together[i], alone[i]) < 1e-9
        assert torch.allclose(history.loss, expected[i].loss, rtol=1e-9)
        assert torch.equal(history.hits.isnan(), expected[i].hits.isnan())
        assert torch.equal(history.hits.nan_to_num(), expected[i].hits.nan_to_num())
        assert history.stopped_early == expected[i].stopped_early
        assert history.steps_per_epoch == expected[i].steps_per_epoch


def test_in_single_precision_only_rounding_grows():
    x, y = examples(dtype=torch.float32)
    recipe = Recipe(batch_size=4, epochs=5, lr=0.05)
    alone = networks(2, torch.float32)
    start = copy.deepcopy(alone)
    together = copy.deepcopy(alone)
    for i, model in enumerate(alone):
        train(model, x, y, Recipe(batch_size=4, epochs=5, lr=0.05, seed=i), show=False)
    train_together(together, x, y, recipe, show=False)
    for one, other, before in zip(together, alone, start, strict=True):
        assert distance(one, other) < 1e-4
        assert distance(other, before) > 1e-2  # they did learn


def test_one_network_and_one_image():
    x, y = examples(1)
    model = networks(1)
    alone = copy.deepcopy(model[0])
    train(alone, x, y, Recipe(steps=3, batch_size=None), show=False)
    train_together(model, x, y, Recipe(steps=3, batch_size=None), show=False)
    assert distance(model[0], alone) < 1e-12


def test_networks_that_cannot_be_stacked_are_refused():
    x, y = examples()
    recipe = Recipe(steps=1)
    with pytest.raises(InvalidInput, match="at least one network"):
        train_together([], x, y, recipe)
    with pytest.raises(InvalidInput, match="one architecture"):
        train_together([nn.Linear(2, 3), nn.Linear(3, 3)], x, y, recipe)
    for layer in (nn.Dropout(0.5), nn.BatchNorm2d(2)):
        with pytest.raises(InvalidInput, match=type(layer).__name__):
            train_together([nn.Sequential(layer, nn.Flatten(), nn.Linear(84, 3))], x, y, recipe)
    with pytest.raises(InvalidInput, match="`targets` must match"):
        train_together(networks(1), x, y[:2], recipe)


def test_a_network_that_diverges_is_named():
    x, y = examples()
    both = networks(2)
    both[1][0].weight.data.fill_(torch.nan)
    with pytest.raises(Diverged, match="network 1 became nan at step 0"):
        train_together(both, x, y, Recipe(steps=2), show=False)
