"""A fault planted in a network that comes with the package is told; its healthy twin is not accused."""

import copy

import pytest
import torch
from torch import nn

from firstlight.cli.main import app
from firstlight.models import build
from firstlight.networks.bank import load_network
from firstlight.networks.reference import (
    EARLY,
    HEALTHY,
    UNTRAINED,
    Reference,
    packaged,
    packaged_error_rates,
    read_reference,
    reference,
)
from firstlight.pages.page import write_page
from firstlight.questions.inspect.measure import inspect
from firstlight.questions.inspect.page import inspection_page
from firstlight.questions.inspect.page_reference import Judgement, judged, reference_section
from firstlight.questions.inspect.reference_numbers import NUMBERS, measured_numbers, numbers_of

NAME = "small-cifar10-0"


@pytest.fixture(scope="module")
def twin():
    network = load_network(NAME)
    return network.model, network.initial, network.test_data().sample(1000, seed=0)


def zeroed(model):
    """The model without a tenth of each convolution's filters."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for layer in (m for m in model.modules() if isinstance(m, nn.Conv2d)):
            layer.weight[: max(1, round(0.1 * len(layer.weight)))] = 0
    return model


def judgement_of(model, initial, images):
    """Beside networks of other architectures only: a network must not be compared with itself."""
    measured = measured_numbers(model, images, initial=initial, name="x", family="small", group="")
    return Judgement(
        network=measured,
        reference=Reference(packaged()).without(lambda other: other.family == "small"),
        rates=packaged_error_rates(),
    )


def flagged(judgement):
    return {reading.number for reading in judgement.readings if reading.side}


def test_a_planted_fault_is_seen_and_its_healthy_twin_is_not_accused(twin):
    model, initial, images = twin
    healthy, faulty = (judgement_of(one, initial, images) for one in (model, zeroed(model)))
    assert "dead" in flagged(faulty) - flagged(healthy)
    assert healthy.outside == ()
    assert healthy.diagnosis() == ""
    assert healthy.sentence().startswith(
        "Nothing that tells faults apart lies outside the range of 8 healthy networks ("
    )


def test_an_untrained_network_lies_outside_and_others_that_lie_there_are_said(twin):
    _, initial, images = twin
    fresh = judgement_of(initial, None, images)
    assert [reading.number for reading in fresh.outside] == ["coarse"]
    assert (
        "the share of the filters' energy in the coarsest third of the patch patterns is" in fresh.sentence()
    )
    assert f"So it is in {EARLY}" in fresh.sentence() or f"{UNTRAINED} (" in fresh.sentence()


def test_a_fault_is_named_as_often_as_its_error_rates_say():
    networks, rates = packaged(), packaged_error_rates()
    judgements = [
        Judgement(
            network=one,
            reference=Reference(networks).without(lambda other, own=one.family: other.family == own),
            rates=rates,
        )
        for one in networks
    ]
    untrained = [one for one in judgements if one.network.group == UNTRAINED]
    named = [one for one in untrained if one.looks_like == UNTRAINED]
    n, right, called = rates.naming(UNTRAINED)
    assert (len(untrained), len(named)) == (n, right)
    assert 2 * right > called
    assert all(f"{right} of {n} with it are named so" in one.diagnosis() for one in named)
    assert not any(one.diagnosis() for one in judgements if one.network.group == HEALTHY)


def test_the_page_shows_each_layer_beside_its_range(twin, tmp_path):
    model, initial, images = twin
    inspection = inspect(zeroed(model), images, initial=initial, fast=True, show=False)
    section = reference_section(judged(inspection))
    assert section.details.keys() >= {layer.name for layer in inspection.layers}
    assert "dead 0.09, above 0.00 to" in section.details["0"]
    columns = inspection_page(inspection).table.columns
    (range_of_first,) = [
        f"{r.range.low:.2g}–{r.range.high:.2g}"
        for r in judged(inspection).readings
        if (r.layer, r.number) == ("0", "movement") and r.range
    ]
    assert columns["moved, healthy"][0] == range_of_first
    assert list(columns).index("moved, healthy") == list(columns).index("moved") + 1
    page = write_page(inspection_page(inspection), tmp_path / "page.html").read_text()
    assert "Is that normal?" in page
    assert "healthy networks (" in page
    assert "Gradients of the reference were measured on 64 images" in page


def test_an_inspection_gives_the_numbers_that_the_reference_has(twin):
    model, initial, images = twin
    inspection = inspect(model, images, initial=initial, n_images=64, show=False)
    direct = measured_numbers(model, images, initial=initial, name="x", family="", group="")
    for inspected, measured in zip(numbers_of(inspection).layers, direct.layers, strict=True):
        assert (inspected.name, inspected.kind, inspected.depth) == (
            measured.name,
            measured.kind,
            measured.depth,
        )
        assert inspected.numbers.keys() == measured.numbers.keys()
        for number, value in inspected.numbers.items():
            # the patch patterns come from 64 images here and 1,000 there; 0.02 is the narrowest range there is
            tolerance = 0.02 if number in {"coarse", "fine", "like random"} else 1e-4 * max(1, abs(value))
            assert value == pytest.approx(measured.numbers[number], abs=tolerance), number
    assert {name for layer in direct.layers for name in layer.numbers} == NUMBERS.keys()


def test_a_network_outside_the_bank_is_told_so():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 8, stride=8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 8)
    )
    images = torch.rand(4, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    inspection = inspect(model, images, n_images=4, fast=True, show=False)
    section = reference_section(judged(inspection))
    assert (
        "Is that normal? Not known: no reference for this kind of layer and images of this size."
        in section.answer
    )
    assert set(section.details.values()) == {"no reference for this kind of layer"}
    assert section.panels == ()


def test_ranges_say_what_they_were_made_of():
    networks = packaged()
    assert sum(network.group == HEALTHY for network in networks) >= 8
    assert {network.family for network in networks} == {"small", "vgg", "resnet"}
    rates = packaged_error_rates()
    for number in rates.earned:
        alarms, healthy = rates.flagged[number][HEALTHY]
        assert alarms <= 0.05 * healthy


def test_a_network_of_ones_own_joins_the_ranges(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FIRSTLIGHT_NETWORKS", str(tmp_path))
    checkpoint = tmp_path / "mine.pt"
    torch.save(build("small", batch_norm=True).state_dict(), checkpoint)
    before = len(reference().healthy)
    app(
        [
            "networks",
            "add",
            str(checkpoint),
            "--arch",
            "small",
            "--data",
            "photos",
            "--option",
            "batch_norm=true",
        ],
        result_action="return_value",
    )
    assert "reference.json: 1." in capsys.readouterr().out
    assert len(reference().healthy) == before + 1
    (mine,) = read_reference(tmp_path / "reference.json")
    assert mine.group == HEALTHY
