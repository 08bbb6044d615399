"""IdentityCrisis: what is exact beyond one layer, on networks that are really trained or built."""

import pytest
import torch
from torch import nn

from firstlight import models
from firstlight.data.synthetic import correlated_images
from firstlight.training import Recipe, train
from reproduce.studies.identity.exact import CNN_GRID, FCN_GRID, PUBLISHED, TEXT, built, formula
from reproduce.studies.identity.exact_identity import identity_cnn, identity_fcn_linear, identity_fcn_relu
from reproduce.studies.identity.layer_images import stage_outputs
from reproduce.studies.identity.layers import averaging_votes, class_sums


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_training_only_the_bottom_layer_leaves_orthogonal_inputs_as_they_were():
    """Section 13.2: the first layer stays W0 + u x^T, so what is orthogonal to x meets W0 alone."""
    x = draw(1, 20, seed=1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 40, bias=False), nn.ReLU(), nn.Linear(40, 20, bias=False)).double()
    across = draw(6, 20, seed=2)
    across -= (across @ x.T) @ x / x.square().sum()
    before = model(across).detach()
    recipe = Recipe(loss="mse", lr=0.5, momentum=0.9, steps=300, batch_size=None, frozen=("2.",))
    history = train(model, x, x, recipe, show=False)
    assert history.loss[-1] < 0.5 * history.loss[0]
    assert torch.allclose(model(across), before, atol=1e-12)


@pytest.mark.parametrize(("units", "fits"), [(50, False), (160, True)])
def test_the_bottom_layer_alone_fits_only_with_about_four_times_as_many_units_as_pixels(units, fits):
    """Half of the units are on, and positive weights must span the image: twice the pixels of those."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, units), nn.ReLU(), nn.Linear(units, 20)).double()
    x = draw(1, 20, seed=1)
    recipe = Recipe(
        optimiser="adam", loss="mse", lr=0.02, steps=3000, batch_size=None, frozen=("2.",), stop_below=1e-6
    )
    history = train(model, x, x, recipe, show=False)
    assert (float(history.loss[-1]) < 1e-4) is fits


@pytest.mark.parametrize("entry", [*FCN_GRID, *CNN_GRID[::7]])
def test_the_formula_of_the_table_counts_the_network(entry):
    assert formula(*entry) == built(*entry)


@pytest.mark.parametrize("row", [*PUBLISHED, *TEXT])
def test_published_counts_are_those_of_the_formula_and_of_the_network(row):
    *settings, count = row
    assert formula(*settings) == built(*settings) == count


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9, 1.0])
def test_test_images_have_the_angle_and_norm_they_claim(rho):
    image = draw(1, 9, 8)
    made = correlated_images(image, torch.tensor([rho]), draws=3, seed=0)[0]
    flat = image.flatten()
    cosines = made.flatten(1) @ flat / (made.flatten(1).norm(dim=1) * flat.norm())
    assert torch.allclose(cosines, torch.full_like(cosines, torch.tensor([rho]).double().item()), atol=1e-7)
    assert torch.allclose(made.flatten(1).norm(dim=1), flat.norm().expand(3), atol=1e-12)


def test_the_averaging_classifier_is_the_vote_of_all_examples_in_every_layer():
    model = models.build("identity_cnn", shape=(1, 6, 6), depth=3, channels=4).double()
    x, y = draw(30, 1, 6, 6), torch.arange(30) % 3
    for features in stage_outputs(model, x):
        rows = features.flatten(1)
        votes = (rows @ rows.T) @ nn.functional.one_hot(y, 3).double()
        sums = class_sums(rows, y, n_classes=3)
        assert torch.allclose(averaging_votes(rows, sums), votes, atol=1e-9)


@pytest.mark.parametrize("channels", [1, 3])
def test_centre_deltas_are_the_identity_in_relu_networks(channels):
    x = draw(3, channels, 7, 5)
    for depth in (1, 2, 5):
        assert (identity_cnn(channels, depth=depth).double()(x) - x).abs().max() < 1e-12
    for make in (identity_fcn_linear, identity_fcn_relu):
        assert (make((channels, 7, 5), depth=4).double()(x) - x).abs().max() < 1e-12
