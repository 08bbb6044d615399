"""Doubtful labels: planted errors are found, chance is refused, indices are the caller's."""

import csv

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight.data.images import ImageData
from firstlight.maths.correlation import share_interval
from firstlight.measures.learning_order.accessibility import AccessibilityRecorder
from firstlight.questions.labels import networks
from firstlight.questions.labels.measure import _most_wrong, _planted, check_labels
from firstlight.questions.labels.networks import (
    LabelNetworks,
    _moved,
    _parts,
    neighbour_shares,
    plan_networks,
)
from firstlight.questions.labels.record import check_record
from reference import learning_order as reference

SWAPPED = (3, 40, 77, 110)


def stripes(n=120, *, swapped=SWAPPED, noise=0.15, seed=0):
    """Bright above or bright below, some with the other label."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 2
    x = noise * torch.rand(n, 1, 8, 8, generator=generator)
    x[y == 0, :, :4] += 0.7
    x[y == 1, :, 4:] += 0.7
    labels = y.clone()
    labels[list(swapped)] = 1 - labels[list(swapped)]
    return ImageData(x, labels, ("above", "below"), {"name": "stripes"})


@pytest.fixture(scope="module")
def check():
    return check_labels(stripes(), epochs=8, n_jobs=1, show=False)


def test_swapped_labels_are_the_most_suspicious_and_get_their_class_back(check):
    first = check.suspicion.argsort(descending=True)[: len(SWAPPED)]
    assert set(first.tolist()) == set(SWAPPED)
    assert set(check.suspects.index.tolist()[: len(SWAPPED)]) == set(SWAPPED)
    for index in SWAPPED:
        assert check.likely_name(index) == check.classes[1 - int(check.labels[index])]
        assert f"say {check.likely_name(index)}" in check.reason(index)


def test_what_the_list_is_worth_is_measured_by_labels_changed_on_purpose(check):
    planted = check.planted
    assert planted.n == 10
    assert planted.separation > 0.95
    assert planted.chance == pytest.approx(0.05)
    assert planted.found.low > planted.chance
    assert planted.most_wrong >= len(SWAPPED) / 120 / 2
    assert check.learned


def test_indices_refer_to_the_images_that_were_given():
    data = stripes()
    order = torch.randperm(120, generator=torch.Generator().manual_seed(1))
    shuffled = data.take(order)
    check = check_labels(shuffled, epochs=8, n_jobs=1, show=False)
    first = check.suspects.index[: len(SWAPPED)]
    assert set(order[first].tolist()) == set(SWAPPED)
    assert set(check.suspects.position[: len(SWAPPED)].tolist()) == set(SWAPPED)
    assert torch.equal(shuffled.y, check.labels)


def test_labels_without_meaning_lead_to_no_suspects(tmp_path):
    noise = torch.rand(80, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, 2, (80,), generator=torch.Generator().manual_seed(1))
    check = check_labels(ImageData(noise, labels, ("a", "b")), epochs=2, n_jobs=1, show=False)
    assert not check.learned
    assert len(check.suspects.index) == 0
    rows = check.write_csv(tmp_path / "none.csv").read_text().splitlines()
    assert rows == [
        "index,label,likely_label,suspicion,reason,accessibility,confidence,likely_confidence,neighbours"
    ]


class Wrapped(nn.Module):
    """A network that returns a dictionary, without a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 8)

    def forward(self, x):
        return {"logits": self.conv(x)}


def test_ones_own_network_may_return_a_dictionary_and_have_no_linear_layer():
    check = check_labels(stripes(), Wrapped, epochs=20, n_jobs=1, show=False)
    assert set(check.suspects.index.tolist()[: len(SWAPPED)]) == set(SWAPPED)
    assert check.neighbours.isnan().all()


def test_the_same_seed_gives_the_same_answer(check):
    again = check_labels(stripes(), epochs=8, n_jobs=1, show=False)
    assert torch.equal(check.suspicion, again.suspicion)


def test_a_record_of_ones_own_training_names_the_same_images(tmp_path):
    data = stripes()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    recorder = AccessibilityRecorder(data.x, data.y, keep_margins=True)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(6):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(data.x), data.y).backward()
            optimiser.step()
            recorder.record(model)
    record = recorder.write_csv(tmp_path / "record.csv")
    check = check_record(data, record)
    assert set(check.suspects.index.tolist()[: len(SWAPPED)]) == set(SWAPPED)
    assert check.planted is None
    with pytest.raises(InvalidInput, match="same order with the same labels"):
        check_record(stripes(swapped=()), record)
    (tmp_path / "broken.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInput, match="columns label and accessibility"):
        check_record(data, tmp_path / "broken.csv")


@given(st.integers(3, 12), st.integers(1, 4), st.integers(2, 4), st.integers(0, 100))
def test_neighbour_shares_equal_their_definition(n, width, n_classes, seed):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, width + 1, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, n_classes, (n,), generator=generator)
    expected = reference.neighbour_shares(features, labels, n_classes, k=2)
    torch.testing.assert_close(neighbour_shares(features, labels, n_classes, k=2), expected)


@given(st.integers(2, 5), st.integers(0, 100))
def test_planted_labels_are_wrong_and_differ_between_the_groups(n_classes, seed):
    data = ImageData(torch.zeros(100, 1, 2, 2), torch.arange(100) % n_classes, tuple("abcdefg"))
    label_sets, planted = _planted(data, seed=seed)
    assert torch.equal(label_sets != data.y, planted)
    assert not planted.all(0).any()
    assert int(label_sets.max()) < n_classes


