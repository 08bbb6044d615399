"""The frequency task equals its definition, point by point."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference import learning_order as reference
from reproduce.studies.learning_order.common import (
    critical_frequency,
    frequency_data,
    frequency_points,
    partial_sums,
)


def naive_curve(z):
    phases = [0, 3.46, 5.08, 0.45, 2.10, 1.4, 5.36, 0.85, 5.9, 5.16]
    return [sum(math.sin(2 * math.pi * i * z + phases[i]) for i in range(k + 1)) for k in range(10)]


@given(st.floats(-1, 1))
def test_partial_sums_equal_the_definition(z):
    points = torch.tensor([z], dtype=torch.float64)
    assert partial_sums(points)[0].tolist() == pytest.approx(naive_curve(z), abs=1e-12)


def test_the_first_partial_sum_is_identically_zero():
    assert torch.equal(partial_sums(torch.linspace(-1, 1, 50))[:, 0], torch.zeros(50, dtype=torch.float64))


def test_labels_say_below_the_curve_and_points_fill_the_rectangle():
    points, labels = frequency_points(10_000, seed=0)
    for (z, v), label in list(zip(points.tolist(), labels.tolist(), strict=True))[:500]:
        assert label == int(v <= naive_curve(z)[-1])
    assert points.abs().amax(0).tolist() == pytest.approx([1.0, 2 * math.pi], rel=1e-3)
    # uniform: standard error of the mean of z is 1/sqrt(3 * 10 000)
    assert abs(float(points[:, 0].mean())) < 4 / math.sqrt(30_000)
    assert 0.3 < float(labels.double().mean()) < 0.7


def test_frequency_images_hold_the_points():
    points, labels = frequency_points(20, seed=4)
    data = frequency_data(20, seed=4)
    assert data.shape == (2, 1, 1)
    assert torch.equal(data.x.flatten(1), points)
    assert torch.equal(data.y, labels)
    assert data.classes[1] == "below"


def test_critical_frequency_equals_its_definition():
    points, _ = frequency_points(200, seed=0)
    expected = [reference.critical_frequency(float(z), float(v)) for z, v in points.double()]
    assert critical_frequency(points).tolist() == expected
