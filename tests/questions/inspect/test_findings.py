import json

import pytest
import torch
from torch import nn

from firstlight import models
from firstlight._internal.errors import InvalidInput
from firstlight.cli.model_options import ModelOptions
from firstlight.cli.options import OutputFormat
from firstlight.data import load
from firstlight.measures.feature_ansatz.ansatz import INITIAL
from firstlight.pages.page import render
from firstlight.questions.inspect.command import inspect as command
from firstlight.questions.inspect.findings import NAMES, failures, finding_numbers, parsed_condition
from firstlight.questions.inspect.measure import inspect
from firstlight.questions.inspect.page import inspection_page


@pytest.fixture(scope="module")
def photos():
    return load("photos", n=12)


def network(*, dead=()):
    """Two layers without a nonlinearity: filters are dead only if they are made so."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=4), nn.Flatten(), nn.Linear(8 * 8 * 8, 8))
    with torch.no_grad():
        model[0].weight[list(dead)] = 0
    return model


def test_numbers_have_the_names_that_conditions_may_use(photos):
    numbers = finding_numbers(inspect(network(), photos, fast=True))
    assert tuple(numbers) == NAMES
    assert numbers["dead"] == 0
    assert numbers["layers"] == 2


def test_a_dead_filter_fails_the_check_and_is_named(photos):
    found = inspect(network(dead=(2, 5)), photos, fast=True)
    (line,) = failures(found, ["dead>0", "unmeasured>0"])
    assert "dead is 2" in line
    assert "(2, 5)" in line
    assert failures(inspect(network(), photos, fast=True), ["dead>0"]) == []


def test_a_layer_that_is_dead_as_a_whole_counts_as_silent(photos):
    found = inspect(network(dead=range(8)), photos, fast=True)
    assert failures(found, ["silent>0"]) == ["silent>0: silent is 1: 0"]
    assert failures(inspect(network(dead=(2, 5)), photos, fast=True), ["silent>0"]) == []


def test_an_inspection_shows_itself_in_one_line(photos):
    found = inspect(network(), photos, fast=True)
    assert len(repr(found)) < 150
    assert "2 layers; " in repr(found)
    assert "3 x 32 x 32" in repr(found)


def test_what_is_unknown_has_not_passed(photos):
    (line,) = failures(inspect(network(), photos.x, fast=True), ["accuracy<0.5"])
    assert "accuracy is unknown" in line


@pytest.mark.parametrize("text", ["dead", "dead > many", "> 0", "dead>nan"])
def test_conditions_that_mean_nothing_are_refused(text):
    with pytest.raises(InvalidInput, match="must read name, relation, number"):
        parsed_condition(text)


def test_the_nearest_finding_is_named():
    with pytest.raises(InvalidInput, match="Did you mean 'dead'"):
        parsed_condition("dea>0")


class Late(nn.Module):
    """Applies a convolution whose weights depend on the images: nothing to measure."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4, 8)
        self.scale = nn.Linear(4, 4)

    def forward(self, x):
        features = self.stem(x).mean((2, 3))
        mixed = torch.stack([torch.nn.functional.linear(f, f[:, None] * self.scale.weight) for f in features])
        return self.head(mixed)


def test_the_page_says_which_layers_were_not_measured(photos):
    whole = render(inspection_page(inspect(network(), photos, fast=True)))
    assert "were not measured" not in whole
    partly = inspect(Late(), photos, fast=True)
    left_out, measured = len(partly.ansatz.skipped), len(partly.layers)
    assert finding_numbers(partly)["unmeasured"] == left_out > 0
    words = f"{left_out} of {left_out + measured} layers were not measured"
    assert words in render(inspection_page(partly))


def test_a_layer_without_initial_correlation_counts_as_measured(photos):
    silent = network()
    with torch.no_grad():  # before training nothing reaches the outputs: no gradients, no correlation
        for parameter in list(silent.parameters())[-2:]:
            parameter.zero_()
    inspection = inspect(network(), photos, initial=silent, fast=True)
    assert any(name.endswith(f"({INITIAL})") for name in inspection.ansatz.skipped)
    assert inspection.unmeasured == {}
    assert inspection.n_layers == len(inspection.layers)
    assert finding_numbers(inspection)["unmeasured"] == 0
    page = render(inspection_page(inspection))
    assert "were not measured" not in page
    assert "no distance is relative to zero" in page
    assert len(inspection.changes) == len(inspection.layers) - 1


def test_the_help_lists_every_finding():
    for name in NAMES:
        assert name in command.__doc__.partition("Findings:")[2]


@pytest.mark.parametrize(("condition", "code"), [("dead>0", 1), ("dead<0", None)])
def test_the_command_prints_json_and_ends_with_one(tmp_path, monkeypatch, capsys, condition, code):
    from safetensors.torch import save_file

    monkeypatch.chdir(tmp_path)
    model = models.build(
        "small", classes=5, width=0.2, seed=0
    )  # of untrained weights for 8 classes, nothing is said
    model.get_parameter("0.weight").data[1] = 0
    save_file(model.state_dict(), "weights.safetensors")
    arguments = {
        "model": ModelOptions(data="photos", arch="small", option=["width=0.2"]),
        "n": 8,
        "fast": True,
    }
    try:
        command("weights.safetensors", **arguments, form=OutputFormat(json=True), fail_on=[condition])
        ended = None
    except SystemExit as exit:
        ended = exit.code
    out, err = capsys.readouterr()
    assert ended == code
    assert json.loads(out)["dead"] >= 1
    assert ("dead is" in err) == (code == 1)
    assert (tmp_path / "inspect.html").exists()
