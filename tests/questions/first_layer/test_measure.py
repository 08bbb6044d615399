import pytest
import torch
from torch import nn
from torch.nn import functional as F

from firstlight import data, models
from firstlight.maths import PatchGeometry, mean_patches, patch_pca
from firstlight.measures.first_layer.energy_profile import energy_profile
from firstlight.questions.first_layer.measure import explain_profile
from firstlight.theory import least_squares as ls


@pytest.fixture(scope="module")
def photos():
    return data.load("photos", split="train", n=400, seed=0)


def network_with(filters):
    model = nn.Sequential(nn.Conv2d(3, len(filters), 3, bias=False), nn.Flatten())
    model[0].weight.data = filters.reshape(-1, 3, 3, 3).float()
    return model


def closed_form_filters(photos, *, time, labels):
    """Filters of a linear network at a known time, one per class, from true or from no labels."""
    geometry = PatchGeometry.square(3)
    pca = patch_pca(photos.x, geometry)
    spectral = ls.spectrum(mean_patches(photos.x, geometry) @ pca.basis)
    filtered = ls.flow_filter(spectral.values, time=time / spectral.largest)
    weights = spectral.vectors @ (filtered[:, None] * spectral.moment(labels.double()))
    return (pca.basis @ weights).T


def test_a_profile_made_by_the_theory_is_explained_by_it(photos):
    truth = F.one_hot(photos.y, photos.n_classes)
    model = network_with(closed_form_filters(photos, time=300.0, labels=truth))
    found = explain_profile(model, photos)
    assert found.bias_share + found.label_share > 0.999
    assert found.label_time == pytest.approx(300.0, rel=0.1)
    assert found.residual.abs().max() < 0.05 * found.profile.amplitude.max()


def test_labels_that_do_not_matter_add_nothing(photos):
    generator = torch.Generator().manual_seed(0)
    noise = torch.bernoulli(torch.full((len(photos), 400), 0.5), generator=generator)
    model = network_with(closed_form_filters(photos, time=50.0, labels=noise))
    found = explain_profile(model, photos)
    assert found.bias_share > 0.95
    assert 0 <= found.label_share < 0.05


def test_random_filters_are_not_explained_beyond_their_null(photos):
    found = explain_profile(models.build("small", seed=3), photos)
    assert found.bias_share < 0.6
    assert found.null_share < 0.6
    assert (found.bias_curve >= 0).all()
    assert found.bias_share + found.label_share >= found.bias_share


def test_curves_are_in_the_units_of_the_profile(photos):
    model = models.build("small", seed=0)
    found = explain_profile(model, photos)
    expected = energy_profile(model[0].weight.detach().flatten(1).double(), found.profile.pca.basis)
    assert torch.allclose(found.profile.amplitude, expected)
    assert torch.allclose(found.label_curve + found.residual, expected)
