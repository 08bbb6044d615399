"""One call gives the later measures of a network, and a reason for each that is missing."""

import pytest
import torch

from firstlight import models
from firstlight._internal.errors import InvalidInput
from firstlight.data import load
from firstlight.measures.feature_ansatz.ansatz import centred_ansatz
from firstlight.measures.feature_ansatz.ansatz_exponent import ansatz_exponent
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.questions.inspect.newer_papers import feature_report


@pytest.fixture(scope="module")
def photos():
    return load("photos", n=24)


def network(seed):
    return models.build("lenet", classes=8, shape=(3, 32, 32), width=0.5, seed=seed)


def test_everything_is_measured_where_everything_is_given(photos):
    report = feature_report(network(1), photos, initial=network(2), n_images=16, show=False)
    assert report.missing == {}
    assert report.n_images == 16
    assert [row.layer for row in report.centred.rows] == [row.layer for row in report.exponents]
    assert report.variation.layers == ("conv1", "conv2", "fc1", "fc2", "fc3", "outputs")
    assert report.richness.n_outputs <= 8
    assert len(report.sentences()) == 4


def test_the_parts_equal_the_measures(photos):
    model, initial = network(1), network(2)
    gradients = patch_gradients(model, photos.x, show=False)
    report = feature_report(model, photos.x, initial=initial, gradients=gradients, show=False)
    assert [row.exponent for row in report.exponents] == [row.exponent for row in ansatz_exponent(gradients)]
    alone = centred_ansatz(model, photos.x, initial=initial, show=False)
    assert [row.pearson for row in report.centred.rows] == [row.pearson for row in alone.rows]


def test_what_is_missing_is_said(photos):
    report = feature_report(network(1), photos.x, n_images=2, show=False)
    assert report.centred is None
    assert report.variation is None
    assert report.richness is None
    assert "--initial" in report.missing["centred"]
    assert "labels" in report.missing["variation"]
    assert "at least 3" in report.missing["richness"]
    single = photos.take(torch.tensor([0]))
    assert "at least two classes" in feature_report(network(1), single, show=False).missing["variation"]
    with pytest.raises(InvalidInput, match="n_images"):
        feature_report(network(1), photos, n_images=0)
