import csv

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight.data.images import ImageData
from firstlight.measures.learning_order.accessibility import (
    AccessibilityCallback,
    AccessibilityRecorder,
    RecordAccessibility,
    history_of,
)
from firstlight.models import ModelSpec
from firstlight.training import Recipe, train, train_ensemble
from reference import learning_order as reference
from reference.learning_order import accessibility as by_definition


class Answers(nn.Module):
    """A network that answers as it is told."""

    def __init__(self, right, labels):
        super().__init__()
        self.scores = nn.functional.one_hot(torch.where(right, labels, 1 - labels), 2).double()

    def forward(self, x):
        return self.scores[x[:, 0].long()]


def recorded(correct):
    nets, epochs, n = correct.shape
    labels = torch.arange(n) % 2
    x = torch.arange(n)[:, None].double()
    records = []
    for net in range(nets):
        recorder = AccessibilityRecorder(x, labels, batch_size=3)
        for epoch in range(epochs):
            recorder.record(Answers(correct[net, epoch], labels))
        records.append(recorder.state_dict())
    return history_of(records)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 19), st.integers(0, 1000))
def test_scores_equal_their_definition_and_bits_are_kept(nets, epochs, n, seed):
    correct = torch.rand(nets, epochs, n, generator=torch.Generator().manual_seed(seed)) < 0.6
    history = recorded(correct)
    assert torch.equal(history.correct, correct)
    torch.testing.assert_close(history.scores, by_definition(correct), rtol=0, atol=1e-12)
    torch.testing.assert_close(history.accuracy, correct.double().mean(2))
    assert history.bits.shape[2] == -(-n // 8)
    assert torch.equal(history.forgetting, reference.forgetting(correct))


def test_a_record_of_training_outputs_equals_one_of_a_forward_pass():
    labels = torch.tensor([0, 1, 1, 0, 1])
    outputs = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    passed = AccessibilityRecorder(torch.arange(5.0)[:, None], labels)
    passed.record(nn.Sequential(nn.Flatten(), Lookup(outputs)))
    reused = AccessibilityRecorder(None, labels)
    for index in (torch.tensor([4, 1]), torch.tensor([0, 2, 3])):
        reused.batch(outputs[index], index)
    reused.end_epoch()
    assert torch.equal(passed.history().bits, reused.history().bits)


@given(
    n=st.integers(1, 9),
    k=st.integers(1, 4),
    epochs=st.integers(1, 4),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_margins_and_el2n_equal_their_definitions_however_they_are_recorded(n, k, epochs, seed, data):
    generator = torch.Generator().manual_seed(seed)
    outputs = [torch.randn(n, k, generator=generator, dtype=torch.float64) for _ in range(epochs)]
    labels = torch.randint(0, max(k, 2), (n,), generator=generator)
    chosen = data.draw(st.lists(st.integers(1, epochs), min_size=1, unique=True))
    options = {"keep_margins": True, "el2n_epochs": chosen}
    passed = AccessibilityRecorder(torch.arange(float(n))[:, None], labels, batch_size=2, **options)
    reused = AccessibilityRecorder(None, labels, **options)
    for scores in outputs:
        passed.record(Lookup(scores))
        for index in torch.split(torch.randperm(n, generator=generator), 4):
            reused.batch(scores[index], index)
        reused.end_epoch()
    for recorder in (passed, reused):
        torch.testing.assert_close(recorder.mean_margin, reference.mean_margin(outputs, labels.tolist()))
        torch.testing.assert_close(recorder.el2n, reference.el2n(outputs, labels.tolist(), chosen))


@pytest.mark.parametrize(
    "labels", [[0, 1, 1], (0, 1, 1), np.array([0, 1, 1], dtype=np.uint8), np.array([False, True, True])]
)
def test_labels_may_be_lists_and_arrays(labels):
    recorder = AccessibilityRecorder(torch.eye(3)[:, :2], labels)
    recorder.record(nn.Identity())
    assert recorder.history().scores.tolist() == [1.0, 1.0, 0.0]


class Returns(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, x):
        return self.form(x)


@pytest.mark.parametrize(
    "form",
    [
        lambda x: {"features": torch.ones(len(x), 5), "logits": x},
        lambda x: {"scores": x, "name": "mine"},
        lambda x: (x, torch.ones(len(x), 7)),
        lambda x: ["mine", x],
    ],
)
def test_models_may_return_dictionaries_and_sequences(form):
    recorder = AccessibilityRecorder(torch.eye(3), [0, 1, 1])
    recorder.record(Returns(form))
    recorder.batch(form(torch.eye(3)), [0, 1, 2])
    recorder.end_epoch()
    assert recorder.history().scores.tolist() == [1.0, 1.0, 0.0]


def test_an_example_never_seen_has_no_margin():
    recorder = AccessibilityRecorder(None, [0, 1], keep_margins=True)
    recorder.batch(torch.tensor([[3.0, 1.0]]), [0])
    recorder.end_epoch()
    assert recorder.mean_margin[0] == 2
    assert recorder.mean_margin[1].isnan()


def test_margins_survive_a_checkpoint():
    first = AccessibilityRecorder(torch.eye(2), [0, 0], keep_margins=True, el2n_epochs=[2])
    first.record(nn.Identity())
    second = AccessibilityRecorder(torch.eye(2), [0, 0], keep_margins=True, el2n_epochs=[2])
    second.load_state_dict(first.state_dict())
    for recorder in (first, second):
        recorder.record(nn.Linear(2, 2, bias=False, dtype=torch.float32).requires_grad_(False))
    assert second.mean_margin.isfinite().all()
    assert second.el2n.isfinite().all()
    plain = AccessibilityRecorder(torch.eye(2), [0, 0])
    with pytest.raises(InvalidInput, match="no margin and no el2n"):
        second.load_state_dict(plain.state_dict())


def test_the_record_is_exported_as_a_table(tmp_path):
    recorder = AccessibilityRecorder(torch.eye(3), [0, 1, 1], keep_margins=True, el2n_epochs=[1])
    recorder.record(nn.Identity())
    path = recorder.write_csv(tmp_path / "record.csv", files=["=a.png", "b.png", "c.png"])
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["index", "file", "label", "accessibility", "forgetting", "margin", "el2n"]
    assert [row["file"] for row in rows] == ["'=a.png", "b.png", "c.png"]
    assert [float(row["accessibility"]) for row in rows] == [1, 1, 0]
    assert [float(row["margin"]) for row in rows] == [1, 1, -1]
    assert [float(row["el2n"]) for row in rows] == recorder.el2n.tolist()


class Lookup(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = table

    def forward(self, x):
        return self.table[x[:, 0].long()]


def test_one_output_is_a_score_for_class_one():
    recorder = AccessibilityRecorder(torch.tensor([[-1.0], [2.0]]), torch.tensor([0, 0]))
    recorder.record(nn.Identity())
    assert recorder.history().scores.tolist() == [1.0, 0.0]


def test_recording_leaves_modes_as_they_were():
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2))
    model[1].eval()
    AccessibilityRecorder(torch.zeros(3, 2), torch.zeros(3).long()).record(model)
    assert model[0].training
    assert not model[1].training


def data_set(n=40):
    generator = torch.Generator().manual_seed(1)
    return ImageData(torch.rand(n, 1, 4, 4, generator=generator), torch.arange(n) % 3, ("a", "b", "c"))


def test_a_training_stopped_and_continued_leaves_the_same_record(tmp_path):
    data = data_set()
    spec = ModelSpec(name="fcn", classes=3, shape=(1, 4, 4), options={"units": 8})
    recipe = Recipe(lr=0.5, batch_size=8, epochs=6)

    def run(checkpoint, stop_at=None):
        model = spec(0)
        recorder = AccessibilityRecorder(data.x, data.y, every=5)

        def stop(step, model):
            if step == stop_at:
                raise KeyboardInterrupt

        train(
            model,
            data.x,
            data.y,
            recipe,
            observers=[recorder, stop],
            checkpoint=checkpoint,
            checkpoint_seconds=0.0,
            show=False,
        )
        return recorder.state_dict()

    whole = run(None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "c.safetensors", stop_at=17)
    continued = run(tmp_path / "c.safetensors")
    assert torch.equal(whole["bits"], continued["bits"])
    assert whole["bits"].shape[0] == 6


def test_an_epoch_half_filled_survives_a_checkpoint():
    labels = torch.tensor([0, 1, 1])
    outputs = torch.eye(2)[labels]
    first = AccessibilityRecorder(None, labels)
    first.batch(outputs[:1], torch.tensor([0]))
    second = AccessibilityRecorder(None, labels)
    second.load_state_dict(first.state_dict())
    second.batch(outputs[1:], torch.tensor([1, 2]))
    second.end_epoch()
    assert second.history().scores.tolist() == [1, 1, 1]


def test_ensembles_are_recorded_epoch_by_epoch():
    data = data_set()
    spec = ModelSpec(name="fcn", classes=3, shape=(1, 4, 4), options={"units": 8})
    recipe = Recipe(lr=0.1, batch_size=16, epochs=3)
    nets = train_ensemble(spec, 2, data, recipe, observe=RecordAccessibility(data.x, data.y), show=False)
    history = history_of([net.records[0] for net in nets])
    assert (history.n_networks, history.n_epochs, history.n_examples) == (2, 3, 40)
    last = nets[0].into(spec(0)).eval()(data.x).argmax(1) == data.y
    assert torch.equal(history.correct[0, -1], last)


def test_the_callback_answers_every_hook_that_lightning_calls():
    model = nn.Linear(2, 2)
    recorder = AccessibilityRecorder(torch.zeros(3, 2), torch.zeros(3).long())
    callback = AccessibilityCallback(recorder)
    for hook in ("setup", "on_fit_start", "on_train_start", "on_train_epoch_start", "on_before_zero_grad"):
        getattr(callback, hook)("trainer", model)
    callback.on_train_epoch_end("trainer", model)
    callback.teardown("trainer", model, stage="fit")
    other = AccessibilityCallback(AccessibilityRecorder(torch.zeros(3, 2), torch.zeros(3).long()))
    other.load_state_dict(callback.state_dict())
    assert other.recorder.history().n_epochs == 1
    with pytest.raises(AttributeError):
        callback.forward  # noqa: B018


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: AccessibilityRecorder(torch.zeros(3, 2), torch.zeros(4).long()), "must match"),
        (lambda: AccessibilityRecorder(None, torch.zeros(4).long()).history(), "at least one"),
        (lambda: AccessibilityRecorder(None, torch.zeros(4).long()).end_epoch(), "follow"),
        (
            lambda: AccessibilityRecorder(None, torch.zeros(4).long()).record(nn.Identity()),
            "needs the examples",
        ),
        (lambda: history_of([]), "at least one"),
        (
            lambda: AccessibilityRecorder(torch.full((1, 2), torch.nan), torch.zeros(1).long()).record(
                nn.Identity()
            ),
            "NaN",
        ),
        (lambda: AccessibilityRecorder(None, ["cat", "dog"]), "class numbers"),
        (lambda: AccessibilityRecorder(None, np.array([0.5, 1.0])), "class numbers"),
        (lambda: AccessibilityRecorder(None, [-1, 0]), "got -1"),
        (lambda: AccessibilityRecorder(None, [0, 5]).batch(torch.eye(2), [0, 1]), "number of outputs, 2"),
        (lambda: AccessibilityRecorder(None, [0, 1]).batch(torch.eye(2), [0]), "one row per example"),
        (lambda: AccessibilityRecorder(None, [0, 1]).batch(torch.eye(2), [0, 2]), "`index` must lie"),
        (
            lambda: AccessibilityRecorder(None, [0]).batch({"a": torch.eye(1), "b": torch.eye(1)}, [0]),
            "logits",
        ),
        (lambda: AccessibilityRecorder(None, [0]).batch("words", [0]), "got str"),
        (lambda: AccessibilityRecorder(None, [0]).mean_margin, "keep_margins=True"),
        (lambda: AccessibilityRecorder(None, [0], el2n_epochs=[0]), "counted from 1"),
    ],
)
def test_bad_input_is_refused_in_words(act, words):
    with pytest.raises(InvalidInput, match=words):
        act()
