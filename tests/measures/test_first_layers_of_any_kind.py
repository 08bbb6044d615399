"""Profiles of first layers over signals, volumes and tokens equal their definition, patch by patch."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from firstlight._internal.errors import InvalidInput
from firstlight.measures.first_layer.energy_profile import profile
from reference.patches import naive_covariance
from reference.profiles import naive_profile

GEOMETRY = st.fixed_dictionaries(
    {"stride": st.integers(1, 2), "padding": st.integers(0, 1), "dilation": st.integers(1, 2)}
)


def naive_windows(x, layer):
    """Every patch below a filter, one after the other."""
    dims = x.ndim - 2
    padded = functional.pad(x, [side for p in reversed(layer.padding) for side in (p, p)])
    rows = []
    for image in padded:
        counts = [
            (length - d * (k - 1) - 1) // s + 1
            for length, k, s, d in zip(
                image.shape[1:], layer.kernel_size, layer.stride, layer.dilation, strict=True
            )
        ]
        for place in product(*(range(count) for count in counts)):
            window = image
            for axis in range(dims):
                at = [
                    place[axis] * layer.stride[axis] + i * layer.dilation[axis]
                    for i in range(layer.kernel_size[axis])
                ]
                window = window.index_select(axis + 1, torch.tensor(at))
            rows.append(window.flatten())
    return torch.stack(rows)


def expected(patches, filters):
    _, covariance = naive_covariance(patches.numpy())
    values, vectors = torch.linalg.eigh(torch.from_numpy(covariance))
    energies = naive_profile(filters.numpy(), vectors.flip(1).numpy())
    return torch.tensor(energies, dtype=torch.float64), values.flip(0)


def compare(model, x, patches, filters):
    measured = profile(model, x)
    energy, variances = expected(patches, filters)
    size = len(measured.amplitude)
    torch.testing.assert_close(measured.pca.variances, variances[:size], atol=1e-10, rtol=1e-8)
    torch.testing.assert_close(measured.amplitude, energy[:size], atol=1e-6, rtol=1e-6)


@settings(max_examples=12, deadline=None)
@given(geometry=GEOMETRY, channels=st.integers(1, 3), width=st.integers(1, 4), seed=st.integers(0, 99))
def test_a_profile_over_signals_equals_the_definition(geometry, channels, width, seed):
    torch.manual_seed(seed)
    layer = nn.Conv1d(channels, 3, width, **geometry).double()
    x = torch.randn(7, channels, 19, dtype=torch.float64)
    compare(nn.Sequential(layer, nn.ReLU()), x, naive_windows(x, layer), layer.weight.detach().flatten(1))


@settings(max_examples=8, deadline=None)
@given(geometry=GEOMETRY, depth=st.integers(1, 3), seed=st.integers(0, 99))
def test_a_profile_over_volumes_equals_the_definition(geometry, depth, seed):
    torch.manual_seed(seed)
    layer = nn.Conv3d(2, 3, (depth, 2, 1), **geometry).double()
    x = torch.randn(5, 2, 6, 5, 4, dtype=torch.float64)
    compare(nn.Sequential(layer, nn.ReLU()), x, naive_windows(x, layer), layer.weight.detach().flatten(1))


class Embeds(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.embed = nn.Linear(12, 5, bias=bias).double()

    def forward(self, x):
        return self.embed(functional.unfold(x, 2, stride=2).mT).mean(1)


@pytest.mark.parametrize("bias", [True, False])
def test_a_profile_over_tokens_equals_the_definition(bias):
    torch.manual_seed(0)
    model, x = Embeds(bias), torch.randn(6, 3, 8, 8, dtype=torch.float64)
    tokens = functional.unfold(x, 2, stride=2).mT.reshape(-1, 12)
    compare(model, x, tokens, model.embed.weight.detach())
    assert profile(model, x).layer.name == "embed.weight"


def test_groups_see_only_their_channels():
    torch.manual_seed(0)
    layer = nn.Conv3d(4, 4, 2, groups=2).double()
    x = torch.randn(5, 4, 4, 4, 4, dtype=torch.float64)
    filters = torch.zeros(4, 4, 8, dtype=torch.float64)
    filters[:2, :2], filters[2:, 2:] = (
        layer.weight.detach().flatten(2)[rows] for rows in (slice(2), slice(2, 4))
    )
    compare(nn.Sequential(layer), x, naive_windows(x, layer), filters.flatten(1))


def test_filters_alone_have_the_profile_of_a_layer_with_them():
    signals, images = torch.randn(6, 4, 20), torch.randn(6, 4, 9, 8)
    for layer, x in ((nn.Conv1d(4, 6, 5, groups=2), signals), (nn.Conv2d(4, 6, 3, groups=2), images)):
        alone, model = profile(layer.weight, x), profile(nn.Sequential(layer), x)
        assert torch.equal(alone.amplitude, model.amplitude)
    with pytest.raises(InvalidInput, match=r"shaped as the weight of a convolution over the data"):
        profile(torch.randn(6, 3, 3, 3), images)


def test_subtracting_the_initial_layer_gives_the_profile_of_the_update():
    torch.manual_seed(0)
    x, before, after = torch.randn(8, 2, 20), nn.Conv1d(2, 3, 4), nn.Conv1d(2, 3, 4)
    update = nn.Conv1d(2, 3, 4)
    update.weight.data = after.weight.data.double().sub(before.weight.data.double()).float()
    models = [nn.Sequential(layer) for layer in (before, after, update)]
    moved = profile(models[1], x, subtract=models[0]).amplitude
    torch.testing.assert_close(moved, profile(models[2], x).amplitude, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(moved, profile(models[1], x, subtract=before.weight.detach()).amplitude)


@pytest.mark.parametrize(
    ("model", "x", "says"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(40, 3)), torch.randn(4, 2, 20), "met neither"),
        (nn.Sequential(nn.ConvTranspose1d(2, 3, 3)), torch.randn(4, 2, 20), "must not be transposed"),
        (nn.Sequential(nn.Conv1d(5, 3, 3)), torch.randn(4, 2, 20), "takes 5 channels; these inputs bring 2"),
        (nn.Sequential(nn.Conv1d(2, 3, 3)), torch.randn(0, 2, 20), "at least one"),
        (nn.Sequential(nn.Conv1d(2, 3, 3)), torch.randn(4, 2), "images, signals or volumes"),
    ],
)
def test_what_has_no_profile_is_refused(model, x, says):
    with pytest.raises(InvalidInput, match=says):
        profile(model, x)
