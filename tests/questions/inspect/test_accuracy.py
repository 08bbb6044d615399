"""A network at chance, or on pixels that cannot be right, gets no other verdict."""

import math

import pytest
import torch
from torch import nn

import firstlight
from firstlight._internal.errors import InvalidInput
from firstlight.data import load
from firstlight.questions.compare.page import comparison_page
from firstlight.questions.inspect.accuracy import NORMALISATIONS, outcome_and_activity
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


def outcome_of(data):
    return outcome_and_activity(Halves(), data)[0]


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
    assert page.highlights == ()
    assert [section.title for section in page.sections] == ["Which scaling of the pixels fits?"]
    good = firstlight.compare(series, bars.scaled(*NORMALISATIONS["ImageNet"]), n_images=4, with_regime=False)
    assert good.problem == ""
    page = comparison_page(good)  # of networks without hidden layers
    assert "b classifies 100% of 80 images correctly (95% interval 95% to 100%" in page.lead[0]
    assert any("gradients? Not measured: no model has a hidden layer" in words for words in page.lead)


def test_without_labels_only_pixels_that_cannot_be_right_count(bars):
    assert outcome_of(bars.x).problem == ""
    assert "no common normalisation" in outcome_of(bars.x / 125).problem
    few = outcome_of(bars.sample(8, seed=0))
    assert (few.value, few.problem) == (0.5, "")  # so few images do not tell


def test_pixels_between_the_common_normalisations_count_where_others_do_better(bars):
    weak = bars.scaled([0.7], [0.0712])
    result = outcome_of(weak)
    assert not result.is_at_chance  # 62% or so: on its own this passes for a weak network
    assert result.better.name == "ImageNet"
    assert "and more with other pixels. Its pixels have mean -2.8 and deviation" in result.problem
    inspection = firstlight.inspect(Halves(), weak, n_images=8, show=False)
    assert inspection_page(inspection).lead[0].startswith("No other verdict is given")
    right = outcome_of(bars.scaled([0.7], [0.02]))
    assert (right.value, right.better, right.problem) == (
        1.0,
        None,
        "",
    )  # a network may be trained on odd pixels


def test_a_rarely_right_network_is_tried_with_other_pixels(bars):
    class Four(Halves):
        def forward(self, x):
            return nn.functional.pad(super().forward(x), (0, 2), value=-1e9)

    y = torch.cat([bars.y, bars.y + 2])  # the network never names two of four classes
    four = firstlight.data.ImageData(torch.cat([bars.x, bars.x]), y, ("above", "below", "left", "right"))
    result, _ = outcome_and_activity(Four(), four.scaled([0.3], [0.356]))  # plausible, and wrong
    assert (result.pixels, result.is_at_chance) == ("", False)
    assert result.better.name == "ImageNet"


def test_one_pass_tells_the_accuracy_and_the_dead_filters(bars):
    class Counted(Halves):
        seen = 0

        def forward(self, x):
            Counted.seen += len(x)
            return super().forward(x)

    model = Counted()
    with torch.no_grad():
        model.conv.weight.copy_(torch.tensor([2.0, 0.0])[:, None, None, None].expand(-1, 3, 1, 1))
        model.conv.bias[1] = -1.0
    result, activity = outcome_and_activity(model, bars.scaled(*NORMALISATIONS["ImageNet"]))
    assert Counted.seen == len(bars) + 1  # and one image that tells which layers there are
    assert activity.active["conv"].tolist() == [True, False]
    assert activity.n_images == result.n_images == len(bars)


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
