"""Images as the paper takes them."""

import pytest
import torch

from reproduce.studies.linearized.pairs import Task, parts_of

SMALL = Task(data="photos", n=40, n_valid=16, n_test=24)


def test_training_and_validation_images_are_disjoint_and_as_many_as_asked():
    train, valid, test = parts_of(SMALL, seed=0)
    assert [len(p.x) for p in (train, valid, test)] == [40, 16, 24]
    distances = torch.cdist(train.x.flatten(1), valid.x.flatten(1))
    assert float(distances.min()) > 0


def test_training_pixels_are_standardised_by_channel():
    train, _, _ = parts_of(SMALL, seed=0)
    assert torch.allclose(train.x.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(train.x.std((0, 2, 3)), torch.ones(3), atol=1e-3)


def test_binary_targets_are_one_for_the_first_class_and_scored_at_one_half():
    task = Task(data="photos", n=40, n_valid=16, n_test=24, binary=True)
    train, _, _ = parts_of(task, seed=0)
    assert train.targets.shape == (40, 1)
    zeros = int(train.y.sum())
    assert 1 <= zeros <= 7  # one of eight classes, equally frequent in training and validation together
    assert train.accuracy(train.targets) == 1.0
    assert train.accuracy(torch.full_like(train.targets, 0.49)) == train.majority == 1 - zeros / 40
    assert train.error(torch.zeros_like(train.targets)) == pytest.approx(zeros / 40)


def test_shifts_differ_between_the_splits_and_between_seeds_but_not_between_calls():
    task = Task(data="photos", n=40, n_valid=16, n_test=24, shift=7)
    once, again, other = (parts_of(task, seed=s)[0].x for s in (0, 0, 1))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    assert not torch.equal(once, parts_of(SMALL, seed=0)[0].x)


def test_images_can_be_enlarged():
    task = Task(data="photos", n=8, n_valid=8, n_test=8, side=64)
    assert parts_of(task, seed=0)[2].x.shape == (8, 3, 64, 64)
