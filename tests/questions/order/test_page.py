"""What the page of the learning order says about the first and the last images."""

import torch

from firstlight.data.images import ShownImages
from firstlight.questions.order.page import _typical


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
    assert _typical(first, last) == "more of frog and cat"
    assert _typical(last, first) == "more of dog"
    assert _typical(first, first) == "no more of any class"
