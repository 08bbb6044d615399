"""Ten files and folders that 0.1.0 wrote: each is read, or refused in one line that says how to make it again.

They were written by commit 97bb44a; of each ledger one claim was kept.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight._internal.store import Store
from firstlight._internal.tensor_files import load_sealed
from firstlight.data import cache
from firstlight.estimators.saving import load_machine
from firstlight.training import Recipe, loop
from firstlight.training.checkpoint import load_checkpoint
from reproduce.entries import read_entries

OLD = Path(__file__).parent / "written_by_0_1_0"


def images():
    return torch.rand(8, 1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2


def test_there_are_ten():
    assert len(list(OLD.iterdir())) == 10


def test_a_run_that_names_the_module_of_its_result_is_read(tmp_path):
    shutil.copytree(OLD / "8f002fc1efc00caf", tmp_path / "8f002fc1efc00caf")
    history = Store(tmp_path).load("8f002fc1efc00caf").result["history"]
    assert isinstance(history, loop.History)
    assert history.loss.tolist() == [1.0, 0.5]


def test_a_run_of_plain_values_is_read(tmp_path):
    shutil.copytree(OLD / "dd460354b6b54cea", tmp_path / "dd460354b6b54cea")
    run = Store(tmp_path).load("dd460354b6b54cea")
    assert (run.spec.config, run.spec.version) == ({"lr": 0.1, "size": (3, 3)}, "0.1.0")
    assert run.result["nested"][0].tolist() == [1.0, 1.0]
    assert run.result["nested"][1:] == [None, float("inf")]


@pytest.mark.parametrize("name", ["training.checkpoint", "training.checkpoint.before"])
def test_a_checkpoint_is_refused_in_one_line_that_says_to_train_from_the_start(tmp_path, name):
    """It is intact, but its settings are not all that a training has today."""
    assert load_checkpoint(OLD / name, identity=load_sealed(OLD / name).words["identity"])
    shutil.copy(OLD / name, tmp_path / "checkpoint")
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
    recipe = Recipe(lr=0.1, momentum=0.9, batch_size=4, epochs=4)
    with pytest.raises(InvalidInput, match=r"another training or version.*Remove it to train from") as caught:
        loop.train(model, *images(), recipe, checkpoint=tmp_path / "checkpoint", show=False)
    assert "\n" not in str(caught.value)


def test_saved_weights_are_read():
    weights = load_sealed(OLD / "trained.safetensors").tensors
    assert {name: tuple(value.shape) for name, value in weights.items()} == {
        "1.bias": (2,),
        "1.weight": (2, 16),
    }


@pytest.mark.parametrize(
    ("name", "first"),
    [("ConvRFMClassifier", [-0.8352998, 0.81758551, -0.91562848]),
     ("CNTKClassifier", [-0.9797403, 0.97877004, -0.9906323])],
)  # fmt: skip
def test_a_saved_machine_decides_as_it_did(name, first):
    machine = load_machine(OLD / name)
    decisions = machine.decision_function(images()[0].numpy().reshape(8, -1))
    np.testing.assert_allclose(decisions[:3], first, rtol=1e-5)


def test_a_cached_data_set_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_DATA", str(tmp_path))
    shutil.copytree(OLD / "toy", tmp_path / "toy")
    split = cache.read_cache("toy", "train")
    assert split.classes == ("cat", "dog")
    assert torch.equal(split.x, (images()[0] * 255).byte())


@pytest.mark.parametrize("scale", ["desk", "night"])
def test_a_ledger_is_refused_in_one_line_that_says_to_record_it_again(scale):
    with pytest.raises(StoreProblem, match=r"is of another version.*Record it again\.") as caught:
        read_entries(OLD / f"ledger-{scale}.json")
    assert "\n" not in str(caught.value)
