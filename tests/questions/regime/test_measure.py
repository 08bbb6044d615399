"""The regime is 0 without training, small for lazy training, and large where features change."""

import copy
import dataclasses
import math

import pytest
import torch
from torch import nn

from firstlight import models, training
from firstlight._internal.errors import InvalidInput
from firstlight.data import load
from firstlight.pages.page import render
from firstlight.questions.inspect.measure import inspect
from firstlight.questions.inspect.page import inspection_page
from firstlight.questions.regime.measure import regime
from firstlight.questions.regime.page import regime_figure


@pytest.fixture(scope="module")
def photos():
    return load("photos", split="train", n=96)


def network(width=1, **options):
    return models.build("lenet", classes=8, shape=(3, 32, 32), width=width, **options)


def trained(photos, *, lr, epochs, width=1):
    model = network(width)
    training.train_on(model, photos, training.Recipe(lr=lr, momentum=0.9, epochs=epochs), show=False)
    return model


def test_a_network_that_was_not_trained_is_exactly_lazy(photos):
    found = regime(network(), photos, initial=network(), n_kernel=12, n_fit=10, show=False)
    assert (found.score, found.movement) == (0.0, 0.0)
    assert found.null == pytest.approx(0, abs=1e-12)
    assert found.kind == "lazy"
    assert found.expansion_accuracy == found.accuracy
    assert found.unrelated.distance > 0
    assert found.n_fit == 10
    assert math.isfinite(found.linear_accuracy)


def test_small_steps_of_a_wide_network_are_lazy_and_long_training_of_a_narrow_one_is_not(photos):
    lazy = regime(
        trained(photos, lr=0.001, epochs=1, width=4),
        photos,
        initial=network(4),
        n_kernel=12,
        n_fit=0,
        show=False,
    )
    learned = regime(
        trained(photos, lr=0.05, epochs=15), photos, initial=network(), n_kernel=12, n_fit=0, show=False
    )
    assert lazy.kind == "lazy"
    assert learned.kind == "feature learning"
    assert learned.score > learned.null_range.high > learned.null
    assert len({step.score for step in learned.random_steps}) == 8
    assert learned.movement > lazy.movement
    assert {change.name for change in learned.changes} == {"conv1", "conv2", "fc1", "fc2", "fc3"}
    assert "random steps of the same length" in learned.sentence()
    figure = regime_figure(learned)
    assert "score" in str(figure.table)
    assert math.isnan(learned.accuracy)  # nothing was fitted, so nothing is compared
    assert math.isnan(learned.linear_accuracy)


def test_a_random_step_is_not_called_feature_learning(photos):
    """A score of .57 was a verdict beside the .55 of a random step of the same length."""
    before, model = network(), network()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=generator) * 3 * p.norm() / p.numel() ** 0.5)
    found = regime(model, photos, initial=before, n_kernel=12, n_fit=0, show=False)
    assert found.score > 0.5
    assert found.null_range.low < found.score < found.null_range.high
    assert found.kind == "cannot tell"
    assert found.sentence().startswith("Whether training was lazy cannot be told")
    assert found.is_saturated == ("saturated" in found.sentence())


def test_a_share_that_is_all_there_can_be_for_both_is_said_to_be_saturated(photos):
    found = regime(network(), photos, initial=network(), n_kernel=4, n_fit=0, show=False)
    assert not found.is_saturated
    whole = [dataclasses.replace(step, remainder=1.0) for step in (found.training, *found.random_steps)]
    both = dataclasses.replace(found, training=whole[0], random_steps=tuple(whole[1:]))
    assert both.is_saturated
    assert "saturated: the random steps reach 100% too" in both.sentence()


def test_a_linear_network_is_lazy_however_far_it_moves(photos):
    def build():
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8))

    start = build()
    model = copy.deepcopy(start)
    training.train_on(model, photos, training.Recipe(lr=0.01, epochs=10), show=False)
    found = regime(model, photos, initial=start.state_dict(), n_kernel=12, n_fit=0, show=False)
    assert found.training.kernel.rotation < 1e-6
    assert found.training.remainder < 1e-3  # rounding of single precision


def test_batch_normalisation_and_images_without_labels(photos):
    model, start = (models.build("small", classes=8, width=0.25, batch_norm=True, seed=s) for s in (0, 1))
    before = {name: value.clone() for name, value in start.state_dict().items()}
    found = regime(model, photos.x, initial=start, n_kernel=8, show=False)
    assert 0 < found.score <= 1
    assert found.alignment is None
    assert math.isnan(found.accuracy)
    assert all(torch.equal(value, before[name]) for name, value in start.state_dict().items())


def test_without_the_start_there_is_no_answer(photos):
    with pytest.raises(InvalidInput, match="`initial` must be the network before its training"):
        regime(network(), photos)
    with pytest.raises(InvalidInput, match="by name and shape"):
        regime(network(), photos, initial=network(2))
    with pytest.raises(InvalidInput, match="at least 2 images"):
        regime(network(), photos, initial=network(), n_kernel=1)


def test_the_page_of_a_model_shows_the_regime_where_the_start_is_known(photos):
    model = trained(photos, lr=0.05, epochs=2)
    known = inspect(model, photos.x, initial=network(), n_images=12, show=False)
    assert known.regime is not None
    page = render(inspection_page(known))
    assert "Was training lazy?" in page
    assert "random steps of the same length" in page
    unknown = inspect(model, photos.x, n_images=12, show=False)
    assert unknown.regime is None
    assert "needs the weights before training" in render(inspection_page(unknown))
