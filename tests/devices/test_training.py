"""Training elsewhere: the same weights, order and records as on the CPU, and everything comes back."""

import pytest
import torch
from torch import nn

import firstlight
from devices import second_device
from firstlight._internal.devices import device_of
from firstlight._internal.errors import InvalidInput
from firstlight._internal.executor import _on_this_device, default_jobs, map_tasks
from firstlight._internal.store import RunSpec, Store
from firstlight._internal.tensor_files import load_tensors
from firstlight.cli.main import main
from firstlight.data import ImageData
from firstlight.measures.learning_order.accessibility import AccessibilityRecorder, RecordAccessibility
from firstlight.models import ModelSpec, build, linearize
from firstlight.training import (
    Recipe,
    Snapshots,
    accuracy,
    predictions,
    train,
    train_ensemble,
    train_on,
    train_once,
)
from firstlight.training.recipe import OPTIMISERS
from reproduce.studies.learning_order.compact_representation import CompactRecorder

SHAPE = (1, 6, 6)
SPEC = ModelSpec(name="fcn", classes=3, shape=SHAPE, options={"units": 5})
SHORT = Recipe(epochs=2, batch_size=8, lr=0.1, momentum=0.9)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    return ImageData(torch.rand(20, *SHAPE, generator=generator), torch.arange(20) % 3, ("a", "b", "c"))


def equal(one: nn.Module, two: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), two.state_dict().values(), strict=True)
    return all(torch.equal(a.cpu(), b.cpu()) for a, b in pairs)


@pytest.mark.parametrize("optimiser", list(OPTIMISERS))
@pytest.mark.parametrize("batch_size", [8, None])
def test_one_step_equals_that_of_the_cpu(second, data, optimiser, batch_size):
    here, there = SPEC(0), SPEC(0).to(second)
    recipe = Recipe(optimiser=optimiser, steps=1, batch_size=batch_size, loss="mse")
    losses = [train_on(model, data, recipe, show=False).loss for model in (here, there)]
    assert equal(here, there)
    assert torch.equal(*losses)
    assert device_of(there) == second


def test_an_epoch_with_observers_equals_that_of_the_cpu(single, data):
    def watched(model, **where):
        observers = [
            AccessibilityRecorder(data.x, data.y, every=3, keep_margins=True, el2n_epochs=(1,)),
            Snapshots(
                ["layers.0.weight"]
                if "layers.0.weight" in model.state_dict()
                else [next(iter(model.state_dict()))]
            ),
        ]
        train_on(model, data, SHORT, observers=observers, show=False, **where)
        return [o.state_dict() for o in observers]

    on_cpu, elsewhere = watched(SPEC(0)), watched(model := SPEC(0), device=single.type)
    assert device_of(model).type == "cpu"  # given back
    for one, two in zip(on_cpu, elsewhere, strict=True):
        assert one.keys() == two.keys()
        assert all(torch.equal(one[name], two[name]) for name in one)


def test_compact_representation_is_recorded_elsewhere(second, data):
    records = []
    for device in ("cpu", second):
        recorder = CompactRecorder(SHAPE, steps=(0, 2))
        linear = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
        with torch.no_grad():
            linear[1].weight.copy_(torch.arange(108.0).reshape(3, 36) / 100)
            linear[1].bias.zero_()
        train_on(linear, data, SHORT, observers=[recorder], show=False, device=device)
        records.append(recorder.state_dict())
    assert all(torch.equal(records[0][name], records[1][name]) for name in records[0])


def test_a_training_goes_on_elsewhere_from_its_checkpoint(second, data, tmp_path):
    class Stop(Exception):
        pass

    def stop(step, model):
        if step == 4:
            raise Stop

    file = tmp_path / "checkpoint.safetensors"
    whole, broken = SPEC(0), SPEC(0)
    settings = {"checkpoint_seconds": 0.0, "show": False, "device": second}
    train_on(whole, data, SHORT, **settings)
    with pytest.raises(Stop):
        train_on(broken, data, SHORT, checkpoint=file, observers=[stop], **settings)
    resumed = SPEC(0)
    history = train_on(resumed, data, SHORT, checkpoint=file, **settings)
    assert len(history.loss) == 6
    assert equal(whole, resumed)


