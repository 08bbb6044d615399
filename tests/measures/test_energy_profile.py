import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from firstlight import data, models
from firstlight._internal.errors import InvalidInput
from firstlight.maths import PatchGeometry, extract_patches, patch_pca, pearson
from firstlight.measures.first_layer import energy_profile as first_layer
from firstlight.measures.first_layer.consistency import agreement, consistency
from firstlight.measures.first_layer.energy_profile import (
    BANDS,
    band_energy,
    energy_profile,
    profiles_over_time,
)
from firstlight.measures.first_layer.first_convolution import first_convolution
from reference.profiles import naive_band_energy, naive_label_correlation, naive_profile
from reproduce.studies.first_layer.patch_labels import label_correlation


@pytest.fixture(scope="module")
def photos():
    return data.load("photos", split="train", n=60, seed=0)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(k=st.integers(1, 6), d=st.integers(1, 9), m=st.integers(1, 9), seed=st.integers(0, 99))
def test_energy_profile_equals_definition(k, d, m, seed):
    filters, basis = draw(k, d, seed=seed), draw(d, m, seed=seed + 1)
    assert energy_profile(filters, basis).tolist() == pytest.approx(
        naive_profile(filters.tolist(), basis.tolist()), rel=1e-12
    )


class Hidden(nn.Module):
    """The first convolution is neither first nor named, and follows a normalisation."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.full((3, 1, 1), 0.4))
        self.unused = nn.Conv2d(3, 9, 5)
        self.kernel = nn.Parameter(torch.randn(8, 3, 4, 2))

    def forward(self, x):
        x = (x - self.mean) / 0.2
        return F.conv2d(x, self.kernel, stride=(2, 1), padding=(1, 0)).mean((2, 3))


def test_the_first_convolution_is_found_by_running_the_model(photos):
    found = first_convolution(Hidden(), photos.x)
    assert found.name == "kernel"
    assert (found.size, found.stride, found.padding) == ((4, 2), (2, 1), (1, 0))


def test_patches_are_those_that_the_layer_sees(photos):
    model = Hidden()
    profile = first_layer.profile(model, photos)
    seen = extract_patches((photos.x - 0.4) / 0.2, profile.layer.geometry).flatten(0, 1).double()
    values, vectors = torch.linalg.eigh(torch.cov(seen.T, correction=0))
    assert torch.allclose(profile.pca.variances, values.flip(0), rtol=1e-5)
    naive = (model.kernel.detach().flatten(1).double() @ vectors.flip(1)).square().sum(0).sqrt()
    top = slice(0, 3)  # separated, so their vectors are unique up to sign
    assert torch.allclose(profile.amplitude[top], naive[top], rtol=1e-3)


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(3, 6, 3, groups=3, padding=1),
        nn.Conv2d(3, 5, (1, 3), dilation=2, stride=2),
        nn.Conv2d(3, 12, 8, stride=8),
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(3, 4, 3, padding="same", bias=False),
    ],
    ids=["depthwise", "dilated", "patch embedding", "reflect", "same"],
)
def test_every_kind_of_first_layer_has_a_profile(conv, photos):
    profile = first_layer.profile(nn.Sequential(conv, nn.Flatten()), photos)
    c_in = conv.in_channels * conv.kernel_size[0] * conv.kernel_size[1]
    assert profile.amplitude.shape == (c_in,)
    total = conv.weight.detach().double().square().sum()
    assert profile.amplitude.square().sum() == pytest.approx(total.item(), rel=1e-9)


def test_one_channel_images_work():
    x = torch.rand(20, 1, 9, 9, generator=torch.Generator().manual_seed(0))
    assert first_layer.profile(nn.Conv2d(1, 4, 3), x).amplitude.shape == (9,)


def test_the_model_is_left_as_it_was(photos):
    model = models.build("small", batch_norm=True)
    model[1].eval()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    modes = [m.training for m in model.modules()]
    first_layer.profile(model, photos)
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert [m.training for m in model.modules()] == modes
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(3072, 2)), "must hold a convolution"),
        (nn.Conv2d(1, 4, 3), "takes 1 channel; these inputs bring 3"),
        (nn.Conv2d(3, 4, 57), "cannot take inputs of shape 3x32x32|must be at most"),
        (nn.ConvTranspose2d(3, 4, 3), "transposed"),
    ],
    ids=["no convolution", "channels", "too large", "transposed"],
)
def test_what_has_no_profile_is_refused(model, message, photos):
    with pytest.raises(InvalidInput, match=message):
        first_layer.profile(model, photos)


def test_subtracting_the_start_gives_the_profile_of_the_update(photos):
    start, end = models.build("small", seed=0), models.build("small", seed=0)
    update = 0.01 * draw(64, 3, 3, 3).float()
    end[0].weight.data += update
    by_model = first_layer.profile(end, photos, subtract=start)
    by_weight = first_layer.profile(end, photos, subtract=start[0].weight)
    assert torch.equal(by_model.amplitude, by_weight.amplitude)
    alone = energy_profile(update.flatten(1).double(), by_model.pca.basis)
    assert torch.allclose(by_model.amplitude, alone, rtol=1e-4)
    with pytest.raises(InvalidInput, match="has no profile"):
        first_layer.profile(start, photos, subtract=start)
    with pytest.raises(InvalidInput, match="must have the shape of the layer"):
        first_layer.profile(start, photos, subtract=torch.zeros(1, 3, 3, 3))


def test_snapshots_give_profiles_over_time(photos):
    model = models.build("small")
    profile = first_layer.profile(model, photos)
    weights = torch.stack([model[0].weight.detach(), 2 * model[0].weight.detach()])
    over = profiles_over_time(weights, profile)
    assert torch.allclose(over[1], 2 * profile.amplitude, rtol=1e-6)
    grown = profiles_over_time(weights, profile, subtract_first=True)
    assert grown[0].abs().max() == 0
    assert torch.allclose(grown[1], profile.amplitude, rtol=1e-6)


def test_agreement_has_its_range_over_filters(photos):
    a, b = (first_layer.profile(models.build("small", seed=s), photos) for s in (0, 1))
    same, other = agreement(a, a), agreement(a, b)
    assert same.value == pytest.approx(1.0)
    assert same.low <= 1.0
    assert other.low <= other.value <= other.high
    c = first_layer.profile(nn.Conv2d(3, 4, 5), photos)
    with pytest.raises(InvalidInput, match="27 and 75"):
        agreement(a, c)


def test_consistency_adds_the_controls_as_rows(photos):
    profiles = {f"seed {s}": first_layer.profile(models.build("small", seed=s), photos) for s in range(3)}
    found = consistency(profiles)
    assert found.names[-2:] == ("random filters", "root of variances")
    assert found.matrix.shape == (5, 5)
    assert found.pairs().shape == (3,)
    first = list(profiles.values())
    assert found.matrix[0, 1] == pytest.approx(pearson(first[0].amplitude, first[1].amplitude).item())
    with pytest.raises(InvalidInput, match="at least 2"):
        consistency({"one": first[0]})


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 3), st.integers(2, 4)),
    seed=st.integers(0, 50),
)
@settings(max_examples=12, deadline=None)
def test_band_energy_equals_the_spectrum_of_the_filters(shape, seed):
    k, c, h, w = shape
    conv = nn.Conv2d(c, k, (h, w))
    conv.weight.data = draw(k, c, h, w, seed=seed).float()
    images = torch.rand(30, c, 9, 9, generator=torch.Generator().manual_seed(seed))
    shares = band_energy(first_layer.profile(conv, images))
    filters = conv.weight.detach().double()
    grid = 24
    expected, largest = naive_band_energy(filters.tolist(), BANDS, grid)
    total = float(filters.square().sum())
    # Parseval: the grid is finer than the patch, so the sum over it is the integral, up to rounding
    assert sum(expected) == pytest.approx(total, rel=1e-9)
    assert shares.sum() == pytest.approx(1.0, rel=1e-12)
    # the grid errs only in the cells that a circle cuts: fewer than 8 (R grid + 1) for each circle
    bound = sum(8 * (edge * grid + 1) for edge in BANDS) / grid**2 * largest / total
    assert (shares - torch.tensor(expected).double() / total).abs().max() <= bound


def test_band_energy_counts_the_cross_terms_between_components():
    """Two components of equal frequency whose sum is an impulse: flat spectrum, not that of either one."""
    conv = nn.Conv2d(1, 1, 3, bias=False)
    conv.weight.data = torch.zeros(1, 1, 3, 3)
    conv.weight.data[0, 0, 1, 1] = 1
    steps = torch.cumsum(draw(60, 1, 12, 12), 3).float()
    shares = band_energy(first_layer.profile(conv, steps))
    # the spectrum of an impulse is constant, so the shares are the areas of the rings in the unit square
    areas = torch.tensor([math.pi / 36, math.pi / 9 - math.pi / 36, 1 - math.pi / 9]).double()
    assert torch.allclose(shares, areas, atol=1e-6)
    turned = first_layer.profile(conv, steps)
    assert torch.allclose(band_energy(turned), shares, atol=1e-9)
    pca = dataclasses.replace(turned.pca, basis=turned.pca.basis[:, :2], variances=turned.pca.variances[:2])
    part = dataclasses.replace(turned, pca=pca)
    projected = part.filters @ part.pca.basis @ part.pca.basis.mT
    conv.weight.data = projected.reshape(1, 1, 3, 3).float()
    assert torch.allclose(band_energy(part), band_energy(first_layer.profile(conv, steps)), atol=1e-6)


@given(n=st.integers(4, 12), seed=st.integers(0, 50))
def test_label_correlation_equals_definition(n, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 1, 5, 4, generator=generator)
    y = torch.arange(n) % 2
    images = data.ImageData(x, y, ("a", "b"))
    geometry = PatchGeometry.square(2)
    pca = patch_pca(x, geometry)
    coordinates = pca.project(extract_patches(x, geometry).double().mean(1))
    naive = naive_label_correlation(coordinates.tolist(), y.tolist(), 2)
    assert torch.allclose(label_correlation(images, pca, geometry), torch.tensor(naive).double(), atol=1e-8)


def test_label_correlation_needs_every_class():
    images = data.ImageData(torch.rand(4, 1, 5, 5), torch.zeros(4, dtype=torch.int64), ("a", "b"))
    with pytest.raises(InvalidInput, match="every class needs images"):
        label_correlation(images, patch_pca(images.x, PatchGeometry.square(2)), PatchGeometry.square(2))


def test_resnet50_with_imagenet_weights_prefers_middle_frequencies():
    """The 7x7 stem of a really trained network: far from its start, most energy in middle components."""
    from firstlight._internal.errors import DataUnavailable
    from reproduce.weights.resnet50 import resnet50_imagenet, resnet50_normalised

    try:
        model = resnet50_imagenet()
    except DataUnavailable as reason:
        pytest.skip(str(reason))
    photographs = data.load("photos", split="train", n=300, seed=0).x
    images = F.interpolate(photographs, size=64, mode="bilinear")
    profile = first_layer.profile(model, resnet50_normalised(images))
    assert profile.amplitude.shape == (147,)
    thirds = [part.mean().item() for part in profile.amplitude.tensor_split(3)]
    controls = profile.controls()
    assert abs(controls["random filters"]) < 0.2
    peak = int(profile.amplitude.argmax())
    assert 1 < peak < 98, f"the peak lies at component {peak + 1}"
    assert thirds[2] < min(thirds[:2]), thirds


def test_the_profile_holds_amplitudes_whose_squares_are_the_energy_of_the_filters():
    filters = torch.randn(5, 12, generator=torch.Generator().manual_seed(0)).double()
    basis = torch.linalg.qr(torch.randn(12, 12, generator=torch.Generator().manual_seed(1)).double())[0]
    assert float(energy_profile(filters, basis).square().sum()) == pytest.approx(
        float(filters.square().sum())
    )
    measured = first_layer.profile(nn.Conv2d(3, 4, 3), torch.rand(8, 3, 9, 9))
    assert not hasattr(measured, "energy")
    assert torch.allclose(measured.amplitude, energy_profile(measured.filters, measured.pca.basis))
