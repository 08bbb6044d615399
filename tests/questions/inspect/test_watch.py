"""A watched training is the same training, and what is logged is what the weights say."""

import csv
import json
import logging
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import firstlight
from firstlight import models
from firstlight._internal.errors import InvalidInput
from firstlight.data import load
from firstlight.training import Recipe, train_on

ALWAYS = 1e9  # a budget that never makes a measurement wait


@pytest.fixture(scope="module")
def photos():
    return load("photos", split="train", n=16)


def network():
    return models.build("small", classes=8, width=0.2, seed=0)


def trained(photos, steps=6, watched=None, lr=0.1):
    """A plain loop, with dropout so that stray random numbers would show."""
    torch.manual_seed(0)
    model = nn.Sequential(*network(), nn.Dropout(0.1))
    watcher = watched(model) if watched else None
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(photos.x), photos.y).backward()
        optimiser.step()
        if watcher:
            watcher()
    return model


def test_a_watched_training_has_the_same_bits_and_a_line_per_measurement(photos, tmp_path):
    file = tmp_path / "watch.jsonl"
    alone = trained(photos)
    watched = trained(photos, watched=lambda m: firstlight.watch(m, file, photos, every=2, budget=ALWAYS))
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), watched.parameters(), strict=True))
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 2, 4, 6]
    assert len(rows[-1]) - 1 == 9
    initial = network()
    moved = sum(
        (a - b).square().sum() for a, b in zip(watched.parameters(), initial.parameters(), strict=True)
    )
    size = sum(p.detach().square().sum() for p in initial.parameters())
    assert rows[0]["movement"] == 0
    assert rows[-1]["movement"] == pytest.approx(float((moved / size).sqrt()), rel=1e-5)
    assert rows[0]["profile_and_initial"] == pytest.approx(1)
    inspection = firstlight.inspect(watched, photos, n_images=16)
    assert rows[-1]["dead_filters"] == len(inspection.faults[0].dead)
    assert rows[-1]["ansatz"] == pytest.approx(inspection.ansatz.rows[0].pearson, rel=1e-4)


def test_without_images_four_numbers_come_from_the_weights(photos, tmp_path):
    file = tmp_path / "watch.csv"

    def watched(model):
        with torch.no_grad():
            model[0].weight[3] = 0
        return firstlight.watch(model, str(file), every=3, budget=ALWAYS)

    trained(photos, steps=3, watched=watched, lr=0.0)
    rows = list(csv.DictReader(file.open()))
    assert [row["step"] for row in rows] == ["0", "3"]
    assert list(rows[0]) == [
        "step",
        "movement",
        "first_layer_movement",
        "first_layer_zero_filters",
        "first_layer_rank",
    ]
    assert rows[1]["first_layer_zero_filters"] == "1.0"


def test_measurements_wait_until_the_budget_covers_them(photos):
    steps = []
    trained(
        photos, watched=lambda m: firstlight.watch(m, lambda s, v: steps.append(s), every=1, budget=1e-12)
    )
    assert steps == [0]


def test_a_training_that_diverges_is_not_ended(photos):
    rows = []
    trained(
        photos,
        steps=4,
        lr=1e30,
        watched=lambda m: firstlight.watch(m, lambda s, v: rows.append(v), photos, every=1, budget=ALWAYS),
    )
    assert math.isnan(rows[-1]["firstlight/movement"])


class Board:
    def __init__(self):
        self.rows = {}


class TensorBoard(Board):
    def add_scalar(self, tag, scalar_value, global_step=None):
        self.rows[tag, global_step] = scalar_value


class MLflow(Board):
    def log_metric(self, key, value, step=None):
        self.rows[key, step] = value


class Lightning(Board):
    def log_metrics(self, metrics, step=None):
        self.rows |= {(name, step): value for name, value in metrics.items()}


class WeightsAndBiases(Board):
    def log(self, data, step=None, commit=None):
        self.rows |= {(name, data["firstlight/step"]): value for name, value in data.items()}


@pytest.mark.parametrize("kind", [TensorBoard, MLflow, Lightning, WeightsAndBiases])
def test_loggers_are_known_by_what_they_can_do(kind):
    board, model = kind(), nn.Conv2d(3, 4, 3)
    watcher = firstlight.watch(model, board, every=1, budget=ALWAYS)
    with torch.no_grad():
        model.weight.mul_(2)
        model.bias.mul_(2)
    watcher(7)
    assert board.rows["firstlight/movement", 0] == 0
    assert board.rows["firstlight/movement", 7] == pytest.approx(1)
    assert len({name for name, _ in board.rows} - {"firstlight/step"}) <= 10


def test_real_tensorboard_gets_the_numbers(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        firstlight.watch(nn.Conv2d(3, 4, 3), writer)
    assert any(tmp_path.iterdir())


def test_lightning_and_hugging_face_call_it_by_their_hooks():
    steps = []
    watcher = firstlight.watch(nn.Conv2d(3, 4, 3), lambda s, v: steps.append(s), every=2, budget=ALWAYS)
    watcher.setup("trainer", None, stage="fit")
    watcher.on_train_start("trainer", None)
    for step in (1, 1, 2, 2, 3, 4):  # two batches are one step while gradients accumulate
        watcher.on_train_batch_end(
            SimpleNamespace(global_step=step, is_global_zero=True), None, None, None, 0
        )
    assert watcher.state_dict() == {}
    watcher.on_init_end(None, None, None)
    for step in (5, 6):
        watcher.on_step_end(
            None, SimpleNamespace(global_step=step, is_world_process_zero=True), None, model=None
        )
    watcher.on_step_end(None, SimpleNamespace(global_step=9, is_world_process_zero=False), None)
    assert steps == [0, 2, 4, 6]
    with pytest.raises(AttributeError):
        watcher.forward  # noqa: B018


def test_real_lightning_trains_with_it(photos):
    import pytorch_lightning as lightning

    steps, net = [], network()

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def training_step(self, batch, index):
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    watcher = firstlight.watch(net, lambda s, v: steps.append(s), every=1, budget=ALWAYS)
    trainer = lightning.Trainer(max_steps=2, callbacks=[watcher], logger=False, enable_checkpointing=False)
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.utils.data.TensorDataset(photos.x, photos.y), 8))
    assert steps == [0, 1, 2]


def test_it_observes_our_own_loop(photos):
    steps, model = [], network()
    watcher = firstlight.watch(model, lambda s, v: steps.append(s), every=1, budget=ALWAYS)
    train_on(model, photos, Recipe(lr=0.1, batch_size=8, epochs=1), observers=[watcher], show=False)
    assert steps[-1] == 2


@pytest.mark.parametrize(
    ("logger", "options", "words"),
    [
        ("watch.txt", {}, "ends in .csv or .jsonl"),
        (3, {}, "add_scalar"),
        (logging.getLogger("x"), {}, "takes words"),
        (print, {"every": 0}, "must be positive"),
        (print, {"budget": math.nan}, "must be positive"),
    ],
)
def test_loggers_and_settings_that_mean_nothing_are_refused(logger, options, words):
    with pytest.raises(InvalidInput, match=words):
        firstlight.watch(nn.Conv2d(3, 4, 3), logger, **options)
