"""Correlations, nulls, maps and eigenvectors of feature matrices equal their definitions."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from firstlight import models
from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import global_seed
from firstlight.maths import PatchGeometry
from firstlight.maths.filter_similarity import FiltersInSingularBasis, feature_similarity, rotated
from firstlight.measures.feature_ansatz.ansatz import (
    CROSSED,
    FILTERS,
    INITIAL,
    TRAINED,
    ansatz,
    feature_matrix,
)
from firstlight.measures.feature_ansatz.filter_activity import filter_faults
from firstlight.measures.feature_ansatz.layer_maps import (
    layer_maps,
    patch_operator_map,
    sobel_map,
    top_eigenvectors,
)
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.measures.linearized.weight_change import layer_changes
from reference import patch_gradients as reference


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def covariance(g, k, seed, rank=None):
    half = normal(g, rank or k, k, seed=seed)
    return half.mT @ half


@given(g=st.integers(1, 3), k=st.integers(1, 9), d=st.integers(2, 9), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_similarities_equal_those_of_the_full_matrices(g, k, d, seed):
    w, other = normal(g, k, d, seed=seed), normal(g, k + 1, d, seed=seed + 1)
    if k > 2:
        w[:, 1] = w[:, 0]  # rank deficient
    q = covariance(g, k, seed + 2)
    one, two = FiltersInSingularBasis.of(w), FiltersInSingularBasis.of(other)
    agop, features, others = w.mT @ q @ w, w.mT @ w, other.mT @ other
    own = one.similarity(one.inner(q)[None])
    crossed = one.similarity(one.inner(q)[None], two)
    filters = feature_similarity(one, two)
    for found, a, b in ((own, agop, features), (crossed, agop, others), (filters, features, others)):
        assert float(found.cosine) == pytest.approx(reference.cosine(a, b), abs=1e-10)
        assert float(found.pearson) == pytest.approx(reference.pearson(a, b), abs=1e-9)


@given(g=st.integers(1, 3), k=st.integers(1, 6), d=st.integers(1, 7), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_a_rotated_null_keeps_the_spectrum(g, k, d, seed):
    w, q = normal(g, k, d, seed=seed), covariance(g, k, seed)
    left = FiltersInSingularBasis.of(w).left
    draws = rotated(q, left, draws=3, seed=seed)
    if k <= d:  # the frame is then the whole space
        expected = torch.linalg.eigvalsh(q).flatten().sort().values
        for draw in draws:
            found = torch.linalg.eigvalsh(draw).flatten().sort().values
            assert torch.allclose(found, expected, atol=1e-10 * float(expected.max()))
    assert torch.equal(draws, rotated(q, left, draws=3, seed=seed))


def test_rotations_have_no_preferred_direction():
    q = torch.diag(torch.tensor([1.0, 0.0, 0.0, 0.0]).double())[None]
    mean = rotated(q, torch.eye(4).double()[None], draws=2000, seed=0).mean(0)[0]
    # entries of 2000 means of products of unit coordinates: standard errors below 0.006
    assert torch.allclose(mean, torch.eye(4).double() / 4, atol=0.03)


def small(seed=0, classes=3):
    with global_seed("test", seed):
        return nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, groups=2), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, classes),
        ).double()  # fmt: skip


def test_every_pair_equals_its_definition():
    model, initial, x = small(1), small(2), normal(5, 3, 8, 7)
    found = ansatz(model, x, initial=initial)
    for name in ("0", "2", "6"):
        late, early = model.get_submodule(name), initial.get_submodule(name)
        trained, start = reference.feature_matrix(late), reference.feature_matrix(early)
        gradients, first = reference.agop(model, name, x), reference.agop(initial, name, x)
        expected = {
            TRAINED: (trained, gradients), INITIAL: (start, first),
            CROSSED: (start, gradients), FILTERS: (start, trained),
        }  # fmt: skip
        for row in found.rows:
            if row.layer == name:
                assert row.pearson == pytest.approx(reference.pearson(*expected[row.pair]), abs=1e-10)
                assert row.cosine == pytest.approx(reference.cosine(*expected[row.pair]), abs=1e-10)
    assert found.layers == ("0", "2", "6")
    assert [row.is_output for row in found.pair(TRAINED)] == [False, False, True]
    last = found.pair(TRAINED)[-1]
    assert (last.pearson, last.isotropy) == pytest.approx((1.0, 1.0))


def test_isotropic_gradients_make_the_ansatz_true_whatever_was_learned():
    w = FiltersInSingularBasis.of(normal(1, 5, 7))
    found = w.similarity(w.inner(3 * torch.eye(5).double()[None])[None])
    assert float(found.pearson) == pytest.approx(1.0, abs=1e-12)


def test_the_standard_error_is_that_of_fresh_images():
    model = small(3)
    rows = [ansatz(model, normal(48, 3, 8, 7, seed=s)).pair(TRAINED)[0] for s in range(24)]
    spread = torch.tensor([row.pearson for row in rows]).std()
    stated = torch.tensor([row.pearson_error for row in rows]).mean()
    # 24 values give the spread to within 15 percent (one sigma); the jackknife over 8 sets is a bit rough
    assert 0.5 < float(stated / spread) < 2.0


def test_a_single_image_has_no_standard_error():
    row = ansatz(small(), normal(1, 3, 8, 7)).pair(TRAINED)[0]
    assert math.isnan(row.pearson_error)
    assert math.isfinite(row.pearson)


def test_layers_without_variation_are_left_out_by_name():
    model = small()
    model[0].weight.data.zero_()
    found = ansatz(model, normal(3, 3, 8, 7))
    assert "0" not in found.layers
    assert "vanish" in found.skipped["0"]


def test_another_architecture_is_no_start():
    with pytest.raises(InvalidInput, match="must have the architecture of the model"):
        ansatz(small(), normal(2, 3, 8, 7), initial=small(classes=4))
    with pytest.raises(InvalidInput, match="no number without its null"):
        ansatz(small(), normal(2, 3, 8, 7), draws=0)


@pytest.mark.parametrize("kind", ["features", "gradients"])
def test_eigenvectors_are_those_of_the_full_matrix(kind):
    layer = patch_gradients(small(), normal(4, 3, 8, 7))["0"]
    found = top_eigenvectors(layer, kind=kind, count=4)
    matrix = (layer.agop if kind == "gradients" else layer.feature_matrix)[0]
    rows = found.vectors.flatten(1)
    assert torch.allclose(rows @ rows.T, torch.eye(4).double(), atol=1e-10)
    expected = found.values[:, None] * matrix.trace() * rows
    assert torch.allclose(rows @ matrix, expected, atol=1e-10 * float(matrix.trace()))


def test_maps_of_a_layer_equal_the_patch_operator():
    model, x = small(), normal(2, 3, 8, 7)
    layers = patch_gradients(model, x).layers
    first, second = layer_maps(model, layers, x)
    geometry = PatchGeometry.square(3, padding=1)
    assert torch.allclose(
        first.features, patch_operator_map(feature_matrix(model[0]), x, geometry), atol=1e-10
    )
    assert torch.allclose(first.gradients, patch_operator_map(layers[0].agop[0], x, geometry), atol=1e-8)
    assert second.features.shape == (2, 6, 5)


def test_grouped_maps_equal_their_definition():
    model, x = small(), normal(2, 3, 8, 7)
    layer = patch_gradients(model, x)["2"]
    found = layer_maps(model, [layer], x)[0]
    h = model[:2](x)
    patches = reference.patches_of(model[2], h)
    expected = torch.einsum("npga,gab,npgb->np", patches, layer.agop, patches).sqrt()
    assert torch.allclose(found.gradients.flatten(1), expected, atol=1e-10)


def test_an_edge_is_where_sobel_says():
    image = torch.zeros(1, 1, 6, 6)
    image[..., 3:] = 1
    assert sobel_map(image)[0, 2].tolist() == [0, 0, 4, 4, 0, 0]


def test_dead_duplicate_and_mirrored_filters_are_found():
    model = small()
    w = model[0].weight.data
    w[1] = 2 * w[0]
    w[2] = -w[3]
    w[4] = 0
    layer = patch_gradients(model, normal(3, 3, 8, 7))["0"]
    active = torch.tensor([True, True, False, True, True, False])
    found = filter_faults(layer.filters, active, name="0")
    assert found.duplicates == ((0, 1),)
    assert found.mirrored == 1
    assert set(found.dead) == {2, 4, 5}
    assert found.n_superfluous == 1


def test_distances_from_a_start():
    start = {"a": normal(1, 4, 5, seed=1)}
    (same,) = layer_changes(start, start)
    assert (same.distance, same.growth, same.cosine) == pytest.approx((0, 1, 1))
    (moved,) = layer_changes({"a": -2 * start["a"]}, start)
    assert (moved.distance, moved.growth, moved.cosine) == pytest.approx((3, 2, -1))
    (flat,) = layer_changes({"a": torch.ones(1, 4, 5).double()}, start)
    assert flat.effective_rank == pytest.approx(1)
    with pytest.raises(InvalidInput, match="must not start from zero"):
        layer_changes(start, {"a": 0 * start["a"]})


def test_the_null_equals_the_measurement_at_the_start_of_a_real_network():
    model = models.build("pooling_max", initialiser="pooling_study", channels=16, shape=(3, 16, 16)).double()
    rows = ansatz(model, normal(16, 3, 16, 16)).pair(TRAINED, hidden=True)
    for row in rows:
        assert abs(row.excess) < 0.1
