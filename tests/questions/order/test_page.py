"""What the page of the learning order says about the first and the last images."""

import torch

from firstlight.data.images import ShownImages
from firstlight.maths.correlation import Interval
from firstlight.questions.order.page import _typical, hardness_sentence, skill_sentence
from firstlight.questions.order.prediction import Hardness, OrderSkill


def shown(*labels):
    n = len(labels)
    return ShownImages(
        index=torch.arange(n),
        images=torch.zeros(n, 1, 2, 2),
        labels=labels,
        position=torch.arange(n),
        files=(),
    )


def test_no_class_is_learned_both_first_and_last():
    first, last = shown("frog", "frog", "frog", "cat"), shown("frog", "frog", "dog", "dog")
    assert _typical(first, last) == "frog and cat"
    assert _typical(last, first) == "dog"
    assert _typical(first, first) == "no class"


def skill(low, high):
    return OrderSkill(rank=Interval(value=(low + high) / 2, low=low, high=high), chance=0.1, n_images=400)


def hard(value=0.5, n=2000):
    interval = Interval(value=value, low=value - 0.01, high=value + 0.01)
    return Hardness(name="mine", value=interval, n_images=n, n_classes=10)


def test_late_images_are_predicted_before_training_only_beyond_chance():
    assert skill_sentence(skill(0.05, 0.2)).startswith("Late images cannot be predicted")
    assert skill_sentence(skill(0.2, 0.3)).startswith("Late images can be predicted in part before training")
    assert "predicted well before training (rank correlation" in skill_sentence(skill(0.6, 0.7))
    assert "cannot be told" in skill_sentence(None)


def test_hardness_stands_between_known_data_sets():
    between = hardness_sentence(hard(value=0.6))
    assert "harder than fashion_mnist, 10% wrong labels and easier than mnist, 40% wrong labels" in between
    assert "easier than mnist." in hardness_sentence(hard(value=0.1))
    assert "on few, every data set looks harder" in hardness_sentence(hard(n=100))