def test_a_member_of_an_ensemble_has_the_weights_of_the_cpu_and_a_name_of_its_own(second, data, tmp_path):
    store = Store(tmp_path)
    observe = RecordAccessibility(data.x, data.y)
    here = train_once(SPEC, data, SHORT, observe=observe, store=store)
    with firstlight.computing_on("second"):
        there = train_once(SPEC, data, SHORT, observe=observe, store=store)
    for part in ("weights", "initial"):
        one, two = getattr(here, part), getattr(there, part)
        assert all(torch.equal(one[name], two[name]) for name in one)
        assert {value.device.type for value in two.values()} == {"cpu"}
    assert torch.equal(here.records[0]["bits"], there.records[0]["bits"])
    assert sorted(store.load(id).environment["device"] for id in store.ids()) == ["cpu", "second"]


def test_an_ensemble_takes_the_device_of_the_block(second, data):
    with firstlight.computing_on("auto") as device:
        nets = train_ensemble(SPEC, 2, data, SHORT, show=False)
    assert device == second
    on_cpu = train_ensemble(SPEC, 2, data, SHORT, show=False)
    assert all(
        torch.equal(a.weights[name], b.weights[name])
        for a, b in zip(nets, on_cpu, strict=True)
        for name in a.weights
    )


def test_names_of_runs_on_the_cpu_do_not_change(second):
    plain = RunSpec(what="test", config={"a": 1}, data="d")
    assert plain.id == RunSpec(what="test", config={"a": 1}, data="d", device="cpu").id
    with firstlight.computing_on("second"):
        assert RunSpec(what="test", config={"a": 1}, data="d").id != plain.id
    with firstlight.computing_on("cpu"):
        assert RunSpec(what="test", config={"a": 1}, data="d").id == plain.id


def test_a_linearised_step_equals_that_of_the_cpu(second, data):
    steps = Recipe(steps=2, batch_size=8, loss="mse_sum", lr=0.01)
    here, there = linearize(SPEC(0)), linearize(SPEC(0).to(second))
    for line in (here, there):
        train_on(line, data, steps, show=False)
    moved = linearize(SPEC(0))
    train_on(moved, data, steps, show=False, device="second")
    assert equal(here, there)
    assert equal(here, moved)
    assert any(bool(u.any()) for u in here.displacement.parameters())


def test_a_network_that_diverges_is_given_back(second, data):
    model = SPEC(0)
    with pytest.raises(firstlight._internal.errors.Diverged):
        train_on(model, data, Recipe(steps=40, lr=1e30), show=False, device="second")
    assert device_of(model).type == "cpu"


def test_predictions_and_accuracy_come_back(single, data):
    model = SPEC(0)
    expected = predictions(model, data.x), accuracy(model, data)
    model.to(single)
    answers = predictions(model, data.x)
    assert answers.device.type == "cpu"
    assert torch.equal(answers, expected[0])
    assert accuracy(model, data) == expected[1]


def test_dropout_leaves_the_random_numbers_of_the_caller(second, data):
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, 3))
    state = torch.get_rng_state()
    train(model, data.x, data.y, SHORT, show=False, device=second)
    assert torch.equal(torch.get_rng_state(), state)


def test_processes_compute_on_the_device_of_their_parent(second, monkeypatch):
    with firstlight.computing_on("second"):
        assert (
            map_tasks(second_device.Where(), [0, 1], label="Where", n_jobs=2, show=False)
            == [("second:0", 2.0)] * 2
        )
        monkeypatch.delenv("FIRSTLIGHT_JOBS")
        assert default_jobs() == 1  # processes would share its memory


def test_a_process_without_the_device_says_so(second):
    with firstlight.computing_on("second"):
        task = _on_this_device(str)
    second_device.MODULE.is_there = False
    with pytest.raises(
        InvalidInput, match=r"`device` must be auto, cpu, cuda or mps; second is not available"
    ):
        task(0)


def test_weights_of_a_seed_are_those_of_the_cpu(second):
    assert equal(build("small", seed=3), build("small", seed=3, device=second))


def test_a_command_trains_elsewhere(second, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    files = []
    for device in ("cpu", "second"):
        words = f"train --arch fcn --n 16 --epochs 1 --device {device} -o {device}.safetensors"
        monkeypatch.setattr("sys.argv", ["firstlight", *words.split()])
        with pytest.raises(SystemExit, match="0"):
            main()
        files.append(load_tensors(tmp_path / f"{device}.safetensors").tensors)
    assert all(torch.equal(files[0][name], files[1][name]) for name in files[0])
    assert sorted(Store().load(id).environment["device"] for id in Store().ids()) == ["cpu", "second"]
