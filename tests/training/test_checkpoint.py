"""Checkpoints give back not only the numbers but the memory layout that decides their last bits."""

import random

import pytest
import torch
from torch import nn

from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight._internal.executor import map_tasks
from firstlight._internal.seeds import global_seed
from firstlight.data.images import ImageData
from firstlight.training import Recipe, train_on
from firstlight.training.checkpoint import (
    load_checkpoint,
    optimiser_state,
    restore_optimiser,
    save_checkpoint,
)


def network():
    """A convolution in channels-last order and a transposed linear layer."""
    with global_seed("weights", 0):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    model = model.to(memory_format=torch.channels_last)
    model[3].weight = nn.Parameter(torch.randn(144, 3, generator=torch.Generator().manual_seed(1)).T)
    return model


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_momenta_are_read_back_in_the_layout_of_their_weights(optimiser, tmp_path):
    def made(model):
        kinds = {"sgd": {"lr": 0.1, "momentum": 0.9}, "adam": {"lr": 0.1}}
        return {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimiser](
            model.parameters(), **kinds[optimiser]
        )

    model = network()
    first = made(model)
    model(torch.ones(2, 3, 8, 8)).sum().backward()
    first.step()
    save_checkpoint(tmp_path / "state", {"optimiser": optimiser_state(first)})
    again = made(model)
    restore_optimiser(again, load_checkpoint(tmp_path / "state")["optimiser"])
    for weight in model.parameters():
        for name, value in first.state[weight].items():
            assert torch.equal(again.state[weight][name], value)
            assert again.state[weight][name].stride() == value.stride(), name
            assert again.state[weight][name].data_ptr() % 64 == 0


def images():
    x = torch.rand(31, 8, 8, 3, generator=torch.Generator().manual_seed(2)).permute(0, 3, 1, 2)
    return ImageData(x, torch.arange(31) % 3, ("a", "b", "c"))


def test_images_in_any_layout_train_to_the_same_bits_in_a_process_and_here():
    """What is sent to a process comes row by row and at any address; full batches are used as they lie."""

    def final_loss(task):
        data, seed = task
        model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
        with global_seed("weights", seed):
            model[1].reset_parameters()
        return train_on(model, data, Recipe(steps=20, batch_size=None, lr=0.1), show=False).loss

    tasks = [(images(), 0), (images(), 1)]
    here = map_tasks(final_loss, tasks, label="here", n_jobs=1, show=False)
    there = map_tasks(final_loss, tasks, label="there", n_jobs=2, show=False)
    for one, other in zip(here, there, strict=True):
        assert torch.equal(one, other)
    assert images().x.is_contiguous()


def test_a_checkpoint_may_hold_one_weight_under_two_names(tmp_path):
    weight = torch.arange(6.0).reshape(2, 3)
    save_checkpoint(tmp_path / "state", {"model": {"a": weight, "tied": weight}})
    read = load_checkpoint(tmp_path / "state")["model"]
    assert torch.equal(read["a"], weight)
    assert torch.equal(read["tied"], weight)


def flip(path, rng):
    raw = bytearray(path.read_bytes())
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    path.write_bytes(raw)


def test_a_flipped_bit_is_noticed_and_the_checkpoint_before_is_used(tmp_path):
    path, rng = tmp_path / "state", random.Random(0)
    for step in (1, 2):
        save_checkpoint(path, {"step": step, "weight": torch.full((3,), float(step))})
    intact = path.read_bytes()
    for _ in range(40):
        flip(path, rng)
        assert load_checkpoint(path)["step"] == 1
        path.write_bytes(intact)
    assert load_checkpoint(path)["step"] == 2
    path.unlink()  # killed between two renames
    assert load_checkpoint(path)["step"] == 1


def test_two_damaged_checkpoints_are_told_in_one_line(tmp_path):
    for step in (1, 2):
        save_checkpoint(tmp_path / "state", {"step": step})
    for file in tmp_path.iterdir():
        flip(file, random.Random(0))
    with pytest.raises(StoreProblem, match="Remove it to train from the start") as caught:
        load_checkpoint(tmp_path / "state")
    assert "\n" not in str(caught.value)


class Stopped(Exception):
    """Ends a training from within."""


class StopAt:
    """An observer that ends the training at a step."""

    def __init__(self, step):
        self.step = step

    def __call__(self, step, model):
        if step == self.step:
            raise Stopped


def trained(tmp_path, recipe, *observers):
    with global_seed("weights", 0):
        model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    checkpoint = tmp_path / "checkpoint"
    train_on(
        model,
        images(),
        recipe,
        checkpoint=checkpoint,
        checkpoint_seconds=0.0,
        observers=observers,
        show=False,
    )
    return model[1].weight.detach()


def test_a_training_with_a_damaged_checkpoint_ends_with_the_same_bits(tmp_path):
    recipe = Recipe(steps=12, batch_size=8, lr=0.1, momentum=0.9)
    whole = trained(tmp_path / "whole", recipe)
    with pytest.raises(Stopped):
        trained(tmp_path, recipe, StopAt(9))
    flip(tmp_path / "checkpoint", random.Random(1))
    assert torch.equal(trained(tmp_path, recipe), whole)


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    with pytest.raises(Stopped):
        trained(tmp_path, Recipe(steps=12, batch_size=8, lr=0.1), StopAt(9))
    with pytest.raises(InvalidInput, match="belongs to another training"):
        trained(tmp_path, Recipe(steps=12, batch_size=8, lr=0.2))
