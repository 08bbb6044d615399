"""Several models side by side: each number as if measured alone, and what cannot be compared is said."""

import math

import pytest
import torch

from firstlight import models
from firstlight._internal.errors import InvalidInput
from firstlight.data import ImageData, load
from firstlight.measures.feature_ansatz.ansatz import TRAINED
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.pages.page import render
from firstlight.questions.compare.measure import compare
from firstlight.questions.compare.page import comparison_page
from firstlight.questions.inspect.measure import inspect


@pytest.fixture(scope="module")
def photos():
    return load("photos", split="test", n=12)


def network(seed=0, **options):
    return models.build("small", classes=8, width=0.2, seed=seed, **options)


def moved(model, by=0.3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(by * p.std() * torch.randn(p.shape, generator=generator))
    return model


def flat_pearson(a, b):
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1])


def test_every_number_is_that_of_the_model_alone(photos):
    series = {"first": network(), "second": moved(network())}
    comparison = compare(series, photos, n_images=12, with_regime=False)
    alone = inspect(series["second"], photos, initial=series["first"], n_images=12)
    last = comparison.models[1]
    assert [layer.ansatz for layer in last.layers] == pytest.approx(
        [row.pearson for row in alone.ansatz.pair(TRAINED)]
    )
    assert [layer.dead for layer in last.layers] == [fault.dead for fault in alone.faults]
    assert [layer.change.distance for layer in last.layers] == pytest.approx(
        [c.distance for c in alone.changes]
    )
    assert torch.equal(last.profile.amplitude, alone.profile.amplitude)
    assert last.accuracy == alone.accuracy


def test_what_was_not_asked_for_is_not_on_the_page(photos):
    series = {"first": network(), "second": moved(network())}
    page = comparison_page(compare(series, photos, n_images=4, with_regime=False))
    assert "Was training lazy?" not in render(page)


def test_the_layers_of_the_last_model_stand_beside_healthy_networks():
    before, after = (models.build("small", classes=8, seed=seed) for seed in (0, 1))
    images = load("photos", n=16)
    known = compare({"a": after}, images, initial=before, n_images=4, with_regime=False)
    columns = comparison_page(known).table.columns
    assert columns["layer"] == [layer.name for layer in known.models[0].layers]
    low, high = columns["moved, healthy"][0].split("–")
    assert 0 < float(low) < float(high)
    assert "–" in columns["correlation, healthy"][0]
    series = compare({"a": before, "b": after}, images, n_images=4, with_regime=False)
    page = comparison_page(series)  # nobody knows that training began at the first
    assert "moved, healthy" not in page.table.columns
    assert page.table.columns["correlation, a"][0] == pytest.approx(
        series.models[0].layers[0].ansatz, abs=0.005
    )
    assert 1 <= len(page.highlights) <= 3
    assert page.is_folded


@pytest.mark.parametrize(("n_images", "is_hint"), [(4, True), (32, False)])
def test_findings_of_few_images_are_called_a_hint(photos, n_images, is_hint):
    series = {"first": network(), "second": moved(network())}
    many = ImageData(photos.x.repeat(3, 1, 1, 1), photos.y.repeat(3), photos.classes)
    page = comparison_page(compare(series, many, n_images=n_images, with_regime=False))
    assert any("take what they say as a hint" in words for words in page.lead) == is_hint


def test_the_centred_correlation_equals_its_definition(photos):
    before, after = network().double(), moved(network().double())
    comparison = compare({"a": before, "b": after}, photos.x.double(), n_images=12, with_regime=False)
    gradients, initial = (patch_gradients(model, photos.x.double(), n_images=12) for model in (after, before))
    for layer in comparison.models[1].layers:
        added = gradients[layer.name].filters - initial[layer.name].filters
        assert layer.centred == pytest.approx(
            flat_pearson(added.mT @ added, gradients[layer.name].agop), abs=1e-9
        )
        assert len(layer.centred_null) > 1


def test_movement_is_counted_from_the_first_or_from_the_initial_model(photos):
    tripled = network()
    with torch.no_grad():
        tripled[0].weight.mul_(3)
    series = {"a": tripled, "b": tripled}
    assert compare(series, photos, n_images=4, with_regime=False).models[1].layers[0].change.distance == 0
    comparison = compare(series, photos, initial=network(), n_images=4, with_regime=False)
    assert comparison.has_own_initial
    assert [model.layers[0].change.distance for model in comparison.models] == pytest.approx([2, 2])
    assert math.isnan(compare(series, photos, n_images=4, with_regime=False).models[0].mean("centred"))


def test_one_broken_model_is_left_out_and_none_is_an_error(photos):
    def broken():
        raise InvalidInput("no such file.")

    infinite = network()
    with torch.no_grad():
        infinite[0].weight[0] = math.inf
    series = {"torn": broken, "first": network, "diverged": infinite, "last": moved(network())}
    comparison = compare(series, photos, n_images=4)
    assert [model.name for model in comparison.models] == ["first", "last"]
    assert set(comparison.left_out) == {"torn", "diverged"}
    assert comparison.reference == "first"
    assert comparison.models[1].regime is not None
    text = render(comparison_page(comparison))
    assert "Left out: torn. no such file." in text
    assert "random steps of the same length" in text
    with pytest.raises(InvalidInput, match="None of the 2 models could be measured"):
        compare({"torn": broken, "too": broken}, photos)


def test_different_architectures_are_matched_by_order_and_the_rest_is_named(photos):
    series = {"small": network(), "lenet": models.build("lenet", classes=8)}
    comparison = compare(series, photos, n_images=8)
    assert not comparison.is_one_architecture
    assert comparison.without_counterpart == {"lenet": ("fc2",)}
    assert comparison.models[1].regime is None
    text = render(comparison_page(comparison))
    assert "Without a counterpart in all others: lenet: fc2." in text
    assert "No two models see patches of one size" in text


def test_one_model_is_nothing_to_compare(photos):
    with pytest.raises(InvalidInput, match="at least 2"):
        compare({"a": network()}, photos)