def test_every_class_is_spread_over_the_folds():
    labels = torch.tensor([0] * 10 + [1] * 6)
    part = _parts(labels, 2, seed=0)
    assert [int(part[labels == c].sum()) for c in (0, 1)] == [5, 3]


def test_images_move_but_keep_their_pixels():
    x = torch.arange(2.0 * 1 * 9 * 9).reshape(2, 1, 9, 9)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        moved = _moved(x, mirrored=True)
    assert moved.shape == x.shape
    assert set(moved.flatten().tolist()) <= set(x.flatten().tolist())


def test_no_labels_can_be_wrong_if_none_looks_like_a_wrong_one():
    assert _most_wrong(torch.full((100,), 0.9), torch.full((900,), 0.1)) < 0.005
    mixed = torch.cat([torch.full((90,), 0.9), torch.full((810,), 0.1)])
    assert 0.1 <= _most_wrong(torch.full((100,), 0.9), mixed) < 0.13


def test_the_bound_on_wrong_labels_holds_for_nearly_all_draws():
    generator = torch.Generator().manual_seed(0)

    def drawn(n, *, wrong):
        return torch.rand(n, generator=generator, dtype=torch.float64) ** (0.2 if wrong else 1.0)

    held = [
        _most_wrong(drawn(16, wrong=True), torch.cat([drawn(40, wrong=True), drawn(740, wrong=False)]))
        >= 40 / 780
        for _ in range(200)
    ]
    assert sum(held) >= 190


def test_a_budget_limits_the_epochs_or_says_what_is_needed():
    data = stripes()
    options = {"epochs": None, "n_networks": 4, "seed": 0}
    free, _ = plan_networks(data, None, budget=None, **options)
    assert isinstance(free, LabelNetworks)
    assert plan_networks(data, None, budget=1e6, **options)[0].epochs == free.epochs
    with pytest.raises(InvalidInput, match=r"`budget` must allow 3 epochs.* Give more time, smaller images"):
        plan_networks(data, None, budget=1e-6, **options)


def test_a_budget_that_is_short_says_how_many_images_fit(monkeypatch):
    data = stripes()
    monkeypatch.setattr(networks, "_seconds_an_image", lambda *_: 1.0)
    monkeypatch.setattr(networks, "default_jobs", lambda: 4)
    # of the seconds of three epochs; no whole number of images fits exactly
    budget = 0.52 * 3 * 0.7 * len(data) / networks.TRAINING_SHARE
    with pytest.raises(InvalidInput, match="--n 56 fits: so many images"):
        plan_networks(data, None, budget=budget, epochs=None, n_networks=4, seed=0)
    plan_networks(data.sample(56, seed=0), None, budget=budget, epochs=None, n_networks=4, seed=0)


def test_a_budget_counts_steps_as_training_takes_them_and_leaves_time_for_the_rest(monkeypatch):
    data, taken = stripes(), []
    monkeypatch.setattr(networks, "train", lambda model, x, y, recipe, **_: taken.append((len(x), recipe)))
    monkeypatch.setattr(networks.time, "perf_counter", iter(range(100)).__next__)  # a second for two steps
    monkeypatch.setattr(networks, "default_jobs", lambda: 4)
    planned, _ = plan_networks(data, None, budget=1000.0, epochs=None, n_networks=4, seed=0)
    size = planned.recipe(0, len(data) // 2).batch_size
    assert {(n, recipe.batch_size) for n, recipe in taken} == {(2 * size, size)}
    an_epoch = 0.7 * len(data) / (2 * size)
    for epochs in (3, 5):
        budget = 1.01 * epochs * an_epoch / 0.8
        assert plan_networks(data, None, budget=budget, epochs=None, n_networks=4, seed=0)[0].epochs == epochs


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: check_labels(stripes(20, swapped=())), "at least 40 images"),
        (lambda: check_labels(stripes().replace(y=torch.zeros(120).long())), "two classes"),
        (lambda: check_labels(torch.rand(50, 1, 8, 8)), "must have labels"),
        (lambda: check_labels(stripes(), top=0), "at least 1"),
        (lambda: check_labels(stripes(), "lenett"), "Did you mean 'lenet'"),
    ],
)
def test_bad_input_is_refused_in_words(act, words):
    with pytest.raises(InvalidInput, match=words):
        act()


def test_a_network_with_too_few_outputs_is_refused():
    data = stripes()
    three = data.replace(y=torch.arange(120) % 3, classes=("a", "b", "c"))
    with pytest.raises(InvalidInput, match="one output for each of the 3 classes"):
        check_labels(three, Wrapped, epochs=1, n_jobs=1, show=False)


def test_shares_have_wilsons_interval():
    full = share_interval(10, 10)
    assert full.value == full.high == 1
    assert full.low == pytest.approx(0.7225, abs=1e-4)


def test_the_table_names_every_image_the_most_suspicious_first(check, tmp_path):
    with check.write_csv(tmp_path / "all.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 120
    assert {int(row["index"]) for row in rows[: len(SWAPPED)]} == set(SWAPPED)
    suspicion = [float(row["suspicion"]) for row in rows]
    assert suspicion == sorted(suspicion, reverse=True)
