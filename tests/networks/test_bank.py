"""The bank: networks are trained, kept, read back and checked; on a kind small enough for a test."""

import errno
import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight.cli.main import app
from firstlight.data import load
from firstlight.models import ModelSpec, build, parameter_count
from firstlight.networks import bank
from firstlight.networks import definitions as definitions_module
from firstlight.networks import training as training_module
from firstlight.networks.bank import load_network, network_at, network_names
from firstlight.networks.definitions import KINDS, definition
from firstlight.networks.history import TrainingRecord, kept_steps, packed, unpacked
from firstlight.networks.training import check_network, train_network
from firstlight.questions.compare.command import checkpoint_files
from firstlight.training import train_on

TINY = definitions_module.Definition(
    kind="tiny-photos",
    spec=ModelSpec(name="small", options={"batch_norm": True, "width": 0.1}),
    data="photos",
    recipe=replace(definitions_module.PLAIN, epochs=4, batch_size=16, lr=0.05),
    n_images=60,
    n_moments=3,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    classes = load("photos", "train").n_classes
    monkeypatch.setitem(KINDS, "tiny-photos", replace(TINY, spec=replace(TINY.spec, classes=classes)))
    monkeypatch.setitem(definitions_module.SCALING, "photos", ((0.5,), (0.25,)))
    monkeypatch.setitem(definitions_module.LICENCES, "photos", "free")
    monkeypatch.setenv("FIRSTLIGHT_NETWORKS", str(tmp_path / "bank"))
    return tmp_path / "bank"


def test_a_network_is_what_its_card_says(folder):
    trained = train_network("tiny-photos-3", show=False)
    network = load_network("networks:tiny-photos-3")
    assert "tiny-photos-3" in network_names()
    assert network.card == trained.card
    assert network.moments == (1, 16)  # of so short a training two of the three moments coincide
    images = network.training_data()
    with torch.no_grad():
        hits = network.model(images.x).argmax(1) == images.y
    assert float(hits.double().mean()) == pytest.approx(network.card["accuracies"]["16"]["train"], abs=1e-6)
    assert network.correct.shape == (4, 60)
    steps, film = network.film
    assert int(steps[0]) == 0
    torch.testing.assert_close(film[0], network.initial[0].weight.detach(), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(film[-1], network.model[0].weight.detach(), rtol=0, atol=0)
    assert len(network.losses) == 16
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["tiny-photos-3"]
    assert not list(folder.glob("*.checkpoint*"))
    assert check_network("tiny-photos-3", steps=5).faults == ()
    assert check_network("tiny-photos-3", whole=True).loss_error == 0


def test_the_record_of_images_is_what_a_second_look_gives(folder):
    """Bits after the last epoch are those of the weights in single precision, before they are rounded."""
    train_network("tiny-photos-0", show=False)
    network = load_network("tiny-photos-0")
    images, model = network.training_data(), network.initial.train()
    train_on(model, images, replace(network.definition.recipe, seed=0), fused=True, show=False)
    model.eval()
    with torch.no_grad():
        assert torch.equal(network.correct[-1], model(images.x).argmax(1) == images.y)


def test_an_interrupted_training_ends_with_the_same_bits(folder, monkeypatch):
    whole = train_network("tiny-photos-1", show=False)
    expected = {name: (whole.folder / name).read_bytes() for name in ("weights.safetensors",)}
    kept = whole.card["files"]
    original, calls = TrainingRecord.__call__, []

    def interrupted(self, step, model):
        original(self, step, model)
        calls.append(step)
        if len(calls) == 10:
            raise KeyboardInterrupt

    monkeypatch.setattr("firstlight.networks.training.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(TrainingRecord, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_network("tiny-photos-1", again=True, show=False)
    assert (folder / ".tiny-photos-1.checkpoint").exists()
    assert (whole.folder / "card.json").exists()  # the network that is there stays until the other is done
    again = train_network("tiny-photos-1", again=True, show=False)
    assert len(calls) < 10 + 17  # it went on, and did not begin anew
    assert again.card["files"] == kept
    assert all((again.folder / name).read_bytes() == content for name, content in expected.items())


def test_the_old_network_stays_until_the_new_one_is_written(folder, monkeypatch):
    first = train_network("tiny-photos-3", show=False)

    def fail(path, card):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as full:
        full.setattr(training_module, "write_card", fail)
        with pytest.raises(StoreProblem, match="the disk is full"):
            train_network("tiny-photos-3", again=True, show=False)
    assert load_network("tiny-photos-3").card == first.card
    assert not list(folder.glob("*.part"))


def test_a_checkpoint_of_a_network_that_is_whole_does_not_stay(folder):
    """As a process leaves it that is killed when the network just got its name."""
    train_network("tiny-photos-3", show=False)
    for name in (".tiny-photos-3.checkpoint", ".tiny-photos-3.checkpoint.before"):
        (folder / name).touch()
    with pytest.raises(InvalidInput, match="already"):
        train_network("tiny-photos-3", show=False)
    assert [path.name for path in folder.iterdir()] == ["tiny-photos-3"]


def test_a_changed_file_or_card_is_refused(folder):
    network = train_network("tiny-photos-2", show=False)
    card = network.folder / "card.json"
    text = card.read_text()
    body = json.loads(text)
    body["accuracies"]["16"]["test"] = 0.99
    card.write_text(json.dumps(body))
    with pytest.raises(InvalidInput, match="changed after it was written"):
        load_network("tiny-photos-2")
    card.write_text(text)
    weights = network.folder / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0\1")
    with pytest.raises(StoreProblem, match="changed after it was written"):
        _ = load_network("tiny-photos-2").model


def test_a_network_that_is_not_its_card_fails_the_check(folder):
    train_network("tiny-photos-4", show=False)
    path = folder / "tiny-photos-4" / "card.json"
    card = bank.read_card(path)
    card["initial_sha256"] = "0" * 64
    card["accuracies"]["16"]["test"] = 0.123
    bank.write_card(path, card)
    assert len(check_network("tiny-photos-4", steps=2).faults) == 2


def test_random_labels_are_drawn_from_the_seed_and_kept_apart_from_the_true_ones(folder, monkeypatch):
    monkeypatch.setitem(KINDS, "tiny-photos", replace(KINDS["tiny-photos"], random_labels=True))
    kind = KINDS["tiny-photos"]
    first, same, other = kind.training_data(0), kind.training_data(0), kind.training_data(1)
    assert torch.equal(first.y, same.y)
    assert not torch.equal(first.y, other.y)
    true = load("photos", "train").sample(60, seed=0)
    assert 0 < float((first.y == true.y).double().mean()) < 0.6


@pytest.mark.parametrize(
    ("name", "message"),
    [("resnet20-cifar10", "seed"), ("resnet21-cifar10-0", "resnet20-cifar10"), ("../x-0", "kind of network")],
)
def test_names_that_mean_nothing_are_refused(name, message):
    with pytest.raises(InvalidInput, match=message):
        load_network(name)


def test_a_network_that_was_not_trained_says_how_to_train_it(folder):
    with pytest.raises(InvalidInput, match="networks train tiny-photos-7"):
        load_network("tiny-photos-7")


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_can_be_built_and_its_frozen_layers_exist(kind):
    one, _ = definition(f"{kind}-0")
    model = one.spec(0)
    assert parameter_count(model) <= 1_500_000
    assert one.recipe.build_optimiser(model, fused=True).param_groups
    shape = one.spec.shape
    assert model.eval()(torch.zeros(2, *shape)).shape == (2, 10)


def test_resnet20_has_its_published_size():
    assert parameter_count(build("resnet20")) == pytest.approx(0.27e6, rel=0.02)


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_bits_come_back(bits):
    assert unpacked(packed(torch.tensor(bits)), len(bits)).tolist() == bits


@given(st.integers(1, 20_000), st.integers(1, 12))
def test_moments_end_with_the_last_step(total, count):
    steps = kept_steps(total, count)
    assert steps[-1] == total
    assert 1 <= len(steps) <= count
    assert list(steps) == sorted(set(steps))


def test_commands_take_a_network_of_the_bank_with_its_initial_weights_and_scaling(folder, tmp_path, capsys):
    train_network("tiny-photos-0", show=False)
    with pytest.raises(SystemExit) as done:
        app([
            "inspect", "networks:tiny-photos-0", "--data", "photos", "--split", "train", "--n", "8", "--json",
            "--output", str(tmp_path / "inspect.html"),
        ])  # fmt: skip
    assert not done.value.code
    told = json.loads(capsys.readouterr().out)
    network = load_network("tiny-photos-0")
    images = load("photos", "train", at_most=1000, seed=0).scaled(**network.scaling)
    with torch.no_grad():
        hits = network.model(images.x).argmax(1) == images.y
    assert told["accuracy"] == pytest.approx(float(hits.double().mean()))
    weights = [dict(model.named_parameters()) for model in (network.model, network.initial)]
    assert told["movement"] > 0
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert checkpoint_files(("networks:tiny-photos-0",)) == {
        "step 1": "networks:tiny-photos-0@1", "step 16": "networks:tiny-photos-0@16"
    }  # fmt: skip
    assert torch.equal(
        network_at("networks:tiny-photos-0@1")[1][0].weight, load_network("tiny-photos-0").at(1)[0].weight
    )
    with pytest.raises(InvalidInput, match="steps 1, 16"):
        network_at("networks:tiny-photos-0@3")
    with pytest.raises(InvalidInput, match="number of steps"):
        network_at("networks:tiny-photos-0@last")
