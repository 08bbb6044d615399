import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight._internal.store import decode, encode
from firstlight.data.images import ImageData
from firstlight.data.interventions import random_labels, shuffled_labels
from firstlight.maths import PatchGeometry, extract_patches, image_pca, patch_pca
from reproduce.studies.first_layer.patch_labels import PatchProjectionLabels
from reproduce.studies.learning_order.separator_labels import SeparatorLabels


def pictures(n=80, *, seed=0, n_classes=2):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, 5, 4, generator=generator, dtype=torch.float64).cumsum(-1).cumsum(-2)
    y = torch.randint(n_classes, (n,), generator=generator)
    x[:, 0] += y[:, None, None]
    return ImageData(x, y, tuple("abcdefgh"[:n_classes]), {"name": "test"})


def names(data):
    return [note["name"] for note in data.meta["interventions"]]


@given(st.integers(1, 50), st.integers(1, 8), st.integers(0, 99))
def test_shuffling_keeps_the_class_counts_and_the_images(n, n_classes, seed):
    data = pictures(n, n_classes=n_classes)
    shuffled = shuffled_labels(data, seed=seed)
    assert torch.equal(shuffled.counts, data.counts)
    assert torch.equal(shuffled.x, data.x)
    assert names(shuffled) == ["shuffled_labels"]


@pytest.mark.parametrize("change", [random_labels, shuffled_labels])
def test_the_same_seed_gives_the_same_labels(change):
    data = pictures(100, n_classes=5)
    assert torch.equal(change(data, seed=3).y, change(data, seed=3).y)
    assert not torch.equal(change(data, seed=3).y, change(data, seed=4).y)


def test_random_labels_are_uniform_over_all_classes_whatever_the_true_counts():
    data = pictures(8000, n_classes=8).replace(y=torch.zeros(8000).long())
    counts = random_labels(data, seed=0).counts
    # chi-squared with 7 degrees of freedom at the 0.1 % level
    assert float(((counts - 1000) ** 2 / 1000).sum()) < 24.3
    assert names(random_labels(data, seed=0)) == ["random_labels"]


@pytest.mark.parametrize("start", ["true", "shuffled"])
@given(st.integers(1, 40), st.integers(0, 20))
def test_relabelled_images_are_separable_in_those_components(start, p, seed):
    # with classes of equal size the scores have mean zero, so both sides are never empty
    train = pictures(seed=seed).replace(y=torch.arange(80) % 2)
    transform = SeparatorLabels.fit(train, p, start=start, seed=seed)
    relabelled = transform.transform(train)
    coordinates = image_pca(train.x).truncated(p).project(train.x.flatten(1))
    scores = coordinates @ transform.weights + transform.bias
    assert torch.equal(relabelled.y, (scores > 0).long())
    assert 0 < relabelled.y.sum() < len(train)
    assert float((relabelled.y == train.y).double().mean()) == pytest.approx(transform.agreement)


def test_the_plane_is_least_squares():
    train = pictures()
    transform = SeparatorLabels.fit(train, 6)
    z = image_pca(train.x).truncated(6).project(train.x.flatten(1))
    design = torch.cat([z, torch.ones(80, 1, dtype=torch.float64)], 1)
    solution = torch.linalg.lstsq(design, 2.0 * train.y[:, None].double() - 1).solution.flatten()
    torch.testing.assert_close(transform.weights, solution[:6], rtol=0, atol=1e-10)
    assert transform.bias == pytest.approx(float(solution[6]), abs=1e-10)


def test_a_ridge_shrinks_the_plane():
    train = pictures()
    plain, firm = (SeparatorLabels.fit(train, 10, ridge=r).weights.norm() for r in (0.0, 1.0))
    assert firm < plain


def test_true_labels_survive_better_than_shuffled_ones():
    train = pictures(400)
    kept = SeparatorLabels.fit(train, 20).agreement
    chance = [SeparatorLabels.fit(train, 20, start="shuffled", seed=s).agreement for s in range(5)]
    assert kept > 0.6
    assert all(abs(c - 0.5) < 0.15 for c in chance)


def test_other_splits_are_cut_by_the_same_plane():
    train, test = pictures(), pictures(30, seed=9)
    transform = SeparatorLabels.fit(train, 5)
    relabelled = transform.transform(test)
    alone = transform.transform(test.take(torch.tensor([3])))
    assert relabelled.y[3] == alone.y[0]
    assert names(relabelled) == ["separator_labels"]
    assert torch.equal(decode(*encode(transform)).transform(test).y, relabelled.y)


def test_separators_refuse_more_or_fewer_than_two_classes():
    with pytest.raises(InvalidInput, match="must have 2 classes; got 3"):
        SeparatorLabels.fit(pictures(n_classes=3), 4)
    with pytest.raises(InvalidInput, match="must have 2 classes; got 3"):
        SeparatorLabels.fit(pictures(), 4).transform(pictures(n_classes=3))


def test_a_separator_that_separates_nothing_is_refused():
    train = pictures(400).replace(y=(torch.arange(400) == 0).long())
    with pytest.raises(InvalidInput, match="all images on one side"):
        SeparatorLabels.fit(train, 1)


def test_a_negative_ridge_is_refused():
    with pytest.raises(InvalidInput, match=r"ridge=-1\.0"):
        SeparatorLabels.fit(pictures(), 4, ridge=-1.0)


GEOMETRY = PatchGeometry.square(2)


@given(st.integers(10, 60), st.integers(2, 10), st.integers(0, 7), st.integers(0, 20))
def test_blocks_are_equal_and_sorted_by_the_projection(n, n_classes, component, seed):
    train = pictures(n, seed=seed)
    pca = patch_pca(train.x, GEOMETRY)
    labelled = PatchProjectionLabels.fit(train, pca, GEOMETRY, component, n_classes=n_classes).transform(
        train
    )
    assert int(labelled.counts.max() - labelled.counts.min()) <= 1
    values = (extract_patches(train.x, GEOMETRY).mean(1) @ pca.basis[:, component]).abs()
    sorted_labels = labelled.y[values.argsort(descending=True)]
    assert (sorted_labels.diff() >= 0).all()
    assert labelled.n_classes == n_classes


def test_projection_labels_of_another_split_use_the_training_cuts():
    train, test = pictures(), pictures(30, seed=4)
    pca = patch_pca(train.x, GEOMETRY)
    transform = PatchProjectionLabels.fit(train, pca, GEOMETRY, 0, n_classes=4)
    labelled = transform.transform(test)
    assert transform.transform(test.take(torch.tensor([7]))).y[0] == labelled.y[7]
    note = labelled.meta["interventions"][-1]
    assert (note["name"], note["component"]) == ("patch_projection_labels", 0)


@pytest.mark.parametrize(
    ("geometry", "component", "n_classes", "message"),
    [
        (GEOMETRY, 8, 4, "component=8"),
        (GEOMETRY, 0, 81, "n_classes=81"),
        (PatchGeometry.square(3), 0, 4, "patches of 18 numbers.*got 8"),
    ],
)
def test_impossible_projection_labels_are_refused(geometry, component, n_classes, message):
    train = pictures()
    pca = patch_pca(train.x, GEOMETRY)
    with pytest.raises(InvalidInput, match=message):
        PatchProjectionLabels.fit(train, pca, geometry, component, n_classes=n_classes)
