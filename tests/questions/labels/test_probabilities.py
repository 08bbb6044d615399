"""Out-of-sample probabilities of one's own in the place of our networks."""

import io

import numpy as np
import pytest
import torch

from firstlight._internal.errors import InvalidInput
from firstlight.data.images import ImageData
from firstlight.questions.labels.measure import check_labels
from firstlight.questions.labels.page import labels_sentences
from firstlight.questions.labels.probabilities import check_probabilities

SWAPPED = (4, 19, 33)


@pytest.fixture
def data():
    """Three classes, one with a single image, three labels swapped."""
    y = torch.arange(60) % 2
    y[list(SWAPPED)] = 1 - y[list(SWAPPED)]
    y[59] = 2
    return ImageData(torch.rand(60, 1, 8, 8), y, ("above", "below", "alone"), {"name": "halves"})


def probabilities(n=60):
    rows = np.full((n, 3), 0.05)
    rows[np.arange(n), np.arange(n) % 2] = 0.9
    return rows


def test_labels_against_probabilities_come_first(data, tmp_path):
    np.save(tmp_path / "p.npy", probabilities().astype(np.float32))
    check = check_probabilities(data, tmp_path / "p.npy", top=5)
    assert set(check.suspects.index.tolist()[:4]) == {*SWAPPED, 59}
    assert check.confusions()[0] in (("above", "below", 2), ("below", "above", 2))
    rows = {name: (n, share.value) for name, n, share, _ in check.by_class()}
    assert rows["alone"] == (1, 0.0)
    assert not any("epochs" in sentence for sentence in labels_sentences(check))
    assert check.reason(4).startswith("networks that did not train on it say above (90%) and below (5%)")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (probabilities(59), r"shape \(60, 3\).*It holds float64 of shape \(59, 3\)"),
        (probabilities()[:, :2], "shape"),
        (np.zeros((60, 3), dtype=np.int64), "floating-point"),
        (probabilities() * 2, "each row with the sum 1"),
        (probabilities() * np.nan, "numbers from 0 to 1"),
        (probabilities() - np.array([0.9, -0.9, 0]), "numbers from 0 to 1"),
        (np.array([{}] * 60, dtype=object), "cannot be read"),
    ],
)
def test_what_is_no_probability_is_refused(data, tmp_path, rows, says):
    np.save(tmp_path / "p.npy", rows, allow_pickle=True)
    with pytest.raises(InvalidInput, match=says):
        check_probabilities(data, tmp_path / "p.npy")


def test_a_header_that_promises_more_than_the_file_holds_is_refused(data, tmp_path):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 3)})
    (tmp_path / "p.npy").write_bytes(file.getvalue())
    with pytest.raises(InvalidInput):
        check_probabilities(data, tmp_path / "p.npy")


def test_classes_of_one_to_three_images_are_named_and_the_others_checked():
    y = torch.arange(60) % 2
    x = 0.2 * torch.rand(60, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    x[y == 0, :, :4] += 0.7
    x[y == 1, :, 4:] += 0.7
    y[57:] = 2
    check = check_labels(ImageData(x, y, ("above", "below", "bleow")), epochs=3, n_jobs=1, show=False)
    assert check.left_out == {"bleow": 3}
    assert len(check.labels) == 57
    assert any(
        "cannot be learned: bleow (3). Look whether a name is misspelt" in s for s in labels_sentences(check)
    )
