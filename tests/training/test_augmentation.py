"""Flips, shifts, schedules and layouts: each beside its plain definition."""

import math

import pytest
import torch
from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from
from firstlight.training import Recipe, train
from firstlight.training.loop import augmented


def _reflected(row, index):
    """Pixel `index` of a row that is reflected at its ends."""
    last = len(row) - 1
    index = abs(index)
    return row[last - (index - last) if index > last else index]


def test_a_view_is_each_image_mirrored_or_not_and_moved_by_one_displacement():
    images = torch.rand(6, 2, 5, 7, generator=generator_from("images", 0))
    for step in range(8):
        views = augmented(images, flips=True, shifts=2, seed=3, step=step)
        generator = generator_from("augmentation", 3, step)
        mirrored = torch.rand(6, generator=generator) < 0.5
        down, right = (torch.randint(0, 5, (2,), generator=generator) - 2).tolist()
        for n in range(6):
            for c in range(2):
                plane = images[n, c].flip(1) if mirrored[n] else images[n, c]
                for i in range(5):
                    for j in range(7):
                        columns = [_reflected(row, j + right) for row in plane.tolist()]
                        assert views[n, c, i, j] == _reflected(columns, i + down)


def test_views_depend_on_seed_and_step_alone_and_every_displacement_comes():
    image = torch.arange(25.0).reshape(1, 1, 5, 5)
    views = [augmented(image, flips=False, shifts=1, seed=0, step=step) for step in range(200)]
    assert torch.equal(views[7], augmented(image, flips=False, shifts=1, seed=0, step=7))
    assert len({view[0, 0, 2, 2].item() for view in views}) == 9
    assert augmented(image, flips=False, shifts=0, seed=0, step=0) is image


def test_images_no_longer_than_the_shift_are_refused():
    with pytest.raises(InvalidInput, match="shifts=2"):
        augmented(torch.zeros(1, 1, 2, 9), flips=True, shifts=2, seed=0, step=0)


def test_one_cycle_rises_linearly_and_ends_at_zero_along_half_a_cosine():
    recipe = Recipe(lr=0.4, epochs=1, schedule="one_cycle", warmup=0.25)
    rates = [recipe.rate(step=step, total=1000) for step in range(1000)]
    assert rates[:250] == pytest.approx([0.4 * (s + 0.5) / 250 for s in range(250)])
    assert rates[250:] == pytest.approx([0.2 * (1 + math.cos(math.pi * (s + 0.5) / 750)) for s in range(750)])
    assert 0 < rates[-1] < 1e-6


def test_cosine_starts_at_the_rate_and_ends_at_zero():
    recipe = Recipe(lr=0.4, epochs=1, schedule="cosine")
    assert [recipe.rate(step=step, total=2) for step in range(2)] == pytest.approx(
        [0.2 * (1 + math.cos(math.pi * (step + 0.5) / 2)) for step in range(2)]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "triangle"}, "triangle"),
        ({"nesterov": True}, "momentum"),
        ({"schedule": "cosine", "milestones": (0.5,)}, "milestones"),
        ({"warmup": 0.0}, "warmup"),
        ({"label_smoothing": 1.0}, "label_smoothing"),
        ({"label_smoothing": 0.1, "loss": "mse"}, "label_smoothing"),
        ({"shifts": -1}, "shifts"),
    ],
)
def test_recipes_that_contradict_themselves_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        Recipe(epochs=1, **options)


def _network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)
    )


def test_a_plain_loop_of_torch_gives_the_same_weights():
    """Nesterov momentum, decay of matrices only, smoothed labels and the one-cycle rate, written by hand."""
    images = torch.rand(24, 3, 6, 6, generator=generator_from("images", 1))
    labels = torch.arange(24) % 3
    recipe = Recipe(
        lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01, decay_vectors=False, batch_size=None, steps=6,
        schedule="one_cycle", label_smoothing=0.1, flips=True, shifts=1,
    )  # fmt: skip
    ours, plain = _network().double(), _network().double()
    train(ours, images.double(), labels, recipe, show=False)
    optimiser = torch.optim.SGD(
        [
            {"params": [p for p in plain.parameters() if p.ndim > 1], "weight_decay": 0.01},
            {"params": [p for p in plain.parameters() if p.ndim == 1]},
        ],
        lr=0.05, momentum=0.9, nesterov=True,
    )  # fmt: skip
    for step in range(6):
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate(step=step, total=6)
        optimiser.zero_grad()
        views = augmented(images.double(), flips=True, shifts=1, seed=0, step=step)
        nn.functional.cross_entropy(plain(views), labels, label_smoothing=0.1).backward()
        optimiser.step()
    for own, expected in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-12, atol=1e-14)


def test_channels_last_trains_the_same_network_and_gives_the_layout_back():
    images = torch.rand(24, 3, 6, 6, generator=generator_from("images", 1)).double()
    labels = torch.arange(24) % 3
    weights = []
    for last in (False, True):
        model = _network().double()
        train(model, images, labels, Recipe(lr=0.05, steps=5, batch_size=8, channels_last=last), show=False)
        assert model[0].weight.is_contiguous()
        weights.append(model[0].weight.detach().clone())
    torch.testing.assert_close(*weights, rtol=1e-9, atol=1e-12)


def test_a_stretch_of_a_training_is_its_beginning():
    images = torch.rand(24, 3, 6, 6, generator=generator_from("images", 1))
    labels = torch.arange(24) % 3
    recipe = Recipe(lr=0.05, steps=8, batch_size=8, schedule="one_cycle")
    whole = train(_network(), images, labels, recipe, show=False)
    stretch = train(_network(), images, labels, recipe, at_most=3, show=False)
    assert torch.equal(stretch.loss, whole.loss[:3])
