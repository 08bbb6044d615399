import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from firstlight import data
from firstlight._internal.errors import InvalidInput
from firstlight.data.images import ImageData
from firstlight.maths import ranks
from firstlight.maths.correlation import roc_area
from firstlight.measures.learning_order.accessibility import (
    AccessibilityRecorder,
    RecordAccessibility,
    history_of,
)
from firstlight.models import ModelSpec
from firstlight.pages.page import Page, render
from firstlight.questions.order.measure import (
    label_suspicion,
    learning_order,
)
from firstlight.questions.order.page import order_sections
from firstlight.questions.order.tour_part import order_from_training
from firstlight.training import Recipe, train_ensemble
from reference.data_files import write_class_folders


def clusters(n=120, wrong=0.05):
    """Two clouds with some labels planted wrong."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    centre = (2 * y.float() - 1)[:, None, None, None] * torch.tensor([1.0, 0.5, 0.2, 0.1]).reshape(1, 1, 2, 2)
    x = centre + 0.4 * torch.randn(n, 1, 2, 2, generator=generator)
    flipped = torch.zeros(n, dtype=torch.bool)
    flipped[torch.randperm(n, generator=generator)[: int(wrong * n)]] = True
    return ImageData(x, torch.where(flipped, 1 - y, y), ("a", "b")), flipped


@pytest.fixture(scope="module")
def trained():
    data, flipped = clusters()
    spec = ModelSpec(name="fcn", classes=2, shape=data.shape, options={"units": 16, "depth": 2})
    recipe = Recipe(lr=0.02, batch_size=16, epochs=6)
    nets = train_ensemble(spec, 6, data, recipe, observe=RecordAccessibility(data.x, data.y), show=False)
    return data, flipped, history_of([net.records[0] for net in nets])


def test_planted_label_errors_are_found(trained):
    data, flipped, history = trained
    report = learning_order(history, data, n_shown=6)
    assert roc_area(report.suspicion, flipped) > 0.95
    assert int(flipped[report.suspects.index].sum()) >= 5
    assert roc_area(-report.scores, flipped) > 0.9


def test_suspicion_is_ranked_lateness_and_ranked_neighbours_by_angle(trained):
    data, _, history = trained
    generator = torch.Generator().manual_seed(1)
    spaces = [torch.randn(len(data), size, generator=generator).double() for size in (5, 3)]
    found = label_suspicion([history.scores], data, features=spaces, k=7, weight=0.4)
    units = [space / space.norm(dim=1, keepdim=True) for space in spaces]
    near = sum(unit @ unit.T for unit in units).fill_diagonal_(-torch.inf)
    other = (data.y[near.topk(7).indices] != data.y[:, None]).double().mean(1)
    expected = 0.6 * (ranks(-history.scores) - 1) + 0.4 * (ranks(other) - 1)
    torch.testing.assert_close(found, expected / (len(data) - 1))
    alone = label_suspicion([history.scores], data, features=spaces[0])
    assert torch.equal(alone, label_suspicion([history.scores], data, features=spaces[:1]))
    pixels = label_suspicion([history.scores], data)
    assert torch.equal(pixels, label_suspicion([history.scores], data, features=[]))
    with pytest.raises(InvalidInput, match="one row for each of the 120 images; got \\(119, 3\\)"):
        label_suspicion([history.scores], data, features=[spaces[0], spaces[1][:-1]])


def test_earliest_and_latest_are_the_ends_of_the_order(trained):
    data, _, history = trained
    report = learning_order(history, data, n_shown=5)
    assert report.scores[report.earliest.index].min() >= report.scores.sort(descending=True).values[4]
    assert report.scores[report.latest.index].max() <= report.scores.sort().values[4]
    assert report.earliest.images.shape == (5, 1, 2, 2)
    assert 0 <= report.latest.images.min() <= report.latest.images.max() <= 1
    assert report.latest.labels == tuple(data.classes[int(y)] for y in data.y[report.latest.index])


def test_cheap_scores_predict_the_order_better_than_the_control(trained):
    data, _, history = trained
    report = learning_order(history, data)
    control = report.correlations["contrast (control)"]
    assert report.correlations["discriminability in pixels"].pointwise.value > 0.8
    assert abs(control.pointwise.value) < 0.4
    assert report.best_predictor != "contrast (control)"
    assert report.constancy.value.value > 0.5
    assert report.constancy.fastest is not None


def test_one_network_gives_a_report_without_constancy(trained):
    data, _, history = trained
    assert learning_order(history.networks([0]), data).constancy is None
    assert learning_order([history.networks([0]), history.networks([1])], data).constancy is not None


def test_a_report_takes_any_labelled_images_in_their_order(trained):
    data, _, history = trained
    expected = learning_order(history, data, n_shown=6)
    held = TensorDataset(data.x, data.y)
    rows = [{"image": x, "label": int(y)} for x, y in zip(data.x, data.y, strict=True)]
    for form in (held, DataLoader(held, batch_size=7), (data.x.numpy(), data.y.numpy()), rows):
        report = learning_order(history, form, n_shown=6)
        assert torch.equal(report.suspects.index, expected.suspects.index)
        assert torch.equal(report.suspicion, expected.suspicion)
    with pytest.raises(InvalidInput, match="must have labels"):
        learning_order(history, data.x)
    with pytest.raises(InvalidInput, match="this DataLoader shuffles"):
        learning_order(history, DataLoader(held, shuffle=True))


def test_a_history_of_other_examples_is_refused(trained):
    data, _, _ = trained
    recorder = AccessibilityRecorder(None, torch.zeros(3).long())
    recorder.batch(torch.zeros(3, 2), torch.arange(3))
    recorder.end_epoch()
    with pytest.raises(InvalidInput, match="follow the 120"):
        learning_order(recorder.history(), data)


def test_separation_is_the_chance_of_telling_a_pair_apart():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(5, (40,), generator=generator).double()
    wrong = torch.rand(40, generator=generator) < 0.3
    pairs = [(float(a > b) + 0.5 * float(a == b)) for a in scores[wrong] for b in scores[~wrong]]
    assert roc_area(scores, wrong) == pytest.approx(sum(pairs) / len(pairs))
    with pytest.raises(InvalidInput, match="mark some"):
        roc_area(scores, torch.zeros(40, dtype=torch.bool))


def tour_of(train, n_networks=1, n_predicted=60):
    """The order in which small networks learn some photographs within two epochs."""
    spec = ModelSpec(name="small", classes=train.n_classes, shape=train.shape, options={"width": 0.25})
    observe = RecordAccessibility(train.x, train.y, name="order")
    trained = train_ensemble(spec, n_networks, train, Recipe(epochs=2), observe=observe, n_jobs=1, show=False)
    histories = [history_of([network.records[0]]) for network in trained]
    return order_from_training(histories, train, recipe="two epochs", n_predicted=n_predicted, n_shown=8)


def test_the_order_becomes_a_page_and_says_where_networks_are_too_few():
    train = data.load("photos", n=60)
    tour = tour_of(train, n_networks=3)
    assert tour.n_images == 60
    page = render(Page(title="order", lead=(), sections=order_sections(tour)))
    assert "learned first" in page
    assert "Doubtful labels" in page
    assert "too few networks" in order_sections(tour_of(train))[1].answer


def test_images_of_the_tour_are_those_of_the_caller():
    # a sample is drawn inside: its own numbering must not leak out
    train = data.load("photos", split="train", n=60, seed=3)
    tour = tour_of(train, n_predicted=30)
    everything = data.load("photos", split="train", seed=3)
    for shown in (tour.report.earliest, tour.report.latest, tour.report.suspects):
        assert torch.equal(shown.images, train.x[shown.index])
        assert shown.labels == tuple(train.classes[int(y)] for y in train.y[shown.index])
        assert torch.equal(shown.images, everything.x[shown.position])
    assert float(tour.report.scores.max()) == float(tour.report.scores[tour.report.earliest.index[0]])


def test_suspects_name_their_files(tmp_path):
    write_class_folders(tmp_path, {"cat": 12, "dog": 12}, size=(16, 16))
    train = data.load(str(tmp_path), n=20, seed=1)
    tour = tour_of(train, n_predicted=16)
    shown = tour.report.suspects
    assert shown.files == tuple(train.files[i] for i in shown.index.tolist())
    assert all(file.split("/")[-2] == label for file, label in zip(shown.files, shown.labels, strict=True))
    page = render(Page(title="t", lead=(), sections=order_sections(tour)))
    assert shown.files[0].split("/")[-1] in page
