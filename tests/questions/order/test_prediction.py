"""What is said before any training can be checked afterwards."""

import pytest
import torch

from firstlight.data import load
from firstlight.data.images import ImageData
from firstlight.maths import ranks
from firstlight.measures.learning_order.discriminability import discriminability
from firstlight.questions.order.prediction import (
    hardness,
    known_hardness,
    mean_margin,
    order_skill,
    predicted_lateness,
)


def two_clouds(noise, n=400, wrong=0.0):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    x = (2.0 * y - 1)[:, None, None, None] + noise * torch.randn(n, 1, 3, 3, generator=generator)
    flipped = torch.rand(n, generator=generator) < wrong
    return ImageData(x, torch.where(flipped, 1 - y, y), ("a", "b"))


def test_hardness_is_0_for_classes_apart_1_for_pixels_that_tell_nothing_and_rises_with_wrong_labels():
    easy, hard = hardness(two_clouds(0.05)), hardness(two_clouds(1e4))
    assert easy.value.value == 0
    assert hard.value.low < 1 < hard.value.high
    values = [hardness(two_clouds(0.5, wrong=share)).value.value for share in (0, 0.1, 0.4)]
    assert values == sorted(values)
    # with a share p of flipped labels, neighbours disagree with probability 2p(1 - p), of 1/2 for random ones
    assert values[2] == pytest.approx(4 * 0.4 * 0.6, abs=0.08)


def test_hardness_equals_its_definition():
    data = two_clouds(1.5, n=60)
    points = data.x.flatten(1)
    shares = []
    for i in range(60):
        near = [j for j in (points - points[i]).norm(dim=1).argsort().tolist() if j != i][:10]
        shares.append(sum(int(data.y[j] != data.y[i]) for j in near) / 10)
    random = sum(int(a != b) for i, a in enumerate(data.y) for j, b in enumerate(data.y) if i != j) / (
        60 * 59
    )
    assert hardness(data).value.value == pytest.approx(sum(shares) / 60 / random)


def test_the_known_values_are_those_of_the_data_that_come_along_with_their_order():
    values = {one.name: one.value.value for one in known_hardness()}
    assert values["mnist"] < values["fashion_mnist"] < values["cifar10"]
    for name in ("mnist", "fashion_mnist", "cifar10"):
        noisy = [values[name], *(values[f"{name}, {share}% wrong labels"] for share in (10, 40))]
        assert noisy == sorted(noisy)


def test_lateness_is_the_mean_rank_of_three_scores_that_know_no_order():
    photos = load("photos", n=40)
    late = predicted_lateness(photos)
    assert 0 <= float(late.min()) < float(late.max()) <= 1
    strangers = ranks(1 - discriminability(photos.x, photos.y, k=10))
    margin = ranks(-mean_margin(photos))
    component = 3 * (late * 39 + 1) - strangers - margin  # what is left is a rank too
    assert 1 <= float(component.min()) <= float(component.max()) <= 40


def test_the_skill_is_high_where_the_order_follows_the_scores_and_nothing_for_a_random_order():
    data = two_clouds(2.0)
    followed = order_skill(-predicted_lateness(data), data)
    assert followed.rank.value == pytest.approx(1)
    random = order_skill(torch.rand(len(data), generator=torch.Generator().manual_seed(1)), data)
    assert random.rank.low < random.chance
    assert order_skill(torch.ones(len(data)), data) is None
