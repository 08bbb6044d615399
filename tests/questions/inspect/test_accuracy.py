"""A network at chance, or on pixels that cannot be right, gets no other verdict."""

import math

import pytest
import torch
from torch import nn

import firstlight
from firstlight._internal.errors import InvalidInput
from firstlight.data import load
from firstlight.questions.compare.page import comparison_page
from firstlight.questions.inspect.accuracy import NORMALISATIONS, outcome
from firstlight.questions.inspect.findings import WITHHELD, failures, finding_numbers
from firstlight.questions.inspect.page import inspection_page


@pytest.fixture(scope="module")
def bars():
    """Bright above or bright below, as pixels in [0, 1]."""
    y = torch.arange(80) % 2
    x = 0.2 * torch.rand(80, 3, 8, 8, generator=torch.Generator().manual_seed(0)) + 0.1
    x[y == 0, :, :4] += 0.6
    x[y == 1, :, 4:] += 0.6
    return firstlight.data.ImageData(x, y, ("above", "below"))


class Halves(nn.Module):
    """Right for pixels that were scaled with ImageNet's numbers: anything else drowns in the bias."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 2, 1), nn.Linear(2 * 64, 2)
        with torch.no_grad():
            self.conv.weight.fill_(1.0)
            self.conv.bias.zero_()
            half = torch.zeros(2, 8, 8)
            half[:, :4] = 1.0
            self.head.weight.copy_(torch.stack([half, 1 - half]).reshape(2, -1))
            self.head.bias.copy_(torch.tensor([0.0, 270.0]))

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).flatten(1))


def test_the_accuracy_comes_first_with_its_interval(bars):
    mean, std = NORMALISATIONS["ImageNet"]
    inspection = firstlight.inspect(Halves(), bars.scaled(mean, std), n_images=8, show=False)
    assert inspection.accuracy == 1.0
    assert (inspection.outcome.n_images, inspection.outcome.problem) == (80, "")
    assert (
        inspection_page(inspection)
        .lead[0]
        .startswith("It classifies 100% of 80 images correctly (95% interval 95% to")
    )
    assert inspection.outcome.accuracy.low == pytest.approx(0.954, abs=1e-3)


def test_at_chance_known_normalisations_are_tried_and_all_else_is_withheld(bars):
    told = []
    wrong = bars.scaled([0.5], [125.0])
    inspection = firstlight.inspect(Halves(), wrong, n_images=8, show=False, listen=told.append)
    assert [first.outcome for first in told] == [inspection.outcome]
    assert inspection.ansatz.rows == ()
    assert inspection.pending == ()
    assert inspection.outcome.better.name == "ImageNet"
    page = inspection_page(inspection)
    assert page.lead[0].startswith("No other verdict is given: The network classifies 50% of 80 images")
    assert (
        "With --mean 0.485 0.456 0.406 --std 0.229 0.224 0.225 (ImageNet) the accuracy is 100%"
        in page.lead[0]
    )
    assert "no common normalisation gives" in page.lead[0]
    assert [section.title for section in page.sections] == [
        "Which scaling of the pixels fits?",
        "What was measured?",
    ]
    numbers = finding_numbers(inspection)
    assert all(math.isnan(numbers[name]) for name in WITHHELD)
    (line,) = failures(inspection, ["dead>0"])
    assert "that is chance" in line


def test_a_comparison_of_networks_at_chance_gives_no_other_verdict(bars):
    series = {"a": Halves(), "b": Halves()}
    comparison = firstlight.compare(series, bars.scaled([0.5], [125.0]), n_images=4, with_regime=False)
    page = comparison_page(comparison)
    assert page.lead[0].startswith("No other verdict is given")
    assert page.answers == ()
    assert [section.title for section in page.sections] == ["Which scaling of the pixels fits?"]
    good = firstlight.compare(series, bars.scaled(*NORMALISATIONS["ImageNet"]), n_images=4, with_regime=False)
    assert good.problem == ""
    page = comparison_page(good)  # of networks without hidden layers
    assert "b classifies 100% of 80 images correctly (95% interval 95% to 100%" in page.lead[0]
    assert "no model has a hidden layer" in next(a.answer for a in page.answers if "gradients" in a.question)


def test_without_labels_only_pixels_that_cannot_be_right_count(bars):
    assert outcome(Halves(), bars.x).problem == ""
    assert "no common normalisation" in outcome(Halves(), bars.x / 125).problem
    few = outcome(Halves(), bars.sample(8, seed=0))
    assert (few.value, few.problem) == (0.5, "")  # so few images do not tell


def test_a_mean_for_pixels_up_to_255_is_refused(bars):
    with pytest.raises(
        InvalidInput, match=r"`mean` must lie between 0 and 1, as the pixels do; got \[125.0\]"
    ):
        bars.scaled([125.0], [60.0])
    scaled = bars.scaled([0.2, 0.3, 0.4], [0.5, 0.25, 2.0], bgr=True)
    torch.testing.assert_close(scaled.unscaled().x, bars.x)
    whole = load("photos", n=8)
    assert float(whole.scaled([0.5], [0.2]).unscaled().x.min()) >= 0
    assert float(whole.scaled([0.5], [0.2]).unscaled().x.max()) <= 1
